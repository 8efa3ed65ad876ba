"""``load --find-knee``: what is printed of a search for the highest load."""

from __future__ import annotations

import typer

from leadline.api.loads import Found, Limits, Range, Step, find_knee, knee_document, option_value, steps_at_most
from leadline.cli.output import console, print_json, say
from leadline.cli.output import errors as to_stderr
from leadline.model.errors import UsageError
from leadline.model.judgement import NO_ANSWER_CODE
from leadline.model.result import AtLeast
from leadline.model.units import format_duration, parse_duration

_RAMP_UP, _STEADY, _RAMP_DOWN = "2s", "10s", "0s"  # of each run, unless given


def forecast(options: list[str], loads: Range, repeats: int, budget_s: float, as_json: bool) -> None:
    """Says how long the search takes at most."""
    times = (("--ramp-up", _RAMP_UP), ("--steady", _STEADY), ("--ramp-down", _RAMP_DOWN))
    seconds = 0.0
    for option, default in times:
        try:
            seconds += parse_duration(option_value(option, ["", *options], default))
        except ValueError as error:
            raise UsageError(f"{option}: {error}") from None
    steps, single = steps_at_most(loads, repeats)
    most = min((2 * steps + single) * seconds, budget_s)
    if as_json:
        document = {"steps": steps, "repeats": single, "seconds_per_run": seconds, "seconds_at_most": most}
        print_json(document)
        return
    say(
        f"at most {steps} steps of one or two runs, and {single} repeats; a run takes {format_duration(seconds)} "
        "and what is in flight at its end",
        f"at most {format_duration(most)} if the load found is confirmed"
        + (", by the budget" if most == budget_s else "; --budget bounds it"),
    )


def run_search(
    scenario: str, options: list[str], limits: Limits, loads: Range, repeats: int, budget_s: float, as_json: bool
) -> None:
    """Searches and tells; exit code 4 where no load kept the limits or the budget ended the search."""
    unit = "users" if loads.whole else "/s"

    def tell(step: Step) -> None:
        (to_stderr if as_json else console).print(_row(step, unit), soft_wrap=True)

    knee = find_knee(scenario, options, limits, loads, tell, repeats, budget_s)
    if as_json:
        arrivals = "closed" if loads.whole else option_value("--arrivals", options, "poisson")
        print_json(knee_document(knee, arrivals, limits))
    else:
        say(*_conclusion(knee, unit))
    if knee.highest is None or knee.limited_by == "budget":
        raise typer.Exit(NO_ANSWER_CODE)


def _number(value: float | None, form: str = ".1f") -> str:
    return "-" if value is None else format(value, form)


def _row(step: Step, unit: str) -> str:
    verdict = "confirmed" if step.kept and step.confirms else "kept" if step.kept else "broken"
    verdict += f" ({', '.join(step.broken)})" if step.broken else ""
    verdict += "" if step.sure else ", in doubt"
    verdict += ", the driver was the limit" if step.driver_limit else ""
    p99, rate, errors = step.p99_ms, step.throughput, step.errors
    tail = AtLeast(p99.value) if p99.value is not None and "p99" in step.at_least else p99.value
    return (
        f"{step.load:10.1f} {unit}  ok {_number(rate.value)}/s [{_number(rate.low)}, {_number(rate.high)}]  "
        f"p99 {_number(tail, '.2f')} ms [{_number(p99.low, '.2f')}, {_number(p99.high, '.2f')}]  "
        f"errors {_number(errors.value, '.2%')} [{_number(errors.low, '.2%')}, {_number(errors.high, '.2%')}]  "
        f"{verdict}"
    )


def _conclusion(found: Found, unit: str) -> list[str]:
    above = "" if found.lowest_failed is None else f", below {found.lowest_failed:.1f}"
    confirmed = ", confirmed by a run of its own" if found.confirmation is not None else ""
    highest = "none" if found.highest is None else f"{found.highest:.1f} {unit}{above}{confirmed}"
    lines = [f"highest load that keeps the limits: {highest} (limit: {found.limited_by}; {found.reason})"]
    if found.limit is not None:
        limit = found.limit
        lines.append(
            f"load at the limit: {limit.load:.1f} {unit} [{_number(limit.low)}, {_number(limit.high)}], "
            f"95 % interval from {limit.probes} runs near it"
        )
        if limit.drift is not None and limit.drift_p is not None and limit.drift_p < 0.05:
            lines.append(
                f"the system drifted: this load changed by {limit.drift:+.1%} from the first to the last of them"
            )
    if found.gave_out is not None:
        lines.append(f"what gave out first: {found.gave_out}")
    if found.knee.value is not None:
        lines.append(f"knee: {found.knee.value:.1f} {unit} [{found.knee.low:.1f}, {found.knee.high:.1f}]")
    return lines
