"""The one judgement of planted studies: the same in the first words, the tile, JSON, JUnit and the exit code."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from rich.console import Console
from test_conclude import beside, study

from leadline.conclude import conclude
from leadline.conclude.judgement import too_late
from leadline.model.errors import FailureClass
from leadline.model.record import STUDY_FILE, StudyRecord, TrialRecord
from leadline.model.result import SteadyState
from leadline.report import health
from leadline.report.ci import document, junit
from leadline.report.page import render
from leadline.report.summary import summary
from leadline.report.text import MOST_LIMITS, table
from leadline.report.view import gather

Planted = Callable[[], StudyRecord]
MOVED = "{ when: { server.a: 20 }, percent: { throughput: -9% } }"


def fine() -> StudyRecord:
    return study(MOVED)


def lost(record: StudyRecord, hit: Callable[[TrialRecord], bool]) -> StudyRecord:
    failed = FailureClass.INFRASTRUCTURE
    return replace(
        record,
        trials=tuple(
            replace(trial, state="failed", failure=failed, failure_message="the disk is gone", responses={})
            if hit(trial)
            else trial
            for trial in record.trials
        ),
    )


def is_baseline(record: StudyRecord) -> Callable[[TrialRecord], bool]:
    return lambda trial: trial.planned.treatment == record.plan.baseline


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


def cut_short() -> StudyRecord:
    record = fine()
    half = len(record.trials) // 2
    cut = replace(record.trials[half], state="failed", failure=FailureClass.INTERRUPTED, responses={})
    left = tuple(replace(trial, state="planned", responses={}) for trial in record.trials[half + 1 :])
    return replace(record, trials=(*record.trials[:half], cut, *left))


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


# name -> study, first words, standing, state of the tile, exit code
PLANTED: dict[str, tuple[Planted, str, str, str, int]] = {
    "all fine": (fine, "A 20 instead of 10 hurts: throughput is 8.6 % lower", "answered", "good", 0),
    "most lost": (
        lambda: lost(fine(), lambda trial: trial.id > 5),
        "No answer: 5 of 14 trials were measured; 9 lost (9 infrastructure): the disk is gone",
        "no answer",
        "bad",
        4,
    ),
    "nothing measured": (
        lambda: lost(fine(), lambda _: True),
        "No answer: none of 14 trials was",
        "no answer",
        "bad",
        4,
    ),
    "no baseline": (
        lambda: lost(fine(), is_baseline(fine())),
        "No answer: no trial of the baseline was measured",
        "no answer",
        "bad",
        4,
    ),
    "disturbed": (lambda: beside(fine(), {3: 0.62, 5: 0.4}), "Other programs (cc1, sh) used", "limited", "warn", 0),
    "cold": (cold, "In 14 of 14 trials the server was still warming up", "limited", "warn", 0),
    "underpowered": (noisy, "Not known: whether a or b matters", "limited", "warn", 0),
    "too noisy": (too_noisy, "No answer: the noise is too large", "no answer", "bad", 4),
    "interrupted": (cut_short, "Not finished: 7 of 14 trials done; 1 trial interrupted", "not finished", "warn", 4),
    "simulated": (
        lambda: replace(fine(), environment={"host.SIMULATED": "yes"}),
        "SIMULATED: A 20 instead of 10 hurts",
        "limited",
        "warn",
        0,
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_one_judgement_is_told_everywhere(name: str) -> None:
    planted, words, standing, state, code = PLANTED[name]
    record = planted()
    found = conclude(record)
    judgement, told = found.judgement, summary(record, found)
    if name == "cold":
        assert words in found.answer
    else:
        assert found.answer.startswith(words)
    assert (judgement.standing, judgement.exit_code) == (standing, code)
    tile = health.health(record, found, [])[0]
    assert (tile.title, tile.state) == ("Answer", state)
    assert document(told)["judgement"]["standing"] == standing
    assert (document(told)["outcome"] == "error") is (code == 4)
    cases = ElementTree.fromstring(junit(told)).iter("testcase")
    case = next(one for one in cases if one.get("name") == "Answer")
    assert (case.find("error") is not None) is (code == 4)


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


@pytest.mark.parametrize("name", ["interrupted", "most lost", "too noisy", "underpowered"])
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
