"""A session on this very host: two real commands, a kernel setting that is kept, and the server killed."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from leadline.host.local import LocalHost

KNOB = "vm.dirtytime_expire_seconds"
_probe = LocalHost(state=Path("/nonexistent/never-written"))
pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(
        bool(_probe.writable(KNOB)), reason=f"host: kernel settings cannot be set: {_probe.writable(KNOB)}"
    ),
]
STUDY = """\
study: naps
question: Which nap is shorter?
command: { run: "sleep 0.1", runs: 1, warmup: 0 }
responses: [wall]
"""


def started(folder: Path, port: int) -> tuple[subprocess.Popen[str], str]:
    """The server and its token."""
    words = ["mcp", "naps.yaml", "--blocks", "6", "--port", str(port)]
    argv, silent = [sys.executable, "-m", "leadline", *words], subprocess.DEVNULL
    server = subprocess.Popen(argv, cwd=folder, stderr=subprocess.PIPE, stdout=silent, text=True)
    assert server.stderr is not None
    for line in server.stderr:
        if "Bearer" in line:
            return server, line.split()[-1]
    raise AssertionError(f"it ended with {server.wait()}")


async def tuned(url: str, token: str, steps: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """What each tool gives."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=300) as web:
        for _ in range(600):  # until it listens
            try:
                await web.get(url)
                break
            except httpx2.ConnectError:
                await anyio.sleep(0.1)
        async with Client(streamable_http_client(url, http_client=web)) as client:
            results = []
            for tool, arguments in steps:
                result = await client.call_tool(tool, arguments, read_timeout_seconds=280)
                assert not result.is_error, result.content
                results.append(dict(result.structured_content or {}))
            return results


def test_what_a_killed_server_kept_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    (tmp_path / "naps.yaml").write_text(STUDY)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp"
    before = _probe.read_back(KNOB)
    assert isinstance(before, int)
    # No setting of this kernel is sure to help, so a first proposal is written down as shown.
    sessions = tmp_path / "lab" / "sessions"
    sessions.mkdir(parents=True)
    shown = {"number": 1, "knobs": {KNOB: before + 10}, "rate": 0.025, "verdict": "better", "against": {"knobs": {}}}
    (sessions / "naps.json").write_text(json.dumps([shown]))
    server, token = started(tmp_path, port)
    try:
        steps = [
            ("keep", {"proposal": 1}),
            ("propose", {"command": "sleep 0.01"}),
            ("measure", {"proposal": 2}),
            ("keep", {"proposal": 2}),
        ]
        *_, measured, kept = anyio.run(tuned, url, token, steps)
        assert (measured["verdict"], kept["kept"]) == ("better", True)
        assert _probe.read_back(KNOB) == before + 10, "in force again after the study"
        assert httpx2.post(url, json={}).status_code == 403
    finally:
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
        restored = subprocess.run([sys.executable, "-m", "leadline", "restore"], cwd=tmp_path, check=False)
    assert restored.returncode == 0
    assert _probe.read_back(KNOB) == before
