"""Labs are their owner's alone; those of others, and those on a disk that is read-only, can be read all the same."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.checks.files.study import parse_study
from leadline.places.simulated import SimulatedTestbed
from leadline.places.simulated.model import Truth
from leadline.places.testbed import RunOptions
from leadline.store.lab import Store
from leadline.store.labfile import SQLITE

STUDY = (
    "study: seen\nquestion: q\nworkload: { users: 2, ramp_up: 1s, steady: 5s, ramp_down: 0s }\n"
    "factors: { vm.swappiness: [60, 1] }\ndesign: { replicates: 2, sentinels: null }\nresponses: [throughput]\n"
)


def run(lab: Path) -> None:
    file, testbed = parse_study(STUDY, "seen.yaml"), SimulatedTestbed(Truth(), lab)
    testbed.run(file, testbed.plan(file), RunOptions(fresh=True))


def open_to_others(lab: Path) -> list[Path]:
    """What others may list or read of it."""
    found = []
    for path in (lab, *lab.rglob("*")):
        mode = path.lstat().st_mode
        if mode & (0o066 if stat.S_ISDIR(mode) else 0o077):  # where root may not mount, its users pass through
            found.append(path)
    return found


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_lab_is_its_owners_alone(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        run(tmp_path / "lab")
    finally:
        os.umask(before)
    inner = {path for path in open_to_others(tmp_path / "lab") if "trials" not in path.parts}
    assert not inner
    assert not {path for path in open_to_others(tmp_path / "lab") if path.is_file()}


def test_an_older_lab_is_closed_when_it_is_opened(tmp_path: Path) -> None:
    run(tmp_path / "lab")
    lab = tmp_path / "lab"
    (lab / "services").mkdir()
    (lab / "services" / "server.jar").touch()
    for path in (lab, *lab.rglob("*")):
        path.chmod(0o777)
    Store(lab).studies()
    assert {path.name for path in open_to_others(lab)} == {"services", "server.jar"}


def test_a_lab_that_its_owner_shares_with_a_group_stays_the_groups(tmp_path: Path) -> None:
    Store(tmp_path / "lab")
    (tmp_path / "lab").chmod(0o2775)
    (tmp_path / "lab" / SQLITE).chmod(0o664)
    Store(tmp_path / "lab")
    assert (tmp_path / "lab").stat().st_mode & 0o777 & ~0o001 == 0o770
    assert (tmp_path / "lab" / SQLITE).stat().st_mode & 0o777 == 0o660


def leadline(*words: str) -> list[str]:
    return [sys.executable, "-m", "leadline.cli", *words]


def read_only(lab: Path, argv: list[str]) -> list[str]:
    if os.geteuid():
        return argv
    script = f"mount --bind '{lab}' '{lab}' && mount -o remount,ro,bind '{lab}' && exec \"$@\""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("host: root may not mount here")
    return ["unshare", "-m", "sh", "-c", script, "sh", *argv]


@pytest.fixture
def closed(tmp_path: Path) -> Callable[[str], Path]:
    def lab(state: str) -> Path:
        for _ in range(2):
            run(tmp_path / "lab")
        if state == "left open":  # as by a run that was killed: its last changes are beside its rows
            script = (
                "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA wal_autocheckpoint=0');"
                "c.execute(\"UPDATE studies SET name = 'late'\"); c.commit(); os._exit(0)"
            )
            subprocess.run([sys.executable, "-c", script, str(tmp_path / "lab" / SQLITE)], check=True)
            assert (tmp_path / "lab" / f"{SQLITE}-wal").stat().st_size
            (tmp_path / "lab" / f"{SQLITE}-shm").unlink()
        return tmp_path / "lab"

    return lab


@pytest.mark.parametrize("state", ["closed", "left open"])
def test_a_lab_that_cannot_be_written_can_be_read(closed: Callable[[str], Path], state: str, tmp_path: Path) -> None:
    lab, name = closed(state), "late" if state == "left open" else "seen"
    if os.geteuid():
        lab.chmod(0o555)
    page = tmp_path / "report.html"
    commands = [
        leadline("show", name, "--lab", str(lab)),
        leadline("report", name, "--lab", str(lab), "--out", str(page)),
        leadline("compare", f"{name}@1", f"{name}@2", "--lab", str(lab)),
    ]
    script = "; ".join(f"{' '.join(map(repr, argv))}; echo CODE $?" for argv in commands)
    done = subprocess.run(read_only(lab, ["sh", "-c", script]), capture_output=True, text=True, check=False)
    assert done.stdout.count("CODE 0") == len(commands), done.stdout + done.stderr
    assert page.stat().st_size > 10_000


def test_opening_a_lab_again_leaves_the_locks_of_what_has_it_open(tmp_path: Path) -> None:
    """Another process that closes it last would else remove the log in which this one reads and writes."""
    first = Store(tmp_path)
    with first.transaction() as connection:
        connection.exec_driver_sql("SELECT 1 FROM studies").all()
    Store(tmp_path)
    code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('CREATE TABLE other (x)'); c.close()"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "lab.sqlite")], check=True)
    assert (tmp_path / "lab.sqlite-wal").exists()
    with first.transaction() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM other").scalar_one() == 0
