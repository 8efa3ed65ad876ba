"""Soaks of 14 days with and without a leak, of a simulated stack: how often the verdict is right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leadline.conclude.soak import SoakAnswer, conclude_soak
from leadline.lab.soak.record import SoakRecord
from leadline.model.soak import DAY, HOUR, SoakTimes
from leadline.simulate.soak import Kind, Leak, SimulatedSoak

RATES: dict[Kind, float] = {"heap": 8, "native": 4, "handles": 4, "threads": 1, "connections": 0.8, "disk": 9000}
NAMES: dict[Kind, tuple[str, ...]] = {
    "heap": ("heap",),
    "native": ("memory of the server",),
    "handles": ("open files",),
    "threads": ("threads",),
    "connections": ("connections", "sockets"),
    "disk": ("disk",),
}
_BEGIN = 1_700_000_000.0


@dataclass
class Tally:
    """Of soaks with one kind of leak: found at all, the kind as the suspect, start and rate within their intervals."""

    soaks: int = 0
    found: int = 0
    kind: int = 0
    start: int = 0
    rate: int = 0


def answer(seed: int, *leaks: Leak) -> SoakAnswer:
    """The verdict on hourly intervals."""
    times = SoakTimes(14 * DAY, HOUR, DAY)
    record = SoakRecord(Path("unused"), times)
    record.add(SimulatedSoak(seed, leaks).intervals(_BEGIN, times.seconds, times.interval))
    return conclude_soak(record.intervals, record.intervals, times, {})


def false_alarms(soaks: int) -> int:
    return sum(answer(seed).judged.verdict != "stable" for seed in range(soaks))


def planted(kind: Kind, soaks: int) -> Tally:
    """Half of the leaks are there from the start, half begin after 2 to 8 days."""
    tally = Tally(soaks)
    for seed in range(soaks):
        after = 0.0 if seed % 2 == 0 else DAY * (2 + seed % 7)
        suspect = answer(10_000 + seed, Leak(kind, RATES[kind], after)).judged.suspect
        if suspect is None or suspect.earliest is None or suspect.latest is None:
            continue
        right = suspect.series.name.startswith(NAMES[kind])
        tally.found += 1
        tally.kind += right
        tally.start += right and suspect.earliest - HOUR <= after <= suspect.latest + HOUR
        tally.rate += right and suspect.low <= RATES[kind] <= suspect.high
    return tally


def main(soaks: int) -> None:
    """As many without a leak, and as many with one, over all kinds."""
    print(f"no leak: {false_alarms(soaks)} of {soaks} called degrading", flush=True)
    for kind in RATES:
        one = planted(kind, -(-soaks // len(RATES)))
        print(
            f"{kind}: {one.found} of {one.soaks} found, {one.kind} with this suspect, the start in its interval in "
            f"{one.start}, the rate in {one.rate}",
            flush=True,
        )
