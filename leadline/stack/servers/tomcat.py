"""Apache Tomcat: a private CATALINA_BASE, levels as properties that its server.xml substitutes.

The pool is Tomcat's default, Commons DBCP 2: it tells waiters and the mean wait for a connection in MBeans that need
no switching on, which the alternative (tomcat-jdbc) does not.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from xml.sax.saxutils import quoteattr

from leadline import catalogue
from leadline.host.textfile import write_private
from leadline.model.knob import ApplyCost, Level
from leadline.stack.base import Deployment, Feature, ServiceContext, Settings
from leadline.stack.provision import TOMCAT, Artefact
from leadline.stack.servers import knobs
from leadline.stack.servers.common import Answer, JavaServer
from leadline.stack.servers.files import LogEvidence, beans, properties_text, template

_THREADS = 200  # Tomcat's default maxThreads
_EVICTABLE = 1800000  # its pool's default minEvictableIdleTimeMillis
_SPARE_THREADS = 25  # Tomcat's default minSpareThreads; it must not exceed maxThreads

_WAYS = knobs.ways_of("tomcat")
_ASKED = ("poolPreparedStatements", "maxOpenPreparedStatements", "numActive", "numIdle")  # of the pool, beside levels
_BEANS = {
    "DataSource": "type=DataSource",
    "Executor": "type=Executor",
    "ProtocolHandler": "type=ProtocolHandler",
    "AccessLogValve": "type=Valve,name=AccessLogValve",
}


def _question(place: str) -> str:
    attributes = [way.attribute for way in _WAYS.values() if way.place == place]
    return f"Catalina:{_BEANS[place]},*|{','.join([*attributes, *(_ASKED if place == 'DataSource' else ())])}"


QUESTION = {f"bean.{number}": _question(place) for number, place in enumerate(_BEANS)}

_LOOKED_OVER = (knobs.MIN_CONNECTIONS.name, knobs.IDLE_TIMEOUT.name)
_HTTP2_ELEMENT = '      <UpgradeProtocol className="org.apache.coyote.http2.Http2Protocol"/>\n'


def properties(settings: Settings) -> dict[str, str]:
    """Properties of the template for the levels that are set. Raises UsageError for levels that contradict."""
    values = {
        _WAYS[name].variable: _WAYS[name].written(name, level, "Tomcat")
        for name, level in settings.items()
        if name in _WAYS
    }
    if statements := settings.get(knobs.STATEMENT_CACHE.name, 0):
        values |= {"leadline.statements.pooled": "true", "leadline.statements.max": str(statements)}
    knobs.check_bounds(settings, knobs.MIN_THREADS, knobs.THREADS, _THREADS)
    spare = min(_SPARE_THREADS, int(settings.get(knobs.THREADS.name, _THREADS)))
    values.setdefault("leadline.threads.spare", str(spare))
    if any(settings.get(name) for name in _LOOKED_OVER):
        values["leadline.pool.upkeep"] = str(knobs.UPKEEP * 1000)  # Tomcat never looks by itself
    return values


# property -> what changes while Tomcat runs
_LIVE = {
    **{
        _WAYS[name].variable: _WAYS[name]
        for name, knob in catalogue.load("tomcat").items()
        if name in _WAYS and knob.apply_cost is ApplyCost.LIVE
    },
    "leadline.pool.upkeep": knobs.Way(place="DataSource", attributes=("timeBetweenEvictionRunsMillis",)),
}
_DEFAULTS = {"leadline.pool.upkeep": "-1", "leadline.http.compression": "off"}


def changes(before: Mapping[str, str], after: Mapping[str, str], application: Deployment) -> list[str]:
    """What the agent sets, from the properties that the levels had to those that they have now."""
    beans_ = {place: f"Catalina:{bean},*" for place, bean in _BEANS.items()}
    names = {**beans_, "DataSource": _pool(application), "Executor": "Catalina:type=Executor,name=http"}
    wanted = {name: after.get(name, _DEFAULTS.get(name)) for name in _LIVE}
    changed = [name for name, value in wanted.items() if value != before.get(name, _DEFAULTS.get(name))]
    threads = "leadline.threads.max"
    if threads in changed and int(after[threads]) < int(before.get(threads, _THREADS)):
        changed.reverse()  # it refuses fewer threads than it keeps
    return [
        f"{names[_LIVE[name].place]}|{attribute}|{wanted[name]}"
        for name in changed
        for attribute in _LIVE[name].attributes
    ]


def _pool(application: Deployment) -> str:
    return f'Catalina:type=DataSource,class=javax.sql.DataSource,name="{application.data_source.jndi}"'


def draining(application: Deployment, most: Level) -> list[str]:
    """What the agent sets so that the pool comes down to ``most`` connections: those that are idle are closed within
    hundredths of a second, those in use when they are given back. By itself the pool goes on using what it has.
    """
    limits = {"maxTotal": most, "maxIdle": 0, "minEvictableIdleTimeMillis": 1, "timeBetweenEvictionRunsMillis": 10}
    return [f"{_pool(application)}|{name}|{value}" for name, value in limits.items()]


def drained(application: Deployment, settings: Settings) -> list[str]:
    """What ends ``draining``."""
    upkeep = properties(settings).get("leadline.pool.upkeep", _DEFAULTS["leadline.pool.upkeep"])
    limits = {"minEvictableIdleTimeMillis": _EVICTABLE, "timeBetweenEvictionRunsMillis": upkeep}
    return [f"{_pool(application)}|{name}|{value}" for name, value in limits.items()]


def connections(answer: Mapping[str, Any]) -> int:
    """How many the pool has open."""
    pool = _of_pool(answer)
    return int(pool["numActive"]) + int(pool["numIdle"])


def configuration(text: str, settings: Settings) -> str:
    """The template of server.xml without the elements that the levels switch off."""
    assert _HTTP2_ELEMENT in text
    return text if settings.get(knobs.HTTP2.name, True) else text.replace(_HTTP2_ELEMENT, "")


def with_socket(text: str, path: str) -> str:
    """server.xml with a second connector of the same levels on a Unix socket."""
    match = re.search(r"    <Connector .*?</Connector>\n", text, re.DOTALL)
    assert match
    address = 'address="${leadline.http.address}" port="${leadline.http.port}"'
    assert address in match[0]
    # Web servers run as another user where leadline is root.
    socket = f'unixDomainSocketPath={quoteattr(path)} unixDomainSocketPathPermissions="rwxrwxrwx"'
    return text[: match.end()] + match[0].replace(address, socket) + text[match.end() :]


def with_tls(text: str, certificate: str, key: str) -> str:
    """server.xml with TLS on its connector."""
    files = f"certificateFile={quoteattr(certificate)} certificateKeyFile={quoteattr(key)}"
    host = f'      <SSLHostConfig><Certificate {files} type="EC"/></SSLHostConfig>\n'
    match = re.search(r"    <Connector (.*?)>\n(.*?)    </Connector>\n", text, re.DOTALL)
    assert match
    tls = 'SSLEnabled="true" scheme="https" secure="true"'
    connector = f"    <Connector {tls} {match[1]}>\n{host}{match[2]}    </Connector>\n"
    return text[: match.start()] + connector + text[match.end() :]


def _of_pool(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(bean for bean in beans(answer, "type=DataSource") if "maxTotal" in bean)


def level(name: str, answer: Mapping[str, Any]) -> Level:
    """A knob's level from the agent's answer. Raises LookupError, KeyError."""
    if name == knobs.STATEMENT_CACHE.name:
        pool = _of_pool(answer)
        return int(pool["maxOpenPreparedStatements"]) if pool["poolPreparedStatements"] else 0
    if name == knobs.MONITORING.name:
        if not connections(answer):
            raise LookupError("Tomcat's pool has opened no connection yet whose MBean would tell server.monitoring")
        return any("connection=" in bean for bean in answer["beans"])
    if name not in _WAYS:
        raise LookupError(f"Tomcat does not tell the level of {name}")
    way = _WAYS[name]
    bean = _of_pool(answer) if way.place == "DataSource" else beans(answer, f"={way.place}")[0]
    return way.level(name, bean[way.attribute], "Tomcat")


_NOT_DEPLOYED = re.compile(r"startup failed due to previous errors|SEVERE.*\bError deploying\b")
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


class Tomcat(JavaServer):
    """Tomcat with one application; started as a JVM directly, without its scripts."""

    name: ClassVar[str] = "tomcat"
    title: ClassVar[str] = "Tomcat"
    distribution: ClassVar[Artefact] = TOMCAT
    temporary: ClassVar[tuple[str, ...]] = ("temp", "work")
    features: ClassVar[frozenset[Feature]] = frozenset({Feature.SERVLETS})
    unix_socket: ClassVar[bool] = True

    @property
    def unpacked(self) -> Path:
        """CATALINA_HOME."""
        return self.home / f"apache-tomcat-{self.version}"

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        base, home = context.directory, self.unpacked
        for part in ("conf/Catalina/localhost", "lib", "logs", "temp", "webapps", "work"):
            (base / part).mkdir(parents=True)
        shutil.copyfile(home / "conf" / "web.xml", base / "conf" / "web.xml")
        jar = self.driver.jar()
        (base / "lib" / jar.name).symlink_to(jar)
        server = configuration(template(f"{self.name}-server.xml", context.application), settings)
        if context.http_socket is not None:
            server = with_socket(server, str(context.http_socket))
        if settings.get(knobs.TLS.name) and context.certificate is not None:
            certificate, key = context.certificate.write(base / "conf")
            server = with_tls(server, str(certificate), str(key))
        (base / "conf" / "server.xml").write_text(server)
        (base / "conf" / "logging.properties").write_text(template("tomcat-logging.properties"))
        context_file = base / "conf" / "Catalina" / "localhost" / f"{context.application.file_name}.xml"
        context_file.write_text(template(f"{self.name}-context.xml", context.application))
        # Tomcat reads this file first and makes its entries system properties: the loaders come from its own copy.
        shipped = (home / "conf" / "catalina.properties").read_text()
        properties = self._properties(context, settings)
        write_private(base / "conf" / "catalina.properties", f"{shipped}\n{properties_text(properties)}")
        self.keep("server.xml", server)
        self.keep("levels.properties", properties_text({**properties, "leadline.database.password": "(not kept)"}))

    def _properties(self, context: ServiceContext, settings: Settings) -> dict[str, str]:
        values = {
            "leadline.http.address": context.http_address,
            "leadline.http.port": str(context.http_port),
            "leadline.archive": str(context.application.archive),
            **self.database_properties(context),
        }
        return values | self.level_properties(settings)

    def level_properties(self, settings: Settings) -> dict[str, str]:
        """Properties that the templates substitute, for the levels that are set. Raises UsageError."""
        return properties(settings)

    def command(self, context: ServiceContext) -> tuple[list[str], dict[str, str]]:
        base, home = context.directory, self.unpacked
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

    def changes(self, levels: Settings, settings: Settings) -> Mapping[str, str]:
        del levels
        before, after = self.level_properties(self._settings), self.level_properties(settings)
        return _set(changes(before, after, self.context.application))

    def change(self, levels: Settings) -> None:
        application, most = self.context.application, levels.get(knobs.MAX_CONNECTIONS.name)
        if most is None:
            super().change(levels)
            return
        drain = _set(draining(application, most))
        try:
            self.tell(drain, lambda answer: connections(answer) <= int(most))
        finally:
            self.tell(_set(drained(application, {**self._settings, **levels})))
        super().change(levels)

    def failed_for_good(self, found: LogEvidence) -> bool:
        return super().failed_for_good(found) or any(_NOT_DEPLOYED.search(line) for line in found.errors)

    def question(self) -> Mapping[str, str]:
        return QUESTION

    def level_of(self, name: str, answer: Answer) -> Level:
        return level(name, answer)


def _set(changes: list[str]) -> dict[str, str]:
    return {f"set.{number:02}": change for number, change in enumerate(changes)}
