"""Services that a stack file starts beside its application: in order, with ports, knobs and data of their own."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from leadline.checks.files.stack import read_stack
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.ownstack import OwnStack
from leadline.places.knobs import choice_of
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions
from leadline.stack.own.words import referred
from leadline.stack.registry import stack_catalogue

STORE = """
import socket, sys
words = dict(word[2:].split("=") for word in sys.argv[2:])
open("data.txt", "a").write("start\\n")
print("starts %d" % len(open("data.txt").readlines()), "size=%s" % words.get("size", "8"), flush=True)
open("state.txt", "w").write("size=%s\\n" % words.get("size", "8"))
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    s.accept()[0].close()
"""
APP = """
import json, os, socket, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
socket.create_connection(("127.0.0.1", int(os.environ["STORE"]))).close()  # it is up
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(json.dumps(dict(os.environ)).encode())
HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
STACK = """\
stack: shop
command: [PYTHON, app.py, "${port}"]
environment: { STORE: "${store.port}", RELAY: "${relay.port.admin}" }
services:
  store:
    command: [PYTHON, store.py, "${port}"]
    ready: { tcp: "${port}" }
    directory: data
    environment: { STORE_PASSWORD: swordfish1 }
  relay:
    command: [PYTHON, store.py, "${port.admin}", "--upstream=${store.port}"]
    ready: { log: "^starts" }
knobs:
  app.size:
    service: store
    range: [1, 64]
    argument: --size=${level}
    read_back: { file: state.txt, key: size }
  app.arenas:
    service: store
    range: [1, 64]
    environment: MALLOC_ARENA_MAX
    read_back: { environ: MALLOC_ARENA_MAX }
"""


@pytest.fixture
def stack_file(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data.txt").write_text("start\n")
    (tmp_path / "store.py").write_text(STORE)
    (tmp_path / "app.py").write_text(APP)
    path = tmp_path / "shop.stack.yaml"
    path.write_text(STACK.replace("PYTHON", sys.executable))
    return path


def stack_of(path: Path) -> Stack:
    folder = path.parent
    return Stack(choice_of(str(path)), LocalHost(state=folder / "state"), folder / "home", StackOptions())


def test_services_are_started_in_order_with_knobs_and_data_of_their_own(stack_file: Path, tmp_path: Path) -> None:
    content = read_stack(stack_file).content
    assert OwnStack.model_validate_json(content.model_dump_json()) == content  # as a lab has it
    assert "app.size" in {knob.name for knob in stack_catalogue(choice_of(str(stack_file)))}
    stack = stack_of(stack_file)
    assert {"store", "relay"} <= stack.versions().keys()
    for trial, levels in enumerate(({"app.size": 7, "app.arenas": 2}, {})):
        directory = tmp_path / f"trial-{trial}"
        stack.reset_data(directory)
        stack.up(levels, directory)
        try:
            assert list(stack.processes()) == ["store", "relay", "server"]
            assert stack.read_back("app.size") == levels.get("app.size", 8)
            if "app.arenas" in levels:
                assert stack.read_back("app.arenas") == 2
            else:
                with pytest.raises(LookupError, match="none of its processes has the variable MALLOC_ARENA_MAX"):
                    stack.read_back("app.arenas")
            stack.check_alive()
            stack.check_members()
        finally:
            assert stack.down() == []
        # a copy of its directory at every start: it never sees more than the one line of it and its own
        assert (directory / "logs" / "store.log").read_text().startswith("starts 2 ")
        assert (directory / "logs" / "store-command.txt").is_file()
    assert (tmp_path / "data" / "data.txt").read_text() == "start\n"


def test_one_that_dies_is_told_of_by_its_name(stack_file: Path, tmp_path: Path) -> None:
    stack = stack_of(stack_file)
    stack.reset_data(tmp_path / "trial")
    stack.up({}, tmp_path / "trial")
    try:
        stack.check_alive()
        os.kill(stack.processes()["relay"].pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while stack.processes()["relay"].alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        with pytest.raises(TrialFailure, match=r"relay died during the trial: .*SIGKILL") as caught:
            stack.check_alive()
        assert caught.value.failure_class is FailureClass.INFRASTRUCTURE
    finally:
        stack.down()


def test_one_that_does_not_start_is_told_of_with_its_line(stack_file: Path, tmp_path: Path) -> None:
    stack_file.write_text(stack_file.read_text().replace('"${port.admin}", ', 'x, "${port.admin}", '))
    stack = stack_of(stack_file)
    with pytest.raises(TrialFailure, match=r"shop\.stack\.yaml:10: relay ended with exit code 1 before it was ready"):
        stack.up({}, tmp_path / "trial")
    assert stack.processes() == {}


def test_flags_of_its_jvm_are_knobs_with_its_name_before_them(stack_file: Path) -> None:
    text = stack_file.read_text().replace(f"[{sys.executable}, store.py, ", "[java, -jar, store.py, ", 1)
    stack_file.write_text(text)
    names = {knob.name for knob in stack_catalogue(choice_of(str(stack_file)))}
    assert "store.jvm.heap" in names
    assert not {"jvm.heap", "relay.jvm.heap"} & names


def test_a_secret_of_a_service_is_kept_by_its_name(stack_file: Path) -> None:
    own = read_stack(stack_file)
    assert own.content.services["store"].environment == {"STORE_PASSWORD": "${secret:store.STORE_PASSWORD}"}
    assert referred(own, "secret:store.STORE_PASSWORD") == "swordfish1"


@pytest.mark.parametrize(
    ("before", "after", "line", "problem"),
    [
        (
            'STORE: "${store.port}"',
            'STORE: "${stor.port}"',
            3,
            "unknown placeholder ${stor.port}; did you mean ${store.port}?",
        ),
        ('"${port.admin}", "--up', '"${relay.port}", "--up', 11, "relay is not up by then, as services start in order"),
        ("STORE_PASSWORD: swordfish1", 'TO: "${relay.port}"', 9, "write relay above it"),
        (
            "    service: store",
            "    service: stor",
            15,
            "there is no service 'stor' in `services`; did you mean store?",
        ),
        ("  relay:", "  database:", 10, "'database' is the name of another part"),
        ("  relay:", "  shop:", 10, "'shop' is the name of another part"),
        ("directory: data", "directory: date", 8, "there is no directory"),
        ('ready: { log: "^starts" }', "ready: { within: 9s }", 11, "nothing takes the port"),
        ("ready: { log:", "redy: { log:", 12, "did you mean ready?"),
        ("    argument: --size=${level}", "    system_property: size", 14, "a system property needs a JVM"),
        ("{ file: state.txt, key: size }", "{ jcmd: VM.flags, key: size }", 18, "jcmd needs a JVM"),
        (
            'command: [PYTHON, app.py, "${port}"]\nenvironment: ',
            "attach: { port: 80 }\nmine: true\nrestart: x\nsettings_file: { path: a, template: a }\nenvironment: ",
            7,
            "services are of a `command` or `war`",
        ),
    ],
)
def test_mistakes_are_told_with_their_line(stack_file: Path, before: str, after: str, line: int, problem: str) -> None:
    before, after = (text.replace("PYTHON", sys.executable) for text in (before, after))
    text = stack_file.read_text()
    assert before in text
    stack_file.write_text(text.replace(before, after, 1))
    with pytest.raises(UsageError) as caught:
        read_stack(stack_file)
    assert problem in str(caught.value)
    assert str(caught.value).startswith(f"{stack_file}:{line}:")
