"""The warm-up before a load: its rule, its bound, what is kept of it; on a fake and on a simulated host."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from lab_fakes import CACHE, HEAP, POOL, STATEMENTS, FakeHost, FakeSystem, failing

from leadline.checks.files.study import parse_study
from leadline.checks.plan import cost, plan_study
from leadline.experiments.results import analysis_of
from leadline.model.errors import FailureClass, UsageError
from leadline.model.record import WARM_UP, Phases, StudyRecord, TrialRecord
from leadline.model.result import SteadyState
from leadline.observe.table import TallTable
from leadline.observe.window import Recorded
from leadline.places.simulated import SimulatedTestbed, parse_truth
from leadline.places.testbed import RunOptions
from leadline.report.summary import health
from leadline.store.lab import Store
from leadline.trial.measure import while_compiling
from leadline.trial.progress import SilentWatcher
from leadline.trial.run import StudyRun
from leadline.trial.system import Compiled
from leadline.trial.warmup import Cycle, unsettled

STUDY = """\
study: warm
question: does it?
workload: { users: 5, ramp_up: auto, steady: 22s, warm_up: { pause: 5s, cycles: 4 } }
factors: { server.pool: [10, 2] }
design: { replicates: 2, sentinels: null }
responses: [throughput]
"""
ROTATION = STUDY.replace("sentinels: null", "rotation: { slot: 4s }").replace(
    "factors:", "settings: { jvm.heap: 256m }\nfactors:"
)
KNOBS = [POOL, CACHE, HEAP, STATEMENTS]
RESTS, WORKS = Compiled(0.5, 0), Compiled(2.0, 0)


def run(tmp_path: Path, system: FakeSystem, text: str = STUDY) -> StudyRecord:
    file = parse_study(text, "warm.yaml")
    store = Store(tmp_path / "lab")
    planned = plan_study(file, system.host, KNOBS)
    study = StudyRun(file, planned, store, system.host, system, SilentWatcher(), lambda _: nullcontext())
    return store.load(study.execute().study_id)


def said(trial: TrialRecord) -> str:
    return next(step.detail for step in trial.steps if step.name == WARM_UP)


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (Cycle(104, 1.85, 0.05, 0), ""),
        (Cycle(70, 3.0, 0.05, 0), ""),
        (Cycle(106, 2.0, 0.05, 0), "throughput rose from 100 to 106 a second"),
        (Cycle(100, 1.7, 0.05, 0), "median latency fell from 2 to 1.7 ms"),
        (Cycle(100, 2.0, 0.2, 0), "the compiler worked 0.20 s for each second of load"),
        (Cycle(100, 2.0, 0.05, 7), "7 methods waited for the compiler"),
        (Cycle(100, 2.0, None, None), "what the compiler does is not known"),
    ],
)
def test_the_rule(now: Cycle, why: str) -> None:
    assert unsettled([Cycle(100, 2.5, 1.0, 3), Cycle(90, 2.0, 1.0, 3)], now) == why
    assert unsettled([], now) == "one cycle"
    assert unsettled([now], Cycle(0, 0.0, 0.0, 0)) == "no transaction succeeded"


def test_it_ends_once_load_and_compiler_are_steady(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost())
    system.compiling = [WORKS, WORKS, RESTS, *[RESTS, RESTS] * 3]
    record = run(tmp_path, system)
    assert [said(trial) for trial in record.trials] == [
        "steady and compiled after 45s, 3 of at most 4 cycles",
        *["steady and compiled after 30s, 2 of at most 4 cycles"] * 3,
    ]
    for trial in record.trials:
        assert trial.steady is not None
        assert trial.steady.sentence.endswith(f"Warm-up: {said(trial)}.")
        names = [step.name for step in trial.steps]
        assert names[names.index("start-observers") : names.index("stop-observers")] == [
            "start-observers",
            WARM_UP,
            "load",
        ]


def test_it_has_a_bound(tmp_path: Path) -> None:
    record = run(tmp_path, FakeSystem(FakeHost()))  # which tells nothing of a compiler
    assert {said(trial) for trial in record.trials} == {
        "not settled after 1m, 4 of at most 4 cycles: what the compiler does is not known"
    }
    assert all(trial.failure is None for trial in record.trials)


@pytest.mark.parametrize(
    ("work", "waiting", "verdict", "words"),
    [
        (0.05, 0, "steady", ""),
        (
            0.3,
            0,
            "steady",
            "; still compiling: compiler threads were busy for 30% of its second half, and 2 methods a second lost",
        ),
        (
            0.3,
            4,
            "steady",
            "; the compiler starves: in 100% of the samples of its second half methods waited for it, 4.0",
        ),
        (0.05, 0, "slowing-down", ""),
        (0.3, 0, "too-short", "; still compiling: compiler threads were busy for 30% of its second half"),
    ],
)
def test_what_is_measured_while_the_compiler_works(
    work: float, waiting: float, verdict: str, words: str, tmp_path: Path
) -> None:
    pools = TallTable()
    for second in range(100, 121):
        pools.add(second * 10**9, "jit.time_ms", "HotSpot", 1000 * work * second)
        pools.add(second * 10**9, "jit.queue", "server", waiting)
        pools.add(second * 10**9, "jit.deoptimised", "server", 2 * second)
    pools.write(tmp_path / "pools.parquet")
    found = while_compiling(SteadyState(verdict, None, "It is."), Recorded(tmp_path), Phases(95, 100, 120, 121))
    assert found.sentence.startswith(f"It is{words}" if words else "It is.")
    assert (bool(words), found.verdict) == (found.cold, verdict)


def test_the_report_says_how_it_ended(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost())
    system.compiling = [RESTS, RESTS]
    record = run(tmp_path, system)
    (item,) = (one for one in health(record, analysis_of(record), []) if one.title == "Warm-up")
    assert (item.state, item.value) == ("warn", "over in 1 of 4 trials")
    assert item.detail.startswith("not settled after 1m, 4 of at most 4 cycles: what the compiler")
    assert item.detail.endswith("; steady and compiled after 30s, 2 of at most 4 cycles")


def test_cycles_can_be_of_a_fixed_number(tmp_path: Path) -> None:
    record = run(tmp_path, FakeSystem(FakeHost()), STUDY.replace("cycles: 4", "cycles: 2, until: cycles"))
    assert {said(trial) for trial in record.trials} == {"as planned after 30s, 2 cycles"}


def test_the_audits_know_of_its_transactions(tmp_path: Path) -> None:
    found = []

    class Counting(FakeSystem):
        def audit(self, directory, counts):  # type: ignore[no-untyped-def]
            found.append(counts)
            return super().audit(directory, counts)

    run(tmp_path, Counting(FakeHost()))
    assert found == [{"buy": {"ok": 5, "failed": 0}}] * 4


def test_instances_of_a_rotation_end_theirs_together(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost())
    system.beside(1).compiling = [RESTS] * 8
    system.compiling = [RESTS, WORKS, RESTS, RESTS, WORKS, WORKS, WORKS]
    record = run(tmp_path, system, ROTATION)
    assert [said(trial) for trial in record.trials] == [
        *["steady and compiled after 1m15s, 3 of at most 4 cycles"] * 2,
        *["not settled after 1m40s, 4 of at most 4 cycles: the compiler worked 0.20 s for each second of load"] * 2,
    ]


def test_a_load_that_fails_in_it_fails_the_trial(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), fail=failing("load", FailureClass.WORKLOAD, lambda s: s.get("server.pool") == 2))
    for trial in run(tmp_path, system).trials:
        planted = trial.planned.treatment["server.pool"] == 2
        assert trial.failure == (FailureClass.WORKLOAD if planted else None)
        assert [step.name for step in trial.steps].count("load") == (0 if planted else 1)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("users: 5", "profile: '0s:1,9s:5'", "warm.yaml:3: a warm-up is load of `users` or `rate`: leave profile out"),
        ("steady: 22s,", "steady: 22s, generator: k6,", "leave generator out, or warm_up and `ramp_up: auto`"),
        ("responses:", "observe: false\nresponses:", "warm.yaml:3: a warm-up that ends by rule asks the compiler"),
        ("responses:", "drivers: [local]\nresponses:", "warm.yaml:6: a warm-up is driven from this host alone"),
        ("cycles: 4", "load: 1s", "workload.warm_up.load: 1s is not between 2s and 24h"),
        ("responses:", "budget: 1m\nresponses:", "the load of one trial takes 1m45s"),
    ],
)
def test_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        plan_study(parse_study(STUDY.replace(old, new), "warm.yaml"), FakeHost(), KNOBS)
    assert words in str(error.value)


def test_auto_is_short_for_a_warm_up_and_its_bound_is_in_the_cost() -> None:
    auto = parse_study(STUDY.replace(", warm_up: { pause: 5s, cycles: 4 }", ""), "warm.yaml").study
    assert auto.workload.warm_up is not None
    assert (auto.workload.ramp_up, auto.workload.warm_up_seconds()) == (5.0, 12 * 14)
    plain = parse_study(
        STUDY.replace("auto", "5s").replace(", warm_up: { pause: 5s, cycles: 4 }", ""), "warm.yaml"
    ).study
    plan = plan_study(parse_study(STUDY, "warm.yaml"), FakeHost(), KNOBS).plan
    assert cost(auto, plan) - cost(plain, plan) == 4 * 168
    rotation = plan_study(parse_study(ROTATION, "warm.yaml"), FakeHost(), KNOBS).plan
    assert "in cycles of 10s for each and 5s without load: at most 4 cycles, 1m56s with all around them." in " ".join(
        rotation.notes
    )


def test_a_rotation_that_names_no_ramp_up_has_one_by_rule() -> None:
    bare = ROTATION.replace(" ramp_up: auto,", "").replace(", warm_up: { pause: 5s, cycles: 4 }", "")
    found = parse_study(bare, "warm.yaml").study.workload
    assert found == parse_study(ROTATION.replace(", warm_up: { pause: 5s, cycles: 4 }", ""), "warm.yaml").study.workload
    for named in ("ramp_up: 9s", "profile: '0s:1,9s:5'"):
        assert parse_study(bare.replace("users: 5", f"users: 5, {named}"), "warm.yaml").study.workload.warm_up is None


@pytest.mark.parametrize("text", [STUDY, ROTATION])
def test_a_simulated_warm_up_is_over_when_the_load_begins(text: str, tmp_path: Path) -> None:
    words = "noise: { trials: 0, seconds: 0.5%, latency_trials: 0, latency_seconds: 0.5% }"
    warming = "warm_up: { shape: exponential, depth: 50%, seconds: 4s }"

    def throughput(study: str, truth: str, lab: str) -> list[float]:
        place = SimulatedTestbed(
            parse_truth(f"truth:\n  {words}\n  {truth}\n", "truth.yaml"), tmp_path / lab, service_knobs=KNOBS, host=[]
        )
        file = parse_study(study, "warm.yaml")
        place.run(file, place.plan(file), RunOptions())
        record = place.store.load(place.store.ids()[0])
        return [trial.responses["throughput"] for trial in record.trials]

    warm = throughput(text, warming, "warm")
    assert warm == pytest.approx(throughput(text, "seed: 1", "flat"), rel=0.02)
