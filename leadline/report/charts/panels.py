"""What the panels of a trial show: metrics of the observers, on one pair of axes or several (``panels.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Source:
    """One metric of one observer. ``label`` may hold ``{}`` for the subject."""

    label: str
    observer: str
    metric: str
    subject: str | None = None
    scale: float = 1.0
    keep: str = "mean"  # of a bin when a long series is thinned: its mean, its "most", or its "extremes"


@dataclass(frozen=True)
class Track:
    """One pair of axes in a panel."""

    unit: str
    mark: str  # line, area, step, stem; span: of time, each kind in a row of its own
    sources: tuple[Source, ...]
    height: int = 105


@dataclass(frozen=True)
class Panel:
    """``part``: of something that a stack may lack or not tell of; without figures there is no such panel."""

    name: str
    title: str
    tracks: tuple[Track, ...]
    top: float | None = None
    part: bool = False


SERVICES = "*"  # the subjects that are services of a stack file
_SCALES = {"MiB": 1 / 2**20, "percent": 100.0, "": 1.0}


def _panel(name: str, table: Mapping[str, Any]) -> Panel:
    def source(line: Mapping[str, Any]) -> Source:
        return Source(**{**line, "scale": _SCALES[line.get("scale", "")]})

    tracks = [Track(sources=tuple(map(source, track.pop("lines"))), **track) for track in table["tracks"]]
    return Panel(name, table["title"], tuple(tracks), table.get("top"), table.get("part", False))


_TABLE = tomllib.loads(Path(__file__).with_name("panels.toml").read_text(encoding="utf-8"))
PANELS = tuple(_panel(name, table) for name, table in _TABLE.items())
GC_PANELS = tuple(panel for panel in PANELS if panel.tracks[0].sources[0].observer == "gc")
