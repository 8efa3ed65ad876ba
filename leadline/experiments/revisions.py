"""Two revisions of a git repository, checked out beside each other and built; the work trees are removed afterwards."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leadline.host import here
from leadline.host.scratch import Scratch
from leadline.model.errors import LeadlineError, UsageError, quoted

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
