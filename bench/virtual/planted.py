"""Changes of half a percent that are known, looked for in virtual time and, in as many trials, in real time.

A trial's figure is the median of its requests' times. Effects are means over worlds, or over pairs of trials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean

from bench.kernels.guests import tell
from bench.virtual.service import Bench, Load, Treatment
from bench.virtual.text import Change, change, table

SHARE = 0.005  # of a handler's loop
SHORT, PLANTED, LONG = 2, 400, 4000  # instructions of a system-call filter
LOOPS = {"loop": 1.0 + SHARE, "twice": 2.0}


def treatments(load: Load, filters: bool) -> dict[str, Treatment]:
    """By name; `twice` and `long` say by interpolation which size the planted ones have."""
    found = {"none": Treatment()}
    found |= {name: Treatment(extra=round(load.rounds * (factor - 1))) for name, factor in LOOPS.items()}
    if filters:
        sizes = {"short": SHORT, "filter": PLANTED, "long": LONG}
        found |= {name: Treatment(instructions=size) for name, size in sizes.items()}
    return found


Nanos = Mapping[str, Sequence[float]]  # by treatment, a value a world or trial


def _expected(nanos: Nanos, low: str, high: str, share: float) -> float:
    """Percent: a ``share`` of the change from ``low`` to ``high``, which is linear in the amount of work."""
    ratios = [after / before - 1 for before, after in zip(nanos[low], nanos[high], strict=True)]
    return 100 * math.expm1(mean(math.log1p(share * ratio) for ratio in ratios))


def rows(virtual: Nanos, real: Mapping[str, Nanos]) -> list[list[str]]:
    """A row for each planted change: its size, what virtual time and each kind of real time say."""
    found = []
    planted = [("an extra loop in the handler", "none", "loop", "twice", SHARE)]
    if "filter" in virtual:
        part = (PLANTED - SHORT) / (LONG - SHORT)
        planted.append(("a longer system-call filter", "short", "filter", "long", part))
    for words, low, treated, high, share in planted:
        size = _expected(virtual, low, high, share)
        cells = [_cell(change(nanos[low], nanos[treated]), size) for nanos in (virtual, *real.values())]
        found.append([words, f"{size:+.3f} %", *cells])
    return found


def _cell(its: Change, size: float) -> str:
    if not its.found:
        return f"{its}: not found"
    if (its.percent > 0) != (size > 0):
        return f"{its}: wrong sign"
    assert its.low is not None
    assert its.high is not None
    return f"{its}: found{'' if its.low <= size <= its.high else ', another size'}"


def run(bench: Bench, worlds: int, longer: int) -> str:
    """The table. ``longer``: how many times the requests of a second kind of trial in real time."""
    load = Load()
    kinds = treatments(load, bench.filter is not None)
    if bench.filter is None:
        tell("no C compiler (cc) is here: the system-call filter is left out")
    virtual: dict[str, list[float]] = {name: [] for name in kinds}
    for seed in range(1, worlds + 1):
        saved = bench.warmed(load, seed)
        for name, treatment in kinds.items():
            measured = bench.fork(saved, load, treatment)
            virtual[name].append(measured.typical)
            tell(f"seed {seed}, {name}: median {measured.typical / 1e6:.4f} ms, {measured.wall_seconds:.1f} s")
        saved.remove(bench.host)
    real: dict[str, Nanos] = {}
    names = [name for name in kinds if name not in ("twice", "long")]
    for words, factor in (("real time, same requests", 1), (f"real time, {longer} times the requests", longer)):
        more = Load(requests=load.requests * factor)
        its: dict[str, list[float]] = {name: [] for name in names}
        for trial in range(worlds):
            for name in names if trial % 2 == 0 else reversed(names):
                its[name].append(bench.native(more, kinds[name]).typical)
        real[words] = its
    head = ["planted", "its size", f"virtual time, {worlds} worlds", *(f"{name}, {worlds} pairs" for name in real)]
    return table(head, rows(virtual, real))
