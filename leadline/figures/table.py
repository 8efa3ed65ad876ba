"""A table of results: systems x settings x repeats, from a study of our own or from somebody else's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leadline.model.errors import UsageError
from leadline.model.result import ResponseKind

AT_DEFAULT = -1  # the level of a parameter that a run left alone, where the table does not name it


@dataclass(frozen=True)
class Parameter:
    """A factor with its levels as text. ``default``: index of the level the baseline has, None where unknown."""

    name: str
    levels: tuple[str, ...]
    default: int | None = None

    @property
    def changed(self) -> tuple[int, ...]:
        """Levels that are not the default."""
        return tuple(index for index in range(len(self.levels)) if index != self.default)


@dataclass(frozen=True)
class Setting:
    """One level of one parameter, by index into the table's parameters."""

    parameter: int
    level: int


@dataclass(frozen=True)
class Run:
    """One trial (or slot, or published mean) on one system.

    ``levels`` has one index for each parameter of the table, or ``AT_DEFAULT``. Either ``value`` is a finite number or
    ``failure`` names the class. ``blamed``: whether the failure may be the setting's doing.
    """

    system: int
    levels: tuple[int, ...]
    value: float | None
    failure: str = ""
    block: int = 0
    blamed: bool = True


@dataclass(frozen=True)
class ResultTable:
    """Runs of every setting on every system. Raises UsageError where there is nothing to make a figure of."""

    response: ResponseKind
    systems: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.runs:
            raise UsageError("the table has no finished run")
        if not any(parameter.changed for parameter in self.parameters):
            raise UsageError(
                "no parameter has a level besides its default, so there is no setting to compare; two levels are needed"
            )
        if all(run.value is None for run in self.runs):
            raise UsageError(f"all {len(self.runs)} runs failed, so there is no figure of {self.response.name}")

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Every level that is not its parameter's default, in the table's order."""
        return tuple(
            Setting(number, level) for number, parameter in enumerate(self.parameters) for level in parameter.changed
        )

    def name(self, setting: Setting) -> str:
        parameter = self.parameters[setting.parameter]
        return f"{parameter.name}={parameter.levels[setting.level]}"

    def is_baseline(self, run: Run) -> bool:
        return all(level in (AT_DEFAULT, p.default) for level, p in zip(run.levels, self.parameters, strict=True))

    def of(self, system: int, setting: Setting | None = None) -> list[Run]:
        """Runs of a system that have the setting."""
        return [
            run
            for run in self.runs
            if run.system == system and (setting is None or run.levels[setting.parameter] == setting.level)
        ]

    @property
    def sign(self) -> float:
        """1 where more is better, else -1."""
        return 1.0 if self.response.higher_is_better else -1.0


def ordered(words: Iterable[str]) -> tuple[str, ...]:
    """Distinct words in the order they came."""
    return tuple(dict.fromkeys(words))
