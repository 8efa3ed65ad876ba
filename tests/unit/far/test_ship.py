"""What is sent to another host is enough for the agent there, and nothing but Python's own library is needed beside."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

from leadline.far import wire
from leadline.far.ship import bundle


def test_the_agent_starts_from_what_is_sent_and_ends_with_its_input(tmp_path: Path) -> None:
    sent = bundle()
    assert sent.digest == bundle().digest
    with tarfile.open(fileobj=io.BytesIO(sent.packed)) as archive:
        archive.extractall(tmp_path, filter="data")
    loader = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from leadline.far.agent import main; main()"
    pipe = subprocess.PIPE
    environment = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", "-c", loader, "0"], stdin=pipe, stdout=pipe, env=environment
    ) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        for number, (do, given) in enumerate([("about", []), ("host.read_back", ["no.knob"]), ("reboot", [])]):
            agent.stdin.write(wire.frame({}) + wire.frame({"id": number, "do": do, "with": given}))
        agent.stdin.flush()
        about, unknown, refused = (wire.read_frame(agent.stdout.read) for _ in range(3))
        agent.stdin.close()
        assert agent.wait(30) == 0
    assert about is not None
    assert wire.unpacked(about["value"])["cache"] == str(tmp_path / "home" / ".cache" / "leadline")
    assert unknown is not None
    assert "no.knob" in str(unknown["error"])
    assert refused is not None
    assert "the agent knows no 'reboot'" in str(refused["error"])
