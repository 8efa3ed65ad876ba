"""Flame graphs: which methods the server's JVM was seen in, by treatment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leadline.observe.profile import METRIC
from leadline.report.files import TrialFiles

SMALLEST = 0.001  # share of the samples of a frame that is drawn
DRAWN = 0.005  # the same without scripts
MOST_METHODS = 15  # in the table
COLOURS = 6  # libraries that have one; the others share a grey
ALL = "all samples"
_JDK = ("java", "javax", "jdk", "sun")
_ROW = 18  # px


@dataclass
class _Node:
    samples: int = 0
    below: dict[str, _Node] = field(default_factory=dict)


@dataclass(frozen=True)
class Frame:
    """A method in its callers' frame. ``left``, ``width``: shares of all samples."""

    depth: int
    left: float
    width: float
    name: str

    @property
    def short(self) -> str:
        """``Class.method``."""
        return ".".join(self.name.split(".")[-2:])


@dataclass(frozen=True)
class Flame:
    """The samples of a treatment's trials in their steady states, merged. ``frames``: callers before the called."""

    treatment: str
    trials: int
    samples: int
    frames: tuple[Frame, ...]
    methods: Mapping[str, tuple[float, float, float]]  # at the top of the stack: mean share of trials, least, most

    @property
    def large(self) -> list[Frame]:
        """Those that are drawn without scripts."""
        return [frame for frame in self.frames if frame.width >= DRAWN]

    @property
    def height(self) -> int:
        """In px, of the frames drawn without scripts."""
        return _ROW * (1 + max(frame.depth for frame in self.large))


@dataclass(frozen=True)
class Profile:
    """Flame graphs of treatments, with what they share."""

    flames: tuple[Flame, ...]
    libraries: tuple[tuple[str, float], ...]  # those with a colour of their own, and their share of all samples
    methods: tuple[str, ...]  # of the table, the most seen first

    def colour(self, name: str) -> int:
        """A number of the page's colours, from 0; ``COLOURS`` is that of all other libraries."""
        names = [library for library, _ in self.libraries]
        return names.index(library_) if (library_ := library(name)) in names else COLOURS

    def data(self) -> dict[str, Any]:
        """For the page's script: names once, frames as depth, left, width, number of the name."""
        names = list(dict.fromkeys(frame.name for flame in self.flames for frame in flame.frames))
        number = {name: at for at, name in enumerate(names)}
        return {
            "names": names,
            "colours": [self.colour(name) for name in names],
            "of": {
                flame.treatment: {
                    "samples": flame.samples,
                    "frames": [
                        [frame.depth, round(frame.left, 5), round(frame.width, 5), number[frame.name]]
                        for frame in flame.frames
                    ],
                }
                for flame in self.flames
            },
        }


def profile(groups: Mapping[str, Sequence[TrialFiles]]) -> Profile | None:
    """Flame graphs of the treatments that have samples; None where none has. ``groups``: their trials, in order."""
    flames = [found for name, trials in groups.items() if (found := _flame(name, trials))]
    if not flames:
        return None
    best: dict[str, float] = {}
    libraries: dict[str, float] = {}
    for flame in flames:
        for method, (mean, _, _) in flame.methods.items():
            best[method] = max(best.get(method, 0.0), mean)
            libraries[library(method)] = libraries.get(library(method), 0.0) + mean / len(flames)
    shares = sorted(libraries.items(), key=lambda one: (-one[1], one[0]))
    methods = sorted(best, key=lambda name: (-best[name], name))
    return Profile(tuple(flames), tuple(shares[:COLOURS]), tuple(methods[:MOST_METHODS]))


def library(method: str) -> str:
    """The first two parts of the package, ``JDK`` for those of the JDK; of a method without a package, its class."""
    parts = method.split(".")
    if parts[0] in _JDK or parts[:2] == ["com", "sun"]:
        return "JDK"
    return ".".join(parts[:-2][:2]) or parts[0]


def _flame(treatment: str, trials: Iterable[TrialFiles]) -> Flame | None:
    counted = [stacks for trial in trials if (stacks := _stacks(trial))]
    if not counted:
        return None
    root = _Node()
    for stacks in counted:
        for stack, samples in stacks.items():
            root.samples += samples
            at = root
            for name in stack.split(";"):
                at = at.below.setdefault(name, _Node())
                at.samples += samples
    tops = [_tops(stacks) for stacks in counted]
    shares = {name: [top.get(name, 0.0) for top in tops] for name in {name for top in tops for name in top}}
    methods = {name: (sum(of) / len(of), min(of), max(of)) for name, of in shares.items()}
    return Flame(treatment, len(counted), root.samples, tuple(_frames(root)), methods)


def _stacks(trial: TrialFiles) -> Counter[str]:
    """Samples of the steady state by stack."""
    rows = trial.steady("profile", METRIC)
    stacks = Counter[str]()
    if rows is not None:
        for stack, samples in rows.select("subject", "value").iter_rows():
            stacks[stack] += int(samples)
    return stacks


def _tops(stacks: Mapping[str, int]) -> Mapping[str, float]:
    """Shares of the samples by the method that ran."""
    total, shares = sum(stacks.values()), Counter[str]()
    for stack, samples in stacks.items():
        shares[stack.rpartition(";")[2]] += samples
    return {name: samples / total for name, samples in shares.items()}


def _frames(root: _Node) -> Iterable[Frame]:
    """Callers before the called, siblings by name; those of fewer samples than ``SMALLEST`` are left out."""
    waiting: list[tuple[int, int, str, _Node]] = [(0, 0, ALL, root)]
    while waiting:
        depth, left_edge, name, node = waiting.pop()
        yield Frame(depth, left_edge / root.samples, node.samples / root.samples, name)
        at, below = left_edge, []
        for called in sorted(node.below):
            if node.below[called].samples >= SMALLEST * root.samples:
                below.append((depth + 1, at, called, node.below[called]))
            at += node.below[called].samples
        waiting += reversed(below)
