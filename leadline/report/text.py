"""The study in the terminal: the answer, one table of changes with intervals and verdicts, what limits the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from leadline.conclude.between import Between, History, Moved
from leadline.conclude.explanation import told_frames, told_waits
from leadline.conclude.wording import listed
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import DriftVerdict, ResponseAnalysis, StudyAnalysis, Verdict
from leadline.report import details, words
from leadline.report.glance import Cell, glance
from leadline.report.words import change_interval, moment, number, signed, value_interval

MOST_LIMITS = 10  # lines of what limits the answer
_STYLES = {
    Verdict.BETTER: "bold blue",
    Verdict.WORSE: "bold red",
    Verdict.EQUIVALENT: "bold green",
    Verdict.IDENTICAL: "bold green",
    Verdict.FAILED: "bold",
    Verdict.UNDETERMINED: "dim",
}


@dataclass(frozen=True)
class _Row:
    """``counted``: its trials or slots. ``cells``: of each response a figure, its interval, its verdict, a style."""

    name: str
    counted: str
    cells: tuple[tuple[str, str, str, str], ...]


class StudyTable:
    """Rich renderable: the answer, one table, what limits the answer. No figure is ever cut: where the table is wider
    than the terminal, a cell takes two lines and a row three, and what is wider still is continued below.

    Printed with ``soft_wrap=True`` a row always is one line.
    """

    def __init__(self, record: StudyRecord, analysis: StudyAnalysis, verbose: bool = False) -> None:
        self._record = record
        self._analysis = analysis
        self._verbose = verbose

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, analysis = self._record, self._analysis
        head, rest = words.lead(analysis)
        yield Text(one_line(head), style="bold")
        if rest and self._verbose:
            yield Text(one_line(rest))
        yield Text(f"Study {record.study.study}: {one_line(record.study.question)}")
        yield Text(self._trials())
        if (analysis.judgement.figures or self._verbose) and analysis.responses:
            yield Text("")
            yield from self._table(10_000 if options.no_wrap else options.max_width)
        if analysis.profile is not None and analysis.judgement.figures:
            yield Text("")
            yield from (Text(one_line(level.sentence)) for level in told_frames(analysis.profile))
            yield from (Text(note, style="dim") for note in analysis.profile.notes)
        if analysis.waits is not None and analysis.judgement.figures and (waits := told_waits(analysis.waits)):
            yield Text("")
            yield from (Text(one_line(level.sentence)) for level in waits)
            yield from (Text(one_line(sentence)) for sentence in analysis.waits.slow)
            yield from (Text(note, style="dim") for note in analysis.waits.notes)
        if self._verbose:
            for response in analysis.responses:
                yield from self._details(response)
            yield from (Text(one_line(sentence)) for sentence in details.shared(analysis))
        limits = [line for line in self._limits() if line.plain.rstrip(".") not in head]
        limits_shown = limits if self._verbose else limits[:MOST_LIMITS]
        if limits_shown:
            yield Text("")
            yield from limits_shown
        if len(limits) > len(limits_shown):
            yield Text(f"{words.plural(len(limits) - len(limits_shown), 'more line')} with --verbose.", style="dim")

    def _trials(self) -> str:
        record = self._record
        done = sum(trial.state == TrialState.DONE for trial in record.trials)
        unit, failures = self._analysis.judgement.unit if done else "trial", self._analysis.failures
        failed = ", ".join(f"{words.plural(count, unit)} failed ({name})" for name, count in failures.items() if count)
        skipped = sum(trial.state == TrialState.SKIPPED for trial in record.trials)
        spared = f", {skipped} not needed" if skipped else ""
        return f"{done} of {len(record.plan.trials)} trials done{spared}" + (f", {failed}" if failed else "")

    def _limits(self) -> list[Text]:
        """What limits the answer, the most important first."""
        record, analysis = self._record, self._analysis
        lines = [Text(one_line(sentence), style="yellow") for sentence in analysis.judgement.limits]
        lines += self._failures()
        lines += [Text(one_line(sentence)) for sentence in details.failing(record, analysis)]
        if analysis.judgement.figures:
            lines += [Text(one_line(sentence)) for sentence in self._unknown()]
        lines += [Text(f"{one_line(sentence)}.") for sentence in analysis.caveats]
        lines += [Text(note, style="yellow")] if (note := words.time_note(record.study)) else []
        lines += [Text(one_line(left_out), style="yellow") for left_out in record.skipped]
        lines += [Text(f"Note: {one_line(warning)}", style="yellow") for warning in analysis.warnings]
        others = analysis.disturbance
        return lines + ([Text(others.sentence)] if others is not None and not others.found else [])

    def _unknown(self) -> list[str]:
        """Reasons of verdicts, of missing ones alone unless verbose, each once for all of which it holds."""
        responses: dict[tuple[str, str], list[str]] = {}
        for response in self._analysis.responses:
            settings: dict[str, list[str]] = {response.reason: []} if response.reason else {}
            for effect in response.effects:
                level = words.level_text(self._record.study, effect.factor, effect.level)
                is_told = f"{effect.factor}={level}" in self._analysis.judgement.withheld
                is_told |= effect.verdict is not Verdict.UNDETERMINED and not self._verbose
                if effect.reason not in ("", response.reason) and not is_told:
                    settings.setdefault(effect.reason, []).append(f"{effect.factor} = {level}")
            for reason, names in settings.items():
                responses.setdefault((reason, " of " * bool(names) + ", ".join(names)), []).append(response.response)
        return [f"{', '.join(names)}{of}: {reason}" for (reason, of), names in responses.items()]

    def _details(self, one: ResponseAnalysis) -> list[Text]:
        """What the report has of a response beside its effects."""
        lines = [Text(""), Text(one.response, style="bold")]
        if one.baseline_mean is not None:
            lines.append(Text(f"Baseline: {words.baseline_trials(one)}."))
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

    def _table(self, width: int) -> list[Text]:
        """Responses as columns: the baseline's figures, then what each setting changes; of loads their figures."""
        record, analysis = self._record, self._analysis
        shown_glance = glance(record, analysis)
        heads = [(axe.response, axe.unit or "–", axe.better.strip("\u2190\u2192 ")) for axe in shown_glance.axes]
        counted = f"{analysis.responses[0].counted}s"
        if shown_glance.loads:
            loads = [
                _Row(one_line(name), "", tuple((text, "", "", "") for text in figures))
                for name, figures in shown_glance.loads
            ]
            return _narrowest("", heads, loads, width)
        base = [
            (words.number(response.baseline_mean), words.value_interval(response.baseline_interval), "", "")
            for response in analysis.responses
        ]
        rows = [_Row("baseline", str(analysis.responses[0].baseline_trials or "–"), tuple(base))]
        counts = {
            words.setting(record.study, effect.factor, effect.level): words.trials_text(effect)
            for response in reversed(analysis.responses)
            for effect in response.effects
        }
        for name, cells in shown_glance.rows:
            rows.append(_Row(one_line(name), counts[name], tuple(_cell(cell) for cell in cells)))
        lines = _narrowest(counted, heads, rows, width)
        if len(rows) > 1:
            lines.append(
                Text(
                    "Changes from the baseline, with 95 % intervals for all comparisons of a response together; "
                    "without a word: undetermined.",
                    style="dim",
                )
            )
        return lines

    def _failures(self) -> list[Text]:
        """A line for each way in which trials failed, and for each trial of which slots did."""
        lines, failed = [], dict[str, list[str]]()
        for trial in self._record.trials:
            if trial.state == TrialState.FAILED and not trial.is_left:
                label = words.trial_text(self._record.study, self._record.plan, trial.planned)
                why = f"{trial.failure.value if trial.failure else 'failed'}: {one_line(trial.failure_message)}"
                failed.setdefault(why, []).append(f"{trial.id} ({one_line(label)})")
            slots = [slot for slot in trial.slots if slot.failure]
            if trial.state == TrialState.DONE and slots:
                kinds = ", ".join(dict.fromkeys(slot.failure.value for slot in slots if slot.failure))
                text = f"Trial {trial.id}: {len(slots)} of {words.plural(len(trial.slots), 'slot')} failed ({kinds}); "
                lines.append(text + f"slot {slots[0].index + 1}: {one_line(slots[0].failure_message)}")
        told = [f"Trial{'s' * (len(trials) > 1)} {listed(trials)} failed, {why}" for why, trials in failed.items()]
        return [Text(line, style="red") for line in (*told, *lines)]


def table(record: StudyRecord, analysis: StudyAnalysis, verbose: bool = False) -> StudyTable:
    """For ``Console.print``: coloured in a terminal, plain text elsewhere. ``verbose``: all that the report tells of a
    response, not its effects alone.
    """
    return StudyTable(record, analysis, verbose)


def _cell(cell: Cell | None) -> tuple[str, str, str, str]:
    if cell is None:
        return "", "", "", ""
    verdict = Verdict(cell.verdict) if cell.verdict in _STYLES else None
    if cell.mark is None:
        return "–", "", "failed" if verdict is Verdict.FAILED else "", "dim"
    word = "" if verdict is Verdict.UNDETERMINED else cell.verdict
    return cell.text, cell.interval.strip("–"), word, _STYLES[verdict] if verdict is not None else ""


def _narrowest(counted: str, heads: Sequence[Sequence[str]], rows: Sequence[_Row], width: int) -> list[Text]:
    """The table in as few bands, then as few lines as the width allows. ``heads``: of each response three lines."""
    layouts = ((False, False), (True, False), (True, True))
    tables = [_laid_out(counted, heads, rows, width, *layout) for layout in layouts]
    return min(tables, key=lambda table: (table[0], len(table[1])))[1]


def _laid_out(
    counted: str, heads: Sequence[Sequence[str]], rows: Sequence[_Row], width: int, split: bool, stacked: bool
) -> tuple[int, list[Text]]:
    """The number of bands, and lines. ``split``: intervals below their figures; ``stacked``: names above their rows."""
    names = ["", *(row.name for row in rows)]
    styles = [["bold"] * len(heads), *([style for *_, style in row.cells] for row in rows)]
    counts = [["", "", counted], *([row.counted] for row in rows)]
    columns = [[list(head), *_column([row.cells[at] for row in rows], split)] for at, head in enumerate(heads)]
    indent = 2 if stacked else max(map(len, names)) + 2
    bands, used = list[list[int]](), width
    for at, column in enumerate(columns):
        if used + _width(column) > width:
            bands.append([])
            used = indent + _width(counts) - 2
        bands[-1].append(at)
        used += _width(column)
    lines = list[Text]()
    for band in bands:
        lines += [Text("")] * bool(lines)
        for row, name in enumerate(names):
            lines += [Text(name)] * (stacked and row > 0)
            blocks = [(counts[row], "", counts)] + [(columns[at][row], styles[row][at], columns[at]) for at in band]
            for line in range(max(len(block) for block, _, _ in blocks)):
                text = Text((name if line == 0 and not stacked else "").ljust(indent))
                for block, style, column in blocks:
                    text.append((block[line] if line < len(block) else "").ljust(_width(column)), style=style)
                text.rstrip()
                lines.append(text)
    return len(bands), lines


def _column(cells: Sequence[tuple[str, str, str, str]], split: bool) -> list[list[str]]:
    """The lines of each cell."""
    if split:
        return [[f"{figure} {word}".rstrip(), *([interval] if interval else [])] for figure, interval, word, _ in cells]
    wide, wider = (max(len(cell[at]) for cell in cells) for at in (0, 1))
    return [
        [f"{figure:>{wide}}{f'  {interval:>{wider}}' if wider else ''}  {word}".rstrip()]
        for figure, interval, word, _ in cells
    ]


def _width(column: Sequence[Sequence[str]]) -> int:
    return max(len(line) for block in column for line in block) + 2


def one_line(text: str) -> str:
    """One line without control characters: what a server said must not steer the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


_MOVED = ("", "first", "second", "change", "95 % interval", "all comparisons", "verdict")
_HISTORY = ("run", "started", "value", "95 % interval", "")


def between_lines(found: Between) -> list[str]:
    """A table for each response, then what differs, then what the intervals do not hold."""
    lines = [f"{found.first} and {found.second}: what moved"]
    for response in dict.fromkeys(row.response for row in found.moved):
        rows = [row for row in found.moved if row.response == response]
        lines += ["", response, *words.aligned([_MOVED, *(_cells(row) for row in rows)], (0, -1), "  ")]
    lines += ["", *(f"Differs: {sentence}" for sentence in found.differs)]
    lines.append(
        "The intervals hold the noise within each run. What else changes between two days is not in them: the history "
        "of several runs shows it."
    )
    return lines


def history_lines(found: History) -> list[str]:
    """A row for each run, changes between them, and what differed from the run before."""
    starts = {change.at: change for change in found.changes}
    rows: list[Sequence[str]] = [_HISTORY]
    for at, point in enumerate(found.points):
        mark = "" if at not in starts else f"changed here, p {starts[at].p_value:.3f}"
        rows.append((point.run, moment(point.started), number(point.value), value_interval(point.interval), mark))
    lines = [f"{found.study}: {found.response}, {found.what}" + (f", in {found.unit}" if found.unit else "")]
    lines += words.aligned(rows, (0, -1), "  ")
    for point in found.points:
        lines += [f"{point.run} differs: {sentence}" for sentence in point.differs]
    return lines


def _cells(row: Moved) -> Sequence[str]:
    unit = " %" if row.unit == "%" else ""
    figures = [number(value) + (unit if value is not None else "") for value in (row.first, row.second)]
    if row.ratio is None:
        return (row.what, *figures, "–", "", "", f"{row.verdict}: {row.reason}")
    intervals = (change_interval(row.ratio.interval), change_interval(row.ratio.simultaneous))
    return (row.what, *figures, f"{signed(row.ratio.percent)} %", *intervals, row.verdict)
