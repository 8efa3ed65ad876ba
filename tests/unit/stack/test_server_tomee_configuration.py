"""What TomEE's part writes for a set of levels and reads from an answer, without starting the server."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from server_context import PASSWORD, server_context

from leadline.host.base import ProcessSpec
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import Level
from leadline.stack.base import ServiceContext
from leadline.stack.servers.tomee import TomEE
from leadline.stack.servers.wildfly import WildFly

TOP = f"apache-tomee-plume-{TomEE.distribution.version}"


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceContext:
    conf = tmp_path / "dist" / TOP / "conf"
    conf.mkdir(parents=True)
    (conf / "web.xml").write_text("<web-app/>")
    (conf / "catalina.properties").write_text("common.loader=x\n")

    return server_context(tmp_path, monkeypatch, java_home=jdk(tmp_path, "17.0.9"))


def jdk(folder: Path, version: str) -> Path:
    home = folder / f"jdk-{version}"
    (home / "bin").mkdir(parents=True)
    for program in ("java", "javac"):
        (home / "bin" / program).touch(mode=0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return home


def configured(context: ServiceContext, levels: dict[str, Level]) -> tuple[str, str, dict[str, str]]:
    """Lines of the data source, of the stateless container, and the properties."""
    TomEE().configure(context, levels)
    root = ElementTree.parse(context.directory / "conf" / "tomee.xml").getroot()
    source = next(node for node in root.iter("Resource") if node.attrib["id"] == "jdbc/brokerage")
    container = root.find("Container")
    lines = (context.directory / "conf" / "catalina.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines if line.startswith("leadline."))
    return "".join(source.itertext()), str(container.text) if container is not None else "", properties


def test_only_levels_that_are_set_are_written(context: ServiceContext) -> None:
    source, container, properties = configured(context, {})
    assert [line for line in source.splitlines() if line.strip()] == [
        "    JdbcDriver = ${leadline.database.driver}",
        "    JdbcUrl = ${leadline.database.url}",
        "    UserName = ${leadline.database.user}",
        "    Password = ${leadline.database.password}",
        "    JtaManaged = true",
    ]
    assert container == ""
    assert "leadline.pool.max" not in properties


def test_every_placeholder_has_its_property(context: ServiceContext) -> None:
    levels: dict[str, Level] = {
        "server.datasource.max_connections": 7,
        "server.datasource.min_connections": 2,
        "server.datasource.statement_cache": 60,
        "server.datasource.connection_timeout": 0.25,
        "server.datasource.idle_timeout": 30.0,
        "server.datasource.max_age": 600.0,
        "server.datasource.validation": True,
        "server.beans.max_instances": 40,
    }
    source, container, properties = configured(context, levels)
    rows = dict(line.strip().split(" = ", 1) for line in (source + container).splitlines() if line.strip())
    for name, value in rows.items():
        for property_, level in properties.items():
            value = value.replace(f"${{{property_}}}", level)
        assert "${" not in value, name
        rows[name] = value
    assert (rows["MaxActive"], rows["MaxIdle"]) == ("7", "7")
    assert (rows["MinIdle"], rows["InitialSize"]) == ("2", "2")
    assert rows["MaxWait"] == "250"
    assert rows["MinEvictableIdleTimeMillis"] == "30000"
    assert rows["MaxAge"] == "600000"
    assert (rows["TestOnBorrow"], rows["ValidationInterval"]) == ("true", "0")
    assert rows["JdbcInterceptors"] == "StatementCache(prepared=true,callable=false,max=420)", "of the whole pool"
    assert rows["MaxSize"] == "40"
    assert rows["Password"] == PASSWORD.replace("\\", "\\\\")


def test_a_pool_below_the_defaults_opens_no_more_than_it_may(context: ServiceContext) -> None:
    source, _, _ = configured(context, {"server.datasource.max_connections": 4})
    assert "MinIdle = ${leadline.pool.max}" in source
    assert "InitialSize = ${leadline.pool.max}" in source


def test_no_artefact_keeps_the_password(context: ServiceContext) -> None:
    server = TomEE()
    server.configure(context, {})
    files = server.artefacts()
    assert {file.name for file in files} == {"tomee-tomee.xml", "tomee-server.xml", "tomee-levels.properties"}
    assert not [f for f in files for text in (PASSWORD, PASSWORD.replace("\\", "\\\\")) if text in f.read_text()]


def test_entities_are_woven_as_by_tomees_own_script(context: ServiceContext) -> None:
    server = TomEE()
    server.configure(context, {})
    command, _ = server.command(context)
    assert command[1].startswith("-javaagent:")
    assert command[1].endswith(f"{TOP}/lib/openejb-javaagent.jar")


@pytest.mark.parametrize("version", ["24", "25.0.1"])
def test_a_jdk_that_is_too_new_is_refused_before_anything_starts(
    context: ServiceContext, tmp_path: Path, version: str
) -> None:
    home = jdk(tmp_path, version)
    words = rf"TomEE 9\.0\.0 runs on Java 17 to 23; {home} is Java {version[:2]}\. Set stack\.java"
    with pytest.raises(UsageError, match=words):
        TomEE.check_java(str(home))
    TomEE.check_java(str(context.java_home))
    WildFly.check_java(str(home))
    with pytest.raises(UsageError, match=words):
        TomEE().java_home(replace(context, java_home=home))


def test_without_a_choice_the_first_jdk_that_fits_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new, old = jdk(tmp_path, "25.0.1"), jdk(tmp_path, "21.0.3")
    monkeypatch.setenv("JAVA_HOME", str(new))
    monkeypatch.setenv("PATH", str(old / "bin"))
    assert TomEE.find_java(None) == old


def test_levels_are_read_from_the_pool_and_the_beans() -> None:
    pool = {
        "MaxActive": 7,
        "MinIdle": 2,
        "MaxWait": 17000,
        "MaxAge": 0,
        "TestOnBorrow": False,
        "JdbcInterceptors": "StatementCache(prepared=true,callable=false,max=231)",
    }
    answer = {
        "beans": {
            "openejb.management:DataSource=jdbc_brokerage,ObjectType=datasources": pool,
            "openejb.management:StatelessSessionBean=OrmBrokerage,j2eeType=Pool,name=OrmBrokerage": {"MaxSize": 9},
            "Catalina:name=http,type=Executor": {"maxThreads": 19},
        }
    }
    server = TomEE()
    expected: dict[str, Level] = {
        "server.datasource.max_connections": 7,
        "server.datasource.connection_timeout": 17.0,
        "server.datasource.statement_cache": 33,
        "server.datasource.validation": False,
        "server.beans.max_instances": 9,
        "server.threads.max": 19,
    }
    assert {name: server.level_of(name, answer) for name in expected} == expected
    with pytest.raises(LookupError, match=r"no limit for server\.datasource\.max_age"):
        server.level_of("server.datasource.max_age", answer)
    with pytest.raises(LookupError, match=r"does not tell the level of server.nonsense"):
        server.level_of("server.nonsense", answer)
    pool["JdbcInterceptors"] = None
    assert server.level_of("server.datasource.statement_cache", answer) == 0


class FakeServer:
    """A process that lives on, and listens nowhere."""

    def alive(self) -> bool:
        return True

    def pids(self) -> list[int]:
        return []

    def cpu_seconds(self) -> tuple[float, float]:
        return 0.0, 0.0


class FakeHostThatLogs(LocalHost):
    """Starts a process whose log is there at once."""

    def __init__(self, log: str) -> None:
        super().__init__()
        self.log = log

    def start(self, spec: ProcessSpec) -> FakeServer:  # type: ignore[override]
        spec.output.write_text(self.log)
        return FakeServer()


@pytest.mark.parametrize(
    ("log", "said", "kind"),
    [
        (
            "org.postgresql.util.PSQLException: FATAL: sorry, too many clients already\n",
            "could not start",
            FailureClass.CONFIGURATION,
        ),
        (
            "SEVERE [main] Unable to create initial connections of pool.\n",
            "was not ready after 0.3 s",
            FailureClass.INFRASTRUCTURE,
        ),
    ],
)
def test_a_pool_that_the_database_refuses_at_start_is_not_waited_for(
    context: ServiceContext, log: str, said: str, kind: FailureClass
) -> None:
    server = TomEE()
    server.configure(replace(context, http_port=LocalHost().free_port(), host=FakeHostThatLogs(log)), {})
    server.start()
    with pytest.raises(TrialFailure, match=said) as failure:
        server.wait_ready(0.3)
    assert failure.value.failure_class is kind
    assert failure.value.evidence.startswith(log.strip())
