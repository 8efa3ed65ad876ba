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
from leadline.stack.own.artifact import RUN_JAR
from leadline.stack.own.words import beside, line_of

_FOLDER = "own"


def send_own(choice: StackChoice, host: FarHost, work: str) -> StackChoice:
    """The choice as it is there, its stack file's folder being one of that host. Raises UsageError for files that do
    not lie below the stack file's folder.
    """
    own_stack = choice.own
    assert own_stack is not None
    if own_stack.content.compose is not None:
        raise UsageError(
            f"{line_of(own_stack, 'compose')}: containers are started on this host only, not on {host.name}"
        )
    folder = Path(own_stack.file).parent.resolve()
    place = f"{work}/{_FOLDER}"
    with Scratch() as scratch:
        copy = scratch / _FOLDER
        copy.mkdir()
        for path in _files(own_stack):
            whole = path.resolve()
            if not whole.is_relative_to(folder):
                raise UsageError(
                    f"{own_stack.file}: {path} lies outside the stack file's folder, which is what {host.name} "
                    "gets; move it"
                    " there"
                )
            target = copy / whole.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            if whole.is_dir():
                shutil.copytree(whole, target, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy2(whole, target)
        host.connection.send(copy, place)
    return choice.model_copy(
        update={"own": OwnFile(file=f"{place}/{Path(own_stack.file).name}", content=own_stack.content)}
    )


def _files(own: OwnFile) -> Iterator[Path]:
    """What the stack file names that lies here beside it; an absolute path is one of the far host."""
    stack = own.content
    yield Path(own.file)
    words = [*(stack.command or ()), *(stack.restart or ()), *stack.database.sql, *(stack.database.reset or ())]
    words += [word for audit in stack.audits for word in audit.command or ()]
    words += [*stack.data.values(), *([stack.settings_file.template] if stack.settings_file else [])]
    words += [name for name in (stack.directory, stack.war, stack.server_config, stack.artifact) if name]
    for word in dict.fromkeys(map(str, words)):
        if "${" not in word and not word.startswith(("-", "/")) and (path := beside(own, word)).exists():
            yield path.parent if path.name == RUN_JAR else path
