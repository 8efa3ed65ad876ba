"""The page: answer first, nothing loaded, everything from outside escaped, missing data said and not fatal."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_fixture import CACHE, HEAP, NASTY, POOL, fake_study

from leadline.model.judgement import Judgement
from leadline.model.plan import Role
from leadline.model.record import AuditRecord, Reading, StudyRecord
from leadline.model.result import Effect, Interval, StudyAnalysis, Verdict
from leadline.report import files as trial_files
from leadline.report import page as page_module
from leadline.report import summary, view, words
from leadline.report.charts import effects as effects_chart
from leadline.report.charts.theme import DataSets, figure
from leadline.report.observed import pool_sentence, pools
from leadline.report.page import build


class Page(HTMLParser):
    """Text, headings, addresses and scripts of a page."""

    LOADS = ("src", "href", "srcset", "data", "action", "poster", "xlink:href")

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.headings: list[str] = []
        self.loads: list[str] = []
        self.handlers: list[str] = []
        self.tags: list[str] = []
        self.by_id: dict[str, str] = {}
        self.text: list[str] = []
        self._open: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        known = dict(attrs)
        self.loads += [value or "" for name, value in attrs if name in self.LOADS]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        if tag not in ("meta", "link", "img", "br", "input"):
            self._open.append((tag, known.get("id")))
        if tag in ("h1", "h2", "h3"):
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not self._open:
            return
        tag = self._open[-1][0]
        if tag in ("h1", "h2", "h3"):
            self.headings[-1] += data
        for _, identity in self._open:
            if identity:
                self.by_id[identity] = self.by_id.get(identity, "") + data
        if tag not in ("script", "style"):
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyRecord, StudyAnalysis]:
    return fake_study(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def html(study: tuple[StudyRecord, StudyAnalysis], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = build(*study, tmp_path_factory.mktemp("out") / "deep" / "report.html")
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_the_answer_comes_first_and_the_sections_follow_in_order(
    page: Page, study: tuple[StudyRecord, StudyAnalysis]
) -> None:
    assert page.by_id["answer"] == study[1].answer
    assert page.words.index(study[1].answer) < page.words.index("The question:")
    wanted = ["Effects, ranked", "What the layers did", "Latency", "Trials in order", "Inside a trial"]
    wanted += ["Failures and audits", "Everything needed to repeat it"]
    found = [next(i for i, h in enumerate(page.headings) if h.startswith(name)) for name in wanted]
    assert found == sorted(found)


def test_the_page_loads_nothing(html: str, page: Page) -> None:
    assert page.loads
    assert all(address.startswith("#") for address in page.loads), page.loads
    assert "default-src 'none'" in unescape(html)
    assert not re.search(r"@import|url\(\s*['\"]?(https?:)?//", html.split("<script", 1)[0])
    assert page.tags.count("link") == page.tags.count("img") == page.tags.count("iframe") == 0


def test_what_comes_from_outside_is_escaped(html: str, page: Page) -> None:
    assert NASTY in page.words  # shown as it was said
    assert html.count("<script") == 3  # data, bundle, the page's own
    assert "<img src=x" not in html
    assert page.handlers == []
    assert "49" not in page.by_id["answer"]


def test_the_data_of_the_page_is_json_and_cannot_end_its_script(page: Page) -> None:
    text = page.by_id["page-data"]
    assert "<" not in text
    data = json.loads(text)
    assert len(data["trials"]) == 28
    assert {panel["name"] for panel in data["panels"]} >= {"throughput", "pool", "processes", "cpu", "gc", "disk"}


def test_a_broken_copy_of_the_library_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(page_module.vl_convert, "javascript_bundle", lambda *_, **__: made.append(1) or "a</script>b")
    for count, damage in ((1, "keep"), (1, "cut"), (2, "keep")):
        page_module._bundle.cache_clear()
        text = page_module._bundle(tmp_path)
        assert text.startswith("a<\\/script>b")
        assert len(made) == count
        (copy,) = tmp_path.glob("vega-*.js")
        assert copy.read_text() == text
        if damage == "cut":
            copy.write_text(text[:5])
    page_module._bundle.cache_clear()


def test_size_stays_sensible(html: str) -> None:
    assert len(html.encode()) < 3_000_000


def test_the_static_figures_have_marks_and_descriptions(html: str) -> None:
    svgs = re.findall(r'<svg role="img".*?</svg>', html.split("<script", 1)[0], re.S)
    assert len(svgs) > 20
    assert all("<path" in svg for svg in svgs)
    labels = [re.match(r'<svg role="img" aria-label="([^"]+)"', svg) for svg in svgs]
    assert all(labels)
    for title in ("The whole percentile curve.", "Pauses by percentile."):
        assert any(label and label[1].startswith(title) for label in labels)


def test_a_label_with_markup_stays_text_in_a_figure() -> None:
    sets = DataSets()
    chart = sets.chart([{"a": 1, "label": NASTY}]).mark_text().encode(x="a:Q", text="label:N")
    svg = figure("nasty", NASTY, NASTY, chart, sets=sets).svg()
    assert "<script" not in svg
    assert "<img" not in svg
    assert "&lt;script&gt;" in svg


def test_effects_table_states_intervals_trials_and_verdicts(page: Page) -> None:
    assert f"{POOL} = 1" in page.words
    assert re.search(r"−5\d\.\d \[−5\d\.\d, −\d\d\.\d\]", page.words)
    assert "0 (2 failed) failed: every trial failed (configuration)" in page.words
    assert "Not distinguishable: baseline" in page.words
    assert "the best of 5 comparisons would gain" in page.words


def test_the_starved_pool_is_named_and_the_others_are_not(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    record, _ = study
    seen = set()
    for trial in record.trials:
        if trial.state != "done" or trial.planned.position == 5:
            continue
        (use,) = pools(trial_files.read(trial))
        size = trial.planned.treatment[POOL]
        seen.add(size)
        assert use.limit == size
        assert use.starved == (size == 1)
        assert ("was starved: the only connection was in use" in pool_sentence(use)) == (size == 1)
    assert seen == {1, 2, 10, 40}


def test_the_page_says_the_starved_pool_where_it_is_shown(page: Page) -> None:
    assert "Pool jdbc/brokerage was starved" in page.words


def test_the_trials_shown_first_are_baseline_and_strongest_effect(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    content = view.gather(*study, figures=False)
    assert content.chosen is not None
    left, right = (content.labels[trial] for trial in content.chosen)
    assert (left, right) == ("baseline", f"{POOL} = 1")


def test_failed_trials_show_class_message_and_the_servers_words(page: Page) -> None:
    assert "Trial 108: configuration" in page.words or "Trial 114: configuration" in page.words
    assert "the server ended with code 1 before it was ready" in page.words
    assert "Too small maximum heap" in page.words


def test_what_is_needed_to_repeat_it_is_there(page: Page, study: tuple[StudyRecord, StudyAnalysis]) -> None:
    record = study[0]
    assert " ".join(record.document.split()) in page.words
    assert "sha256:" + "ab" * 32 in page.words
    assert f"seed {record.plan.seed}" in page.words
    for trial in record.plan.trials:
        assert str(trial.seed) in page.words
    assert "vm.nr_hugepages is left out: needs root" in page.words
    assert re.search(
        r"vm\.dirty_expire_centisecs 500 3000 30 times 500 4 times 500 4 times 3000 30 times yes", page.words
    )


def test_missing_series_and_files_are_said(page: Page) -> None:
    assert "not recorded in any trial: " in page.words  # paging was never observed in this study
    assert "Paging and swap" not in page.headings
    assert "Paging and swap" in page.words
    assert "Web server" not in page.words  # there was none


def test_a_study_that_never_ran_still_has_a_page(study: tuple[StudyRecord, StudyAnalysis], tmp_path: Path) -> None:
    record, _ = study
    waiting = tuple(
        replace(
            t,
            state="planned",
            failure=None,
            responses={},
            audits=(),
            readings=(),
            steady=None,
            phases=None,
            directory=None,
            started=None,
        )
        for t in record.trials
    )
    told = "Nothing can be said yet: no trial was done."
    empty = StudyAnalysis((), 0, {}, told, judgement=Judgement(trials=30, left=30, figures=False))
    path = build(replace(record, trials=waiting), empty, tmp_path)
    assert path == tmp_path / "report.html"
    page = Page(path.read_text())
    assert "0 of 30 trials done" in page.words
    assert "30 not finished" in page.words
    assert "no series were recorded" in page.words


def test_broken_files_cost_their_panels_only(study: tuple[StudyRecord, StudyAnalysis], tmp_path: Path) -> None:
    record, analysis = study
    trial = next(t for t in record.trials if t.state == "done")
    for name in ("driver", "series"):
        (tmp_path / name).mkdir()
    (tmp_path / "driver" / "summary.json").write_text("{ broken")
    (tmp_path / "driver" / "seconds.csv").write_text("a,b\n1,2\n")
    (tmp_path / "driver" / "response.hlog").write_text("#[StartTime: 1.0 (s)]\nTag=a,0,1,2,HISTnonsense\n")
    (tmp_path / "series" / "host.parquet").write_bytes(b"PAR1 no")
    broken = replace(trial, directory=tmp_path)
    read = trial_files.read(broken)
    assert sorted(p.split(":")[0] for p in read.problems) == ["host.parquet", "seconds.csv", "summary.json"]
    path = build(replace(record, trials=(broken,)), analysis, tmp_path / "out.html")
    text = Page(path.read_text()).words
    assert "a file could not be read" in text
    assert "not recorded" in text


def test_health_says_what_is_wrong(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    record, analysis = study
    files = [trial_files.read(trial) for trial in record.trials]
    items = {item.title: item for item in summary.health(record, analysis, files)}
    assert items["Answer"].value == "28 of 30 trials measured"
    assert items["Answer"].state == summary.WARN
    assert items["Audits"].state == items["Driver"].state == items["Host"].state == summary.GOOD
    bad = replace(
        record.trials[0],
        audits=(AuditRecord("ledger", False, "off by 3"),),
        readings=(Reading("vm.x", "undone", "1", "2", False),),
    )
    limited = replace(
        files[0],
        summary={"driver": {"limit": True, "cpu_share": 0.99}, "dropped": 7, "littles_law": {"relative_error": -0.3}},
    )
    worse = {i.title: i for i in summary.health(replace(record, trials=(bad,)), analysis, [limited])}
    assert worse["Audits"].state == worse["Driver"].state == worse["Host"].state == summary.BAD
    assert worse["Little's law"].state == summary.WARN
    assert worse["Host"].detail == "vm.x"
    assert "ledger in trial" in worse["Audits"].detail
    guests = record.study.model_copy(update={"stack": record.study.stack.model_copy(update={"host": "virtual-time"})})
    shared = {i.title: i for i in summary.health(replace(record, study=guests), analysis, [limited])}
    assert shared["Driver"].state == summary.GOOD  # late for the server's sake, on the guest's one CPU
    assert shared["Other programs"].value == "cannot disturb virtual time"
    note = {"sentence": "from the send", "missing": "no times of failures"}
    other = replace(files[0], summary={"driver": {"limit": False, "cpu_share": 0.5}, "generator": note})
    detail = {i.title: i for i in summary.health(record, analysis, [other, other])}["Driver"].detail
    assert detail == "busiest: 50.0 % of its CPU; from the send; 2 trials: no times of failures"


@pytest.mark.parametrize(
    ("readings", "state", "value", "detail"),
    [
        ([], summary.GOOD, "nothing was changed", ""),
        ([("mount /m/store", "undone", "gone", "gone")], summary.GOOD, "put back", "1 mount gone"),
        (
            [
                ("vm.x", "undone", "1", "1"),
                ("swap /dev/a", "undone", "on", "on"),
                ("swap /dev/b", "undone", "on", "on"),
                ("directory /m", "undone", "gone", "gone"),
                ("directory /n", "undone", "gone", "gone"),
                ("server.messaging.store_place", "before", "tmpfs", "tmpfs"),
            ],
            summary.GOOD,
            "put back",
            "1 setting read again, 2 private folders gone, 2 swap areas on again",
        ),
        ([("mount /m/store", "undone", "gone", "there")], summary.BAD, "not put back", "mount /m/store"),
        (
            [("vm.x", "original", None, "1"), ("server.messaging.store_place", "before", "ramdisk", "ramdisk")],
            summary.UNKNOWN,
            "not read again",
            "1 setting changed, 1 store placed in memory",
        ),
    ],
)
def test_the_host_tile_says_what_was_changed_and_put_back(
    study: tuple[StudyRecord, StudyAnalysis],
    readings: list[tuple[str, str, str | None, str]],
    state: str,
    value: str,
    detail: str,
) -> None:
    record, analysis = study
    made = tuple(Reading(knob, phase, was, now, was in (None, now)) for knob, phase, was, now in readings)
    trials = (replace(record.trials[0], readings=made),)
    items = {item.title: item for item in summary.health(replace(record, trials=trials), analysis, [])}
    assert (items["Host"].state, items["Host"].value, items["Host"].detail) == (state, value, detail)


def test_a_drift_that_would_be_hidden_is_not_called_none(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    record, analysis = study
    for interval, value in (
        (Interval(-4.0, 5.0, 0.95), "none detected"),
        (Interval(-95.0, 210.0, 0.95), "inconclusive"),
    ):
        first = analysis.responses[0]
        drift = replace(first.drift, percent=0.5, interval=interval, detected=False)
        seen = replace(analysis, responses=(replace(first, drift=drift),))
        items = {item.title: item for item in summary.health(record, seen, [])}
        assert items["Drift"].value == value


def test_a_wide_effect_does_not_flatten_the_small_ones(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    record, analysis = study
    one = next(r for r in analysis.responses if r.response == "p99")
    wide = effects_chart.effects(record, one)
    small = replace(one, effects=tuple(e for e in one.effects if e.percent is not None and abs(e.percent) < 30))
    narrow = effects_chart.effects(record, small)
    assert wide is not None
    assert narrow is not None
    assert '"symlog"' in json.dumps(wide.spec)
    assert '"symlog"' not in json.dumps(narrow.spec)
    assert "logarithmic" in wide.caption
    assert effects_chart.effects(record, replace(one, effects=())) is None


def test_levels_are_written_as_in_the_study_file(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    record, _ = study
    assert words.level_text(record.study, HEAP, 512 * 2**20) == "512m"
    assert words.level_text(record.study, CACHE, 0) == "0"
    assert words.level_text(record.study, "jvm.unknown", True) == "on"
    sentinel = next(t for t in record.trials if t.planned.role is Role.SENTINEL)
    assert words.treatment_text(record.study, record.plan, sentinel.planned.treatment) == "baseline"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0"), (10.0, "10"), (1234567.0, "1,234,567"), (12.345, "12.3"), (-0.04567, "−0.0457")],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert words.number(value) == text


def test_changes_carry_their_sign() -> None:
    assert words.signed(-0.04) == "0.0"
    assert words.signed(3.14159) == "+3.1"
    assert words.change_interval(Interval(-12.0, 345.6)) == "[−12.0, +346]"
    effect = Effect("a", 1, 2, "p99", Verdict.WORSE, 3, 1)
    assert words.trials_text(effect) == "3 (1 failed)"


def test_the_sentence_that_answers_leads_a_long_answer(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    _, analysis = study
    head, more = "Ten are enough: fewer hurt throughput.", "All else is inconclusive. " * 10
    long = replace(analysis, answer=f"{head} {more}".strip(), headline=head)
    assert words.lead(long) == (head, more.strip())
    short = replace(analysis, answer=f"{head} All else is inconclusive.", headline=head)
    assert words.lead(short) == (short.answer, "")
