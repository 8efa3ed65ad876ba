"""Real GC logs with the flight recorder's word on the same run, and long ones made of them."""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from leadline.host.java import JavaHome, java_homes
from leadline.observe.gc import OPTION

HERE = Path(__file__).parent
SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<configuration version="2.0">
  <event name="jdk.GCPhasePause">
    <setting name="enabled">true</setting><setting name="threshold">0 ms</setting>
  </event>
</configuration>
"""
COLLECTORS = {
    "Serial": ("-XX:+UseSerialGC",),
    "Parallel": ("-XX:+UseParallelGC",),
    "G1": ("-XX:+UseG1GC",),
    "ZGC": ("-XX:+UseZGC",),
    "Shenandoah": ("-XX:+UseShenandoahGC",),
    "Shenandoah, generational": ("-XX:+UseShenandoahGC", "-XX:ShenandoahGCMode=generational"),
}


@dataclass(frozen=True)
class Real:
    """``scan``: the pauses in ms by nothing but the beginning and end of their lines; ``jfr``: by collection."""

    name: str
    path: Path
    scan: list[float]
    jfr: dict[int, list[float]]


def jdks() -> list[JavaHome]:
    """One of each release, those that have the tools."""
    found: dict[int, JavaHome] = {}
    for home in java_homes():
        if home.jdk and home.major >= 17 and (home.path / "bin" / "jfr").exists():
            found.setdefault(home.major, home)
    return [found[release] for release in sorted(found)]


def make(folder: Path, heap: str, blocks: int, live: int) -> list[Real]:
    """A run of every collector on every JDK of this host; those that a JDK lacks are left out."""
    made = []
    (folder / "gc.jfc").write_text(SETTINGS)
    for jdk in jdks():
        subprocess.run(
            [jdk.path / "bin" / "javac", "--release", "17", "-d", folder, HERE / "Churn.java"], check=True, timeout=120
        )
        for collector, options in COLLECTORS.items():
            name = f"{jdk.major} {collector}"
            log = folder / f"{name.replace(', ', '-').replace(' ', '-')}.log"
            recording = log.with_suffix(".jfr")
            command = [jdk.path / "bin" / "java", *options, f"-Xmx{heap}", OPTION.format(file=log)]
            command += [f"-XX:StartFlightRecording:filename={recording},settings={folder / 'gc.jfc'}"]
            command += ["-cp", folder, "Churn", str(blocks), str(live)]
            done = subprocess.run(command, capture_output=True, timeout=300, check=False)
            if done.returncode == 0:
                made.append(Real(name, log, scanned(log), recorded(jdk, recording)))
    return made


def scanned(path: Path) -> list[float]:
    """Milliseconds."""
    form = re.compile(r"\]\s(?:GC\(\d+\) )?(?:\w: )?Pause .* ([\d.]+)ms$")
    return [float(found[1]) for found in map(form.search, path.read_text().splitlines()) if found]


def recorded(jdk: JavaHome, path: Path) -> dict[int, list[float]]:
    """Milliseconds by collection."""
    command = [jdk.path / "bin" / "jfr", "print", "--json", "--events", "jdk.GCPhasePause", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    pauses: defaultdict[int, list[float]] = defaultdict(list)
    for event in json.loads(done.stdout)["recording"]["events"]:
        values = event["values"]
        match = re.fullmatch(r"PT(?:(\d+)M)?(?:([\d.]+(?:E-?\d+)?)S)?", values["duration"])
        assert match, values["duration"]
        pauses[values["gcId"]].append((float(match[1] or 0) * 60 + float(match[2] or 0)) * 1e3)
    return dict(pauses)


def lengthen(source: Path, target: Path, size: int) -> int:
    """The real log over and over, times and collections counted on, until it has ``size`` bytes. Returns its size."""
    lines = source.read_text().splitlines(keepends=True)
    form = re.compile(r"\[([^\]]+)\]\[([\d.]+)s\](.*)", re.DOTALL)
    split = [form.fullmatch(line) for line in lines]
    begins = next((n for n, line in enumerate(lines) if "GC(0)" in line), 0)
    head, body = lines[:begins], [found for found in split[begins:] if found]
    span = float(body[-1][2]) - float(body[0][2]) + 0.01
    ids = 1 + max(int(found[1]) for line in lines if (found := re.search(r"GC\((\d+)\)", line)))
    numbered = re.compile(r"GC\((\d+)\)")
    with target.open("w") as file:
        file.writelines(head)
        turn = 0
        while file.tell() < size:
            for found in body:
                wall = datetime.fromisoformat(found[1]) + timedelta(seconds=turn * span)
                stamp = wall.strftime("%Y-%m-%dT%H:%M:%S.") + f"{wall.microsecond // 1000:03d}" + wall.strftime("%z")
                rest = numbered.sub(lambda one: f"GC({int(one[1]) + turn * ids})", found[3])  # noqa: B023
                file.write(f"[{stamp}][{float(found[2]) + turn * span:.3f}s]{rest}")
            turn += 1
    return target.stat().st_size
