"""A lab that was made elsewhere and only copied here is input: it is tried before it is read."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from lab_files import add

from leadline.host import received
from leadline.model.errors import LeadlineError
from leadline.store import database
from leadline.store.lab import Store
from leadline.store.labfile import names_in

HOSTILE = Path(__file__).parents[2] / "data" / "hostile" / "memory.parquet"  # 1.7 KB that ask for terabytes
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) AS name, 1 AS id FROM n"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A lab with a table that was made here and is known."""
    add(Store(tmp_path / "made"), "small")
    table = tmp_path / "made" / "trials" / "1" / "attempt-1" / "series" / "gc.parquet"
    pl.DataFrame({"time_ns": [1], "metric": ["m"], "subject": [""], "value": [0.0]}).write_parquet(table)
    return tmp_path / "made"


def copied(lab: Path) -> Path:
    return shutil.copytree(lab, lab.with_name("copied"))


def refused(lab: Path, words: str) -> None:
    with pytest.raises(LeadlineError, match=f"copied cannot be opened: .*{words}"):
        Store(lab, create=False)


def test_a_table_that_ends_its_reader_is_refused_by_name(lab: Path) -> None:
    elsewhere = copied(lab)
    shutil.copy(HOSTILE, elsewhere / "trials" / "2" / "attempt-1" / "raw" / "x.parquet")
    refused(elsewhere, r"attempt-1/raw/x\.parquet is damaged: it is no table")
    refused(elsewhere, r"x\.parquet is damaged")
    (elsewhere / "trials" / "2" / "attempt-1" / "raw" / "x.parquet").unlink()
    assert Store(elsewhere, create=False).counts()


def test_tables_behind_a_link_are_not_read(lab: Path) -> None:
    elsewhere = copied(lab)
    beside = shutil.move(elsewhere / "trials" / "2", lab.with_name("beside"))
    (elsewhere / "trials" / "2").symlink_to(beside)
    refused(elsewhere, "trials/2 is damaged: it is a link")


def test_a_lab_is_tried_once_and_its_copy_again(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[list[Path]] = []
    monkeypatch.setattr("leadline.store.database.check_tables", lambda paths: tried.append(list(paths)))
    Store(lab, create=False)
    assert tried == []
    elsewhere = copied(lab)
    for _ in range(2):
        Store(elsewhere, create=False)
    assert [[path.name for path in paths] for paths in tried] == [["gc.parquet"]]


@pytest.mark.parametrize(
    "script",
    [
        f"DROP TABLE studies; CREATE VIEW studies AS {ENDLESS}",
        "CREATE TRIGGER t AFTER UPDATE ON trials BEGIN DELETE FROM studies; END",
        "CREATE VIRTUAL TABLE v USING fts5(x)",
        "ALTER TABLE studies ADD COLUMN x GENERATED ALWAYS AS (hex(zeroblob(1e8)))",
    ],
)
def test_rows_that_compute_are_refused(lab: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = copied(lab)
    with closing(sqlite3.connect(elsewhere / "lab.sqlite")) as rows:
        rows.executescript(script)
    refused(elsewhere, r"in its lab\.sqlite is no table of leadline's")
    monkeypatch.setattr(received, "_STEPS", 2)
    if "VIEW" in script:
        with pytest.raises(LeadlineError, match="interrupted"):
            names_in(elsewhere)


def test_a_value_that_is_too_long_is_damage(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = copied(lab)
    monkeypatch.setattr(database, "_LONGEST", 1 << 20)
    with closing(sqlite3.connect(elsewhere / "lab.sqlite")) as rows:
        rows.execute("UPDATE studies SET plan = zeroblob(2000000)")
        rows.commit()
    with pytest.raises(LeadlineError, match=r"the lab .*copied is damaged: .*too big"):
        Store(elsewhere, create=False).load(1)
