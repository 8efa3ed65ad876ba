"""JVMs on this host: where a JDK is, and loading the agent into a running one by attach."""

from __future__ import annotations

import os
from pathlib import Path

from leadline.host.base import PROC, Files, Host, Process
from leadline.host.java import find_java
from leadline.host.undo_running import jcmd_by_socket
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

    The options travel in a file because jcmd splits agent options at ``=``. The first time ``jcmd`` opens the JVM's
    socket for it; afterwards the same command is written to that socket, which takes milliseconds and starts no JVM.
    """
    words = ["JVMTI.agent_load", _quoted(agent_jar()), _quoted(options)]
    try:
        code, reply = _asked(host, pid, " ".join(words), timeout) or _jcmd(host, java_home, pid, words, timeout)
    except TimeoutError:
        raise AttachError(f"JVM {pid} did not load the agent within {timeout:g} s") from None
    except OSError as error:  # it ended meanwhile
        raise AttachError(f"JVM {pid} did not load the agent: {error}") from error
    if code or "return code: 0" not in reply:
        lines = [line.strip() for line in reply.splitlines() if line.strip() and line.strip() != f"{pid}:"]
        raise AttachError(f"JVM {pid} did not load the agent: {' '.join(lines) or 'it said nothing'}")


def jcmd(host: Host, java_home: Path | None, pid: int, words: list[str], timeout: float = 10.0) -> tuple[int, str]:
    """Exit code and answer of a command of the JDK's jcmd, such as ``VM.flags``. Raises AttachError."""
    try:
        return _asked(host, pid, " ".join(words), timeout) or _jcmd(host, java_home, pid, words, timeout)
    except TimeoutError:
        raise AttachError(f"JVM {pid} did not answer {' '.join(words)} within {timeout:g} s") from None
    except OSError as error:  # it ended meanwhile
        raise AttachError(f"JVM {pid} did not answer {' '.join(words)}: {error}") from error


def _jcmd(host: Host, java_home: Path | None, pid: int, words: list[str], timeout: float) -> tuple[int, str]:
    jcmd = find_java_home(java_home) / "bin" / "jcmd"
    if not jcmd.exists():
        raise AttachError(f"{jcmd} does not exist: the agent needs a JDK, not only a JRE")
    # A JVM of the same kind is started for the tool; these keep its start short.
    command = [str(jcmd), "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-J-Xshare:auto", str(pid), *words]
    # as the JVM's own user, whom no capability helps
    done = host.run(command, pid, [jcmd.parent.parent.resolve()], timeout=timeout, env=java_environment())
    return done.returncode, f"{done.stdout}\n{done.stderr}"


def _asked(host: Host, pid: int, command: str, timeout: float) -> tuple[int, str] | None:
    """What a JVM answers to a command of jcmd over the socket that HotSpot's attach mechanism has opened; None where
    there is none to be reached.
    """
    inside = host.files.read(f"{PROC}/{pid}/status").partition("NSpid:")[2].split("\n", 1)[0].split()[-1]
    return jcmd_by_socket(pid, inside, command, timeout)


# Variables that change any JVM started below us: no treatment may depend on the shell that leadline runs in.
JAVA_ENVIRONMENT = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH")


def java_environment(**more: str) -> dict[str, str]:
    """This process's environment without those, and with ``more``."""
    return {**{name: value for name, value in os.environ.items() if name not in JAVA_ENVIRONMENT}, **more}


def _quoted(path: Path) -> str:
    return f'"{path}"' if " " in str(path) else str(path)
