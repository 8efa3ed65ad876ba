"""The page of GC logs, and what else the command prints of them."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.api import gc as gc_logs
from leadline.cli.main import app
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
    assert list(rows[0]) == list(gc_logs.COLUMNS)
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
