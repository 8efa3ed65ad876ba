"""The one judgement of planted studies: the same in the first words, the tile, JSON, JUnit and the exit code."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from test_conclude import KNOBS, beside, study

from leadline.checks.files.study import parse_study
from leadline.conclude.judgement import too_late
from leadline.conclude.study import conclude
from leadline.model.errors import FailureClass
from leadline.model.knob import ApplyCost
from leadline.model.record import STUDY_FILE, WARMING, SlotRecord, StudyRecord, TrialRecord, TrialState
from leadline.model.result import SteadyState, Verdict
from leadline.places.simulated import SimulatedTestbed
from leadline.places.simulated.model import Truth
from leadline.report.ci import document, junit
from leadline.report.page import render
from leadline.report.summary import health, summary
from leadline.report.text import MOST_LIMITS, table
from leadline.report.view import gather

Planted = Callable[[], StudyRecord]
MOVED = "{ when: { server.a: 20 }, percent: { throughput: -9% } }"


def fine() -> StudyRecord:
    return study(MOVED)


def lost(
    record: StudyRecord, hit: Callable[[TrialRecord], bool], failed: FailureClass = FailureClass.INFRASTRUCTURE
) -> StudyRecord:
    return replace(
        record,
        trials=tuple(
            replace(trial, state="failed", failure=failed, failure_message="the disk is gone", responses={})
            if hit(trial)
            else trial
            for trial in record.trials
        ),
    )


def is_baseline(row: TrialRecord | SlotRecord) -> bool:
    treatment = row.treatment if isinstance(row, SlotRecord) else row.planned.treatment
    return all(level == 10 for _, level in treatment.levels)


def level(row: TrialRecord) -> object:
    return row.planned.treatment["server.a"]


def slotted() -> StudyRecord:
    """64 slots of two levels, all measured."""
    live = [replace(knob, apply_cost=ApplyCost.LIVE) for knob in KNOBS]
    text = (
        "study: planted\nquestion: Which?\nworkload: { users: 40, ramp_up: 2s, steady: 64s }\n"
        "factors: { server.a: [10, 20] }\nresponses: [throughput]\n"
        "design: { replicates: 4, seed: 3, switchback: { slot: 4s } }\n"
    )
    file = parse_study(text, "planted.yaml")
    plan = SimulatedTestbed(Truth(), Path(), service_knobs=live, host=[]).plan(file).plan
    trials = []
    for number, trial in enumerate(plan.trials, 1):
        slots = []
        for slot in trial.slots:
            due, level = 60.0 * number + slot.begin, slot.treatment["server.a"]
            value = (300.0 if level == 10 else 270.0) * (1 + 0.004 * ((7 * slot.index + number) % 5 - 2))
            slots.append(
                SlotRecord(
                    *(slot.index, slot.begin, slot.seconds, slot.treatment),
                    **{"due": due, "set_from": due, "set_at": due, "matches": True},
                    **{"measured_from": due + 1, "measured_until": due + 4, "responses": {"throughput": value}},
                )
            )
        trials.append(TrialRecord(number, trial, TrialState.DONE, 1, 60.0 * number, 0.0, slots=tuple(slots)))
    return StudyRecord(1, file.study, file.text, plan, 0.0, {}, tuple(trials))


def without(hit: Callable[[int, SlotRecord], bool], **why: object) -> StudyRecord:
    """``slotted`` without some slots, by number and record: late ones, or lost for another reason."""
    record, number = slotted(), -1
    trials = []
    for trial in record.trials:
        slots = []
        for slot in trial.slots:
            number += 1
            late = {"failure": FailureClass.INFRASTRUCTURE, "responses": {}, "set_at": (slot.due or 0.0) + 3.9}
            slots.append(replace(slot, **(why or late)) if hit(number, slot) else slot)
        trials.append(replace(trial, slots=tuple(slots)))
    return replace(record, trials=tuple(trials))


def two_trials(*lost_trials: int) -> StudyRecord:
    """A study whose plan has one trial of the baseline and one other, whichever are lost."""
    record = study(MOVED, "replicates: 2, sentinels: null, seed: 3")
    trials = [next(filter(is_baseline, record.trials)), next(trial for trial in record.trials if level(trial) == 20)]
    planned = [replace(trial.planned, position=n, block=0) for n, trial in enumerate(trials)]
    plan = replace(record.plan, trials=tuple(planned))
    rows = tuple(replace(trial, id=n, planned=planned[n]) for n, trial in enumerate(trials))
    return lost(replace(record, plan=plan, trials=rows), lambda trial: trial.id in lost_trials)


def stopped(record: StudyRecord, done: int, failure: FailureClass = FailureClass.INTERRUPTED) -> StudyRecord:
    """The trial after so many ended before its figures; none after it began."""
    cut = replace(record.trials[done], state="failed", failure=failure, responses={}, slots=())
    left = tuple(replace(trial, state="planned", responses={}, slots=()) for trial in record.trials[done + 1 :])
    return replace(record, trials=(*record.trials[:done], cut, *left))


def noisy() -> StudyRecord:
    record = study("")
    return replace(
        record,
        trials=tuple(
            replace(
                trial, responses={name: value * (1 + 0.06 * (7 * n % 5 - 2)) for name, value in trial.responses.items()}
            )
            for n, trial in enumerate(record.trials)
        ),
    )


def cold() -> StudyRecord:
    record, warming = fine(), SteadyState("still-warming", None, "still getting faster")
    return replace(record, trials=tuple(replace(trial, steady=warming) for trial in record.trials))


def too_noisy() -> StudyRecord:
    record = study("", "replicates: 2, seed: 3")
    return replace(
        record,
        trials=tuple(
            replace(trial, responses={name: value * 30 ** (7 * n % 5 - 2) for name, value in trial.responses.items()})
            for n, trial in enumerate(record.trials)
        ),
    )


# name -> study, first words, standing, tile, exit code
PLANTED: dict[str, tuple[Planted, str, str, str, int]] = {
    "all fine": (
        fine,
        "A 20 instead of 10 hurts: throughput is 8.6 % lower",
        *("answered", "14 of 14 trials measured", 0),
    ),
    "all slots fine": (
        slotted,
        "A 20 instead of 10 hurts: throughput is 10 % lower",
        *("answered", "64 of 64 slots measured", 0),
    ),
    "half of the slots lost": (
        lambda: without(lambda number, _: number % 4 < 2),
        "Only 32 of 64 slots were measured (32 late). A 20 instead of 10 hurts",
        *("limited", "32 of 64 slots measured", 0),
    ),
    "half of the trials' slots lost": (
        lambda: without(lambda number, _: number >= 32),
        "Only 32 of 64 slots were measured (32 late). A 20 instead of 10 hurts",
        *("limited", "32 of 64 slots measured", 0),
    ),
    "57 of 64 slots lost": (
        lambda: without(lambda number, _: number >= 7),
        "No answer: 7 of 64 slots were measured; 57 lost (57 late): levels were in force up to 3.9 s after",
        *("no answer", "7 of 64 slots measured", 4),
    ),
    "all slots lost": (
        lambda: without(lambda *_: True),
        "No answer: none of 64 slots was measured; 64 lost (64 late)",
        *("no answer", "0 of 64 slots measured", 4),
    ),
    "slots of the baseline lost": (
        lambda: without(lambda _, slot: is_baseline(slot)),
        "No answer: no slot of the baseline was measured; 32 lost (32 late)",
        *("no answer", "32 of 64 slots measured", 4),
    ),
    "slots of the other level lost": (
        lambda: without(lambda _, slot: not is_baseline(slot)),
        "No answer: all 32 slots failed (infrastructure 32); 32 lost (32 late)",
        *("no answer", "32 of 64 slots measured", 4),
    ),
    "slots of a level that fails": (
        lambda: without(lambda _, slot: not is_baseline(slot), failure=FailureClass.WORKLOAD, responses={}),
        "Every trial of server.a=20 failed (workload)",
        *("limited", "32 of 64 slots measured", 0),
    ),
    "slots still warming up": (
        lambda: without(lambda number, _: number % 16 < 10, left_out=WARMING),
        "No answer: 24 of 64 slots were measured; 40 lost (40 left out): the system was still warming up",
        *("no answer", "24 of 64 slots measured", 4),
    ),
    "slots interrupted": (
        lambda: stopped(slotted(), 1),
        "Not finished: 1 of 4 trials done; 1 trial interrupted",
        *("not finished", "16 of 16 slots measured", 4),
    ),
    "one of two trials lost": (
        lambda: two_trials(1),
        "No answer: its only trial failed (infrastructure 1); 1 lost (1 infrastructure): the disk is gone",
        *("no answer", "1 of 2 trials measured", 4),
    ),
    "one of two trials lost, the baseline": (
        lambda: two_trials(0),
        "No answer: no trial of the baseline was measured; 1 lost",
        *("no answer", "1 of 2 trials measured", 4),
    ),
    "a level lost": (
        lambda: lost(fine(), lambda trial: level(trial) == 20),
        "Only 10 of 14 trials were measured (4 infrastructure). server.a=20 has no figure: all 4 trials failed",
        *("limited", "10 of 14 trials measured", 0),
    ),
    "a level that fails": (
        lambda: lost(fine(), lambda trial: level(trial) == 20, FailureClass.CONFIGURATION),
        "Every trial of server.a=20 failed (configuration)",
        *("limited", "10 of 14 trials measured", 0),
    ),
    "all levels fail": (
        lambda: lost(fine(), lambda trial: not is_baseline(trial), FailureClass.WORKLOAD),
        "Every trial of server.a=20 and server.b=20 failed (workload).",
        *("limited", "6 of 14 trials measured", 0),
    ),
    "most lost": (
        lambda: lost(fine(), lambda trial: trial.id > 5),
        "No answer: 5 of 14 trials were measured; 9 lost (9 infrastructure): the disk is gone",
        *("no answer", "5 of 14 trials measured", 4),
    ),
    "nothing measured": (
        lambda: lost(fine(), lambda _: True),
        "No answer: none of 14 trials was",
        *("no answer", "0 of 14 trials measured", 4),
    ),
    "no baseline": (
        lambda: lost(fine(), is_baseline),
        "No answer: no trial of the baseline was measured",
        *("no answer", "8 of 14 trials measured", 4),
    ),
    "disturbed": (
        lambda: beside(fine(), {3: 0.62, 5: 0.4}),
        "Other programs (cc1, sh) used",
        *("limited", "14 of 14 trials measured", 0),
    ),
    "given up beside others": (
        lambda: stopped(fine(), 7, FailureClass.DISTURBED),
        "Not finished: 7 of 14 trials done; 1 trial disturbed",
        *("not finished", "7 of 7 trials measured", 4),
    ),
    "never quiet": (
        lambda: stopped(fine(), 0, FailureClass.DISTURBED),
        "No answer: none of 14 trials was measured. 14 of 14 trials not finished",
        *("no answer", "nothing measured", 4),
    ),
    "cold": (
        cold,
        "In 14 of 14 trials the server was still warming up",
        *("limited", "14 of 14 trials measured", 0),
    ),
    "underpowered": (
        noisy,
        "Not known: whether a or b matters",
        *("limited", "14 of 14 trials measured", 0),
    ),
    "too noisy": (
        too_noisy,
        "No answer: the noise is too large",
        *("no answer", "8 of 8 trials measured", 4),
    ),
    "interrupted": (
        lambda: stopped(fine(), 7),
        "Not finished: 7 of 14 trials done; 1 trial interrupted",
        *("not finished", "7 of 7 trials measured", 4),
    ),
    "interrupted after the first": (
        lambda: stopped(fine(), 1),
        "Not finished: 1 of 14 trials done; 1 trial interrupted.",
        *("not finished", "1 of 1 trial measured", 4),
    ),
    "interrupted in the first": (
        lambda: stopped(fine(), 0),
        "No answer: none of 14 trials was measured. 14 of 14 trials not finished",
        *("no answer", "nothing measured", 4),
    ),
    "simulated": (
        lambda: replace(fine(), environment={"host.SIMULATED": "yes"}),
        "SIMULATED: A 20 instead of 10 hurts",
        *("limited", "14 of 14 trials measured", 0),
    ),
}
STATES = {"answered": "good", "limited": "warn", "not finished": "warn", "no answer": "bad"}


@pytest.mark.parametrize("name", PLANTED)
def test_one_judgement_is_told_everywhere(name: str) -> None:
    planted, words, standing, measured, code = PLANTED[name]
    record = planted()
    found = conclude(record)
    judgement, told = found.judgement, summary(record, found)
    if name == "cold":
        assert words in found.answer
    else:
        assert found.answer.startswith(words)
    assert (judgement.standing, judgement.exit_code) == (standing, code)
    tile = health(record, found, [])[0]
    value = measured if code == 0 else f"{standing}: {measured}"
    assert (tile.title, tile.state, tile.value) == ("Answer", STATES[standing], value)
    json = document(told)
    assert (json["answer"], json["judgement"]["standing"]) == (found.answer, standing)
    failed = any(effect.verdict is Verdict.FAILED for response in found.responses for effect in response.effects)
    assert (json["outcome"] == "error") is (code == 4 or failed)
    cases = ElementTree.fromstring(junit(told)).iter("testcase")
    case = next(one for one in cases if one.get("name") == "Answer")
    assert (case.find("error") is not None) is (code == 4)
    assert judgement.exit_code == code
    assert value in "".join(case.itertext()) + "".join(child.get("message", "") for child in case)


@pytest.mark.parametrize("name", [name for name, planted in PLANTED.items() if planted[2] == "no answer"])
def test_without_an_answer_there_is_a_sentence_with_one_command_and_no_table(name: str) -> None:
    record = PLANTED[name][0]()
    found = conclude(record)
    out = Console(file=io.StringIO(), width=200)
    out.print(table(record, found), soft_wrap=True)
    assert isinstance(out.file, io.StringIO)
    lines = out.file.getvalue().splitlines()
    assert "better" not in out.file.getvalue()
    assert len(lines) <= 4 + MOST_LIMITS + 1
    assert 'id="glance"' not in render(gather(record, found, figures=False))
    assert found.answer.count("What helps: leadline ") == 1
    if why := {"too noisy": "The noise is too large", "most lost": "Too little was measured"}.get(name):
        assert f"{why} for a figure of server.b=20 and server.a=20." in found.judgement.limits
    assert all(effect.percent is None for one in found.responses for effect in one.effects)


@pytest.mark.parametrize("name", ["interrupted", "57 of 64 slots lost", "too noisy", "underpowered"])
@pytest.mark.parametrize(
    ("file", "word"), [("a/my.yaml", "a/my.yaml"), ("my one.yaml", "'my one.yaml'"), ("", "planted")]
)
def test_the_command_that_helps_names_the_file_of_the_study(name: str, file: str, word: str) -> None:
    record = PLANTED[name][0]()
    judgement = conclude(replace(record, environment={STUDY_FILE: file} if file else {})).judgement
    assert f"{judgement.remedy} ".startswith((f"leadline run {word} ", f"leadline power {word} "))


def test_a_level_of_which_too_little_was_measured_has_no_figure_and_the_others_have() -> None:
    record = lost(fine(), lambda trial: trial.planned.treatment["server.b"] == 20 and trial.planned.block > 0)
    found = conclude(record)
    effects = {effect.factor: effect for effect in found.responses[0].effects}
    assert effects["server.b"].percent is None
    assert effects["server.b"].reason == "1 of 4 trials of this level measured"
    assert effects["server.a"].percent is not None
    assert found.judgement.withheld == ("server.b=20",)
    assert "Too little was measured for a figure of server.b=20." in found.judgement.limits
    assert (found.judgement.standing, found.judgement.exit_code) == ("limited", 0)


@pytest.mark.parametrize(
    ("begun", "late", "seconds", "ends"),
    [(8, 8, 56.0, False), (9, 5, 63.0, True), (9, 4, 63.0, False), (64, 33, 448.0, True)],
)
def test_a_run_ends_early_when_more_than_half_of_its_slots_come_late(
    begun: int, late: int, seconds: float, ends: bool
) -> None:
    assert too_late(begun, late, seconds) is ends
