"""JVMs on this host: where a JDK is, and loading the agent into a running one by attach."""

from __future__ import annotations

import os
from pathlib import Path

from leadline.host.base import PROC, Files, Host, Process
from leadline.host.java import find_java
from leadline.model.errors import LeadlineError, UsageError

AGENT_NAME = "leadline-agent.jar"
_PACKAGE = Path(__file__).resolve().parent.parent


class AttachError(LeadlineError):
    """The agent could not be loaded into a JVM; says what the JDK's tool said."""


def find_java_home(wanted: Path | None = None) -> Path:
    """The JDK to use: ``wanted``, else the first of this host. Raises UsageError."""
    if wanted is None:
        return find_java()
    if not (wanted / "bin" / "java").exists():
        raise UsageError(f"no JDK in {wanted}: {wanted / 'bin' / 'java'} does not exist")
    return wanted


def java_pid(files: Files, process: Process) -> int:
    """The JVM of a started process group: the leader, or the child that runs ``java`` when a script leads.

    Raises ProcessLookupError when there is none.
    """
    for pid in [process.pid, *process.pids()]:
        try:
            if Path(files.link(f"{PROC}/{pid}/exe")).name == "java":
                return pid
        except PermissionError:  # root without CAP_SYS_PTRACE
            if b"(java)" in files.read_many([f"{PROC}/{pid}/stat"]).get(f"{PROC}/{pid}/stat", b""):
                return pid
        except OSError:
            continue
    raise ProcessLookupError(f"no JVM in process group {process.name} (pid {process.pid})")


def agent_jar() -> Path:
    """The in-process agent: beside the package when installed, from the Maven build in a checkout.

    Raises LeadlineError where it has not been built.
    """
    installed = _PACKAGE / "_java" / AGENT_NAME
    built = _PACKAGE.parent / "workloads" / "agent" / "target" / AGENT_NAME
    for jar in (installed, built):
        if jar.exists():
            return jar
    raise LeadlineError(f"the agent is not built: no {built}; build it with mvn -f workloads/pom.xml -pl agent package")


def load_agent(host: Host, java_home: Path | None, pid: int, options: Path, timeout: float = 30.0) -> None:
    """Load the agent into JVM ``pid``; it reads ``options``, a Java properties file, and has done its one-time work
    when this returns. Loading again replaces the sampler. Raises AttachError.

    The options travel in a file because jcmd splits agent options at ``=``.
    """
    jcmd = find_java_home(java_home) / "bin" / "jcmd"
    if not jcmd.exists():
        raise AttachError(f"{jcmd} does not exist: the agent needs a JDK, not only a JRE")
    # A JVM of the same kind is started for the tool; these keep its start short.
    command = [str(jcmd), "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-J-Xshare:auto", str(pid)]
    command += ["JVMTI.agent_load", _quoted(agent_jar()), _quoted(options)]
    try:  # as the JVM's own user, whom no capability helps
        reads = [jcmd.parent.parent.resolve()]
        done = host.run(command, pid, reads, timeout=timeout, env=java_environment())
    except TimeoutError:
        raise AttachError(f"JVM {pid} did not load the agent within {timeout:g} s") from None
    said = f"{done.stdout}\n{done.stderr}"
    if done.returncode or "return code: 0" not in said:
        lines = [line.strip() for line in said.splitlines() if line.strip() and line.strip() != f"{pid}:"]
        raise AttachError(f"JVM {pid} did not load the agent: {' '.join(lines) or 'jcmd said nothing'}")


# Variables that change any JVM started below us: no treatment may depend on the shell that leadline runs in.
JAVA_ENVIRONMENT = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH")


def java_environment(**more: str) -> dict[str, str]:
    """This process's environment without those, and with ``more``."""
    return {**{name: value for name, value in os.environ.items() if name not in JAVA_ENVIRONMENT}, **more}


def _quoted(path: Path) -> str:
    return f'"{path}"' if " " in str(path) else str(path)
