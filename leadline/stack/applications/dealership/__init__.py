"""The reference application *dealership* (docs/reference/dealership.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from leadline import catalogue
from leadline.host.base import Process, ProcessSpec
from leadline.host.java import JAVA_ENVIRONMENT, find_java
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.knob import Knob, Level
from leadline.model.units import parse_duration
from leadline.stack import started
from leadline.stack.applications.java import READY, JavaApplication, able, ask
from leadline.stack.base import (
    AskedFor,
    Companion,
    CompanionContext,
    ConnectionFactory,
    Counts,
    DataSource,
    Deployment,
    Feature,
    Queue,
    Receiver,
    RemoteBean,
    Settings,
)
from leadline.stack.started import LOOPBACK, Started

_KNOBS = catalogue.load("dealership")
AGENTS = _KNOBS["app.agents"]
CALLS = _KNOBS["app.calls"]
DELIVERIES = _KNOBS["app.deliveries"]
DELAY = _KNOBS["app.supplier_delay"]

MODES: Mapping[str, frozenset[Feature]] = {
    "direct": frozenset({Feature.SERVLETS}),
    "session": frozenset({Feature.SERVLETS, Feature.BEANS}),
}
_OUTSIDE = frozenset({Feature.BEANS, Feature.REMOTE_CLIENTS})
_READY_POLL = 0.05
_STOP = 10.0  # seconds until it is killed


def called(settings: Settings) -> bool:
    """Whether the plant's agents call the server remotely."""
    return settings.get(AGENTS.name, AGENTS.default) == "remote"


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
        return self._elsewhere or f"http://{started.LOOPBACK}:{self.context.port}"

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
            time.sleep(_READY_POLL)

    def stop(self) -> bool:
        process, self._process = self._process, None
        if process is None:
            return True
        return process.stop(_STOP)

    def log_tail(self, lines: int = 40) -> str:
        return started.tail(self.log, lines)

    def artefacts(self) -> Sequence[Path]:
        return [self.log] if self._context is not None and self.log.exists() else []


# The supplier emulator of dealership: a process of its own that takes purchase orders and delivers them later.


class Supplier(Beside):
    """Restartable: its journal, kept until ``reset``, holds what it has taken and delivered."""

    title = "the supplier emulator"
    name = "supplier"
    knob_names = (DELAY.name,)

    def __init__(self, tools: Callable[[], Path], java_home: Path | None) -> None:
        super().__init__(tools, java_home)
        self._delay = float(str(DELAY.default))

    def delay(self) -> float:
        """Mean seconds to a delivery, as the running process says. Raises LookupError."""
        try:
            return float(ask(self.name, self.url, "/health", timeout=10.0)["delay"])
        except (ValueError, KeyError, TypeError) as error:
            raise LookupError(f"{self.title} does not tell its delay: {error}") from error

    def properties(self) -> Mapping[str, str]:
        """System properties by which the server knows of it."""
        return {"dealership.supplier": self.url}

    def configure(self, context: CompanionContext, settings: Settings) -> None:
        super().configure(context, settings)
        self._delay = float(str(settings.get(DELAY.name, DELAY.default)))

    def reset(self, directory: Path) -> None:
        """Forget the orders of an earlier start in ``directory``; nothing runs."""
        for journal in directory.glob("journal*"):
            journal.unlink()

    def start(self) -> Process:
        context = self.context
        beside = urlsplit(context.url).hostname == LOOPBACK  # of the server: nobody else calls it
        words = ["emulate", "--host", LOOPBACK if beside else context.listen, "--port", str(context.port)]
        words += ["--delay", f"{self._delay:g}"]
        words += ["--seed", str(context.seed), "--deliver-to", context.url]
        return self.run((), (), [*words, "--journal", str(context.directory / "journal")])

    def counts(self) -> dict[str, Any]:
        """Orders received, delivered, pending and failed as it says itself. Raises LookupError."""
        if self._process is None and not self._elsewhere:
            raise LookupError(f"{self.title} has not been started")
        return ask(self.name, self.url, "/orders", timeout=10.0)


# The remote caller of dealership: a process that does the plant's requests by remote calls of the server.


BEAN = RemoteBean("PlantAgents", "leadline.dealership.remote.RemoteDealership")
_POPULATION = "plant"  # of the scenario


class Caller(Beside):
    """The load driver plans, sends and measures the requests of the plant's agents as ever, and sends them here."""

    title = "the remote caller"
    name = "caller"
    knob_names = (AGENTS.name,)

    def takes(self) -> Mapping[str, str]:
        """Population of the scenario -> where its requests go."""
        return {_POPULATION: self.address}

    def start(self) -> Process:
        context, client = self.context, self.context.client
        if client is None:
            raise LeadlineError(f"{self.title} was given no way to call the server")
        words = ["call", "--host", context.listen, "--port", str(context.port), "--bean", client.bean]
        words += [word for key, value in client.naming.items() for word in ("--naming", f"{key}={value}")]
        return self.run(client.options, client.class_path, words, client.reads)

    def agents(self) -> str:
        """``remote`` once the server has done a call for it; ``http`` where it does not run. Raises LookupError with
        its own words where the server did not.
        """
        if self._process is None:
            return "http"
        agents_answer = ask(self.name, self.url, "/agents", timeout=30.0)
        if "agents" not in agents_answer:
            raise LookupError(f"{self.title} cannot call the server: {agents_answer.get('error')}")
        return str(agents_answer["agents"])


_PROGRAMS = {"quarkus": "quarkus", "spring-boot": "spring"}  # framework -> the last word of its module
_DRAIN_TIMEOUT = 120.0
_POLL = 0.2


class Dealership(JavaApplication):
    name = "dealership"
    mode_features = MODES
    answers: ClassVar[Mapping[str, str]] = {CALLS.name: "calls", DELIVERIES.name: "deliveries", "app.mode": "mode"}
    queue = DELIVERIES

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.supplier = Supplier(lambda: self.built(self.tools()), self._java_home)
        self.caller = Caller(lambda: self.built(self.tools()), self._java_home)

    def scenarios(self) -> Sequence[str]:
        return ("dealership",)

    def knobs_on(self, mode: str, server: str, servers: Mapping[str, Set[Feature]]) -> Sequence[Knob]:
        agents, calls, deliveries, can = AGENTS, CALLS, DELIVERIES, servers[server]
        if Feature.BEANS not in MODES[mode]:
            reason = f"mode {mode} calls no session bean; take mode session, on {able(MODES['session'], servers)}"
            calls = replace(CALLS, refused={"remote": reason})
        elif Feature.REMOTE not in can:
            reason = f"{server} has no remote calls; {able({Feature.REMOTE}, servers)} have them"
            calls = replace(CALLS, refused={"remote": reason})
        if Feature.MESSAGING not in can:
            reason = f"deliveries go through a queue on {able({Feature.MESSAGING}, servers)}, not on {server}"
            deliveries = replace(DELIVERIES, refused={"queue": reason})
        if not can >= _OUTSIDE:
            reason = f"{server} takes no remote calls of other programs; {able(_OUTSIDE, servers)} can"
            agents = replace(AGENTS, refused={"remote": reason})
        return [agents, calls, deliveries, self.mode_on(server, servers), DELAY, *self.extra_costs()]

    def features(self, mode: str, settings: Settings) -> frozenset[Feature]:
        features = super().features(mode, settings)
        if called(settings):
            features |= _OUTSIDE
        if self.queued(settings):  # its receivers are beans, whatever the mode of the pages
            features |= {Feature.BEANS, Feature.MESSAGING}
        return features

    def deployment(self, mode: str, settings: Settings) -> Deployment:
        return Deployment(
            name=self.name,
            archive=self.archives()[self.queued(settings)],
            context_root="/dealership",
            data_source=DataSource("jdbc/dealership"),
            ready=READY,
            features=self.features(mode, settings),
            properties=self.properties(mode, settings),
            connection_factory=ConnectionFactory("jms/dealershipConnections"),
            queues=(
                Queue(
                    "jms/dealershipDeliveries",
                    Receiver("DeliveryReceiver", parallel=True),
                    "jms/dealershipDeadDeliveries",
                ),
                Queue("jms/dealershipDeadDeliveries", Receiver("DeadDeliveryReceiver")),
            ),
            programs=self._programs(),
            remote_bean=BEAN if called(settings) else None,
        )

    def companions(self, settings: Settings) -> Sequence[Companion]:
        return (self.supplier, self.caller) if called(settings) else (self.supplier,)

    def read_back(self, url: str, knob: str) -> Level:
        if knob == DELAY.name:
            return self.supplier.delay()
        if knob == AGENTS.name:
            return self.caller.agents()
        return super().read_back(url, knob)

    def login(self) -> str:
        return "log in as dealer-000001, password pw-000001"

    @property
    def modules(self) -> tuple[str, ...]:
        return ("common", *(f"dealership-{part}" for part in ("core", "web", "war", *_PROGRAMS.values(), "tools")))

    def archives(self) -> Sequence[Path]:
        """The second has the message-driven beans; then the programs."""
        wars = [self.artefact("dealership-war", name) for name in ("dealership.war", "dealership-queue.war")]
        return (*wars, *self._programs().values())

    def _programs(self) -> dict[str, Path]:
        modules = {framework: f"dealership-{part}" for framework, part in _PROGRAMS.items()}
        return {framework: self.artefact(module, f"{module}.jar") for framework, module in modules.items()}

    def drain(self, url: str, settings: Settings, times: Path) -> None:  # noqa: ARG002
        """Wait until every purchase order has been delivered, and the supplier knows it."""

        def left() -> tuple[int, int]:
            sent = ask(self.name, url, "/api/figures", timeout=30.0)["sent"]
            return int(sent), int(self.supplier.counts()["pending"])

        drain(left, _DRAIN_TIMEOUT)

    def audit_files(self, counts: Counts, load: AskedFor = None) -> Mapping[str, object]:
        """The driver's counts, those of `advance-1`, `advance-2`, ... as one; the supplier's own where it runs; what
        the agents of its own scenario asked for.
        """
        joined: dict[str, dict[str, int]] = {}
        for name, count in counts.items():
            sums = joined.setdefault(name.partition("-")[0], {"ok": 0, "failed": 0, "skipped": 0})
            for key in sums:
                sums[key] += int(count.get(key, 0))
        files = dict(super().audit_files(joined))
        if load is not None and load["scenario"] in self.scenarios():
            variables = load["variables"]
            files["--load"] = {
                "injection_rate": float(variables["injection_rate"]),
                **{name: parse_duration(variables[name]) for name in ("dealer_cycle", "plant_cycle")},
                **{name: load[name] for name in ("seconds", "waiting", "asked")},
            }
        try:
            return {**files, "--emulator": self.supplier.counts()}
        except LookupError:
            return files


def drain(
    left: Callable[[], tuple[int, int]],
    timeout: float,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until nothing is ``left`` of purchase orders: those sent and not delivered, and those the supplier holds.

    Raises TrialFailure(workload) when that takes longer than ``timeout`` seconds, (infrastructure) when the application
    or the supplier does not answer by then.
    """
    began = now()
    while True:
        try:
            sent, pending = left()
        except (LookupError, ValueError, TypeError) as error:  # it may be busy, or just back
            if now() - began > timeout:
                problem = f"what is left of purchase orders cannot be asked: {error}"
                raise TrialFailure(FailureClass.INFRASTRUCTURE, problem) from error
        else:
            if not sent and not pending:
                return
            if now() - began > timeout:
                problem = f"{sent} purchase orders are not delivered {timeout:g} s after the load"
                raise TrialFailure(FailureClass.WORKLOAD, f"{problem}; the supplier holds {pending}")
        sleep(_POLL)
