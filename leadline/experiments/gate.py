"""The study of a gate: what has a change against what has not, side by side, as long as a budget lasts.

Of two revisions of a git repository, each is checked out and built; the work trees are removed afterwards.
"""

from __future__ import annotations

import contextlib
import math
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leadline.analysis.sequential import FEWEST
from leadline.host import here
from leadline.host.paths import Scratch
from leadline.host.timed import Stopwatch
from leadline.model.conditions import parse
from leadline.model.errors import LeadlineError, UsageError, quoted
from leadline.model.ownstack import BUILD, Build, OwnFile
from leadline.model.result import PROCESS_RESPONSES, RESPONSES
from leadline.model.units import format_duration
from leadline.stack.own.words import beside, command_files, full, line_of
from leadline.trial.command import Command

NAME, FACTOR, BASE, HEAD = "gate", "build", "base", "head"
OF_COMMANDS = ("wall>10%", "cpu>3%")  # conditions where none are given
OF_SERVERS = ("steady_cpu>3%", "p90>10%")
LOAD_RESPONSES = tuple(name for name in RESPONSES if name not in PROCESS_RESPONSES)
_MOST_BLOCKS = 100
_LONG_ENOUGH = 1.0  # seconds of a trial of a program: a shorter one runs several times
_MOST_RUNS = 10
_BESIDE = 0.4  # seconds of a trial beside its runs
_TIMEOUT = 600.0
_START = 12.0  # seconds in which a server starts, stops and has its data put back
_SIZES = ((10, 28), (5, 20), (5, 12))  # seconds of warm-up and of load; the first of which a budget holds enough blocks
_ENOUGH = 12  # blocks
_SIDES = ("command", "compose", "environment", "directory")  # may differ
_ALIKE = (*_SIDES, "stack", "builds", "scenario", "audits", "knobs")  # or are those of the base


def command_study(base: Command, head: Command, fail: Sequence[str], budget: float, seed: int) -> dict[str, Any]:
    """The keys of a study of two programs; the first is run twice, for what a run takes. Raises UsageError where it
    fails, and for a budget (seconds) that is too short.
    """
    with Stopwatch() as watch:
        for _ in range(2):
            timed = watch.time(base.argv, _TIMEOUT, frozenset({0}))
            if timed.why:
                raise UsageError(f"BASE {quoted(base.text)} fails: {timed.why}")
    seconds = max(timed.figures["wall"], 1e-3)
    runs = min(_MOST_RUNS, max(1, round(_LONG_ENOUGH / seconds)))
    fail = fail or OF_COMMANDS
    return {
        "question": f"Does {head.text} do harm instead of {base.text}?"[:400],
        "command": {
            "run": f"{{{FACTOR}}}",
            "levels": {FACTOR: {BASE: shlex.join(base.argv), HEAD: shlex.join(head.argv)}},
            "runs": runs,
            "warmup": 0,
            "seconds": seconds,
            "timeout": max(_TIMEOUT, 10 * seconds),
        },
        **_common(FACTOR, fail, ("wall", "cpu"), PROCESS_RESPONSES, budget),
        "design": {**_watched(blocks_within(budget, 2 * (runs * seconds + _BESIDE)), seed), "sentinels": None},
    }


def blocks_within(budget: float, seconds: float) -> int:
    """How many blocks of so many seconds a budget holds. Raises UsageError where they are too few."""
    blocks = min(_MOST_BLOCKS, math.floor(budget / seconds))
    if blocks < FEWEST + 1:
        least = format_duration(math.ceil((FEWEST + 1) * seconds))
        raise UsageError(
            f"--budget {format_duration(budget)}: a block of both takes about {format_duration(round(seconds, 1))}, "
            f"and a verdict needs {FEWEST + 1} of them; write --budget {least} or more"
        )
    return blocks


def _watched(blocks: int, seed: int) -> dict[str, Any]:
    return {"replicates": blocks, "looks": "watched", "seed": seed}


def _common(
    factor: str, fail: Sequence[str], usual: Sequence[str], known: Sequence[str], budget: float
) -> dict[str, Any]:
    """Keys of every gate. Raises UsageError for a condition on what is not measured."""
    conditions = parse(fail, known)
    return {
        "study": NAME,
        "factors": {factor: [BASE, HEAD]},
        "responses": list(dict.fromkeys([*(condition.response for condition in conditions), *usual])),
        "fail": [condition.text for condition in conditions],
        "budget": format_duration(budget),
    }


def server_study(own: OwnFile, scenario: Path, fail: Sequence[str], budget: float, seed: int) -> dict[str, Any]:
    """The keys of a study of the two builds of a stack file, side by side. Raises UsageError."""
    fail = fail or OF_SERVERS
    ramp_up, steady = next((size for size in _SIZES if budget / _block(*size) >= _ENOUGH), _SIZES[-1])
    return {
        "question": f"Does a change of {own.content.stack} do harm?",
        "stack": {"own": own.model_dump(mode="json", exclude_unset=True)},
        "workload": {
            "scenario": str(scenario),
            "users": 8 * here.cpus(),
            "ramp_up": f"{ramp_up}s",
            "steady": f"{steady}s",
            "ramp_down": "1s",
        },
        **_common(BUILD, fail, ("cpu_per_transaction", "throughput", "p50", "p90"), LOAD_RESPONSES, budget),
        "design": {
            **_watched(blocks_within(budget, _block(ramp_up, steady)), seed),
            "rotation": {"otherwise": "one-by-one"},
        },
    }


def _block(ramp_up: float, steady: float) -> float:
    return 2 * (ramp_up + steady + _START)


def with_builds(own: OwnFile, builds: Mapping[str, Build]) -> OwnFile:
    """The stack file with these builds."""
    return own.model_copy(update={"content": own.content.model_copy(update={"builds": dict(builds)})})


def of_jars(own: OwnFile, base: Path, head: Path) -> OwnFile:
    """A stack file whose command runs one jar or the other. Raises UsageError where it runs none."""
    words = own.content.words
    places = [at for at in command_files(words) if words[at].endswith(".jar")]
    if not places:
        raise UsageError(f"{line_of(own, 'command')}: two jars are compared, and this command runs no jar")

    def run(jar: Path) -> Build:
        return Build(command=[str(jar.absolute()) if at == places[0] else word for at, word in enumerate(words)])

    return with_builds(own, {BASE: run(base), HEAD: run(head)})


def of_stack_files(base: OwnFile, head: OwnFile) -> OwnFile:
    """The first stack file, which also starts what the second does. Raises UsageError where they differ elsewhere."""
    mine, other = (own.content.model_dump(exclude=set(_ALIKE)) for own in (base, head))
    differing = [key for key in mine if mine[key] != other[key]]
    ways = {way for own in (base, head) for way in ("command", "compose") if getattr(own.content, way)}
    if differing or len(ways) != 1:
        problem = f"they differ in `{differing[0]}`" if differing else "one has no `command`, or one no `compose`"
        allowed = f"a gate compares {', '.join(_SIDES)} of two stack files"
        raise UsageError(f"{base.file} and {head.file}: {problem}; {allowed}")
    return with_builds(base, {BASE: _build_of(base), HEAD: _build_of(head)})


def _build_of(own: OwnFile) -> Build:
    """With the paths of its own folder."""
    stack, folder = own.content, str(Path(own.file).parent)
    if kept := [name for name, text in stack.environment.items() if "${secret:" in text]:
        raise UsageError(f"{line_of(own, 'environment', kept[0])}: of a gate write {kept[0]}: ${{env:{kept[0]}}}")
    compose = stack.compose
    return Build(
        command=[word.replace("${folder}", folder) for word in full(own, stack.words)] or None,
        compose=compose and compose.model_copy(update={"file": str(beside(own, compose.file).absolute())}),
        environment={name: text.replace("${folder}", folder) for name, text in stack.environment.items()},
        directory=str(beside(own, stack.directory)) if stack.directory else None,
    )


_MOST = 600.0  # seconds of a command of git
_OF_FILES = (".jar", ".yaml", ".yml")


@contextmanager
def built(base: str, head: str, build: str, run: str) -> Iterator[tuple[str, str, Path]]:
    """What of each revision is compared, and the work tree of ``head``. ``run`` names a jar or a stack file in a work
    tree, or is a command that runs in it. Raises UsageError, LeadlineError where a build fails.
    """
    commits = [
        _git("rev-parse", "--verify", "--quiet", f"{side}^{{commit}}", wrong=_unknown(side)) for side in (base, head)
    ]
    with Scratch() as scratch:
        trees = [scratch / name for name in ("base", "head")]
        try:
            sides = []
            for side, commit, tree in zip((base, head), commits, trees, strict=True):
                _git("worktree", "add", "--detach", "--quiet", "--force", str(tree), commit)
                _build(build, tree, side)
                sides.append(_compared(run, tree, side))
            yield sides[0], sides[1], trees[1]
        finally:
            for tree in trees:
                with contextlib.suppress(LeadlineError):  # it was not added
                    _git("worktree", "remove", "--force", "--force", str(tree))


def _unknown(side: str) -> str:
    return f"{quoted(side)} is no revision of the git repository of the current directory"


def _build(build: str, tree: Path, side: str) -> None:
    """Its output goes to standard error."""
    script = f"cd {shlex.quote(str(tree))}\n{build}"
    code, signals = here.foreground(["/bin/sh", "-ec", script], apart=True, output=sys.stderr)
    if signal.SIGINT in signals:
        raise KeyboardInterrupt
    if code:
        raise LeadlineError(f"--build {quoted(build)} of {side} ended with exit code {code}")


def _compared(run: str, tree: Path, side: str) -> str:
    if Path(run).suffix not in _OF_FILES or len(run.split()) > 1:
        return f"cd {shlex.quote(str(tree))} && {run}"
    if not (tree / run).is_file():
        raise UsageError(f"--run {run}: the build of {side} left no such file")
    return str(tree / run)


def _git(*words: str, wrong: str = "") -> str:
    """What git says. Raises UsageError with ``wrong``, else LeadlineError with git's words."""
    try:
        done = here.run(["git", *words], timeout=_MOST)
    except OSError as error:
        raise LeadlineError(f"git: {error.strerror or error}") from None
    if done.returncode:
        raise UsageError(wrong) if wrong else LeadlineError(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
