"""Stack files: what they are refused for, and an application of one's own that is started, varied and audited."""

import json
import re
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from toy_application import toy
from toy_archives import POOL, spring_boot_jar

from leadline.catalogue import range_of
from leadline.checks.files.stack import read_stack
from leadline.checks.files.study import parse_study, parse_tuning
from leadline.checks.machine import apart
from leadline.experiments import stackfiles
from leadline.experiments.stackfiles import Changes, CheckStep, another, check, first
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import ApplyCost, Kind, Knob, Level
from leadline.model.ownparts import OwnKnob, level_read, terms, written
from leadline.model.ownstack import OwnStack
from leadline.model.record import LoadSecond
from leadline.places.running import choice_of
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions
from leadline.stack.own.server import CommandServer
from leadline.stack.own.words import joined
from leadline.stack.registry import not_a_knob, server_of, stack_catalogue

ROOT = Path(__file__).parents[3]


@pytest.fixture
def stack_file(tmp_path: Path) -> Path:
    return toy(tmp_path)


def test_it_is_started_varied_read_back_audited_and_put_back(stack_file: Path, tmp_path: Path) -> None:
    choice = choice_of(str(stack_file))
    stack = Stack(choice, LocalHost(state=tmp_path / "state"), tmp_path / "home", StackOptions())
    assert {"app.size", "app.wait"} <= {knob.name for knob in stack_catalogue(choice)}
    for trial, (levels, counted) in enumerate([({"app.size": 7, "app.wait": 0.5}, 2), ({}, 3)]):
        directory = tmp_path / f"trial-{trial}"
        stack.reset_data(directory)
        stack.up(levels, directory)
        try:
            assert stack.read_back("app.size") == levels.get("app.size", 4)
            assert stack.read_back("app.wait") == levels.get("app.wait", 0.25)
            stack.check_connections()
            stack.drain(directory / "times")
            audits = stack.audit({"item": {"ok": counted, "failed": 0}}, directory / "audit.log")
        finally:
            assert stack.down() == []
        # the working directory is a fresh copy at every start: nothing of the first trial is left
        assert [(audit.name, audit.passed) for audit in audits] == [("one-start", True), ("counted", trial == 0)]
    assert list((tmp_path / "data").iterdir()) == []
    assert "4 found, 8 wanted" in audits[1].detail


def test_the_build_that_runs_is_read_from_the_process(stack_file: Path, tmp_path: Path) -> None:
    stack_file.write_text(
        stack_file.read_text()
        + f"""builds:
  base: {{ command: [{sys.executable}, app.py, "${{port}}"] }}
  longer: {{ command: [{sys.executable}, app.py, "${{port}}", --size=9] }}
  slower: {{ command: [{sys.executable}, app.py, "${{port}}"], environment: {{ WAIT: "900" }} }}
"""
    )
    choice = choice_of(str(stack_file))
    for name, size, wait in (("longer", 9, 0.25), ("slower", 4, 0.9), ("base", 4, 0.25)):
        stack = Stack(choice, LocalHost(state=tmp_path / "state"), tmp_path / "home", StackOptions())
        stack.reset_data(tmp_path / name)
        stack.up({"app.build": name}, tmp_path / name)
        try:
            read = [stack.read_back(knob) for knob in ("app.build", "app.size", "app.wait")]
            assert read == [name, size, wait]
            server = stack.server
            assert isinstance(server, CommandServer)
            server._settings = {"app.build": "base"}  # whatever was asked for: the process tells
            assert server.read_back("app.build") == name
        finally:
            assert stack.down() == []


def test_levels_with_names_are_written_by_value_and_read_back_by_name(stack_file: Path, tmp_path: Path) -> None:
    text = stack_file.read_text().replace("range: [1, 64]", "levels: { small: 3, big: 9 }")
    stack_file.write_text(text)
    choice = choice_of(str(stack_file))
    (knob,) = [knob for knob in stack_catalogue(choice) if knob.name == "app.size"]
    assert (knob.parse(9), knob.parse("small")) == ("big", "small")
    assert range_of(knob) == "small (3), big (9)"
    stack = Stack(choice, LocalHost(state=tmp_path / "state"), tmp_path / "home", StackOptions())
    stack.reset_data(tmp_path / "trial")
    stack.up({"app.size": "big"}, tmp_path / "trial")
    try:
        assert stack.read_back("app.size") == "big"
    finally:
        assert stack.down() == []


ADMIN = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()


HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_probe_on_a_port_of_its_own_begins_at_its_root(tmp_path: Path) -> None:
    (tmp_path / "admin.py").write_text(ADMIN)
    path = tmp_path / "admin.stack.yaml"
    text = f"stack: admin\ncommand: [{sys.executable}, admin.py, '${{port.admin}}', '${{port}}']\npath: /shop\n"
    path.write_text(f"{text}ready: {{ path: /health, port: '${{port.admin}}', within: 60s }}\n")
    stack = Stack(choice_of(str(path)), LocalHost(state=tmp_path / "state"), tmp_path / "home", StackOptions())
    stack.reset_data(tmp_path / "trial")
    stack.up({}, tmp_path / "trial")
    assert stack.down() == []


BROKER = """
import socket, sys, time
print("starting", flush=True)
time.sleep(0.3)
sockets = [socket.create_server(("127.0.0.1", int(port))) for port in sys.argv[1:]]
print("accepting connections", flush=True)
while True:
    sockets[0].accept()[0].close()
"""


@pytest.mark.parametrize(
    ("ready", "late"),
    [
        ("tcp: '${port.broker}'", "nothing listens there yet"),
        ("log: '^accepting'", "no line fits"),
        ("command: [PYTHON, probe.py, '${port.broker}']", "exit code 1 ConnectionRefused"),
    ],
)
def test_one_without_http_is_up_by_another_sign(tmp_path: Path, ready: str, late: str) -> None:
    (tmp_path / "broker.py").write_text(BROKER)
    (tmp_path / "probe.py").write_text(
        "import socket, sys\nsocket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
    )
    path = tmp_path / "broker.stack.yaml"
    text = "stack: broker\ncommand: [PYTHON, broker.py, '${port.broker}', '${port.admin}']\n"
    path.write_text(f"{text}ready: {{ {ready}, within: 60s }}\n".replace("PYTHON", sys.executable))
    content = read_stack(path).content
    assert OwnStack.model_validate_json(content.model_dump_json()) == content  # as a lab has it
    stack = Stack(choice_of(str(path)), LocalHost(state=tmp_path / "state"), tmp_path / "home", StackOptions())
    stack.reset_data(tmp_path / "trial")
    stack.up({}, tmp_path / "trial")
    try:
        assert isinstance(stack.server, CommandServer)
        ports = stack.server.named_ports()
        assert len({ports["port"], ports["port.broker"], ports["port.admin"]}) == 3
    finally:
        assert stack.down() == []
    (tmp_path / "broker.py").write_text("import time\ntime.sleep(60)\n")
    path.write_text(path.read_text().replace("60s", "1s"))
    stack = Stack(choice_of(str(path)), LocalHost(state=tmp_path / "state"), tmp_path / "home", StackOptions())
    with pytest.raises(TrialFailure, match=rf"broker\.stack\.yaml:3: .*{late}"):
        stack.up({}, tmp_path / "late")


def test_one_that_does_not_start_is_told_of_with_its_last_words(stack_file: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("print('no licence')\nraise SystemExit(4)\n")
    stack = Stack(choice_of(str(stack_file)), LocalHost(state=tmp_path / "state"), tmp_path / "home", StackOptions())
    with pytest.raises(TrialFailure, match="ended with exit code 4 before it was ready; its last words: no licence"):
        stack.up({}, tmp_path / "trial")


@pytest.mark.parametrize(
    ("before", "after", "line", "told"),
    [
        ("${port}", "${prt}", 2, "unknown placeholder ${prt}; did you mean ${port}?"),
        (', "${port}"', "", 2, "nothing takes the port"),
        (', "${port}"', ', "${port}", "${database.user}"', 2, "is of leadline's own database, and `database` is none"),
        ("app.py", "shop.jar", 2, "there is no file"),
        ("app.py", "shop.jar", 2, "shop.jar; build it first"),
        ("app.py", "app.pyz.jar", 2, "did you mean app.py?"),
        ("directory: data", "directory: date", 4, "there is no directory"),
        ("    read_back: { http: /settings, key: pool.size }\n", "", 7, "a knob without read-back"),
        (
            "{ http: /settings, key: pool.size }",
            "{ key: pool.size }",
            10,
            "write one of http, jmx, jcmd, file and environ",
        ),
        ("{ file: state.txt, key: wait }", "{ file: state.txt }", 15, "say by `key` or `pattern`"),
        ("{ http: /settings,", "{ http: settings,", 10, "it begins with a /"),
        ("http: /settings, key", "jmx: 'a:b=c', attribute", 10, "jmx needs a JVM"),
        ("--size=${level}", "--size=3", 9, "has no ${level}"),
        ("range: [1, 64]", "range: [64, 1]", 8, "is not below"),
        ("app.size", "size", 7, "name it app.size"),
        ("unit: ms", "unit: KiB", 13, "KiB is a unit of the kind size"),
        ("directory: data", "directry: data", 4, "did you mean directory?"),
        ("path: /up, says: { starts: 1 }", "path: /up, tcp: 80", 3, "it says tcp and path; write one of"),
        ("path: /up, says: { starts: 1 }", "log: '['", 3, "is no regular expression"),
        ("path: /up, says: { starts: 1 }", "tcp: eighty", 3, "'eighty' is no port: write its number"),
        ("path: /up, says: { starts: 1 }", "tcp: '${prt}'", 3, "'${prt}' is no port"),
        ("equals: 1 ", "equals: some ", 17, "is no sum of numbers and counts"),
        ("http: /state, key: starts", "sql: select 1", 17, "sql is asked of leadline's own database"),
        ("directory: data", "database: { kind: command }", 4, "its `reset` command come together"),
        ("directory: data", "database: postgrs", 4, "did you mean postgres?"),
        ("directory: data", "attach: { port: 80 }", 4, "it says command and attach; write one of"),
        ("directory: data", "mine: true", 4, "mine is for a process that runs already: write `attach`"),
    ],
)
def test_mistakes_are_told_with_their_line(stack_file: Path, before: str, after: str, line: int, told: str) -> None:
    text = stack_file.read_text()
    assert before in text
    stack_file.write_text(text.replace(before, after, 1))
    with pytest.raises(UsageError) as caught:
        read_stack(stack_file)
    assert told in str(caught.value)
    assert f"toy.stack.yaml:{line}: " in str(caught.value)


def test_studies_and_tunings_take_it_with_its_scenario(stack_file: Path) -> None:
    study = parse_study(
        "study: s\nquestion: q?\nstack: toy.stack.yaml\n", str(stack_file.with_name("study.yaml"))
    ).study
    assert (study.stack.app, study.stack.server, study.stack.database) == ("toy", "command", "none")
    assert study.workload.scenario == str(stack_file.with_name("toy.scenario.yaml"))
    assert type(study).model_validate_json(study.model_dump_json()) == study
    text = "tuning: t\nquestion: q?\nstack: toy.stack.yaml\nsteps: [{ name: size, levels: { app.size: [4, 8] } }]\n"
    tuning = parse_tuning(text, str(stack_file.with_name("tuning.yaml"))).tuning
    assert tuning.modes == ["direct"]
    assert tuning.stack.title == "toy (toy.stack.yaml)"


def test_a_stack_file_that_is_not_there_is_named_with_the_nearest(stack_file: Path) -> None:
    with pytest.raises(UsageError, match=r"study.yaml:3: stack: there is no stack file 'toi.stack.yaml'; did you mean"):
        parse_study("study: s\nquestion: q?\nstack: toi.stack.yaml\n", str(stack_file.with_name("study.yaml")))
    with pytest.raises(UsageError, match=r"no stack file 'tomcat'; did you mean the server, { server: tomcat }\?"):
        parse_study("study: s\nquestion: q?\nstack: tomcat\n", str(stack_file.with_name("study.yaml")))


def test_the_example_of_the_reference_is_one() -> None:
    page = (ROOT / "docs" / "reference" / "stack-file.md").read_text()
    example = OwnStack.model_validate(YAML(typ="safe").load(page.split("```yaml\n")[1].split("```")[0]))
    assert example.jvm
    assert set(OwnStack.model_fields) == {
        line.split("`")[1] for line in page.splitlines() if line.startswith("| `")
    } & set(OwnStack.model_fields)


def test_the_example_has_its_knobs_and_files() -> None:
    folder = ROOT / "examples" / "shop"
    stack = OwnStack.model_validate(YAML(typ="safe").load((folder / "shop.stack.yaml").read_text()))
    assert list(stack.knobs) == ["app.packing", "app.cache", "app.one_by_one"]
    assert all((folder / name).is_file() for name in (*stack.database.sql, stack.scenario or ""))


def test_sums_of_counts_and_units() -> None:
    assert terms("100 + ${counts.order.ok} - 2") == [(100, "", ""), (1, "order", "ok"), (-2, "", "")]
    knob = OwnKnob.model_validate(
        {"kind": "size", "unit": "MiB", "argument": "-m${level}", "read_back": {"http": "/m"}}
    )
    assert written(knob, 512 << 20) == "512"
    assert level_read(knob, " 512\n") == 512 << 20


def test_a_first_file_is_written_from_a_jar_and_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    jar = spring_boot_jar(
        tmp_path / "Web_shop-1.2.jar",
        "spring-boot-3.5.7",
        "postgresql-42.7.8",
        "spring-jdbc-6.2.12",
        "tomcat-embed-core-10",
    )
    path, text = first(jar, None)
    found = read_stack(path).content
    assert path.name == "web-shop.stack.yaml"
    assert (
        "Spring Boot 3.5.7, main class com.example.a.very.long.package.name.that.goes.on.in.the.next.line.Shop" in text
    )
    assert (found.command[2], found.database.kind, found.catalogue) == ("Web_shop-1.2.jar", "postgres", "spring-boot")
    with pytest.raises(UsageError, match="exists; remove it"):
        first(jar, None)


@pytest.mark.parametrize(
    ("name", "manifest", "told"),
    [
        ("absent.jar", None, "there is no file .*build it first"),
        ("shop.war", "", "needs a server"),
        ("text.jar", None, "is no jar"),
        ("lib.jar", "Manifest-Version: 1.0\n", "names no Main-Class"),
    ],
)
def test_what_is_no_jar_to_start_is_refused(tmp_path: Path, name: str, manifest: str | None, told: str) -> None:
    path = tmp_path / name
    if manifest is not None:
        with zipfile.ZipFile(path, "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", manifest)
    elif name == "text.jar":
        path.write_text("no jar")
    with pytest.raises(UsageError, match=told):
        first(path, tmp_path / "out.stack.yaml")


def test_a_check_starts_it_once_and_tells_every_step(
    stack_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(LocalHost, "lease", lambda _: nullcontext())  # it alters nothing of this host
    stack_file.write_text(
        stack_file.read_text()
        .replace("scenario: toy.scenario.yaml\n", "")
        .replace("counts.item.ok}", "counts.item.ok} ")
    )
    steps: list[CheckStep] = []
    assert not check(stack_file, tmp_path / "lab", steps.append, lambda _: None)
    told = {step.name: step.wrong or step.told for step in steps}
    assert re.match(
        r"port \d+; where it finds others .* instances of a rotation join each other", told["listens on UDP"]
    )
    assert told["read app.size"] == "4"
    assert told["read app.wait"] == "250ms"
    assert told["load"] == "none: the stack file names no scenario"
    assert told["audits"].startswith("toy.stack.yaml:17: counted: the driver counted no transaction 'item'")
    assert [step.name for step in steps if step.wrong] == ["audits"]
    assert [step.name for step in steps][-2:] == ["stop", "put the host back"]


def test_a_check_tells_a_mistake_once_and_with_its_line(
    stack_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(LocalHost, "lease", lambda _: nullcontext())
    text = stack_file.read_text().replace("scenario: toy.scenario.yaml\n", "").replace("key: pool.size }", "key: no }")
    stack_file.write_text(text.replace("key: pool.size,", "key: pool.size, "))
    steps: list[CheckStep] = []
    assert not check(stack_file, tmp_path / "lab", steps.append, lambda _: None)
    (wrong,) = [step.wrong for step in steps if step.name == "read app.size"]
    assert wrong.startswith("toy.stack.yaml:6: the response has no 'no'")

    def refuses(*_: object) -> None:
        raise UsageError("toy.stack.yaml:2: no")

    monkeypatch.setattr("leadline.places.real.RealSystem.prepare", refuses)
    steps.clear()
    assert not check(stack_file, tmp_path / "lab", steps.append, lambda _: None)
    assert [step.wrong for step in steps if step.wrong] == ["toy.stack.yaml:2: no"]


class Live:
    """A running stack with one live knob, whose changes end as ``how`` says."""

    def __init__(self, how: str) -> None:
        self.how, self.level, self.log = how, 10, "10:00:01 The application has started\n10:00:02 GET /a\n"
        self.server, self.process, self.pid = self, self, 7

    def words(self) -> str:
        return self.log

    def alive(self) -> bool:
        return self.how != "dies"

    def restarts(self) -> int:
        return self.log.count("CWWKZ0009I")

    def read_back(self, name: str) -> int:
        if name == "app.absent":
            raise LookupError("app.absent cannot be read: no such bean")
        return self.level

    def apply(self, levels: dict[str, int]) -> None:
        (level,) = levels.values()
        self.log += "10:00:03 GET /a\n"
        if self.how == "refuses" and level < 10:
            raise TrialFailure(FailureClass.CONFIGURATION, "below the minimum of 10")
        if self.how == "stays" and level == 10:
            raise TrialFailure(FailureClass.CONFIGURATION, "no")
        self.level = level
        self.log += "10:00:04 The application has started\n" if self.how in ("says it anew", "reads its files") else ""
        self.log += "10:00:04 CWWKZ0009I: The application has stopped\n" if self.how == "restarts" else ""


@pytest.mark.parametrize(
    ("how", "told", "wrong"),
    [
        ("works", "10, 5 and back", ""),
        ("refuses", "5 is refused (below the minimum of 10): write levels that it takes while it runs", ""),
        ("restarts", "the application starts anew with it", ""),
        ("says it anew", "the application starts anew with it", ""),
        ("reads its files", "10, 5 and back", ""),  # a server whose words for a restart are known says others again
        ("stays", "10, 5 and back", "it is not put back to 10: no"),
        ("dies", "10, 5 and back", "its process ended when it was set to 5"),
    ],
)
def test_a_check_sets_a_live_knob_to_another_level_and_back(
    how: str, told: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "says it anew":  # a program of any kind
        monkeypatch.setattr(stackfiles, "CommandServer", Live)
    knob = Knob("app.pool", Kind.INTEGER, ApplyCost.LIVE, "", minimum=1, maximum=64)
    changes = Changes(Live(how), [replace(knob, name="app.absent"), knob])  # type: ignore[arg-type]
    changes(LoadSecond(1.0, "steady", 9.0, 1.0, 0))  # the absent one takes no second of it
    assert (len(changes.done), changes.seconds) == (1, 3)
    changes.rest()
    assert changes.absent == {"app.absent": "app.absent cannot be read: no such bean"}
    (step,) = changes.done
    assert (step.name, step.wrong[: len(wrong)]) == ("change app.pool", wrong)
    assert bool(step.wrong) == bool(wrong)
    assert told in step.told
    assert ("anew" in step.told) == ("anew" in told)
    changes(LoadSecond(2.0, "steady", 9.0, 1.0, 3))
    assert changes.done[0].told.endswith("; transactions failed meanwhile")


def read_pool(_: object, name: str) -> int:
    if name in ("app.a", "app.b"):
        raise LookupError(f"{name}: no such bean")
    return 10


def test_a_change_that_ends_the_load_is_told(stack_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(LocalHost, "lease", lambda _: nullcontext())
    scenario = "scenario: toy\nmix: { up: 1 }\ntransactions:\n  up:\n    - get: /up\n"
    stack_file.with_name("toy.scenario.yaml").write_text(scenario)
    knob = Knob("app.pool", Kind.INTEGER, ApplyCost.LIVE, "")
    of_file = stackfiles._study
    names = ("app.a", "app.b")  # the application has neither
    live = [knob, *(replace(knob, name=name) for name in names)]
    monkeypatch.setattr(stackfiles, "_study", lambda own, file: (of_file(own, file)[0], live))
    monkeypatch.setattr("leadline.stack.assembly.Stack.read_back", read_pool)
    step = CheckStep("change app.pool", 0.1, wrong="its process ended when it was set to 5")
    monkeypatch.setattr(Changes, "_changed", lambda *_: step)

    def load(*words: object) -> None:
        _, seconds, _, _, on_load = words
        assert callable(on_load)
        assert seconds == 3  # two, and one for the only knob that it has
        for _ in range(3):
            on_load(LoadSecond(1.0, "steady", 9.0, 1.0, 0))
        raise TrialFailure(FailureClass.INFRASTRUCTURE, "the server ended")

    monkeypatch.setattr("leadline.places.real.RealSystem.load_for", load)
    steps: list[CheckStep] = []
    assert not check(stack_file, tmp_path / "lab", steps.append, lambda _: None)
    assert [step.name for step in steps if step.wrong] == ["load of 3 s by one user", "change app.pool"]
    (absent,) = [step.told for step in steps if step.name == "other live knobs"]
    assert absent == "not read, so none to vary: app.a, app.b (app.a: no such bean)"


@pytest.mark.parametrize(
    ("kind", "bounds", "level", "other"),
    [
        (Kind.INTEGER, {"minimum": 8}, 10, 20),
        (Kind.INTEGER, {}, 1, 2),
        (Kind.INTEGER, {"minimum": 10, "maximum": 10}, 10, None),
        (Kind.DURATION, {}, 30.0, 15.0),
        (Kind.BOOLEAN, {}, True, False),
        (Kind.CHOICE, {"choices": ("a", "b")}, "a", "b"),
        (Kind.TEXT, {}, "a", None),
    ],
)
def test_another_level_is_legal_and_near(kind: Kind, bounds: dict[str, Any], level: Level, other: Level | None) -> None:
    assert another(Knob("k", kind, ApplyCost.LIVE, "", **bounds), level) == other


def test_a_database_of_ones_own_is_put_back_by_its_command(stack_file: Path, tmp_path: Path) -> None:
    script = "import sys, pathlib; pathlib.Path('reset.txt').write_text('done'); print('no room'); sys.exit({})"
    reset = json.dumps([sys.executable, "-c", script])
    text = stack_file.read_text()
    for code in (0, 3):
        stack_file.write_text(f"{text}database: {{ kind: command, reset: {reset.replace('{}', str(code))} }}\n")
        stack = Stack(choice_of(str(stack_file)), LocalHost(state=tmp_path / "state"), tmp_path / "home")
        assert stack.has_data()
        if code == 0:
            stack.reset_data(tmp_path / "trial")
            assert (tmp_path / "reset.txt").read_text() == "done"
            assert stack.choice.title == "toy (toy.stack.yaml, its data put back by a command)"
        else:
            with pytest.raises(TrialFailure, match="ended with exit code 3: no room"):
                stack.reset_data(tmp_path / "trial")


def test_instances_side_by_side_need_ports_and_data_of_their_own(stack_file: Path) -> None:
    keys = "study: s\nquestion: q?\nstack: toy.stack.yaml\n"
    for line, told in (("port: 8080\n", "ports of their own"), ("database: keep\n", "`database` is keep")):
        text = stack_file.read_text()
        stack_file.write_text(text + line)
        lack = apart(parse_study(keys, str(stack_file.with_name("study.yaml"))).study)
        stack_file.write_text(text)
        assert lack is not None
        assert lack[0] == ("stack",)
        assert told in lack[1]


ATTACHED = """stack: toy
attach: { port: 8080 }
mine: true
ready: { path: /up }
"""


@pytest.mark.parametrize(
    ("before", "after", "line", "told"),
    [
        ("mine: true\n", "", 2, "leadline did not start it: write `mine: true` beside it"),
        (
            "{ port: 8080 }",
            "{ port: 8080, pid: 3 }",
            2,
            "it says port and pid; write one of port, pid, pid_file and unit",
        ),
        ("{ port: 8080 }", "{ unit: shop }", 2, "say by `port: 8080` where unit shop listens"),
        ("ready:", "directory: data\nready:", 4, "a process that runs already has its directory"),
        ("ready:", "database: postgres\nready:", 4, "this one runs already: write keep, none, or a reset command"),
        ("ready:", "catalogue: spring-boot\nready:", 4, "say by `artifact: shop.jar`"),
        ("{ port: 8080 }", "{ pid: 3 }\nport: 80\nrestart: [sh]", 4, "its pid is another one then"),
        ("ready:", "settings_file: { path: a, template: b }\nready:", 4, "write the `restart` command, too"),
        ("ready:", "environment: { A: b }\nready:", 4, "by a settings_file with ${environment}"),
        ("ready:", "restart: [sh]\nsettings_file: { path: a, template: t }\nready:", 5, "there is no file"),
        ("ready:", "restart: [sh]\nsettings_file: { path: a, template: u }\nready:", 5, "did you mean ${args}?"),
    ],
)
def test_mistakes_of_an_attached_process_are_told_with_their_line(
    tmp_path: Path, before: str, after: str, line: int, told: str
) -> None:
    (tmp_path / "u").write_text("OPTIONS=${arg}\n")
    path = tmp_path / "toy.stack.yaml"
    path.write_text(ATTACHED.replace(before, after, 1))
    with pytest.raises(UsageError) as caught:
        read_stack(path)
    assert told in str(caught.value)
    assert f"toy.stack.yaml:{line}: " in str(caught.value)


def test_an_attached_process_keeps_its_data_and_offers_live_knobs_only(tmp_path: Path) -> None:
    path = tmp_path / "toy.stack.yaml"
    path.write_text(f"{ATTACHED.replace('8080', '9')}artifact: shop.jar\ncatalogue: spring-boot\n")
    spring_boot_jar(tmp_path / "shop.jar", "spring-boot-3.5.7")
    choice = choice_of(str(path))
    assert (choice.database, choice.own and choice.own.content.database.kind) == ("keep", "keep")
    knobs = {knob.name: knob for knob in server_of(choice).knobs()}
    assert f"app.{POOL}" in knobs
    assert {knob.apply_cost for knob in knobs.values()} == {ApplyCost.LIVE}
    why = not_a_knob(choice, "app.spring.jpa.open-in-view")
    assert why.endswith("takes effect at a start, and leadline starts nothing here: give the stack file a `restart`")
    stack = Stack(choice, LocalHost(state=tmp_path / "state"), tmp_path / "home", StackOptions())
    with pytest.raises(
        TrialFailure, match=r"toy\.stack\.yaml:2: .*listens on port 9; start it, leadline only attaches"
    ):
        stack.up({}, tmp_path / "trial")


def test_options_for_a_start_script_have_no_quotes_that_it_would_keep() -> None:
    options = ["-Xmx64m", "-Xlog:gc*,safepoint:file=a.log:uptime,tags:filecount=0", "-Dname=two words"]
    text = joined(options)
    script = subprocess.run(
        ["sh", "-c", 'printf "%s\n" $OPTIONS'], env={"OPTIONS": text}, capture_output=True, text=True
    )
    assert script.stdout.splitlines()[:2] == options[:2]
    whole = subprocess.run(["sh", "-c", f'printf "%s\n" {text}'], capture_output=True, text=True, check=True)
    assert whole.stdout.splitlines() == options
