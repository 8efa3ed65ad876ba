"""Real logs of every collector under many decorators, tags and wrappers: each has the pauses that the JVM wrote.

    python bench/gc/combinations.py [--decorators 12] [--wrappers 3] [--seed 1]

One run of a JVM writes all of its logs at once (``-Xlog`` many times), so that they tell of the same pauses. Each is
read as it is, inside wrappers (bench/gc/wrappers.py) and with a program's own lines in between, and compared with a
scan of the file that knows nothing but how a pause's line ends. A fault is another number of pauses or another time,
a zero without a sentence, a share of lines understood that is not the JVM's lines' share, a traceback. Ends with 1 on
any.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from logs import COLLECTORS, HERE, jdks
from wrappers import WRAPPERS, wrapped

from leadline.gcanalysis.events import GcLog
from leadline.gcanalysis.summary import summary
from leadline.observe.gclog import parse

DECORATORS = (
    *("time", "utctime", "uptime", "timemillis", "uptimemillis", "timenanos", "uptimenanos"),
    *("hostname", "pid", "tid", "level", "tags"),
)
SELECTIONS = ("gc", "gc*", "gc*,safepoint", "all=info", "gc+phases*,gc", "gc*=debug")
PAUSE = re.compile(r"(?:^|\] |[^\]\w] ?)(?:GC\(\d+\) )?(?:[YyO]: )?Pause [A-Z][^=]*? (\d+[.,]\d+)ms\s*$")
WORDS = (
    "12:00:01.250 INFO  [main] com.example.Shop - order 4711 took 13.2 ms",
    "Pause between retries: 250 ms",
    '{"level":"warn","msg":"pool is full"}',
    "\tat com.example.Shop.order(Shop.java:42)",
    "[ERROR] could not connect (GC of sessions is due)",
)


@dataclass(frozen=True)
class Case:
    """``truth``: ms of every pause of the JVM that this selection of tags shows."""

    name: str
    lines: list[str]
    truth: list[float]
    decorated: bool


def scanned(lines: Sequence[str]) -> list[float]:
    """Milliseconds."""
    return [float(found[1].replace(",", ".")) for found in map(PAUSE.search, lines) if found]


def outputs(count: int, rng: random.Random) -> list[tuple[str, str]]:
    """Selections of tags with decorators: each decorator alone, all, none, and ``count`` random subsets."""
    sets = [(one,) for one in DECORATORS] + [DECORATORS, ("none",)]
    sets += [tuple(rng.sample(DECORATORS, rng.randint(2, 8))) for _ in range(count)]
    found = [(rng.choice(SELECTIONS), ",".join(one)) for one in sets]
    return found + [(one, "uptime,level,tags") for one in SELECTIONS]


def cases(folder: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Of every collector of every JDK of this host."""
    for jdk in jdks():
        javac = jdk.path / "bin" / "javac"
        subprocess.run([javac, "--release", "17", "-d", folder, HERE / "Churn.java"], check=True, timeout=120)
        for collector, options in COLLECTORS.items():
            chosen = outputs(count, rng)
            command = [str(jdk.path / "bin" / "java"), "-XX:+UnlockExperimentalVMOptions", *options, "-Xmx64m"]
            for number, (tags, decorators) in enumerate(chosen):
                command.append(f"-Xlog:{tags}:file={folder / f'{number}.log'}:{decorators}:filecount=0")
            done = subprocess.run(
                [*command, "-cp", str(folder), "Churn", "80000", "3000"], capture_output=True, timeout=300, check=False
            )
            if done.returncode:
                print(f"JDK {jdk.major} has no {collector}, or it failed")
                continue
            made = []
            for number, (tags, decorators) in enumerate(chosen):
                lines = (folder / f"{number}.log").read_text().splitlines()
                name = f"{jdk.major} {collector} -Xlog:{tags}:{decorators}"
                made.append(Case(name, lines, scanned(lines), decorators != "none"))
            plain = made[-5].truth  # of gc* with uptime, level, tags
            for case in made:
                if "-Xlog:gc:" not in case.name and case.truth != plain:
                    print(f"the scan of {case.name} has {len(case.truth)} pauses, of the plain log {len(plain)}")
            yield from made


def times(log: GcLog) -> list[tuple[float, float | None]]:
    """Uptime and unix seconds of each pause."""
    return [(one.at, one.unix) for one in log.pauses]


def fault(case: Case, log: GcLog, plain: GcLog, share: float) -> str:
    """What is wrong with the reading of a log, beside that of its plain lines; nothing when all is right."""
    figures = summary(log)
    got = [one.ms for one in log.pauses]
    if times(log) != times(plain):
        return "other times than in the plain lines"
    if got != case.truth:
        return f"{len(got)} pauses, {len(case.truth)} are in the log; unknown {len(log.unknown)}"
    if not got and "pauses" not in figures.reasons:
        return "a silent zero"
    if log.unknown or log.damaged:
        return f"{len(log.unknown)} lines not known, {len(log.damaged)} not whole: {(log.unknown + log.damaged)[0]}"
    if len(log.jvms) != 1:
        return f"{len(log.jvms)} JVMs"
    if case.decorated and figures.understood is not None and abs(figures.understood - share) > 0.03:
        return f"{100 * figures.understood:.1f} % understood, {100 * share:.1f} % are the JVM's"
    return ""


def among_others(lines: Sequence[str], rng: random.Random) -> list[str]:
    """With a program's lines in between, one behind two on the mean."""
    found: list[str] = []
    for text in lines:
        found.append(text)
        if rng.random() < 0.5:
            found.append(rng.choice(WORDS))
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--decorators", type=int, default=12, help="random subsets of them for each JVM")
    options.add_argument("--wrappers", type=int, default=3, help="random ones for each log")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--keep", type=Path, help="where logs with a fault are kept")
    chosen = options.parse_args()
    rng = random.Random(chosen.seed)
    faults = 0
    read: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for case in cases(folder, chosen.decorators, rng):
            forms, plain = {"plain": (case.lines, 1.0)}, GcLog()
            mixed = among_others(case.lines, rng)
            forms["among a program's lines"] = mixed, len(case.lines) / max(1, len(mixed))
            for name in rng.sample([one for one in WRAPPERS if one != "plain"], chosen.wrappers):
                forms[name] = wrapped(case.lines, name).splitlines(), 1.0
            for name, (lines, share) in forms.items():
                path = folder / "case.log"
                path.write_text("".join(text + "\n" for text in lines))
                try:
                    log = parse(path)
                    plain = log if name == "plain" else plain
                    wrong = fault(case, log, plain, share)
                except Exception:
                    wrong = traceback.format_exc(limit=-2)
                read["pauses" if case.truth else "no pauses in the log"] += 1
                if wrong:
                    faults += 1
                    print(f"{case.name}, {name}: {wrong}", flush=True)
                    if chosen.keep:
                        chosen.keep.mkdir(parents=True, exist_ok=True)
                        path.rename(chosen.keep / f"{faults}.log")
    print(f"{sum(read.values())} logs ({', '.join(f'{n} {what}' for what, n in read.items())}), {faults} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
