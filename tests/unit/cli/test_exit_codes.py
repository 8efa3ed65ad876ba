"""Every command ends with the codes of docs/reference/exit-codes.md, by every way that costs little."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from leadline.cli.main import _run, app

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
DONE, FAILED, USAGE, NO_ANSWER = 0, 1, 2, 4

# command -> words after it, code
PATHS: dict[str, list[tuple[str, int]]] = {
    "init": [("--out", USAGE)],
    "try": [("nothing.jar", USAGE)],
    "run": [
        ("small.yaml --simulate truth.yaml", DONE),
        ("small.yaml --simulate truth.yaml --new --budget 20s", NO_ANSWER),
        ("small.yaml --dry-run", DONE),
        ("absent.yaml", USAGE),
        ("small.yaml --set design.replicates=many", USAGE),
        ("small.yaml --simulate absent.yaml", USAGE),
    ],
    "quickstart": [("--set design.replicates=many", USAGE)],
    "studies": [("", DONE)],
    "plan": [("small.yaml", DONE), ("absent.yaml", USAGE)],
    "power": [("small.yaml --cv 3%", DONE), ("absent.yaml", USAGE)],
    "simulate": [("small.yaml --truth truth.yaml --studies 2", DONE), ("absent.yaml --truth truth.yaml", USAGE)],
    "confirm": [("absent", USAGE)],
    "bisect": [("absent.yaml --response p50", USAGE)],
    "knee": [("absent.yaml", USAGE)],
    "show": [
        ("small@1 --lab LAB", DONE),
        ("small@2 --lab LAB", NO_ANSWER),
        ("absent --lab LAB", USAGE),
        ("small", USAGE),
    ],
    "report": [("small@1 --lab LAB --format json", DONE), ("absent --lab LAB", USAGE)],
    "export": [("small@1 --lab LAB --format csv", DONE), ("absent --lab LAB", USAGE)],
    "advise": [("small@1 --lab LAB", DONE), ("absent --lab LAB", USAGE)],
    "capacity": [("small@1 --lab LAB", USAGE), ("absent --lab LAB", USAGE)],
    "figures": [("absent.csv", USAGE)],
    "compare": [("1 2 --lab LAB", USAGE), ("1 9 --lab LAB", USAGE)],
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
    "soak": [("absent.yaml", USAGE), ("small.yaml --for 1h --verdict", USAGE)],
    "command": [("", USAGE), ("true --runs 2", DONE), ("false --runs 2", USAGE)],
    "record": [("--json=many", USAGE)],
    "scenario from-har": [("absent.har", USAGE)],
    "scenario from-openapi": [("absent.yaml", USAGE)],
    "scenario export": [("absent.yaml k6", USAGE)],
    "gc": [("absent.log", USAGE), ("pauses.log", DONE), ("silent.log", NO_ANSWER)],
}
SILENT = "[2026-01-01T10:00:00.000+0000][0.005s][info][gc] Using G1\n"
PAUSES = SILENT + "".join(
    f"[2026-01-01T10:00:0{n}.000+0000][{n}.005s][info][gc] GC({n}) Pause Young (Normal) (G1 Evacuation Pause) "
    "24M->4M(64M) 3.214ms\n"
    for n in range(1, 9)
)


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
    texts = {"small.yaml": STUDY, "truth.yaml": TRUTH, "pauses.log": PAUSES, "silent.log": SILENT}
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


@pytest.mark.usefixtures("place")
def test_every_way_to_end_has_its_code() -> None:
    """In one test: later rows of the table read the lab of the earlier ones."""
    rows = [(f"{command} {words}".strip(), code) for command, paths in PATHS.items() for words, code in paths]
    rows += [("no-such-command", USAGE), ("--version", DONE)]
    wrong = [(words, code, ended) for words, code in rows if (ended := code_of(words)) != code]
    assert not wrong, "\n".join(f"{words}: {ended}, not {code}" for words, code, ended in wrong)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("words", "code"), [("studies", FAILED), ("gc pauses.log", FAILED)])
def test_a_closed_output_fails_a_command_that_has_something_to_say(words: str, code: int) -> None:
    command = f"{sys.executable} -m leadline.cli {words} >&-"
    assert subprocess.run(["bash", "-c", command], stderr=subprocess.DEVNULL, check=False).returncode == code
