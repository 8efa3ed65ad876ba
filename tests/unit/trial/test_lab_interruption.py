"""Signals and the loss of the watchdog as one orderly end of a run."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab_fakes import CACHE, POOL, FakeHost, FakeSystem

from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.host.local import LocalHost
from leadline.host.watchdog import Watchdog
from leadline.model.errors import FailureClass, TrialFailure
from leadline.store.lab import Store
from leadline.trial import lifecycle
from leadline.trial.interruption import Interruption
from leadline.trial.progress import SilentWatcher
from leadline.trial.run import StudyRun

STUDY = """\
study: cut-short
question: what is left?
workload: { users: 5 }
factors:
  server.pool: [10, 2]
  vm.fake_live: [10, 20]
design: { replicates: 2, sentinels: null }
responses: [throughput]
"""


def test_only_the_first_signal_raises_and_only_where_it_may() -> None:
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)  # nobody listens: it waits
        with pytest.raises(TrialFailure, match="ended by SIGINT"), interruption.listening():
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(TrialFailure, match="ended by SIGINT"):
            interruption.check()


def test_an_end_for_a_reason_of_its_own_comes_from_any_thread() -> None:
    cause = TrialFailure(FailureClass.INTERRUPTED, "the watchdog has died")
    with Interruption() as interruption:

        def is_ended() -> None:
            with interruption.listening():
                thread.start()
                time.sleep(60)  # woken at once

        thread = threading.Thread(target=lambda: interruption.end(cause))
        with pytest.raises(TrialFailure, match="the watchdog has died"):
            is_ended()
        thread.join()


def run(tmp_path: Path, system: FakeSystem, *, watched: LocalHost | None = None) -> StudyRun:
    @contextmanager
    def guard(_: float) -> Iterator[Watchdog | None]:
        if watched is None:
            yield None
            return
        with watched.guard(60.0) as watchdog:
            yield watchdog

    file = parse_study(STUDY, "cut-short.yaml")
    planned = plan_study(file, system.host, [POOL, CACHE])  # type: ignore[arg-type]
    return StudyRun(file, planned, Store(tmp_path / "lab"), system.host, system, SilentWatcher(), guard)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", ["load", "start-server", "audit", "reset"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_run_cut_short_keeps_what_is_finished_and_goes_on(tmp_path: Path, step: str, times: int) -> None:
    seen: list[str] = []

    def act(name: str) -> None:
        seen.append(name)
        if name == step and seen.count(step) == 2:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGTERM)

    system = FakeSystem(FakeHost(), at_step=act)
    result = run(tmp_path, system).execute()
    assert "ended by SIGTERM" in result.stopped
    assert not result.complete
    assert system.host.values["vm.fake_live"] == 10
    store = Store(tmp_path / "lab")
    states = [(trial.state, trial.failure) for trial in store.load(result.study_id).trials]
    assert states[:2] == [("done", None), ("failed", FailureClass.INTERRUPTED)]
    system.at_step = lambda _name: None
    again = run(tmp_path, system).execute()
    assert again.complete
    assert again.study_id == result.study_id


def test_a_signal_that_waited_between_two_parts_of_a_trial_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe = lifecycle.Attempt.observe

    def signalled(attempt: lifecycle.Attempt) -> None:
        observe(attempt)
        with attempt.runner.interruption.shield():
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(lifecycle.Attempt, "observe", signalled)
    result = run(tmp_path, FakeSystem(FakeHost())).execute()
    assert "ended by SIGTERM" in result.stopped
    assert Store(tmp_path / "lab").load(result.study_id).trials[0].failure is FailureClass.INTERRUPTED


def test_a_host_without_a_watchdog_ends_the_run(tmp_path: Path) -> None:
    host = LocalHost(state=tmp_path / "state", root=tmp_path / "root")
    loads: list[str] = []

    def act(name: str) -> None:
        if name == "load":
            loads.append(name)
        if loads == ["load"] * 2 and name == "load":
            assert host._watchdog is not None
            os.kill(host._watchdog.pid, signal.SIGKILL)
            time.sleep(60)  # it is told in the middle of this

    system = FakeSystem(FakeHost(), at_step=act)
    result = run(tmp_path, system, watched=host).execute()
    assert "the watchdog of this run has died: killed by SIGKILL" in result.stopped
    assert "put" not in result.stopped
    assert not result.complete
    assert len(loads) == 2
    trials = Store(tmp_path / "lab").load(result.study_id).trials
    assert trials[1].failure is FailureClass.INTERRUPTED
    assert all(trial.state == "planned" for trial in trials[2:])


def test_a_trial_in_which_the_machine_was_suspended_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suspended = iter([0.0, 300.0])
    monkeypatch.setattr(lifecycle, "_suspended_seconds", lambda: next(suspended, 300.0))
    result = run(tmp_path, FakeSystem(FakeHost())).execute()
    assert result.complete
    trials = Store(tmp_path / "lab").load(result.study_id).trials
    assert [trial.attempt for trial in trials][:2] == [2, 1]
