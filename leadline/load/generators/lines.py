"""Any program that prints a JSON object on a line for each piece of work: brokers, batch jobs, databases."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from leadline.host.received import lines_of
from leadline.load.generators.base import LONGEST_MS, SENT, Command, Findings, Generator, Job, Meaning, Sample
from leadline.model.errors import UsageError, nearest, quoted
from leadline.model.received import MOST_ROWS, ReceivedError, json_object, number

_FILE = "lines.jsonl"
_KEYS = ("start", "duration", "outcome", "type", "due")
_LATEST = 1e11  # unix seconds
_EARLY = 60.0  # seconds that a start may lie before that of the run: clocks
_LONGEST_WORD = 200
_DUE = Meaning(
    "intended start", "open", "the program says when each piece of work was due, and latencies count from it"
)


class Lines:
    """A ``program`` of the user's own, its ``script`` and options behind it."""

    name = "lines"
    per_second = True

    def check(self, job: Job) -> str:
        if job.program is None:
            raise UsageError("lines: name by `program` (--program) what prints JSON lines")
        if job.script is not None:
            job.script_file(self.name)
        program = job.find(self.name, "name what prints JSON lines by its path")
        return str(Path(program).resolve()) if os.sep in job.program else program

    def command(self, job: Job) -> Command:
        script = [str(job.script_file(self.name))] if job.script is not None else []
        return Command(["sh", "-c", 'exec "$@" > "$0"', str(job.raw / _FILE), self.check(job), *script, *job.words])

    def read(self, job: Job) -> Findings:
        begun = (job.raw / "started").stat().st_mtime
        rows = list(_rows(job.raw / _FILE, begun - _EARLY))
        sent = Meaning("send", "unknown", SENT.format(name="the program"))
        return Findings("", _DUE if all(due for _, due in rows) else sent, [sample for sample, _ in rows])


def _rows(path: Path, earliest: float) -> Iterator[tuple[Sample, bool]]:
    """Each piece of work, and whether its line says when it was due. Raises ReceivedError with the line."""
    for at, line in enumerate(lines_of(path), 1):
        if at > MOST_ROWS:
            raise ReceivedError(str(path), f"it has more than {MOST_ROWS:,} lines")
        if not line.strip():
            continue
        what = f"{path}:{at}"
        row = json_object(line, what)
        for key in row.keys() - set(_KEYS):
            near = nearest(key, list(_KEYS))
            raise ReceivedError(
                what, f"unknown key {quoted(key)}; {f'did you mean {near}' if near else ', '.join(_KEYS)}"
            )
        start = number(row, "start", what, earliest, _LATEST)
        seconds = number(row, "duration", what, most=LONGEST_MS / 1000)
        due = number(row, "due", what, earliest, start) if "due" in row else start
        outcome, kind = (row.get(key, usual) for key, usual in (("outcome", "ok"), ("type", "request")))
        for key, word in (("outcome", outcome), ("type", kind)):
            if not isinstance(word, str) or not 0 < len(word) <= _LONGEST_WORD or not word.isprintable():
                raise ReceivedError(what, f"{key} is {quoted(word)}, not a word of at most {_LONGEST_WORD} characters")
        error = "" if outcome == "ok" else outcome
        yield Sample(kind, start + seconds, (start - due + seconds) * 1000, seconds * 1000, error), "due" in row


GENERATOR: Generator = Lines()
