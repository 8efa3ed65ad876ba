"""What is wrong with an application of one's own before it is up: told with the line of its stack file."""

import socket
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from toy_application import APPLICATION, toy

from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.checks.subject import study_catalogue
from leadline.host.java import find_java_home, java_home
from leadline.host.local import LocalHost
from leadline.model.errors import TrialFailure, UsageError
from leadline.places.running import choice_of
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions
from leadline.stack.own.application import fetched
from leadline.stack.own.artifact import java_of

FAILS = """if "--fail" in sys.argv:
    print("zero", "one", "two", "three", sep="\\n", flush=True)
    sys.exit(3)
"""


@pytest.fixture
def stack_file(tmp_path: Path) -> Path:
    return toy(tmp_path)


def stack_of(stack_file: Path) -> Stack:
    """With a host and a home of its own."""
    place = stack_file.parent
    return Stack(choice_of(str(stack_file)), LocalHost(state=place / "state"), place / "home", StackOptions())


def test_a_start_that_is_at_work_may_take_longer_than_the_limit(stack_file: Path) -> None:
    """A busy machine makes a start long; one that does nothing any more is not waited for."""
    busy = "import time\nend = time.process_time() + 2.0\nwhile time.process_time() < end: pass\n"
    stack_file.with_name("app.py").write_text(APPLICATION.replace("HTTPServer((", f"{busy}HTTPServer(("))
    stack_file.write_text(stack_file.read_text().replace(", within: 10s", ""))
    stack = stack_of(stack_file)
    stack.options = replace(stack.options, ready_timeout=1.5)
    try:
        stack.up({}, stack_file.parent / "trial")
    finally:
        stack.down()
    idle = APPLICATION.replace("HTTPServer((", "import time\ntime.sleep(60)\nHTTPServer((")
    stack_file.with_name("app.py").write_text(idle)
    with pytest.raises(TrialFailure, match=r"not ready after .* s \(nothing listens there yet\)"):
        stack.up({}, stack_file.parent / "trial")
    stack.down()


def test_one_that_may_not_write_beside_itself_is_told_how_it_may(stack_file: Path) -> None:
    fails = FAILS.replace('"three"', '"error: Read-only file system", "\\tat shop.Main(Main.java:1)"')
    stack_file.with_name("app.py").write_text(APPLICATION.replace("HTTPServer((", f"{fails}HTTPServer(("))
    text = stack_file.read_text().replace("app.py,", "app.py, --fail,").replace("directory: data\n", "")
    stack_file.write_text(text)
    with pytest.raises(TrialFailure) as caught:
        stack_of(stack_file).up({}, stack_file.parent / "trial")
    assert "last words: one | two | error: Read-only file system; it writes beside itself" in str(caught.value)


def test_one_that_ends_is_told_of_with_the_line_of_its_command_and_its_last_words(stack_file: Path) -> None:
    text = APPLICATION.replace("HTTPServer((", f"{FAILS}HTTPServer((")
    stack_file.with_name("app.py").write_text(text)
    stack_file.write_text(stack_file.read_text().replace("app.py,", "app.py, --fail,").replace("10s", "2m"))
    told = r"toy\.stack\.yaml:2: .* ended with exit code 3 before it was ready; its last words: one \| two \| three$"
    with pytest.raises(TrialFailure, match=told):
        stack_of(stack_file).up({}, stack_file.parent / "trial")


class Answers(BaseHTTPRequestHandler):
    """200 and ``{"state": "starting"}`` for /up, 404 for all else, for /slow after half a second."""

    def do_GET(self) -> None:
        if self.path == "/slow":
            time.sleep(0.5)
        self.send_response(200 if self.path == "/up" else 404)
        self.end_headers()
        with suppress(BrokenPipeError):  # who asked for /slow may have left
            self.wfile.write(b'{"state": "starting"}')

    def log_message(self, format: str, *told: object) -> None:
        pass


@pytest.fixture
def up() -> Iterator[HTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("ready", "said"),
    [
        ("path: /upp", "/upp: HTTP 404"),
        ("path: /up, says: { state: running }", r"""/up: b'{"state": "starting"}'"""),
    ],
)
def test_one_that_is_never_ready_is_told_of_with_the_line_of_its_probe(
    up: HTTPServer, tmp_path: Path, ready: str, said: str
) -> None:
    path = tmp_path / "up.stack.yaml"
    attached = f"stack: up\nattach: {{ port: {up.server_port} }}\nmine: true\n"
    path.write_text(f"{attached}ready: {{ {ready}, within: 1s }}\n")
    with pytest.raises(TrialFailure) as caught:
        stack_of(path).up({}, tmp_path / "trial")
    assert f"up.stack.yaml:4: the process was not ready after 1 s ({said})" in str(caught.value)


@pytest.mark.parametrize(
    ("port", "answers", "sign"),
    [
        ("${port}", 'self.path == "/health"', "; /health answers 200: write `ready: { path: /health }`"),
        ("${port}", "False", "; write at `ready` a path that it answers, as in "),
        ("45871", "True", "; it listens on 45871: give it ${port} by its own option, or write `port: 45871`"),
    ],
)
def test_one_that_is_up_and_not_as_its_file_says_is_told_the_other_sign(
    stack_file: Path, port: str, answers: str, sign: str
) -> None:
    text = APPLICATION.replace("send_response(200)", f"send_response(200 if {answers} else 403)")
    stack_file.with_name("app.py").write_text(text)
    changed = stack_file.read_text().replace('"${port}"', f'"{port}", "${{port}}"').replace("within: 10s", "within: 5s")
    stack_file.write_text(changed)
    stack = stack_of(stack_file)
    try:
        with pytest.raises(TrialFailure) as caught:
            stack.up({}, stack_file.parent / "trial")
    finally:
        stack.down()
    assert sign in str(caught.value)


def test_an_http_audit_may_take_as_long_as_its_stack_file_says(up: HTTPServer) -> None:
    address = f"http://127.0.0.1:{up.server_port}"
    with pytest.raises(TimeoutError):
        fetched(address, "/slow", 0.1)
    assert fetched(address, "/slow", 60.0)[0] == 404


def test_a_port_in_use_is_told_of_with_the_line(stack_file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        stack_file.write_text(f"{stack_file.read_text()}port: {port}\n")
        told = rf"toy\.stack\.yaml:19: port {port} on 127\.0\.0\.1 is taken .* end what listens there"
        with pytest.raises(TrialFailure, match=told):
            stack_of(stack_file).up({}, stack_file.parent / "trial")


@pytest.mark.parametrize(
    ("key", "line"), [("", 2), ("java: HOME\n", 3)], ids=["the JVM that was found", "the one it names"]
)
def test_a_jar_for_a_newer_java_is_refused_before_its_start(tmp_path: Path, key: str, line: int) -> None:
    home = find_java_home()
    major = java_home(home).major + 1
    with zipfile.ZipFile(tmp_path / "next.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Main-Class: next.Main\n")
        jar.writestr("next/Main.class", b"\xca\xfe\xba\xbe\0\0" + (44 + major).to_bytes(2))
        jar.writestr("library/Other.class", b"\xca\xfe\xba\xbe\0\0" + (99).to_bytes(2))
    path = tmp_path / "next.stack.yaml"
    path.write_text(f'stack: next\ncommand: [java, -jar, next.jar, "${{port}}"]\n{key.replace("HOME", str(home))}')
    told = f"next.jar needs Java {major} (class file version {44 + major}), and {home.resolve()} is Java {major - 1}: "
    study = "study: s\nquestion: q?\nstack: next.stack.yaml\nfactors: { jvm.heap: [64m, 128m] }\n"
    study += "workload: { scenario: brokerage-classic, users: 2 }\n"
    planned = parse_study(study, str(tmp_path / "study.yaml"))
    for refused in (
        lambda: choice_of(str(path)),
        lambda: plan_study(planned, LocalHost(), study_catalogue(planned)),
    ):
        with pytest.raises(UsageError) as caught:
            refused()
        assert f"next.stack.yaml:{line}: {told}name the home of a newer one by `java`" in str(caught.value)


def test_a_java_that_is_not_there_is_told_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.jar").touch()
    path = tmp_path / "a.stack.yaml"
    path.write_text('stack: a\ncommand: [java, -jar, a.jar, "${port}"]\njava: /no/such\n')
    with pytest.raises(UsageError, match=r"a\.stack\.yaml:3: no JDK in /no/such"):
        choice_of(str(path))


BOOT = "Spring-Boot-Version: 3\nStart-Class: a.B\nMain-Class: Loader\n"
PLAIN = "Main-Class: a.B\n"


@pytest.mark.parametrize(
    ("manifest", "classes", "wanted"),
    [
        (BOOT, {"BOOT-INF/classes/a/B.class": 65, "Loader.class": 50}, 21),
        (PLAIN, {"a/B.class": 61, "META-INF/versions/25/a/B.class": 69}, 17),
        (PLAIN, {"a/B.class": None}, None),
    ],
    ids=["Spring Boot", "multi-release", "no class file"],
)
def test_the_java_of_an_artifact(
    tmp_path: Path, manifest: str, classes: dict[str, int | None], wanted: int | None
) -> None:
    with zipfile.ZipFile(tmp_path / "a.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", manifest)
        for name, version in classes.items():
            jar.writestr(name, b"none" if version is None else b"\xca\xfe\xba\xbe\0\0" + version.to_bytes(2))
    assert java_of(tmp_path / "a.jar") == wanted
