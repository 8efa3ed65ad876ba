"""Apache Tomcat: a private CATALINA_BASE, levels as properties that its server.xml substitutes.

The pool is Tomcat's default, Commons DBCP 2: it tells waiters and the mean wait for a connection in MBeans that need
no switching on, which the alternative (tomcat-jdbc) does not.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from typing import ClassVar

from leadline.model.knob import Knob, Level
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.provision import TOMCAT, Artefact
from leadline.stack.servers import evidence, knobs
from leadline.stack.servers.common import Answer, JavaServer, beans, properties_text, template

_NOT_DEPLOYED = re.compile(r"startup failed due to previous errors|SEVERE.*\bError deploying\b")
_UPKEEP_MS = 5000  # how often the pool is brought up to its minimum; without it Tomcat never looks
_THREADS = 200  # Tomcat's default maxThreads
_SPARE_THREADS = 25  # Tomcat's default minSpareThreads; it must not exceed maxThreads
# As bin/catalina.sh of this version passes them.
_JAVA_OPTIONS = (
    "-Djdk.tls.ephemeralDHKeySize=2048",
    "-Djava.protocol.handler.pkgs=org.apache.catalina.webresources",
    "-Dsun.io.useCanonCaches=false",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.rmi/sun.rmi.transport=ALL-UNNAMED",
)
_POOL = (
    "maxTotal",
    "minIdle",
    "maxWaitMillis",
    "poolPreparedStatements",
    "maxOpenPreparedStatements",
    "numActive",
    "numIdle",
)
_BEANS = (
    f"Catalina:type=DataSource,*|{','.join(_POOL)}",
    "Catalina:type=Executor,*|maxThreads,minSpareThreads",
    "Catalina:type=ProtocolHandler,*|maxKeepAliveRequests",
    "Catalina:type=Valve,name=AccessLogValve,*|enabled",
)
_MANUAL = "Apache Tomcat 10.1 configuration reference"


def _own(knob: Knob, name: str, default: Level | None, **more: object) -> Knob:
    return knobs.for_server(knob, "tomcat", name, default, _MANUAL, **more)


class Tomcat(JavaServer):
    """Tomcat with one application; started as a JVM directly, without its scripts."""

    name: ClassVar[str] = "tomcat"
    title: ClassVar[str] = "Tomcat"
    distribution: ClassVar[Artefact] = TOMCAT

    def server_knobs(self) -> Sequence[Knob]:
        return [
            _own(knobs.MAX_CONNECTIONS, "Resource/@maxTotal", 8),
            _own(knobs.MIN_CONNECTIONS, "Resource/@minIdle and @initialSize", 0),
            _own(knobs.STATEMENT_CACHE, "Resource/@maxOpenPreparedStatements", 0),
            _own(knobs.CONNECTION_TIMEOUT, "Resource/@maxWaitMillis", None),  # waits without end
            _own(knobs.THREADS, "Executor/@maxThreads", _THREADS),
            _own(knobs.MIN_THREADS, "Executor/@minSpareThreads", _SPARE_THREADS),
            _own(knobs.KEEP_ALIVE, "Connector/@maxKeepAliveRequests", 100),
            _own(knobs.MONITORING, "Resource/@registerConnectionMBean", True),
            _own(knobs.ACCESS_LOG, "Valve AccessLogValve/@enabled", False),
        ]

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        base = context.directory
        home = self.home / f"apache-tomcat-{self.version}"
        for part in ("conf/Catalina/localhost", "lib", "logs", "temp", "webapps", "work"):
            (base / part).mkdir(parents=True)
        shutil.copyfile(home / "conf" / "web.xml", base / "conf" / "web.xml")
        jar = self.driver.jar()
        (base / "lib" / jar.name).symlink_to(jar)
        (base / "conf" / "server.xml").write_text(template("tomcat-server.xml"))
        (base / "conf" / "logging.properties").write_text(template("tomcat-logging.properties"))
        application = context.context_root.strip("/").replace("/", "#") or "ROOT"
        (base / "conf" / "Catalina" / "localhost" / f"{application}.xml").write_text(template("tomcat-context.xml"))
        # Tomcat reads this file first and makes its entries system properties: the loaders come from its own copy.
        own = (home / "conf" / "catalina.properties").read_text()
        properties = self._properties(context, settings)
        (base / "conf" / "catalina.properties").write_text(f"{own}\n{properties_text(properties)}")
        (base / "conf" / "catalina.properties").chmod(0o600)
        self.keep("server.xml", template("tomcat-server.xml"))
        self.keep("levels.properties", properties_text({**properties, "leadline.database.password": "(not kept)"}))

    def _properties(self, context: ServiceContext, settings: Settings) -> dict[str, str]:
        values = {
            "leadline.http.address": context.http_address,
            "leadline.http.port": str(context.http_port),
            "leadline.archive": str(context.archive),
            **self.database_properties(context),
        }
        names = {
            knobs.MAX_CONNECTIONS.name: "leadline.pool.max",
            knobs.MIN_CONNECTIONS.name: "leadline.pool.min",
            knobs.THREADS.name: "leadline.threads.max",
            knobs.KEEP_ALIVE.name: "leadline.http.keepalive",
        }
        values |= {names[name]: str(level) for name, level in settings.items() if name in names}
        if knobs.CONNECTION_TIMEOUT.name in settings:
            values["leadline.pool.wait"] = str(round(float(settings[knobs.CONNECTION_TIMEOUT.name]) * 1000))
        statements = settings.get(knobs.STATEMENT_CACHE.name, 0)
        if statements:
            values |= {"leadline.statements.pooled": "true", "leadline.statements.max": str(statements)}
        knobs.check_threads(settings, _THREADS)
        spare = settings.get(
            knobs.MIN_THREADS.name, min(_SPARE_THREADS, int(settings.get(knobs.THREADS.name, _THREADS)))
        )
        values["leadline.threads.spare"] = str(spare)
        if settings.get(knobs.MIN_CONNECTIONS.name):
            values["leadline.pool.upkeep"] = str(_UPKEEP_MS)
        switches = {knobs.ACCESS_LOG.name: "leadline.access.log", knobs.MONITORING.name: "leadline.monitoring"}
        values |= {switches[name]: str(level).lower() for name, level in settings.items() if name in switches}
        return values

    def command(self, context: ServiceContext) -> tuple[list[str], dict[str, str]]:
        base, home = context.directory, self.home / f"apache-tomcat-{self.version}"
        argv = [
            str(self.java_home(context) / "bin" / "java"),
            *self.jvm_options(context),
            *_JAVA_OPTIONS,
            f"-Djava.util.logging.config.file={base}/conf/logging.properties",
            "-Djava.util.logging.manager=org.apache.juli.ClassLoaderLogManager",
            # A connector that cannot listen ends the server instead of leaving a deaf one.
            "-Dorg.apache.catalina.startup.EXIT_ON_INIT_FAILURE=true",
            "-classpath",
            f"{home}/bin/bootstrap.jar:{home}/bin/tomcat-juli.jar",
            f"-Dcatalina.base={base}",
            f"-Dcatalina.home={home}",
            f"-Djava.io.tmpdir={base}/temp",
            "org.apache.catalina.startup.Bootstrap",
            "start",
        ]
        return argv, {}

    def failed_for_good(self, found: evidence.Evidence) -> bool:
        return super().failed_for_good(found) or any(_NOT_DEPLOYED.search(line) for line in found.errors)

    def question(self) -> Mapping[str, str]:
        return {f"bean.{number}": pattern for number, pattern in enumerate(_BEANS)}

    def level_of(self, name: str, answer: Answer) -> Level:
        if name == knobs.THREADS.name:
            return int(beans(answer, "type=Executor")[0]["maxThreads"])
        if name == knobs.MIN_THREADS.name:
            return int(beans(answer, "type=Executor")[0]["minSpareThreads"])
        if name == knobs.KEEP_ALIVE.name:
            return int(beans(answer, "type=ProtocolHandler")[0]["maxKeepAliveRequests"])
        if name == knobs.ACCESS_LOG.name:
            return bool(beans(answer, "name=AccessLogValve")[0]["enabled"])
        pool = next(bean for bean in beans(answer, "type=DataSource") if "maxTotal" in bean)
        if name == knobs.MAX_CONNECTIONS.name:
            return int(pool["maxTotal"])
        if name == knobs.MIN_CONNECTIONS.name:
            return int(pool["minIdle"])
        if name == knobs.STATEMENT_CACHE.name:
            return int(pool["maxOpenPreparedStatements"]) if pool["poolPreparedStatements"] else 0
        if name == knobs.CONNECTION_TIMEOUT.name:
            if int(pool["maxWaitMillis"]) < 0:
                raise LookupError("Tomcat's pool waits without end")
            return float(pool["maxWaitMillis"]) / 1000
        if name == knobs.MONITORING.name:
            if not pool["numActive"] + pool["numIdle"]:
                raise LookupError("Tomcat's pool has opened no connection yet whose MBean would tell server.monitoring")
            return any("connection=" in bean for bean in answer["beans"])
        raise LookupError(f"Tomcat does not tell the level of {name}")
