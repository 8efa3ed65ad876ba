"""What WildFly's part writes for a set of levels and reads from an answer, without starting the server."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates
from server_context import PASSWORD, server_context

from leadline import catalogue
from leadline.host.paths import cache_dir
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.knob import Level
from leadline.stack.base import ServiceContext
from leadline.stack.certificate import make_certificate
from leadline.stack.servers import knobs, wildfly, wildfly_levels
from leadline.stack.servers.files import template
from leadline.stack.servers.wildfly import WildFly

HOME = f"wildfly-{WildFly.distribution.version}"


class FakeJava:
    """A JDK whose ``java`` stands for WildFly's command line: it writes what it was asked into the profile."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.calls = home / "calls"
        program = home / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(
            f"""#!/bin/sh
echo "$*" >> {self.calls}
if test -e {home}/words; then cat {home}/words; exit 1; fi
for word in "$@"; do
  case $word in
    -Djboss.server.base.dir=*) base=${{word#*=}} ;;
    --file=*) script=${{word#*=}} ;;
  esac
done
mkdir -p "$base/configuration/standalone_xml_history"
cat "$script" >> "$base/configuration/standalone.xml"
"""
        )
        program.chmod(0o755)

    def count(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@pytest.fixture(autouse=True)
def _as_this_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake programs write down how they were called, beside themselves."""
    monkeypatch.setattr("leadline.host.privilege.new_user", lambda: None)


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeJava:
    distribution = tmp_path / "dist"
    configuration = distribution / HOME / "standalone" / "configuration"
    configuration.mkdir(parents=True)
    (configuration / "standalone.xml").write_text("<server/>\n")
    (configuration / "mgmt-users.properties").touch()

    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    return FakeJava(tmp_path / "jdk")


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: FakeJava) -> ServiceContext:
    return server_context(tmp_path, monkeypatch, "direct", java.home)


def properties(context: ServiceContext, levels: dict[str, Level]) -> dict[str, str]:
    WildFly().configure(context, levels)
    lines = (context.directory / "levels.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def script(context: ServiceContext) -> str:
    return (context.directory / "configuration" / "script.cli").read_text()


def test_levels_are_properties(context: ServiceContext) -> None:
    levels: dict[str, Level] = {
        "server.datasource.max_connections": 7,
        "server.datasource.statement_cache": 0,
        "server.datasource.connection_timeout": 0.25,
        "server.datasource.idle_timeout": 120.0,
        "server.datasource.purge_policy": "entire-pool",
        "server.calls.by_reference": True,
        "server.http.http2": False,
    }
    found = properties(context, levels)
    assert found["leadline.pool.max"] == "7"
    assert found["leadline.statements"] == "0"
    assert found["leadline.pool.wait"] == "250"
    assert found["leadline.pool.idle"] == "2"
    assert found["leadline.pool.flush"] == "EntirePool"
    assert found["leadline.calls.by_value"] == "false"
    assert found["leadline.http.http2"] == "false"
    assert found["leadline.database.url"].endswith("?preparedStatementCacheQueries=0")
    assert found["leadline.database.password"] == PASSWORD.replace("\\", "\\\\")
    assert found["leadline.pool.sorter"].endswith("PostgreSQLExceptionSorter")


def test_every_property_is_read_by_the_configuration() -> None:
    server_knobs = (knob for knob in catalogue.load("wildfly").values() if not knobs.knows(knob.name))
    levels = {knob.name: knob.default for knob in server_knobs}
    some: dict[str, Level] = {name: 60 if level is None else level for name, level in levels.items()}
    text = "\n".join([template("wildfly.cli"), *wildfly_levels.operations(some)])
    for name in wildfly_levels.properties(some):
        assert f"${{{name}" in text, name
    for name in ("leadline.database.url", "leadline.database.user", "leadline.database.password"):
        assert f"${{{name}}}" in text


def test_a_level_that_wildfly_derives_is_written_only_when_it_is_set(context: ServiceContext) -> None:
    properties(context, {})
    plain = script(context)
    properties(context, {"server.threads.max": 40, "server.access_log": True, "server.http.compression": False})
    assert set(script(context).splitlines()) - set(plain.splitlines()) == {
        '/subsystem=io/worker=default:write-attribute(name=task-max-threads,value="${leadline.threads.max}")',
        "/subsystem=undertow/server=default-server/host=default-host/setting=access-log:add("
        "prefix=access,suffix=.log,rotate=false,pattern=common)",
    }


def test_with_tls_the_listener_has_its_name_and_its_levels_still(context: ServiceContext) -> None:
    levels: dict[str, Level] = {"server.http.max_connections": 77, "server.http.accept_queue": 66, "server.tls": True}
    context = replace(context, certificate=make_certificate())
    found = properties(context, levels)
    before, _, after = script(context).partition("/http-listener=default:remove\n")
    assert "/https-listener=https:remove" in before
    assert "/https-listener=default:add(socket-binding=http,ssl-context=leadline" in after
    assert "/https-listener=default:write-attribute(name=max-connections" in after
    assert "/http-listener" not in after
    for name in ("leadline.tls.store", "leadline.tls.password", "leadline.http.queue"):
        assert found[name]
        assert f"${{{name}" in after
    store = Path(found["leadline.tls.store"])
    key, certificate, _ = load_key_and_certificates(store.read_bytes(), found["leadline.tls.password"].encode())
    assert key is not None
    assert certificate is not None
    assert context.certificate is not None
    assert certificate.public_bytes(Encoding.PEM).decode() == context.certificate.certificate
    assert store.stat().st_mode & 0o077 == 0
    kept = "".join(file.read_text() for file in context.artefacts.glob("wildfly-*.*"))
    assert "leadline.tls.store" in kept
    assert found["leadline.tls.password"] not in kept


def test_the_command_line_runs_once_for_each_script(context: ServiceContext, java: FakeJava) -> None:
    for levels in ({}, {"server.datasource.max_connections": 3}, {"server.monitoring": True}):
        properties(context, cast(dict[str, Level], levels))
    assert java.count() == 1
    for threads in (20, 30):
        properties(context, {"server.threads.max": threads})
    assert java.count() == 2
    assert not (context.directory / "configuration" / "standalone_xml_history").exists()


@pytest.mark.parametrize("words", ["WFLYCTL0062: Composite operation failed", ""])
def test_a_refused_script_is_told_in_wildflys_words_and_not_kept(
    context: ServiceContext, java: FakeJava, words: str
) -> None:
    (java.home / "words").write_text(words)
    for _ in range(2):
        with pytest.raises(LeadlineError, match=f"refused the configuration(?s:.*){words or 'it said nothing'}"):
            WildFly().configure(context, {})
    (java.home / "words").unlink()
    WildFly().configure(context, {})
    assert java.count() == 3
    left = [path.name for path in (cache_dir() / "dist").iterdir() if path.name.endswith(".tmp")]
    assert left == []


def test_a_configuration_that_a_kill_left_half_written_is_written_again(
    context: ServiceContext, java: FakeJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_home: Path, _java: Path, work: Path) -> str:
        (work / "base" / "configuration" / "standalone.xml").write_text("<serv")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(wildfly, "_run", killed)
        patch.setattr("leadline.stack.servers.wildfly.shutil.rmtree", lambda *_, **__: None)  # as kill -9
        with pytest.raises(KeyboardInterrupt):
            WildFly().configure(context, {})
    assert [path for path in (cache_dir() / "dist").iterdir() if path.name.endswith(".tmp")]
    WildFly().configure(context, {})
    assert java.count() == 1
    assert (context.directory / "configuration" / "standalone.xml").read_text().startswith("<server/>")


@pytest.mark.parametrize(
    ("observe", "levels", "on"),
    [
        (True, {}, "true"),
        (False, {}, "false"),
        (True, {"server.monitoring": False}, "false"),
        (False, {"server.monitoring": True}, "true"),
    ],
)
def test_a_level_of_monitoring_wins_over_observing(
    context: ServiceContext, observe: bool, levels: dict[str, Level], on: str
) -> None:
    found = properties(replace(context, observe=observe), levels)
    assert found["wildfly.statistics-enabled"] == on


def test_levels_that_wildfly_cannot_have_are_refused(context: ServiceContext) -> None:
    with pytest.raises(UsageError, match=r"idle_timeout 90 s: WildFly counts whole minutes; the nearest is 2m"):
        WildFly().configure(context, {"server.datasource.idle_timeout": 90.0})
    with pytest.raises(UsageError, match=r"server.threads.min 30 is more than server.threads.max 20; set at most 20"):
        WildFly().configure(context, {"server.threads.max": 20, "server.threads.min": 30})
    with pytest.raises(UsageError, match=r"no knob server.http.max_keep_alive_requests"):
        WildFly().configure(context, {"server.http.max_keep_alive_requests": 100})


def test_no_artefact_keeps_the_password(context: ServiceContext) -> None:
    server = WildFly()
    server.configure(context, {})
    files: Sequence[Path] = server.artefacts()
    assert {file.name for file in files} == {"wildfly-standalone.xml", "wildfly-levels.properties"}
    assert not [f for f in files for text in (PASSWORD, PASSWORD.replace("\\", "\\\\")) if text in f.read_text()]
    assert (context.directory / "levels.properties").stat().st_mode & 0o077 == 0


def test_a_level_of_the_heap_comes_after_wildflys_own(context: ServiceContext) -> None:
    server = WildFly()
    server.configure(context, {"jvm.heap": 2**28})
    command, _ = server.command(context)
    assert command.index("-Xmx512m") < command.index(f"-Xmx{2**28}")
    assert "-Dbrokerage.mode=direct" in command


def test_levels_are_read_from_the_resource_that_has_them() -> None:
    answer = {
        "beans": {
            "jboss.as:data-source=brokerage,subsystem=datasources": {
                "maxPoolSize": 7,
                "blockingTimeoutWaitMillis": 17000,
                "idleTimeoutMinutes": None,
                "flushStrategy": "EntirePool",
                "statisticsEnabled": False,
            },
            "jboss.as:subsystem=ejb3": {"inVmRemoteInterfaceInvocationPassByValue": True},
            "jboss.as:strict-max-bean-instance-pool=slsb-strict-max-pool,subsystem=ejb3": {"derivedSize": 9},
            "jboss.as:subsystem=io,worker=default": {"maxPoolSize": 19},
        }
    }
    server = WildFly()
    expected: dict[str, Level] = {
        "server.datasource.max_connections": 7,
        "server.datasource.connection_timeout": 17.0,
        "server.datasource.purge_policy": "entire-pool",
        "server.monitoring": False,
        "server.calls.by_reference": False,
        "server.beans.max_instances": 9,
        "server.threads.max": 19,
        "server.access_log": False,
        "server.http.compression": False,
    }
    assert {name: server.level_of(name, answer) for name in expected} == expected
    secure = "jboss.as:https-listener=default,server=default-server,subsystem=undertow"
    with_tls = {"beans": {**answer["beans"], secure: {"tcpBacklog": 66}}}
    assert server.level_of("server.http.accept_queue", with_tls) == 66
    with pytest.raises(LookupError, match=r"no limit for server.datasource.idle_timeout"):
        server.level_of("server.datasource.idle_timeout", answer)
    with pytest.raises(KeyError, match="http-listener=default"):
        server.level_of("server.http.accept_queue", answer)
    with pytest.raises(LookupError, match=r"does not tell the level of server.nonsense"):
        server.level_of("server.nonsense", answer)


def test_a_checker_is_named_only_where_connections_are_to_be_checked() -> None:
    validation, purge = "server.datasource.validation", "server.datasource.purge_policy"
    name = "leadline.pool.checker"
    assert name not in wildfly_levels.properties({})
    assert name not in wildfly_levels.properties({validation: False, purge: "entire-pool"})
    assert name in wildfly_levels.properties({validation: True})
    assert name in wildfly_levels.properties({purge: "validate-all"})
    with pytest.raises(UsageError, match="validate-all: WildFly then checks every connection"):
        wildfly_levels.properties({validation: False, purge: "validate-all"})
