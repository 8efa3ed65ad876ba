"""Java on this host: its homes, where a JDK is, and loading the agent into a running JVM by attach."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from leadline.host import privilege, procfs
from leadline.host.base import PROC, Files, Host, Process
from leadline.host.local import LocalHost, watched_journal
from leadline.host.undo_running import LOGGING, jcmd_by_socket
from leadline.model.errors import LeadlineError, UsageError

_PATIENCE = 120.0  # seconds for a JVM to say its version beside whatever else runs


@dataclass(frozen=True)
class JavaHome:
    """``major``: 17, 21, 25; ``jdk``: whether it has the compiler and tools."""

    path: Path
    version: str
    major: int
    jdk: bool


def _candidates(folder: Path) -> Iterator[Path]:
    if named := os.environ.get("JAVA_HOME"):
        yield Path(named)
    if java := shutil.which("java"):
        yield Path(java).resolve().parent.parent
    if folder.is_dir():
        yield from sorted(path for path in folder.iterdir() if path.is_dir())


def _version(home: Path) -> str:
    """As its ``release`` file says, or the program itself; empty when neither does."""
    try:
        match = re.search(r'^JAVA_VERSION="([^"]+)"', (home / "release").read_text(), re.MULTILINE)
    except OSError:
        match = None
    if match is None:
        try:
            done = java_says(home)
        except OSError:
            return ""
        match = re.search(r'version "([^"]+)"', done.stderr)
    return match[1] if match else ""


def java_says(home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """What ``java OPTIONS -version`` prints. Raises OSError, TimeoutError among them, UsageError."""
    try:
        return privilege.run([str(home / "bin" / "java"), *options, "-version"], [home], timeout=_PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{home} does not answer within {_PATIENCE:g} s") from error


def java_homes(folder: Path = Path("/usr/lib/jvm")) -> list[JavaHome]:
    """Of JAVA_HOME, the PATH and ``folder``, in this order, each once."""
    homes: dict[Path, JavaHome] = {}
    for path in _candidates(folder):
        home = path.resolve()
        if home in homes or not (home / "bin" / "java").is_file():
            continue
        version = _version(home)
        numbers = re.findall(r"\d+", version)
        if not numbers:
            continue
        homes[home] = JavaHome(home, version, _major(numbers), (home / "bin" / "javac").exists())
    return list(homes.values())


def java_home(path: Path) -> JavaHome:
    """The Java home ``path``. Raises UsageError where none is."""
    numbers = re.findall(r"\d+", _version(path)) if (path / "bin" / "java").is_file() else []
    if not numbers:
        raise UsageError(f"no JDK in {path}: {path / 'bin' / 'java'} is not there or tells no version")
    return JavaHome(path, _version(path), _major(numbers), (path / "bin" / "javac").exists())


def _major(numbers: list[str]) -> int:
    return int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])


def find_java(minimum: int = 17, folder: Path = Path("/usr/lib/jvm"), newest: int | None = None) -> Path:
    """The first JDK from version ``minimum`` to ``newest``. Raises UsageError saying which were found."""
    homes = java_homes(folder)
    for home in homes:
        if minimum <= home.major <= (newest or home.major) and home.jdk:
            return home.path
    have = ", ".join(f"{home.path} ({home.version}{'' if home.jdk else ', no compiler'})" for home in homes)
    wanted = f"{minimum} to {newest}" if newest else f"{minimum} or newer"
    versions = f"found only {have}" if have else "no Java found"
    raise UsageError(f"no JDK {wanted}: {versions}; install one and set JAVA_HOME to it")


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


# ` #2: file=gc.log all=off,gc*=info uptime,level,tags filecount=5,...`, as VM.log list has it.
_LOG = re.compile(r"^ #\d+: file=(?P<file>.+?) (?P<what>\S+=\S+) (?P<decorators>[a-z,]+)(?: .*)?$", re.M)
_QUIET = ("off", "error", "warning")
_SILENT = 30.0  # s, after which the watchdog puts back


@contextmanager
def gc_log(pid: int) -> Iterator[Path]:
    """The file, as it is reached from here, into which JVM ``pid`` logs its collections. A JVM that has none gets one,
    which is off again and removed at the end. Raises UsageError, AttachError, RestoreError.
    """
    stat = procfs.read_stat(pid)
    if stat is None:
        raise UsageError(f"{pid}: no such file, and no such process")
    host = LocalHost()
    if "libjvm.so" not in host.files.read(f"{PROC}/{pid}/maps"):  # to attach sends SIGQUIT, which ends any other
        raise UsageError(f"process {pid} ({stat.name}) is no JVM")
    code, answer = jcmd(host, None, pid, ["VM.log", "list"])
    if code:
        raise AttachError(
            f"JVM {pid} cannot tell its logs (a JVM of JDK 9 or later can): {' '.join(answer.split())}; "
            "start it with a GC log and follow that file"
        )
    for log in _LOG.finditer(answer):
        if _of_gc(log["what"]) and {"uptime", "time", "utctime"} & {*log["decorators"].split(",")}:
            yield _reached(pid, Path(log["file"].strip('"')))
            return
    with watched_journal("gc-log", _SILENT) as journal:
        target = f"/tmp/leadline-gc-{uuid.uuid4().hex[:12]}.log"
        file = _reached(pid, Path(target))
        journal.record(LOGGING, target, None, pid=pid, start=stat.start, file=str(file))
        what = ["what=gc*,safepoint", "decorators=uptime,time,level,tags", "output_options=filecount=1,filesize=10M"]
        code, answer = jcmd(host, None, pid, ["VM.log", f"output={target}", *what])
        if code or not file.exists():
            raise AttachError(f"JVM {pid} does not log to {target}: {' '.join(answer.split())}")
        yield file


def heap_of(pid: int) -> tuple[str, int | None]:
    """The collector of JVM ``pid`` (empty where it has another), and the bytes to which its heap may grow."""
    _, flags = jcmd(LocalHost(), None, pid, ["VM.flags"])
    names = {"ZGC": "Z", "ShenandoahGC": "Shenandoah", "G1GC": "G1", "ParallelGC": "Parallel", "SerialGC": "Serial"}
    collector = next((name for flag, name in names.items() if f"-XX:+Use{flag}" in flags), "")
    most = re.search(r"-XX:MaxHeapSize=(\d+)", flags)
    return collector, int(most[1]) if most else None


def _of_gc(what: str) -> bool:
    selections = [selection.partition("=")[::2] for selection in what.split(",")]
    return any(tags.startswith(("gc", "all")) and level not in _QUIET for tags, level in selections)


def _reached(pid: int, file: Path) -> Path:
    """A file that a process names, by a path that leads to it from here."""
    root, directory = Path(f"{PROC}/{pid}/root"), Path(f"{PROC}/{pid}/cwd")
    try:
        path = file if file.is_absolute() else directory.readlink() / file
        return path if root.samefile("/") else root / path.relative_to("/")
    except PermissionError:  # of another user
        if not file.is_absolute():
            raise AttachError(f"JVM {pid} logs to {file}, in a directory that only its user can tell") from None
        return file


def _quoted(path: Path) -> str:
    return f'"{path}"' if " " in str(path) else str(path)
