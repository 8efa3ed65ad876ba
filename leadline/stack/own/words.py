"""Words of a stack file: which of them are files, and what they are once the placeholders are filled in."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.host.textfile import expanded, hide, read_text
from leadline.model.errors import UsageError
from leadline.model.ownstack import SECRETIVE, OwnFile
from leadline.stack.probe import PROMPT, Client

_LONGEST = 1 << 16  # bytes of a secret's file
_UNQUOTED = re.compile(r"[\w@%+=:,./*-]+", re.ASCII)
_ARCHIVES = (".jar", ".war", ".ear")


def beside(own: OwnFile, name: str) -> Path:
    """A file that a stack file names: relative to its own folder."""
    return Path(own.file).parent / expanded(name)


def tls_files(own: OwnFile | None) -> tuple[Path | None, list[Path]]:
    """What is trusted at its port, None without TLS, and what is shown there: a certificate and its key."""
    if own is None or own.content.tls is None:
        return None, []
    tls = own.content.tls
    return beside(own, tls.ca), [beside(own, name) for name in tls.client]


def client_of(own: OwnFile | None, port: int, timeout: float = PROMPT) -> Client:
    """A client of its port. Raises OSError, ValueError."""
    trusted, client = tls_files(own)
    return Client(port, trusted.read_text() if trusted else None, timeout, client)


def line_of(own: OwnFile, key: str, inside: str = "") -> str:
    """Where a stack file says a key of its first level, or the first line from there on with the word ``inside``, as
    its errors are told: ``shop.stack.yaml:3``.
    """
    try:
        lines = Path(own.file).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        lines = []
    at = next((number for number, line in enumerate(lines, 1) if line.startswith(f"{key}:")), None)
    if at is not None and inside:
        word = re.compile(rf"(?<![\w.-]){re.escape(inside)}(?![\w.-])")
        at = next((number for number, line in enumerate(lines[at - 1 :], at) if word.search(line)), at)
    return Path(own.file).name if at is None else f"{Path(own.file).name}:{at}"


class Words(dict[str, str]):
    """What stands for the placeholders of a stack file; references are looked up, and hidden from then on. Raises
    UsageError with the file and its line.
    """

    def __init__(self, own: OwnFile, words: Mapping[str, str]) -> None:
        super().__init__(words)
        self._own = own

    def __missing__(self, name: str) -> str:
        return referred(self._own, name)


def referred(own: OwnFile, reference: str) -> str:
    """The value of ``env:NAME``, ``file:PATH``, or ``secret:NAME``: of a variable of the stack file itself, after the
    service that has it (``secret:broker.NAME``). Raises UsageError.
    """
    kind, _, name = reference.partition(":")
    where = line_of(own, "environment", reference if kind != "secret" else name)
    if kind == "env":
        value = os.environ.get(name)
        if value is None:
            raise UsageError(f"{where}: the variable {name} is not set: ${{env:{name}}} stands for its value")
    elif kind == "file":
        try:
            value = read_text(beside(own, name), _LONGEST).rstrip("\n")
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
    else:
        from leadline.model.yamltext import load_yaml  # no library of an agent's

        tree = load_yaml(read_text(Path(own.file)), own.file)
        named = {f"{prefix}{key}": text for prefix, variables in _variables(tree) for key, text in variables.items()}
        if name not in named:
            raise UsageError(f"{where}: the stack file has no variable {name} any more")
        value = str(named[name])
    hide(value)
    return value


def keep_secrets(tree: dict[str, Any]) -> None:
    """Variables of a stack file whose names say that they are secrets become references to the file."""
    for prefix, variables in _variables(tree):
        for name, value in variables.items():
            if SECRETIVE.search(str(name)) and isinstance(value, str | int) and "${" not in str(value):
                hide(str(value))
                variables[name] = f"${{secret:{prefix}{name}}}"


def _variables(tree: Any) -> Iterator[tuple[str, dict[Any, Any]]]:
    """The environments in a stack file, that of a service after its name and a point."""
    services = tree.get("services") if isinstance(tree, dict) else None
    parts = {f"{name}.": part for name, part in services.items()} if isinstance(services, dict) else {}
    for prefix, part in {"": tree, **parts}.items():
        variables = part.get("environment") if isinstance(part, dict) else None
        if isinstance(variables, dict):
            yield prefix, variables


def command_files(command: Sequence[str]) -> list[int]:
    """Places of the words that must be files: archives, and what follows ``-jar``."""
    return [
        at
        for at, word in enumerate(command)
        if "${" not in word
        and not word.startswith("-")
        and (word.endswith(_ARCHIVES) or (at > 0 and command[at - 1] == "-jar"))
        and ":" not in word
    ]


def full(own: OwnFile, words: Sequence[str], directory: Path | None = None) -> list[str]:
    """The words of a command with the full path of those that are files beside the stack file, unless the directory in
    which it runs has a file of that name.
    """
    words_ = []
    for word in words:
        path = beside(own, word)
        there = directory is not None and (directory / word).exists()
        plain = "${" not in word and not there and not word.startswith("-") and path.is_file()
        words_.append(str(path) if plain else word)
    return words_


def joined(options: Sequence[str]) -> str:
    """Options as one text. Start scripts split it at blanks and keep its quotes (``$JAVA_OPTS``), so there are none
    around what a shell takes as it is: the asterisk of ``-Xlog:gc*`` fits no file.
    """
    return " ".join(option if _UNQUOTED.fullmatch(option) else shlex.quote(option) for option in options)


def artifact(own: OwnFile) -> Path:
    """The file that is measured: the archive of the command, else its program, else the stack file."""
    stack = own.content
    if stack.war is not None:
        return beside(own, stack.war)
    if stack.artifact is not None:
        return beside(own, stack.artifact)
    if stack.compose is not None:
        return beside(own, stack.compose.file)
    if stack.attach is not None:
        return Path(own.file)
    for at in command_files(stack.words):
        for path in (beside(own, stack.words[at]), beside(own, stack.directory or ".") / stack.words[at]):
            if path.is_file():
                return path
    program = beside(own, stack.words[0])
    return program if program.is_file() else Path(own.file)
