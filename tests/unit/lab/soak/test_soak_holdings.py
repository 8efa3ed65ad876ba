"""What a stack holds, and logs that stay within their bounds under their writer."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from leadline.host.files import LocalFiles
from leadline.lab.soak.holdings import BoundedLogs, Holdings, size_of


class FakeProcess:
    """This process as a service."""

    def pids(self) -> list[int]:
        return [os.getpid()]


def test_open_files_and_sockets_are_counted_apart(tmp_path: Path) -> None:
    source = Holdings(LocalFiles(), {"server": FakeProcess()}, {"data": tmp_path}, BoundedLogs({}))  # type: ignore[dict-item]
    before = source()
    with (tmp_path / "file").open("wb") as stream, socket.socket(), socket.socket():
        stream.write(b"x" * 100_000)
        stream.flush()
        after = source()
    assert after["handles/server"] == before["handles/server"] + 1
    assert after["sockets/server"] == before["sockets/server"] + 2
    assert after["disk/data"] - before["disk/data"] >= 100_000
    assert after["free"] > 0


def test_a_log_is_emptied_under_its_writer_and_its_end_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    bounded = BoundedLogs({"logs": tmp_path}, most=1000)
    with log.open("ab", buffering=0) as writer:
        writer.write(b"a" * 900 + b"b" * 600)
        assert bounded.bound() == ["server.log"]
        assert log.stat().st_size == 0
        assert (tmp_path / "server.log.1").read_bytes() == b"b" * 500
        writer.write(b"c" * 10)
        assert log.read_bytes() == b"c" * 10
    assert bounded.written() == {"server.log": 1510}
    assert bounded.bound() == []


def test_what_is_not_there_takes_no_room(tmp_path: Path) -> None:
    assert size_of(tmp_path / "none") == 0
    assert BoundedLogs({"logs": tmp_path / "none"}).written() == {}
