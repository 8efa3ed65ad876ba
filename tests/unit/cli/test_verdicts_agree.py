"""Every command and page tells the same verdicts and figures of a study: six planted ones, all from one analysis."""

import html
import json
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command_line import Command

from leadline.api.results import StudyResult
from leadline.api.running import run
from leadline.api.studies import Study
from leadline.cli.commands.figures import OTHER_ESTIMATE
from leadline.model.judgement import NO_ANSWER_CODE
from leadline.model.record import TrialRecord
from leadline.report import words
from leadline.report.charts.theme import Figure
from leadline.trial.progress import SilentWatcher
from leadline.web.server import Watch

POOL, AGE = "server.datasource.max_connections", "vm.swappiness"
STUDY = f"""\
study: planted
question: Do they tell the same?
stack: {{ server: liberty }}
workload: {{ users: 40, variables: {{ think: 10ms }}, ramp_up: 2s, steady: 12s, ramp_down: 1s }}
factors: {{ {POOL}: [40, 2], {AGE}: [60, 10] }}
responses: [throughput, p50]
"""
QUIET = "truth: { seed: 7, server: { think: 10ms }, noise: { trials: 0.3%, seconds: 1%, latency_trials: 1% }"
SLOW = f"{{ when: {{ {POOL}: 2 }}, percent: {{ p50: 60% }} }}"
LOSS = f"{{ when: {{ {POOL}: 2 }}, percent: {{ throughput: -20% }} }}"
GAIN = f"{{ when: {{ {AGE}: 10 }}, percent: {{ throughput: 15% }} }}"
BOTH = f"{{ when: {{ {POOL}: 2, {AGE}: 10 }}, percent: {{ throughput: 30% }} }}"
STUDIES = {
    "latency": (f"{QUIET}, effects: [{SLOW}] }}", "replicates: 4"),
    "loss and gain": (f"{QUIET}, effects: [{LOSS}, {GAIN}] }}", "replicates: 4"),
    "nothing": (f"{QUIET} }}", "replicates: 4"),
    "disturbed": (f"{QUIET}, neighbour: {{ share: 60% }}, effects: [{SLOW}] }}", "replicates: 4"),
    "interrupted": (f"{QUIET}, effects: [{SLOW}] }}", "replicates: 4"),
    "interaction": (f"{QUIET}, effects: [{LOSS}, {BOTH}] }}", "kind: full-factorial, replicates: 3"),
}
WANTED = {  # (factor, response): verdict
    "latency": {(POOL, "p50"): "worse", (POOL, "throughput"): "equivalent"},
    "loss and gain": {(POOL, "throughput"): "worse", (AGE, "throughput"): "better"},
    "nothing": {},
    "disturbed": {},
    "interrupted": {(POOL, "p50"): "worse"},
    "interaction": {},
}
leadline = Command()


class CtrlC(SilentWatcher):
    """Somebody who interrupts the run in its ninth trial."""

    def __init__(self) -> None:
        self.ended = 0

    def trial_ended(self, record: TrialRecord) -> None:
        self.ended += 1

    def step(self, name: str) -> None:
        if self.ended == 8 and name == "load":
            os.kill(os.getpid(), signal.SIGINT)


@dataclass(frozen=True)
class Planted:
    name: str
    result: StudyResult
    lab: Path
    truth: Path

    def ask(self, command: str, *more: object) -> str:
        unanswered = self.name == "interrupted" and command in ("show", "report")
        code = NO_ANSWER_CODE if unanswered else 0
        return leadline(command, "planted", *more, "--lab", self.lab, code=code)

    @property
    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Response, setting, verdict, change and interval of every comparison, as they are written."""
        return [
            (
                *(analysis.response, words.setting(self.result.record.study, effect.factor, effect.level)),
                *(effect.verdict.value, words.signed(effect.percent), words.change_interval(effect.simultaneous)),
            )
            for analysis in self.result.analysis.responses
            for effect in analysis.effects
        ]


@pytest.fixture(scope="module", params=STUDIES)
def planted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    truth, design = STUDIES[request.param]
    folder = tmp_path_factory.mktemp("planted")
    (folder / "study.yaml").write_text(f"{STUDY}design: {{ {design}, seed: 3 }}\n")
    (folder / "truth.yaml").write_text(truth)
    watcher = CtrlC() if request.param == "interrupted" else SilentWatcher()
    study = Study.read(str(folder / "study.yaml"))
    ended = run(study, folder / "lab", truth=folder / "truth.yaml", watcher=watcher)
    assert isinstance(ended.result, StudyResult)
    assert ended.complete == (request.param != "interrupted")
    return Planted(request.param, ended.result, folder / "lab" / "simulated", folder / "truth.yaml")


def plain(text: str) -> str:
    """In one line, without the spaces that fill a table."""
    return re.sub(r"\s+", " ", text)


def test_what_was_planted_is_found_and_nothing_else_is(planted: Planted) -> None:
    found = {
        (effect.factor, analysis.response): effect.verdict.value
        for analysis in planted.result.analysis.responses
        for effect in analysis.effects
    }
    wanted = WANTED[planted.name]
    assert {pair: found[pair] for pair in wanted} == wanted
    if planted.name != "interaction":
        assert {pair for pair, said in found.items() if said in ("better", "worse")} == {
            pair for pair, said in wanted.items() if said != "equivalent"
        }
    sentences = [pair.sentence for one in planted.result.analysis.responses for pair in one.interactions]
    assert any(sentences) == (planted.name == "interaction")


def test_an_interruption_is_no_failure_of_a_setting(planted: Planted) -> None:
    assert all(effect.failures == 0 for one in planted.result.analysis.responses for effect in one.effects)
    assert ("interrupted" in planted.result.answer) == (planted.name == "interrupted")


def test_show(planted: Planted) -> None:
    text = planted.ask("show")
    head, _ = words.lead(planted.result.analysis)
    assert planted.result.answer.startswith(head)
    assert text.startswith(head + "\n")
    assert text.count(head) == 1
    assert planted.ask("show", "--json").count("SIMULATED") > 0
    text = planted.ask("show", "--verbose")
    for _, setting, verdict, change, interval in planted.rows:
        row = next(line for line in text.splitlines() if setting in line and f"{change} %" in line)
        after = row[row.index(interval) + len(interval) :].strip()
        assert not after or after[0] in "+−0" if verdict == "undetermined" else after.startswith(verdict), row


def test_report_as_markdown(planted: Planted) -> None:
    text = planted.ask("report", "--format", "md").replace("\\", "")
    assert f"**{planted.result.answer}**" in html.unescape(text)
    for response, setting, verdict, change, interval in planted.rows:
        row = f"| {response} | {setting} | {change} % | {interval} |"
        (line,) = [line for line in text.splitlines() if line.startswith(row)]
        assert line.split("|")[-2].split(":")[0].strip() == verdict


def test_report_as_junit_and_json(planted: Planted) -> None:
    suite = ElementTree.fromstring(planted.ask("report", "--format", "junit"))
    properties = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert properties == {"answer": planted.result.answer, "simulated": "yes"}
    said = [(one[0].get("message") or one[0].text or "") for one in suite.iter("testcase")]
    wanted = [f"SIMULATED: {row[2]}: {row[0]} {row[3]} % {row[4]}" for row in planted.rows]
    assert all(one.startswith(row) for row, one in zip(wanted, said, strict=False))
    document = json.loads(planted.ask("report", "--format", "json"))
    assert document["answer"] == planted.result.answer
    told = [(one["response"], one["setting"], one["verdict"], one["percent"]) for one in document["comparisons"]]
    assert [(*one[:3], words.signed(one[3])) for one in told] == [row[:4] for row in planted.rows]


def test_the_page(planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Figure, "svg", lambda _: "<svg></svg>")  # a fake: drawings take long
    planted.ask("report", "--out", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    answer = re.search(r'id="answer">(.*?)</p>', text, re.DOTALL)
    assert answer is not None
    assert plain(html.unescape(re.sub(r"<[^>]+>", "", answer[1]))).strip() == planted.result.answer
    assert 'class="simulated" role="note"><b>SIMULATED' in text
    shown = plain(html.unescape(re.sub(r"<wbr>|<[^>]+>", " ", text)))
    for _, _, verdict, change, interval in planted.rows:
        assert re.search(rf"{re.escape(change)} \S.*? {re.escape(interval)} .{{0,40}}{verdict}", shown)
    assert ("interaction-throughput" in text) == (planted.name == "interaction")


@pytest.mark.parametrize("command", ["advise", "figures"])
def test_the_last_line_is_the_conclusion(planted: Planted, command: str) -> None:
    assert planted.ask(command).rstrip().endswith(planted.result.answer)
    document = leadline.document(command, "planted", "--lab", planted.lab)
    assert document["answer"] == planted.result.answer
    assert document["simulated"] is True


def test_figures_say_which_estimate_theirs_is(planted: Planted) -> None:
    assert f"Note: {OTHER_ESTIMATE}" in planted.ask("figures")


def test_the_live_page(planted: Planted) -> None:
    watch = Watch(planted.lab)
    deadline = time.monotonic() + 60
    while (rows := watch.live_document()["studies"])[0]["sentence"] == "analysis under way ...":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [row["sentence"] for row in rows] == [planted.result.answer]
    assert [row["simulated"] for row in rows] == [True]
    assert rows[0]["state"] == ("unfinished" if planted.name == "interrupted" else "finished")


def test_an_average_over_other_factors_says_so(planted: Planted) -> None:
    """The effect of a setting that depends on another is a mean, which no pair of trials shows."""
    averages = re.findall(r"averaged over the levels of ([a-z_.]+[a-z])", planted.result.answer)
    assert averages == ([POOL, AGE] if planted.name == "interaction" else [])


def test_the_disturbance_is_said_first(planted: Planted) -> None:
    said = planted.result.answer.removeprefix("SIMULATED: ").startswith("Other programs")
    assert said == (planted.name == "disturbed")


def test_confirm_takes_the_setting_that_the_conclusion_names_or_says_why_not(planted: Planted) -> None:
    asked = ("planted", "--lab", planted.lab.parent, "--simulate", planted.truth, "--dry-run")
    if planted.name in ("loss and gain", "interaction"):
        assert f"{AGE}=10 helps" in planted.result.answer
        plan = leadline("confirm", *asked)
        treatments = {line.split()[-1] for line in plan.splitlines() if re.match(r" +\d+ +block", line)}
        assert treatments == {"baseline", f"{AGE}=10"}
    else:
        why = "is not finished" if planted.name == "interrupted" else "nothing to confirm: the gain of"
        assert why in Command("confirm").refused(*asked)
