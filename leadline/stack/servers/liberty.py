"""Open Liberty: a private WLP_USER_DIR, levels as variables in configDropins/overrides."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from xml.sax.saxutils import quoteattr

from leadline.model.errors import UsageError
from leadline.model.knob import Knob, Level
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.provision import LIBERTY, Artefact
from leadline.stack.servers import evidence, knobs
from leadline.stack.servers.common import MODE, Answer, JavaServer, template

_SERVER = "leadline"
# Jakarta EE 9.1, the level that the archive is compiled against; each mode has what it needs and no more.
_SERVLETS = ("servlet-5.0", "jdbc-4.3", "jndi-1.0")
_BEANS = (*_SERVLETS, "enterpriseBeansLite-4.0", "persistence-3.0")
# The container checks all beans of the archive at start, so those of mode orm need their provider in mode session too.
_FEATURES = {"direct": _SERVLETS, "session": _BEANS, "orm": _BEANS}
_MONITOR = "monitor-1.0"
_CONFIGURATIONS = {
    "source": "(service.factoryPid=com.ibm.ws.jdbc.dataSource)",
    "manager": "(service.factoryPid=com.ibm.ws.jca.connectionManager)",
    "executor": "(service.pid=com.ibm.ws.threading)",
    "http": "(service.factoryPid=com.ibm.ws.http.options)",
    "endpoint": "(service.factoryPid=com.ibm.ws.http)",
}
# Errors of the application (CWWKZ), of features (CWWKF) and of the configuration (CWWKG); CWWKZ0012I: not started.
_NOT_STARTED = re.compile(r"\bCWWK[ZFG]\d{4}E\b|\bCWWKZ0012I\b")
_REFERENCES = {"manager": ("source", "connectionManagerRef"), "http": ("endpoint", "httpOptionsRef")}
_IDENTITIES = {"source": "DefaultDataSource", "endpoint": "defaultHttpEndpoint"}
_LAUNCH_VARIABLES = ("JVM_ARGS", "WLP_DEBUG_ADDRESS", "LOG_FILE", "VARIABLE_SOURCE_DIRS", "SERVER_WORKING_DIR")
_MANUAL = "Open Liberty server configuration reference"


def _own(knob: Knob, name: str, default: Level | None, **more: object) -> Knob:
    return knobs.for_server(knob, "liberty", name, default, _MANUAL, **more)


class Liberty(JavaServer):
    """Open Liberty with one application; ``server run`` replaces its shell by the JVM."""

    name: ClassVar[str] = "liberty"
    title: ClassVar[str] = "Open Liberty"
    distribution: ClassVar[Artefact] = LIBERTY

    def server_knobs(self) -> Sequence[Knob]:
        return [
            _own(knobs.MAX_CONNECTIONS, "connectionManager/@maxPoolSize", 50),
            _own(knobs.MIN_CONNECTIONS, "connectionManager/@minPoolSize", 0),
            _own(knobs.STATEMENT_CACHE, "dataSource/@statementCacheSize", 10),
            _own(knobs.CONNECTION_TIMEOUT, "connectionManager/@connectionTimeout", 30.0, minimum=1),
            _own(knobs.THREADS, "executor/@maxThreads", None, minimum=4),  # none: as many as throughput gains from
            _own(knobs.MIN_THREADS, "executor/@coreThreads", None),
            _own(knobs.KEEP_ALIVE, "httpOptions/@maxKeepAliveRequests", -1),
            _own(knobs.MONITORING, "featureManager/feature monitor-1.0", False),
            _own(knobs.ACCESS_LOG, "httpEndpoint/accessLogging", False),
        ]

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        server = context.directory / "usr" / "servers" / _SERVER
        overrides = server / "configDropins" / "overrides"
        overrides.mkdir(parents=True)
        (server / "server.xml").write_text(template("liberty-server.xml"))
        (server / "jvm.options").write_text("".join(f"{option}\n" for option in self.jvm_options(context)))
        variables = self._variables(context, settings)
        (overrides / "levels.xml").write_text(self._overrides(context, settings, variables))
        (overrides / "levels.xml").chmod(0o600)
        self.keep("server.xml", template("liberty-server.xml"))
        hidden = {**variables, "leadline.database.password": "(not kept)"}
        self.keep("levels.xml", self._overrides(context, settings, hidden))

    def _variables(self, context: ServiceContext, settings: Settings) -> dict[str, str]:
        values = {
            "leadline.http.address": context.http_address,
            "leadline.http.port": str(context.http_port),
            "leadline.archive": str(context.archive),
            "leadline.context.root": context.context_root,
            "leadline.driver": str(self.driver.jar()),
            **self.database_properties(context),
            "leadline.database.driver": self.driver.connection_pool_data_source,
        }
        names = {
            knobs.MAX_CONNECTIONS.name: "leadline.pool.max",
            knobs.MIN_CONNECTIONS.name: "leadline.pool.min",
            knobs.STATEMENT_CACHE.name: "leadline.statements",
            knobs.THREADS.name: "leadline.threads.max",
            knobs.MIN_THREADS.name: "leadline.threads.min",
            knobs.KEEP_ALIVE.name: "leadline.http.keepalive",
        }
        knobs.check_threads(settings, None)
        values |= {names[name]: str(level) for name, level in settings.items() if name in names}
        if knobs.CONNECTION_TIMEOUT.name in settings:
            seconds = float(settings[knobs.CONNECTION_TIMEOUT.name])
            if seconds != int(seconds):
                raise UsageError(
                    f"{knobs.CONNECTION_TIMEOUT.name} {seconds:g} s: Open Liberty counts whole seconds;"
                    f" the nearest is {max(1, round(seconds))}s"
                )
            values["leadline.pool.wait"] = f"{int(seconds)}s"
        return values

    def _overrides(self, context: ServiceContext, settings: Settings, variables: Mapping[str, str]) -> str:
        mode = context.properties.get(MODE, "direct")
        if mode not in _FEATURES:
            raise UsageError(f"Open Liberty knows no mode {mode!r}; the modes are {', '.join(_FEATURES)}")
        features = list(_FEATURES[mode])
        # A level that was set wins: observing must not undo a treatment.
        if settings.get(knobs.MONITORING.name, context.observe):
            features.append(_MONITOR)
        lines = ["<server>", "  <featureManager>"]
        lines += [f"    <feature>{feature}</feature>" for feature in features]
        lines.append("  </featureManager>")
        lines += [
            f"  <variable name={quoteattr(name)} value={quoteattr(value)}/>"
            for name, value in sorted(variables.items())
        ]
        if settings.get(knobs.ACCESS_LOG.name, False):
            path = quoteattr(str(context.directory / "access.log"))
            lines.append('  <httpEndpoint id="defaultHttpEndpoint">')
            lines.append(f"    <accessLogging filePath={path}/>")
            lines.append("  </httpEndpoint>")
        return "\n".join([*lines, "</server>", ""])

    def command(self, context: ServiceContext) -> tuple[list[str], dict[str, str]]:
        script = self.home / "wlp" / "bin" / "server"
        unset = [word for name in _LAUNCH_VARIABLES if name in os.environ for word in ("-u", name)]
        argv = ["env", *unset, "sh", str(script), "run", _SERVER]
        environment = {
            "JAVA_HOME": str(self.java_home(context)),
            "WLP_USER_DIR": str(context.directory / "usr"),
            "WLP_OUTPUT_DIR": str(context.directory / "output"),
            "LOG_DIR": str(context.artefacts / "liberty-logs"),
            "PID_DIR": str(context.directory / "output"),
        }
        return argv, environment

    def failed_for_good(self, found: evidence.Evidence) -> bool:
        return super().failed_for_good(found) or any(_NOT_STARTED.search(line) for line in found.errors)

    def question(self) -> Mapping[str, str]:
        asked = {f"configuration.{name}": filter_ for name, filter_ in _CONFIGURATIONS.items()}
        return {**asked, "bean.0": "WebSphere:type=ThreadPoolStats,*"}

    def level_of(self, name: str, answer: Answer) -> Level:
        if name == knobs.MONITORING.name:
            return any("type=ThreadPoolStats" in bean for bean in answer["beans"])
        if name in (knobs.THREADS.name, knobs.MIN_THREADS.name):
            attribute = "maxThreads" if name == knobs.THREADS.name else "coreThreads"
            threads = int(_configuration(answer, "executor")[attribute])
            if threads < 0:
                raise LookupError("Open Liberty chooses the number of threads by the throughput it sees")
            return threads
        if name == knobs.KEEP_ALIVE.name:
            return int(_configuration(answer, "http")["maxKeepAliveRequests"])
        if name == knobs.ACCESS_LOG.name:
            return bool(_configuration(answer, "endpoint").get("accessLoggingRef"))
        if name == knobs.STATEMENT_CACHE.name:
            return int(_configuration(answer, "source")["statementCacheSize"])
        manager = _configuration(answer, "manager")
        if name == knobs.MAX_CONNECTIONS.name:
            return int(manager["maxPoolSize"])
        if name == knobs.MIN_CONNECTIONS.name:
            return int(manager["minPoolSize"])
        if name == knobs.CONNECTION_TIMEOUT.name:
            return float(manager["connectionTimeout"])  # resolved to seconds
        raise LookupError(f"Open Liberty does not tell the level of {name}")


def _configuration(answer: Answer, kind: str) -> Mapping[str, Any]:
    """Resolved properties of the configuration in use: the one that its user refers to, not one of the defaults.

    Raises KeyError when there is none.
    """
    found: list[Mapping[str, Any]] = answer["configurations"].get(_CONFIGURATIONS[kind], [])
    if kind in _REFERENCES:
        user, reference = _REFERENCES[kind]
        wanted = _configuration(answer, user)[reference]
        names = wanted if isinstance(wanted, list) else [wanted]
        found = [properties for properties in found if properties["service.pid"] in names]
    elif kind in _IDENTITIES:
        found = [properties for properties in found if properties.get("id") == _IDENTITIES[kind]]
    if not found:
        raise KeyError(f"configuration {_CONFIGURATIONS[kind]}")
    return found[0]
