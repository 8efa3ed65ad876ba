"""The summary for pull requests and CI: what each outcome rests on, and that nothing from outside is markup."""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_fixture import HEAP, NASTY, POOL, fake_study

from leadline.conclude.study import conclude
from leadline.model.errors import FailureClass, UsageError
from leadline.model.result import Verdict
from leadline.report.ci import document, junit, markdown, text
from leadline.report.summary import Outcome, Summary, summary


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    return summary(*fake_study(tmp_path_factory.mktemp("lab"), replicates=2))


def test_outcomes_follow_the_verdicts(found: Summary) -> None:
    by_setting = {(one.response, one.factor, one.level): one for one in found.comparisons}
    assert by_setting["throughput", POOL, "1"].outcome is Outcome.FAILED
    assert by_setting["throughput", HEAP, "8m"].outcome is Outcome.ERROR
    expected = {
        Verdict.WORSE: Outcome.FAILED,
        Verdict.FAILED: Outcome.ERROR,
        Verdict.UNDETERMINED: Outcome.SKIPPED,
    }
    assert all(one.outcome is expected.get(one.verdict, Outcome.PASSED) for one in found.comparisons)
    assert {one.name: one.outcome for one in found.checks}["Answer"] is Outcome.PASSED
    assert found.outcome is Outcome.ERROR
    assert [one.failure for one in found.failures] == ["configuration"] * 2


def test_an_interrupted_study_is_an_error_and_fails_no_setting(tmp_path: Path) -> None:
    record, _ = fake_study(tmp_path, replicates=1)
    cut = replace(record.trials[-1], state="failed", failure=FailureClass.INTERRUPTED)
    done = tuple(one for one in record.trials[:-1] if one.state == "done")
    stopped = replace(record, trials=(*done, cut))
    told = summary(stopped, conclude(stopped))
    assert told.failures == ()
    assert {one.name: one.outcome for one in told.checks}["Answer"] is Outcome.ERROR


def test_markdown_holds_the_answer_and_no_markup_from_outside(found: Summary) -> None:
    told = markdown(replace(found, answer=NASTY + " @everyone a|b\n# head", warnings=(NASTY,)))
    assert "<" not in told
    assert " &#64;everyone" in told
    assert "\\[bold\\]" in told
    assert "a\\|b \\# head" in told
    rows = [line for line in told.splitlines() if line.startswith("| throughput")]
    assert len(rows) == len([one for one in found.comparisons if one.response == "throughput"])
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 7 for row in rows)
    assert "SIMULATED" not in told
    assert "> **SIMULATED" in markdown(replace(found, simulated=True))


def test_junit_counts_what_it_holds(found: Summary) -> None:
    suite = ElementTree.fromstring(junit(replace(found, answer="a\x00b\ud800", simulated=True)))[0]
    cases = suite.findall("testcase")
    assert suite.get("tests") == str(len(cases)) == str(len(found.comparisons) + len(found.checks))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert suite.get(name) == str(len(suite.findall(f"testcase/{tag}"))) != "0"
    pool = next(
        one for one in cases if one.get("classname") == "pools-fake.throughput" and f"{POOL} = 1" in one.attrib["name"]
    )
    message = pool[0].attrib["message"]
    assert message.startswith("SIMULATED: worse: throughput −5")
    heap = next(one for one in cases if f"{HEAP} = 8m" in one.attrib["name"])
    assert "Too small" not in (heap[0].text or "")
    assert "the server ended with code 1 before it was ready" in (heap[0].text or "")


def test_json_has_the_documented_keys(found: Summary) -> None:
    told = json.loads(text(found, "json"))
    assert told == document(found)
    assert told["format"] == "leadline-report/1"
    page = (Path(__file__).parents[3] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    part = page.split("## A summary: `leadline-report/1`")[1].split("\n## ")[0]
    keys = {*told, *told["comparisons"][0], *told["checks"][0], *told["failures"][0]}
    assert keys <= set(re.findall(r"`(\w+)`", part))


def test_an_unknown_format_names_the_nearest(found: Summary) -> None:
    with pytest.raises(UsageError, match="unknown format 'jnuit'; did you mean junit"):
        text(found, "jnuit")
