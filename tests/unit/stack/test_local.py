"""What a log says."""

from __future__ import annotations

from pathlib import Path

from leadline.stack import local


def test_a_log_is_read_from_where_this_start_began(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("SEVERE of an earlier start\nnow\n")
    assert local.text_from(log, len("SEVERE of an earlier start\n")) == "now"
    assert local.text_from(log, 0, most=4) == "now"


def test_a_missing_log_says_nothing(tmp_path: Path) -> None:
    assert local.text_from(tmp_path / "none.log", 0) == ""
