"""Everything the page shows, gathered once: the template only lays it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leadline.advice import advise
from leadline.advice.facts import Statements, Threads
from leadline.advice.findings import written
from leadline.analysis.forks import Change, Counted, explained
from leadline.layouts import layout_of
from leadline.model.knob import Knob
from leadline.model.plan import Role
from leadline.model.record import StudyRecord, TrialRecord, TrialState
from leadline.model.result import HostEffect, ResponseAnalysis, StudyAnalysis
from leadline.report import advising, collector, details, latency, observed, series, summary, words
from leadline.report import files as trial_files
from leadline.report.charts import effects as effects_chart
from leadline.report.charts import latency as latency_chart
from leadline.report.charts import trial as trial_chart
from leadline.report.charts.latency import Load, heat_map
from leadline.report.charts.theme import Figure, marked, palette
from leadline.report.charts.trial import PANELS
from leadline.report.files import TrialFiles, transactions
from leadline.report.flames import Flames, flames, waits
from leadline.report.glance import Axis, Glance, axis, glance, strongest
from leadline.report.observed import facts, statements, threads
from leadline.report.sizes import Sizes, sizes

# What is said beneath each panel of a trial: what happened there, and what to try next.


_PANELS = {
    "database.cache": "database",
    "database.checkpoints": "database",
    "database.deadlocks": "database",
    "server.pool": "pool",
    "server.churn": "pool",
    "server.threads": "threads",
    "server.executor": "threads",
    "server.statements": "statements",
    "jvm.heap": "gc",
    "jvm.pauses": "gc",
    "application.leak": "gc",
    "kernel.swap": "paging",
    "kernel.reclaim": "memory",
    "kernel.storage": "disk",
    "kernel.backlog": "network",
    "kernel.steal": "cpu",
}


def sentences(record: StudyRecord, files: TrialFiles, knobs: Mapping[str, Knob]) -> dict[str, str]:
    """By the panel's name, where there is something to say."""
    sentences_ = observed.sentences(files)
    busy = [_busy(thread) for thread in threads(files)]
    statements_ = [_kept(statement) for statement in statements(files)]
    for panel, parts in (("threads", busy), ("statements", statements_)):
        if parts:
            sentences_[panel] = " ".join(parts)
    if files.trial.state != TrialState.DONE:
        return sentences_
    for finding in advise([facts(record, files, knobs)], knobs or None):
        if finding.disturbed:
            continue
        place = _PANELS.get(finding.rule)
        if place is None:
            continue
        if finding.knob is not None and finding.then is not None:
            advice = (
                f"Next to try: {finding.knob} = "
                f"{written(finding.then, knobs.get(finding.knob), finding.knob)}, as {finding.reason}."
            )
        else:
            advice = f"To do: {finding.remedy or finding.reason}."
        sentences_[place] = f"{sentences_.get(place, '')} {advice}".strip()
    return sentences_


def _busy(one: Threads) -> str:
    mean, most = words.number(one.active_mean), words.number(one.active_max)
    if one.limit:
        text = f"{one.subject}: {mean} of {words.number(one.limit)} threads busy on average, {most} at most"
    elif one.size_mean is not None:
        size = words.number(one.size_mean)
        text = f"{one.subject}: {mean} of its {size} threads busy on average, {most} at most; it tells no maximum"
    else:
        text = f"{one.subject}: {mean} threads busy on average, {most} at most"
    if one.queue_mean is not None:
        text += (
            "; nothing queued" if not one.queue_mean else f"; {words.number(one.queue_mean)} tasks queued on average"
        )
    return f"{text}."


def _kept(one: Statements) -> str:
    parts = []
    if one.uses_per_s is not None:
        parts.append(f"{words.number(one.uses_per_s)} uses a second")
    if one.prepared_per_s is not None:
        parts.append(f"{words.number(one.prepared_per_s)} prepared")
    if one.discarded_per_s is not None:
        parts.append("none discarded" if not one.discarded_per_s else f"{words.number(one.discarded_per_s)} discarded")
    kept_text = "" if one.kept is None else f"; {words.number(one.kept)} kept at the end"
    return f"Statements of {one.subject}: {', '.join(parts) or 'uses not recorded'}{kept_text}."


MOST_ON_HOSTS = 120  # rows of effects on hosts; the JSON has all
MOST_TREATMENTS = 7  # in a chart; the tables hold all


@dataclass(frozen=True)
class TrialChoice:
    """A trial that has panels, with the words of the selector."""

    id: int
    label: str


@dataclass(frozen=True)
class View:
    """The study as the page shows it."""

    record: StudyRecord
    analysis: StudyAnalysis
    files: tuple[TrialFiles, ...]
    health: tuple[summary.Item, ...]
    treatments: tuple[str, ...]  # in the order of the page, the baseline first
    labels: Mapping[int, str]  # trial -> treatment
    latency: latency.Latency
    glance: Glance
    axes: Mapping[str, Axis]  # response -> its effects, drawn
    by_host: Mapping[str, tuple[tuple[HostEffect, ...], Axis]]  # response -> effects on each host, and these drawn
    against_load: Mapping[str, Figure]  # response -> figure, of a study that varies its load
    interactions: Mapping[str, tuple[Figure, ...]]  # response -> a figure for each pair of factors
    timeline: Figure | None
    by_transaction: Figure | None
    curve: Figure | None
    heat_map: Figure | None  # of the chosen trials
    collections: tuple[Figure, ...]  # pauses and utilisation in the steady states of the chosen trials
    columns: tuple[tuple[str, str], ...]  # of the table of resources
    resources: tuple[tuple[str, int, tuple[observed.Cell, ...]], ...]
    choices: tuple[TrialChoice, ...]
    chosen: tuple[int, int] | None
    panels: tuple[trial_chart.PanelView, ...]
    series: Mapping[int, Mapping[str, Any]]
    sentences: Mapping[int, Mapping[str, str]]
    advice: advising.Advice
    explained: Mapping[str, Sequence[Change]]  # of forks: treatment -> counters that changed
    not_counted: str  # why they lack instructions, a sentence; empty where they have them
    sizes: Sizes | None
    flames: Flames | None
    waits: Flames | None

    def figures(self) -> list[Figure]:
        """All static figures, for the export: the page draws the effects itself."""
        effects = [effects_chart.effects(self.record, response) for response in self.analysis.responses]
        crossed = [pair for many in self.interactions.values() for pair in many]
        ranked = [marked(figure, self.analysis.simulated) for figure in effects if figure is not None]
        figures = [
            *ranked,
            *self.against_load.values(),
            *crossed,
            self.by_transaction,
            self.curve,
            self.heat_map,
            *self.collections,
            self.timeline,
        ]
        sides = [side for panel in self.panels for side in panel.sides]
        return [figure for figure in (*figures, *sides) if figure is not None]


def gather(
    record: StudyRecord, analysis: StudyAnalysis, *, figures: bool = True, knobs: Mapping[str, Knob] | None = None
) -> View:
    """Read the trials' files and, with ``figures``, draw the figures' specifications."""
    files = tuple(trial_files.read(trial) for trial in record.trials)
    labels = {t.id: words.trial_text(record.study, record.plan, t.planned) for t in record.trials}
    groups: dict[str, list[TrialFiles]] = {"baseline": []}
    for file in files:
        group = groups.setdefault(labels[file.trial.id], [])
        if file.trial.state == TrialState.DONE:
            group.append(file)
    latencies = latency.collect({name: group for name, group in groups.items() if group})
    charted = _charted(record, analysis, [name for name, group in groups.items() if group])
    colours = palette([*charted, *groups])
    data = series.of_trials(files)
    choices = tuple(
        TrialChoice(one.trial.id, _choice(one.trial, labels[one.trial.id]))
        for one in files
        if one.trial.state == TrialState.DONE or data[one.trial.id]["panels"]
    )
    chosen = _chosen(charted, groups, data)
    named = {number: f"trial {number}, {label}" for number, label in labels.items()}
    columns, resources = _resources(files, groups)
    overview = glance(record, analysis)

    def known(figure: Figure | None) -> Figure | None:
        return None if figure is None else marked(figure, analysis.simulated)

    return View(
        record=record,
        analysis=analysis,
        files=files,
        health=tuple(summary.health(record, analysis, files)),
        treatments=tuple(groups),
        labels=labels,
        latency=latencies,
        glance=overview,
        axes={axis_.response: axis_ for axis_ in overview.axes},
        by_host={
            response.response: _by_host(record, response)
            for response in analysis.responses
            if response.across_hosts is not None
        },
        against_load=_against_load(record, analysis) if figures else {},
        interactions=_interactions(record, analysis) if figures else {},
        timeline=known(effects_chart.timeline(record, analysis, colours)) if figures else None,
        by_transaction=known(latency_chart.by_transaction(latencies, charted, colours)) if figures else None,
        curve=known(latency_chart.curve(latencies, charted, colours)) if figures else None,
        heat_map=known(heat_map(_loads(files, labels, chosen))) if figures else None,
        collections=collections(files, labels, chosen, analysis.simulated) if figures else (),
        columns=columns,
        resources=resources,
        choices=choices,
        chosen=chosen,
        panels=trial_chart.views(PANELS, data, chosen, named, simulated=analysis.simulated) if figures else (),
        series=data,
        sentences={file.trial.id: sentences(record, file, knobs or {}) for file in files},
        advice=advising.advice(record, knobs or {}, analyse=lambda _: analysis, files=files),
        explained=_explained(record, files, labels),
        not_counted=_not_counted(record, files),
        sizes=sizes(record, files),
        flames=flames(record, analysis.profile),
        waits=waits(record, analysis.waits),
    )


def _against_load(record: StudyRecord, analysis: StudyAnalysis) -> dict[str, Figure]:
    return {
        response.response: marked(figure, analysis.simulated)
        for response in analysis.responses
        if (figure := effects_chart.against_load(record, response)) is not None
    }


def _interactions(record: StudyRecord, analysis: StudyAnalysis) -> dict[str, tuple[Figure, ...]]:
    return {
        response.response: tuple(
            marked(figure, analysis.simulated) for figure in effects_chart.cell_means(record, response)
        )
        for response in analysis.responses
    }


def _loads(files: Sequence[TrialFiles], labels: Mapping[int, str], chosen: tuple[int, int] | None) -> list[Load]:
    """The loads of the trials that are shown first."""
    loads = []
    for file in (file for id_ in dict.fromkeys(chosen or ()) for file in files if file.trial.id == id_):
        started = float(file.summary.get("started_unix_ns") or 0) / 1e9
        if file.trial.directory is not None and started:
            log = latency.over_time(file.trial.directory / "driver" / "response.hlog")
            loads.append(Load(f"{labels[file.trial.id]} (trial {file.trial.id})", started, log))
    return loads


def collections(
    files: Sequence[TrialFiles], labels: Mapping[int, str], chosen: tuple[int, int] | None, simulated: bool
) -> tuple[Figure, ...]:
    """Of the chosen trials' steady states: pauses by percentile, minimum mutator utilisation."""
    shown = {f"{labels[one.trial.id]} (trial {one.trial.id})": one for one in files if one.trial.id in (chosen or ())}
    pauses = {name: rows for name, one in shown.items() if (rows := one.steady("gc", "gc.pause")) is not None}
    lengths = {name: latency.counted(rows["value"]) for name, rows in pauses.items() if rows.height}
    logs = {name: summary for name, one in shown.items() if (summary := collector.steady(one)) is not None}
    drawn = (
        latency_chart.pause_curve(lengths, "the steady state"),
        latency_chart.mutator_utilisation({name: summary.mmu for name, summary in logs.items()}),
    )
    return tuple(marked(figure, simulated) for figure in drawn if figure is not None)


def _explained(
    record: StudyRecord, files: Sequence[TrialFiles], labels: Mapping[int, str]
) -> Mapping[str, Sequence[Change]]:
    forks = [
        Counted(labels[file.trial.id], file.trial.planned.block, int(total), file.added)
        for file in files
        if file.trial.state == TrialState.DONE and file.added and (total := transactions(file))
    ]
    return explained(forks, "baseline") if layout_of(record.plan).exact else {}


def _not_counted(record: StudyRecord, files: Sequence[TrialFiles]) -> str:
    if any(name.startswith("instructions.") for file in files for name in file.added):
        return ""
    reason = record.environment.get("host.guest.instructions", "")
    why = reason if reason.startswith("not counted") else "not counted"
    return f"System calls by kind and instructions by symbol were {why}."


def _resources(
    files: Sequence[TrialFiles], groups: Mapping[str, Sequence[TrialFiles]]
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, int, tuple[observed.Cell, ...]], ...]]:
    """Columns and rows of the table of resources, without the columns of which nothing was recorded in any trial."""
    columns = observed.columns(files)
    rows = {name: observed.cells(group, columns) for name, group in groups.items() if group}
    columns_ = [at for at in range(len(columns)) if any(row[at].text != words.NOT_RECORDED for row in rows.values())]
    return tuple(columns[at] for at in columns_), tuple(
        (name, len(groups[name]), tuple(row[at] for at in columns_)) for name, row in rows.items()
    )


def _choice(trial: TrialRecord, label: str) -> str:
    role = "sentinel, baseline" if trial.planned.role is Role.SENTINEL else label
    failed = f" · failed, {trial.failure.value}" if trial.failure else ""
    return f"{trial.id} · block {trial.planned.block + 1} · {role}{failed}"


def _by_host(record: StudyRecord, one: ResponseAnalysis) -> tuple[tuple[HostEffect, ...], Axis]:
    effects = details.by_host(one)[:MOST_ON_HOSTS]
    return effects, axis(record, replace(one, effects=effects, luck=None))


def _charted(record: StudyRecord, analysis: StudyAnalysis, present: Sequence[str]) -> list[str]:
    """The baseline and the treatments with the strongest effects, so many as a chart can carry."""
    wanted = [words.setting(record.study, effect.factor, effect.level) for effect in strongest(analysis)]
    ranked = list(dict.fromkeys(name for name in wanted if name in present))
    ranked += [name for name in present if name not in ranked and name != "baseline"]
    return [name for name in present if name == "baseline"] + ranked[: MOST_TREATMENTS - 1]


def _chosen(
    charted: Sequence[str], groups: Mapping[str, Sequence[TrialFiles]], data: Mapping[int, Mapping[str, Any]]
) -> tuple[int, int] | None:
    """The trials shown first: one of the baseline and one of the treatment with the most telling effect."""
    with_panels = {
        name: [trial.trial.id for trial in groups.get(name, []) if data[trial.trial.id]["panels"]] for name in charted
    }
    order = [name for name in charted if with_panels[name]]
    if not order:
        return None
    first = with_panels[order[0]]
    if len(order) == 1:
        return first[0], first[-1]
    right = with_panels[order[1]]
    return first[len(first) // 2], right[len(right) // 2]
