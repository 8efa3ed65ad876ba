"""Facts of the hosts that a study ran on, from what their jobs left with each trial."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.host.received import json_file_as
from leadline.model.received import ReceivedError
from leadline.model.record import StudyRecord
from leadline.pool.job import FACTS


def facts_of(record: StudyRecord) -> Mapping[str, str]:
    """A fact that all hosts share once; of one that differs each value with its hosts."""
    by_host: dict[str, dict[str, str]] = {}
    for trial in record.trials:
        if trial.directory is not None:
            try:
                facts = json_file_as(dict[str, str], trial.directory / "logs" / FACTS, 1 << 20)
                by_host[facts.pop("host")] = facts
            except (OSError, ReceivedError, KeyError):
                continue
    names = sorted({name for facts in by_host.values() for name in facts})
    return {"pool.hosts": ", ".join(sorted(by_host)), **{name: _said(name, by_host) for name in names}} if names else {}


def _said(name: str, by_host: Mapping[str, Mapping[str, str]]) -> str:
    values: dict[str, list[str]] = {}
    for host in sorted(by_host):
        values.setdefault(by_host[host].get(name, "unknown"), []).append(host)
    if len(values) == 1:
        return next(iter(values))
    return "; ".join(f"{value} on {', '.join(hosts)}" for value, hosts in values.items())
