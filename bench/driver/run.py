"""leadline-load against other generators on the same target in the same run: CPU per request, sessions at equal rates,
start, memory, and response times against the truth. Loopback only.
`python bench/driver/run.py [--rounds 3] [--only accuracy ...] [--short]`.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import shutil
import subprocess
import sys
import time

import accuracy
import plain
import sessions
from common import ROOT, SHORT, Lengths, Part, Unfit, Verdicts, on_targets_cpu

PARTS: dict[str, tuple[str, Part]] = {
    "saturated": ("Plain requests, saturated", plain.compare_saturated),
    "accuracy": ("Accuracy", accuracy.compare),
    "shared": ("Sessions over shared connections", sessions.compare_shared),
    "sessions": ("Sessions with connections of their own", sessions.compare_own),
    "shared-awake": ("Sessions over shared connections, CPUs awake", sessions.compare_shared_awake),
    "sessions-awake": ("Sessions with connections of their own, CPUs awake", sessions.compare_own_awake),
    "start": ("From start to first request", sessions.compare_start),
    "memory": ("Memory of idle sessions", sessions.compare_memory),
    "rate": ("Plain requests at an equal rate", plain.compare_rate),
    "instructions": ("Instructions of a plain request", plain.compare_instructions),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=Lengths.rounds, help="one or two more where rounds are short")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--short", action="store_true", help="tries whether all works; its figures mean nothing")
    options = parser.parse_args()
    if not shutil.which("wrk"):
        raise SystemExit("wrk is not installed (Debian: apt-get install wrk)")
    build = ["cargo", "build", "--release", "--locked", "--bins", "--examples"]
    subprocess.run([*build, "--manifest-path", str(ROOT / "driver" / "Cargo.toml")], check=True)
    on_targets_cpu()  # this script, too: the generators' CPU is theirs
    begin, verdicts, failed = time.monotonic(), Verdicts(), False
    load = os.getloadavg()[0]
    kernel = ".".join(platform.release().split(".")[:2])
    print(f"{os.cpu_count()} CPUs, Linux {kernel}, load average {load:.1f} before.", flush=True)
    for name in options.only:
        title, part = PARTS[name]
        print(f"\n## {title}\n\n`python bench/driver/run.py --only {name}`\n", flush=True)
        try:
            part(SHORT if options.short else dataclasses.replace(Lengths(), rounds=options.rounds), verdicts)
        except Unfit as error:
            print(f"Failed: {error}")
            failed = True
        print(f"\n{time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    if verdicts.rows:
        print(f"\n## Targets\n\n{verdicts.table()}")
    print(f"\nLoad average {os.getloadavg()[0]:.1f} after {time.monotonic() - begin:.0f} s.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
