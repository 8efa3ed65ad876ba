"""Panels of one trial: what each layer did, second by second.

A panel is a specification without data; the data of a trial (``data``) is added for a static figure, and by the
page's script for any two trials the reader picks.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import altair as alt

from leadline.report.charts.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, Figure, figure, marked


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


WIDTH, WIDE = 452, 1000  # of one of two side by side, and of one alone
MARGIN = 2.0  # seconds shown before and after the load
_LINES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, "#7a5c00", GREY)
_PHASES = {"ramp-up": "#c9ced6", "warm-up cut": "#f3d9a4", "steady": "#ffffff", "ramp-down": "#c9ced6"}
_NUMBER = "abs(datum.value) >= 100000 ? format(datum.value, '~s') : format(datum.value, ',~r')"


Key = TypeVar("Key", int, str)


@dataclass(frozen=True)
class PanelView:
    """One panel for those shown first. ``spec`` has no data; ``sides`` are static figures or None."""

    name: str
    title: str
    spec: Mapping[str, Any]
    tracks: tuple[int, ...]
    sides: tuple[Figure | None, ...]

    @property
    def live(self) -> dict[str, Any]:
        """What the page's script draws it by."""
        return {"name": self.name, "title": self.title, "spec": self.spec, "tracks": self.tracks}


def views(
    panels: Sequence[Panel],
    data_of: Mapping[Key, Mapping[str, Any]],
    chosen: Sequence[Key] | None,
    named: Mapping[Key, str],
    *,
    since: str = "the load began",
    margin: float = MARGIN,
    simulated: bool = False,
) -> tuple[PanelView, ...]:
    """Panels that any has; the static figures of the chosen ones share their axes. ``data_of``: the series by key."""
    views_ = []
    for panel in panels if chosen else ():
        drawn = {key: datum["panels"][panel.name] for key, datum in data_of.items() if panel.name in datum["panels"]}
        tracks = tuple(i for i in range(len(panel.tracks)) if any(one["tracks"][i] for one in drawn.values()))
        if not tracks and not panel.part:
            views_.append(PanelView(panel.name, panel.title, {}, (), ()))
        if not tracks or chosen is None:
            continue
        width = WIDTH if len(chosen) > 1 else WIDE
        empty = spec(panel, tracks, width, since)
        span = max(data_of[key]["span"] for key in chosen)
        peaks = [
            max((drawn[key]["peaks"][i] for key in chosen if key in drawn), default=0.0)
            for i in range(len(panel.tracks))
        ]
        sides: list[Figure | None] = []
        for key in chosen:
            if key not in drawn:
                sides.append(None)
                continue
            content = {"phases": data_of[key]["phases"], "tracks": drawn[key]["tracks"]}
            title = f"{panel.title}: {named[key]}"
            own = tuple(i for i in tracks if content["tracks"][i])  # an axis without figures has no size
            bare = spec(panel, own, width, since)
            filled = {"params": shown(span, margin), "datasets": data(content, own, peaks, span, margin)}
            static = Figure(f"trial-{key}-{panel.name}", title, "", {**bare.spec, **filled, "description": title})
            sides.append(marked(static, simulated))
        views_.append(PanelView(panel.name, panel.title, empty.spec, tracks, tuple(sides)))
    return tuple(views_)


@functools.cache
def spec(panel: Panel, tracks: tuple[int, ...], width: int = WIDTH, since: str = "the load began") -> Figure:
    """The panel with the given tracks only; the axis counts ``since`` then.

    Data sets ``t<i>``, ``peak<i>`` and ``phases`` are unset, and so are the parameters ``from_s`` and ``until_s``: the
    range of time that is shown (:func:`shown`).
    """
    charts = []
    for place, index in enumerate(tracks):
        title = f"seconds since {since}" if place == len(tracks) - 1 else None
        charts.append(_track(panel, index, first=place == 0, title=title, room=width // 3).properties(width=width))
    chart = alt.vconcat(*charts, spacing=8).resolve_scale(color="independent")
    return figure(f"trial-{panel.name}", panel.title, "", chart, description=panel.title)


def _track(panel: Panel, index: int, *, first: bool, title: str | None, room: int) -> Any:
    track, last = panel.tracks[index], title is not None
    x = alt.X(
        "t:Q",
        title=title,
        axis=alt.Axis(labels=last, ticks=last, grid=False, tickCount=8),
        scale=alt.Scale(domain=[{"expr": "from_s"}, {"expr": "until_s"}], nice=False, padding=0),
    )
    y_scale = alt.Scale(domain=[0, panel.top], clamp=True) if panel.top else alt.Scale(zero=True, nice=True)
    axis = alt.Axis(tickCount=4 if track.height > 80 else 2, labelExpr=_NUMBER, minExtent=34, maxExtent=34)
    y = alt.Y(
        "v:Q",
        title=track.unit,
        stack="zero" if track.mark == "area" else None,
        scale=y_scale,
        axis=axis,
    )
    if track.mark == "span":
        bare = alt.Axis(labels=False, ticks=False, grid=False, minExtent=34, maxExtent=34)
        y = alt.Y("s:N", title=track.unit, sort=None, axis=bare)
    colour = alt.Color(
        "s:N",
        sort=None,
        scale=alt.Scale(range=list(_LINES)),
        legend=alt.Legend(
            orient="top",
            direction="horizontal",
            columns=3,
            title=None,
            labelLimit=room - 20,
            offset=2,
            symbolType={"area": "square", "span": "square", "stem": "circle"}.get(track.mark, "stroke"),
        ),
    )
    tip = [
        alt.Tooltip("s:N", title=track.unit),
        alt.Tooltip("v:Q", format=",.4~r", title="ms" if track.mark == "span" else "value"),
        alt.Tooltip("t:Q", format=",.1f", title="second"),
    ]
    encoding = {"x": x, "y": y, "color": colour, "tooltip": tip}
    layers = [*_phases(first), *_marks(track.mark, alt.Chart(alt.NamedData(f"t{index}")), encoding)]
    if track.mark != "span":  # an unseen point keeps the axes of two trials side by side alike
        layers.append(
            alt.Chart(alt.NamedData(f"peak{index}"))
            .mark_point(opacity=0, clip=True)
            .encode(x=alt.X("t:Q"), y=alt.Y("v:Q", scale=y_scale))
        )
    return alt.layer(*layers).resolve_scale(color="independent").properties(height=track.height)


def _phases(labelled: bool) -> list[Any]:
    """The shades of the load's phases, and their names where ``labelled``."""
    shades = alt.Chart(alt.NamedData("phases"))
    layers: list[Any] = [
        shades.mark_rect(opacity=0.5, clip=True).encode(
            x=alt.X("from:Q"),
            x2="to:Q",
            color=alt.Color(
                "phase:N", scale=alt.Scale(domain=list(_PHASES), range=list(_PHASES.values())), legend=None
            ),
        )
    ]
    if labelled:
        layers.append(
            shades.mark_text(align="left", baseline="top", fontSize=12, color="#555c66", dx=2, dy=1, clip=True).encode(
                x=alt.X("from:Q"), y=alt.value(0), text="label:N"
            )
        )
    return layers


def _marks(mark: str, data: Any, encoding: Mapping[str, Any]) -> list[Any]:
    """The layers that draw a track's values."""
    if mark == "area":
        return [data.mark_area(opacity=0.85, line=False, clip=True).encode(**encoding, order=alt.Order("o:Q"))]
    if mark == "step":
        return [data.mark_line(interpolate="step-after", strokeWidth=1.6, clip=True).encode(**encoding)]
    if mark == "span":
        bars = data.mark_rect(strokeWidth=1, clip=True, opacity=0.9)  # the stroke: one of a pixel is seen
        edge = alt.Stroke("s:N", sort=None, scale=alt.Scale(range=list(_LINES)), legend=None)
        return [bars.encode(**encoding, x2="to:Q", stroke=edge)]
    if mark == "stem":
        bare = alt.Color("s:N", sort=None, scale=alt.Scale(range=list(_LINES)), legend=None)
        stems = data.mark_rule(strokeWidth=1.4, opacity=0.8, clip=True)
        return [
            stems.encode(x=encoding["x"], y=encoding["y"], y2=alt.Y2Datum(0), color=bare),
            data.mark_point(size=22, filled=True, opacity=0.9, clip=True).encode(**encoding),
        ]
    return [data.mark_line(strokeWidth=1.6, clip=True).encode(**encoding)]


def shown(span: float, margin: float) -> list[dict[str, Any]]:
    """The parameters that show all of a load of ``span`` seconds."""
    return [{"name": "from_s", "value": -margin}, {"name": "until_s", "value": span + margin}]


def data(
    series: dict[str, Any], tracks: Sequence[int], peaks: Sequence[float], span: float, margin: float
) -> dict[str, Any]:
    """Data sets of a static figure from the compact form of ``leadline.report.series``."""
    sets: dict[str, Any] = {"phases": series["phases"]}
    for index in tracks:
        sets[f"t{index}"] = [
            {"t": t, "v": v, "s": line["s"], "o": order, **({"to": line["to"][at]} if "to" in line else {})}
            for order, line in enumerate(series["tracks"][index])
            for at, (t, v) in enumerate(zip(line["t"], line["v"], strict=True))
        ]
        sets[f"peak{index}"] = [{"t": span + margin, "v": peaks[index] or 1.0}, {"t": -margin, "v": 0}]
    return sets
