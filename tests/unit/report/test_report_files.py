"""The terminal's table and the exported files."""

import csv
import io
import json
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from report_fixture import CACHE, HEAP, NASTY, POOL, RESPONSES, fake_study
from rich.console import Console

from leadline.model.errors import UsageError
from leadline.model.record import StudyRecord
from leadline.model.result import StudyAnalysis
from leadline.report import document
from leadline.report.export import export
from leadline.report.text import one_line, table


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyRecord, StudyAnalysis]:
    return fake_study(tmp_path_factory.mktemp("lab"), replicates=2)


def printed(study: tuple[StudyRecord, StudyAnalysis], width: int, *, soft_wrap: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width)
    console.print(table(*study, verbose=True), soft_wrap=soft_wrap)
    console.print(one_line(study[1].answer), soft_wrap=soft_wrap)
    return out.getvalue()


def test_the_table_says_everything_in_plain_text(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    text = printed(study, 200)
    record, analysis = study
    assert "\x1b" not in text
    lines = text.splitlines()
    row = next(line for line in lines if line.strip().startswith(f"{POOL} = 1 "))
    own = [e for one in analysis.responses for e in one.effects if (e.factor, e.level) == (POOL, 1)]
    assert own[0].percent is not None
    assert f"−{-own[0].percent:.1f} % worse" in row
    assert [row.count(f" {word}") for word in ("worse", "better")] == [
        sum(effect.verdict == word for effect in own) for word in ("worse", "better")
    ]
    for wanted in ("luck alone", "No drift seen", "Not distinguishable", "failed, configuration", "is left out:"):
        assert wanted in text
    assert " ".join(text.split()).endswith(analysis.answer)
    assert NASTY in " ".join(text.split())
    assert f"{sum(t.state == 'done' for t in record.trials)} of {len(record.plan.trials)} trials done" in text


@pytest.mark.parametrize("width", [40, 80, 100])
def test_no_figure_is_cut_in_a_narrow_terminal(study: tuple[StudyRecord, StudyAnalysis], width: int) -> None:
    narrow = " ".join(printed(study, width).split())
    for one in study[1].responses:
        for effect in one.effects:
            if effect.simultaneous is not None:
                assert (
                    f"{abs(effect.simultaneous.high):,.{0 if abs(effect.simultaneous.high) >= 100 else 1}f}]" in narrow
                )


@pytest.mark.parametrize(("width", "bands"), [(80, 2), (120, 1)])
def test_the_answer_comes_first_then_one_table_then_ten_lines(
    study: tuple[StudyRecord, StudyAnalysis], width: int, bands: int
) -> None:
    out = io.StringIO()
    record, analysis = study
    Console(file=out, width=width).print(table(record, replace(analysis, warnings=("a",) * 20)))
    lines = out.getvalue().splitlines()
    assert lines[0].startswith(analysis.answer[:30])
    assert max(map(len, lines)) <= width
    heads = [line for line in lines if "is better" in line]
    assert len(heads) == bands
    assert sum(line.count("is better") for line in heads) == len(analysis.responses)
    blanks = [n for n, line in enumerate(lines) if not line.strip()]
    (more,) = (n for n, line in enumerate(lines) if line.endswith("more lines with --verbose."))
    assert more == len(lines) - 1
    assert blanks[-1] < len(lines) - 11


def test_a_pipe_gets_one_line_a_row(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    assert [x for x in printed(study, 60, soft_wrap=True).splitlines() if x.strip().startswith(f"{CACHE} = 0 ")]


def test_what_a_server_said_cannot_steer_the_terminal(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    record, analysis = study
    trials = tuple(
        replace(t, failure_message="boom\x1b[2J\r\nnext") if t.state == "failed" else t for t in record.trials
    )
    text = printed((replace(record, trials=trials), analysis), 200)
    assert "\x1b" not in text
    assert "boom [2J next" in text


def test_csv_has_a_row_a_trial_and_a_row_an_effect(study: tuple[StudyRecord, StudyAnalysis], tmp_path: Path) -> None:
    record, analysis = study
    written = export(record, analysis, tmp_path, {"csv"})
    assert {path.name for path in written} == {"trials.csv", "effects.csv", "latency.csv", "readings.csv"}
    trials = list(csv.DictReader((tmp_path / "trials.csv").open(encoding="utf-8")))
    assert len(trials) == len(record.trials)
    for row, trial in zip(trials, record.trials, strict=True):
        assert row["state"] == trial.state
        assert row[POOL] == str(trial.planned.treatment[POOL])
        assert row[HEAP] in ("512m", "8m")
        if trial.state == "failed":
            assert row["failure"] == "configuration"
            assert all(row[name] == "" for name in RESPONSES)
        else:
            assert {name: float(row[name]) for name in trial.responses} == dict(trial.responses)
    effects = list(csv.DictReader((tmp_path / "effects.csv").open(encoding="utf-8")))
    assert len(effects) == sum(len(one.effects) for one in analysis.responses)
    assert {row["verdict"] for row in effects} == {"worse", "undetermined", "failed"}
    failed = [row for row in effects if row["verdict"] == "failed"]
    assert all(row["change_percent"] == row["low_95"] == "" for row in failed)
    rows = list(csv.DictReader((tmp_path / "latency.csv").open(encoding="utf-8")))
    assert all(float(row["lowest_trial_ms"]) <= float(row["highest_trial_ms"]) for row in rows)


def test_figures_come_as_png_and_svg(study: tuple[StudyRecord, StudyAnalysis], tmp_path: Path) -> None:
    record, analysis = study
    few = []
    for trial in record.trials[:4]:  # with the pool's series only: a figure takes a while to draw
        assert trial.directory is not None
        shutil.copytree(trial.directory, tmp_path / str(trial.id), ignore=shutil.ignore_patterns("[!p]*.parquet"))
        few.append(replace(trial, directory=tmp_path / str(trial.id)))
    record, analysis = replace(record, trials=tuple(few)), replace(analysis, responses=analysis.responses[:1])
    written = export(record, analysis, tmp_path, {"png", "svg"})
    pngs = [path for path in written if path.suffix == ".png"]
    assert {path.stem for path in pngs} == {path.stem for path in written if path.suffix == ".svg"}
    assert {"effects-throughput", "timeline", "latency-curve", "latency-by-transaction"} <= {p.stem for p in pngs}
    for path in pngs:
        data = path.read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", data[16:24])
        assert width > 800, path
        assert height > 200, path
    assert (tmp_path / "timeline.svg").read_text(encoding="utf-8").startswith("<svg")


def test_json_holds_the_study_and_its_analysis(study: tuple[StudyRecord, StudyAnalysis], tmp_path: Path) -> None:
    record, analysis = study
    (path,) = export(record, analysis, tmp_path, ["json"])
    found = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda word: pytest.fail(word))
    assert found["format"] == document.FORMAT == "leadline-study/1"
    assert found["study"]["study"] == record.study.study
    assert len(found["trials"]) == len(record.trials)
    assert found["trials"][0]["planned"]["levels"][POOL] == record.trials[0].planned.treatment[POOL]
    effect = found["analysis"]["responses"][0]["effects"][0]
    source = analysis.responses[0].effects[0]
    assert source.interval is not None
    assert effect["interval"] == {"low": source.interval.low, "high": source.interval.high, "level": 0.95}
    assert found["analysis"]["answer"] == analysis.answer


def test_numbers_without_a_json_word_become_null() -> None:
    assert document.plain({"a": float("nan"), "b": (float("inf"), 1.5)}) == {"a": None, "b": [None, 1.5]}


def test_an_unknown_format_names_the_nearest(study: tuple[StudyRecord, StudyAnalysis], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean svg"):
        export(*study, tmp_path, {"sgv"})
