"""Observer "profile": where the server's JVM spends its CPU time, by the flight recorder's execution samples.

The JVM looks every 20 ms at up to five of its threads that run Java code. Native code, the kernel and waiting threads
are not seen. Nothing but these samples is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from leadline.host import here
from leadline.host.base import Host
from leadline.host.java import find_java
from leadline.host.jvm import java_environment, java_pid, jcmd
from leadline.host.textfile import write_private
from leadline.model.errors import LeadlineError
from leadline.model.received import reading
from leadline.observe.base import ObserverContext
from leadline.observe.table import TallTable

METRIC = "profile.samples"
UNITS: Mapping[str, str] = {METRIC: "samples in that second; the subject is the stack, the outermost method first"}
PERIOD_MS = 20
_DEPTH = 512  # frames of a stack; 64, the usual, cut those of application servers
_NAME = "leadline"  # of the recording
_SOURCE = Path(__file__).with_name("FoldedSamples.java")
_PATIENCE = 300.0  # s to read a recording
_SETTINGS = f"""<?xml version="1.0" encoding="UTF-8"?>
<configuration version="2.0" label="leadline" description="execution samples alone" provider="leadline">
  <event name="jdk.ExecutionSample">
    <setting name="enabled">true</setting>
    <setting name="period">{PERIOD_MS} ms</setting>
  </event>
</configuration>
"""


class ProfileObserver:
    """Has the server's JVM record execution samples to ``raw/profile.jfr``."""

    name = "profile"

    def __init__(self, host: Host) -> None:
        self._host = host
        self._context: ObserverContext | None = None
        self._java = 0  # the JVM that records
        self._problem = ""

    @property
    def warnings(self) -> Sequence[str]:
        return [self._problem] if self._problem else []

    def start(self, context: ObserverContext) -> None:
        """Starts the recording. Never fails a trial: see ``warnings``."""
        self._context, self._java, self._problem = context, 0, ""
        server = context.processes.get("server")
        if server is None:
            self._problem = "no server to take a profile of"
            return
        settings = context.directory / "raw" / "profile.jfc"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(_SETTINGS)
        settings.chmod(0o644)  # the server's user reads it, whatever the mask
        try:
            java = java_pid(self._host.files, server)
            self._ask(java, "JFR.configure", f"stackdepth={_DEPTH}")  # refused where a recording ran before
            reply = self._ask(java, "JFR.start", f"name={_NAME}", f"settings={_quoted(settings)}")
            if "Started recording" not in reply:
                raise LeadlineError(" ".join(reply.split()))
            self._java = java
        except (LeadlineError, ProcessLookupError) as error:
            self._problem = f"no profile of the server: {error}"
        finally:
            settings.unlink(missing_ok=True)

    def stop(self) -> None:
        if not self._java or self._context is None:
            return
        java, self._java = self._java, 0
        file = recording(self._context.directory)
        write_private(file, "")
        try:
            self._host.give(file, java)
            self._ask(java, "JFR.stop", f"name={_NAME}", f"filename={_quoted(file)}")
        except LeadlineError as error:
            self._problem = f"no profile of the server: {error}"

    def _ask(self, java: int, *words: str) -> str:
        assert self._context is not None
        return jcmd(self._host, self._context.java_home, java, list(words), timeout=60.0)[1]

    def collect(self) -> Path | None:
        return self.collect_from(self._context.directory) if self._context else None

    def collect_from(self, directory: Path) -> Path | None:
        """``collect`` for a trial's directory that another, ended process has recorded; needs a JDK of this machine.

        None without a recording, or with one of no samples. Raises LeadlineError for one that cannot be read.
        """
        raw = recording(directory)
        if not raw.is_file() or not raw.stat().st_size:
            return None
        with reading(str(raw)):
            table = tabulate(folded(raw))
        return table.write(directory / "series" / f"{self.name}.parquet")


def recording(directory: Path) -> Path:
    """The flight recording of a trial."""
    return directory / "raw" / "profile.jfr"


def folded(raw: Path) -> list[str]:
    """Lines of second, samples and stack of a flight recording. Raises LeadlineError."""
    return events_of("seconds", [raw])


def events_of(kind: str, files: Sequence[Path]) -> list[str]:
    """What ``FoldedSamples.java`` says of flight recordings, by the JDK's reader. Raises LeadlineError."""
    java, paths = find_java(), [file.absolute() for file in files]
    command = [str(java / "bin" / "java"), "-Xmx1g", "-XX:TieredStopAtLevel=1", str(_SOURCE), kind, *map(str, paths)]
    done = here.alone(command, [java, _SOURCE], paths, timeout=_PATIENCE, env=java_environment())
    if done.returncode:
        messages = [line for line in done.stderr.splitlines() if line.strip()]
        name, _, reason = (messages or [f"{paths[0].name}: exit code {done.returncode}"])[0].partition(": ")
        raise LeadlineError(f"{name} cannot be read: {reason}")
    return done.stdout.splitlines()


def tabulate(lines: Iterable[str]) -> TallTable:
    """The series of such lines. Raises ValueError for a line of another form."""
    table = TallTable()
    for line in lines:
        second, samples, stack = line.split("\t")
        table.add(int(second) * 10**9, METRIC, stack, int(samples))
    return table


def _quoted(path: Path) -> str:
    text = str(path.absolute())
    return f'"{text}"' if " " in text else text
