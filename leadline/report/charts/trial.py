"""Panels of one trial: what each layer did, second by second.

A panel is a specification without data; the data of a trial (``data``) is added for a static figure, and by the
page's script for any two trials the reader picks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from leadline.report.charts.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, Figure, figure

WIDTH = 452
MARGIN = 2.0  # seconds shown before and after the load
_LINES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, "#7a5c00", GREY)
_PHASES = {"ramp-up": "#c9ced6", "warm-up cut": "#f3d9a4", "steady": "#ffffff", "ramp-down": "#c9ced6"}


@dataclass(frozen=True)
class Source:
    """One metric of one observer. ``label`` may hold ``{}`` for the subject."""

    label: str
    observer: str
    metric: str
    subject: str | None = None
    scale: float = 1.0
    most: bool = False  # keep the largest, not the mean, of a bin when a long series is thinned


@dataclass(frozen=True)
class Track:
    """One pair of axes in a panel."""

    unit: str
    mark: str  # line, area, step, stem
    sources: tuple[Source, ...]
    height: int = 105


@dataclass(frozen=True)
class Panel:
    name: str
    title: str
    tracks: tuple[Track, ...]
    top: float | None = None


_NUMBER = "abs(datum.value) >= 10000 ? format(datum.value, '~s') : format(datum.value, ',~r')"
_MIB = 1 / 2**20


def _host(label: str, metric: str, scale: float = 1.0, subject: str | None = None) -> Source:
    return Source(label, "host", metric, subject, scale)


PANELS: tuple[Panel, ...] = (
    Panel(
        "throughput",
        "Throughput and response time",
        (
            Track("transactions/s", "line", (Source("ok", "driver", "ok"), Source("failed", "driver", "failed"))),
            Track(
                "ms",
                "line",
                (
                    Source("mean response time", "driver", "response_mean_ms", most=True),
                    Source("mean service time", "driver", "service_mean_ms", most=True),
                ),
                70,
            ),
            Track("in flight", "line", (Source("transactions in flight", "driver", "in_flight"),), 50),
        ),
    ),
    Panel(
        "pool",
        "Connection pool",
        (
            Track(
                "connections",
                "step",
                (
                    Source("{} in use", "pools", "pool.in_use"),
                    Source("{} size", "pools", "pool.size"),
                    Source("{} max", "pools", "pool.max"),
                ),
            ),
            Track("callers waiting", "step", (Source("{} waiting", "pools", "pool.waiting", most=True),), 60),
            Track("wait, ms", "line", (Source("{} mean wait", "pools", "pool.wait_ms_mean", most=True),), 60),
        ),
    ),
    Panel(
        "processes",
        "CPU of the processes",
        (
            Track(
                "CPUs",
                "line",
                (
                    Source("server", "processes", "cpu", "server"),
                    Source("database", "processes", "cpu", "database"),
                    Source("driver", "processes", "cpu", "driver"),
                ),
            ),
        ),
    ),
    Panel(
        "cpu",
        "CPU of the host",
        (
            Track(
                "% of all CPUs",
                "area",
                (
                    _host("user", "cpu.user", 100, "host"),
                    _host("system", "cpu.system", 100, "host"),
                    _host("iowait", "cpu.iowait", 100, "host"),
                    _host("steal", "cpu.steal", 100, "host"),
                ),
            ),
        ),
        100.0,
    ),
    Panel(
        "gc",
        "Collector",
        (
            Track(
                "pause, ms",
                "stem",
                (Source("{}", "gc", "gc.pause", most=True), Source("stall: {}", "gc", "gc.stall", most=True)),
            ),
            Track("MiB after", "line", (Source("heap after collection", "gc", "heap.after", scale=_MIB),), 60),
        ),
    ),
    Panel(
        "threads",
        "Threads of the server",
        (
            Track(
                "threads",
                "step",
                (
                    Source("{} active", "pools", "threads.active"),
                    Source("{} size", "pools", "threads.size"),
                    Source("{} max", "pools", "threads.max"),
                ),
            ),
            Track("tasks waiting", "step", (Source("{} queue", "pools", "threads.queue", most=True),), 50),
        ),
    ),
    Panel(
        "writeback",
        "Dirty memory and writeback",
        (
            Track(
                "MiB",
                "line",
                (_host("dirty", "memory.dirty", _MIB), _host("writeback", "memory.writeback", _MIB)),
            ),
        ),
    ),
    Panel(
        "disk",
        "Disk",
        (
            Track(
                "MiB/s",
                "line",
                (_host("{} read", "disk.read_bytes", _MIB), _host("{} write", "disk.write_bytes", _MIB)),
            ),
        ),
    ),
    Panel(
        "memory",
        "Memory",
        (
            Track(
                "MiB",
                "line",
                (
                    _host("available", "memory.available", _MIB),
                    _host("cached", "memory.cached", _MIB),
                    Source("{} resident", "processes", "rss", None, _MIB),
                ),
            ),
        ),
    ),
    Panel(
        "scheduler",
        "Scheduler",
        (
            Track("run queue", "line", (_host("runnable", "runqueue"),), 60),
            Track("switches/s", "line", (_host("context switches", "context_switches"),), 60),
        ),
    ),
    Panel(
        "pressure",
        "Pressure",
        (
            Track(
                "% of time stalled",
                "line",
                (
                    _host("cpu", "psi.cpu.some", 100),
                    _host("memory", "psi.memory.some", 100),
                    _host("io", "psi.io.some", 100),
                ),
            ),
        ),
    ),
    Panel(
        "network",
        "Network",
        (
            Track("MiB/s", "line", (_host("{} in", "net.rx_bytes", _MIB), _host("{} out", "net.tx_bytes", _MIB))),
            Track("segments/s", "line", (_host("TCP retransmits", "tcp.retransmits"),), 50),
        ),
    ),
    Panel(
        "paging",
        "Paging and swap",
        (
            Track("MiB/s", "line", (_host("paged in", "paging.in", _MIB), _host("paged out", "paging.out", _MIB))),
            Track("pages/s", "line", (_host("swapped in", "swap.in"), _host("swapped out", "swap.out")), 60),
        ),
    ),
)


def spec(panel: Panel, tracks: Sequence[int]) -> Figure:
    """The panel with the given tracks only; data sets ``t<i>``, ``peak<i>``, ``phases`` and ``span`` are unset."""
    charts = []
    for place, index in enumerate(tracks):
        charts.append(_track(panel, index, first=place == 0, last=place == len(tracks) - 1))
    chart = alt.vconcat(*charts, spacing=8).resolve_scale(color="independent")
    return figure(f"trial-{panel.name}", panel.title, "", chart, panel.title)


def _track(panel: Panel, index: int, *, first: bool, last: bool) -> Any:
    track = panel.tracks[index]
    x = alt.X(
        "t:Q",
        title="seconds since the load began" if last else None,
        axis=alt.Axis(labels=last, ticks=last, grid=False, tickCount=8),
        scale=alt.Scale(nice=False, padding=0),
    )
    y_scale = alt.Scale(domain=[0, panel.top], clamp=True) if panel.top else alt.Scale(zero=True, nice=True)
    y = alt.Y(
        "v:Q",
        title=track.unit,
        stack="zero" if track.mark == "area" else None,
        scale=y_scale,
        axis=alt.Axis(tickCount=4 if track.height > 80 else 2, labelExpr=_NUMBER, minExtent=34, maxExtent=34),
    )
    colour = alt.Color(
        "s:N",
        sort=None,
        scale=alt.Scale(range=list(_LINES)),
        legend=alt.Legend(
            orient="top",
            direction="horizontal",
            columns=4,
            title=None,
            labelLimit=150,
            offset=2,
            symbolType={"area": "square", "stem": "circle"}.get(track.mark, "stroke"),
        ),
    )
    data = alt.Chart(alt.NamedData(f"t{index}"))
    tip = [
        alt.Tooltip("s:N", title=track.unit),
        alt.Tooltip("v:Q", format=",.4~r", title="value"),
        alt.Tooltip("t:Q", format=",.1f", title="second"),
    ]
    encoding = {"x": x, "y": y, "color": colour, "tooltip": tip}
    bare = alt.Color("s:N", sort=None, scale=alt.Scale(range=list(_LINES)), legend=None)
    order = alt.Order("o:Q")
    shades = alt.Chart(alt.NamedData("phases"))
    layers: list[Any] = [
        shades.mark_rect(opacity=0.5).encode(
            x=alt.X("from:Q"),
            x2="to:Q",
            color=alt.Color(
                "phase:N", scale=alt.Scale(domain=list(_PHASES), range=list(_PHASES.values())), legend=None
            ),
        )
    ]
    if first:
        layers.append(
            shades.mark_text(align="left", baseline="top", fontSize=9, color="#555c66", dx=2, dy=1).encode(
                x=alt.X("from:Q"), y=alt.value(0), text="label:N"
            )
        )
    if track.mark == "area":
        layers.append(data.mark_area(opacity=0.85, line=False).encode(**encoding, order=order))
    elif track.mark == "step":
        layers.append(data.mark_line(interpolate="step-after", strokeWidth=1.6).encode(**encoding))
    elif track.mark == "stem":
        layers.append(data.mark_rule(strokeWidth=1.4, opacity=0.8).encode(x=x, y=y, y2=alt.Y2Datum(0), color=bare))
        layers.append(data.mark_point(size=22, filled=True, opacity=0.9).encode(**encoding))
    else:
        layers.append(data.mark_line(strokeWidth=1.6).encode(**encoding))
    # an unseen point keeps the axes of two trials side by side alike
    layers.append(
        alt.Chart(alt.NamedData(f"peak{index}"))
        .mark_point(opacity=0)
        .encode(x=alt.X("t:Q"), y=alt.Y("v:Q", scale=y_scale))
    )
    return alt.layer(*layers).resolve_scale(color="independent").properties(width=WIDTH, height=track.height)


def data(series: dict[str, Any], tracks: Sequence[int], peaks: Sequence[float], span: float) -> dict[str, Any]:
    """Data sets of a static figure from the compact form of ``leadline.report.series``."""
    sets: dict[str, Any] = {"phases": series["phases"]}
    for index in tracks:
        sets[f"t{index}"] = [
            {"t": t, "v": v, "s": one["s"], "o": order}
            for order, one in enumerate(series["tracks"][index])
            for t, v in zip(one["t"], one["v"], strict=True)
        ]
        sets[f"peak{index}"] = [{"t": span + MARGIN, "v": peaks[index]}, {"t": -MARGIN, "v": 0}]
    return sets
