"""Unified GC logs (JEP 158, JEP 271) of JDK 11 to 25 into events.

Written from logs of the collectors themselves; tests hold it against the JVM's flight recorder, collection by
collection. Whatever looks like a pause and is not understood is kept in ``GcLog.unknown``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

from leadline.gcanalysis.events import (
    EVENTS,
    Cleanup,
    Cycle,
    GcCpu,
    GcLog,
    Heap,
    Jvm,
    Pause,
    Phase,
    Safepoint,
    Sign,
    Stall,
)
from leadline.model.errors import UsageError
from leadline.model.units import rounded
from leadline.observe.gclog import patterns as known
from leadline.observe.gclog.decorators import Line, Splitter
from leadline.observe.gclog.order import SLACK as _SLACK
from leadline.observe.gclog.order import check_physics, put_in_order
from leadline.observe.gclog.patterns import (
    decimal,
    first_group,
    heap_of,
    matters,
    may_be_sign,
    optional,
    split_groups,
    to_bytes,
    whole,
)

_SKIPPED_TAGS = frozenset(("stats",))
_LONGEST = 1000  # characters of a message; the JVM's own have some hundreds
_MOST = 4_000_000  # events: a few GB of a log, and of memory
_ROUNDED = 0.002  # s; a time in the log is a whole millisecond
_BESIDE = 8  # collections that may be under way beside one another
_SAME_START = 0.25  # s; uptime and wall clock of one JVM agree on when it began, but for steps of the clock
_TORN = 3  # collections out of place, for several JVMs at once to be believed
_ENOUGH = 10  # pauses
_ONLY = (
    (re.compile(r"(?:Garbage|Minor|Major) Collection|Pause Relocate Start|Pause Mark (?:Start|End)"), "Z"),
    (re.compile(r"Pause (?:Init|Final) (?:Mark|Update Refs|Evac)|Pause Degenerated"), "Shenandoah"),
    (re.compile(r"G1 |Concurrent (?:Mark |Undo )?Cycle|\(Normal\)|\(Prepare Mixed\)"), "G1"),
)
_LEAP = 60.0  # s
_ID = re.compile(r"GC\((\d+)\) ")
_HALF = re.compile(r" \d{1,12}[.,]\d{1,9}ms$")
_OF_A_PAUSE = re.compile(
    r"GC\(\d+\) (?:[YyOo]: )?(?:Pause|$)|\d[KMG](?:\(\d+%\))?->\d+[KMG]|"
    r"\bPause (?:Young|Full|Remark|Cleanup|Mark|Relocate|Init|Final|Degenerated)\b"
)


def parse_lines(lines: Iterable[str]) -> GcLog:
    """Events of lines that still have their line ends; those of a rotated log one file after the other."""
    reader = Reader()
    for text in lines:
        reader.take(text)
        if not reader.log.lines & 0xFFFF:
            bounded(reader.log)
    return reader.finish()


def bounded(log: GcLog) -> None:
    """Raises UsageError for a log with more events than memory is meant for."""
    events = sum(len(getattr(log, name)) for name in EVENTS) + len(log.jvms)
    if events + sum(len(jvm.ids) for jvm in log.jvms) > _MOST:
        raise UsageError(f"the log has more than {_MOST} events in its first {log.lines} lines: read it in parts")


class Reader:
    """Takes a log line by line; ``finish`` gives what it says."""

    def __init__(self) -> None:
        self.log = GcLog(format="unified log of HotSpot (JDK 9 and later)")
        self._splitter = Splitter()
        self._split = self._splitter.split
        self._line = Line(None, None, frozenset(), "")
        self._at = 0.0
        self._last = ""
        self._current = 0
        self._states: list[_State] = []
        self._state = _State()

    def take(self, text: str) -> None:
        """The next line."""
        self.log.lines += 1
        self._last = text
        told = may_be_sign(text)
        if told or matters(text) or not self.log.jvms or (not self.log.pauses and "GC(" in text):
            try:
                self._read(text, told)
            except (ValueError, OverflowError):  # a number without sense
                self._damaged(text)
            return
        self.log.understood += self._splitter.belongs(text)
        if " secs]" in text or "<exclusive-end" in text:
            self._another_format(text)

    def _another_format(self, text: str) -> None:
        """JDK 8 or OpenJ9 has written into this log too."""
        if known.OF_JDK_8.search(text, 0, _LONGEST) or known.OF_OPENJ9.search(text, 0, _LONGEST):
            self.log.not_known(self.log.lines, text)

    def _read(self, text: str, told: bool) -> None:
        line = self._split(text)
        if told and (sign := known.sign_of(text.strip() if line is None else line.message)):
            self._sign(line, *sign)
        if line is None:
            if not self.log.jvms:
                self._splitter.defer(text)
            self._foreign(text)
            return
        self.log.understood += 1 if self.log.jvms else 1 + self._splitter.recall()
        self._line = line
        tags, message = line.tags, line.message
        if len(message) > _LONGEST:
            self._damaged(text)
            return
        ours = not tags or "gc" in tags or "safepoint" in tags
        self._clock(line, ours and "Using " in message and known.USING.fullmatch(message) is not None)
        if not ours or tags & _SKIPPED_TAGS:
            return
        if message.startswith("GC("):
            numbered = _ID.match(message)
            if numbered:
                self.log.jvms[self._current].ids.add(whole(numbered[1]))
        if "Pause" in message and known.PAUSE_AT_ALL.match(message):
            self._pause(message, text)
        elif message.startswith(("Safepoint", "Total time", "Entering")):
            self._safepoint(message)
        elif "start" in tags:
            self._start(message)
        else:
            self._other(message)

    def _sign(self, line: Line | None, name: str, value: str) -> None:
        """What a line tells besides pauses, at its own time or that of the line before."""
        at, unix = self._at, None
        if line is not None:
            at, unix = (line.uptime if line.uptime is not None else at), line.unix
        if name == "humongous":  # regions to bytes
            value = str(whole(value) * (self._state.region or 0))
        self.log.signs.append(Sign(at, unix, max(0, self._current), name, value, self.log.lines))

    def _foreign(self, text: str) -> None:
        """A line without decorators: a program's own, or half of one of ours."""
        if not text.strip():
            return
        self.log.foreign += 1
        self._another_format(text)
        # Half a line shows by its end: a pause's time, with the heap or the collection's number before it.
        if self.log.jvms and _HALF.search(text[-_LONGEST:].rstrip()) and _OF_A_PAUSE.search(text, 0, _LONGEST):
            self._damaged(text)

    def _damaged(self, text: str) -> None:
        self.log.not_whole(self.log.lines, text)

    def finish(self) -> GcLog:
        """A cut last line is no evidence of an unknown pause."""
        log, last = self.log, self._last
        line = self._split(last)
        if last and not last.endswith("\n"):
            log.truncated = True
            for lines in (log.unknown, log.damaged):
                if lines and lines[-1].number == log.lines:
                    lines.pop()
        elif line is not None and log.jvms:
            self._clock(line, False)
        for number, state in enumerate(self._states):
            self._name_collector(number)
            if log.jvms[number].collector in ("Shenandoah", ""):
                log.cycles.extend(state.shenandoah.values())
        log.cycles.sort(key=lambda cycle: (cycle.jvm, cycle.at))
        put_in_order(log, [state.used for state in self._states])
        self._leaps()
        log.timeless = bool(log.jvms) and all(jvm.last == 0.0 and jvm.first_unix is None for jvm in log.jvms)
        if _alternate(log):
            log.alternating = log.timeless = True
        elif self._mixed:
            log.notes.append("lines of several JVMs alternate; the time at which each began distinguishes them")
        check_physics(log)
        return log

    _mixed = False

    def _name_collector(self, number: int) -> None:
        """Of a log that has not its beginning: by what only one collector does."""
        jvm = self.log.jvms[number]
        words = [] if jvm.collector else [c.kind for c in self.log.cycles if c.jvm == number][:_ENOUGH]
        words += [] if jvm.collector else [p.kind for p in self.log.pauses if p.jvm == number][:_ENOUGH]
        jvm.collector = jvm.collector or next((who for form, who in _ONLY if any(map(form.search, words))), "")

    def _clock(self, line: Line, using: bool) -> None:
        """Follow the uptime; a JVM that starts over is a new one. Threads' lines may be a little out of order."""
        if line.number and line.uptime is None and line.number != self._state.number:
            self._by_number(line, using)
        jvms, origin = self.log.jvms, self._state.began
        at = line.uptime
        if at is None and line.unix is not None:  # no such decorator, or a damaged one
            self._state.wall_alone = origin is None
            at = line.unix - (origin if origin is not None else self._state.shift)
            if origin is None and not using and jvms and at < jvms[self._current].last - _SLACK:
                at = self._set_back(line, at)
        if at is None:
            at = self._at if jvms else 0.0
        began = line.unix - line.uptime if line.unix is not None and line.uptime is not None else None
        state = self._state
        if not jvms:
            self._new_jvm(at, line.unix, began)
        elif began is not None and state.began is not None:
            if abs(began - state.began) > _SAME_START:
                self._other_jvm(at, line.unix, began)
            elif using and state.used and at < 1.0:
                self._new_jvm(at, line.unix, began)
            else:
                state.began = began  # follows a clock that is being slewed
        elif at < jvms[self._current].last - (0.0 if using else _SLACK) or (using and state.used):
            self._new_jvm(at, line.unix, began)
        if using:
            self._state.used = True
        jvm = jvms[self._current]
        if at >= jvm.last:
            jvm.last, jvm.last_unix = at, line.unix
        elif at < jvm.first:
            jvm.first, jvm.first_unix = at, line.unix
        self._at = at

    def _by_number(self, line: Line, using: bool) -> None:
        """The JVM by its process number. A number is one where it began with what its JVM uses; else of a thread."""
        for place, state in enumerate(self._states):
            if state.number == line.number:
                self._current, self._state, self._mixed = place, state, True
                return
        if not using:
            return
        if self._state.number or not self.log.jvms:
            self._new_jvm(line.unix or 0.0, line.unix, None)
        self._state.number = line.number

    def _set_back(self, line: Line, at: float) -> float:
        """The time by a wall clock alone that went back: collections that count on are of the same JVM."""
        jvm = self.log.jvms[self._current]
        numbered = _ID.match(line.message)
        if numbered and jvm.ids:
            behind = max(jvm.ids) - whole(numbered[1])
            if behind > _BESIDE or (behind > 0 and "Pause" in line.message):  # began anew, or a line out of place
                return at
        self._state.shift -= jvm.last - at
        where = f" at collection {numbered[1]}" if numbered else ""
        note = f"the wall clock was set back by {jvm.last - at:.1f} s{where}: times count on from there"
        self._note(note)
        return jvm.last

    def _set_forward(self, gc_id: int, ms: float) -> None:
        """By a wall clock alone a pause took far longer than it says: the clock was set, and times go on from there."""
        state, jvm = self._state, self.log.jvms[self._current]
        step = self._at - state.stopped[1] - ms / 1e3
        if gc_id != state.stopped[0] or self._line.uptime is not None or self._line.unix is None or step <= _SLACK:
            return
        state.shift += step
        self._at -= step
        jvm.last = self._at
        self._note(f"the wall clock was set forward by {step:.1f} s in collection {gc_id}: times count on from there")

    def _note(self, text: str) -> None:
        if len(self.log.notes) < 20:
            self.log.notes.append(text)

    def _leaps(self) -> None:
        """Rests far beyond all others in a log that has a wall clock alone: the clock may have been set forward."""
        for number, state in enumerate(self._states):
            pauses = [pause for pause in self.log.pauses if pause.jvm == number]
            if not state.wall_alone or len(pauses) < _ENOUGH:
                continue
            rests = sorted((other.at - pause.at, pause.gc_id) for pause, other in pairwise(pauses))
            usual = rests[len(rests) * 9 // 10 - 1][0]
            for rest, gc_id in rests[::-1]:
                if rest <= max(_LEAP, 50 * usual):
                    break
                after = "" if gc_id is None else f" after collection {gc_id}"
                self._note(
                    f"no pause for {rest:.0f} s{after}, others came within {rounded(usual, 3)} s: if the wall clock "
                    f"was set forward there, the log is shorter by that; the decorator uptime would tell"
                )

    def _other_jvm(self, at: float, unix: float | None, began: float) -> None:
        """One that has written before and began then, or a new one; a stepped clock is neither."""
        for number, state in enumerate(self._states):
            if state.began is not None and abs(began - state.began) <= _SAME_START:
                self._current, self._state = number, state
                self._mixed = True
                return
        last = self.log.jvms[self._current].last
        if last - _SLACK <= at <= last + _SLACK and at > 5.0:  # uptime goes on: the wall clock was stepped
            self._state.began = began
        else:
            self._new_jvm(at, unix, began)

    def _new_jvm(self, at: float, unix: float | None, began: float | None) -> None:
        self.log.jvms.append(Jvm(first=at, last=at, first_unix=unix, last_unix=unix))
        self._current = len(self.log.jvms) - 1
        self._state = _State(began)
        self._states.append(self._state)

    def _pause(self, message: str, text: str) -> None:
        jvm, tags = self.log.jvms[self._current], self._line.tags
        match = known.PAUSE.fullmatch(message)
        if match is None and known.STATISTICS.match(message):  # Shenandoah's table of a cycle's phases
            return
        if match is None and (known.SPLICED.search(message) or not message.isprintable() or "\ufffd" in message):
            self._damaged(text)
            return
        if match is None and ("start" in tags or known.BEGINNING.fullmatch(message)):
            numbered = _ID.match(message)
            if numbered:
                jvm.begun[whole(numbered[1])] = self.log.lines
                self._state.stopped = whole(numbered[1]), self._at
            return
        if match is None or match["name"] not in known.PAUSES:
            self.log.not_known(self.log.lines, text)
            return
        ms, up = decimal(match["ms"]), self._line.uptime
        if up is not None and ms > 1e3 * (up + _SLACK):  # longer than the JVM has run
            self._damaged(text)
            return
        gc_id = optional(match["id"])
        if gc_id is not None:
            self._set_forward(gc_id, ms)
        name, groups = known.OF_NATIVE_IMAGES.get(match["name"], match["name"]), match["groups"].strip()
        generation = f"{match['generation']}: " if match["generation"] else ""
        kind = f"{generation}Pause {match['name']} {groups}".strip()
        if gc_id is not None and up is None and name in known.CAUSED and jvm.collector not in ("Z", "Shenandoah"):
            if gc_id < self._state.counted:  # no uptime tells that a JVM has started over, but its collections do
                self._new_jvm(self._at, self._line.unix, None)
                jvm = self.log.jvms[self._current]
                jvm.ids.add(gc_id)
            self._state.counted = gc_id
        promoted = None
        if gc_id is not None:
            jvm.begun.pop(gc_id, None)
            grown = self._state.old.pop(gc_id, None)
            promoted = max(0, grown) if grown is not None and name == "Young" and "(Mixed)" not in groups else None
        pause = Pause(
            at=self._at,
            unix=self._line.unix,
            jvm=self._current,
            gc_id=gc_id,
            kind=kind,
            name=name,
            cause=self._cause(name, groups, gc_id),
            ms=ms,
            heap=heap_of(match),
            promoted=promoted,
            line=self.log.lines,
        )
        inner = self.log.pauses[-1] if self.log.pauses else None
        if inner is not None and _turned_full(pause, inner):
            self.log.pauses[-1] = replace(inner, at=pause.at, unix=pause.unix, ms=ms, heap=_around(pause, inner))
        else:
            self.log.pauses.append(pause)

    def _cause(self, name: str, groups: str, gc_id: int | None) -> str:
        if name in known.CAUSED:
            for group in split_groups(groups):
                if group not in known.G1_TYPES:
                    return group
        if name in ("Degenerated GC", "Full"):
            return self._state.cancelled
        return self._state.causes.get(gc_id, "") if gc_id is not None else ""

    def _safepoint(self, message: str) -> None:
        state = self._state
        if match := known.SAFEPOINT.fullmatch(message):
            reaching, total = whole(match["reaching"]) / 1e6, whole(match["total"]) / 1e6
            operation = match["operation"]
        elif match := known.ENTERING.fullmatch(message):
            state.operation = match["operation"]
            return
        elif match := known.STOPPED.fullmatch(message):
            reaching, total = decimal(match["reaching"]) * 1e3, decimal(match["total"]) * 1e3
            operation = state.operation
        else:
            return
        self.log.safepoints.append(
            Safepoint(self._at, self._line.unix, self._current, operation, reaching, total, self.log.lines)
        )

    def _start(self, message: str) -> None:
        """The line at the beginning of a concurrent collection (its end is ``_other``'s)."""
        match = known.COLLECTION.fullmatch(message)
        if match and match["id"]:
            self._begin(whole(match["id"]), first_group(match["groups"]))

    def _begin(self, gc_id: int, cause: str) -> None:
        self._state.start_of.setdefault(gc_id, self._at)
        if cause:
            self._state.causes[gc_id] = cause

    def _other(self, message: str) -> None:
        body = message
        if message.startswith("GC("):
            body = message[message.find(" ") + 1 :]
            if body[1:3] == ": ":  # a generation of ZGC
                body = body[3:]
        first = body.partition(" ")[0]
        if first.startswith("User="):
            if match := known.CPU.fullmatch(message):
                user, system, real = (decimal(match[name]) for name in ("user", "sys", "real"))
                unix = self._line.unix
                self.log.cpu.append(GcCpu(self._at, unix, self._current, optional(match["id"]), user, system, real))
        elif (handle := self._HANDLERS.get(first)) is not None:
            handle(self, message)
        elif match := known.Z_ROW.fullmatch(message):
            self._row(match)
        elif match := known.CAPACITY.fullmatch(message):
            self._state.capacity = to_bytes(match["total"], match["total_unit"])
        elif match := known.MAXIMUM.fullmatch(message):
            self.log.jvms[self._current].heap_max = to_bytes(match["total"], match["total_unit"])

    def _old(self, message: str) -> None:
        state = self._state
        if match := known.OLD.match(message):
            state.old[whole(match["id"])] = (whole(match["after"]) - whole(match["before"])) << 10
        elif state.region and (match := known.OLD_REGIONS.match(message)):
            state.old[whole(match["id"])] = (whole(match["after"]) - whole(match["before"])) * state.region

    def _beside(self, message: str) -> None:
        log = self.log
        if match := known.COLLECTION.fullmatch(message):
            self._collection(match)
        elif match := known.MARK_CYCLE.fullmatch(message):
            if match["ms"] and match["id"]:
                number, ms = whole(match["id"]), decimal(match["ms"])
                log.cycles.append(Cycle(self._at, self._line.unix, self._current, number, match["name"], "", ms))
        elif match := known.PHASE.fullmatch(message):
            ms = decimal(match["ms"])
            generation = f"{match['generation']}: " if match["generation"] else ""
            kind = f"{generation}Concurrent {match['name']}"
            log.phases.append(Phase(self._at, self._line.unix, self._current, kind, ms))
            if log.jvms[self._current].collector in ("Shenandoah", "") and not generation:
                self._shenandoah_phase(match)

    def _stall(self, message: str) -> None:
        if match := known.STALL.fullmatch(message):
            unix, ms = self._line.unix, decimal(match["ms"])
            self.log.stalls.append(
                Stall(self._at, unix, self._current, match["kind"], match["thread"], ms, self.log.lines)
            )

    def _said(self, message: str) -> None:
        """What the JVM says of itself."""
        jvm = self.log.jvms[self._current]
        if match := known.USING.fullmatch(message):
            jvm.collector = match["name"].replace("Concurrent Mark Sweep", "CMS")
        elif match := known.VERSION.fullmatch(message):
            jvm.version = match["version"]
        elif match := known.REGION_SIZE.fullmatch(message):
            self._state.region = to_bytes(match["size"], match["unit"])
        elif match := known.MAXIMUM.fullmatch(message):
            jvm.heap_max = to_bytes(match["total"], match["total_unit"])
        elif match := known.CANCELLED.fullmatch(message):
            self._state.cancelled = match["cause"]

    # By the first word behind the collection's number.
    _HANDLERS: ClassVar[Mapping[str, Callable[[Reader, str], None]]] = {
        **dict.fromkeys(("Old", "Tenured:", "ParOldGen:", "PSOldGen:", "CMS:"), _old),
        **dict.fromkeys(("Garbage", "Minor", "Major", "Concurrent"), _beside),
        **dict.fromkeys(("Allocation", "Relocation", "Page"), _stall),
        **dict.fromkeys(("Using", "Version:", "Heap", "Max", "Cancelling"), _said),
    }

    def _row(self, match: re.Match[str]) -> None:
        """Live bytes stand under the end of marking, the others under the end of the collection."""
        cells = known.Z_CELL.findall(match["columns"])
        if cells:
            number, unit = cells[0 if match["name"] == "Live" else -1]
            rows = self._state.rows.setdefault(whole(match["id"]), {})
            rows[match["name"]] = rows.get(match["name"], 0) + to_bytes(number, unit)

    def _collection(self, match: re.Match[str]) -> None:
        """ZGC: the first line of a collection in JDK 21 and later has no tag of its own, the last has the heap."""
        if not match["id"]:
            return
        gc_id, cause, state = whole(match["id"]), first_group(match["groups"]), self._state
        heap = heap_of(match)
        if heap is None:
            self._begin(gc_id, cause)
            return
        began = state.start_of.pop(gc_id, None)
        if began is not None:
            ms: float | None = (self._at - began) * 1e3
        else:
            ms = decimal(match["s"]) * 1e3 if match["s"] else None
        rows = state.rows.pop(gc_id, {})
        self.log.cycles.append(
            Cycle(
                at=self._at,
                unix=self._line.unix,
                jvm=self._current,
                gc_id=gc_id,
                kind=match["name"],
                cause=cause,
                ms=ms,
                heap=Heap(heap.before, heap.after, heap.total or state.capacity),
                live=rows.get("Live") if match["name"] != "Minor Collection" else None,
                reclaimed=rows.get("Reclaimed"),
                promoted=rows.get("Promoted"),
            )
        )

    def _shenandoah_phase(self, match: re.Match[str]) -> None:
        """Shenandoah has no line for a whole cycle: it is the time from its first phase to its last."""
        if not match["id"]:
            return
        gc_id, state = whole(match["id"]), self._state
        groups = split_groups(match["groups"])
        generation = next((group for group in groups if group in ("Young", "Old", "Global")), "")
        kind = f"Shenandoah Cycle ({generation})" if generation else "Shenandoah Cycle"
        heap, before = heap_of(match), state.shenandoah.get(gc_id)
        began = state.start_of.setdefault(gc_id, self._at - decimal(match["ms"]) / 1e3)
        if heap and match["name"] == "cleanup":
            again = before is not None and before.heap is not None
            self.log.cleanups.append(Cleanup(self._at, self._line.unix, self._current, gc_id, heap, again))
        if before is not None:
            kind = before.kind if "(" in before.kind else kind
            first = before.heap
            heap = Heap(first.before if first else heap.before, heap.after, heap.total) if heap else first
        ms = (self._at - began) * 1e3
        state.shenandoah[gc_id] = Cycle(self._at, self._line.unix, self._current, gc_id, kind, "", ms, heap)


def _turned_full(pause: Pause, inner: Pause) -> bool:
    """Whether a young collection became the full one that was logged before it has ended: one stop (Serial, JDK 11)."""
    return (
        pause.name == "Young"
        and inner.name == "Full"
        and pause.jvm == inner.jvm
        and pause.gc_id is not None
        and inner.gc_id == pause.gc_id + 1
        and pause.ms >= inner.ms
        and inner.begin >= pause.begin - _ROUNDED
    )


def _around(pause: Pause, inner: Pause) -> Heap | None:
    """The heap before the whole stop and after it."""
    if pause.heap is None or inner.heap is None:
        return pause.heap or inner.heap
    return Heap(pause.heap.before, inner.heap.after, inner.heap.total)


def _alternate(log: GcLog) -> bool:
    """Several JVMs wrote line by line: collections are numbered twice in one, or their numbers begin again and again
    somewhere above zero.
    """
    keys_seen: set[tuple[int, int | None, str]] = set()
    twice = 0
    for pause in log.pauses:
        # A major collection of generational ZGC may collect the young generation twice.
        if pause.gc_id is not None and pause.name in known.ONCE and not pause.kind.startswith("Y: "):
            key = (pause.jvm, pause.gc_id, pause.kind.partition(" (")[0])
            twice += key in keys_seen
            keys_seen.add(key)
    pieces = sum(1 for jvm in log.jvms[1:] if jvm.ids and min(jvm.ids) > 0)
    return twice >= _TORN or (pieces >= _TORN and 2 * pieces >= len(log.jvms))


class _State:
    """What earlier lines of one JVM said that later ones need. ``began``: unix seconds of its start."""

    def __init__(self, began: float | None = None) -> None:
        self.began = began
        self.shift = 0.0  # s that a wall clock without uptime was set back, in unix seconds of the log
        self.stopped = (-1, 0.0)  # the collection whose pause began last, and when
        self.wall_alone = False
        self.counted = -1  # the last collection that stopped the application from its beginning to its end
        self.number = ""  # of its process, where the log has no uptime
        self.used = False  # it has said which collector it uses
        self.start_of: dict[int, float] = {}  # a cycle's id -> uptime
        self.causes: dict[int, str] = {}
        self.cancelled = ""
        self.capacity: int | None = None
        self.region: int | None = None  # bytes
        self.operation = ""
        self.old: dict[int, int] = {}  # growth of the old generation in a collection
        self.rows: dict[int, dict[str, int]] = {}
        self.shenandoah: dict[int, Cycle] = {}
