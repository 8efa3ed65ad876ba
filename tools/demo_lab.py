"""Writes leadline/demo.tar.xz from two real runs: ``python tools/demo_lab.py LAB [RUN RUN]``, after

    leadline run tools/demo.yaml --lab LAB; leadline run tools/demo.yaml --new --lab LAB

The runs (numbers of ``leadline lab list``; the newest if absent) become startup@1 and @2. Raw files, logs and the
driver's seconds are left out: report, live page and comparison do not need them. Neither paths nor the name of the
machine are in it.
"""

from __future__ import annotations

import hashlib
import shutil
import socket
import sqlite3
import sys
import tarfile
import tempfile
from pathlib import Path

import leadline
from leadline.cli.commands.ui import ARCHIVE
from leadline.store.bundle import copy_study
from leadline.store.lab import Store

LEFT_OUT = ("raw", "logs", "driver")


def main(lab: Path, runs: list[int]) -> None:
    source = Store(lab)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "demo"
        for run in runs or sorted(source.ids())[-2:]:
            copy_study(source, run, Store(place))
        make_anonymous(place, str(lab.absolute()))
        shown = leadline.load_lab(place).study("startup@1")
        shown.report(place / "report.html")
        about = f"Two real runs. {shown.record.study.question}\n{shown.answer}\n"
        (place / "about.txt").write_text(about, encoding="utf-8")
        for attempt in place.glob("trials/*/attempt-*"):
            for name in LEFT_OUT:
                shutil.rmtree(attempt / name, ignore_errors=True)
        with sqlite3.connect(place / "lab.sqlite") as connection:
            connection.execute("pragma wal_checkpoint(truncate)")
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            for name in ("about.txt", "lab.sqlite", "report.html", "trials"):
                archive.add(place / name, name, filter=nobody)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size / 1e3:.0f} kB")


def make_anonymous(place: Path, lab: str) -> None:
    """Paths below ``lab`` begin with ``lab``, and the machine is ``host``."""
    with sqlite3.connect(place / "lab.sqlite") as connection:
        connection.execute("update blocks set owner = replace(owner, ?, 'host')", (socket.gethostname(),))
        connection.execute(
            "update studies set environment = json_set(environment, '$.\"study.file\"', 'tools/demo.yaml')"
        )
        files = "select t.directory, a.path, a.id from artefacts a join trials t on t.id = a.trial_id"
        for directory, name, id_ in connection.execute(files).fetchall():
            path = place / directory / name
            content = path.read_bytes().replace(lab.encode(), b"lab")
            path.write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
            connection.execute("update artefacts set sha256 = ?, size = ? where id = ?", (digest, len(content), id_))


def nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, "", ""
    return entry


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(word) for word in sys.argv[2:]])
