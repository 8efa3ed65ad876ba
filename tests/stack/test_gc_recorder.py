"""The GC log parser against the flight recorder of the JVMs that this host has, collection by collection."""

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from leadline.gcanalysis.events import CANCELLED
from leadline.gcanalysis.summary import allocation, summary
from leadline.host.java import find_java_home
from leadline.observe.gc import OPTION
from leadline.observe.gclog.files import parse

pytestmark = pytest.mark.stack

SOURCE = Path(__file__).parents[2] / "bench" / "gc" / "Churn.java"
SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<configuration version="2.0">
  <event name="jdk.GCPhasePause">
    <setting name="enabled">true</setting><setting name="threshold">0 ms</setting>
  </event>
  <event name="jdk.GarbageCollection">
    <setting name="enabled">true</setting><setting name="threshold">0 ms</setting>
  </event>
</configuration>
"""
COLLECTORS = {
    "serial": ("-XX:+UseSerialGC",),
    "parallel": ("-XX:+UseParallelGC",),
    "g1": ("-XX:+UseG1GC",),
    "z": ("-XX:+UseZGC",),
    "shenandoah": ("-XX:+UseShenandoahGC",),
    "shenandoah-generational": (
        "-XX:+UseShenandoahGC",
        "-XX:+UnlockExperimentalVMOptions",
        "-XX:ShenandoahGCMode=generational",
    ),
}


@dataclass(frozen=True)
class Jdk:
    home: Path
    release: int

    def tool(self, name: str) -> str:
        return str(self.home / "bin" / name)


@cache
def jdks() -> tuple[Jdk, ...]:
    """The JDK in use and those installed beside it, one per release, oldest first."""
    used = find_java_home().resolve()
    found: dict[int, Jdk] = {}
    for home in (used, *sorted(path.resolve() for path in used.parent.iterdir())):
        release = home / "release"
        if all((home / "bin" / name).exists() for name in ("java", "javac", "jfr")) and release.exists():
            match = re.search(r'JAVA_VERSION="(\d+)', release.read_text())
            if match and int(match[1]) >= 17:
                found.setdefault(int(match[1]), Jdk(home, int(match[1])))
    return tuple(found[number] for number in sorted(found))


CASES = [(jdk.release, name) for jdk in jdks() for name in COLLECTORS]


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("churn")
    (directory / "gc.jfc").write_text(SETTINGS)
    subprocess.run([jdks()[0].tool("javac"), "-d", str(directory), str(SOURCE)], check=True, timeout=60)
    return directory


def run(jdk: Jdk, options: Sequence[str], churn: Path, directory: Path) -> str:
    """Empty, or why this JDK has no such collector."""
    argv = [
        jdk.tool("java"),
        *options,
        "-Xmx256m",
        f"-XX:StartFlightRecording:filename={directory / 'gc.jfr'},settings={churn / 'gc.jfc'}",
        OPTION.format(file=directory / "gc.log"),
        *("-cp", str(churn), "Churn", "200000", "16000"),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 0:
        return ""
    said = done.stdout + done.stderr
    for line in said.splitlines():
        if "Unrecognized VM option" in line or "Unknown -XX" in line or "not supported" in line:
            return f"host: JDK {jdk.release} has no {' '.join(options)}: {line.strip()}"
    pytest.fail(said)


@dataclass(frozen=True)
class Recorded:
    """Of one collection, ms."""

    pauses: list[float] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)  # sumOfPauses of the collection's own event
    longest: list[float] = field(default_factory=list)


def recorded(jdk: Jdk, file: Path) -> Mapping[int, Recorded]:
    """By collection id, as the flight recorder has it."""
    argv = [jdk.tool("jfr"), "print", "--json", "--events", "jdk.GCPhasePause,jdk.GarbageCollection", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    found: defaultdict[int, Recorded] = defaultdict(Recorded)
    for event in json.loads(done.stdout)["recording"]["events"]:
        values = event["values"]
        one = found[values["gcId"]]
        if event["type"] == "jdk.GCPhasePause":
            one.pauses.append(milliseconds(values["duration"]))
        else:
            one.sums.append(milliseconds(values["sumOfPauses"]))
            one.longest.append(milliseconds(values["longestPause"]))
    return found


def milliseconds(text: str) -> float:
    match = re.fullmatch(r"PT(?:(\d+)M)?(?:([\d.]+(?:E-?\d+)?)S)?", text)
    assert match, text
    return (float(match[1] or 0) * 60 + float(match[2] or 0)) * 1e3


def scanned(text: str) -> list[float]:
    """Pauses by nothing but their line's beginning and end: whatever the parser knows of the rest cannot matter."""
    found = (re.search(r"\]\s(?:GC\(\d+\) )?(?:\w: )?Pause .* ([\d.]+)ms$", line) for line in text.splitlines())
    return [float(match[1]) for match in found if match]


@pytest.mark.parametrize(("release", "collector"), CASES)
def test_every_collection_has_the_pauses_the_flight_recorder_has(
    release: int, collector: str, churn: Path, tmp_path: Path
) -> None:
    jdk = next(jdk for jdk in jdks() if jdk.release == release)
    lacking = run(jdk, COLLECTORS[collector], churn, tmp_path)
    if lacking:
        pytest.skip(lacking)
    log = parse(tmp_path / "gc.log")
    assert not log.unknown
    assert len(log.jvms) == 1
    assert log.jvms[0].version.startswith(str(release))

    text = (tmp_path / "gc.log").read_text()
    scan = scanned(text)
    assert [pause.ms for pause in log.pauses] == scan
    figures = summary(log)
    assert figures.pauses.count == len(scan) > 0
    assert figures.pauses.sum_ms == pytest.approx(sum(scan))
    assert figures.pauses.max_ms == max(scan)

    logged: defaultdict[int, list[float]] = defaultdict(list)
    names: defaultdict[int, set[str]] = defaultdict(set)
    for pause in log.pauses:
        assert pause.gc_id is not None
        logged[pause.gc_id].append(pause.ms)
        names[pause.gc_id].add(pause.name if "(Old)" not in pause.kind else f"{pause.name} (Old)")
    jfr = recorded(jdk, tmp_path / "gc.jfr")
    assert len(jfr) >= 3
    first, last = min(jfr), max(jfr)
    for number in sorted(jfr.keys() | logged.keys()):
        if len(jfr[number].pauses) == len(logged[number]):
            continue
        # The recorder begins after the JVM and ends with it; an attempt at a young collection of Serial that
        # turns into a full one (the next id) is a pause in the log and no event.
        at_an_end = number <= first or number >= last
        turned_full = collector == "serial" and not jfr[number].pauses and names[number + 1] == {"Full"}
        # The events of a cycle beside the application come when it ends; one that the exit broke off has none.
        ends = r"(Concurrent cleanup|Pause (Degenerated|Full|Final Update Refs)|Concurrent Mark Cycle [\d.]+ms)"
        beside = collector.startswith("shenandoah") or names[number] <= {"Remark", "Cleanup"}
        broken_off = beside and not jfr[number].pauses and not re.search(rf"GC\({number}\) {ends}", text)
        assert at_an_end or turned_full or broken_off, (
            f"GC({number}): {logged[number]} in the log, {jfr[number].pauses} recorded, {first} to {last}"
        )
    both = [number for number in jfr if jfr[number].pauses and len(jfr[number].pauses) == len(logged[number])]
    in_log, in_jfr = sum(sum(logged[n]) for n in both), sum(sum(jfr[n].pauses) for n in both)
    # Two clocks around the same work; a thread may lose its CPU between the two on a busy host.
    assert in_log == pytest.approx(in_jfr, rel=0.2, abs=20)
    near = 0
    for number in both:
        if len(jfr[number].sums) == 1 and not any("(Old)" in name for name in names[number]):
            assert jfr[number].sums[0] == pytest.approx(sum(jfr[number].pauses), abs=0.01)
            near += abs(jfr[number].sums[0] - sum(logged[number])) <= 0.5 + 0.05 * sum(logged[number])
            near += abs(jfr[number].longest[0] - max(logged[number])) <= 0.5 + 0.05 * max(logged[number])
    assert near >= 0.8 * 2 * len(both) - 6
    print(f"{release} {collector}: {len(scan)} pauses, {in_log:.3f} ms logged, {in_jfr:.3f} ms recorded")

    # 200,000 blocks of 5,648 bytes on average and 10 of 3 MiB; the JVM's own start adds some.
    size = allocation(log).size
    if not collector.startswith("shenandoah"):  # of which only part of the time is told
        assert size == pytest.approx(1.16e9, rel=0.25)
    if collector == "z" and release >= 21:
        assert figures.promotion_rate is not None
    if collector in ("serial", "parallel", "g1"):
        assert figures.promotion_rate is not None
        assert figures.promotion_rate > 0
    assert figures.heap_max == 256 << 20
    assert figures.working_set is not None
    # A cycle that an allocation cancels before its first line has a number, too, on a busy host.
    assert not [text for text in figures.warnings if not (collector.startswith("shenandoah") and CANCELLED in text)]
    if collector in ("serial", "parallel", "g1"):
        assert figures.allocation_rate is not None
        assert figures.allocation_rate > 0
        assert figures.by_cause["System.gc()"].count >= 1
    assert figures.heap_after is not None
    assert 0 < figures.heap_after.last <= 256 << 20
    assert figures.safepoints.count >= len(scan) - figures.full
    assert figures.share is not None
    assert 0 < figures.share < 1


def test_a_log_cut_in_the_middle_of_a_write_is_read_up_to_there(churn: Path, tmp_path: Path) -> None:
    assert not run(jdks()[0], COLLECTORS["g1"], churn, tmp_path)
    data = (tmp_path / "gc.log").read_bytes()
    whole = parse(tmp_path / "gc.log")
    cut = tmp_path / "cut.log"
    for part in range(1, 40):
        cut.write_bytes(data[: len(data) * part // 40])
        log = parse(cut)
        assert not log.unknown
        assert log.pauses == whole.pauses[: len(log.pauses)]
    assert len(log.pauses) > len(whole.pauses) // 2
