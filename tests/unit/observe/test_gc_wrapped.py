"""Logs that passed through other programs have the pauses of the log itself, whatever stands around its lines."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from test_gc_files import jvm
from test_gc_older import BESIDE, CMS, G1, JDK8, OPENJ9

from leadline.gcanalysis.events import GcLog
from leadline.observe.gclog.files import parse

_SPEC = importlib.util.spec_from_file_location("wrappers", Path(__file__).parents[3] / "bench" / "gc" / "wrappers.py")
assert _SPEC is not None
assert _SPEC.loader is not None
_MODULE = importlib.util.module_from_spec(_SPEC)
sys.modules["wrappers"] = _MODULE
_SPEC.loader.exec_module(_MODULE)
wrapped: Callable[[list[str], str], str] = _MODULE.wrapped

LOGS = {
    "unified": "".join(jvm("G1", 30)),
    "unified, tags only": "".join("[" + text.split("][")[3] + "\n" for text in map(str.rstrip, jvm("G1", 30))),
    "unified, host": "".join("[gc][" + text.split("][", 1)[1] for text in jvm("G1", 30)),
    "unified, no fields": "".join(text.split("] ", 1)[1] for text in jvm("G1", 30)),
    "Parallel of 8": JDK8 * 3,
    "G1 of 8": G1,
    "CMS of 8": CMS,
    "CMS of 8, torn": BESIDE,
    "OpenJ9": OPENJ9,
}


def figures(log: GcLog) -> list[tuple[object, ...]]:
    return [(one.kind, one.ms, one.heap, one.gc_id) for one in log.pauses]


@pytest.mark.parametrize("name", list(_MODULE.WRAPPERS))
@pytest.mark.parametrize("kind", list(LOGS))
def test_a_wrapped_log_has_the_same_pauses(kind: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    path.write_text(LOGS[kind])
    plain = parse(path)
    assert plain.pauses
    path.write_text(wrapped(LOGS[kind].splitlines(), name))
    log = parse(path)
    assert figures(log) == figures(plain)
    assert len(log.unknown) == len(plain.unknown)
    assert len(log.jvms) == len(plain.jvms)
