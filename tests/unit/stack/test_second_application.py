"""An application with names of its own: every server's configuration has them, and nothing of another application."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from server_context import server_context
from test_server_glassfish_configuration import DOMAIN

from leadline.host.local import LocalHost
from leadline.stack import places, registry
from leadline.stack.base import (
    ConnectionFactory,
    DataSource,
    Deployment,
    Feature,
    Queue,
    Ready,
    Receiver,
    ServiceContext,
    Topic,
)
from leadline.stack.probe import Client, ready
from leadline.stack.servers import wildfly
from leadline.stack.servers.common import JavaServer
from leadline.stack.servers.framework import Framework
from leadline.stack.servers.tomcat import Tomcat
from leadline.stack.servers.tomee import TomEE


def toy(archive: Path, features: frozenset[Feature], framework: str = "") -> Deployment:
    return Deployment(
        name="parcels",
        archive=archive,
        context_root="/parcels",
        data_source=DataSource("jdbc/parcelStore"),
        ready=Ready("/up", status=204),
        features=features,
        properties={"parcels.depot": "north"},
        persistence_units=("parcelUnit", "depotUnit"),
        connection_factory=ConnectionFactory("jms/parcelConnections"),
        queues=(
            Queue("jms/parcels", Receiver("Sorter", parallel=True), "jms/lostParcels"),
            Queue("jms/lostParcels", Receiver("Finder")),
        ),
        topics=(Topic("jms/parcelNews", Receiver("Crier")),),
        programs={framework: archive} if framework else {},
    )


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceContext:
    tops = (f"apache-tomcat-{Tomcat.distribution.version}", f"apache-tomee-plume-{TomEE.distribution.version}")
    for top in tops:
        conf = tmp_path / "dist" / top / "conf"
        conf.mkdir(parents=True)
        (conf / "web.xml").write_text("<web-app/>")
        (conf / "catalina.properties").touch()
    domain = tmp_path / "dist" / "glassfish7" / "glassfish" / "domains" / "domain1"
    for part in ("config", "lib", "autodeploy"):
        (domain / part).mkdir(parents=True)
    (domain / "config" / "domain.xml").write_text(DOMAIN)

    def fake_prepared(_home: Path, _java: Path, profile: str, operations: list[str], _progress: object) -> Path:
        (tmp_path / "prepared").mkdir()
        (tmp_path / "prepared" / profile).write_text("\n".join(operations))
        return tmp_path / "prepared"

    monkeypatch.setattr(wildfly, "prepared", fake_prepared)
    monkeypatch.setattr(JavaServer, "java_home", lambda *_: tmp_path)
    made = server_context(tmp_path, monkeypatch)
    return replace(made, host=LocalHost(state=tmp_path / "state"))


@pytest.mark.parametrize("kind", registry.SERVERS.values())
def test_every_server_writes_the_names_of_the_application_alone(
    kind: type[JavaServer], context: ServiceContext, tmp_path: Path
) -> None:
    archive = tmp_path / "parcels-1.2.war"
    archive.touch()
    framework = issubclass(kind, Framework)
    deployed = toy(archive, kind.features, kind.name if framework else "")
    server = kind()
    server.configure(replace(context, deployment=deployed), {})
    files = [path for path in context.directory.rglob("*") if path.is_file() or path.is_symlink()]
    outside = [path for path in server.owns(server.context) if path.is_file()]
    written = "\n".join(path.read_text() for path in [*files, *outside] if not path.is_symlink())
    paths = "\n".join(f"{path.relative_to(context.directory)} {path.resolve()}" for path in files)
    command, _ = server.command(server.context)
    said = "\n".join([written, paths, *command, *server.question().values(), *server.expected_beans()])
    assert "brokerage" not in said.lower().replace(str(tmp_path).lower(), "")
    assert "-Dparcels.depot=north" in server.jvm_options(server.context)
    expected = {str(archive), *(() if framework else ("jdbc/parcelStore",))}  # its pool has no name to look up
    if Feature.MESSAGING in kind.features:
        expected |= {"jms/parcels", "jms/lostParcels", "jms/parcelNews"}
    assert not [name for name in expected if name not in said]
    assert not re.search(r"@\w+@", written), "every mark of a template is filled"


def test_what_cannot_stand_in_a_configuration_is_no_name() -> None:
    for name in ("jdbc/a b", 'x"', "a//b", "", "<a>"):
        with pytest.raises(ValueError, match="a name has letters"):
            DataSource(name)
    with pytest.raises(ValueError, match="no queue jms/none for its dead letters"):
        replace(toy(Path("x.war"), frozenset()), queues=(Queue("jms/a", Receiver("A"), "jms/none"),))
    with pytest.raises(ValueError, match="names no connection factory or no queue"):
        replace(toy(Path("x.war"), frozenset(Feature)), connection_factory=None)
    for root in ("parcels", "/track/parcels", ""):
        with pytest.raises(ValueError, match="a context root is"):
            replace(toy(Path("x.war"), frozenset()), context_root=root)


class FakeClient(Client):
    """Answers every request with one status and body."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(0)
        object.__setattr__(self, "answer", (status, {}, body))

    def get(self, path: str, accept_encoding: str = "identity") -> tuple[int, dict[str, str], bytes]:
        assert path == "/parcels/up"
        found: tuple[int, dict[str, str], bytes] = vars(self)["answer"]
        return found


@pytest.mark.parametrize(
    ("wanted", "status", "body", "said"),
    [
        (Ready("/up", 204), 204, b"", ""),
        (Ready("/up", 204), 200, b"", "HTTP 200"),
        (Ready("/up", json={"depot": "open"}), 200, b'{"depot": "open", "parcels": 3}', ""),
        (Ready("/up", json={"depot": "open"}), 200, b'{"depot": "shut"}', "shut"),
        (Ready("/up", json={"depot": "open"}), 200, b"[]", "[]"),
        (Ready("/up", json={"depot": "open"}), 200, b"<html>", "Expecting value"),
    ],
)
def test_the_application_says_when_it_is_ready(wanted: Ready, status: int, body: bytes, said: str) -> None:
    deployed = replace(toy(Path("x.war"), frozenset()), ready=wanted)
    found = ready(FakeClient(status, body), deployed)
    assert said in found
    assert bool(said) == bool(found)


def test_a_place_in_memory_is_freed_of_a_server_that_never_started(context: ServiceContext, tmp_path: Path) -> None:
    (tmp_path / "x.war").touch()
    server = TomEE()
    deployed = toy(tmp_path / "x.war", TomEE.features)
    server.configure(replace(context, deployment=deployed), {"server.messaging.store_place": "tmpfs"})
    memory = places.memory_directory(context.directory)
    assert memory.is_dir()
    assert server.stop()
    assert not memory.exists()
