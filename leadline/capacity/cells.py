"""What a study of load measured, as points of a queueing network: one for each good trial."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from leadline.capacity.network import Agents
from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.model.naming import Describe, plain_level
from leadline.model.plan import Factor
from leadline.model.record import StudyRecord
from leadline.model.workload import RATE, USERS

POOLS = ("server.threads.max", "server.datasource.max_connections")
ROLES = ("server", "database", "web", "driver")  # processes whose CPU a transaction uses
REST = "rest"  # of the host's CPU: kernel threads, interrupts, processes that are nobody's
_THINK = "load.think"


@dataclass(frozen=True)
class Point:
    """One trial. ``load``: users, or arrivals a second; ``throughput`` a second and ``response`` in seconds; ``cpu``:
    seconds of CPU of one transaction by process; ``taken``: share of all CPUs that others used; ``cell``: its levels.
    """

    load: float
    throughput: float
    response: float
    cpu: Mapping[str, float]
    pool: int | None = None
    think_level: Level | None = None
    taken: float = 0.0
    cell: tuple[tuple[str, Level], ...] = ()
    more: Mapping[str, float] = field(default_factory=dict)  # responses that are evidence only

    @property
    def thinks(self) -> float:
        """Seconds between a user's transactions, by Little's law."""
        return max(0.0, self.load / self.throughput - self.response)


@dataclass(frozen=True)
class Measured:
    """A study's points under one setting of what is not load. ``factor``: of the load; ``held``: the other levels in
    words; ``pool``: the factor that sets how many transactions are inside; ``cpus``: of each station; ``agents``: of
    one unit of a load that is neither users nor arrivals.
    """

    points: tuple[Point, ...]
    factor: str
    cpus: Mapping[str, float]
    roles: Mapping[str, tuple[str, ...]]  # station -> processes that use it
    held: str = ""
    pool: str | None = None
    failed: int = 0
    notes: tuple[str, ...] = ()
    agents: tuple[Agents, ...] = ()

    @property
    def closed(self) -> bool:
        return self.factor == USERS

    @property
    def loads(self) -> list[float]:
        """Ascending, each once."""
        return sorted({point.load for point in self.points})


def measured(
    record: StudyRecord,
    at: Mapping[str, str] | None = None,
    cpus: float | None = None,
    describe: Describe = plain_level,
    agents: Mapping[str, Sequence[Agents]] | None = None,
) -> Measured:
    """The points of a study at the levels ``at`` of its other factors, as texts; the baseline's where it names none.

    ``cpus``: of the host, where the record does not tell; ``agents``: of one unit, by the factor that sets how many
    there are. Raises UsageError for a study that does not vary its load,
    has one load only, or whose trials failed, and for what ``at`` names that the study does not have.
    """
    factors = {factor.name: factor for factor in record.plan.factors}
    load_factors = [name for name in (USERS, RATE, *(agents or ())) if name in factors]
    name = record.study.study
    if not load_factors:
        arrivals = record.study.workload.arrivals
        knob = USERS if arrivals == "closed" else RATE
        varied = ", ".join(factors)
        if numbers := [factor for factor in factors if factor.startswith("load.") and factor != _THINK]:
            raise UsageError(
                f"{name} varies {numbers[0]}, a number of its scenario, and not how many users, arrivals or agents in "
                "cycles there are: no model can be fitted; leadline knee finds the largest one that keeps the limits"
            )
        raise UsageError(
            f"{name} does not vary its load (its factors: {varied}): no model can be fitted; "
            f"run it with --factor {knob}=5,10,20,40,80"
        )
    load = load_factors[0]
    pool = next((name for name in POOLS if name in factors), None)
    free = {load, _THINK, pool}
    wanted = held_levels(name, factors, free, at or {}, describe)
    points, failed = [], 0
    for trial in record.trials:
        levels = trial.planned.treatment.as_dict()
        if any(levels.get(name) != level for name, level in wanted.items()):
            continue
        if trial.failure is not None:
            failed += 1
        elif {"throughput", "mean"} <= trial.responses.keys():
            points.append(_point(trial.responses, levels, load, pool, trial.machine.taken if trial.machine else None))
    levels_text = ", ".join(f"{name} = {describe(name, level)}" for name, level in wanted.items())
    if not points:
        reason = f"{failed} failed" if failed else "none was run"
        raise UsageError(
            f"{name} has no finished trial{f' at {levels_text}' if levels_text else ''} ({reason}): nothing to fit"
        )
    loads = {point.load for point in points}
    if len(loads) < 3:
        some = ", ".join(f"{load:g}" for load in sorted(loads))
        also = f" ({failed} trials failed)" if failed else ""
        raise UsageError(
            f"{name} has good trials at {len(loads)} load{'s' if len(loads) > 1 else ''}, {some}{also}: a model needs "
            f"3 or more, from light load to beyond the knee; run it with --factor {load}=..."
        )
    known_roles = [role for role in ROLES if all(role in point.cpu for point in points)]
    if "server" not in known_roles:
        raise UsageError(f"{name} has no CPU by process (`observe: false`?): demands cannot be told")
    stations, roles = _stations(record, known_roles, cpus)
    if cpus is None and list(stations) == ["cpu"]:
        points = with_rest(points, stations["cpu"])
        roles = {"cpu": tuple(role for role in (*known_roles, REST) if all(role in point.cpu for point in points))}
    return Measured(
        tuple(points), load, stations, roles, levels_text, pool, failed, agents=tuple((agents or {}).get(load, ()))
    )


def with_rest(points: Sequence[Point], cpus: float) -> list[Point]:
    """Points with the CPU of the host that neither their processes nor other programs used; as they are where that of
    the host was not recorded in every trial.
    """
    if not all("host_cpu" in point.more for point in points):
        return list(points)
    points_ = []
    for point in points:
        busy = cpus * (point.more["host_cpu"] - point.taken) / point.throughput
        points_.append(replace(point, cpu={**point.cpu, REST: max(0.0, busy - sum(point.cpu.values()))}))
    return points_


def _point(
    responses: Mapping[str, float], levels: Mapping[str, Level], load: str, pool: str | None, taken: float | None
) -> Point:
    cpu = {
        role: responses[f"{role}_cpu_per_transaction"] / 1000
        for role in ROLES
        if f"{role}_cpu_per_transaction" in responses
    }
    more = {
        name: value
        for name, value in responses.items()
        if "context_switches" in name or name in ("gc_share", "host_cpu")
    }
    return Point(
        float(levels[load]),
        responses["throughput"],
        responses["mean"] / 1000,
        cpu,
        int(levels[pool]) if pool is not None else None,
        levels.get(_THINK),
        taken or 0.0,
        tuple(sorted(levels.items())),
        more,
    )


def held_levels(
    study: str,
    factors: Mapping[str, Factor],
    free: Collection[str | None],
    at: Mapping[str, str],
    describe: Describe = plain_level,
) -> dict[str, Level]:
    """Levels of all factors that are not ``free``: those of ``at``, else the baseline's. Raises UsageError."""
    levels = {factor.name: factor.baseline for factor in factors.values() if factor.name not in free}
    return {**levels, **{name: _level(study, factors, free, name, text, describe) for name, text in at.items()}}


def _level(
    name: str, factors: Mapping[str, Factor], free: Collection[str | None], each: str, text: str, describe: Describe
) -> Level:
    if each not in factors or each in free:
        others = [factor for factor in factors if factor not in free]
        others_text = f"its other factors: {', '.join(others)}" if others else "it has no other factor"
        raise UsageError(f"--at {each}: no factor of {name} beside its load; {others_text}")
    for level in factors[each].levels:
        if text in (str(level), describe(each, level)):
            return level
    levels_text = ", ".join(describe(each, level) for level in factors[each].levels)
    raise UsageError(f"--at {each}={text}: its levels are {levels_text}")


def _stations(
    record: StudyRecord, roles: list[str], cpus: float | None
) -> tuple[dict[str, float], dict[str, tuple[str, ...]]]:
    """CPUs by station, and who uses each: processes that share CPUs are at one station."""
    placement = record.study.placement
    lists = {role: getattr(placement, f"{role}_cpus") for role in roles}
    groups: dict[str | None, list[str]] = {}
    for role in roles:
        groups.setdefault(lists[role], []).append(role)
    whole = cpus or _usable(record)
    if len(groups) == 1 and None in groups:
        return {"cpu": whole}, {"cpu": tuple(roles)}
    stations = {
        f"{'+'.join(users)} cpu": (cpu_count(text) if text else whole, tuple(users)) for text, users in groups.items()
    }
    return {name: count for name, (count, _) in stations.items()}, {
        name: users for name, (_, users) in stations.items()
    }


def _usable(record: StudyRecord) -> float:
    for name in ("host.cpu.usable", "host.guest.cpus", "host.cpu.count"):
        text = record.environment.get(name, "")
        if text.isdigit() and int(text) > 0:
            return float(text)
    raise UsageError(f"{record.study.study} does not tell how many CPUs its host had: say --cpus N")


def cpu_count(text: str) -> int:
    """CPUs of a list such as ``0,2-3``. Raises ValueError for another text."""
    spans = [part.split("-") for part in text.split(",")]
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)
