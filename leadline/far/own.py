"""An application of one's own on another host: the files beside its stack file go there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from leadline.far.host import FarHost
from leadline.host.scratch import Scratch
from leadline.model.errors import UsageError
from leadline.model.ownstack import OwnFile
from leadline.model.study import StackChoice
from leadline.stack.own.words import beside

_FOLDER = "own"


def send_own(choice: StackChoice, host: FarHost, work: str) -> StackChoice:
    """The choice as it is there, its stack file's folder being one of that host. Raises UsageError for files that do
    not lie below the stack file's folder.
    """
    own = choice.own
    assert own is not None
    folder = Path(own.file).parent.resolve()
    place = f"{work}/{_FOLDER}"
    with Scratch() as scratch:
        copy = scratch / _FOLDER
        copy.mkdir()
        for path in _files(own):
            whole = path.resolve()
            if not whole.is_relative_to(folder):
                raise UsageError(
                    f"{own.file}: {path} lies outside the stack file's folder, which is what {host.name} gets; move it"
                    " there"
                )
            target = copy / whole.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            if whole.is_dir():
                shutil.copytree(whole, target, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy2(whole, target)
        host.connection.send(copy, place)
    return choice.model_copy(update={"own": OwnFile(file=f"{place}/{Path(own.file).name}", content=own.content)})


def _files(own: OwnFile) -> Iterator[Path]:
    """What the stack file names that lies here beside it; an absolute path is one of the far host."""
    stack = own.content
    yield Path(own.file)
    words = [*(stack.command or ()), *(word for audit in stack.audits for word in audit.command or ())]
    words += [*stack.database.sql, *(stack.database.reset or ()), *([stack.directory] if stack.directory else [])]
    for word in dict.fromkeys(map(str, words)):
        if "${" not in word and not word.startswith(("-", "/")) and beside(own, word).exists():
            yield beside(own, word)
