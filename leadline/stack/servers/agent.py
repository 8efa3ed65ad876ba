"""The in-process agent's jar: built from the checkout when it is missing or older than its sources."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from leadline.host.jvm import AGENT_NAME, agent_jar
from leadline.model.errors import LeadlineError
from leadline.stack.base import Progress

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
