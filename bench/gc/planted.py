"""Causes planted in real JVMs, and what ``leadline gc`` names.

    python bench/gc/planted.py [--only explicit]

Each row is a run of Planted.java under a collector of a JDK of this host. A cause that is not named, or one named that
is neither planted nor its consequence, is printed with a mark; the program ends with 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path

from leadline.gcanalysis.summary import GcSummary, summary
from leadline.host.java import JavaHome, java_homes
from leadline.observe.gc import OPTION
from leadline.observe.gclog.files import parse

SOURCE = Path(__file__).parent / "Planted.java"
COLLECTORS = {
    "Serial": ("-XX:+UseSerialGC",),
    "Parallel": ("-XX:+UseParallelGC",),
    "G1": ("-XX:+UseG1GC",),
    "Z": ("-XX:+UseZGC",),
    "Shenandoah": ("-XX:+UseShenandoahGC",),
    "generational": (
        "-XX:+UseShenandoahGC",
        "-XX:+UnlockExperimentalVMOptions",
        "-XX:ShenandoahGCMode=generational",
    ),
}
ALL = tuple(COLLECTORS)
_GENERATIONAL = 24  # the first JDK whose Shenandoah has generations
# What a busy machine adds to any run, and what little room brings with it.
NEIGHBOURS = {"starved", "kernel-time", "time-to-safepoint"}
LITTLE_ROOM = {
    *("heap-small", "to-space-exhausted", "g1-full", "promotion-failed", "allocation-stalls", "relocation-stalls"),
    *("degenerated", "pacing", "premature-promotion", "humongous"),
}


@dataclass(frozen=True)
class Cause:
    """``finding``: its name, empty for nothing; ``beside``: what it brings with it."""

    finding: str
    arguments: tuple[str, ...]
    options: tuple[str, ...]
    collectors: tuple[str, ...] = ALL
    beside: Set[str] = frozenset()


CAUSES = {
    "heap": Cause("heap-exhausted", ("heap", "8"), ("-Xmx96m",)),
    "metaspace": Cause("metaspace-exhausted", ("metaspace",), ("-Xmx96m", "-XX:MaxMetaspaceSize=24m")),
    "direct": Cause("direct-memory-exhausted", ("direct",), ("-Xmx96m", "-XX:MaxDirectMemorySize=24m")),
    "explicit": Cause("explicit-gc", ("explicit", "3"), ("-Xmx256m",)),
    "classes": Cause("metaspace-threshold", ("classes", "5"), ("-Xmx256m", "-XX:MetaspaceSize=4m")),
    "dumps": Cause("stops-without-collection", ("dumps", "3"), ("-Xmx256m", "-Xss256k")),
    "loop": Cause(
        "time-to-safepoint",
        ("loop", "4"),
        ("-Xmx256m", "-XX:-UseCountedLoopSafepoints", "-XX:LoopStripMiningIter=0"),
        beside={"allocation-stalls", "pacing"},
    ),
    "humongous": Cause("humongous", ("humongous", "3"), ("-Xmx128m",), ("G1",)),
    "pinned": Cause("pinned", ("pinned", "3"), ("-Xmx128m",), ("G1",), LITTLE_ROOM),
    "burst": Cause("to-space-exhausted", ("burst", "120"), ("-Xmx200m",), ("G1",), LITTLE_ROOM),
    "stalls": Cause("allocation-stalls", ("cache", "3"), ("-Xmx128m",), ("Z",), LITTLE_ROOM),
    "degenerated": Cause("degenerated", ("cache", "3"), ("-Xmx128m",), ("Shenandoah", "generational"), LITTLE_ROOM),
    "small": Cause("heap-small", ("cache", "3"), ("-Xmx128m",), ("Serial", "Parallel"), LITTLE_ROOM),
    "references": Cause(
        "references", ("references", "3"), ("-Xmx512m",), ("Z", "Shenandoah", "generational"), LITTLE_ROOM
    ),
    "one CPU": Cause("one-cpu", ("steady", "2"), ("-Xmx256m", "-XX:ActiveProcessorCount=1")),
    "nothing": Cause("", ("steady", "4"), ("-Xmx512m",)),
}


def run(cause: Cause, jdk: JavaHome, collector: str, folder: Path) -> GcSummary | None:
    """What the log of one run says; None where the JDK lacks the collector."""
    if collector == "generational" and jdk.major < _GENERATIONAL:
        return None
    log = folder / "gc.log"
    log.unlink(missing_ok=True)
    command: list[str | Path] = [
        jdk.path / "bin" / "java",
        *COLLECTORS[collector],
        *cause.options,
        OPTION.format(file=log),
    ]
    command += [OPTION.format(file=log), "-cp", folder, "Planted", *cause.arguments]
    subprocess.run(command, capture_output=True, timeout=120, check=False)
    return summary(parse(log)) if log.exists() and log.stat().st_size else None


def jdks(folder: Path) -> list[JavaHome]:
    """One of each release from 17 on; the program is compiled into ``folder``."""
    homes: dict[int, JavaHome] = {}
    for home in java_homes():
        if home.jdk and home.major >= 17:
            homes.setdefault(home.major, home)
    for home in list(homes.values())[:1]:
        command: list[str | Path] = [home.path / "bin" / "javac", "--release", "17", "-d", folder, SOURCE]
        subprocess.run(command, check=True, timeout=120)
    return [homes[release] for release in sorted(homes)]


def wrong(cause: Cause, figures: GcSummary) -> tuple[bool, list[str]]:
    """Whether the cause was missed, and what is named that is not there."""
    names = [finding.name for finding in figures.findings]
    allowed = {cause.finding, *cause.beside, *NEIGHBOURS}
    return bool(cause.finding) and cause.finding not in names, [name for name in names if name not in allowed]


def rows(only: str, folder: Path) -> Iterator[tuple[str, bool, list[str], list[str]]]:
    """Name of the run, missed, wrongly named, all that was named."""
    homes = jdks(folder)
    for name, cause in CAUSES.items():
        for jdk in homes if only in name else ():
            for collector in cause.collectors:
                figures = run(cause, jdk, collector, folder)
                if figures is not None:
                    names = [finding.name for finding in figures.findings]
                    yield f"{name}, {jdk.major} {collector}", *wrong(cause, figures), names


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="")
    runs = missed = named = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, is_missed, extra, names in rows(options.parse_args().only, Path(folder)):
            mark = f"{' MISSED' * is_missed}{f' WRONG {extra}' if extra else ''}"
            print(f"{name}: {', '.join(names) or 'nothing'}{mark}", flush=True)
            runs, missed, named = runs + 1, missed + is_missed, named + bool(extra)
    print(f"{runs - missed} of {runs} named, {named} with a wrong name")
    sys.exit(1 if missed or named else 0)


if __name__ == "__main__":
    main()
