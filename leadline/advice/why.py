"""What the parts of a change suggest: of CPU per transaction, or of a response time. They name the knob or the code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from leadline.advice.findings import Evidence, Finding
from leadline.advice.rules.services import POOLS, STATEMENTS, WORKERS
from leadline.model.frames import (
    APPLICATION,
    CONNECTION_WAIT,
    DATABASE_WAIT,
    DELAYED,
    DRIVER,
    DRIVING,
    LOCK_WAIT,
    MEASURED,
    OTHER_WAIT,
    PAUSED,
    SLEEP,
    THREAD_WAIT,
    FrameEffect,
    LevelProfile,
    LevelWaits,
    is_jdk,
)
from leadline.model.knob import Knob

_MOST_OF_IT = 0.5  # share of the total's change from which on a part is what to mend
_EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS) {statements}: an index, or fewer of them"
_COLLECT = "jvm.heap larger, or another jvm.collector"
# Of a part, or a layer of CPU: the layer of the finding, and what to do; {pool} and {threads} are knobs.
_REMEDIES: Mapping[str, tuple[str, str]] = {
    CONNECTION_WAIT: ("server", "raise {pool}, or have {code} keep its connection for less time"),
    THREAD_WAIT: ("server", "raise {threads}, or shorten what the threads wait for"),
    DATABASE_WAIT: ("database", _EXPLAIN),
    LOCK_WAIT: ("application", "do less with the lock that {code} waits for, or split it"),
    SLEEP: ("application", "see what {code} sleeps or is parked for"),
    OTHER_WAIT: ("application", "see the service that {code} calls: its time, a cache, calls at once"),
    PAUSED: ("jvm", _COLLECT),
    DELAYED: ("kernel", "more CPUs for the server (placement.server_cpus), or less load"),
    DRIVING: ("driver", "CPUs of its own for the driver (placement.driver_cpus), or several drivers"),
    APPLICATION: ("application", "see {code}: it uses this CPU, with what it calls"),
    DRIVER: ("server", "see {code}: fewer statements or rows, or larger fetches"),
    MEASURED[0]: ("database", _EXPLAIN),
    MEASURED[2]: ("jvm", _COLLECT),
    MEASURED[3]: ("jvm", "a longer warm-up; a larger -XX:ReservedCodeCacheSize where code is thrown away"),
}


def why(levels: Iterable[LevelWaits | LevelProfile], knobs: Mapping[str, Knob]) -> list[Finding]:
    """Of each level with a change that some part carries most of: what to do about it, on the side that is worse."""
    findings = []
    for level in levels:
        total = level.effects.total
        carriers = [path for path in level.effects.carriers if path.change * total.change > 0]
        main = max(carriers, key=lambda path: abs(path.change), default=None)
        if main is None or main.path[0] not in _REMEDIES or abs(main.change) < _MOST_OF_IT * abs(total.change):
            continue
        layer, remedy = _REMEDIES[main.path[0]]
        if main.path[0] == DRIVER and any("prepare" in name.lower() or "parse" in name.lower() for name in main.path):
            remedy = f"a statement cache: raise {STATEMENTS}; {{code}} prepares what was prepared before"
        part = main.path[0].strip("()")
        response, unit = (level.response, 1.0) if isinstance(level, LevelWaits) else ("cpu_per_transaction", level.ms)
        low, high = (main.interval.low, main.interval.high) if main.interval else (main.change, main.change)
        name = level.sentence.partition(":")[0].partition(", ")[0]
        findings.append(
            Finding(
                name=f"why.{level.factor}",
                rule="why",
                layer=layer,
                title=f"most of the change of {response.replace('_', ' ')} is {part}",
                subject=name,
                says="of " + level.sentence.removesuffix("."),
                example=0,
                evidence=(Evidence(part, "ms", main.change * unit, low * unit, high * unit),),
                treatments=(name if total.change > 0 else "baseline",),
                seen=level.effects.recordings[1],
                trials=level.effects.recordings[1],
                responses=(response,),
                remedy=remedy.format(
                    code=_code(main),
                    statements=_statements(main),
                    pool=_there(POOLS, knobs),
                    threads=_there(WORKERS, knobs),
                ),
            )
        )
    return findings


def _code(path: FrameEffect) -> str:
    """Of the application, else of the layer: the innermost frame."""
    names = [name for name in path.path[1:] if not is_jdk(name)] or list(path.path[1:])
    return ".".join(names[-1].replace("/", ".").split(".")[-2:]) if names else "the code"


def _statements(path: FrameEffect) -> str:
    if " " in path.name and len(path.path) > 1:
        return path.name
    return "the statements" + (f" of {_code(path)}" if len(path.path) > 1 else "")


def _there(names: tuple[str, ...], knobs: Mapping[str, Knob]) -> str:
    return next((name for name in names if name in knobs), names[0])
