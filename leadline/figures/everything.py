"""All of study A's figures of one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.figures.extremes import NO_BASELINE, ExtremesTable, extremes
from leadline.figures.failing import Failures, Throughput, failures, throughput
from leadline.figures.grouping import Grouping, permute_groups
from leadline.figures.ranking import Ranking, ranking
from leadline.figures.sensitivity import Sensitivities, sensitivities
from leadline.figures.table import ResultTable, fit_systems


@dataclass(frozen=True)
class StudyFigures:
    """The figures; one that cannot be made is None, with its reason in ``missing``."""

    response: str
    unit: str
    higher_is_better: bool
    systems: tuple[str, ...]
    settings: tuple[str, ...]
    runs: int
    throughput: Throughput | None
    extremes: ExtremesTable | None
    failures: Failures | None
    sensitivity: Sensitivities | None
    ranking: Ranking | None
    grouping: Grouping | None
    missing: Mapping[str, str]
    notes: tuple[str, ...]

    def sentences(self) -> list[str]:
        """What each figure says, in the order of the paper."""
        parts = (self.throughput, self.extremes, self.failures, self.sensitivity, self.ranking, self.grouping)
        return [part.sentence for part in parts if part is not None]


def figures_of(
    table: ResultTable,
    groups: Mapping[str, Sequence[str]] | None = None,
    cv: float | None = None,
    level: float = 0.95,
) -> StudyFigures:
    """Every figure of the table.

    ``groups``: a prior grouping of the parameters to test. ``cv``: noise of one row in percent, for tables without
    repeats. Raises UsageError for a grouping that does not fit the table, ValueError for a level outside (0.5, 1).
    """
    if not 0.5 < level < 1:
        raise ValueError(f"confidence level {level} is not between 0.5 and 1")
    fits = fit_systems(table, cv)
    missing: dict[str, str] = {}
    gains = extremes(table, fits, level)
    if gains is None:
        missing["extremes"] = NO_BASELINE
    ranked = ranking(table, fits, level)
    if ranked is None:
        missing["ranking"] = "fewer than two settings have a figure on every system, so there is nothing to rank"
    sensitivity = sensitivities(table, fits, level)
    if not groups:
        missing["grouping"] = "no grouping of the parameters was given (--groups red=a,b --groups blue=c,d)"
    return StudyFigures(
        response=table.response.name,
        unit=table.response.unit,
        higher_is_better=table.response.higher_is_better,
        systems=table.systems,
        settings=tuple(table.name(setting) for setting in table.settings),
        runs=len(table.runs),
        throughput=throughput(table, fits, level),
        extremes=gains,
        failures=failures(table, fits, level),
        sensitivity=sensitivity,
        ranking=ranked,
        grouping=permute_groups(sensitivity, groups) if groups else None,
        missing=missing,
        notes=(*table.notes, *_notes(table, fits)),
    )


def figures_of_gains(table: ExtremesTable) -> StudyFigures:
    """What can be said when only best gains and worst losses are known, as of a published table."""
    reason = "the table has best gains and worst losses only, no results of single settings"
    names = ("throughput", "failures", "sensitivity", "ranking", "grouping")
    return StudyFigures(
        response="gain",
        unit="%",
        higher_is_better=True,
        systems=tuple(row.system for row in table.rows),
        settings=(),
        runs=0,
        throughput=None,
        extremes=table,
        failures=None,
        sensitivity=None,
        ranking=None,
        grouping=None,
        missing=dict.fromkeys(names, reason),
        notes=(),
    )


def _notes(table: ResultTable, fits: Sequence[object]) -> list[str]:
    notes = []
    if len(table.systems) == 1:
        notes.append(f"There is one system ({table.systems[0]}): sums and ranks over systems are its own.")
    lost = [name for number, name in enumerate(table.systems) if not any(r.value is not None for r in table.of(number))]
    if lost and fits:
        notes.append(f"No run has a figure on {', '.join(lost)}: left out of all figures but the failures.")
    crossed = sum(not table.is_baseline(run) and _changed(table, run.levels) > 1 for run in table.runs)
    if crossed:
        notes.append(
            f"{crossed} runs change several parameters: a setting's mean is its main effect added to the baseline, "
            "interactions are left out."
        )
    return notes


def _changed(table: ResultTable, levels: Sequence[int]) -> int:
    return sum(
        level >= 0 and level != parameter.default for level, parameter in zip(levels, table.parameters, strict=True)
    )
