"""What a fitted model says: the knee and what saturates first, errors on loads that were left out, whether it holds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadline.capacity.fit import OTHER, Measured, Model, Point, fit
from leadline.capacity.network import Solution, rates
from leadline.model import distributions
from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.model.result import Interval

THROUGHPUT_HOLDS, RESPONSE_HOLDS = 0.10, 0.35  # mean errors on left-out loads above which the model does not hold
GROWS = 0.15  # of a demand over the range of loads, from which the model's first assumption is in doubt
DISTURBED = 0.25  # of all CPUs used by others, from which the capacity is not the server's
RETROGRADE = 0.10  # throughput below its peak at higher load
_DRAWS = 100
_T = 2.0


@dataclass(frozen=True)
class LeftOut:
    """A cell predicted by a model fitted without any trial of its load. Errors: predicted by measured, less one.

    ``late``: agents fell behind their cycles, so that measured response times are none of the model's.
    """

    load: float
    pool: int | None
    think: Level | None
    throughput: float
    predicted_throughput: float
    response: float
    predicted_response: float
    late: bool = False

    @property
    def throughput_error(self) -> float:
        return self.predicted_throughput / self.throughput - 1

    @property
    def response_error(self) -> float:
        return self.predicted_response / self.response - 1


@dataclass(frozen=True)
class Prediction:
    load: float
    pool: int | None
    think: Level | None
    solution: Solution
    throughput: Interval | None
    response: Interval | None
    measured: bool  # the study has this cell


@dataclass(frozen=True)
class Resource:
    """A station at the heaviest load of the study. ``measured``: its utilisation there; None for one that was not
    measured; ``full``: predicted at capacity; ``parts``: measured shares of the processes.
    """

    name: str
    demand: float
    servers: float
    measured: float | None
    full: float
    parts: dict[str, float]


@dataclass(frozen=True)
class Capacity:
    """``knee`` and ``capacity`` (transactions a second) at ``pool``, the baseline's; ``limit``: what saturates first.

    ``doubts``: sentences that say why the model does not hold; ``hold`` is whether there are none.
    """

    measured: Measured
    model: Model
    pool: int | None
    knee: float
    knee_interval: Interval | None
    capacity: float
    capacity_interval: Interval | None
    demands: dict[str, Interval | None]
    limit: str
    resources: tuple[Resource, ...]
    left_out: tuple[LeftOut, ...]
    predictions: tuple[Prediction, ...]
    doubts: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.doubts

    @property
    def throughput_error(self) -> float:
        """Mean absolute error of throughput on left-out loads."""
        return _mean_error([cell.throughput_error for cell in self.left_out])

    @property
    def response_error(self) -> float:
        return _response_error(self.left_out)


def answer(
    measured: Measured,
    loads: Sequence[float] = (),
    pools: Sequence[int] = (),
    seed: int = 1,
    draws: int = _DRAWS,
) -> Capacity:
    """Fit, cross-validate and predict at ``loads`` and ``pools``; where none are given, at those of the study, between
    them and beyond. Intervals (95 %) from ``draws`` bootstrap samples of the trials of each cell and a jackknife over
    loads. Raises UsageError.
    """
    if pools and measured.pool is None:
        raise UsageError("the study varies no pool, so it tells nothing of pools; vary one of server.threads.max")
    model = fit(measured)
    at_pools: list[int | None] = list(pools) or sorted({p.pool for p in measured.points}, key=lambda one: one or 0)
    pool = _first_pool(measured)
    spread = _Spread.of(measured, model, seed, draws)
    wanted = list(loads) or _default_loads(measured, model.knee(pool))
    levels = sorted({p.think_level for p in measured.points}, key=str)
    predictions: list[Prediction] = []
    for think in levels:
        for at_pool in at_pools:
            predictions += _predicted(measured, spread, wanted, at_pool, think)
    left_out = _left_out(measured, model)
    limit = model.bounds(pool)
    resources = _resources(measured, model, pool)
    return Capacity(
        measured,
        model,
        pool,
        model.knee(pool),
        spread.around([one.knee(pool) for one in spread.models]),
        limit.capacity,
        spread.around([one.bounds(pool).capacity for one in spread.models]),
        {
            **{role: spread.around([one.processes[role] for one in spread.models]) for role in model.processes},
            "delay": spread.around([one.delay for one in spread.models]),
        },
        limit.limit,
        resources,
        tuple(left_out),
        tuple(predictions),
        tuple(_doubts(measured, model, left_out)),
        tuple(_notes(measured, model)),
    )


def _first_pool(measured: Measured) -> int | None:
    """The smallest: where a pool is a factor, the question is whether it limits."""
    sizes = [point.pool for point in measured.points if point.pool is not None]
    return min(sizes) if sizes else None


def _default_loads(measured: Measured, knee: float) -> list[float]:
    measured_loads = measured.loads
    between = [math.sqrt(a * b) for a, b in itertools.pairwise(measured_loads)]
    beyond = [measured_loads[-1] * 1.5]
    loads = {*measured_loads, *between, *beyond, knee}
    if measured.closed or measured.agents:
        loads = {float(max(1, round(load))) for load in loads}
    return sorted(loads)


def _predicted(
    measured: Measured, spread: _Spread, loads: Sequence[float], pool: int | None, think: Level | None
) -> list[Prediction]:
    curves = [one.curve(loads, pool, think) for one in spread.models]
    cells = {(point.load, point.pool, point.think_level) for point in measured.points}
    return [
        Prediction(
            load,
            pool,
            think,
            curves[0][at],
            spread.around([curve[at].throughput for curve in curves]),
            spread.around([curve[at].response for curve in curves]),
            (load, pool, think) in cells,
        )
        for at, load in enumerate(loads)
    ]


@dataclass(frozen=True)
class _Spread:
    """How far figures of a model may be off: models ``drawn`` of bootstrap samples of each cell's trials (none where
    cells have one trial), and ``without`` each load. ``widened``: what a bootstrap of so few trials makes too narrow.
    """

    model: Model
    drawn: tuple[Model, ...]
    without: tuple[Model, ...]
    widened: float = 1.0

    @classmethod
    def of(cls, measured: Measured, model: Model, seed: int, draws: int) -> _Spread:
        cells: dict[object, list[Point]] = {}
        for point in measured.points:
            cells.setdefault((point.load, point.pool, point.think_level), []).append(point)
        rest = len(measured.points) - len(cells)
        if not rest or not draws:
            return cls(model, (), ())
        rng, drawn = np.random.default_rng(seed), []
        for _ in range(draws):
            sample = [cell[at] for cell in cells.values() for at in rng.integers(len(cell), size=len(cell))]
            drawn.append(fit(measured, sample, model))
        without = [fit(measured, [p for p in measured.points if p.load != load], model) for load in measured.loads]
        normal = float(distributions.t.ppf(0.975, rest) / distributions.norm.ppf(0.975))
        return cls(model, tuple(drawn), tuple(without), normal * math.sqrt(len(measured.points) / rest))

    @property
    def models(self) -> tuple[Model, ...]:
        return (self.model, *self.drawn, *self.without)

    def around(self, values: Sequence[float]) -> Interval | None:
        """95 % interval of a figure's values of ``models``: the bootstrap's, or the jackknife's
        over loads (Efron and Stein 1981, Annals of Statistics 9) where that is wider.
        """
        value, drawn, without = values[0], values[1 : 1 + len(self.drawn)], values[1 + len(self.drawn) :]
        if len(drawn) < 20:
            return None
        low, high = (self.widened * (float(end) - value) for end in np.percentile(drawn, [2.5, 97.5]))
        reach = (
            float(distributions.t.ppf(0.975, len(without) - 1)) * math.sqrt(len(without) - 1) * float(np.std(without))
        )
        return Interval(max(0.0, value + min(low, -reach)), value + max(high, reach))


def _left_out(measured: Measured, whole: Model) -> list[LeftOut]:
    rows = []
    for load in measured.loads:
        rest = [point for point in measured.points if point.load != load]
        model = fit(measured, rest)
        groups: dict[object, list[Point]] = {}
        for point in measured.points:
            if point.load == load:
                groups.setdefault((point.pool, str(point.think_level)), []).append(point)
        for group in groups.values():
            solution = model.at(load, group[0].pool, group[0].think_level)
            throughput = float(np.mean([point.throughput for point in group]))
            rows.append(
                LeftOut(
                    load,
                    group[0].pool,
                    group[0].think_level,
                    throughput,
                    solution.throughput,
                    float(np.mean([point.response for point in group])),
                    solution.response,
                    whole.late(load, throughput),
                )
            )
    return rows


def _resources(measured: Measured, model: Model, pool: int | None) -> tuple[Resource, ...]:
    top = max(point.throughput for point in measured.points)
    best = [point for point in measured.points if point.throughput >= 0.97 * top]
    most = model.bounds(pool).capacity
    resources = []
    for name, roles in measured.roles.items():
        servers = model.servers[name]
        parts = {
            role: float(np.mean([point.throughput * point.cpu[role] for point in best])) / servers for role in roles
        }
        resources.append(
            Resource(
                name, model.demands[name], servers, sum(parts.values()), most * model.demands[name] / servers, parts
            )
        )
    if model.other > 0:
        resources.append(Resource(OTHER, model.other, 1.0, None, most * model.other, {}))
    if model.pool is not None and pool is not None:
        inside = model.nodes(pool)[0].inside  # type: ignore[union-attr]
        full = float(rates(inside, pool)[-1])
        resources.append(Resource(f"{model.pool} = {pool}", pool / full, float(pool), None, most / full, {}))
    return tuple(resources)


def _doubts(measured: Measured, model: Model, left_out: Sequence[LeftOut]) -> list[str]:
    doubts = []
    wrong = _mean_error([cell.throughput_error for cell in left_out])
    if wrong > THROUGHPUT_HOLDS:
        doubts.append(
            f"throughput of loads that were left out is predicted with a mean error of {wrong:.0%}; "
            f"{THROUGHPUT_HOLDS:.0%} is the most at which the model counts"
        )
    wrong = _response_error(left_out)
    if wrong > RESPONSE_HOLDS:
        doubts.append(
            f"response times of loads that were left out are predicted with a mean error of {wrong:.0%}; "
            f"{RESPONSE_HOLDS:.0%} is the most"
        )
    others_share = float(np.mean([point.taken for point in measured.points]))
    if others_share > DISTURBED:
        doubts.append(
            f"other programs used {others_share:.0%} of all CPUs: the demands are those of the services, the "
            "capacity is that "
            "of what others left"
        )
    for role in model.processes:
        growth, t = _growth(measured.points, role)
        if growth > GROWS and t > _T:
            doubts.append(
                f"CPU of the {role} for one transaction grows by {growth:.0%} from the lightest load to the heaviest: "
                "demands are not constant, so more load costs more than predicted"
            )
    peak = max(measured.loads, key=lambda load: _mean_throughput(measured, load))
    last = measured.loads[-1]
    fell = 1 - _mean_throughput(measured, last) / _mean_throughput(measured, peak)
    if last > peak and fell > RETROGRADE:
        doubts.append(
            f"throughput at {last:g} is {fell:.0%} below that at {peak:g}: the system degrades under overload, "
            "which a queueing network never does"
        )
    return doubts


def _notes(measured: Measured, model: Model) -> list[str]:
    notes = list(measured.notes)
    others_share = float(np.mean([point.taken for point in measured.points]))
    if 0.02 < others_share <= DISTURBED:
        notes.append(f"Other programs used {others_share:.0%} of all CPUs; the predictions hold where they go on to.")
    top, last = model.bounds(_first_pool(measured)).capacity, measured.loads[-1]
    if _mean_throughput(measured, last) < 0.8 * top:
        reached = _mean_throughput(measured, last) / top
        notes.append(
            f"The heaviest load reached {reached:.0%} of the predicted capacity: the knee is an extrapolation; add "
            "heavier loads."
        )
    counts = [len([p for p in measured.points if p.load == load]) for load in measured.loads]
    if max(counts) < 2:
        notes.append("One trial of each cell: no intervals; two or more replicates give them.")
    return notes


def _growth(points: Sequence[Point], role: str) -> tuple[float, float]:
    """Of the demand from the lightest to the heaviest load, as a share, by a line in logarithms; and its t value."""
    x = np.log([point.throughput for point in points])
    y = np.log([max(point.cpu[role], 1e-9) for point in points])
    spread = x - x.mean()
    if len(points) < 4 or float(spread @ spread) < 1e-6:
        return 0.0, 0.0
    slope = float(spread @ y / (spread @ spread))
    rest = y - y.mean() - slope * spread
    error = math.sqrt(max(float(rest @ rest) / (len(points) - 2), 1e-12) / float(spread @ spread))
    return math.expm1(slope * float(np.ptp(x))), slope / error


def _mean_throughput(measured: Measured, load: float) -> float:
    return float(np.mean([point.throughput for point in measured.points if point.load == load]))


def _response_error(left_out: Sequence[LeftOut]) -> float:
    return _mean_error([cell.response_error for cell in left_out if not cell.late])


def _mean_error(errors: Sequence[float]) -> float:
    return float(np.mean(np.abs(errors))) if errors else 0.0
