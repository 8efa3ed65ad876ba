"""What is said beneath each panel of a trial: what happened there, and what to try next."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.advice import advise
from leadline.advice.facts import Statements, Threads
from leadline.advice.findings import written
from leadline.model.knob import Knob
from leadline.model.record import StudyRecord, TrialState
from leadline.report import layers, words
from leadline.report.files import TrialFiles
from leadline.report.observed import facts, statements, threads

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
    sentences_ = layers.sentences(files)
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
