"""Panels of one trial: what each layer did, second by second.

A panel is a specification without data; the data of a trial (``data``) is added for a static figure, and by the
page's script for any two trials the reader picks.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


_MIB = 1 / 2**20


def _host(label: str, metric: str, scale: float = 1.0, subject: str | None = None) -> Source:
    return Source(label, "host", metric, subject, scale)


def _database(label: str, postgres: str, mariadb: str, scale: float = 1.0) -> tuple[Source, ...]:
    """The same of either database: a counter of its own, a second."""
    names = [name for name in (postgres, mariadb) if name]
    return tuple(Source(label, "database", f"{name}.per_s", None, scale) for name in names)


def _gc(label: str, metric: str, keep: str, scale: float = 1.0) -> Source:
    return Source(label, "gc", metric, None, scale, keep)


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
                    Source("mean response time", "driver", "response_mean_ms", keep="most"),
                    Source("mean service time", "driver", "service_mean_ms", keep="most"),
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
            Track("callers waiting", "step", (Source("{} waiting", "pools", "pool.waiting", keep="most"),), 60),
            Track("wait, ms", "line", (Source("{} mean wait", "pools", "pool.wait_ms_mean", keep="most"),), 60),
        ),
    ),
    Panel(
        "statements",
        "Statement cache",
        (
            Track("statements kept", "step", (Source("{} kept", "pools", "statements.kept"),), 60),
            Track(
                "so far",
                "line",
                (
                    Source("{} used", "pools", "statements.uses"),
                    Source("{} prepared", "pools", "statements.prepared"),
                    Source("{} discarded", "pools", "statements.discarded"),
                ),
                70,
            ),
        ),
        part=True,
    ),
    Panel(
        "database",
        "Database",
        (
            Track("commits/s", "line", _database("commits", "xact_commit", "Com_commit"), 60),
            Track("blocks/s", "line", _database("read into its cache", "blks_read", "Innodb_buffer_pool_reads"), 60),
            Track("log, MiB/s", "line", _database("written", "wal_bytes", "Innodb_os_log_written", _MIB), 60),
            Track(
                "waits/s",
                "line",
                (
                    *_database("row locks", "", "Innodb_row_lock_waits"),
                    *_database("deadlocks", "deadlocks", "Innodb_deadlocks"),
                ),
                50,
            ),
        ),
        part=True,
    ),
    Panel(
        "web",
        "Web server",
        (
            Track("requests/s", "line", (Source("requests", "web", "requests.per_s"),)),
            Track(
                "connections",
                "step",
                (
                    Source("of clients", "web", "connections", keep="most"),
                    Source("to the application server", "web", "upstream_connections", keep="most"),
                ),
                60,
            ),
            Track(
                "threads",
                "step",
                (
                    Source("busy", "web", "workers_busy", keep="most"),
                    Source("idle", "web", "workers_idle"),
                ),
                50,
            ),
        ),
        part=True,
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
                    Source("web server", "processes", "cpu", "web"),
                    Source("supplier", "processes", "cpu", "supplier"),
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
                    _host("nice", "cpu.nice", 100, "host"),
                    _host("system", "cpu.system", 100, "host"),
                    _host("softirq", "cpu.softirq", 100, "host"),
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
            Track("pause, ms", "stem", (_gc("{}", "gc.pause", "most"), _gc("stall: {}", "gc.stall", "most"))),
            Track(
                "MiB",
                "line",
                (
                    _gc("heap after collection", "heap.after", "extremes", _MIB),
                    _gc("before", "heap.before", "most", _MIB),
                    _gc("committed", "heap.total", "most", _MIB),
                    _gc("limit", "heap.limit", "most", _MIB),
                ),
            ),
        ),
    ),
    Panel(
        "safepoints",
        "Stops of all threads, by operation",
        (Track("stop, ms", "stem", (_gc("{}", "safepoint", "most"),), 70),),
        part=True,
    ),
    Panel(
        "gc-rates",
        "Allocation and promotion",
        (
            Track(
                "MiB/s",
                "line",
                (
                    _gc("allocated", "gc.allocation_rate", "extremes", _MIB),
                    _gc("promoted", "gc.promotion_rate", "most", _MIB),
                ),
                70,
            ),
        ),
        part=True,
    ),
    Panel(
        "gc-phases",
        "Collecting beside the application",
        (Track("phase", "span", (_gc("{}", "gc.phase", "most"),), 90),),
        part=True,
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
            Track("tasks waiting", "step", (Source("{} queue", "pools", "threads.queue", keep="most"),), 50),
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
        empty = spec(panel, tracks, WIDTH if len(chosen) > 1 else WIDE, since)
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
            bare = spec(panel, own, WIDTH if len(chosen) > 1 else WIDE, since)
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
