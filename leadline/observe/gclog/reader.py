"""The compiled reader of GC logs (``driver/gclog``): bytes in, events out."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import leadline
from leadline.gcanalysis.events import KINDS, Events, GcLog, Jvm, UnknownLine, shown
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.received import from_json

LIBRARY = "libleadline_gclog.so"
_PACKAGE = Path(leadline.__file__).parent
_PLACES = (_PACKAGE / "_bin", _PACKAGE.parent / "driver" / "target" / "release")
_TOO_MANY = 1
_CELL = 8  # bytes
_MOST_MEMORY = "more than 16,000,000 events"


@cache
def _library() -> ctypes.CDLL:
    """Raises LeadlineError where it is not built."""
    path = next((place / LIBRARY for place in _PLACES if (place / LIBRARY).is_file()), None)
    if path is None:
        raise LeadlineError(f"{LIBRARY}, which reads GC logs, is not built: `make install`")
    library = ctypes.CDLL(str(path))
    handle, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in (
        ("new", handle, [ctypes.c_bool]),
        ("feed", ctypes.c_int, [handle, ctypes.c_char_p, size]),
        ("part", ctypes.c_int, [handle]),
        ("lines", ctypes.c_uint64, [handle]),
        ("result", handle, [handle, ctypes.c_bool, ctypes.POINTER(size)]),
        ("first", ctypes.c_bool, [handle, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_double)]),
        ("free", None, [handle]),
    ):
        function = getattr(library, f"gclog_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Reading:
    """A log that is being read. ``looking``: its first lines alone."""

    def __init__(self, looking: bool = False) -> None:
        self._library = _library()
        self._handle = self._library.gclog_new(looking)

    def __del__(self) -> None:
        if handle := getattr(self, "_handle", None):
            self._library.gclog_free(handle)

    def feed(self, data: bytes) -> None:
        """The next bytes of a file, in UTF-8. Raises UsageError for a log with too many events."""
        self._check(self._library.gclog_feed(self._handle, data, len(data)))

    def part(self) -> None:
        """A file has ended; another one may follow."""
        self._check(self._library.gclog_part(self._handle))

    def _check(self, code: int) -> None:
        if code == _TOO_MANY:
            lines = self._library.gclog_lines(self._handle)
            raise UsageError(f"the log has {_MOST_MEMORY} in its first {lines} lines: read it in parts")
        if code:
            raise LeadlineError("the reader of GC logs has failed: please report it with the log")

    def first(self) -> tuple[bool, int, float]:
        """Whether the first lines are a collector's, and when they were written: 0 and unix seconds, 1 and uptime, 2
        and the number of a collection, or 3.
        """
        order, value = ctypes.c_int(3), ctypes.c_double()
        is_log = self._library.gclog_first(self._handle, ctypes.byref(order), ctypes.byref(value))
        return bool(is_log), order.value, value.value

    def log(self, last: bool = True) -> tuple[GcLog, dict[str, Any]]:
        """The events so far, and what the reader says besides; not ``last``: it reads on."""
        length = ctypes.c_size_t()
        place = self._library.gclog_result(self._handle, last, ctypes.byref(length))
        if not place:
            self._check(-1)
        return _log_of(memoryview((ctypes.c_char * length.value).from_address(place)).cast("B"))


def _log_of(data: memoryview) -> tuple[GcLog, dict[str, Any]]:
    """Copies of what ``data`` says."""
    begin = _CELL + int.from_bytes(data[:_CELL], "little")
    about: dict[str, Any] = from_json(bytes(data[_CELL:begin]))
    log, words = GcLog(), about.pop("words")
    for (name, kind), count in zip(KINDS.items(), about.pop("counts"), strict=True):
        width = len(Events.of(kind).names)  # of the matrix
        cells = np.frombuffer(data, "<i8", count * width, begin).reshape(count, width)
        setattr(log, name, Events.read(kind, cells, words))
        begin += cells.nbytes
    for one in about.pop("jvms"):
        jvm = Jvm(**{**one, "ids": [(low, high) for low, high in one["ids"]], "begun": dict(one["begun"])})
        log.jvms.append(jvm)
    for name in ("unknown", "damaged"):
        setattr(log, name, [UnknownLine(number, shown(text)) for number, text in about.pop(name)])
    rest = {name: about.pop(name) for name in ("overlong", "other")}
    for name, value in about.items():
        setattr(log, name, value)
    return log, rest
