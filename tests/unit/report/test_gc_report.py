"""The report's sentences on collections: the figures of `leadline gc` in the steady state, beside the latencies."""

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.model.plan import PlannedTrial, Role, Treatment
from leadline.model.record import Phases, TrialRecord
from leadline.observe.gc import GcObserver
from leadline.observe.gclog import parse, summary
from leadline.report import collector, observed
from leadline.report.files import TrialFiles
from leadline.report.view import collections

START = 1_767_319_445.0  # 2026-01-02T02:04:05Z
STEADY = Phases(START, START + 10, START + 40, START + 42)


def log_line(at: float, text: str, tags: str = "gc") -> str:
    minutes, seconds = divmod(5 + at, 60)
    return f"[2026-01-02T02:{4 + int(minutes):02d}:{seconds:06.3f}+0000][{at:.3f}s][info][{tags}] {text}\n"


def trial(folder: Path, lines: list[str] | None) -> TrialFiles:
    """A pause of 50 ms every other second, in seconds whose 99th percentile is 80 instead of 20 ms."""
    (folder / "raw").mkdir()
    series = {}
    if lines is not None:
        (folder / "raw" / "gc.log").write_text("".join(lines))
        path = GcObserver().collect_from(folder)
        assert path is not None
        series["gc"] = pl.read_parquet(path)
    rows = [
        {"time_ns": round((START + n) * 1e9), "second": float(n), "response_p99_ms": 80.0 if n % 2 else 20.0}
        for n in range(42)
    ]
    planned = PlannedTrial(0, 0, 0, Role.BASELINE, Treatment({}), 1)
    record = TrialRecord(1, planned, "done", phases=STEADY, directory=folder)
    return TrialFiles(record, seconds=pl.DataFrame(rows), series=series, phases=STEADY)


def pauses() -> list[str]:
    made = [log_line(0.0, "Using Serial"), log_line(0.1, "Heap Max Capacity: 64M", "gc,init")]
    for n in range(21):
        text = f"GC({n}) Pause Young (Allocation Failure) 60M->20M(64M) 50.000ms"
        made.append(log_line(2 * n + 1.5, text))
    return made


def test_the_chosen_trials_have_pauses_and_utilisation_drawn(tmp_path: Path) -> None:
    file = trial(tmp_path, pauses())
    figures = collections([file], {1: "baseline"}, (1, 1), simulated=False)
    assert [figure.name for figure in figures] == ["pause-curve", "mmu"]
    assert "baseline (trial 1)" in json.dumps(figures[0].spec)
    assert collections([file], {1: "baseline"}, None, simulated=False) == ()


def test_the_sentences_have_the_figures_of_the_command(tmp_path: Path) -> None:
    files = trial(tmp_path, pauses())
    figures = summary(parse(tmp_path / "raw" / "gc.log"), (STEADY.steady_from, STEADY.steady_until))
    assert collector.steady(files) == figures
    said = observed.sentences(files)["gc"]
    assert said.startswith("15 pauses in the steady state, p99 50 ms, 50 ms the longest, 2.50 % of the time.")
    assert "1.95 s between them on average: 2.50 % of the time as pause / (interval + pause), 2.56 %" in said
    assert "Left to the application at worst: 50.00 % of a window of 100 ms, 95.00 % of a window of 1000 ms." in said
    assert "20.5 MiB/s allocated" in said
    assert "was 80 ms in the median second with a pause (15 s) and 20 ms without (15 s)." in said


def test_a_trial_without_a_log_or_with_another_file_says_nothing(tmp_path: Path) -> None:
    for name, lines in (("none", None), ("other", ["no GC log\n"])):
        folder = tmp_path / name
        folder.mkdir()
        files = trial(folder, None)
        if lines:
            (folder / "raw" / "gc.log").write_text("".join(lines))
        assert collector.sentence(files) == ""
        assert "gc" not in observed.sentences(files)


def test_what_the_log_lacks_is_told(tmp_path: Path) -> None:
    lines = pauses()
    del lines[8]
    said = collector.sentence(trial(tmp_path, [*lines, log_line(41.9, "GC(21) Pause Elsewhere 1.000ms")]))
    assert "Warning: 1 line about a pause is not known" in said
    assert "1 collection missing in the middle: 6" in said


def test_a_number_that_shenandoah_gave_to_no_collection_is_not_called_lost(tmp_path: Path) -> None:
    lines = [line.replace("Using Serial", "Using Shenandoah") for line in pauses()]
    del lines[8]
    said = collector.sentence(trial(tmp_path, lines))
    assert "1 collection missing in the middle, or cancelled before it began: 6" in said


def test_what_happened_in_the_whole_log_is_told(tmp_path: Path) -> None:
    lines = pauses()
    lines += [log_line(43 + n, f"GC({21 + n}) Pause Full (System.gc()) 60M->20M(64M) 900.000ms") for n in range(4)]
    assert "By the whole log: explicit-gc, System.gc() was called 4 times" in collector.sentence(trial(tmp_path, lines))


@pytest.mark.parametrize(("decorators", "said"), [("[100.000s]", True), ("[2026-01-02T03:04:05.000+0000]", False)])
def test_a_wall_clock_alone_is_no_uptime(decorators: str, said: bool, tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    lines = [f"[info][gc] GC({n}) Pause Young (Allocation Failure) 60M->20M(64M) 50.000ms\n" for n in range(2)]
    path.write_text(decorators + lines[0] + decorators.replace("05.", "06.").replace("100.", "101.") + lines[1])
    assert CliRunner().invoke(app, ["gc", str(path), "--html", str(tmp_path / "page.html")]).exit_code == 0
    assert ("s after its JVM" in (tmp_path / "page.html").read_text()) is said
