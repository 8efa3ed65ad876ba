"""Figures of windows from the driver's record of every transaction, against those that everything else reads."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hdrh.histogram import HdrHistogram

from leadline.load.series import ALL, Outcomes, outcomes_in
from leadline.model.result import AtLeast

UNANSWERED = ("timeout", "unfinished")


@dataclass(frozen=True)
class Row:
    """A transaction of transactions.csv; ``name`` is empty for an arrival that was never started."""

    due_ns: int
    name: str
    outcome: str
    response_ns: int | None

    @property
    def second(self) -> int:
        return self.due_ns // 1_000_000_000


def read_rows(directories: Sequence[Path]) -> list[Row]:
    """Of one driver or several."""
    found = []
    for directory in directories:
        with (directory / "transactions.csv").open(newline="") as stream:
            for row in csv.DictReader(stream):
                response = int(row["response_ns"]) if row["response_ns"] else None
                found.append(Row(int(row["due_ns"]), row["transaction"], row["outcome"], response))
    return found


def recomputed(rows: Sequence[Row], seconds: Sequence[int], name: str) -> Outcomes:
    """What became of all that was due in the seconds."""
    inside = set(seconds)
    found = Outcomes(HdrHistogram(64, 3_600_000_000_000, 3))
    for row in rows:
        if row.second not in inside or name not in (ALL, row.name):
            continue
        found.ok += row.outcome == "ok"
        found.skipped += row.outcome == "skipped"
        found.dropped += row.outcome == "dropped"
        found.failed += row.outcome not in ("ok", "skipped", "dropped")
        if row.response_ns is not None:
            found.histogram.record_value(min(row.response_ns, 3_600_000_000_000))
            if row.outcome in UNANSWERED:
                found.unanswered += 1
                found.unanswered_from = min(found.unanswered_from, row.response_ns / 1e6)
    return found


def differences(directory: Path, rows: Sequence[Row], windows: Sequence[Sequence[int]]) -> list[str]:
    """Figures of windows (seconds each) in which the files differ from the record; a sentence each."""
    found = []
    for seconds, named in zip(windows, outcomes_in(directory, windows, None), strict=True):
        names = {ALL, *named, *(row.name for row in rows if row.name and row.second in set(seconds))}
        for name in sorted(names):
            expected = recomputed(rows, seconds, name)
            read = named.get(name) or Outcomes(HdrHistogram(64, 3_600_000_000_000, 3))
            want, have = vars(expected.over(len(seconds))), vars(read.over(len(seconds)))
            for key, value in want.items():
                same = have[key] == value or (math.isnan(value) and math.isnan(have[key]))
                if not same or isinstance(value, AtLeast) != isinstance(have[key], AtLeast):
                    found.append(f"{name} {key} of seconds {list(seconds)[:3]}..: {have[key]}, recorded {value}")
    return found
