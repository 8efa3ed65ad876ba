"""Every command ends with the codes of docs/reference/exit-codes.md.

Errors have one way through ``_run``, tried for every command. Beside them a command ends with the code of a
``typer.Exit``; every place that raises one is found in the source, and has rows that reach it.
"""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import typer

import leadline.cli
from bench.outcomes.server import serving
from leadline.analysis.soak import Drift, Series, Soak
from leadline.cli.commands import execute, host, init, labs, load, soak, stackfile
from leadline.cli.main import _run, app
from leadline.conclude.gate import Counted, Counts
from leadline.experiments.trying import NotKnownError
from leadline.host.checks import HostFinding
from leadline.model.errors import FailureClass, LeadlineError, RestoreError, TrialFailure, UsageError
from leadline.places.pool.job import EndKind
from leadline.trial.interruption import Interruption

POOL = "server.datasource.max_connections"
STUDY = f"""\
study: small
question: Which?
stack: {{ server: liberty }}
workload: {{ users: 40, ramp_up: 2s, steady: 12s, ramp_down: 1s }}
factors: {{ {POOL}: [40, 2] }}
responses: [throughput]
design: {{ replicates: 4 }}
"""
TRUTH = "truth: { seed: 7, server: { think: 10ms }, noise: { trials: 0.3%, seconds: 1% } }\n"
PAIR = STUDY.replace("small", "pair").replace("replicates: 4", "replicates: 2, sentinels: null")
SLOW = TRUTH.replace(" }\n", f", effects: [ {{ when: {{ {POOL}: 2 }}, percent: {{ throughput: -40% }} }} ] }}\n")
LOST = f"failures: [ {{ class: infrastructure, step: load, probability: 100%, when: {{ {POOL}: 40 }} }} ]"
CONFIRMED = f"small@3 --simulate slow.yaml --setting {POOL}=2 --effect 3% --new"
DONE, FAILED, USAGE, LEFT, NO_ANSWER, SIGINT, SIGTERM = 0, 1, 2, 3, 4, 130, 143

# command -> words after it, code
PATHS: dict[str, list[tuple[str, int]]] = {
    "init": [("--out", USAGE)],
    "try": [("nothing.jar", USAGE)],
    "run": [
        ("small.yaml --simulate truth.yaml", DONE),
        ("small.yaml --simulate truth.yaml --new --budget 20s", NO_ANSWER),
        ("small.yaml --simulate truth.yaml --new --fail throughput<-90%", DONE),
        ("small.yaml --simulate truth.yaml --fail troughput<-5%", USAGE),
        ("small.yaml --simulate slow.yaml --new --fail throughput<-5%", FAILED),
        ("small.yaml --simulate truth.yaml --new --fail throughput<-0%", NO_ANSWER),
        ("small.yaml --simulate truth.yaml --new --fail throughput<-0% --undecided pass", DONE),
        ("pair.yaml --simulate lost.yaml", NO_ANSWER),  # half of the trials, none of the baseline
        ("pair.yaml --simulate lost.yaml --new --fail throughput<-5% --undecided pass", NO_ANSWER),
        ("small.yaml --dry-run", DONE),
        ("absent.yaml", USAGE),
        ("small.yaml --set design.replicates=many", USAGE),
        ("small.yaml --simulate absent.yaml", USAGE),
    ],
    "quickstart": [("--set design.replicates=many", USAGE)],
    "demo": [("--no-page --out demo", DONE), ("--out .", USAGE)],
    "studies": [("", DONE)],
    "plan": [("small.yaml", DONE), ("absent.yaml", USAGE)],
    "power": [("small.yaml --cv 3%", DONE), ("absent.yaml", USAGE)],
    "simulate": [("small.yaml --truth truth.yaml --studies 2", DONE), ("absent.yaml --truth truth.yaml", USAGE)],
    "confirm": [
        ("absent", USAGE),
        (f"{CONFIRMED} --fail throughput<-90%", DONE),
        (f"{CONFIRMED} --fail throughput<-5%", FAILED),
    ],
    "bisect": [("absent.yaml --response p50", USAGE)],
    "knee": [("absent.yaml", USAGE)],
    "show": [
        ("small@1 --lab LAB", DONE),
        ("small@2 --lab LAB", NO_ANSWER),
        ("absent --lab LAB", USAGE),
        ("small", USAGE),
    ],
    "report": [
        ("small@1 --lab LAB --format json", DONE),
        ("small@2 --lab LAB --format json", NO_ANSWER),
        ("small@2 --lab LAB --format md --out small.md", NO_ANSWER),
        ("absent --lab LAB", USAGE),
    ],
    "analyse": [("absent.json -- other.json", USAGE)],
    "explain": [("absent.folded -- other.folded", USAGE)],
    "export": [("small@1 --lab LAB --format csv", DONE), ("absent --lab LAB", USAGE)],
    "advise": [("small@1 --lab LAB", DONE), ("absent --lab LAB", USAGE)],
    "capacity": [("small@1 --lab LAB", USAGE), ("absent --lab LAB", USAGE)],
    "figures": [("absent.csv", USAGE)],
    "compare": [("1 2 --lab LAB", USAGE), ("1 99 --lab LAB", USAGE)],
    "history": [("small --lab LAB", DONE), ("absent --lab LAB", USAGE)],
    "ui": [("--port 99999999", USAGE)],
    "pool hosts": [("absent.yaml", USAGE), ("ssh:hosts.yaml", FAILED)],
    "pool job": [("absent.json", USAGE), ("small.yaml", USAGE), ("small.yaml --look", USAGE)],
    "lab init": [("--json=many", USAGE)],
    "lab list": [("--lab LAB", DONE), ("--lab none", USAGE)],
    "lab du": [("--lab LAB", DONE), ("--lab none", USAGE)],
    "lab rm": [("small@1 --lab LAB", USAGE), ("absent --lab LAB", USAGE)],
    "lab prune": [("--lab none", USAGE)],
    "lab copy": [("none other", USAGE)],
    "lab merge": [("none --lab other", USAGE)],
    "doctor": [("--json=many", USAGE)],
    "knobs": [("", DONE), ("--stack absent.stack.yaml", USAGE)],
    "kernels fetch": [("--json=many", USAGE)],
    "kernels show": [("--json=many", USAGE)],
    "restore": [("--json=many", USAGE)],
    "up": [("absent.stack.yaml", USAGE)],
    "down": [("--json=many", USAGE)],
    "stack init": [("absent.jar", USAGE)],
    "stack check": [("absent.stack.yaml", USAGE)],
    "load": [("absent.yaml", USAGE)],
    "soak": [("absent.yaml --for 1h", USAGE), ("small.yaml --for 1h --verdict", USAGE)],
    "command": [
        ("", USAGE),
        ("true --runs 2", DONE),
        ("false --runs 2", USAGE),
        ("--import-json twice.json", DONE),
        ("--import-json once.json", NO_ANSWER),
        ("--import-json failed.json", FAILED),
        ("--import-json twice.json --fail wall>90%", DONE),
        ("--import-json twice.json --fail wall>0.1%", NO_ANSWER),
        ("--import-json twice.json --fail wall>0.1% --undecided pass", DONE),
        ("--import-json slower.json --fail wall>3%", FAILED),
        ("--import-json twice.json --fail throughput<-1%", USAGE),
        ("false --count", USAGE),
        ("true --count --fail wall>1%", USAGE),
        ("true --count --warmup 3", USAGE),
    ],
    "gate": [
        ("false true", USAGE),
        ("true true --budget soon", USAGE),
        ("true true --budget 1s", USAGE),
        ("true true --fail p99>3%", USAGE),
        ("absent.jar absent.jar", USAGE),
        ("true true --count --budget 9m", USAGE),
        ("old.stack.yaml new.stack.yaml --count --simulate none.yaml", USAGE),
        ("old.stack.yaml new.stack.yaml --simulate none.yaml", DONE),
        ("old.stack.yaml new.stack.yaml --simulate harm.yaml", FAILED),
        ("old.stack.yaml new.stack.yaml --simulate none.yaml --fail cpu>0%", NO_ANSWER),
        ("old.stack.yaml new.stack.yaml --simulate none.yaml --fail cpu>0% --undecided pass", DONE),
    ],
    "mcp": [("absent.yaml", USAGE), ("small.yaml --session A", USAGE)],
    "record": [("--json=many", USAGE)],
    "scenario from": [("absent.har", USAGE)],
    "gc": [("absent.log", USAGE), ("pauses.log", DONE), ("silent.log", NO_ANSWER), ("silent.log --json", NO_ANSWER)],
}
SILENT = "[2026-01-01T10:00:00.000+0000][0.005s][info][gc] Using G1\n"
PAUSES = SILENT + "".join(
    f"[2026-01-01T10:00:0{n}.000+0000][{n}.005s][info][gc] GC({n}) Pause Young (Normal) (G1 Evacuation Pause) "
    "24M->4M(64M) 3.214ms\n"
    for n in range(1, 9)
)


class FakeSoak(SimpleNamespace):
    """What a soak says, of a code; its memory grew by 8 to 12 %."""

    sentence = "so far"
    judged = Soak("degrading", (Drift(Series("memory of server", "MiB", (), ()), "", "", 10.0, 8.0, 12.0, 10.0),))

    def lines(self) -> list[str]:
        return []

    def document(self) -> dict[str, Any]:
        return {}


def soaks(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    answer = FakeSoak(exit_code=code)
    monkeypatch.setattr(soak, "plan", lambda *_: (SimpleNamespace(name="s", times=None), []))
    monkeypatch.setattr(soak, "so_far", lambda *_: (1, answer))
    ended = SimpleNamespace(number=1, answer=answer, restored=(), stopped="")
    monkeypatch.setattr(soak, "run", lambda *_, **__: ended)
    monkeypatch.setattr(soak, "report", lambda *_: Path("soak.html"))


def searches(monkeypatch: pytest.MonkeyPatch, answered: bool) -> None:
    monkeypatch.setattr(execute, "open_testbed", lambda *_, **__: SimpleNamespace())
    result = SimpleNamespace(restored=(), stopped="", name="probe", records=(), seconds=1.0)
    ended = SimpleNamespace(result=result, answer="so large", answered=answered, lines=list, document=dict)
    question = SimpleNamespace(study=SimpleNamespace(budget=None))
    for name, search in (("bisection.question", "run_bisection"), ("knees.question_of", "run_search")):
        monkeypatch.setattr(f"leadline.cli.commands.bisect.{name}", lambda *_, **__: question)
        monkeypatch.setattr(f"leadline.cli.commands.bisect.{search}", lambda *_, **__: ended)


def stacks(monkeypatch: pytest.MonkeyPatch, good: bool) -> None:
    monkeypatch.setattr(stackfile, "check_stack_file", lambda *_: good)


def tries(monkeypatch: pytest.MonkeyPatch, sentence: str) -> None:
    def prepare(*_: object, **__: object) -> None:
        raise NotKnownError(sentence)

    monkeypatch.setattr(init, "prepare", prepare)


def doctors(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    monkeypatch.setattr(host, "host_findings", lambda *_: [HostFinding("disk", level, "it is full", "rm")])


def restores(monkeypatch: pytest.MonkeyPatch, error: LeadlineError | None) -> None:
    def restore(*_: object) -> list[str]:
        if error is not None:
            raise error
        return []

    monkeypatch.setattr(host, "restore_host", restore)


def looks(monkeypatch: pytest.MonkeyPatch, how: EndKind) -> None:
    monkeypatch.setattr(host, "look", lambda *_: SimpleNamespace(how=how, said="so"))


def drivers(monkeypatch: pytest.MonkeyPatch, passed: bool | None) -> None:
    monkeypatch.setattr(load, "run_drivers", lambda *_: passed)


def driver(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(load, "run_scenario", lambda *_: code)


def removals(monkeypatch: pytest.MonkeyPatch, yes: bool) -> None:
    monkeypatch.setattr(labs, "console", SimpleNamespace(is_terminal=True))
    monkeypatch.setattr(labs.typer, "confirm", lambda *_: yes)


def signals(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    soaks(monkeypatch, NO_ANSWER)
    monkeypatch.setattr(Interruption, "cut_short", number)


def counts(monkeypatch: pytest.MonkeyPatch, percent: float) -> None:
    """The second of two programs has so many per cent more instructions."""
    runs = [Counts(at, 0, {"instructions": round(1e6 * (1 + at * percent / 100))}) for at in range(2)]
    ended = Counted(("true", "slow"), tuple(runs))
    for module in ("leadline.api.gates", "leadline.experiments.counting"):
        monkeypatch.setattr(f"{module}.counted", lambda *_: ended)


def commands_(monkeypatch: pytest.MonkeyPatch, interrupted: bool) -> None:
    module = "leadline.cli.commands.command"
    monkeypatch.setattr(
        f"{module}.timed_comparison", lambda *_: SimpleNamespace(interrupted=interrupted, failed=True, analysis=None)
    )
    monkeypatch.setattr(f"{module}.lines", lambda _: [])
    monkeypatch.setattr(f"{module}.answer", lambda _: "so")


# words, what takes the place of servers and people, its outcome, code
ENDS: list[tuple[str, Callable[[pytest.MonkeyPatch, Any], None], Any, int]] = [
    *(("soak small.yaml --for 1h --verdict", soaks, code, code) for code in (DONE, FAILED, NO_ANSWER)),
    *(("soak small.yaml --for 1h", soaks, code, code) for code in (DONE, FAILED, NO_ANSWER)),
    ("soak small.yaml --for 1h --fail memory>5%", soaks, DONE, FAILED),
    ("soak small.yaml --for 1h --fail memory>10%", soaks, DONE, NO_ANSWER),
    ("soak small.yaml --for 1h --fail memory>15%", soaks, DONE, DONE),
    ("soak small.yaml --for 1h", signals, 2, SIGINT),
    ("soak small.yaml --for 1h", signals, 15, SIGTERM),
    *(
        (f"{words} --lab LAB", searches, True, DONE)
        for words in ("knee small.yaml", "bisect small.yaml --response p50")
    ),
    *(
        (f"{words} --lab LAB", searches, False, NO_ANSWER)
        for words in ("knee small.yaml", "bisect small.yaml --response p50")
    ),
    ("stack check small.yaml", stacks, True, DONE),
    ("stack check small.yaml", stacks, False, FAILED),
    ("stack check small.yaml --json", stacks, False, FAILED),
    ("try shop.jar", tries, "not known: it takes longer to start than the budget", NO_ANSWER),
    *(("doctor", doctors, level, code) for level, code in (("ok", DONE), ("warn", DONE), ("bad", FAILED))),
    ("doctor --json", doctors, "bad", FAILED),
    ("restore", restores, None, DONE),
    ("restore", restores, RestoreError("/proc/sys/vm/swappiness could not be put back"), LEFT),
    ("restore", restores, LeadlineError("another leadline uses the host"), FAILED),
    *(
        ("pool job - --look", looks, how, code)
        for how, code in ((EndKind.READY, 0), (EndKind.BUSY, 1), (EndKind.REFUSED, 2))
    ),
    *(
        ("load s.yaml --drivers local,local", drivers, passed, code)
        for passed, code in ((True, 0), (False, 1), (None, SIGINT))
    ),
    *(
        ("load brokerage-classic --url http://127.0.0.1:1", driver, code, code)
        for code in (DONE, FAILED, USAGE, SIGINT, SIGTERM)
    ),
    ("load brokerage-classic --url http://127.0.0.1:1", driver, -9, FAILED),
    ("lab rm small@1 --lab LAB", removals, False, FAILED),
    ("command true slow --count", counts, 0.0, DONE),
    ("command true slow --count --json", counts, 0.5, DONE),
    ("command true slow --count --fail instructions>0.25%", counts, 0.5, FAILED),
    ("gate true slow --count", counts, 0.1, DONE),
    ("gate true slow --count --json", counts, 0.5, FAILED),
    ("gate true slow --count --fail page_faults>1%", counts, 0.5, NO_ANSWER),
    ("command true", commands_, True, SIGINT),
    ("command true", commands_, False, FAILED),
]


def commands(command: Any, words: str = "") -> Iterator[str]:
    if not hasattr(command, "list_commands"):
        yield words
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), f"{words} {name}".strip())


NAMES = list(commands(typer.main.get_command(app)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("codes")
    texts = {
        "pair.yaml": PAIR,
        "slow.yaml": SLOW,
        "lost.yaml": TRUTH.replace(" }\n", f", {LOST} }}\n"),
        "none.yaml": "truth: { seed: 4, noise: { trials: 1% } }\n",
        "harm.yaml": "truth: { effects: [ { when: { app.build: head }, percent: { cpu_per_transaction: 12% } } ] }\n",
        "shop.scenario.yaml": "scenario: shop\nmix: { item: 1 }\ntransactions: { item: [ { get: /items/1 } ] }\n",
    }
    for name in ("old", "new"):
        command = f'[python3, {name}.py, "${{port}}"]'
        texts[f"{name}.stack.yaml"] = f"stack: shop\ncommand: {command}\nscenario: shop.scenario.yaml\n"
    texts |= {"small.yaml": STUDY, "truth.yaml": TRUTH, "pauses.log": PAUSES, "silent.log": SILENT}
    for name, times, code in (("twice", [1.0, 1.1], 0), ("once", [1.0], 0), ("failed", [1.0, 1.1], 1)):
        rows = [{"command": word, "times": times, "exit_codes": [0] * (len(times) - 1) + [code]} for word in "ab"]
        texts[f"{name}.json"] = json.dumps({"results": rows})
    rows = [{"command": word, "times": [t, 1.01 * t, 1.02 * t] * 4} for word, t in (("a", 1.0), ("b", 1.2))]
    texts["slower.json"] = json.dumps({"results": rows})
    texts["hosts.yaml"] = "hosts: [nobody@127.0.0.1:1]\n"  # nothing listens there
    for name, text in texts.items():
        (folder / name).write_text(text)
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


def code_of(words: str) -> int:
    before = sys.argv
    sys.argv = ["leadline", *words.replace("LAB", "lab/simulated").split()]
    try:
        return _run()
    finally:
        sys.argv = before


def test_the_table_has_every_command() -> None:
    assert sorted(PATHS) == sorted(NAMES)


def ways_to_end() -> Iterator[tuple[str, int, int]]:
    """Places of the command line that end a command with a code of their own: file, first line, last line."""
    for file in sorted(Path(leadline.cli.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and "typer.Exit" in ast.unparse(node):
                yield file.name, node.lineno, node.end_lineno or node.lineno
            elif file.name != "main.py":
                called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                assert called not in ("sys.exit", "exit", "os._exit", "SystemExit"), f"{file}:{node.lineno}"  # type: ignore[attr-defined]


def test_every_way_to_end_has_its_code(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one test: later rows of the table read the lab of the earlier ones."""
    reached: set[tuple[str, int]] = set()

    class Exit(typer.Exit):
        def __init__(self, code: int = 0) -> None:
            frame = sys._getframe(1)
            reached.add((Path(frame.f_code.co_filename).name, frame.f_lineno))
            super().__init__(code)

    monkeypatch.setattr(typer, "Exit", Exit)
    rows = [(f"{command} {words}".strip(), code) for command, paths in PATHS.items() for words, code in paths]
    rows += [("no-such-command", USAGE), ("--version", DONE)]
    wrong = [(words, code, ended) for words, code in rows if (ended := code_of(words)) != code]
    for words, fake, outcome, code in ENDS:
        with monkeypatch.context() as patched:
            fake(patched, outcome)
            ended = code_of(words)
        if ended != code:
            wrong.append((f"{words} ({outcome})", code, ended))
    assert not wrong, "\n".join(f"{words}: {ended}, not {code}" for words, code, ended in wrong)
    lines = list(ways_to_end())
    unreached = [
        f"{file}:{first}"
        for file, first, last in lines
        if not any((file, n) in reached for n in range(first, last + 1))
    ]
    assert not unreached


ERRORS = {
    UsageError("a wrong option"): USAGE,
    LeadlineError("no host"): FAILED,
    TrialFailure(FailureClass.WORKLOAD, "all wrong"): FAILED,
    OSError(28, "No space left on device"): FAILED,
    MemoryError(): FAILED,
    RestoreError("vm.swappiness is 10, it was 60"): LEFT,
}


@pytest.mark.parametrize("name", NAMES)
def test_whatever_ends_a_command_has_the_code_of_the_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command: Any = typer.main.get_command(app)
    for word in name.split():
        command = command.get_command(click.Context(command), word)
    owner = next(cls for cls in type(command).__mro__ if "invoke" in vars(cls))
    needed = " ".join("1" for one in command.params if one.param_type_name == "argument" and one.required)
    ends: dict[BaseException, int] = {**ERRORS, KeyboardInterrupt(): SIGINT, SystemExit(SIGTERM): SIGTERM}
    for error, code in ends.items():

        def failing(error: BaseException = error, **_: object) -> None:
            raise error

        monkeypatch.setattr(owner, "invoke", lambda *_: failing())
        assert code_of(f"{name} {needed}") == code
    monkeypatch.undo()
    assert code_of(f"{name} --help") == DONE
    assert code_of(f"{name} --no-such-option") == USAGE


def test_the_docs_have_these_codes() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/exit-codes.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+|128 \+ n) \|", page, re.MULTILINE) == ["0", "1", "2", "3", "4", "128 + n"]


def test_a_load_of_a_server_ends_with_its_verdict(place: Path) -> None:
    with serving() as server:
        for path, condition, code in (
            ("ok", "p99>30s", DONE),
            ("ok", "throughput<1000000", FAILED),
            ("bad", "p99>30s", FAILED),
        ):
            words = f"load {server.url}/{path} --users 1 --duration 1s --out load-{code}-{path}"
            assert code_of(f"{words} --fail {condition}") == code


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("words", "code"), [("studies", FAILED), ("gc pauses.log", FAILED)])
def test_a_closed_output_fails_a_command_that_has_something_to_say(words: str, code: int) -> None:
    command = f"{sys.executable} -m leadline.cli {words} >&-"
    assert subprocess.run(["bash", "-c", command], stderr=subprocess.DEVNULL, check=False).returncode == code
