"""Sessions at several rates: what a request costs depends on how long the CPUs may halt between two."""

from __future__ import annotations

from common import Lengths, Target, Unfit, Verdicts, ratio, spread, turns
from generators import Generator, Load, present
from sessions import LEAST, least
from watch import Running, connects, keeps

RATES = (1000.0, 2000.0, 4000.0)
NAMES = ("leadline-load", "k6")


def compare(lengths: Lengths, _: Verdicts) -> None:
    """leadline-load and k6 over shared connections, and the least possible; steady CPU of a request."""
    found, absent = present()
    for line in absent:
        print(f"{line}\n")
    by_name = {generator.name: generator for generator in found if generator.name in NAMES}
    if len(by_name) < len(NAMES):
        raise Unfit("; ".join(absent))
    begin, end = lengths.rates_window
    print(
        f"The sessions of above over shared connections, {lengths.rounds} rounds of {lengths.rates:g} s a rate, of "
        f"which {end - begin:g} s count; CPU s per 100,000 requests, median (least, most).\n"
    )
    print(f"| requests/s | leadline-load | k6 | ours : k6 | {LEAST} | {LEAST} : k6 |")
    print("| --- | --- | --- | --- | --- | --- |")
    for rate in RATES:
        costs: dict[str, list[float]] = {name: [] for name in (*NAMES, LEAST)}
        with Target(example="session_server"):
            for _turn, name in turns(list(costs), lengths.rounds):
                costs[name].append(
                    least(lengths.least, rate) if name == LEAST else _steady(by_name[name], rate, lengths)
                )
        ours, k6, floor = (costs[name] for name in (*NAMES, LEAST))
        cells = [spread(ours), spread(k6), ratio(ours, k6).text(), spread(floor), ratio(floor, k6).text()]
        print(f"| {rate:,.0f} | {' | '.join(cells)} |", flush=True)


def _steady(generator: Generator, rate: float, lengths: Lengths) -> float:
    with Running(generator, Load(lengths.rates, rate=rate, shared=True)) as running:
        window = running.window(running.begins(), *lengths.rates_window)
        running.end()
    connects(running.connections, shared=True)
    keeps(window, rate)
    return window.per_100k
