"""The life of a study on a fake host and system: order of steps, failures, retries, resume, undo."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lab_fakes import CACHE, POOL, FakeHost, FakeSystem, failing

from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.host import process
from leadline.host.journal import UndoJournal
from leadline.load.cluster.run import read_drivers
from leadline.model.errors import FailureClass, RestoreError, TrialFailure, UsageError
from leadline.model.record import AuditRecord, Reading
from leadline.store.claims import InUseError, in_use, is_used
from leadline.store.lab import Store
from leadline.trial import drivers
from leadline.trial.lifecycle import STEPS
from leadline.trial.progress import SilentWatcher
from leadline.trial.run import ATTEMPTS, Clock, RunResult, StudyRun
from leadline.trial.system import Settings

STUDY = """\
study: fake
question: does it?
workload: { users: 5 }
factors:
  server.pool: [10, 2]
  vm.fake_live: [10, 20]
design: { replicates: 2, sentinels: null }
responses: [throughput]
"""


def run(
    tmp_path: Path, system: FakeSystem, text: str = STUDY, budget: float | None = None, **options: Any
) -> tuple[RunResult, Store]:
    file = parse_study(text, "fake.yaml")
    planned = plan_study(file, system.host, [POOL, CACHE])  # type: ignore[arg-type]
    store = Store(tmp_path / "lab")
    study = StudyRun(
        *(file, planned, store, system.host, system, SilentWatcher(), lambda _: nullcontext()),  # type: ignore[arg-type]
        budget=budget,
    )
    return study.execute(**options), store


def test_every_trial_runs_every_step_in_order_and_the_host_is_put_back(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), effect=lambda s, _h: 100.0 + int(s["server.pool"]))
    result, store = run(tmp_path, system)
    record = store.load(result.study_id)
    assert result.complete
    assert not record.failed
    for trial in record.trials:
        assert trial.state == "done"
        assert tuple(step.name for step in trial.steps) == STEPS
        assert all(step.ended is not None for step in trial.steps)
        assert trial.responses["throughput"] == 100.0 + int(trial.planned.treatment["server.pool"])
        assert {"before", "after"} <= {reading.phase for reading in trial.readings}
        assert trial.audits[0].passed
    assert system.host.values["vm.fake_live"] == 10
    assert ("vm.fake_live", 20) in system.host.writes
    phases = [r.phase for trial in record.trials for r in trial.readings if r.knob == "vm.fake_live"]
    assert (phases.count("original"), phases.count("undone")) == (1, 1)
    assert result.restored == ["vm.fake_live is 10 again"]


@pytest.mark.parametrize(
    ("steady", "told", "profiles", "seconds"),
    [("20s", 25, [True, False, True, False], [9.0, 19.0]), ("6s", 11, [True], []), ("20s", 8, [True, False], [])],
    ids=["middle half", "too short", "ends before it"],
)
def test_a_trial_has_a_profile_in_the_middle_half_of_its_steady_phase(
    tmp_path: Path, steady: str, told: int, profiles: list[bool], seconds: list[float]
) -> None:
    system = FakeSystem(FakeHost(), told=told, ramp_up=3)
    text = STUDY.replace("users: 5", f"users: 5, ramp_up: 3s, steady: {steady}")
    result, store = run(tmp_path, system, text)
    assert result.complete
    trials = len(store.load(result.study_id).trials)
    assert system.profiles == profiles * trials, "first set up, before the load"
    assert system.profiled_at == seconds * trials
    none = FakeSystem(FakeHost(), told=told)
    run(tmp_path / "off", none, f"{text}profile: off\n")
    assert not none.profiles


def test_what_observers_lack_in_every_trial_is_told_once_in_a_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    monkeypatch.setattr(SilentWatcher, "message", lambda _, text: messages.append(text))
    monkeypatch.setattr(FakeSystem, "stop_observers", lambda _: ["no series of its pools"])
    result, _ = run(tmp_path, FakeSystem(FakeHost()))
    assert result.complete
    assert messages.count("no series of its pools") == 1


def test_the_host_is_put_back_where_services_cannot_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_system: FakeSystem) -> None:
        raise OSError("no such process")

    system = FakeSystem(FakeHost())
    monkeypatch.setattr(FakeSystem, "stop", stop)
    with pytest.raises(OSError, match="no such process"):
        run(tmp_path, system, STUDY.replace("vm.fake_live: [10, 20]", "vm.fake_live: [20, 30]"))
    assert system.host.writes
    assert system.host.values["vm.fake_live"] == 10


def test_a_run_holds_its_study_and_its_services(tmp_path: Path) -> None:
    held: list[bool] = []

    def effect(_settings: Settings, _host: FakeHost) -> float:
        used = [is_used(tmp_path / "lab", name) for name in ("study-1", "services-fake")]
        with pytest.raises(InUseError), in_use(tmp_path / "lab", "services-fake"):
            pass
        held.append(used == [True, False])  # other runs of that name may use the services, too
        return 100.0

    run(tmp_path, FakeSystem(FakeHost(), effect=effect))
    assert held
    assert all(held)
    assert not is_used(tmp_path / "lab", "study-1")


def test_what_was_made_for_a_time_is_looked_at_once_more(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost())
    system.host.made = {"mount /m/store": ("gone", "gone")}
    result, store = run(tmp_path, system)
    last = store.load(result.study_id).trials[-1]
    assert Reading("mount /m/store", "undone", "gone", "gone", True) in last.readings
    system.host.made = {"mount /m/store": ("gone", "there")}
    with pytest.raises(RestoreError, match="mount /m/store is there, it was gone"):
        run(tmp_path, system, fresh=True)


def test_a_treatment_that_breaks_the_stack_is_evidence_and_not_retried(tmp_path: Path) -> None:
    fail = failing("start-server", FailureClass.CONFIGURATION, lambda s: s.get("server.pool") == 2)
    result, store = run(tmp_path, FakeSystem(FakeHost(), fail=fail))
    record = store.load(result.study_id)
    broken = [trial for trial in record.trials if trial.planned.treatment["server.pool"] == 2]
    assert broken
    for trial in broken:
        assert trial.failure is FailureClass.CONFIGURATION
        assert trial.attempt == 1
        assert trial.evidence == "the server's words"
        assert trial.observation().responses == {}
    assert all(trial.state == "done" for trial in record.trials if trial not in broken)
    assert result.complete


def test_levels_that_contradict_each_other_are_evidence_and_not_retried(tmp_path: Path) -> None:
    def refuse(step: str, settings: Settings) -> None:
        if step == "start-server" and settings.get("server.pool") == 2:
            raise UsageError("server.pool 2 is more than the whole")

    result, store = run(tmp_path, FakeSystem(FakeHost(), fail=refuse))
    broken = [t for t in store.load(result.study_id).trials if t.planned.treatment["server.pool"] == 2]
    assert broken
    assert {(t.failure, t.attempt) for t in broken} == {(FailureClass.CONFIGURATION, 1)}
    assert result.complete


def test_a_baseline_that_does_not_run_ends_the_study(tmp_path: Path) -> None:
    result, store = run(tmp_path, FakeSystem(FakeHost(), fail=failing("start-server", FailureClass.CONFIGURATION)))
    assert not result.complete
    assert "the baseline itself does not run" in result.stopped
    assert store.load(result.study_id).failed


def test_infrastructure_is_retried_and_bounded(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), fail=failing("load", FailureClass.INFRASTRUCTURE))
    result, store = run(tmp_path, system)
    assert "3 trials in a row failed as infrastructure" in result.stopped
    failed = [trial for trial in store.load(result.study_id).trials if trial.state == "failed"]
    assert [trial.attempt for trial in failed] == [ATTEMPTS] * 3


@pytest.mark.parametrize("step", ["load", "audit", "start-server"])
@pytest.mark.parametrize("kind", [FailureClass.INFRASTRUCTURE, FailureClass.WORKLOAD])
def test_a_service_that_says_that_its_memory_is_not_enough_is_no_fault_of_the_host(
    tmp_path: Path, step: str, kind: FailureClass
) -> None:
    system = FakeSystem(FakeHost(), fail=failing(step, kind))

    def collect(directory: Path) -> Sequence[str]:
        (directory / "logs").mkdir(exist_ok=True)
        (directory / "logs" / "driver.log").write_text("java.lang.OutOfMemoryError: of JMeter's own\n")
        words = "-XX:+ExitOnOutOfMemoryError\nTerminating due to java.lang.OutOfMemoryError: Java heap space\n"
        (directory / "logs" / "server.log").write_text(words)
        return ()

    system.collect = collect  # type: ignore[method-assign]
    result, store = run(tmp_path, system)
    trial = next(trial for trial in store.load(result.study_id).trials if trial.state == "failed")
    assert (trial.failure, trial.attempt) == (FailureClass.CONFIGURATION, 1)
    why = "its memory was not enough (server.log: Terminating due to java.lang.OutOfMemoryError: Java heap space): "
    assert trial.failure_message.startswith(why)


def test_a_passing_failure_of_the_host_costs_no_trial(tmp_path: Path) -> None:
    calls = []

    def once(step: str, _settings: object) -> TrialFailure | None:
        calls.append(step)
        return (
            TrialFailure(FailureClass.INFRASTRUCTURE, "gone") if calls.count("load") == 1 and step == "load" else None
        )

    result, store = run(tmp_path, FakeSystem(FakeHost(), fail=once))
    record = store.load(result.study_id)
    assert result.complete
    assert record.trials[0].attempt == 2
    assert all(trial.state == "done" for trial in record.trials)


@pytest.mark.parametrize(
    ("change", "expected", "words"),
    [
        ({"audits": (AuditRecord("ledger", False, "off by 3"),)}, FailureClass.WORKLOAD, "audit failed: ledger"),
        ({"errors": 0.2}, FailureClass.WORKLOAD, "20.00% of the transactions failed"),
        ({"driver_was_limit": True}, FailureClass.BOTTLENECK, "the driver was the limit"),
        ({"read_wrong": "server.pool"}, FailureClass.CONFIGURATION, "server.pool is 999, not"),
    ],
)
def test_a_wrong_run_is_a_failure_and_never_a_number(
    tmp_path: Path, change: dict[str, Any], expected: FailureClass, words: str
) -> None:
    result, store = run(tmp_path, FakeSystem(FakeHost(), **change))
    trial = store.load(result.study_id).trials[0]
    assert trial.failure is expected
    assert words in trial.failure_message
    assert trial.observation().responses == {}


def test_an_interrupted_study_goes_on_where_it_stopped(tmp_path: Path) -> None:
    seen: list[str] = []

    def stop_third(step: str, _settings: object) -> TrialFailure | None:
        seen.append(step)
        third = seen.count("load") == 3 and step == "load"
        return TrialFailure(FailureClass.INTERRUPTED, "ended by SIGINT") if third else None

    system = FakeSystem(FakeHost(), fail=stop_third)
    result, store = run(tmp_path, system)
    assert not result.complete
    assert "run the same command again" in result.stopped
    states = [trial.state for trial in store.load(result.study_id).trials]
    assert states[:3] == ["done", "done", "failed"]
    assert set(states[3:]) == {"planned"}
    assert system.host.values["vm.fake_live"] == 10

    again, store = run(tmp_path, FakeSystem(FakeHost()))
    record = store.load(again.study_id)
    assert again.study_id == result.study_id
    assert [trial.attempt for trial in record.trials[:4]] == [1, 1, 2, 1]
    assert all(trial.state == "done" for trial in record.trials)

    fresh, _ = run(tmp_path, FakeSystem(FakeHost()))
    assert fresh.study_id != again.study_id, "a finished study is not resumed but run anew"


def test_a_host_knob_that_cannot_be_set_is_left_out_with_the_reason(tmp_path: Path) -> None:
    host = FakeHost(forbidden="only root may write it")
    result, store = run(tmp_path, FakeSystem(host))
    record = store.load(result.study_id)
    assert record.skipped == ("vm.fake_live is left out: only root may write it",)
    assert [factor.name for factor in record.plan.factors] == ["server.pool"]
    assert host.writes == []


def test_the_budget_ends_the_run_and_leaves_it_resumable(tmp_path: Path) -> None:
    result, store = run(tmp_path, FakeSystem(FakeHost()), budget=1e-6)
    assert "the budget is used up" in result.stopped
    assert sum(trial.state == "done" for trial in store.load(result.study_id).trials) == 1


def test_a_knob_of_a_part_that_is_left_out_is_not_read_back(tmp_path: Path) -> None:
    result, store = run(tmp_path, FakeSystem(FakeHost(), left_out="server.pool"))
    record = store.load(result.study_id)
    assert all(trial.state == "done" for trial in record.trials)
    readings = [r for trial in record.trials for r in trial.readings if r.knob == "server.pool"]
    assert {(r.found, r.matches) for r in readings} == {("(no such part)", True)}


def test_pseudo_factors_set_nothing(tmp_path: Path) -> None:
    text = STUDY.replace("factors:\n  server.pool: [10, 2]\n  vm.fake_live: [10, 20]", "pseudo_factors: { a: [x, y] }")
    system = FakeSystem(FakeHost())
    result, _ = run(tmp_path, system, text)
    assert result.complete
    assert system.host.writes == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "server.pool: [10, 2]",
            "server.pol: [10, 2]",
            "fake.yaml:5: unknown knob 'server.pol'; did you mean server.pool?",
        ),
        ("server.pool: [10, 2]", "server.pool: [10, 0]", "fake.yaml:5: server.pool: 0 is below the smallest legal"),
        ("server.pool: [10, 2]", "server.pool: [10, 10]", "fake.yaml:5: server.pool lists the level 10 twice"),
        ("server.pool: [10, 2]", "server.pool: [10]", "fake.yaml:5: server.pool needs two or more levels"),
        (
            "vm.fake_live: [10, 20]",
            "vm.fake_dangerous: [1, 99]",
            "fake.yaml:6: vm.fake_dangerous: 99 can hang, starve or lock out a host: it hangs;",
        ),
        (
            "responses: [throughput]",
            "responses: [throughptu]",
            "fake.yaml:8: unknown response 'throughptu'; did you mean",
        ),
        ("users: 5", "ramp_up: 5", "fake.yaml:3: closed arrivals need `users`"),
        ("factors:", "settings: { server.pool: 3 }\nfactors:", "server.pool is a setting and a factor"),
        ("factors:", "baseline: { server.pool: 5 }\nfactors:", "the baseline 5 of server.pool is not among its levels"),
        ("factors:", "baseline: { server.pol: 2 }\nfactors:", "baseline names server.pol, which is no factor; did you"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_with_file_and_line(old: str, new: str, words: str) -> None:
    assert old in STUDY
    with pytest.raises(UsageError) as error:
        plan_study(parse_study(STUDY.replace(old, new), "fake.yaml"), FakeHost(), [POOL, CACHE])  # type: ignore[arg-type]
    assert words in str(error.value)


def test_time_left_follows_the_trials_that_were_timed() -> None:
    now = [0.0]
    clock = Clock(40.0, 1000.0, lambda: now[0])
    assert clock.left(10) == 400
    now[0] = 100.0
    clock.done(2)
    assert clock.left(10) == 500
    assert not clock.exhausted(18)
    assert not clock.exhausted(0)
    assert clock.exhausted(19)


def test_the_boot_of_a_world_counts_once_all_of_its_forks_have_ended() -> None:
    now = [0.0]
    clock = Clock(40.0, None, lambda: now[0])
    now[0] = 300.0  # a boot and its first fork
    clock.done(1, settled=False)
    assert clock.left(10) == 400
    now[0] = 500.0
    clock.done(4)
    assert clock.left(10) == 1000


def test_a_lost_driver_is_waited_for_and_one_that_stays_away_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "_AWAY", (0.0, 0.0))
    there, host = tmp_path / "there", tmp_path / "host"
    host.write_text(f'#!/bin/sh\ntest -e {there} || {{ echo "no route" >&2; exit 1; }}\nexec "$@"\n')
    host.chmod(0o755)
    (tmp_path / "drivers.yaml").write_text(f"- local\n- {{ name: far, via: {host} }}\n")
    those = read_drivers(str(tmp_path / "drivers.yaml"))
    start = partial(process.start, journal=UndoJournal(tmp_path / "undo.jsonl"))
    said: list[str] = []
    with pytest.raises(TrialFailure, match=r"^driver far .*: no route") as caught:
        drivers.reach_drivers(those, tmp_path / "place", start, said.append)
    assert caught.value.failure_class is FailureClass.INTERRUPTED
    assert [line.startswith("waiting for driver far ") for line in said] == [True, True]

    def back(line: str) -> None:
        said.append(line)
        there.touch()

    said.clear()
    drivers.reach_drivers(those, tmp_path / "place", start, back)
    assert len(said) == 1, "it was there at the second try"
