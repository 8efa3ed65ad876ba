"""The study in the terminal: ranked effects with intervals, verdicts, failures, luck, drift, groups."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from leadline.conclude.answer import SIMULATED
from leadline.model.load import is_load
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import DriftVerdict, Effect, ResponseAnalysis, StudyAnalysis, Verdict
from leadline.report import details, words

MOST_LIMITS = 10  # lines of what limits the answer
_STYLES = {
    Verdict.BETTER: "bold blue",
    Verdict.WORSE: "bold red",
    Verdict.EQUIVALENT: "bold green",
    Verdict.IDENTICAL: "bold green",
    Verdict.FAILED: "bold",
    Verdict.UNDETERMINED: "dim",
}


class StudyTable:
    """Rich renderable. No figure is ever cut: where a table is wider than the terminal, a row takes two lines.

    Printed with ``soft_wrap=True`` a row always is one line.
    """

    def __init__(self, record: StudyRecord, analysis: StudyAnalysis, verbose: bool = False) -> None:
        self._record = record
        self._analysis = analysis
        self._verbose = verbose

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, analysis = self._record, self._analysis
        width = 10_000 if options.no_wrap else options.max_width
        title = f"{SIMULATED if analysis.simulated else ''}Study {record.study.study}: "
        yield Text(title + one_line(record.study.question), style="bold")
        yield Text(self._trials())
        if analysis.judgement.figures or self._verbose:
            for one in analysis.responses:
                yield Text("")
                yield from self._response(one, width)
        if self._verbose:
            yield from (Text(one_line(sentence)) for sentence in details.shared(analysis))
        limits = self._limits()
        shown = limits if self._verbose else limits[:MOST_LIMITS]
        if shown:
            yield Text("")
            yield from shown
        if len(limits) > len(shown):
            yield Text(f"{words.plural(len(limits) - len(shown), 'more line')} with --verbose.", style="dim")

    def _trials(self) -> str:
        record = self._record
        done = sum(trial.state == TrialState.DONE for trial in record.trials)
        failed = ", ".join(f"{count} failed ({name})" for name, count in self._analysis.failures.items() if count)
        skipped = sum(trial.state == TrialState.SKIPPED for trial in record.trials)
        spared = f", {skipped} not needed" if skipped else ""
        return f"{done} of {len(record.plan.trials)} trials done{spared}" + (f", {failed}" if failed else "")

    def _limits(self) -> list[Text]:
        """What limits the answer, the most important first."""
        record, analysis = self._record, self._analysis
        lines = [Text(one_line(sentence), style="yellow") for sentence in analysis.judgement.limits]
        lines += self._failures()
        lines += [Text(one_line(sentence)) for sentence in details.failing(record, analysis)]
        lines += [Text(note, style="yellow")] if (note := words.time_note(record.study)) else []
        lines += [Text(one_line(left_out), style="yellow") for left_out in record.skipped]
        lines += [Text(f"Note: {one_line(warning)}", style="yellow") for warning in analysis.warnings]
        others = analysis.disturbance
        return lines + ([Text(others.sentence)] if others is not None and not others.found else [])

    def _response(self, one: ResponseAnalysis, width: int) -> list[Text]:
        kind = words.kind_of(one.response)
        direction = "more" if kind.higher_is_better else "less"
        base = "no baseline"
        if one.baseline_mean is not None:
            interval = words.value_interval(one.baseline_interval)
            base = " ".join(part for part in ("baseline", words.number(one.baseline_mean), kind.unit, interval) if part)
            base += f", {words.baseline_trials(one)}"
        lines = [Text.assemble((one.response, "bold"), f"  {direction} is better; {base}")]
        if one.reason:
            lines.append(Text(one_line(one.reason), style="yellow"))
        if one.effects:
            rows = [self._row(effect) for effect in one.effects]
            head = ("setting", "change", "95 % interval", "all comparisons", f"{one.counted}s", "verdict")
            lines += _table(
                head, rows, ["" if is_load(effect.factor) else _STYLES[effect.verdict] for effect in one.effects], width
            )
        return lines + (self._details(one) if self._verbose else [])

    def _details(self, one: ResponseAnalysis) -> list[Text]:
        """What the report has of a response beside its effects."""
        lines = []
        if one.luck:
            lines.append(
                Text(
                    "Expected maximum under the null: "
                    f"luck alone would give the best of {words.plural(one.luck.comparisons, 'comparison')} "
                    f"{words.number(one.luck.expected_gain)} % on average, up to {words.number(one.luck.gain_95)} % in "
                    "95 of 100 studies."
                )
            )
        lines += [Text(one_line(sentence)) for sentence in details.noise(one)]
        doubtful = one.drift.verdict in (DriftVerdict.DETECTED, DriftVerdict.INCONCLUSIVE)
        lines.append(Text(one_line(one.drift.sentence), style="yellow" if doubtful else ""))
        lines += [Text(one_line(row)) for row in details.interactions(one)]
        lines += [Text(one_line(row)) for row in details.hosts(self._record, one)]
        lines += [Text(one_line(row)) for row in details.ranks(self._record, one)]
        return lines

    def _row(self, effect: Effect) -> tuple[str, ...]:
        digits = words.decimals(self._record.study)
        verdict = words.verdict(effect) + (f": {one_line(effect.reason)}" if effect.reason else "")
        return (
            one_line(words.setting(self._record.study, effect.factor, effect.level)),
            "–" if effect.percent is None else f"{words.signed(effect.percent, digits)} %",
            words.change_interval(effect.interval, digits),
            words.change_interval(effect.simultaneous, digits),
            words.trials_text(effect),
            verdict,
        )

    def _failures(self) -> list[Text]:
        lines = []
        for trial in self._record.trials:
            if trial.state == TrialState.FAILED and not trial.is_left:
                label = words.trial_text(self._record.study, self._record.plan, trial.planned)
                failure = trial.failure.value if trial.failure else "failed"
                text = f"Trial {trial.id} ({one_line(label)}) failed, {failure}: {one_line(trial.failure_message)}"
                lines.append(Text(text, style="red"))
            failed = [slot for slot in trial.slots if slot.failure]
            if trial.state == TrialState.DONE and failed:
                kinds = ", ".join(dict.fromkeys(slot.failure.value for slot in failed if slot.failure))
                text = f"Trial {trial.id}: {len(failed)} of {words.plural(len(trial.slots), 'slot')} failed ({kinds}); "
                text += f"slot {failed[0].index + 1}: {one_line(failed[0].failure_message)}"
                lines.append(Text(text, style="red"))
        return lines


def table(record: StudyRecord, analysis: StudyAnalysis, verbose: bool = False) -> StudyTable:
    """For ``Console.print``: coloured in a terminal, plain text elsewhere. ``verbose``: all that the report tells of a
    response, not its effects alone.
    """
    return StudyTable(record, analysis, verbose)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], styles: Sequence[str], width: int) -> list[Text]:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    verdicts = max(len(verdict.value) for verdict in Verdict)  # a reason after it may wrap
    narrow = 2 + sum(widths[:-1]) + verdicts + 2 * (len(widths) - 1) > width

    def lines(row: Sequence[str], style: str) -> list[Text]:
        first, *middle, last = row
        figures = [cell.rjust(w) for cell, w in zip(middle, widths[1:-1], strict=True)] + [last]
        if narrow:
            return [Text(f"  {first}", style=style), Text("    " + "  ".join(figures).rstrip(), style=style)]
        return [Text("  " + "  ".join([first.ljust(widths[0]), *figures]).rstrip(), style=style)]

    found = lines(head, "underline")
    for row, style in zip(rows, styles, strict=True):
        found += lines(row, style)
    return found


def one_line(text: str) -> str:
    """One line without control characters: what a server said must not steer the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
