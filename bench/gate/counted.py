"""Exact counts of programs that are the same, elsewhere on the disk, and of programs with half a per cent more.

python -m bench.gate.counted
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from leadline.conclude.gate import LAYOUTS, MARGIN
from leadline.experiments.counting import LONGEST, counted
from leadline.host.local import LocalHost
from leadline.trial.command import commands_of

SAME, MORE = 10, 3  # programs
JAVA = """public class Loop { public static void main(String[] a) { var map = new java.util.TreeMap<Long, Long>();
for (long i = 0; i < Long.parseLong(a[0]); i++) map.merge(i % 1000, i, Long::sum); System.out.println(map); } }"""
PYTHON = "import sys; print(sum(i * i for i in range(int(sys.argv[1]))))"
PROGRAMS = (  # name, program, its file, what it is, steps, steps with half a per cent more instructions in all
    ("sh", "/bin/sh", "loop.sh", "i=0; while [ $i -lt $1 ]; do i=$((i+1)); done", 8000, 8042),
    ("python", sys.executable, "loop.py", PYTHON, 400_000, 402_700),
    ("java", "java -cp", "Loop.java", JAVA, 300_000, 305_000),
)


def main() -> None:
    print("| program | same: a difference | largest change | planted: more | its change | seconds |")
    for name, program, file, text, steps, more in PROGRAMS:
        with tempfile.TemporaryDirectory() as place:
            texts = []
            for at in range(1 + SAME + MORE):
                folder = Path(place) / ("x" * at + "y")
                folder.mkdir()
                (folder / file).write_text(text)
                if name == "java":
                    subprocess.run(["javac", str(folder / file)], check=True)
                subject = f"{folder} Loop" if name == "java" else str(folder / file)
                texts.append(f"{program} {subject} {steps if at <= SAME else more}")
            since = time.monotonic()
            counts = counted(commands_of(texts, {}), LAYOUTS, LocalHost(), LONGEST, lambda _: None)
            seconds = time.monotonic() - since
        ends = [interval for at in range(1, len(texts)) if (interval := counts.change(at, "instructions").interval)]
        wrong = sum(end.low > MARGIN or end.high < -MARGIN for end in ends[:SAME])
        largest = max(max(abs(end.low), abs(end.high)) for end in ends[:SAME])
        size = f"{min(end.low for end in ends[SAME:]):.2f} to {max(end.high for end in ends[SAME:]):.2f} %"
        right = sum(end.low > MARGIN for end in ends[SAME:])
        cells = (name, f"{wrong} of {SAME}", f"{largest:.3f} %", f"{right} of {MORE}", size, f"{seconds:.0f}")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
