"""Whether a study can be answered: judged before any of its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ANSWERED, LIMITED, UNFINISHED, NO_ANSWER = "answered", "limited", "not finished", "no answer"
NO_ANSWER_CODE = 4  # exit code of a command that has no answer


@dataclass(frozen=True)
class Judgement:
    """What was asked of a study and what was measured, in units (``slot`` or ``trial``), as far as its trials ended.

    ``disturbed``: trials that other programs disturbed. ``lost``: cause -> units, the most frequent first.
    ``baseline``: units of the baseline measured, None where the plan has none of its own. ``withheld``: settings
    that have no figures as too little of them was measured. ``figures``: whether any comparison has a figure, or a
    verdict that needs none. ``sentence``: the first words of the answer, empty where nothing keeps the study from
    being answered. ``remedy``: the command that helps, may be empty.
    """

    unit: str = "trial"
    asked: int = 0
    measured: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    trials: int = 0  # planned, without those that a stopping rule made superfluous
    done: int = 0
    left: int = 0
    interrupted: int = 0
    baseline: int | None = None
    disturbed: int = 0
    cold: int = 0  # trials done that were still warming up or compiling when they ended
    underpowered: bool = False  # nothing is told apart, nor equivalent
    simulated: bool = False
    withheld: tuple[str, ...] = ()
    figures: bool = True
    sentence: str = ""
    remedy: str = ""
    limits: tuple[str, ...] = ()  # what limits the answer, a sentence each, the most important first

    @property
    def answered(self) -> bool:
        return self.figures and not self.left

    @property
    def standing(self) -> str:
        """``answered``, ``limited``, ``not finished`` or ``no answer``."""
        if not self.answered:
            begun = self.measured or not (self.interrupted or self.disturbed)
            return UNFINISHED if self.left and begun and 2 * self.measured >= self.asked else NO_ANSWER
        return LIMITED if self.limits else ANSWERED

    @property
    def exit_code(self) -> int:
        """Of a command that ran or shows the study."""
        return 0 if self.answered else NO_ANSWER_CODE
