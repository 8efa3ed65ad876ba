"""What the servers write for a set of levels, without starting one."""

import json
import socket
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from server_context import PASSWORD, brokerage, server_context

from leadline import catalogue
from leadline.host.base import Host, Process, ProcessSpec
from leadline.host.local import LocalHost
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.knob import Catalogue, Level
from leadline.model.ownstack import OwnFile, OwnStack
from leadline.model.study import Placement
from leadline.stack import registry
from leadline.stack.base import ServiceContext
from leadline.stack.own.wars.tomcat import OwnTomcat
from leadline.stack.servers import common, files, jvm
from leadline.stack.servers.common import JavaServer
from leadline.stack.servers.knobs import KNOBS as MESSAGING
from leadline.stack.servers.liberty import Liberty
from leadline.stack.servers.tomcat import Tomcat
from leadline.stack.servers.wildfly import WildFly


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceContext:
    conf = tmp_path / "dist" / f"apache-tomcat-{Tomcat.distribution.version}" / "conf"
    conf.mkdir(parents=True)
    (conf / "web.xml").write_text("<web-app/>")
    (conf / "catalina.properties").write_text("common.loader=x\n")

    return server_context(tmp_path, monkeypatch, "direct")


def overrides(context: ServiceContext, levels: dict[str, Level]) -> ElementTree.Element:
    Liberty().configure(context, levels)
    file = context.directory.with_name(f"{context.directory.name}-agent") / "levels.xml"
    return ElementTree.parse(file).getroot()


def variables(root: ElementTree.Element) -> dict[str, str]:
    return {node.attrib["name"]: node.attrib["value"] for node in root.iter("variable")}


def features(root: ElementTree.Element) -> list[str]:
    return [str(node.text) for node in root.iter("feature")]


def tomcat_properties(context: ServiceContext, levels: dict[str, Level]) -> dict[str, str]:
    Tomcat().configure(context, levels)
    lines = (context.directory / "conf" / "catalina.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line.startswith("leadline."))


@pytest.mark.parametrize("kind", registry.SERVERS.values())
def test_knobs_are_one_catalogue_with_the_servers_own_names(kind: type[JavaServer]) -> None:
    for knob in Catalogue(kind().knobs()):
        assert knob.summary
        assert knob.source
        assert set(knob.names) in ({kind.name}, {"jvm"})
        if knob.default is not None:
            assert knob.parse(knob.default) == knob.default


def test_every_common_knob_is_some_servers() -> None:
    of_tomcat, of_liberty = ({knob.name for knob in kind().knobs()} for kind in (Tomcat, Liberty))
    of_wildfly = {knob.name for knob in WildFly().knobs()}
    assert set(catalogue.load("server")) <= of_tomcat | of_liberty | of_wildfly
    assert of_liberty - of_tomcat == {"server.datasource.purge_policy", *(knob.name for knob in MESSAGING)}
    assert of_tomcat - of_liberty == {"server.threads.keep_alive", "server.threads.queue", "server.http.accept_queue"}


def test_only_levels_that_are_set_are_written(context: ServiceContext) -> None:
    assert not [name for name in variables(overrides(context, {})) if name.startswith(("leadline.pool", "leadline.s"))]
    assert "leadline.pool.max" not in tomcat_properties(context, {})


@pytest.mark.parametrize("kind", [Tomcat, Liberty])
def test_a_half_written_configuration_does_not_reach_the_next_start(
    kind: type[JavaServer], context: ServiceContext
) -> None:
    def written() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in context.directory.rglob("*") if path.is_file()}

    kind().configure(context, {})
    whole = written()
    assert whole
    for path, content in whole.items():
        path.write_bytes(content[: len(content) // 2])
    (context.directory / "left-behind.xml").write_text("<half")
    kind().configure(context, {})
    assert written() == whole


def test_liberty_writes_levels_as_variables(context: ServiceContext) -> None:
    levels: dict[str, Level] = {
        "server.datasource.max_connections": 7,
        "server.datasource.statement_cache": 0,
        "server.datasource.connection_timeout": 4.0,
        "server.http.max_keep_alive_requests": 100,
    }
    found = variables(overrides(context, levels))
    assert found["leadline.pool.max"] == "7"
    assert found["leadline.statements"] == "0"
    assert found["leadline.pool.wait"] == "4s"
    assert found["leadline.http.keepalive"] == "100"
    assert found["leadline.database.password"] == PASSWORD


def test_liberty_takes_isolation_and_platform_from_the_database(context: ServiceContext) -> None:
    root = overrides(context, {})
    assert variables(root)["leadline.database.isolation"] == "TRANSACTION_READ_COMMITTED"
    assert variables(root)["leadline.database.driver"] == "org.postgresql.ds.PGConnectionPoolDataSource"
    assert not list(root.iter("jpa"))
    assert context.database is not None
    other = replace(context.database, subprotocol="mariadb", isolation="REPEATABLE_READ")
    root = overrides(replace(context, database=other), {})
    assert variables(root)["leadline.database.isolation"] == "TRANSACTION_REPEATABLE_READ"
    assert variables(root)["leadline.database.driver"] == "org.mariadb.jdbc.MariaDbDataSource"
    assert variables(root)["leadline.database.url"].startswith("jdbc:mariadb://127.0.0.1:15700/leadline?")
    (platform,) = root.iter("property")
    assert platform.attrib == {"name": "eclipselink.target-database", "value": "MySQL"}


def test_a_database_without_a_driver_is_refused(context: ServiceContext) -> None:
    assert context.database is not None
    with pytest.raises(UsageError, match="no JDBC driver for db2; there is one for mariadb, postgresql"):
        tomcat_properties(replace(context, database=replace(context.database, subprotocol="db2")), {})


def test_liberty_refuses_parts_of_a_second(context: ServiceContext) -> None:
    with pytest.raises(UsageError, match=r"connection_timeout 4.6 s: .* whole seconds; the nearest is 5s"):
        overrides(context, {"server.datasource.connection_timeout": 4.6})


@pytest.mark.parametrize(
    ("observe", "levels", "on"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"server.monitoring": False}, False),
        (False, {"server.monitoring": True}, True),
    ],
)
def test_a_level_of_monitoring_wins_over_observing(
    context: ServiceContext, observe: bool, levels: dict[str, Level], on: bool
) -> None:
    assert ("monitor-1.0" in features(overrides(replace(context, observe=observe), levels))) is on


def test_liberty_has_the_features_that_the_mode_needs(context: ServiceContext) -> None:
    assert features(overrides(context, {"server.monitoring": False})) == ["servlet-5.0", "jdbc-4.3", "jndi-1.0"]
    orm = replace(context, deployment=replace(context.application, features=brokerage("orm").features))
    assert {"enterpriseBeansLite-4.0", "persistence-3.0"} <= set(features(overrides(orm, {})))


def test_tomcat_writes_levels_as_properties(context: ServiceContext) -> None:
    levels: dict[str, Level] = {
        "server.datasource.max_connections": 7,
        "server.datasource.min_connections": 2,
        "server.datasource.statement_cache": 60,
        "server.datasource.connection_timeout": 0.25,
        "server.threads.max": 10,
        "server.access_log": True,
        "server.monitoring": False,
    }
    found = tomcat_properties(context, levels)
    assert found["leadline.pool.max"] == "7"
    assert found["leadline.pool.upkeep"] == "5000", "a minimum is only kept with upkeep"
    assert (found["leadline.statements.pooled"], found["leadline.statements.max"]) == ("true", "60")
    assert found["leadline.pool.wait"] == "250"
    assert (found["leadline.threads.max"], found["leadline.threads.spare"]) == ("10", "10")
    assert found["leadline.access.log"] == "true"
    assert found["leadline.monitoring"] == "false"
    assert found["leadline.database.url"].endswith("?preparedStatementCacheQueries=0")
    assert found["leadline.database.password"] == PASSWORD.replace("\\", "\\\\")


@pytest.mark.parametrize("kind", [Tomcat, Liberty])
def test_more_kept_threads_than_the_maximum_are_refused(kind: type[JavaServer], context: ServiceContext) -> None:
    with pytest.raises(UsageError, match=r"server.threads.min 30 is more than server.threads.max 20; set at most 20"):
        kind().configure(context, {"server.threads.max": 20, "server.threads.min": 30})


def test_tomcats_default_maximum_bounds_the_kept_threads(context: ServiceContext) -> None:
    with pytest.raises(UsageError, match="set at most 200"):
        Tomcat().configure(context, {"server.threads.min": 201})


def test_no_statement_cache_means_no_pooling_of_statements(context: ServiceContext) -> None:
    assert "leadline.statements.pooled" not in tomcat_properties(context, {"server.datasource.statement_cache": 0})


@pytest.mark.parametrize(("root", "file"), [("/brokerage", "brokerage"), ("/", "ROOT")])
def test_tomcat_deploys_at_the_context_root(context: ServiceContext, root: str, file: str) -> None:
    Tomcat().configure(replace(context, deployment=replace(context.application, context_root=root)), {})
    assert (context.directory / "conf" / "Catalina" / "localhost" / f"{file}.xml").exists()


@pytest.mark.parametrize("kind", [Tomcat, Liberty])
def test_no_artefact_keeps_the_password(kind: type[JavaServer], context: ServiceContext) -> None:
    server = kind()
    server.configure(context, {})
    files: Sequence[Path] = server.artefacts()
    assert {file.suffix for file in files} == ({".xml"} if kind is Liberty else {".xml", ".properties"})
    escaped = (PASSWORD, "a&lt;b&amp;c", PASSWORD.replace("\\", "\\\\"))
    assert not [file for file in files for text in escaped if text in file.read_text()]


@pytest.mark.parametrize("kind", [Tomcat, Liberty])
def test_the_jvm_gets_levels_properties_and_a_log_while_observed(
    kind: type[JavaServer], context: ServiceContext
) -> None:
    server = kind()
    server.configure(context, {"jvm.collector": "serial"})
    assert "-Dbrokerage.mode=direct" in server.jvm_options(context)
    assert "-XX:+UseSerialGC" in server.jvm_options(context)
    assert [option for option in server.jvm_options(context) if option.startswith("-Xlog:gc*,safepoint:file=")]
    assert not [o for o in server.jvm_options(replace(context, observe=False)) if o.startswith("-Xlog")]
    recorder = set(jvm.recorder(server.own_artefacts(context)))
    assert recorder <= set(server.jvm_options(replace(context, profile=True)))
    assert not recorder & set(server.jvm_options(context))


class FakeHost(LocalHost):
    """Keeps what it was asked to start."""

    def __init__(self) -> None:
        super().__init__()
        self.specs: list[ProcessSpec] = []

    def start(self, spec: ProcessSpec) -> Process:  # type: ignore[override]
        self.specs.append(spec)
        return cast(Process, None)


@pytest.mark.parametrize("kind", [Tomcat, Liberty])
def test_the_shells_java_variables_do_not_reach_the_server(
    kind: type[JavaServer], context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    placement = Placement(server_cpus="1", server_memory=2**30)
    monkeypatch.setattr(common, "find_java_home", lambda wanted: wanted or Path("/jdk"))
    server = kind()
    server.configure(replace(context, host=host, http_port=port, placement=placement), {})
    server.start()
    (spec,) = host.specs
    assert spec.argv[0] == "env"
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        assert spec.argv[spec.argv.index(name) - 1] == "-u"
    assert (spec.name, spec.cpus, spec.limits) == ("server", "1", {"memory": 2**30})
    assert spec.output == context.artefacts / "server.log"


@pytest.mark.parametrize("kind", [Tomcat, Liberty])
def test_what_is_missing_is_named(kind: type[JavaServer], context: ServiceContext) -> None:
    server = kind()
    with pytest.raises(UsageError, match=r"no knob server.nonsense; it has jvm.collector"):
        server.configure(context, {"server.nonsense": 1})
    with pytest.raises(UsageError, match="needs a database, an archive and a port"):
        server.configure(replace(context, database=None), {})
    with pytest.raises(LeadlineError, match=r"none.war does not exist; build it first"):
        server.configure(replace(context, deployment=replace(context.application, archive=Path("none.war"))), {})
    with pytest.raises(LeadlineError, match="has not been configured"):
        server.start()
    with pytest.raises(LookupError, match="has not been started"):
        server.read_back("jvm.heap")
    assert server.stop(), "nothing to stop"


def test_liberty_reads_the_configuration_that_is_in_use(context: ServiceContext) -> None:
    answer = {
        "beans": {},
        "configurations": {
            "(service.factoryPid=com.ibm.ws.jdbc.dataSource)": [
                {"id": "Other", "connectionManagerRef": ["m0"], "statementCacheSize": 1},
                {"id": "DefaultDataSource", "connectionManagerRef": ["m1"], "statementCacheSize": 60},
            ],
            "(service.factoryPid=com.ibm.ws.jca.connectionManager)": [
                {"service.pid": "m0", "maxPoolSize": 50},
                {"service.pid": "m1", "maxPoolSize": 7},
            ],
            "(service.factoryPid=com.ibm.ws.http)": [{"id": "defaultHttpEndpoint", "httpOptionsRef": "o1"}],
            "(service.factoryPid=com.ibm.ws.http.options)": [
                {"service.pid": "o0", "maxKeepAliveRequests": -1},
                {"service.pid": "o1", "maxKeepAliveRequests": 100},
            ],
            "(service.pid=com.ibm.ws.threading)": [{"maxThreads": -1}],
        },
    }
    server = Liberty()
    assert server.level_of("server.datasource.statement_cache", answer) == 60
    assert server.level_of("server.datasource.max_connections", answer) == 7
    assert server.level_of("server.http.max_keep_alive_requests", answer) == 100
    assert server.level_of("server.monitoring", answer) is False
    with pytest.raises(LookupError, match="chooses the number of threads"):
        server.level_of("server.threads.max", answer)


def test_properties_survive_their_own_syntax() -> None:
    assert files.properties_text({"a": "x\\y", "b": "1\n2"}) == "a=x\\\\y\nb=1\\n2\n"


@pytest.mark.parametrize(
    ("name", "server", "words"),
    [
        ("server.calls.by_reference", "tomee", "tomee has no knob server.calls.by_reference; wildfly has it"),
        ("server.http.max_keep_alive_requests", "wildfly", "liberty and spring-boot and tomcat and tomee have it"),
        ("server.monitoring", "tomee", "glassfish and liberty and tomcat and wildfly have it"),
    ],
)
def test_a_knob_that_a_server_lacks_is_refused_with_the_servers_that_have_it(
    name: str, server: str, words: str
) -> None:
    assert registry.knob_of_others(name, server, "postgres").endswith(words)


def test_the_agent_is_asked_anew_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fake_load(_host: Host, java_home: Path | None, pid: int, options: Path) -> None:
        assert (java_home, pid) == (None, 42)
        asked = dict(line.split("=", 1) for line in options.read_text().splitlines())
        assert asked.pop("answer") == str(tmp_path / "read-back.json")
        if asked:
            (tmp_path / "read-back.json").write_text(json.dumps(asked))

    monkeypatch.setattr(files, "load_agent", fake_load)
    assert files.ask(LocalHost(), None, 42, tmp_path, {"flags": "UseG1GC"}) == {"flags": "UseG1GC"}
    with pytest.raises(ValueError, match="Expecting value"):  # the answer of before is not taken for one
        files.ask(LocalHost(), None, 42, tmp_path, {})


POOL = '<Resource name="jdbc/mine" type="javax.sql.DataSource" maxTotal="9"/>'
OTHER = '<Resource name="jdbc/other" type="javax.sql.DataSource" maxTotal="7"/>'
SERVER = (
    '<Server><GlobalNamingResources>{}</GlobalNamingResources><Service name="Catalina"><Connector port="8080"/>'
    '<Engine name="Catalina" defaultHost="localhost"><Host name="localhost" appBase="webapps"/></Engine>'
    "</Service></Server>"
)


@pytest.mark.parametrize(
    "places", [["server.xml"], ["context.xml"], ["Catalina/localhost/shop.xml"], ["server.xml", "context.xml"]]
)
def test_a_pool_of_ones_own_is_written_where_it_is_defined(
    places: list[str], context: ServiceContext, tmp_path: Path
) -> None:
    conf = tmp_path / "mine" / "conf"
    (conf / "Catalina" / "localhost").mkdir(parents=True)
    (conf / "server.xml").write_text(SERVER.format(OTHER + (POOL if "server.xml" in places else "")))
    for name in places:
        if name != "server.xml":
            (conf / name).write_text(f"<Context>{POOL}</Context>")
    keys = {"stack": "shop", "war": "a.war", "server": "tomcat", "server_config": str(tmp_path / "mine")}
    content = OwnStack.model_validate({**keys, "data_source": "jdbc/mine"})
    server = OwnTomcat(OwnFile(file="/a.stack.yaml", content=content))
    server.configure(replace(context, database=None), {"server.datasource.max_connections": 3})
    written = {
        (name, resource.attrib["name"]): resource.attrib["maxTotal"]
        for name in ("server.xml", *places)
        for resource in ElementTree.parse(context.directory / "conf" / name).iter("Resource")
    }
    assert written == {("server.xml", "jdbc/other"): "7", **{(name, "jdbc/mine"): "3" for name in places}}
    beans = {
        f'Catalina:type=DataSource,class=javax.sql.DataSource,name="jdbc/{name}"': {"maxTotal": most}
        for name, most in (("other", 7), ("mine", 3))
    }
    assert server.level_of("server.datasource.max_connections", {"beans": beans}) == 3
    assert POOL in (conf / places[0]).read_text(), "nothing of the user's is written"
