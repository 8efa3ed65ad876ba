"""Machine time of study A's protocol of 2006 against forks in virtual time, for the same error rates, as a table.

    python -m bench.protocol [--start 111] [--fork 37.7] [--finds 1.4 --worlds 10 --settings 11]

Published: 33 settings x 3 runs and 10 at the defaults, on each of 12 kernels; 21 minutes of load a run. Both protocols:
5 % of kernels with any false finding among 33 settings, 80 % power. The noise of the published runs is the least at
which luck alone gives their best gains (docs/concepts/study-a.md); that of forks follows from what a measured study of
so many worlds and settings finds in four of five (docs/evidence/study-a.md). ``--start``: CPU seconds of a boot, start
and warm-up; ``--fork``: of a fork.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from leadline.analysis.linear import detectable
from leadline.analysis.maxt import max_t
from leadline.planning.power import log_effect, percent

SETTINGS, KERNELS, REPEATS, DEFAULTS, MINUTES, NOISE = 33, 12, 3, 10, 21.0, 0.0432
LEVEL = 0.95


def published() -> float:
    """Smallest effect that the published runs of a kernel find, percent."""
    covariance = np.full((SETTINGS, SETTINGS), 1 / DEFAULTS) + np.eye(SETTINGS) / REPEATS
    df = SETTINGS * (REPEATS - 1) + DEFAULTS - 1.0
    critical = max_t(np.linalg.cholesky(covariance)).quantile(LEVEL, df)
    return percent(detectable(critical, NOISE * math.sqrt(1 / REPEATS + 1 / DEFAULTS), df))


def forked(worlds: int, settings: int = SETTINGS) -> float:
    """The same of forks, a paired test of each setting over so many worlds: in standard deviations between worlds."""
    critical = max_t(np.eye(settings)).quantile(LEVEL, worlds - 1.0)
    return detectable(critical, 1 / math.sqrt(worlds), worlds - 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.protocol", description=__doc__)
    for name, default in (("start", 111.0), ("fork", 37.7), ("finds", 1.4)):
        parser.add_argument(f"--{name}", type=float, default=default)
    for name, number in (("worlds", 10), ("settings", 11)):
        parser.add_argument(f"--{name}", type=int, default=number)
    options = parser.parse_args()
    noise = log_effect(options.finds) / forked(options.worlds, options.settings)
    least = published()
    worlds = next(number for number in range(2, 100) if percent(noise * forked(number)) <= least)
    runs, forks = SETTINGS * REPEATS + DEFAULTS, worlds * (SETTINGS + 1)
    before, now = runs * MINUTES / 60, (worlds * options.start + forks * options.fork) / 3600
    print(f"An effect differs between worlds by {100 * noise:.2f} %.\n")
    print("| protocol | runs a kernel | finds in 4 of 5 | hours a kernel | 12 kernels |")
    print("| --- | ---: | ---: | ---: | ---: |")
    print(f"| published | {runs} | {least:.1f} % | {before:.1f} | {KERNELS * before:.0f} |")
    print(f"| {worlds} worlds | {forks} | {percent(noise * forked(worlds)):.1f} % | {now:.2f} | {KERNELS * now:.1f} |")
    print(f"\n1/{before / now:.0f} of the machine time")


if __name__ == "__main__":
    main()
