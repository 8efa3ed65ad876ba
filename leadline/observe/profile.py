"""Observer "profile": what the server's JVM does by stack, by its flight recorder, in the stretches asked for.

CPU samples, allocation, and waiting for locks and parked. From JDK 25 on, CPU samples are of the threads' CPU time,
native code and the kernel included; before, the JVM looks at up to five of its threads that run Java code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from leadline.host import here
from leadline.host.base import Host
from leadline.host.java import find_java, java_environment, java_pid, jcmd
from leadline.host.textfile import write_private
from leadline.model.errors import LeadlineError
from leadline.model.received import reading
from leadline.model.study import PROFILE_MS
from leadline.observe.base import ObserverContext
from leadline.observe.table import TallTable

CPU_SAMPLES, SAMPLES = "profile.cpu_samples", "profile.samples"
# By event of the flight recorder.
METRICS = {
    "jdk.CPUTimeSample": CPU_SAMPLES,
    "jdk.ExecutionSample": SAMPLES,
    "jdk.ObjectAllocationSample": "profile.allocated",
    "jdk.JavaMonitorEnter": "profile.locks",
    "jdk.JavaMonitorWait": "profile.waits",
    "jdk.ThreadPark": "profile.parked",
    "jdk.ThreadSleep": "profile.sleeps",
    "jdk.SocketRead": "profile.reads",
}
WAITS = {metric: event for event, metric in list(METRICS.items())[3:]}
_SUBJECT = "in that second; the subject is the stack, the outermost method first"
_WAITED = "of a wait that ends then; the subject is the thread, then the stack"
UNITS: Mapping[str, str] = {
    CPU_SAMPLES: f"samples of CPU time {_SUBJECT}",
    SAMPLES: f"samples of threads that run Java code {_SUBJECT}",
    "profile.allocated": f"bytes {_SUBJECT}",
    **dict.fromkeys(WAITS, f"us {_WAITED}"),
}
Detail = Literal["light", "full"]
# Each: allocation samples a second; before _CPU_TIME, time between two samples. Only ``full`` records waits.
_RATES: Mapping[Detail, tuple[int, str]] = {"light": (20, "10 ms"), "full": (150, "2 ms")}
_CPU_TIME = 25  # the first JDK that samples CPU time
_DEPTH = 512  # frames of a stack; 64, the usual, cut those of application servers
_WHOLE, _NAME = "leadline", "leadline-samples"  # recordings: one that keeps all, and one for each stretch
_SOURCE = Path(__file__).with_name("FoldedSamples.java")
_INEXACT = (
    "profile: the server's JVM runs without -XX:+UnlockDiagnosticVMOptions -XX:+DebugNonSafepoints: its samples are "
    "credited to the nearest safepoint, often in another method"
)
_LARGEST = "2g"  # of a recording; by itself a JVM drops what is older than its last 250 MB
_PATIENCE = 300.0  # s to read a recording


def _settings(detail: Detail, cpu_time: bool) -> str:
    allocations, period = _RATES[detail]
    cpu: dict[str, dict[str, str]] = {"jdk.ExecutionSample": {"period": period}}
    if cpu_time:
        cpu = {"jdk.CPUTimeSample": {"throttle": f"{PROFILE_MS[detail]} ms"}, "jdk.CPUTimeSamplesLost": {}}
    events = {
        **cpu,
        "jdk.ObjectAllocationSample": {"throttle": f"{allocations}/s", "stackTrace": "true"},
        **{event: {"threshold": "0 ms", "stackTrace": "true"} for event in WAITS.values() if detail == "full"},
    }
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<configuration version="2.0" label="leadline">']
    for event, settings in events.items():
        chosen = "".join(f'<setting name="{name}">{value}</setting>' for name, value in settings.items())
        lines.append(f'<event name="{event}"><setting name="enabled">true</setting>{chosen}</event>')
    return "\n".join([*lines, "</configuration>", ""])


class ProfileObserver:
    """Has the server's JVM record to ``raw/profile.jfr`` while ``sample`` says so."""

    name = "profile"

    def __init__(self, host: Host, detail: Detail) -> None:
        self._host = host
        self._detail = detail
        self._context: ObserverContext | None = None
        self._java = 0  # the JVM that records
        self._sampling = False
        self._problem = ""
        self._inexact = False

    @property
    def warnings(self) -> Sequence[str]:
        return [text for text in (self._problem, _INEXACT if self._inexact else "") if text]

    def start(self, context: ObserverContext) -> None:
        """Nothing is recorded before the first ``sample``."""
        self._context, self._java, self._sampling, self._problem = context, 0, False, ""
        self._inexact = False

    def sample(self, on: bool) -> None:
        """Take samples from now on, or no more. Never fails a trial: see ``warnings``."""
        if self._context is None or on == self._sampling or (self._problem and on):
            return
        try:
            if on:
                self._begin(self._context)
            else:
                self._ask("JFR.stop", f"name={_NAME}")
            self._sampling = on
        except (LeadlineError, ProcessLookupError) as error:
            self._problem = f"no profile of the server: {error}"

    def _begin(self, context: ObserverContext) -> None:
        server = context.processes.get("server")
        if server is None:
            raise LeadlineError("there is none")
        settings = context.directory / "raw" / "profile.jfc"
        if not self._java:
            self._java = java_pid(self._host.files, server)
            version = re.search(r"^JDK (\d+)", self._ask("VM.version"), re.MULTILINE)
            self._inexact = "+DebugNonSafepoints" not in self._ask("VM.flags")
            settings.parent.mkdir(parents=True, exist_ok=True)
            settings.write_text(_settings(self._detail, version is not None and int(version[1]) >= _CPU_TIME))
            settings.chmod(0o644)  # the server's user reads it, whatever the mask
            self._ask("JFR.configure", f"stackdepth={_DEPTH}")  # refused where a recording ran before
            self._start(f"name={_WHOLE}", "settings=none")
        self._start(f"name={_NAME}", f"settings={_quoted(settings)}")

    def _start(self, *words: str) -> None:
        reply = self._ask("JFR.start", *words, f"maxsize={_LARGEST}")
        if "Started recording" not in reply:
            raise LeadlineError(" ".join(reply.split()))

    def stop(self) -> None:
        self.sample(False)
        if not self._java or self._context is None:
            return
        file = recording(self._context.directory)
        write_private(file, "")
        try:
            self._host.give(file, self._java)
            self._ask("JFR.stop", f"name={_WHOLE}", f"filename={_quoted(file)}")
        except LeadlineError as error:
            self._problem = f"no profile of the server: {error}"
        finally:
            self._java = 0
            file.with_suffix(".jfc").unlink(missing_ok=True)

    def _ask(self, *words: str) -> str:
        assert self._context is not None
        return jcmd(self._host, self._context.java_home, self._java, list(words), timeout=60.0)[1]

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
            table = tabulate(events_of("seconds", [raw]))
        return table.write(directory / "series" / f"{self.name}.parquet") if len(table) else None


def recording(directory: Path) -> Path:
    """The flight recording of a trial."""
    return directory / "raw" / "profile.jfr"


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
        time_ns, event, value, stack = line.split("\t")
        table.add(int(time_ns), METRICS[event], stack, int(value))
    return table


def _quoted(path: Path) -> str:
    text = str(path.absolute())
    return f'"{text}"' if " " in text else text
