"""What waits, repeats or queues on a host has a stated upper bound."""

import ast
from collections.abc import Iterator

import pytest
from package_source import PACKAGE as ROOT
from package_source import tree

LAYERS = ("host", "stack", "checks", "store", "trial", "places", "experiments", "load", "observe")
WAITS = {"wait", "join", "communicate", "acquire"}  # without a time they have no end
RUNS = {"run", "check_call", "check_output", "call"}
QUEUES = {"Queue", "SimpleQueue", "LifoQueue"}
CLOCKS = {"deadline", "until", "waited", "timeout"}
# Loops and waits without a bound of their own, and what bounds them.
ALLOWED = {
    "host/facts.py: _listening: while True": "each answer is waited for two seconds, and the last says so",
    "host/here.py: foreground: .wait()": "ends with the program that the user runs, or by Ctrl-C",
    "host/here.py: unpacked: .wait()": "its timer kills the program",
    "host/lease.py: _tell: while True": "answers until its other end is closed",
    "host/lease.py: __enter__: .acquire()": "has LEADLINE_WAIT",
    "host/watchdog.py: run: while True": "guards until its parent ends; each listening has the dead-man time",
    "host/received.py: unpack: while True": "each file counts towards the bounds of an archive",
    "host/privilege.py: run: subprocess.run": "LONGEST stands in its options",
    "trial/run.py: _with_retries: while True": "an attempt more uses up one of ATTEMPTS, of `repeat`, or of the levels",
    "places/guest/machine.py: command: while True": "each message is waited for until a time",
    "places/guest/machine.py: event: while True": "the same",
    "places/pool/run.py: _run: while True": "each job has its time, and a failure uses up one of its attempts",
    "places/pool/ssh.py: take: .wait()": "ssh ends without an answer to six ServerAlive messages",
    "places/ssh/agent.py: listen: while True": "ends after agent.silence seconds without a word",
    "places/ssh/agent.py: serve: while True": "listen ends the process",
    "places/ssh/connection.py: _answer: while True": "ends with the connection, which ends without a word",
    "places/ssh/connection.py: _read: while True": "the same",
    "load/cluster/run.py: _follow: while True": "Cluster.poll raises after _SILENCE seconds without a word",
    "observe/base.py: _run: while True": "samples until it is stopped",
    "observe/gclog/follow.py: news: while True": "follows until the log's writer ends, or a signal ends it",
    "observe/base.py: _run: .wait()": "samples until it is stopped",
}


def unbounded(tree: ast.AST) -> Iterator[str]:
    """Function and what in it may have no end."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if what := _what(node):
                    yield f"{function.name}: {what}"


def _what(node: ast.AST) -> str:
    match node:
        case ast.While(test=ast.Constant(value=True)) if not _looks_at_a_clock(node):
            return "while True"
        case ast.Call(func=ast.Attribute(attr=name), args=[], keywords=[]) if name in WAITS:
            return f".{name}()"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="subprocess"), attr=name), keywords=given) if name in RUNS:
            return (
                ""
                if any(word.arg == "timeout" or "how" in ast.unparse(word) for word in given)
                else f"subprocess.{name}"
            )
        case ast.Call(func=ast.Attribute(attr="communicate"), keywords=given):
            return "" if any(word.arg == "timeout" for word in given) else ".communicate()"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[], keywords=[]) if name in QUEUES:
            return name
    return ""


def _looks_at_a_clock(loop: ast.While) -> bool:
    """Whether a comparison with a time inside may end it."""
    return any(
        any(clock in ast.unparse(node) for clock in CLOCKS) or "monotonic()" in ast.unparse(node)
        for node in ast.walk(loop)
        if isinstance(node, ast.Compare)
    )


def test_every_wait_loop_and_queue_has_a_bound() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {told}"
        for layer in LAYERS
        for path in (ROOT / layer).rglob("*.py")
        for told in unbounded(tree(path))
    }
    assert not found - set(ALLOWED)
    assert not set(ALLOWED) - found, "these are bounded by now"


@pytest.mark.parametrize(
    "code",
    [
        "while True: ask()",
        "thread.join()",
        "process.wait()",
        "subprocess.run(['sync'], check=True)",
        "process.communicate(b'')",
        "queue.Queue()",
        "lock.acquire()",
    ],
)
def test_what_has_no_bound_is_seen(code: str) -> None:
    assert list(unbounded(ast.parse(f"def f():\n    {code}\n")))


@pytest.mark.parametrize(
    "code",
    [
        "while True:\n        if time.monotonic() > deadline: break",
        "thread.join(_END)",
        "', '.join(names)",
        "subprocess.run(['sync'], timeout=_SYNC)",
        "queue.Queue(maxsize=_MOST)",
    ],
)
def test_what_has_a_bound_is_left_alone(code: str) -> None:
    assert not list(unbounded(ast.parse(f"def f():\n    {code}\n")))
