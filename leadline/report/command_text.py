"""Programs compared, in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median, quantiles

from leadline.conclude.wording import listed, signed
from leadline.model.result import PROCESS_RESPONSES, Effect, Interval, Robust, Verdict
from leadline.report.words import aligned, number
from leadline.trial.command import CommandComparison

_UNKNOWN = "in an unknown order"
_ORDERS = {
    "random": "random blocks",
    "abba": "ABBA blocks",
    "latin": "Latin squares",
    "williams": "Williams squares",
    "unknown": _UNKNOWN,
}
_CACHES = {
    "as-is": ", page cache as it was",
    "warm": ", page cache warm",
    "cold": ", page cache dropped before each run",
    "unknown": "",
}
_SMALL = 5  # percent of drift that nobody needs to know
_SHOWN = 5  # failures that are told one by one


def lines(found: CommandComparison) -> list[str]:
    """How they were timed, a table of the times, what else differs, the order, failures, notes."""
    return [
        *_head(found),
        *_table(found),
        *_others(found),
        *_order(found),
        *_outliers(found),
        *_failures(found),
        *found.notes,
    ]


def _head(found: CommandComparison) -> Iterator[str]:
    counts = sorted({sum(run.command == at for run in found.runs) for at in range(len(found.commands))})
    times = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    alone = len(found.commands) == 1 and not found.unordered
    order = "one after the other" if alone else _ORDERS[found.how.order]
    cache = _CACHES[found.how.cache]
    yield f"{times} {'run' if times == '1' else 'runs'} of each command, {order}{cache}" + (
        ", interrupted" if found.interrupted else ""
    )


def _table(found: CommandComparison) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [
        ("command", "median", "middle half", "user", "system", "change", "95 % interval", "verdict")
    ]
    effects = _effects(found, "wall")
    for at, command in enumerate(found.commands):
        times = found.of(at, "wall")
        cpu = [_seconds(median(of)) if (of := found.of(at, name)) else "–" for name in ("user", "system")]
        middle = "–"
        if len(times) > 3:
            low, _, high = quantiles(times, n=4)
            middle = f"{_seconds(low)} to {_seconds(high)}"
        effect = effects.get(at)
        change, interval, verdict = ("baseline", "", "") if at == 0 else ("–", "–", "")
        if effect is not None and effect.percent is not None:
            change, interval = f"{signed(effect.percent)} %", _interval(effect.simultaneous)
        if effect is not None:
            verdict = _verdict(effect)
        rows.append((command.text, _seconds(median(times)) if times else "–", middle, *cpu, change, interval, verdict))
    yield from aligned(rows, (0, -1))


def _others(found: CommandComparison) -> Iterator[str]:
    """What besides the time differs."""
    for at, command in enumerate(found.commands):
        parts = []
        for response in PROCESS_RESPONSES:
            effect = _effects(found, response).get(at)
            if response == "wall" or effect is None or effect.percent is None:
                continue
            if effect.verdict in (Verdict.BETTER, Verdict.WORSE):
                parts.append(f"{_name(response)} {signed(effect.percent)} % {_interval(effect.simultaneous)}")
        if parts:
            yield f"Also of {command.text}: {listed(parts)}"


def _order(found: CommandComparison) -> Iterator[str]:
    for effect in found.order:
        size = f"{signed(effect.percent)} % time {_interval(effect.interval)}"
        mixed = "; random blocks keep it out of the comparison" if len(found.commands) > 1 else ""
        if effect.name != "last":
            what = "one place later in its block" if effect.name == "later" else "after another command, not the same,"
            yield f"Order: a run {what} takes {size}" + (mixed if effect.found else ": none seen")
        elif effect.found and abs(effect.percent) > _SMALL:
            yield f"Drift: the last run takes {size} against the first{mixed}"


def _outliers(found: CommandComparison) -> Iterator[str]:
    for at, command in enumerate(found.commands):
        far = [run for run in found.outliers if run.command == at]
        if far:
            of = [run for run in found.runs if run.command == at]
            places = listed([f"run {of.index(run) + 1}: {_seconds(run.figures['wall'])}" for run in far[:_SHOWN]])
            more = f" and {len(far) - _SHOWN} more" if len(far) > _SHOWN else ""
            yield f"Outliers of {command.text}: {len(far)} of {len(of)} runs ({places}{more})"


def _failures(found: CommandComparison) -> Iterator[str]:
    for run in found.failed[:_SHOWN]:
        yield f"Run {run.position + 1} ({found.commands[run.command].text}) failed: {run.why}"
    if len(found.failed) > _SHOWN:
        yield f"and {len(found.failed) - _SHOWN} more"


def answer(found: CommandComparison) -> str:
    """The conclusion, one sentence for each command that is compared."""
    if found.nothing:
        return f"No conclusion: {found.nothing}."
    sentences = [_said(found, at, effect) for at, effect in sorted(_effects(found, "wall").items())]
    sentences += [_robust(found, at, relative) for at, relative in sorted(found.by_ranks.items())]
    if found.unordered:
        sentences.append("The order of the runs is unknown: a drift of the machine would look the same.")
    if found.failed:
        sentences.insert(0, f"{len(found.failed)} of {len(found.runs)} runs failed.")
    return " ".join(sentences)


def _said(found: CommandComparison, at: int, effect: Effect) -> str:
    name, baseline = found.commands[at].text, found.commands[0].text
    if effect.percent is None:
        return f"'{name}' cannot be compared with '{baseline}': {effect.reason or 'its runs failed'}."
    interval = _interval(effect.simultaneous)
    if effect.verdict is Verdict.EQUIVALENT:
        return f"'{name}' takes as long as '{baseline}' within {found.how.margin:g} % {interval}."
    if effect.verdict in (Verdict.BETTER, Verdict.WORSE):
        less = "less" if effect.percent < 0 else "more"
        return f"'{name}' takes {signed(abs(effect.percent))[1:]} % {less} time than '{baseline}' {interval}."
    open_ = f"No difference in time of '{name}' and '{baseline}' is distinguishable from noise {interval}"
    return f"{open_}; {_takes(found, effect)}."


def _robust(found: CommandComparison, at: int, relative: Robust) -> str:
    less = "less" if relative.percent < 0 else "more"
    takes = f"'{found.commands[at].text}' takes {signed(abs(relative.percent))[1:]} % {less} time"
    return f"By ranks, which outliers hardly move, {takes} {_interval(relative.interval)}."


def _takes(found: CommandComparison, effect: Effect) -> str:
    """Runs with which the interval would be as narrow as the margin."""
    both = effect.simultaneous
    runs = max(len(found.of(0, "wall")), 2)
    if both is None:
        return "more runs would tell"
    reach = (both.high - both.low) / 2
    wanted = max(runs + 1, round(runs * (reach / found.how.margin) ** 2))
    return f"about {wanted} runs of each would tell {found.how.margin:g} %"


def _effects(found: CommandComparison, response: str) -> dict[int, Effect]:
    if found.analysis is None:
        return {}
    of = [analysis for analysis in found.analysis.responses if analysis.response == response]
    return {
        int(effect.level): effect for one in of for effect in one.effects if int(effect.level) < len(found.commands)
    }


def _verdict(effect: Effect) -> str:
    words = {Verdict.BETTER: "faster", Verdict.WORSE: "slower", Verdict.EQUIVALENT: "no difference"}
    return words.get(effect.verdict, effect.verdict.value)


def _interval(interval: Interval | None) -> str:
    return "–" if interval is None else f"[{signed(interval.low)}, {signed(interval.high)}]"


def _name(response: str) -> str:
    return {"cpu": "CPU time"}.get(response, response.replace("_", " "))


def _seconds(value: float) -> str:
    return f"{number(value * 1000)} ms" if value < 1 else f"{number(value)} s"
