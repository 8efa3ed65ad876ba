"""How often a long run is called degrading, and a history said to have changed, where it is not and where it is.

python -m bench.soak soak|history [RUNS]
python -m bench.soak labels DIR

Rows of noise: white; autoregressions of first order; a random walk of 0.2 % a point under white noise of 5 %, and one
of 1 % alone; 14 days of a rhythm. DIR is a checkout of the Turing Change Point Dataset (van den Burg and Williams
2020): its series and where five people each saw changes. F1 is theirs: five places of slack, the beginning counts as a
change.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from bench.soak.series import Floats, autoregression
from leadline.analysis import changepoints
from leadline.analysis.changepoints import changes
from leadline.analysis.soak import Series, judge

NOISES = ("white", "AR 0.3", "AR 0.6", "AR 0.8", "AR 0.95", "AR 0.99", "walk under noise", "walk", "rhythm")
LEAKS = (0.0, 0.1, 0.4)  # of the level over the run
SHIFTS = (0.0, 2.0, 4.0)  # standard deviations, at the middle
SLACK = 5  # places


def noise(rng: np.random.Generator, kind: str, count: int) -> Floats:
    """Shares of the level."""
    at = np.arange(count)
    if kind == "walk under noise":
        return np.asarray(np.cumsum(0.002 * rng.normal(size=count)) + 0.05 * rng.normal(size=count))
    if kind == "walk":
        return np.asarray(np.cumsum(0.01 * rng.normal(size=count)))
    if kind == "rhythm":
        return np.asarray(0.2 * np.sin(2 * np.pi * 14 * at / count) + 0.05 * autoregression(rng, 0.5, count))
    return 0.05 * autoregression(rng, float(kind.removeprefix("AR ")) if kind != "white" else 0.0, count)


def degrading(kind: str, count: int, leak: float, runs: int) -> float:
    """Share of soaks of one series of so many minutes."""
    rng, minutes = np.random.default_rng(41), np.arange(count)
    series = (100 * (1 + noise(rng, kind, count) + leak * minutes / count) for _ in range(runs))
    verdicts = [judge([Series("", "", (60.0 * minutes).tolist(), one.tolist())]).verdict for one in series]
    return verdicts.count("degrading") / runs


def changed(kind: str, count: int, shift: float, runs: int) -> float:
    """Share of histories of so many runs."""
    rng, later = np.random.default_rng(41), np.arange(count) >= count // 2
    series = (noise(rng, kind, count) / 0.05 + shift * later for _ in range(runs))
    return sum(bool(changes(one, permutations=199)) for one in series) / runs


def found(true: Iterable[int], said: set[int]) -> int:
    """How many true places are within SLACK of a place said, each place said once, the nearest."""
    rest = set(said)
    for place in sorted(true):
        near = [one for one in rest if abs(one - place) <= SLACK]
        if near:
            rest.remove(min(near, key=lambda one: abs(one - place)))
    return len(said) - len(rest)


def f1(labels: Sequence[set[int]], said: set[int]) -> float:
    """Harmonic mean of the precision against all people together and the mean recall of each."""
    precision = found(set().union(*labels), said) / len(said)
    recall = float(np.mean([found(one, said) / len(one) for one in labels]))
    return 2 * precision * recall / (precision + recall)


def labelled(directory: Path) -> None:
    """Prints F1 of each series, of saying nothing, and the means."""
    annotations = json.loads((directory / "annotations.json").read_text())
    changepoints.MOST = sys.maxsize
    rows = []
    for path in sorted(directory.glob("datasets/*/*.json")):
        content = json.loads(path.read_text())
        if content["n_dim"] > 1 or None in content["series"][0]["raw"]:
            continue
        labels = [{0, *places} for places in annotations[content["name"]].values()]
        said = {0, *(change.at for change in changes(content["series"][0]["raw"], permutations=199))}
        rows.append((content["name"], content["n_obs"], len(said) - 1, f1(labels, said), f1(labels, {0})))
        print("| {} | {} | {} | {:.3f} | {:.3f} |".format(*rows[-1]), flush=True)
    for name, within in (("all", sys.maxsize), ("of at most 200 figures", 200)):
        means = np.mean([row[3:] for row in rows if row[1] <= within], axis=0)
        print("| {} | | | {:.3f} | {:.3f} |".format(name, *means))


def main(arguments: Sequence[str]) -> None:
    if arguments[0] == "labels":
        labelled(Path(arguments[1]))
        return
    soak, runs = arguments[0] == "soak", int(arguments[1]) if len(arguments) > 1 else 200
    share, counts, sizes = (degrading, (240, 1440), LEAKS) if soak else (changed, (16, 30), SHIFTS)
    print(f"| noise | {' | '.join(f'{count}: {size:g}' for count in counts for size in sizes)} |")
    print(f"| --- |{' ---: |' * len(counts) * len(sizes)}")
    for kind in NOISES[: len(NOISES) if soak else -1]:
        cells = [f"{share(kind, count, size, runs):.3f}" for count in counts for size in sizes]
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
