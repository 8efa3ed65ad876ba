"""What this machine asks of an agent on another one, and what the agent knows."""

from __future__ import annotations

import re
from pathlib import Path

import leadline.far
from leadline.far.agent import Agent

ASKED = re.compile(r"""\.ask\(\s*"([\w.]+)\"""")


def test_the_agent_knows_all_that_is_asked() -> None:
    sources = [path.read_text(encoding="utf-8") for path in Path(leadline.far.__file__).parent.glob("*.py")]
    asked = {name for text in sources for name in ASKED.findall(text)}
    assert len(asked) > 20
    assert asked <= Agent(print).table().keys()
