"""oha: its JSON report for errors, its SQLite file for single requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from leadline.host.received import json_object_file, sqlite_rows
from leadline.load.generators import base
from leadline.load.result import LONGEST
from leadline.model.errors import UsageError
from leadline.model.received import number, whole

_MOST = 20_000_000  # requests without a response
_COLUMNS = ("start", "due", "end", "duration", "status")

_INTENDED = base.Meaning(
    "intended start",
    "open",
    "oha kept a rate and counted latencies from the intended start of each request (--latency-correction): a stall of "
    "the server is charged to every request it delayed",
)
_UNTIMED = (
    "oha keeps no time of requests without a response: {count} are counted as spread evenly over the run, so when they "
    "happened, and how many of them in the steady phase, is not known"
)


class Oha:
    """`oha`; ``-z`` is added where neither a number of requests nor a duration is given."""

    name = "oha"
    per_second = True

    def check(self, job: base.Job) -> str:
        if job.script is not None:
            raise UsageError("oha has no script: give it its options (-q, -c, -m, --urls-from-file ...)")
        return job.find("oha", "cargo install oha")

    def command(self, job: base.Job) -> base.Command:
        program = self.check(job)
        words = job.words
        if not job.has("-z", "-n"):
            words = ["-z", f"{job.whole_seconds}s", *words]
        database = job.raw / "oha.sqlite"
        database.unlink(missing_ok=True)
        report = ["--no-tui", "--output-format", "json", "--output", str(job.raw / "oha.json")]
        target = [] if job.names_server else [job.url]
        return base.Command([program, *report, "--db-url", str(database), *words, *target])

    def read(self, job: base.Job) -> base.Findings:
        started = (job.raw / "started").stat().st_mtime
        file = job.raw / "oha.json"
        report = json_object_file(file)
        errors = report["errorDistribution"]
        lasted = number(report["summary"], "total", str(file), most=LONGEST)
        rows = list(_rows(job.raw / "oha.sqlite"))
        samples = [
            base.Sample("request", started + end, 1000 * response, 1000 * service, base.status_kind(status))
            for end, response, service, status in rows
        ]
        first = min((sample.end - sample.service_ms / 1000 for sample in samples), default=started)
        length = max(started + lasted, first, *(sample.end for sample in samples)) - first
        untimed = {text: whole(errors, text, str(file), _MOST) for text in errors if "deadline" not in text}
        for text, count in untimed.items():
            ends = (first + length * (n + 0.5) / count for n in range(count))
            samples += [base.Sample("request", end, 0.0, 0.0, _kind(text)) for end in ends]
        paced = job.has("-q", "--qps", "--query-per-second", "--burst-delay")
        corrected = paced and job.has("--latency-correction")
        meaning = _INTENDED if corrected else base.meaning_of("oha", "open" if paced else "closed")
        total = sum(untimed.values())
        return base.Findings("oha", meaning, samples, missing=_UNTIMED.format(count=total) if total else "")


def _rows(path: Path) -> Iterator[tuple[float, float, float, int]]:
    """End since the start of the run, response and service time, all in seconds, and the status."""
    columns = {row[1] for row in sqlite_rows(path, "PRAGMA table_info(oha)", 6)}
    intended = "start_latency_correction" if "start_latency_correction" in columns else "NULL"
    end = '"end"' if "end" in columns else "start + duration"
    query = f"SELECT start, {intended}, {end}, duration, status FROM oha ORDER BY start"
    for values in sqlite_rows(path, query, len(_COLUMNS)):
        row = {name: value for name, value in zip(_COLUMNS, values, strict=True) if value is not None}
        start, until, duration = (number(row, name, str(path), most=LONGEST) for name in ("start", "end", "duration"))
        due = number(row, "due", str(path), most=LONGEST) if "due" in row else until - duration
        yield until, until - due, until - start, whole(row, "status", str(path))


def _kind(text: str) -> str:
    word = text.lower()
    for part, kind in (("timeout", "timeout"), ("timed out", "timeout"), ("connect", "connect"), ("reset", "reset")):
        if part in word:
            return kind
    return "closed" if "closed" in word else "protocol"


GENERATOR: base.Generator = Oha()
