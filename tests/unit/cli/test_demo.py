"""``leadline demo``: the stored lab is unpacked once, and what it names can be looked at."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from command_line import Command

from leadline.cli.commands.ui import ARCHIVE, unpack

LEADLINE = Command()


def test_the_stored_lab_has_report_comparison_and_page(tmp_path: Path) -> None:
    assert ARCHIVE.stat().st_size < 1_000_000
    place = tmp_path / "demo"
    said = LEADLINE("demo", "--no-page", "--out", place)
    assert "Two real runs" in said
    assert "<html" in (place / "report.html").read_text(encoding="utf-8")[:500]
    assert "From startup@1 to startup@2" in LEADLINE("compare", "startup@1", "startup@2", "--lab", place)
    assert LEADLINE("demo", "--no-page", "--out", place) == said, "it is unpacked once"
    assert "$ leadline demo " in (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")


def test_the_stored_lab_names_no_machine_and_no_place(tmp_path: Path) -> None:
    unpack(tmp_path)
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert not re.search(rb"(?<![\w.)-])/(home|root|tmp|work|mnt|srv|Users)/", path.read_bytes()), path
    with sqlite3.connect(tmp_path / "lab.sqlite") as connection:
        assert connection.execute("select distinct owner from blocks").fetchall() == [("host",)]


def test_a_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("")
    assert "the directory holds other files" in LEADLINE.refused("demo", "--no-page", "--out", tmp_path)
