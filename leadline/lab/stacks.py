"""What a study says about its stack, checked before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from leadline.lab.studyfile import StudyFile
from leadline.model.errors import UsageError
from leadline.model.knob import Knob, Level
from leadline.model.plan import Factor
from leadline.stack.brokerage_knobs import ORDERS, queued
from leadline.stack.registry import StackError, stack_catalogue
from leadline.stack.servers import knobs, messaging

_BOUNDS = ((knobs.MIN_CONNECTIONS, knobs.MAX_CONNECTIONS), (knobs.MIN_THREADS, knobs.THREADS))
_OF_QUEUE = frozenset(knob.name for knob in messaging.KNOBS if knob is not messaging.LOG_PLACE)


def study_catalogue(file: StudyFile) -> list[Knob]:
    """The knobs of a study's stack. Raises UsageError with file and line."""
    with located(file.where):
        return stack_catalogue(file.study.stack)


@contextmanager
def located(
    where: Callable[[Sequence[str | int]], str], mode: Sequence[str | int] = ("stack", "mode")
) -> Iterator[None]:
    """The registry's refusals of a stack as UsageError with file and line; ``mode``: the key that names the mode."""
    try:
        yield
    except StackError as error:
        raise UsageError(f"{where(mode if error.key == 'mode' else ('stack', error.key))}: {error}") from None


def check_levels(
    file: StudyFile, factors: Sequence[Factor], settings: Mapping[str, Level], idle_settings: bool = False
) -> None:
    """Raises UsageError with file and line for levels that contradict each other in every trial, and for levels that
    change nothing; ``idle_settings`` lets those pass among the settings.
    """
    levels: dict[str, Sequence[Level]] = {factor.name: factor.levels for factor in factors}
    levels |= {name: (level,) for name, level in settings.items()}

    def where(name: str) -> str:
        return file.where(("factors" if name in file.study.factors else "settings", name))

    if not any(queued({ORDERS.name: level}) for level in levels.get(ORDERS.name, ())):
        for name in levels:
            if name in _OF_QUEUE and not (idle_settings and name in settings):
                raise UsageError(f"{where(name)}: {name} changes nothing without a queue; set {ORDERS.name}: queue")
    for low, high in _BOUNDS:
        least, most = (
            [level for level in levels.get(knob.name, ()) if isinstance(level, (int, float))] for knob in (low, high)
        )
        # below zero: no bound
        if least and most and min(most) >= 0 and min(least) > max(most):
            raise UsageError(
                f"{where(low.name)}: {low.name} {low.format(min(least))} is above {high.name}"
                f" {high.format(max(most))}; lower it or raise {high.name}"
            )
