"""What a run tells in the lab while it runs, and how it is asked to stop."""

from dataclasses import replace
from pathlib import Path

import pytest

from leadline.checks.files.study import find_study, parse_study
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.model.plan import PlannedTrial
from leadline.model.record import LoadSecond, TrialRecord, TrialState
from leadline.places.simulated import SimulatedTestbed
from leadline.places.simulated.model import Truth
from leadline.places.testbed import RunOptions
from leadline.store.claims import log_path, stop_path
from leadline.store.removal import find, remove
from leadline.trial import livelog
from leadline.trial.interruption import Interruption
from leadline.trial.livelog import STOPPED, LiveLog, ask_to_stop, read_live
from leadline.trial.progress import SilentWatcher

KNOB = Knob("server.a", Kind.INTEGER, ApplyCost.RESTART, "a", default=10, minimum=0)
STUDY = """\
study: told
question: What is told?
workload: { users: 10, ramp_up: 1s, steady: 12s, ramp_down: 1s }
factors: { server.a: [10, 20] }
responses: [throughput, p99]
design: { replicates: 3, seed: 3 }
"""


class StopsAt(SilentWatcher):
    """Asks for the end of the study when so many trials have ended."""

    def __init__(self, lab: Path, trials: int) -> None:
        self._lab, self._left = lab, trials
        self.ended: list[TrialRecord] = []

    def trial_ended(self, record: TrialRecord) -> None:
        self.ended.append(record)
        self._left -= 1
        if self._left == 0:
            ask_to_stop(self._lab, 1)

    def step(self, name: str) -> None:
        if self._left <= 0:
            waited = 0
            while waited < 100:  # until the request is seen; it ends this by an exception
                waited += 1
                livelog.time.sleep(0.05)


def bed(lab: Path, watcher: SilentWatcher | None = None) -> SimulatedTestbed:
    return SimulatedTestbed(Truth(), lab, watcher, service_knobs=[KNOB], host=[])


def test_a_run_tells_its_plan_trials_steps_and_seconds(tmp_path: Path) -> None:
    file, place = parse_study(STUDY, "told.yaml"), bed(tmp_path)
    planned = place.plan(file)
    assert place.run(file, planned, RunOptions()).complete
    live = read_live(tmp_path, 1)
    assert live is not None
    trials = len(planned.plan.trials)
    assert (live.trials, live.done, live.position) == (trials, trials, trials - 1)
    assert [second.second for second in live.seconds] == [float(at) for at in range(1, 15)]
    assert {second.phase for second in live.seconds} == {"ramp_up", "steady", "ramp_down"}
    assert all(0 < second.p50_ms < second.p99_ms for second in live.seconds)
    remove(place.store, find(place.store, "told"))
    assert read_live(tmp_path, 1) is None


def test_the_lab_keeps_the_name_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(STUDY)
    file, place = find_study("mine.yaml"), bed(tmp_path)
    place.run(file, place.plan(file), RunOptions())
    assert place.store.load(1).reference == "mine.yaml"
    assert not find_study("quickstart").facts, "built in: its name is enough"


def test_a_request_ends_the_run_in_order_and_it_goes_on(tmp_path: Path) -> None:
    file, watcher = parse_study(STUDY, "told.yaml"), StopsAt(tmp_path, 2)
    place = bed(tmp_path, watcher)
    ended = place.run(file, place.plan(file), RunOptions())
    assert not ended.complete
    assert ended.stopped == f"{STOPPED}; run the same command again to go on"
    assert not stop_path(tmp_path, 1).exists()
    states = [trial.state for trial in place.store.load(1).trials]
    assert states[:2] == [TrialState.DONE, TrialState.DONE]
    again = bed(tmp_path)
    assert again.run(file, again.plan(file), RunOptions()).complete
    assert again.store.ids() == [1]


def test_a_run_that_goes_on_is_at_its_next_trial_before_that_begins(tmp_path: Path) -> None:
    file, seen = parse_study(STUDY, "told.yaml"), []

    class Looks(SilentWatcher):
        def trial(self, planned: PlannedTrial, attempt: int, label: str, seconds_left: float) -> None:
            seen.append(read_live(tmp_path, 1))

    place = bed(tmp_path, StopsAt(tmp_path, 2))
    place.run(file, place.plan(file), RunOptions())
    again = bed(tmp_path, Looks())
    assert again.run(file, again.plan(file), RunOptions()).complete
    first = seen[0]
    assert first is not None
    assert (first.done, first.position, first.label) == (2, 2, ""), "its trial is not told yet"


def test_a_request_that_an_earlier_run_did_not_see_stops_no_later_one(tmp_path: Path) -> None:
    ask_to_stop(tmp_path, 1)
    file, place = parse_study(STUDY, "told.yaml"), bed(tmp_path)
    assert place.run(file, place.plan(file), RunOptions()).complete


def test_a_long_log_begins_anew_with_its_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(livelog, "_LONGEST", 20)
    file, place = parse_study(STUDY, "told.yaml"), bed(tmp_path)
    plan = place.plan(file).plan
    log = LiveLog(SilentWatcher(), tmp_path)
    second = LoadSecond(1.0, "steady", 100.0, 9.0, 0, 5.0)
    with Interruption() as interruption, log.begin(7, interruption):
        log.study(7, plan, 0, 60.0)
        log.trial(plan.trials[0], 1, "baseline", 50.0)
        for at in range(100):
            log.load(replace(second, second=float(at)))
        assert len(log_path(tmp_path, 7).read_text().splitlines()) <= 23
        live = read_live(tmp_path, 7)
        assert live is not None
        assert live.trials == len(plan.trials)
        assert live.seconds[-1].second == 99.0


def test_lines_that_are_half_written_or_foreign_are_left_out(tmp_path: Path) -> None:
    path = log_path(tmp_path, 3)
    path.parent.mkdir()
    path.write_text('{"event":"step","at":5,"name":"load"}\n{"event":"trial","at":6}\nnonsense\n[1]\n{"event":"st')
    live = read_live(tmp_path, 3)
    assert live is not None
    assert live.step == "load"
    path.unlink()
    assert read_live(tmp_path, 3) is None
