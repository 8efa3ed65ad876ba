"""GC logs through a library: GCViewer, for formats that no reader of ours knows and as a second opinion.

It runs in a process of its own (LGPL), for root as a user of its own; what it misses of the formats that leadline
reads itself is in docs/guides/gc.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leadline.gcanalysis.events import Events, GcLog, Heap, Jvm, Pause, Safepoint
from leadline.host import here
from leadline.host.jvm import java_environment
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.received import from_json
from leadline.observe.gclog.files import LogFiles

VERSION = "1.36"
_SOURCE = Path(__file__).with_name("GcViewerEvents.java")
_PATIENCE = 600.0  # s


def parse_files(log: LogFiles, java: Path, jar: Path) -> GcLog:
    """Events that GCViewer finds; ``java``: a JDK's home. Raises UsageError when it finds none, LeadlineError when
    it fails.
    """
    unread = [str(part) for part in log.parts if not part.is_file()]
    if unread:
        raise UsageError(f"{unread[0]}: GCViewer reads files only; save it first")
    parts = [part.absolute() for part in log.parts]
    command = [str(java / "bin" / "java"), "-Xmx2g", "-cp", str(jar), str(_SOURCE), *map(str, parts)]
    try:
        done = here.alone(command, [java, jar, _SOURCE, *parts], timeout=_PATIENCE, env=java_environment())
    except TimeoutError:
        raise LeadlineError(f"{log.name}: GCViewer {VERSION} did not read it within {_PATIENCE:g} s") from None
    if done.returncode:
        message = next((line for line in done.stderr.splitlines() if "Exception" in line or "Error" in line), "")
        raise UsageError(
            f"{log.name}: GCViewer {VERSION} does not read it: {message.strip() or done.stderr.strip()[:300]}"
        )
    return events(done.stdout.splitlines(), log.name)


def events(lines: list[str], name: Path) -> GcLog:
    """What ``GcViewerEvents`` printed as a log of one JVM. Raises UsageError for a log without any event."""
    log, jvm = GcLog(format=f"read by GCViewer {VERSION}"), Jvm(version="")
    log.notes.append(f"read by GCViewer {VERSION}")
    complaints, first = 0, ""
    rows: list[Pause | Safepoint] = []
    for text in lines:
        if not text.startswith("{"):
            continue  # a library's own word
        document: Mapping[str, Any] = from_json(text)
        if "complaint" in document:
            first = first or document["complaint"]
        elif "complaints" in document:
            complaints += document["complaints"]
        else:
            rows += _event(log, jvm, document)
    log.pauses = Events.of(Pause, [row for row in rows if isinstance(row, Pause)])
    log.safepoints = Events.of(Safepoint, [row for row in rows if isinstance(row, Safepoint)])
    if not log.pauses and not log.safepoints:
        why = f": {first}" if first else ""
        raise UsageError(f"{name}: GCViewer {VERSION} finds no pause in it{why}")
    if complaints:
        log.notes.append(f"GCViewer could not read all of it and complained {complaints} times: {first}")
    log.jvms.append(jvm)
    log.timeless = not log.pauses["at"].any()
    return log


def _event(log: GcLog, jvm: Jvm, found: Mapping[str, Any]) -> list[Pause | Safepoint]:
    ms = float(found["ms"])
    if not math.isfinite(ms) or ms < 0:
        log.notes.append(f"GCViewer made a pause of {ms} ms of a line ({found['type']}); it is left out")
        return []
    unix = found["unix"] + ms / 1e3 if found["unix"] is not None else None
    begin = found["at"] if found["at"] is not None else found["unix"]
    at = begin + ms / 1e3 if begin is not None else 0.0
    if not jvm.last:
        jvm.first, jvm.first_unix = at, unix
    if at >= jvm.last:
        jvm.last, jvm.last_unix = at, unix
    if found["operation"]:  # GCViewer's own sums count a collection and the stop around it as two pauses
        return [Safepoint(at, unix, 0, "", 0.0, ms)]
    name = "Young"
    for key, word in (("full", "Full"), ("remark", "Remark"), ("mark", "Initial Mark")):
        if found[key]:
            name = word
            break
    heap = Heap(found["before"], found["after"], found["total"]) if found["total"] or found["before"] else None
    return [Pause(at, unix, 0, None, f"Pause {name} ({found['type']})", name, "", ms, heap)]
