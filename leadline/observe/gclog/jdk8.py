"""GC logs of JDK 8 (``-XX:+PrintGCDetails``, with ``PrintGCDateStamps`` or ``PrintGCTimeStamps``) into events.

Unlike today's logs, a record carries the time at which it began, and other threads write into the middle of it. Names
are those of the unified log, so that figures of both can be laid side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from leadline.gcanalysis.events import GcCpu, GcLog, Heap, Jvm, Pause, Safepoint, Sign
from leadline.observe.gclog.decorators import wall_clock
from leadline.observe.gclog.order import check_physics, put_in_order
from leadline.observe.gclog.parser import bounded
from leadline.observe.gclog.patterns import OF_OPENJ9, OF_UNIFIED, UNITS, decimal, sign_of, to_bytes, whole

# Repetitions have bounds: whatever a line holds, looking at it takes time in proportion to its length.
_STAMP = r"(?:(?P<wall>\d{4}-\d\d-\d\dT[\d:.,]{8,20}[+-]\d{4}): )?(?:(?P<up>\d{1,12}[.,]\d{1,9}): )?"
_DECIMAL = r"(\d{1,16}(?:[.,]\d{1,9})?)"
_RECORD = re.compile(
    _STAMP + r"(?:#\d{1,9}: )?\[(?P<what>Full GC|Incremental GC|GC pause|GC remark|GC cleanup|GC--|GC)(?P<rest>.*)"
)
_ANY = re.compile(_STAMP + r"(?P<rest>.*)")
_BEGINS = re.compile(
    _STAMP + r"(?:#\d{1,9}: )?\[(?:Full |Incremental )?GC"
)  # of JDK 7 the next word may follow without a space
# A thread beside the application was still writing its line when the record began, or writes one into it.
_WITHIN = re.compile(
    r"(?:\d{4}-\d\d-\d\dT[\d:.,]{8,20}[+-]\d{4}: )?\d{1,12}[.,]\d{1,9}: (?:#\d{1,9}: )?"
    r"\[(?:Full GC|GC)(?=[ -](?:\(|pause|remark|cleanup|-)| ?\[|\d)"
)
_BESIDE = re.compile(_STAMP + r"(?:#\d{1,9}: )?\[(?:GC |CMS-)concurrent-[^\[\]]*\](?: \[Times: [^\]]*\])?\s*")
_ADDRESSES = re.compile(r"\[0x[^\[\]()]*\)")  # of -XX:+PrintHeapAtGC, half open: no bracket of a record
_REMARK = re.compile(_STAMP + r"(?:#\d{1,9}: )?\[GC[^\[\]]*\[YG occupancy")
_SCAVENGED = "[young]"
_HEADER = re.compile(r".* Server VM \((?P<vm>[^)]+)\) for .* JRE \((?P<version>[^)]+)\)")
_SECONDS = re.compile(r"(\d{1,12}[.,]\d{1,9}) secs *\]?$")
_HEAP = re.compile(r"(\d{1,16})([BKMG])->(\d{1,16})([BKMG])(?:\((\d{1,16})([BKMG])\))?")  # a native image: no size
_OLD = re.compile(r"\[(?:Tenured|CMS|PSOldGen|ParOldGen)[^\[\]]*?: \d+K->\d+K")  # a collection of all of the heap
_HISTOGRAM = re.compile(r" num +#instances|-{20}|\s*\d{1,9}: +\d{1,16} +\d{1,16} +\S|Total +\d{1,16} +\d{1,16}\s*$")
_NATIVE_TIME = re.compile(r"\[\[(\d{6,19}) GC: before ")  # ns, of a native image with -XX:+VerboseGC
_G1_HEAP = re.compile(rf"Heap: {_DECIMAL}([BKMG])\([\d.,]+[BKMG]\)->{_DECIMAL}([BKMG])\({_DECIMAL}([BKMG])\)")
_YOUNG = re.compile(r"\[(?:PSYoungGen|DefNew|ParNew)[^\[\]]*?: (\d+)K->(\d+)K\(")
_TIMES = re.compile(rf"\[Times: user={_DECIMAL} sys={_DECIMAL}, real={_DECIMAL} secs\]")
_STOPPED = re.compile(
    rf"Total time for which application threads were stopped: {_DECIMAL} seconds"
    rf"(?:, Stopping threads took: {_DECIMAL} seconds)?"
)
_INSIDE = re.compile(r"(?:[\dT:.,+-]{1,30}: ){0,2}\[(?:GC |CMS-)concurrent-[^\[\]]*\]|\[Times: [^\[\]]*\]")
_INNER = re.compile(r"\[[^\[\]]*\]")
_GROUP = re.compile(r"\s*\(((?:[^()]|\([^()]*\))*)\)")
_G1_KINDS = {"young": "Normal", "mixed": "Mixed", "initial-mark": "Concurrent Start"}
_FAILURES = ("concurrent mode failure", "promotion failed")
_USES = (("PSYoungGen", "Parallel"), ("ParNew", "CMS"), ("CMS", "CMS"), ("DefNew", "Serial"), ("GC pause", "G1"))
_LONGEST = 200  # lines that one record may go over
_WIDEST = 8192  # characters of a line
_DEEPEST = 50  # brackets inside one another
_BRACKET = re.compile(r"[\[\]]")
# Lines beside the records: details of G1, the heap's state, what the JVM says of itself, CMS's own threads.
_DETAIL = re.compile(
    r"\s|\[|\d{1,12}[.,]\d{1,9}: |\d{4}-\d\d-\d\dT|Heap|\{Heap|\}|"
    r"Memory:|CommandLine|Desired|- age|: \d|, \d|Total time"
)


def recognises(lines: Sequence[str]) -> bool:
    """Whether these first lines of a log are in this format."""
    return any(_BEGINS.match(text) or _HEADER.match(text) for text in lines)


def parse_lines(lines: Iterable[str]) -> GcLog:
    """Events of a log's lines."""
    reader = _Reader()
    reader.log.format = "JDK 7 and 8 (-XX:+PrintGCDetails)"
    text = ""
    for text in lines:
        reader.log.lines += 1
        if not reader.log.lines & 0xFFFF:
            bounded(reader.log)
        if len(text) > _WIDEST:
            reader.damaged(text)
            continue
        try:
            reader.read(text)
        except (ValueError, OverflowError):  # a number without sense
            reader.damaged(text)
    reader.end()
    reader.log.truncated = bool(text) and not text.endswith("\n")
    log = reader.log
    if log.truncated and log.unknown and log.unknown[-1].number >= log.lines - _LONGEST:
        log.unknown.pop()
    put_in_order(log, [bool(jvm.version) for jvm in log.jvms])
    log.timeless = bool(log.jvms) and all(jvm.last == 0.0 for jvm in log.jvms)
    check_physics(log)
    return log


class _Reader:
    def __init__(self) -> None:
        self.log = GcLog()
        self._begin("")
        self._line = 0
        self._native: float | None = None  # s, when the next collection of a native image began
        self._around: tuple[str, int] | None = None  # a remark whose young collection is being read

    def _begin(self, text: str) -> None:
        self._open = text  # a record that is not complete yet
        self._line_bound = 0  # lines of histograms in it
        self._place = self._depth = 0  # up to where its brackets were counted, and how many are open there

    def read(self, text: str) -> None:
        self.log.understood += bool(self._open) or _DETAIL.match(text) is not None
        header = _HEADER.match(text) if "Server VM (" in text else None
        if header:
            self.log.understood += 1
            self.end()
            self.log.jvms.append(Jvm(version=header["version"]))
            return
        if "GC: before" in text and (native := _NATIVE_TIME.match(text)):
            self._native = whole(native[1]) / 1e9
        if self._open:
            if _HISTOGRAM.match(text):  # of a full collection; names of classes have brackets of their own
                self._line_bound += 1
                return
            text = _ADDRESSES.sub("", _BESIDE.sub("", text, count=1))
            if not text:
                return
            if _BEGINS.match(text) and self._around is None and _scavenges(self._open, text):
                self._around = self._open, self._line
            elif _BEGINS.match(text) or self.log.lines - self._line > _LONGEST + self._line_bound:
                self.end()
            else:
                self._open += text
                self._complete()
                return
        else:
            within = _WITHIN.search(text)
            if within and not _BEGINS.match(text):
                text = text[within.start() :]
        if _BEGINS.match(text):
            self._begin(text)
            self._line = self.log.lines
            self._complete()
            return
        self._detail(text)

    def damaged(self, text: str) -> None:
        """The record that this line belongs to is lost."""
        self._begin("")
        self._around = None
        self.log.not_whole(self.log.lines, text)

    def end(self) -> None:
        """What is open can no longer become complete."""
        for text, line in (self._around or ("", 0), (self._open, self._line)):
            if _RECORD.match(text):
                self.log.not_known(line, text.split("\n")[0])
        self._begin("")
        self._around = None

    def _closed(self) -> int:
        """Where the first bracket of the open record is closed, behind it; 0 when it is not."""
        for mark in _BRACKET.finditer(self._open, self._place):
            if mark[0] == "[":
                self._depth += 1
            elif self._depth:
                self._depth -= 1
                if not self._depth:
                    return mark.end()
        self._place = len(self._open)
        return 0

    def _complete(self) -> None:
        """Take the records whose brackets are closed; several may stand in one line."""
        while end := self._closed():
            record, rest = self._open[:end].replace("\n", " "), self._open[end:]
            self._begin("")
            if self._around is not None:  # the remark's own time has that of the collection inside
                self._begin(self._around[0] + _SCAVENGED)
                self._line = self._around[1]
                self._around = None
                return
            match = _RECORD.match(record)
            if match and not match["rest"].startswith(" concurrent"):
                self._pause(match, record)
            another = _WITHIN.search(rest)
            if another:
                self._begin(rest[another.start() :])
                rest, self._line = rest[: another.start()], self.log.lines
            self._detail(rest)

    def _jvm(self, at: float, unix: float | None) -> int:
        jvms = self.log.jvms
        if not jvms or at < jvms[-1].last - 1.0:
            jvms.append(Jvm())
        jvm = jvms[-1]
        if not jvm.last:  # its first record: uptime, or nothing but the wall clock
            jvm.first, jvm.first_unix = at, unix
        if at >= jvm.last:
            jvm.last, jvm.last_unix = at, unix
        elif at < jvm.first:
            jvm.first, jvm.first_unix = at, unix
        return len(jvms) - 1

    def _pause(self, match: re.Match[str], record: str) -> None:
        flat = match["rest"].rstrip().removesuffix("]")
        for _ in range(_DEEPEST):
            inner = _INNER.sub("", flat)
            if len(inner) == len(flat):
                break
            flat = inner
        seconds = _SECONDS.search(flat)
        if seconds is None:
            self.log.not_known(self._line, record)
            return
        ms = decimal(seconds[1]) * 1e3
        unix = wall_clock(match["wall"]) if match["wall"] else None
        begin = decimal(match["up"]) if match["up"] else unix if unix is not None else self._native
        at = begin + ms / 1e3 if begin is not None else 0.0
        ended = unix + ms / 1e3 if unix is not None else None
        jvm = self._jvm(at, ended)
        name, kind, cause = _named(match["what"], _leading_groups(flat), record)
        heaps = _HEAP.findall(flat)
        heap = None
        if heaps:
            before, before_unit, after, after_unit, total, unit = heaps[-1]
            size = to_bytes(total, unit) if total else None
            heap = Heap(to_bytes(before, before_unit), to_bytes(after, after_unit), size)
        young = _YOUNG.search(_INSIDE.sub("", record))
        promoted = None
        if heap and young and name == "Young":
            promoted = max(0, (heap.after - whole(young[2]) * 1024) - (heap.before - whole(young[1]) * 1024))
        if not self.log.jvms[jvm].collector:
            self.log.jvms[jvm].collector = next((who for mark, who in _USES if mark in record), "")
        self.log.pauses.append(Pause(at, ended, jvm, None, kind, name, cause, ms, heap, promoted, self._line))

    def _detail(self, text: str) -> None:
        """What follows a record: G1's heap, CPU times, safepoints; pauses in a form that is not read (Shenandoah)."""
        other = ("GC(" in text and OF_UNIFIED.search(text, 0, 1000)) or ("<ex" in text and OF_OPENJ9.search(text))
        if other or ("[Pause " in text and " ms]" in text):
            self.log.not_known(self.log.lines, text)
        if "OutOfMemoryError" in text and (sign := sign_of(text.strip())):
            ended = self.log.jvms[-1].last if self.log.jvms else 0.0
            self.log.signs.append(Sign(ended, None, max(0, len(self.log.jvms) - 1), *sign, self.log.lines))
        if "Heap: " in text and self.log.pauses and self.log.pauses[-1].heap is None:
            match = _G1_HEAP.search(text)
            if match:
                before, after, total = (round(decimal(match[n]) * UNITS[match[n + 1]]) for n in (1, 3, 5))
                self.log.pauses[-1] = replace(self.log.pauses[-1], heap=Heap(before, after, total))
        if "[Times: " in text and self.log.pauses:
            match, last = _TIMES.search(text), self.log.pauses[-1]
            if match:
                user, system, real = (decimal(match[n]) for n in (1, 2, 3))
                self.log.cpu.append(GcCpu(last.at, last.unix, last.jvm, None, user, system, real))
        if "Total time for which" in text:
            match, stamp = _STOPPED.search(text), _ANY.match(text)
            if match and stamp:
                unix = wall_clock(stamp["wall"]) if stamp["wall"] else None
                at = decimal(stamp["up"]) if stamp["up"] else unix
                if at is not None:
                    reaching = decimal(match[2]) * 1e3 if match[2] else 0.0
                    jvm = self._jvm(at, unix)
                    self.log.safepoints.append(Safepoint(at, unix, jvm, "", reaching, decimal(match[1]) * 1e3))


def _scavenges(remark: str, text: str) -> bool:
    """Whether ``text`` begins the young collection inside a remark that is open (-XX:+CMSScavengeBeforeRemark)."""
    if not _REMARK.match(remark) or "[Resc" in remark or _SCAVENGED in remark:
        return False
    return "(CMS Final Remark)" in text or "(CMS Final Remark)" not in remark


def _leading_groups(text: str) -> list[str]:
    """Of ``(a) (b) 1K->2K(3K)`` the first two."""
    leading_groups, place = [], 0
    while group := _GROUP.match(text, place):
        leading_groups.append(group[1])
        place = group.end()
    return leading_groups


def _named(what: str, groups: Sequence[str], record: str) -> tuple[str, str, str]:
    """Name, kind and cause in the words of the unified log."""
    cause = groups[0] if groups else ""
    if what == "GC remark" or cause == "CMS Final Remark" or (not cause and "[YG occupancy" in record):
        return "Remark", "Pause Remark", ""
    if what == "GC cleanup":
        return "Cleanup", "Pause Cleanup", ""
    if cause == "CMS Initial Mark" or (not cause and "CMS-initial-mark" in record):
        return "Initial Mark", "Pause Initial Mark", ""
    if what == "Full GC" or _OLD.search(_INSIDE.sub("", record)):
        cause = next((why for why in _FAILURES if f"({why})" in record), cause)
        return "Full", f"Pause Full ({cause})" if cause else "Pause Full", cause
    if what == "Incremental GC":
        return "Young", f"Pause Incremental GC ({cause})", cause
    types = [_G1_KINDS[group] for group in groups if group in _G1_KINDS]
    causes = [group for group in groups if group not in _G1_KINDS]
    words = [*types[-1:], *causes]
    return "Young", " ".join(["Pause Young", *(f"({word})" for word in words)]), causes[0] if causes else ""
