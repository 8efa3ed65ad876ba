"""Programs of dealership's tools that run beside its server and belong to the load."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from leadline.host.base import Process, ProcessSpec
from leadline.host.java import find_java
from leadline.host.jvm import JAVA_ENVIRONMENT
from leadline.model.errors import FailureClass, TrialFailure
from leadline.stack import local
from leadline.stack.applications.health import ask
from leadline.stack.base import CompanionContext, Settings
from leadline.stack.started import Started

_POLL = 0.05
_STOP = 10.0  # seconds until it is killed


class Beside(Started[CompanionContext]):
    """One of them; it tells its state at ``/health``."""

    name: str
    knob_names: Sequence[str] = ()

    def __init__(self, tools: Callable[[], Path], java_home: Path | None) -> None:
        super().__init__()
        self._elsewhere = ""
        self._tools, self._java_home = tools, java_home

    @property
    def log(self) -> Path:
        return self.context.artefacts / f"{self.name}.log"

    @property
    def url(self) -> str:
        """Where this host reaches it."""
        return self._elsewhere or f"http://{local.LOOPBACK}:{self.context.port}"

    @property
    def address(self) -> str:
        return f"http://{self.context.address}:{self.context.port}"

    def use(self, address: str) -> None:
        self._elsewhere = address

    def properties(self) -> Mapping[str, str]:
        return {}

    def takes(self) -> Mapping[str, str]:
        return {}

    def configure(self, context: CompanionContext, settings: Settings) -> None:
        del settings
        self._context = context
        context.directory.mkdir(parents=True, exist_ok=True)
        context.artefacts.mkdir(parents=True, exist_ok=True)

    def reset(self, directory: Path) -> None:
        del directory

    def run(
        self, options: Sequence[str], classes: Sequence[Path], words: Sequence[str], reads: Sequence[Path] = ()
    ) -> Process:
        """Start the tools with these options of the JVM, jars after their own (with what else those read), and words
        of their command line.
        """
        context, jar = self.context, self._tools()
        java = (self._java_home or find_java()) / "bin" / "java"
        unset = [word for name in JAVA_ENVIRONMENT for word in ("-u", name)]
        command = ["env", *unset, str(java), "-XX:+UseSerialGC", "-Xmx256m", "-XX:TieredStopAtLevel=1", *options]
        command += ["-cp", ":".join(map(str, (jar, *classes))), "leadline.dealership.tools.Main", *words]
        spec = ProcessSpec(
            name=self.name,
            argv=command,
            output=self.log,
            cwd=context.directory,
            cpus=context.cpus,
            owns=(context.directory,),
            reads=(java.parent.parent, jar, *classes, *reads),
        )
        return self.launch(context.host, spec)

    def wait_ready(self, timeout: float) -> float:
        """Seconds from the start to its first answer. Raises TrialFailure(infrastructure): it is part of the load."""
        end = self._started + timeout
        while True:
            try:
                ask(self.name, self.url, "/health", timeout=2.0)
                return time.monotonic() - self._started
            except LookupError as error:
                if not self.process.alive() or time.monotonic() > end:
                    problem = f"{self.title} did not answer within {timeout:g} s ({error})"
                    raise TrialFailure(FailureClass.INFRASTRUCTURE, problem, self.log_tail()) from error
            time.sleep(_POLL)

    def stop(self) -> bool:
        process, self._process = self._process, None
        if process is None:
            return True
        return process.stop(_STOP)

    def log_tail(self, lines: int = 40) -> str:
        return local.tail(self.log, lines)

    def artefacts(self) -> Sequence[Path]:
        return [self.log] if self._context is not None and self.log.exists() else []
