"""leadline gc beside GCViewer and GCToolkit on logs of JVMs that bring no tools, the flight recorder as the truth.

    python bench/gc/older.py --keep DIR JAVA_HOME...

Runs the program of run.py on each Java home (JDK 8 u252 or later, 11, 21) under its collectors. Cells are
the number of pauses and their sum in ms; a log may have a few more than the recorder, which begins and ends later and
earlier. A log that lies in DIR already is read as it is.
"""

from __future__ import annotations

import argparse
import math
import subprocess
from pathlib import Path

from logs import HERE, SETTINGS, jdks, recorded
from run import read, readers

from leadline.host.java import java_home
from leadline.observe.gc import OPTION

DETAILS = ("-XX:+PrintGCDetails", "-XX:+PrintGCDateStamps", "-XX:+PrintGCTimeStamps")
MORE = ("-XX:+PrintGCApplicationStoppedTime", "-XX:+PrintTenuringDistribution")
JDK_8 = {
    **{name: (f"-XX:+Use{name}GC",) for name in ("Serial", "Parallel", "ConcMarkSweep", "G1")},
    "iCMS": ("-XX:+UseConcMarkSweepGC", "-XX:+CMSIncrementalMode"),
    "Parallel-full": ("-XX:+UseParallelGC", *MORE, "-XX:+PrintAdaptiveSizePolicy", "-XX:+PrintHeapAtGC"),
    "CMS-full": ("-XX:+UseConcMarkSweepGC", *MORE, "-XX:+PrintHeapAtGC", "-XX:+PrintReferenceGC"),
    "G1-full": ("-XX:+UseG1GC", *MORE, "-XX:+PrintAdaptiveSizePolicy", "-XX:+PrintReferenceGC"),
}
JDK_8["CMS-full"] += ("-XX:+CMSScavengeBeforeRemark",)
UNIFIED = {
    name: ("-XX:+UnlockExperimentalVMOptions", f"-XX:+Use{name}GC")
    for name in ("Serial", "Parallel", "G1", "ConcMarkSweep", "Shenandoah", "Z")
}
UNIFIED["GenZ"] = ("-XX:+UseZGC", "-XX:+ZGenerational")


def run(home: Path, folder: Path) -> None:
    """The program under every collector that this JVM has."""
    major = java_home(home).major
    settings = folder / "gc.jfc"
    settings.write_text(SETTINGS)
    for name, options in (JDK_8 if major == 8 else UNIFIED).items():
        log = folder / f"{major}-{name}.log"
        if log.exists():
            continue
        form = (*DETAILS, f"-Xloggc:{log}") if major == 8 else (OPTION.format(file=log),)
        recorder = f"-XX:StartFlightRecording=filename={log.with_suffix('.jfr')},settings={settings}"
        command = [
            home / "bin" / "java",
            "-Xmx96m",
            *options,
            *form,
            recorder,
            "-cp",
            folder,
            "Churn",
            "200000",
            "6000",
        ]
        if subprocess.run(command, capture_output=True, timeout=300, check=False).returncode:
            log.unlink(missing_ok=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("homes", type=Path, nargs="*")
    options.add_argument("--keep", type=Path, required=True)
    chosen = options.parse_args()
    folder = chosen.keep.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    jdk = jdks()[0]
    javac = jdk.path / "bin" / "javac"
    subprocess.run([javac, "-nowarn", "--release", "8", "-d", folder, HERE / "Churn.java"], check=True)
    for home in chosen.homes:
        run(home, folder)
    commands = readers()
    print("| log | recorded | " + " | ".join(commands) + " |")
    print("| --- " * (len(commands) + 2) + "|")
    for log in sorted(folder.glob("*.log")):
        if not log.with_suffix(".jfr").exists():
            continue
        pauses = [ms for one in recorded(jdk, log.with_suffix(".jfr")).values() for ms in one]
        cells = [f"{len(pauses)}, {math.fsum(pauses):.1f}"]
        for command in commands.values():
            got = read(command, log).pauses
            cells.append(f"{got['count']:.0f}, {got['sum_ms']:.1f}" if got else "fails")
        print(f"| {log.stem} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
