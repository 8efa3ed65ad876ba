"""The in-process agent: its jar, built where it is missing or old; its answers and the MBeans in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leadline.host.base import Host
from leadline.host.java import AGENT_NAME, agent_jar, load_agent
from leadline.host.textfile import write_private
from leadline.model.received import from_json
from leadline.stack.base import Progress
from leadline.stack.maven import build
from leadline.stack.servers.files import properties_text


def beans(answer: Mapping[str, Any], part: str) -> list[Mapping[str, Any]]:
    """Attributes of the MBeans whose object name contains ``part``; KeyError if there is none."""
    attributes_found = [attributes for name, attributes in answer["beans"].items() if part in name]
    if not attributes_found:
        raise KeyError(f"MBean {part}")
    return attributes_found


ANSWER = "read-back.json"  # the JVM writes it
_WORKLOADS = Path(__file__).resolve().parents[3] / "workloads"


def ensure_agent(progress: Progress) -> Path:
    """The agent's jar. Raises LeadlineError with Maven's own words when it cannot be built."""
    sources = _WORKLOADS / "agent" / "src" / "main"
    if not sources.exists():  # installed from a wheel, which carries the jar
        return agent_jar()
    jar = _WORKLOADS / "agent" / "target" / AGENT_NAME
    build("the agent", _WORKLOADS, ["agent"], sources.rglob("*"), [jar], progress)
    return jar


def ask(
    host: Host, java_home: Path | None, pid: int, directory: Path, question: Mapping[str, str]
) -> Mapping[str, Any]:
    """What the agent in a running JVM answers; its files are written below ``directory``.

    Raises AttachError, OSError, ValueError.
    """
    output, options = directory / ANSWER, directory / "read-back.properties"
    write_private(output, "")
    host.give(output, pid)
    options.write_text(properties_text({"answer": str(output), **question}))
    options.chmod(0o644)
    load_agent(host, java_home, pid, options)
    answer: dict[str, Any] = from_json(output.read_text())
    output.unlink()
    return answer
