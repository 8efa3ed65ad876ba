"""What GCViewer's events become; tests/stack/test_gc_recorder.py runs the library itself."""

import json
from pathlib import Path

import pytest

from leadline.gcanalysis.summary import summary
from leadline.model.errors import UsageError
from leadline.observe.gclog.files import LogFiles
from leadline.observe.gclog.gcviewer import events, parse_files

NAME = Path("gc.log")


def event(at: float, ms: float, **other: object) -> str:
    values = {"at": at, "unix": None, "ms": ms, "type": "GC", "operation": False, "full": False, "remark": False}
    return json.dumps({**values, "mark": False, "before": 3 << 20, "after": 1 << 20, "total": 8 << 20, **other})


def test_the_stop_around_a_collection_is_no_second_pause() -> None:
    log = events([event(1.0, 10.0), event(1.0, 11.0, operation=True), event(3.0, 40.0, full=True), "noise"], NAME)
    assert [(one.name, one.ms, one.at) for one in log.pauses] == [("Young", 10.0, 1.01), ("Full", 40.0, 3.04)]
    assert [one.total_ms for one in log.safepoints] == [11.0]
    assert summary(log).interval_s == pytest.approx(1.99)
    assert log.warnings == ("read by GCViewer 1.36",)


def test_what_the_library_cannot_read_is_loud() -> None:
    complaint = [json.dumps({"complaint": "Line 7: what"}), json.dumps({"complaints": 3})]
    log = events([event(1.0, 10.0), event(2.0, -1.0), *complaint], NAME)
    assert [one.ms for one in log.pauses] == [10.0]
    assert any("complained 3 times" in text and "what" in text for text in log.warnings)
    assert any("a pause of -1.0 ms" in text for text in log.warnings)
    with pytest.raises(UsageError, match="finds no pause in it: Line 7: what"):
        events(complaint, NAME)


def test_standard_input_is_no_file_for_it() -> None:
    with pytest.raises(UsageError, match="reads files only"):
        parse_files(LogFiles(Path("-"), (Path("-"),)), Path("java"), Path("gcviewer.jar"))
