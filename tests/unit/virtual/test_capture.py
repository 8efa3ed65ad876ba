"""What is started on this host is kept as it was at its start."""

import sys
import time
from pathlib import Path

from leadline.host.base import ProcessSpec
from leadline.virtual.capture import RecordingHost


def test_a_service_is_recorded_with_its_files_and_runs_without_its_limits(tmp_path: Path) -> None:
    host, home = RecordingHost(state=tmp_path / "state"), tmp_path / "home"
    home.mkdir()
    (home / "levels.conf").write_text("before")
    change = f"import pathlib; pathlib.Path({str(home / 'levels.conf')!r}).write_text('after')"
    python = str(Path(sys.executable).resolve())
    argv = [python, "-c", change]
    spec = ProcessSpec("server", argv, tmp_path / "log", cwd=home, cpus="900", memory=1, unprivileged=False)
    with host.recording(tmp_path / "kept"):
        process = host.start(spec)
        while process.alive():
            time.sleep(0.01)
        process.stop()
    (started,) = host.started
    assert started.spec == spec
    kept = tmp_path / "kept" / "server" / home.relative_to("/") / "levels.conf"
    assert (kept.read_text(), (home / "levels.conf").read_text()) == ("before", "after")
    assert started.files == tmp_path / "kept" / "server"


def test_ports_come_in_one_order_while_it_records(tmp_path: Path) -> None:
    host = RecordingHost(state=tmp_path / "state")
    found = []
    for _ in range(2):
        with host.recording(tmp_path / "kept"):
            found.append([host.free_port() for _ in range(3)])
    assert found[0] == found[1]
    assert len(set(found[0])) == 3
