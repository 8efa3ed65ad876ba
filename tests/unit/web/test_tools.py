"""The server of the Model Context Protocol and the SDK's own client, over stdio, on a simulated host."""

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

STUDY = """\
study: greedy
question: Which settings help?
workload: { users: 5, ramp_up: 1s, steady: 4s, ramp_down: 1s }
responses: [throughput]
factors: { vm.swappiness: [60, 10] }
"""
TRUTH = """\
truth:
  noise: { trials: 0.4%, seconds: 1% }
  effects: [{ when: { vm.swappiness: 10 }, percent: { throughput: 20% } }]
"""
COMMAND = ["-m", "leadline", "mcp", "greedy.yaml", "--simulate", "truth.yaml", "--blocks", "4"]


async def greedy(folder: Path) -> list[str]:
    """Messages of what was refused, while it proposes, measures and keeps by tools alone."""
    refused: list[str] = []
    server = StdioServerParameters(command=sys.executable, args=COMMAND, env=dict(os.environ), cwd=folder)
    with (folder / "stderr").open("w") as errors:
        from mcp.client.stdio import stdio_client

        async with Client(stdio_client(server, errlog=errors)) as client:

            async def call(tool: str, **arguments: Any) -> dict[str, Any]:
                result = await client.call_tool(tool, arguments, read_timeout_seconds=240)
                if result.is_error:
                    refused.append(" ".join(getattr(part, "text", "") for part in result.content))
                return result.structured_content or {}

            names = {tool.name for tool in (await client.list_tools()).tools}
            assert names == {"describe", "propose", "measure", "keep", "revert", "explain", "history"}
            (knob,) = (await call("describe", pattern="vm.swappiness"))["knobs"]
            assert (knob["least"], knob["most"], knob["risk"]) == (0, 200, "safe")
            for levels in ({"vm.dirty_ratio": 10}, {"vm.swappiness": 10}):
                number = (await call("propose", knobs=levels))["number"]
                await call("measure", proposal=number)
                await call("keep", proposal=number)
            await call("propose", knobs={"vm.swappiness": [1]})
            await call("measure", proposal="x", minutes=-1)
            await call("propose", command="x" * 5000)
            await call("describe", pattern="y" * 300)
            await call("keep", proposal=99)
            rows = (await call("history"))["proposals"]
            assert [row["kept"] for row in rows] == [False, True]
            assert (await call("describe", pattern="x"))["in_force"] == {"knobs": {"vm.swappiness": 10}}
    return refused


def test_the_sdks_client_tunes_by_the_tools_and_is_told_what_was_wrong(tmp_path: Path) -> None:
    (tmp_path / "greedy.yaml").write_text(STUDY)
    (tmp_path / "truth.yaml").write_text(TRUTH)
    refused = anyio.run(greedy, tmp_path)
    starts = [
        "proposal 1 is ",
        "propose: knobs.vm.swappiness",
        "measure: proposal: ",
        "propose: command: ",
        "describe: pattern: ",
    ]
    assert len(refused) == 6, refused
    for start, message in zip(starts, refused, strict=False):
        assert message.startswith(start), message
        assert "pydantic" not in message
    assert "there is no proposal 99; there are 2" in refused[-1]


def test_without_the_package_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from leadline.cli.commands import mcp
    from leadline.cli.main import app
    from leadline.model.errors import UsageError

    monkeypatch.setattr(mcp, "find_spec", lambda _: None)
    done = CliRunner().invoke(app, ["mcp", "greedy.yaml"])
    assert isinstance(done.exception, UsageError)
    assert "pip install 'leadline[mcp]'" in str(done.exception)
