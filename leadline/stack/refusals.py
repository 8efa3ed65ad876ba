"""What a server was refused, as its logs have it: connections of its database, room for its messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from leadline.model.blame import Event, Evidence, blamed

_KEPT = 10
_WIDTH = 400
# Open Liberty's errors of the message store (CWSIS, CWSOM) and of the engine that stands on it (CWSID); what ActiveMQ,
# which is in TomEE, says when it gives its store up; what Open MQ, which is in GlassFish, could not keep.
_STORE = re.compile(
    r"\bCWS(?:IS|ID|OM)\d{4}E\b.*|\bStopping BrokerService\[\w+\] due to exception, .*"
    r"|\[B4\d{3}\]: Failed to persist .*|\bFailed to create transaction log file\b.*"
)
_STORE_HEADING = re.compile(r"\bJournal failed while writing\b.*")  # ActiveMQ's; the next line has the reason


def check(database: str, server: str, logs: Iterable[Path], words: Sequence[str]) -> None:
    """Raises TrialFailure(configuration) when one of ``words`` stands in the server's logs (files and directories).

    A database without a free connection refuses every further one, so that the trial would tell of the refusals.
    """
    found: list[str] = []
    for line in _lines(logs):
        if any(word in line for word in words) and line not in found:
            found.append(line)
            if len(found) == _KEPT:
                break
    if found:
        said = next(word for word in words if word in found[0])
        raise blamed(
            Evidence(Event.REFUSED),
            f"{database} refused connections of {server}'s pool: {said}; the pool may grow beyond"
            " database.max_connections: lower server.datasource.max_connections or raise it",
            "\n".join(found),
        )


def check_store(server: str, logs: Iterable[Path]) -> None:
    """Raises TrialFailure(configuration) when the server's logs tell of a message store that failed (full, say).

    Orders are then refused, so that the trial would tell of the refusals.
    """
    found: list[str] = []
    heading = ""
    for line in _lines(logs):
        said = _STORE.search(line)
        words = f"{heading}: {line}" if heading else said[0] if said else ""
        heading = begun[0] if (begun := _STORE_HEADING.search(line)) else ""
        if words and words not in found:
            found.append(words)
            if len(found) == _KEPT:
                break
    if found:
        raise blamed(
            Evidence(Event.REFUSED),
            f"{server} cannot keep messages: {found[0].rstrip('.')}; is there room where"
            " server.messaging.store_place puts them?",
            "\n".join(found),
        )


def _lines(logs: Iterable[Path]) -> Iterator[str]:
    for path in logs:
        files = sorted(path.rglob("*.log")) if path.is_dir() else [path]
        for file in files:
            with file.open(encoding="utf-8", errors="replace") as stream:
                for line in stream:
                    yield line.strip()[:_WIDTH]
