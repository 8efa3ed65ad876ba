"""The allocation rate of the log beside the JVM's own count of allocated bytes, under every collector.

    python bench/gc/rates.py [--seconds 6] [--pace 80] [--heap 256m]

Two threads allocate between two full collections. "bytes": what the log's collections tell, over the count; "rate": the
log's rate times the time in which the threads ran, without the pauses, over the count.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from logs import COLLECTORS, HERE, jdks

from leadline.gcanalysis.rates import allocation
from leadline.observe.gclog import parse


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=int, default=6)
    options.add_argument("--pace", type=int, default=80, help="MiB/s of each thread, at most")
    options.add_argument("--heap", default="256m")
    chosen = options.parse_args()
    print("| JVM | counted, MiB | bytes | rate |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        javac = jdks()[0].path / "bin" / "javac"
        subprocess.run([javac, "--release", "17", "-d", folder, HERE / "Steady.java"], check=True, timeout=120)
        for jdk in jdks():
            for name, flags in COLLECTORS.items():
                path = folder / f"{jdk.major}-{name.replace(', ', '-')}.log"
                command = [jdk.path / "bin" / "java", "-XX:+UnlockExperimentalVMOptions", *flags]
                command += [f"-Xmx{chosen.heap}", f"-Xlog:gc*:file={path}:uptime,level,tags:filecount=0"]
                command += ["-cp", folder, "Steady", str(chosen.seconds), str(chosen.pace)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
                said = [line.split() for line in done.stdout.splitlines() if line.startswith("allocated")]
                if not said:
                    continue  # this JDK lacks the collector
                count, began, ended = (float(text) for text in said[0][1:])
                log = parse(path)
                found = allocation(log)
                inside = [one.ms for one in log.pauses if began / 1e3 < one.at < ended / 1e3]
                ran = (ended - began) / 1e3 - sum(inside) / 1e3
                rate = f"{100 * ((found.rate or 0.0) * ran / count - 1):+.1f} %"
                size = f"{100 * (found.size / count - 1):+.1f} %"
                print(f"| {jdk.major} {name} | {count / 2**20:.0f} | {size} | {rate} |", flush=True)


if __name__ == "__main__":
    main()
