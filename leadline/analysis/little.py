"""Little's law as a check that a load driver's figures hang together."""

from __future__ import annotations

import math
from dataclasses import dataclass

from leadline.model.units import rounded

TOLERANCE = 0.1


@dataclass(frozen=True)
class LittlesLaw:
    """``in_flight`` and ``users`` as throughput and times imply them, with their relative errors.

    None where nothing was there to compare with. ``holds`` is False when one of them is off by more than the
    tolerance, or when the figures cannot be used.
    """

    in_flight: float | None
    in_flight_error: float | None
    users: float | None
    users_error: float | None
    holds: bool
    sentence: str


def littles_law(
    concurrency: float | None,
    throughput: float,
    mean_response_s: float,
    think_s: float = 0.0,
    users: int | None = None,
    tolerance: float = TOLERANCE,
) -> LittlesLaw:
    """L = X R for the transactions in flight, and N = X (R + Z) for users of a closed load.

    ``concurrency`` is the measured mean number of transactions in flight, ``throughput`` in transactions a second,
    ``mean_response_s`` and ``think_s`` (mean pause before a transaction) in seconds, ``users`` those of a closed load;
    None for either leaves that half out. Source: Little, A Proof for the Queuing Formula L = lambda W (1961).
    """
    figures = [throughput, mean_response_s, think_s, *([concurrency] if concurrency is not None else [])]
    if not all(math.isfinite(figure) and figure >= 0 for figure in figures) or throughput == 0:
        return LittlesLaw(None, None, None, None, False, "Little's law cannot be checked: there was no throughput.")
    in_flight = throughput * mean_response_s
    implied = throughput * (mean_response_s + think_s)
    flight_error = (in_flight - concurrency) / concurrency if concurrency else None
    users_error = (implied - users) / users if users else None
    checks = []
    if flight_error is not None and concurrency:
        checks.append(
            (flight_error, f"{rounded(in_flight, 3)} transactions in flight", f"{rounded(concurrency, 3)} measured")
        )
    if users_error is not None:
        checks.append((users_error, f"{rounded(implied, 3)} users", f"{users} driven"))
    if not checks:
        return LittlesLaw(in_flight, None, implied, None, False, "Little's law has nothing to be checked against.")
    holds = all(abs(error) <= tolerance for error, _, _ in checks)
    parts = [f"throughput and times imply {mine} against {theirs} ({error:+.1%})" for error, mine, theirs in checks]
    verdict = "Little's law holds" if holds else "Little's law does not hold, so some figure of the driver is wrong"
    return LittlesLaw(in_flight, flight_error, implied, users_error, holds, f"{verdict}: {'; '.join(parts)}.")
