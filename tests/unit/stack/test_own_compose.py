"""Services of a compose file: what their stack file is refused for, and their life by an engine that is a fake."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadline.checks.files.stack import read_stack
from leadline.host.base import Process
from leadline.host.local import LocalHost
from leadline.model.errors import TrialFailure, UsageError
from leadline.places.running import choice_of
from leadline.stack.base import DataSource, Deployment, ServiceContext
from leadline.stack.own.compose import ComposeServer
from leadline.stack.registry import server_of, stack_catalogue

COMPOSE = "services:\n  app:\n    image: shop\n    environment: { PORT: '${PORT}' }\n"
STACK = """stack: shop
compose: { file: shop.yaml, service: app, command: fake-compose }
environment: { PORT: "${port}" }
database: none
knobs:
  app.work:
    kind: duration
    unit: ms
    system_property: shop.work
    read_back: { jcmd: VM.system_properties, key: shop.work }
  app.size:
    environment: SIZE
    read_back: { http: /size }
"""
# Notes what it is asked; `fake` is its engine. The container is a process of its own that sleeps.
ENGINE = """#!/bin/sh
cd FOLDER
case "$*" in
  *" up "*) echo "$SIZE $PORT $@" > up; sleep 60 > /dev/null 2>&1 & echo $! > pid ;;
  *" ps "*) echo 4711 ;;
  "inspect "*) echo "$(cat pid) 0 sha256:0" ;;
  "ps --quiet"|version) ;;
  "logs "*) echo "2026-01-01T00:00:02Z last"; echo "2026-01-01T00:00:01Z first" >&2 ;;
  *" down "*) echo "$PORT $@" > down; kill "$(cat pid)" ;;
  *) exit 3 ;;
esac
"""


@pytest.fixture
def stack_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    for name in ("fake-compose", "fake"):
        program = tmp_path / "bin" / name
        program.write_text(ENGINE.replace("FOLDER", str(tmp_path)))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "shop.yaml").write_text(COMPOSE)
    path = tmp_path / "shop.stack.yaml"
    path.write_text(STACK)
    return path


@pytest.mark.parametrize(
    ("before", "after", "line", "told"),
    [
        ("service: app", "service: ap", 2, "shop.yaml has no service 'ap'; did you mean app?"),
        ("shop.yaml", "shopp.yaml", 2, "there is no file"),
        ("fake-compose", "no-such-compose", 2, "there is no program 'no-such-compose'"),
        ('"${port}"', "80", 2, "nothing takes the port"),
        ('"${port}"', '"${args}"', 3, "unknown placeholder ${args}"),
        ("database: none", "catalogue: spring-boot", 4, "say by `artifact: shop.jar`"),
        ("database: none", "directory: data", 4, "a container has a directory of its own"),
        ("database: none", "mine: true", 4, "mine is for a process that runs already"),
        ("database: none", "command: sleep 1", 2, "it says command and compose; write one of"),
        ("environment: SIZE", "argument: --size=${level}", 12, "a container has its command from its image"),
        ("database: none", "builds: { new: { command: [shop] } }", 4, "say by `compose` or `environment` what runs"),
        ("{ http: /size }", "{ file: size, key: size }", 13, "a container's files are its own"),
    ],
)
def test_mistakes_are_told_with_their_line(stack_file: Path, before: str, after: str, line: int, told: str) -> None:
    assert before in STACK
    stack_file.write_text(STACK.replace(before, after, 1))
    with pytest.raises(UsageError) as caught:
        read_stack(stack_file)
    assert told in str(caught.value)
    assert f"shop.stack.yaml:{line}: " in str(caught.value)


def test_a_compose_file_that_cannot_be_read_is_told(stack_file: Path) -> None:
    stack_file.with_name("shop.yaml").write_text("services: [")
    with pytest.raises(UsageError, match=r"shop.stack.yaml:2: .*shop.yaml cannot be read"):
        read_stack(stack_file)


def ended(process: Process) -> bool:
    """Whether it has ended, at most 30 s after it was told to."""
    deadline = time.monotonic() + 30
    while process.alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not process.alive()


def configured(stack_file: Path, **levels: str) -> tuple[ComposeServer, LocalHost]:
    """A server with a host, a directory and a port of its own."""
    place = stack_file.parent
    server, host = server_of(choice_of(str(stack_file))), LocalHost(state=place / "state")
    assert isinstance(server, ComposeServer)
    deployment = Deployment("shop", stack_file, "/", DataSource("jdbc/shop"))
    port = host.free_port()
    context = ServiceContext(
        host, place / "own", place / "logs", http_port=port, observe=False, raw=place / "raw", deployment=deployment
    )
    server.configure(context, {"app.work": 0.02, "app.size": 7, "jvm.heap": 128 << 20, **levels})
    return server, host


def test_levels_reach_the_containers_and_they_are_ended(stack_file: Path) -> None:
    server, host = configured(stack_file)
    folder = stack_file.parent
    process = server.start()
    port = server.context.http_port
    size, given, *words = (folder / "up").read_text().split()
    assert (size, int(given)) == ("7", port)
    assert words[:2] == ["--project-name", f"leadline-shop-{port}"]
    assert words[-3:] == ["up", "--detach", "app"]
    over = json.loads((folder / "own" / "compose.override.yaml").read_text())["services"]["app"]
    assert over["environment"]["SIZE"] == "7"
    options = over["environment"]["JDK_JAVA_OPTIONS"].split()
    assert {"-Dshop.work=20", "-Xmx134217728"} <= set(options)
    assert f"{folder / 'raw'}:{folder / 'raw'}" in over["volumes"]
    assert process.alive()
    assert [entry.target for entry in host.journal.open_entries()] == [f"compose project leadline-shop-{port}"]
    assert server.stop()
    assert (folder / "down").read_text().split()[-1] == "--volumes"
    assert ended(process)
    assert host.journal.open_entries() == []
    assert server.log.read_text() == "first\nlast\n"


def test_a_build_has_its_compose_file_or_its_image_and_is_read_back(stack_file: Path) -> None:
    with stack_file.open("a") as file:
        file.write("""builds:
  old: { environment: { PORT: "${port}", IMAGE: "shop:1" } }
  new:
    environment: { PORT: "${port}", IMAGE: "shop:2" }
    compose: { file: new.yaml, service: app, command: fake-compose }
""")
    (stack_file.parent / "new.yaml").write_text(COMPOSE)
    for name, image, compose in (("old", "shop:1", "shop.yaml"), ("new", "shop:2", "new.yaml")):
        server, _ = configured(stack_file, **{"app.build": name})
        server.start()
        _, _, *words = (stack_file.parent / "up").read_text().split()
        assert words[words.index("--file") + 1] == str(stack_file.parent / compose)
        over = json.loads((stack_file.parent / "own" / "compose.override.yaml").read_text())["services"]["app"]
        assert over["environment"]["IMAGE"] == image
        assert server.read_back("app.build") == name
        assert server.stop()


def test_data_that_are_kept_keep_their_volumes(stack_file: Path) -> None:
    stack_file.write_text(STACK.replace("database: none", "database: keep"))
    server, _ = configured(stack_file)
    server.start()
    assert server.stop()
    words = (stack_file.parent / "down").read_text().split()
    assert "--volumes" not in words
    assert words[words.index("--project-name") + 1] == "leadline-shop"


def test_containers_are_ended_after_a_crash_by_the_journal(stack_file: Path) -> None:
    """The journal is put back by a process that knows nothing but its file."""
    server, host = configured(stack_file)
    process = server.start()
    words = f"from leadline.host.local import LocalHost; LocalHost().journal.restore(of={os.getpid()})"
    environment = {**os.environ, "LEADLINE_STATE": str(stack_file.parent / "state"), "PORT": "0"}
    done = subprocess.run([sys.executable, "-c", words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ended(process)
    assert int((stack_file.parent / "down").read_text().split()[0]) == server.context.http_port
    assert host.journal.open_entries() == []


@pytest.mark.parametrize("program", ["fake-compose", "fake"])
def test_an_engine_that_does_not_answer_is_told_before_anything_is_noted(stack_file: Path, program: str) -> None:
    server, host = configured(stack_file)
    server.provision(print)
    words = "fake-compose version" if program == "fake-compose" else "fake ps --quiet"
    path = stack_file.parent / "bin" / program
    path.write_text("#!/bin/sh\necho 'Cannot connect to the daemon' >&2\necho 'and more' >&2\nexit 1\n")
    told = rf"shop.stack.yaml:2: {words} ended with exit code 1: Cannot connect to the daemon"
    with pytest.raises(UsageError, match=told):
        server.provision(print)
    if program == "fake":
        with pytest.raises(TrialFailure, match=told):
            server.start()
        assert host.journal.open_entries() == [], "nothing has to be ended"


def test_an_engine_that_fails_is_told_with_the_line(stack_file: Path) -> None:
    program = stack_file.parent / "bin" / "fake-compose"
    program.write_text("#!/bin/sh\necho 'Cannot connect to the daemon' >&2\nexit 1\n")
    server, _ = configured(stack_file)
    told = r"shop.stack.yaml:2: fake-compose up ended with exit code 1: Cannot connect to the daemon"
    with pytest.raises(TrialFailure, match=told):
        server.start()
    assert not server.stop()  # its end is tried, and left to the host's restore


def test_limits_are_those_of_its_compose_file(stack_file: Path) -> None:
    names = {knob.name for knob in stack_catalogue(choice_of(str(stack_file)))}
    assert {"app.work", "app.size", "jvm.heap"} <= names
    assert "placement.server_cpus" not in names
