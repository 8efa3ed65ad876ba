"""From evidence to a failure class: one table, over every process, signal and phase."""

from __future__ import annotations

import signal

import pytest

from leadline.model.errors import RULES, Event, Evidence, FailureClass, Memory, Part, blamed, failure_class, unanswered

CONFIGURATION, WORKLOAD, INFRASTRUCTURE = (
    FailureClass.CONFIGURATION,
    FailureClass.WORKLOAD,
    FailureClass.INFRASTRUCTURE,
)
KILL, TERM, SEGV = signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV


@pytest.mark.parametrize("part", list(Part))
@pytest.mark.parametrize("ready", [False, True], ids=["start", "load"])
@pytest.mark.parametrize("number", [KILL, TERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("told", ["signal", "code"])
def test_no_signal_from_outside_is_a_levels_fault(part: Part, ready: bool, number: int, told: str) -> None:
    code = -number if told == "signal" else 128 + number  # a shell or a JVM that tells it as its exit code
    evidence = Evidence(Event.ENDED, part, exit_code=code, ready=ready)
    assert failure_class(evidence) is INFRASTRUCTURE
    assert f"signal {number}" in evidence.how


@pytest.mark.parametrize("part", [Part.SERVICE, Part.MEMBER, Part.LOAD])
@pytest.mark.parametrize("memory", list(Memory))
def test_whose_memory_it_was(part: Part, memory: Memory) -> None:
    evidence = Evidence(Event.ENDED, part, exit_code=-KILL, ready=True, memory=memory)
    own = memory in (Memory.LIMIT, Memory.OWN) and part is not Part.LOAD
    assert failure_class(evidence) is (CONFIGURATION if own else INFRASTRUCTURE)


@pytest.mark.parametrize("part", list(Part))
@pytest.mark.parametrize("event", [Event.STOPPED, Event.LATE])
@pytest.mark.parametrize("ready", [False, True], ids=["start", "load"])
def test_slow_or_stopped_is_not_broken(part: Part, event: Event, ready: bool) -> None:
    assert failure_class(Evidence(event, part, ready=ready)) is INFRASTRUCTURE


@pytest.mark.parametrize(
    ("evidence", "kind"),
    [
        (Evidence(Event.ENDED, exit_code=1), CONFIGURATION),
        (Evidence(Event.ENDED, exit_code=0), CONFIGURATION),  # it never answered
        (Evidence(Event.ENDED, exit_code=0, ready=True), INFRASTRUCTURE),  # in order, though nobody of ours asked
        (Evidence(Event.ENDED, exit_code=0, asked=True), INFRASTRUCTURE),
        (Evidence(Event.ENDED, exit_code=1, asked=True), INFRASTRUCTURE),
        (Evidence(Event.ENDED, exit_code=-SEGV, ready=True), CONFIGURATION),
        (Evidence(Event.ENDED, exit_code=128 + SEGV, ready=True), CONFIGURATION),
        (Evidence(Event.ENDED, Part.LOAD, exit_code=3), INFRASTRUCTURE),
        (Evidence(Event.REFUSED), CONFIGURATION),
        (Evidence(Event.WRONG), WORKLOAD),
        (Evidence(Event.WRONG, Part.LOAD), INFRASTRUCTURE),
    ],
)
def test_what_is_left(evidence: Evidence, kind: FailureClass) -> None:
    failure = blamed(evidence, "what was seen", "its words")
    assert (failure.failure_class, failure.message, failure.evidence) == (kind, "what was seen", "its words")


def test_every_evidence_has_a_class_and_every_rule_decides_some() -> None:
    codes = (None, 0, 1, -KILL, -SEGV, 137, 143)
    every = [
        Evidence(event, part, code, ready, asked, memory)
        for event in Event
        for part in Part
        for code in codes
        for ready in (False, True)
        for asked in (False, True)
        for memory in Memory
    ]
    decided = {next(at for at, (holds, _) in enumerate(RULES) if holds(evidence)) for evidence in every}
    assert decided == set(range(len(RULES)))


def test_a_time_limit_is_told_from_a_refusal() -> None:
    late = LookupError("the level cannot be read")
    late.__cause__ = OSError("no answer")
    late.__cause__.__cause__ = TimeoutError("timed out")
    assert unanswered(late) is Event.LATE
    assert unanswered(LookupError("no such bean")) is Event.REFUSED
