"""What GlassFish's part writes for a set of levels and reads from an answer, without starting the server."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
from server_context import PASSWORD, queued, server_context

from leadline.host.base import Host, Process
from leadline.model.errors import NotInPlay, UsageError
from leadline.model.knob import Level
from leadline.model.ownstack import OwnFile, OwnStack
from leadline.stack.base import ServiceContext
from leadline.stack.certificate import make_certificate
from leadline.stack.own.wars.glassfish import OwnGlassFish
from leadline.stack.servers import common, files, glassfish_levels, glassfish_messaging
from leadline.stack.servers.glassfish import GlassFish

# The parts of a shipped domain that are touched.
DOMAIN = """\
<domain>
  <resources>
    <jdbc-resource pool-name="DerbyPool" jndi-name="jdbc/__default"/>
    <jdbc-connection-pool name="DerbyPool" res-type="javax.sql.DataSource"/>
  </resources>
  <servers><server name="server"><resource-ref ref="jdbc/__default"/></server></servers>
  <configs><config name="server-config">
    <http-service><virtual-server id="server" network-listeners="http-listener-1,http-listener-2"/></http-service>
    <iiop-service><iiop-listener address="0.0.0.0" port="3700" id="orb"/></iiop-service>
    <admin-service><jmx-connector address="0.0.0.0" port="8686" name="system"/></admin-service>
    <network-config>
      <protocols>
        <protocol name="http-listener-1"><http max-connections="250"/></protocol>
        <protocol name="http-listener-2"><http max-connections="250"/></protocol>
      </protocols>
      <network-listeners>
        <network-listener port="8080" name="http-listener-1"/>
        <network-listener port="8181" name="http-listener-2"/>
        <network-listener port="4848" name="admin-listener"/>
      </network-listeners>
      <transports><transport name="tcp"/></transports>
    </network-config>
    <thread-pools><thread-pool name="http-thread-pool" max-queue-size="4096"/></thread-pools>
  </config></configs>
</domain>
"""


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceContext:
    domain = tmp_path / "dist" / "glassfish7" / "glassfish" / "domains" / "domain1"
    for part in ("config", "lib", "autodeploy"):
        (domain / part).mkdir(parents=True)
    (domain / "config" / "domain.xml").write_text(DOMAIN)

    return server_context(tmp_path, monkeypatch)


def configured(context: ServiceContext, levels: dict[str, Level]) -> ElementTree.Element:
    GlassFish().configure(context, levels)
    return ElementTree.parse(context.directory / "domain" / "config" / "domain.xml").getroot()


def test_what_the_server_writes_later_is_known_from_the_start(context: ServiceContext) -> None:
    server, observed = GlassFish(), replace(context, observe=True, raw=context.artefacts / "raw")
    server.configure(observed, {})
    assert {files.ANSWER, common.GC_LOG, *common.AGENT_FILES} <= {path.name for path in server.owns(observed)}


def test_all_work_shares_one_pool_and_only_http_is_at_a_known_port(context: ServiceContext) -> None:
    root = configured(context, {})
    names = {node.attrib["jndi-name"]: node.attrib["pool-name"] for node in root.iter("jdbc-resource")}
    assert names == {"jdbc/brokerage": "brokerage", "jdbc/__default": "brokerage"}
    (service,) = root.iter("jms-service")
    assert service.attrib["type"] == "REMOTE", "no broker for whoever connects"
    (pool,) = root.iter("jdbc-connection-pool")
    assert set(pool.attrib) == {"name", "res-type", "driver-classname"}, "only levels that are set are written"
    properties = {node.attrib["name"]: node.attrib["value"] for node in pool}
    assert properties["password"] == PASSWORD
    assert properties["URL"].startswith("jdbc:postgresql://127.0.0.1:15700/leadline?")
    listeners = [*root.iter("network-listener"), *root.iter("iiop-listener")]
    assert {node.attrib["address"] for node in listeners} == {"127.0.0.1"}
    assert [node.attrib["port"] for node in listeners] == ["15701", "0", "0"]
    assert [node.attrib["enabled"] for node in root.iter("jmx-connector")] == ["false"]
    assert [node.attrib["network-listeners"] for node in root.iter("virtual-server")] == ["http-listener-1"]


def test_levels_are_attributes(context: ServiceContext) -> None:
    levels: dict[str, Level] = {
        "server.datasource.max_connections": 7,
        "server.datasource.connection_timeout": 0.25,
        "server.datasource.validation": True,
        "server.threads.max": 40,
        "server.beans.max_instances": 9,
        "server.http.compression": True,
        "server.http.keep_alive_timeout": 7.0,
        "server.http.max_connections": 77,
        "server.access_log": True,
    }
    root = configured(context, levels)
    (pool,) = root.iter("jdbc-connection-pool")
    assert pool.attrib["max-pool-size"] == "7"
    assert pool.attrib["max-wait-time-in-millis"] == "250"
    assert pool.attrib["is-connection-validation-required"] == "true"
    assert pool.attrib["connection-validation-method"] == "custom-validation", "a round trip with every driver"
    assert next(root.iter("thread-pool")).attrib["max-thread-pool-size"] == "40"
    assert next(root.iter("ejb-container")).attrib["max-pool-size"] == "9"
    http = next(root.iter("http")).attrib
    assert (http["compression"], http["timeout-seconds"], http["max-connections"]) == ("on", "7", "250")
    assert next(root.iter("transport")).attrib["max-connections-count"] == "77"
    assert next(root.iter("http-service")).attrib["access-logging-enabled"] == "true"


def test_live_levels_are_attributes_of_beans(context: ServiceContext) -> None:
    most, least = "server.datasource.max_connections", "server.datasource.min_connections"

    def set_for(before: dict[str, Level], after: dict[str, Level]) -> list[str]:
        found = glassfish_levels.changes(before, after, context.application.data_source.name)
        return [
            found[name].partition("name=brokerage,pp=/domain/resources,type=jdbc-connection-pool|")[2]
            for name in sorted(found)
        ]

    assert set_for({most: 9, least: 7}, {most: 5, least: 2}) == ["SteadyPoolSize|2", "MaxPoolSize|5"]
    assert set_for({most: 5, least: 2}, {most: 9, least: 7}) == ["MaxPoolSize|9", "SteadyPoolSize|7"]
    assert set_for({}, {most: 5}) == ["SteadyPoolSize|5", "MaxPoolSize|5"], "it keeps eight by default"
    assert set_for({most: 5}, {most: 20}) == ["MaxPoolSize|20", "SteadyPoolSize|8"]
    validation = "server.datasource.validation"
    assert set_for({validation: False}, {validation: True}) == [
        "ConnectionValidationMethod|custom-validation",
        "ValidationClassname|org.glassfish.api.jdbc.validation.JDBC40ConnectionValidation",
        "IsConnectionValidationRequired|true",
    ]
    assert set_for({validation: True}, {validation: False}) == ["IsConnectionValidationRequired|false"]
    with pytest.raises(UsageError, match=r"min_connections 6 is more than server\.datasource\.max_connections 5"):
        set_for({most: 9}, {most: 5, least: 6})


def test_a_queue_has_its_resources_and_levels(context: ServiceContext) -> None:
    levels: dict[str, Level] = {
        "server.messaging.reliability": "assured-persistent",
        "server.messaging.consumers": 3,
        "server.transactions.log_place": "disk",
    }
    root = configured(queued(context), levels)
    names = {node.attrib["jndi-name"]: node[0].attrib["value"] for node in root.iter("admin-object-resource")}
    assert names == {
        "jms/brokerageOrders": "brokerageOrders",
        "jms/brokerageDeadOrders": "mq.sys.dmq",
        "jms/brokerageQuotes": "brokerageQuotes",
    }
    (pool,) = root.iter("connector-connection-pool")
    assert pool.attrib["transaction-support"] == "XATransaction"
    assert {*names, "jms/brokerageConnections"} < {node.attrib["ref"] for node in root.iter("resource-ref")}
    (service,) = root.iter("jms-service")
    assert service.attrib["type"] == "EMBEDDED"
    users = context.directory / "domain" / "broker-users"
    assert service.attrib["start-args"] == (
        f"-Dimq.hostname=127.0.0.1 -Dimq.persist.file.sync.enabled=true -Dimq.user_repository.file.dirpath={users}"
    )
    assert (users / "passwd").stat().st_mode & 0o077 == 0
    told = dict(line.split(":")[:2] for line in (users / "passwd").read_text().splitlines())
    assert set(told) == {"admin", "guest"}
    assert told["admin"] != "-2d5455c8583c24eec82c7a1e273ea02e", "the shipped one, admin"
    assert next(root.iter("mdb-container")).attrib == {"max-pool-size": "3"}
    assert next(root.iter("transaction-service")).attrib == {"automatic-recovery": "true"}
    server = GlassFish()
    server.configure(context, {})
    own = glassfish_levels.question(context.application.data_source.name)
    assert dict(server.question()) == {**own, **glassfish_messaging.QUESTION}
    assert len(server.question()) == len(own) + len(glassfish_messaging.QUESTION), "under names of their own"
    (service,) = configured(queued(context), {}).iter("jms-service")
    assert service.attrib["start-args"].partition(" -Dimq.user_")[0].endswith("sync.enabled=false")
    assert [*configured(context, levels).iter("connector-connection-pool")] == []


def test_the_levels_of_messaging_are_read_from_the_server(context: ServiceContext) -> None:
    config = "pp=/domain/configs/config[server-config]"
    answer: dict[str, dict[str, dict[str, object]]] = {
        "beans": {
            f"amx:{config},type=jms-service": {"StartArgs": "-Dimq.persist.file.sync.enabled=true"},
            f"amx:{config},type=mdb-container": {"MaxPoolSize": "3"},
            f"amx:{config},type=transaction-service": {"TxLogDir": "/dev/shm/x"},
        }
    }
    name = "server.messaging.reliability"
    with pytest.raises(NotInPlay, match=r"sends no messages"):
        glassfish_messaging.level(name, answer, context)
    broker = "com.sun.messaging.jms.server:subtype=Monitor,type=Broker"
    answer["beans"][broker] = {"Embedded": True, "InstanceName": "imqbroker"}
    with pytest.raises(LookupError, match="no file store"):
        glassfish_messaging.level("server.messaging.store", answer, context)
    (context.directory / "domain" / "imq" / "instances" / "imqbroker" / "fs370").mkdir(parents=True)
    expected: dict[str, Level] = {
        name: "assured-persistent",
        "server.messaging.store": "file",
        "server.messaging.store_place": context.host.place_of(context.directory),
        "server.messaging.consumers": 3,
        "server.transactions.log_place": "tmpfs",
    }
    assert {each: glassfish_messaging.level(each, answer, context) for each in expected} == expected
    answer["beans"][f"amx:{config},type=jms-service"]["StartArgs"] = "-Dimq.persist.file.sync.enabled=false"
    assert glassfish_messaging.level(name, answer, context) == "reliable-persistent"
    log = answer["beans"][f"amx:{config},type=transaction-service"]
    log["TxLogDir"] = "${com.sun.aas.instanceRoot}/logs"
    assert glassfish_messaging.level("server.transactions.log_place", answer, context) == context.host.place_of(
        context.directory
    )


def test_with_tls_the_listener_has_the_runs_certificate(context: ServiceContext) -> None:
    context = replace(context, certificate=make_certificate())
    root = configured(context, {"server.tls": True})
    (protocol,) = root.iter("protocol")
    assert protocol.attrib == {"name": "http-listener-1", "security-enabled": "true"}
    assert [node.attrib["cert-nickname"] for node in protocol.iter("ssl")] == ["s1as"]
    store = context.directory / "domain" / "config" / "keystore.jks"
    assert store.stat().st_mode & 0o077 == 0
    found = load_pkcs12(store.read_bytes(), b"changeit").cert
    assert found is not None
    assert found.friendly_name == b"s1as"
    assert context.certificate is not None
    assert found.certificate.public_bytes(Encoding.PEM).decode() == context.certificate.certificate
    assert [*configured(context, {}).iter("ssl")] == []


@pytest.mark.parametrize(
    ("observe", "levels", "written"),
    [
        (True, {}, "HIGH"),
        (False, {}, "OFF"),
        (True, {"server.monitoring": False}, "OFF"),
        (False, {"server.monitoring": True}, "HIGH"),
    ],
)
def test_statistics_are_on_while_observed_unless_a_level_says_otherwise(
    context: ServiceContext, observe: bool, levels: dict[str, Level], written: str
) -> None:
    root = configured(replace(context, observe=observe), levels)
    (found,) = root.iter("module-monitoring-levels")
    assert found.attrib == {"jdbc-connection-pool": written, "http-service": written}


def test_levels_that_glassfish_cannot_have_are_refused(context: ServiceContext) -> None:
    with pytest.raises(UsageError, match=r"idle_timeout 1.5 s: GlassFish counts whole seconds; the nearest is 2s"):
        GlassFish().configure(context, {"server.datasource.idle_timeout": 1.5})
    with pytest.raises(UsageError, match=r"server.threads.min 6 is more than server.threads.max 5; set at most 5"):
        GlassFish().configure(context, {"server.threads.min": 6})


def test_no_artefact_keeps_the_password(context: ServiceContext) -> None:
    server = GlassFish()
    server.configure(context, {})
    (kept,) = server.artefacts()
    assert kept.name == "glassfish-domain.xml"
    assert PASSWORD not in kept.read_text()
    assert "a&lt;b&amp;c" not in kept.read_text()
    assert (context.directory / "domain" / "config" / "domain.xml").stat().st_mode & 0o077 == 0


def test_levels_are_read_from_the_configurations_beans() -> None:
    pool = "amx:name=brokerage,pp=/domain/resources,type=jdbc-connection-pool"
    http = "amx:pp=/domain/configs/config[server-config]/network-config/protocols/protocol[http-listener-1],type=http"
    monitoring = "amx:pp=/domain/configs/config[server-config]/monitoring-service,type=module-monitoring-levels"
    answer: dict[str, dict[str, dict[str, str]]] = {
        "beans": {
            pool: {"MaxPoolSize": "7", "MaxWaitTimeInMillis": "17000", "IsConnectionValidationRequired": "true"},
            http: {"Compression": "off", "TimeoutSeconds": "30"},
            monitoring: {"JdbcConnectionPool": "HIGH", "HttpService": "HIGH"},
        }
    }
    server = GlassFish()
    expected: dict[str, Level] = {
        "server.datasource.max_connections": 7,
        "server.datasource.connection_timeout": 17.0,
        "server.datasource.validation": True,
        "server.http.compression": False,
        "server.http.keep_alive_timeout": 30.0,
        "server.monitoring": True,
    }
    assert {name: server.level_of(name, answer) for name in expected} == expected
    with pytest.raises(KeyError, match="http-thread-pool"):
        server.level_of("server.threads.max", answer)
    with pytest.raises(LookupError, match=r"does not tell the level of server\.nonsense"):
        server.level_of("server.nonsense", answer)
    answer["beans"][monitoring]["HttpService"] = "OFF"
    with pytest.raises(LookupError, match=r"server\.monitoring at different levels: HIGH, OFF"):
        server.level_of("server.monitoring", answer)


class FakeAgent:
    """Of a server that registers one bean more between two answers, up to a number of them."""

    def __init__(self, patch: pytest.MonkeyPatch, names: Collection[str], most: int) -> None:
        self.names = list(names)[:most]
        self.asked = 0
        patch.setattr(common, "ask", self.ask)
        patch.setattr(common, "java_pid", lambda _files, _process: 1)
        patch.setattr(common, "_POLL", 0.0)

    def ask(
        self, _host: Host, java: Path | None, pid: int, directory: Path, question: Mapping[str, str]
    ) -> Mapping[str, Any]:
        assert (java, pid, question["invoke.0"]) == (None, 1, "amx-support:type=boot-amx|bootAMX")
        self.asked += 1
        return {"flags": {}, "beans": {name: {} for name in self.names[: self.asked]}, "errors": {}}


def asked(context: ServiceContext, levels: dict[str, Level]) -> GlassFish:
    server = GlassFish()
    server.configure(context, levels)
    server._process = cast(Process, object())
    return server


@pytest.mark.parametrize(("orders", "beans"), [("direct", 7), ("queue", 11)])
def test_the_answer_is_asked_for_until_every_bean_is_registered(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch, orders: str, beans: int
) -> None:
    server = asked(
        queued(context, orders),
        {"server.messaging.consumers": 3},
    )
    agent = FakeAgent(monkeypatch, server.expected_beans(), beans)
    server.ready_timeout = 60.0
    assert len(server.answer()["beans"]) == beans == agent.asked
    server.answer()
    assert agent.asked == beans, "a whole answer is kept"
    patterns = {question.partition("|")[0] for name, question in server.question().items() if name.startswith("bean.")}
    assert set(agent.names) <= patterns, "only what is asked for can come"


def test_a_bean_that_never_comes_is_named_after_the_time_to_be_ready(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = asked(context, {})
    agent = FakeAgent(monkeypatch, server.expected_beans(), 6)
    server.ready_timeout = 0.2
    said = r"GlassFish has not shown 1 of the MBeans asked for, amx:.*module-monitoring-levels first, 0\.2 s after"
    with pytest.raises(LookupError, match=said):
        server.answer()
    before = agent.asked
    assert before > 6
    with pytest.raises(LookupError, match=said):
        server.answer()
    assert agent.asked == before + 1, "the time is not waited for again"


MINE = (
    DOMAIN.replace(
        "</resources>",
        """  <jdbc-connection-pool name="MyPool" max-pool-size="20" steady-pool-size="6"/>
  </resources>
  <applications>
    <application name="mine" context-root="/brokerage"/><application name="other" context-root="/other"/>
  </applications>""",
    )
    .replace(
        "<http-service>",
        """<jms-service type="EMBEDDED" default-jms-host="h"><jms-host name="h" host="any" port="7676"/></jms-service>
    <system-property name="WHO" value="me"/>
    <java-config>
      <jvm-options>-Xmx300m</jvm-options>
      <jvm-options>[|8]-XX:MaxPermSize=9m</jvm-options>
      <jvm-options>[9|]-Dmine=${com.sun.aas.instanceRoot}/${WHO}</jvm-options>
      <jvm-options>-Dosgi.shell.telnet.port=6666</jvm-options>
    </java-config>
    <http-service>""",
    )
    .replace(
        '<server name="server">', '<server name="server"><application-ref ref="mine"/><application-ref ref="other"/>'
    )
)


def own(domain: Path, **more: str) -> OwnGlassFish:
    content = {"stack": "brokerage", "war": "a.war", "server": "glassfish", "server_config": str(domain), **more}
    return OwnGlassFish(OwnFile(file="/a.stack.yaml", content=OwnStack.model_validate(content)))


def test_levels_go_over_a_domain_of_ones_own(context: ServiceContext, tmp_path: Path) -> None:
    (tmp_path / "mine" / "config").mkdir(parents=True)
    (tmp_path / "mine" / "config" / "domain.xml").write_text(MINE)
    server, context = own(tmp_path / "mine"), replace(context, database=None)
    assert "server.tls" not in {knob.name for knob in server.knobs()}
    server.configure(context, {"server.datasource.max_connections": 4, "jvm.heap": 64 << 20})
    domain = context.directory / "domain"
    root = ElementTree.parse(domain / "config" / "domain.xml").getroot()
    pool = root.find("resources/jdbc-connection-pool[@name='MyPool']")
    assert pool is not None
    assert (pool.get("max-pool-size"), pool.get("steady-pool-size")) == ("4", "4"), "it cannot keep six of four"
    ports = {node.attrib["name"]: node.attrib["port"] for node in root.iter("network-listener")}
    assert ports == {"http-listener-1": "15701", "admin-listener": "0"}
    (broker,) = root.iter("jms-host")
    assert broker.attrib["host"] == "127.0.0.1"
    assert broker.attrib["port"] not in ("7676", "15701")
    assert [node.attrib["name"] for node in root.iter("application")] == ["other"]
    assert [node.attrib["ref"] for node in root.iter("application-ref")] == ["other"]
    assert (domain / "autodeploy" / "brokerage.war").is_symlink()
    words, _ = server.command(context)
    assert f"-Dmine={domain}/me" in words
    assert words.index("-Xmx300m") < words.index(f"-Xmx{64 << 20}"), "a level wins"
    assert not [word for word in words if "MaxPermSize" in word or "telnet" in word]
    assert (tmp_path / "mine" / "config" / "domain.xml").read_text() == MINE


def test_a_domain_without_a_broker_gets_none_at_a_fixed_port(context: ServiceContext, tmp_path: Path) -> None:
    (tmp_path / "mine" / "config").mkdir(parents=True)
    (tmp_path / "mine" / "config" / "domain.xml").write_text(DOMAIN)
    own(tmp_path / "mine").configure(replace(context, database=None), {})
    (broker,) = ElementTree.parse(context.directory / "domain" / "config" / "domain.xml").getroot().iter("jms-host")
    assert broker.attrib["host"] == "127.0.0.1"
    assert broker.attrib["port"] != "7676"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "has no config/domain.xml"),
        ("<server/>", "begins with <server>, not with <domain> as GlassFish's"),
        (MINE.replace("http-thread-pool", "mine"), "thread-pools/thread-pool.* where leadline writes levels"),
    ],
)
def test_a_directory_that_is_no_domain_is_told(tmp_path: Path, text: str | None, told: str) -> None:
    (tmp_path / "config").mkdir()
    if text is not None:
        (tmp_path / "config" / "domain.xml").write_text(text)
    with pytest.raises(UsageError, match=told):
        _ = own(tmp_path).pool


def test_no_archive_is_at_the_root_itself(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="GlassFish takes it from the archive's name: write /name"):
        own(tmp_path, context_root="/")
