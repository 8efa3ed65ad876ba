"""Gatling: a line for every request, by its simulation log (up to 3.11, text), else the totals it printed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from leadline.host.received import end_of, lines_of, opened
from leadline.load.generators import base
from leadline.load.result import Latency
from leadline.model.errors import UsageError
from leadline.model.received import number, whole

_MEANING = base.Meaning(
    "send",
    "unknown",
    "Gatling's users arrive as the simulation injects them (open or closed); " + base.SENT.format(name="Gatling"),
)
_REASON = (
    "Gatling 3.12 and newer keep single requests in a format of their own: there are only the totals it printed, "
    "throughput in whole requests a second, and no seconds; Gatling 3.11 has them"
)
_STATUS = re.compile(r"found (\d{3})")


class Gatling:
    """`gatling.sh -s CLASS`; the simulation finds the URL in the system property ``leadline.url``."""

    name = "gatling"
    per_second = True

    def check(self, job: base.Job) -> str:
        if job.script is None:
            raise UsageError("gatling runs a simulation: name its class as the script")
        if job.has("-rf", "--results-folder"):
            raise UsageError("gatling: -rf is taken: leadline reads its results")
        return job.find("gatling.sh", "unpack Gatling and name its bin/gatling.sh as the program")

    def command(self, job: base.Job) -> base.Command:
        program = self.check(job)
        properties = {"leadline.url": job.url, "leadline.seconds": job.whole_seconds, "leadline.seed": job.seed}
        theirs = [os.environ["JAVA_OPTS"]] if os.environ.get("JAVA_OPTS") else []
        options = " ".join([*theirs, *(f"-D{key}={value}" for key, value in properties.items())])
        argv = [program, "-s", str(job.script), "-rf", str(job.raw / "gatling"), *job.words]
        return base.Command(argv, {"JAVA_OPTS": options})

    def read(self, job: base.Job) -> base.Findings:
        logs = sorted((job.raw / "gatling").glob("*/simulation.log"), key=lambda path: path.stat().st_mtime)
        if not logs:
            raise base.missing("gatling", "no simulation.log")
        with opened(logs[-1]) as file:
            is_text = file.read(4) == b"RUN\t"
        if is_text:
            version, samples = read_log(logs[-1])
            return base.Findings(version, _MEANING, samples)
        return base.Findings("gatling", _MEANING, totals=read_printed(end_of(job.raw / base.PRINTED)))


def read_log(path: Path) -> tuple[str, list[base.Sample]]:
    """Version and requests of a text log: tab-separated, unix ms of start and end."""
    version, samples = "gatling", []
    for line in lines_of(path):
        fields = line.rstrip("\r\n").split("\t")
        if fields[0] == "RUN":
            version = f"gatling {fields[-1].strip()}"
        if fields[0] == "REQUEST" and len(fields) >= 6:
            _, groups, name, start, end, status, *message = fields
            moments = {"start": start, "end": end}
            began, ended = (whole(moments, name, str(path)) for name in moments)
            took = number({"response time": float(ended - began)}, "response time", str(path), most=base.LONGEST_MS)
            error = "" if status == "OK" else _kind(" ".join(message))
            name = f"{groups.replace(',', '/')}/{name}" if groups else name
            samples.append(base.Sample(name, ended / 1000, took, took, error))
    return version, samples


def _kind(message: str) -> str:
    status = _STATUS.search(message)
    if status:
        return f"status_{status[1][0]}xx"
    word = message.lower()
    for part, kind in (("timeout", "timeout"), ("reset", "reset"), ("connect", "connect"), ("closed", "closed")):
        if part in word:
            return kind
    return "check"


def read_printed(text: str) -> base.Totals:
    """The block "Global Information" of a run's end: figures of the successful requests. Raises ValueError."""
    if "Global Information" not in text:
        raise ValueError("no block 'Global Information' was printed; Gatling leaves it out with -nr (--no-reports)")
    rows: dict[str, list[str]] = {}
    for line in text[text.rindex("Global Information") :].splitlines()[1:]:
        if not line.startswith(">") or line.count("|") != 3:
            break
        name, *figures = (part.strip(" >") for part in line.split("|"))
        rows[name] = figures

    def ok(start: str) -> float | None:
        word = {name[: len(start)]: values[1] for name, values in reversed(rows.items())}[start].replace(",", "")
        return None if word == "-" else float(word)

    count, rate = ok("request count") or 0.0, ok("mean throughput") or 0.0
    failed = int(rows["request count"][2].replace(",", ""))
    percentiles = [ok(f"response time {n}th percentile") for n in (50, 95, 99)]
    latency = Latency(
        ok("mean response time"), percentiles[0], None, percentiles[1], percentiles[2], None, ok("max response time")
    )
    errors = {"failed": failed} if failed else {}
    return base.Totals("request", count / rate if rate else 0.0, int(count), errors, latency, _REASON)


GENERATOR: base.Generator = Gatling()
