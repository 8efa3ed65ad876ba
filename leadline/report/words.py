"""How levels, treatments and figures are written, the same on the page, in the terminal and in files."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePath

from leadline.layouts import layout_of
from leadline.model.errors import printable
from leadline.model.knob import Level
from leadline.model.naming import describing, treatment_name
from leadline.model.naming import level_text as level_text
from leadline.model.plan import Plan, PlannedTrial, Treatment
from leadline.model.result import (
    RESPONSES,
    AtLeast,
    Effect,
    Interval,
    ResponseAnalysis,
    ResponseKind,
    StudyAnalysis,
    Verdict,
)
from leadline.model.shapes import PRESETS, profile_points
from leadline.model.study import Study
from leadline.model.units import MINUS, format_duration, format_number
from leadline.model.workload import RATE, USERS, Workload, is_load

NOT_RECORDED = "not recorded"
_MARKS = re.compile(r"([\\`*_{}\[\]#|~])")  # of Markdown
_SHORT = 240  # characters of an answer that needs no lead


def kind_of(response: str) -> ResponseKind:
    """The response's kind; an unknown one has no unit and counts as a cost."""
    return RESPONSES.get(response) or ResponseKind(response, "", False, response)


def setting(study: Study, factor: str, level: Level) -> str:
    return f"{factor} = {level_text(study, factor, level)}"


def treatment_text(study: Study, plan: Plan, treatment: Treatment) -> str:
    """``baseline``, or the levels that differ from it."""
    return treatment_name(plan, treatment, describing(study), equals=" = ")


def trial_text(study: Study, plan: Plan, planned: PlannedTrial) -> str:
    """The treatment of a trial; of one with slots its layout and what it holds throughout."""
    if not planned.slots:
        return treatment_text(study, plan, planned.treatment)
    levels = treatment_text(study, plan, planned.held())
    return planned.layout if levels == "baseline" else f"{planned.layout}, {levels}"


def number(value: float | None, digits: int = 3) -> str:
    """Three significant digits, thousands separated; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return format_number(value, digits).replace("-", MINUS)


def lower_bounds(responses: Mapping[str, float]) -> list[str]:
    """Names of the responses of which only a lower bound is known."""
    return [name for name, value in responses.items() if isinstance(value, AtLeast)]


def probability(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def time_note(study: Study) -> str:
    """What the seconds of its figures are, where they are not those of a clock on the wall."""
    if study.time != "virtual":
        return ""
    return (
        "Virtual time: an instruction model, in which every instruction takes as long as any other. It has no caches, "
        "no real disk and one CPU at a time. Never compare its figures with those of wall-clock time."
    )


def layout_text(study: Study) -> str:
    """``one-at-a-time, 5 replicates``."""
    design = study.design
    layout = layout_of(design)
    forks = "forks, " if layout.exact else ""
    return f"{forks}{design.treatments}, {plural(design.replicates, layout.words.repeats)}"


def decimals(study: Study) -> int:
    """Of changes in percent: forks tell apart what trials in real time do not."""
    return 3 if study.time == "virtual" else 1


def signed(value: float | None, digits: int = 1) -> str:
    """A change in percent, without the sign of percent; ``digits`` after the point."""
    if value is None or not math.isfinite(value):
        return "–"
    magnitude = abs(value)
    decimals = 0 if magnitude >= 100 else digits
    text = f"{value:+,.{decimals}f}"
    return ("0.0" if round(magnitude, decimals) == 0 else text).replace("-", MINUS)


def change_interval(interval: Interval | None, digits: int = 1) -> str:
    return "–" if interval is None else f"[{signed(interval.low, digits)}, {signed(interval.high, digits)}]"


def value_interval(interval: Interval | None) -> str:
    return "" if interval is None else f"[{number(interval.low)}, {number(interval.high)}]"


def spread(low: float, high: float, digits: int = 3) -> str:
    return f"{number(low, digits)} to {number(high, digits)}"


def verdict(effect: Effect) -> str:
    """In a word. A load is no setting: what it moves is higher or lower, not better or worse."""
    if is_load(effect.factor) and effect.verdict in (Verdict.BETTER, Verdict.WORSE):
        return "higher" if (effect.percent or 0.0) > 0 else "lower"
    return effect.verdict.value


def trials_text(effect: Effect) -> str:
    """Trials that count, and the failed ones beside them."""
    return f"{effect.trials} ({effect.failures} failed)" if effect.failures else str(effect.trials)


def several(names: Sequence[str]) -> str:
    """``a, b``; with semicolons where a name is itself a list."""
    return ("; " if any(", " in name for name in names) else ", ").join(names)


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def baseline_trials(one: ResponseAnalysis) -> str:
    """What a baseline's interval rests on; of two blocks it is startlingly wide, so that is said."""
    trials = plural(one.baseline_trials, one.counted)
    return f"{trials}; two blocks: wide by 1 degree of freedom" if one.baseline_blocks == 2 else trials


def share(value: float | None) -> str:
    """A share as percent."""
    return "–" if value is None or not math.isfinite(value) else f"{100 * value:.1f} %"


def moment(seconds: float | None) -> str:
    """Unix seconds as UTC."""
    if not seconds:
        return "–"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def lead(analysis: StudyAnalysis) -> tuple[str, str]:
    """The head of an answer, up to the sentence that answers the question, and its rest. A short answer is all head."""
    if len(analysis.answer) <= _SHORT or not analysis.headline:
        return analysis.answer, ""
    return analysis.headline, analysis.answer.removeprefix(analysis.headline).strip()


def load_text(load: Workload, varied: Collection[str] = ()) -> str:
    """``40 users``, ``poisson arrivals at 20 sessions/s``, ``users from 10 to 100 over 1m``, a recording, a tool.
    ``varied``: factors of the study, among which its users or its rate may be.
    """
    if USERS in varied:
        return f"users by factor {USERS}"
    if RATE in varied:
        return f"{load.arrivals} arrivals by factor {RATE}"
    if load.generator is not None:
        script = f", {PurePath(load.generator.script).name}" if load.generator.script else ""
        return f"load by {load.generator.name}{script}"
    preset = f" in the shape of {PRESETS[load.preset].tool}" if load.preset else ""
    bursts = f" in bursts of {load.bursts.removeprefix('random:')}" if load.bursts else ""
    if load.bursts and load.bursts.startswith("random:"):
        bursts += " (random)"
    if load.arrivals == "replay":
        faster = "" if load.speed == 1.0 else f" at {load.speed:g} times its speed"
        return f"arrivals as recorded in {PurePath(load.replay or '?').name}{faster}{preset}"
    if load.profile is not None:
        return f"{_profile(load)}{bursts}{preset}"
    if load.arrivals == "closed":
        count = (
            f"the users of {load.scenario}"
            if load.users is None
            else f"{load.users} user{'s' if load.users != 1 else ''}"
        )
        if load.clients is not None and load.threads is not None:
            count += f" ({load.clients} clients x {load.threads} threads)"
        return f"{count}{preset}"
    rate = "no rate" if load.rate is None else f"{load.rate:g} sessions/s"
    return f"{load.arrivals} arrivals at {rate}{bursts}{preset}"


def _profile(load: Workload) -> str:
    points = profile_points(load.profile or "")
    values = [value for _, value in points]
    what = "users" if load.arrivals == "closed" else f"{load.arrivals} arrivals of sessions/s"
    over = format_duration(points[-1][0])
    if len(points) == 1:
        return f"{values[0]:g} {what}"
    if len(points) == 2:
        return f"{what} from {values[0]:g} to {values[1]:g} over {over}"
    return f"{what} by a profile of {len(points)} points over {over}, {min(values):g} to {max(values):g}"


def aligned(rows: Iterable[Sequence[str]], left: Collection[int] = (0,), indent: str = "") -> list[str]:
    """Lines of a table. ``left``: numbers of the columns that are set to the left, from the end where negative."""
    cells = [tuple(row) for row in rows]
    columns = [(max(map(len, column)), at) for at, column in enumerate(zip(*cells, strict=True))]
    to_left = {at % len(columns) for at in left}
    lines = (
        "  ".join(row[at].ljust(width) if at in to_left else row[at].rjust(width) for width, at in columns)
        for row in cells
    )
    return [f"{indent}{line.rstrip()}" for line in lines]


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    lines = [head, ["--:" if side == "r" else "---" for side in align]]
    cells = [[escaped(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [*lines, *cells])


def escaped(text: str) -> str:
    """Text that is no markup, no HTML and no mention, in one line."""
    line = " ".join(printable(text.replace("\n", " ")).split())
    line = _MARKS.sub(r"\\\1", line)  # first: an entity's number sign is no heading
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
