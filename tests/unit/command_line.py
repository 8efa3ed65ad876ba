"""The command line as tests call it, in this process."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.model.errors import UsageError


class Command:
    """A command, or the whole command line; ``code`` is the exit code that is wanted."""

    def __init__(self, *first: str) -> None:
        self._first = first

    def __call__(self, *words: object, code: int = 0) -> str:
        """What it prints on standard output."""
        done = CliRunner().invoke(app, [*self._first, *map(str, words)])
        assert done.exit_code == code, f"{done.output}{done.exception!r}"
        return done.stdout

    def document(self, *words: object, code: int = 0) -> dict[str, Any]:
        return dict(json.loads(self(*words, "--json", code=code)))

    def refused(self, *words: object) -> str:
        """What it says of bad input."""
        done = CliRunner().invoke(app, [*self._first, *map(str, words)])
        assert isinstance(done.exception, UsageError), done.output
        return str(done.exception)


def write_files(page: str, names: Iterable[str], folder: Path) -> None:
    """The YAML examples of a guide, in its order."""
    texts = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for name, text in zip(names, texts, strict=True):
        (folder / name).write_text(text)
