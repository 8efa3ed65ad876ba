"""The in-process agent: its jar, built from the checkout when it is missing or older than its sources; its answers."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leadline.host.jvm import AGENT_NAME, agent_jar, load_agent
from leadline.host.privilege import give, write_private
from leadline.model.errors import LeadlineError
from leadline.stack.base import Progress
from leadline.stack.servers.files import properties_text

_WORKLOADS = Path(__file__).resolve().parents[3] / "workloads"


def ensure_agent(progress: Progress) -> Path:
    """The agent's jar. Raises LeadlineError with Maven's own words when it cannot be built."""
    sources = _WORKLOADS / "agent" / "src" / "main"
    if not sources.exists():  # installed from a wheel, which carries the jar
        return agent_jar()
    jar = _WORKLOADS / "agent" / "target" / AGENT_NAME
    newest = max(path.stat().st_mtime for path in sources.rglob("*"))
    if jar.exists() and jar.stat().st_mtime >= newest:
        return jar
    maven = shutil.which("mvn")
    if maven is None:
        raise LeadlineError("Maven (mvn) is not on the PATH; it is needed to build the agent")
    progress("building the agent")
    command = [maven, "-B", "-q", "-f", str(_WORKLOADS / "pom.xml"), "-pl", "agent", "-DskipTests", "package"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not jar.exists():
        said = "\n".join(f"  {line}" for line in (done.stdout + done.stderr).strip().splitlines()[:10])
        raise LeadlineError(f"the agent could not be built:\n{said}")
    jar.touch()
    return jar


def ask(java_home: Path | None, pid: int, directory: Path, question: Mapping[str, str]) -> Mapping[str, Any]:
    """What the agent in a running JVM answers; its files are written below ``directory``.

    Raises AttachError, OSError, ValueError.
    """
    output, options = directory / "read-back.json", directory / "read-back.properties"
    write_private(output, "")
    give(output, pid)
    options.write_text(properties_text({"answer": str(output), **question}))
    options.chmod(0o644)
    load_agent(java_home, pid, options)
    answer: dict[str, Any] = json.loads(output.read_text())
    output.unlink()
    return answer
