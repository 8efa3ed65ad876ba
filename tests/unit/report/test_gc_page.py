"""The page of GC logs, and what else the command prints of them.

The report's sentences on collections: the figures of `leadline gc` in the steady state, beside the latencies.
"""

import csv
import io
import json
import re
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.gcanalysis.summary import summary
from leadline.model.plan import PlannedTrial, Role, Treatment
from leadline.model.record import Phases, TrialRecord
from leadline.observe.gc import GcObserver
from leadline.observe.gclog.files import parse
from leadline.observe.gclog.report import COLUMNS
from leadline.report import collector, observed
from leadline.report.files import TrialFiles
from leadline.report.view import collections
from leadline.report.words import escaped

LIMIT = 3_000_000  # bytes


def write(path: Path, count: int, longest: float = 9.0, every: float = 1.0, extra: str = "") -> Path:
    """A G1 log with ``count`` pauses of 5 ms, the middle one of ``longest``; marking beside, safepoints."""
    lines = ["[0.001s][info][gc] Using G1\n", "[0.002s][info][gc,init] Heap Max Capacity: 64M\n"]
    for n in range(count):
        at, ms = 1 + n * every, longest if n == count // 2 else 5 + n % 7 / 10
        kind, heap = "Pause Young (Normal) (G1 Evacuation Pause)", f"40M->{20 + n % 3}M(64M)"
        lines.append(f"[{at:.3f}s][info][gc] GC({n}) {kind} {heap} {ms:.3f}ms\n")
        lines.append(_stop(at + 0.001, "G1CollectForAllocation", ms + 0.1))
        if n % 5 == 0:
            lines.append(f"[{at + every / 4:.3f}s][info][gc] GC({n}) Concurrent Mark From Roots {250 * every:.3f}ms\n")
            lines.append(_stop(at + every / 3, "ThreadDump", 1.0))
    path.write_text("".join(lines) + extra)
    return path


def _stop(at: float, operation: str, ms: float) -> str:
    reaching = "Time since last: 1 ns, Reaching safepoint: 900 ns, At safepoint: 9 ns"
    return f'[{at:.3f}s][info][safepoint] Safepoint "{operation}", {reaching}, Total: {ms * 1e6:.0f} ns\n'


def run(*words: object) -> str:
    shown = CliRunner().invoke(app, ["gc", *map(str, words)])
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def data(page: Path) -> dict[str, dict[str, object]]:
    found = re.search(r'<script id="page-data" type="application/json">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    parsed: dict[str, dict[str, object]] = json.loads(found[1])
    return parsed


def lines_of(page: Path, panel: str, key: str = "0") -> list[dict[str, list[float]]]:
    tracks = data(page)["trials"][key]["series"]["panels"][panel]["tracks"]  # type: ignore[index]
    return [line for lines in tracks for line in lines]


def test_a_long_log_is_thinned_to_its_extremes(tmp_path: Path) -> None:
    log = write(tmp_path / "gc.log", 60_000, longest=777.0)
    page = tmp_path / "page.html"
    assert run(log, "--html", page).strip() == str(page)
    assert page.stat().st_size < LIMIT
    pauses = lines_of(page, "gc")[0]
    at = pauses["v"].index(777.0)
    assert pauses["t"][at] == pytest.approx(30_001, abs=1)  # at its own time
    assert len(pauses["v"]) <= 400
    heap = lines_of(page, "gc")[1]
    assert {20.0, 22.0} <= set(heap["v"])
    assert "Of neighbours the longest is drawn" in page.read_text()


def test_what_happened_comes_first_and_every_panel_is_there(tmp_path: Path) -> None:
    asked = "".join(
        f"[{200 + n}.000s][info][gc] GC({50 + n}) Pause Full (System.gc()) 40M->20M(64M) 200.000ms\n"
        + _stop(200.001 + n, "G1CollectFull", 201)
        for n in range(9)
    )
    page = tmp_path / "page.html"
    run(write(tmp_path / "a<b>.log", 50, extra=asked), "--html", page)
    text = page.read_text()
    assert text.index("explicit-gc") < text.index('id="explorer"')
    assert "a&lt;b&gt;.log" in text
    assert [panel["name"] for panel in data(page)["panels"]] == ["gc", "safepoints", "gc-rates", "gc-phases"]  # type: ignore[index]
    (phase,) = lines_of(page, "gc-phases")
    assert (phase["s"], phase["t"][0], phase["to"][0]) == ("Concurrent Mark From Roots", 1.0, 1.25)
    operations = {line["s"] for line in lines_of(page, "safepoints")}
    assert operations == {"G1CollectForAllocation", "G1CollectFull", "ThreadDump"}
    assert 'src="http' not in text


def test_two_sides_are_compared(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.log", 100), write(tmp_path / "b.log", 100, every=0.5)
    page = tmp_path / "page.html"
    text = run(a, "--against", b)
    assert re.search(r"pauses, /s +\+\d+\.\d % \(.*\): higher", text)
    run(a, "--against", b, "--html", page)
    assert re.search(r'id="answer">Against A, B has .*pauses \+', page.read_text())
    document = json.loads(run(a, "--against", b, "--json"))
    assert [file["side"] for file in document["files"]] == ["A", "B"]
    assert {one["figure"]: one["verdict"] for one in document["against"]}["pauses"] == "higher"


def test_the_pod_that_differs_is_named(tmp_path: Path) -> None:
    pods = [write(tmp_path / f"pod-{n}.log", 100) for n in range(3)]
    text = run(*pods, write(tmp_path / "pod-9.log", 200, every=0.5))
    assert re.search(r"pod-9.log differs from the others together: .*pauses \+99", text)


def test_events_are_rows_and_figures_markdown(tmp_path: Path) -> None:
    log = write(tmp_path / "gc.log", 20, longest=50.0)
    rows = list(csv.DictReader(io.StringIO(run(log, "--csv"))))
    assert list(rows[0]) == list(COLUMNS)
    kinds = [row["event"] for row in rows]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"pause": 20, "phase": 4, "safepoint": 24}
    longest = max((row for row in rows if row["event"] == "pause"), key=lambda row: float(row["ms"]))
    assert (longest["ms"], longest["heap_before"], longest["heap_total"]) == ("50.0", str(40 << 20), str(64 << 20))
    text = run(log, "--md")
    assert text.startswith(f"## {escaped(str(log))}\n")
    assert re.search(r"^\| pauses \| 20, .* longest 50.00 ms \|$", text, re.MULTILINE)
    assert re.search(r"^\| Pause Young .* \| 20 \| .* \| 50.00 \|$", text, re.MULTILINE)


def test_a_log_without_times_has_a_page_without_panels(tmp_path: Path) -> None:
    log = tmp_path / "gc.log"
    log.write_text("[info][gc] Using G1\n[info][gc] GC(0) Pause Young (Normal) (A) 4M->2M(8M) 1.000ms\n")
    page = tmp_path / "page.html"
    run(log, "--html", page)
    assert "The lines have no time" in page.read_text()
    assert data(page)["panels"] == []


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
