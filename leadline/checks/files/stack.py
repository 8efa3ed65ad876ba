"""Stack files: YAML to a typed OwnStack, every error with file, line, what is wrong and the nearest valid choice."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

from ruamel.yaml.comments import CommentedMap

from leadline.host.textfile import expanded, is_file, read_text
from leadline.model.errors import UsageError, nearest, quoted
from leadline.model.ownstack import IN_SETTINGS, REFERENCE, OwnFile, OwnStack, placeholders, unknown_placeholder
from leadline.model.yamltext import Places
from leadline.stack.own import server as own_server
from leadline.stack.own.artifact import read_artifact, too_new
from leadline.stack.own.compose import no_service
from leadline.stack.own.server import CommandServer
from leadline.stack.own.wars import configured, war_server
from leadline.stack.own.words import artifact, beside, command_files, keep_secrets, line_of, referred
from leadline.stack.registry import SERVERS


def is_stack_file(reference: str) -> bool:
    """Whether a name is that of a file that starts with `stack:` and says what runs: a command, a WAR, containers."""
    if not is_file(expanded(reference)):
        return False
    lines = read_text(expanded(reference)).splitlines()
    return all(
        any(line.startswith(keys) for line in lines) for keys in ("stack:", ("command:", "war:", "attach:", "compose:"))
    )


def read_stack(path: Path) -> OwnFile:
    """Raises UsageError with file and line, also for files that it names and that are not there."""
    from leadline.checks.files.study import load_tree, validated

    source = str(path)
    tree = load_tree(read_text(path), source, OwnStack)
    keep_secrets(tree)
    places = Places(source, tree)
    own_file = OwnFile(file=str(path.absolute()), content=validated(OwnStack, places))
    missing = _missing(own_file) or _without_value(own_file)
    problems = [f"{places.where(key)}: {why}" for key, why in missing or _misspelt(own_file)]
    if problems:
        raise UsageError("\n".join(problems))
    return own_file


def put_stack_file(tree: CommentedMap, source: str) -> None:
    """Read the stack file that a study or a tuning names in place of its stack's keys, and take its scenario where the
    workload names none. Raises UsageError with file and line.
    """
    name = tree.get("stack")
    if not isinstance(name, str):
        return
    where = Places(source, tree).where(("stack",))
    candidates = [Path(source).parent / expanded(name), expanded(name)]
    path = next((path for path in candidates if is_file(path)), None)
    if path is None:
        folder = candidates[0].parent
        near = nearest(candidates[0].name, [path.name for path in folder.glob("*.yaml")] if folder.is_dir() else [])
        hint = f"; did you mean {near}?" if near else "; it is looked for beside this file and in the working directory"
        if name in SERVERS:
            hint = f"; did you mean the server, {{ server: {name} }}?"
        raise UsageError(f"{where}: stack: there is no stack file {quoted(name, 200)}{hint}")
    stack = read_stack(path)
    line = tree.lc.key("stack")
    tree["stack"] = CommentedMap(own=stack.model_dump(mode="json", exclude_unset=True))
    tree.lc.add_kv_line_col("stack", [*line, *line])
    if "tuning" in tree:
        tree.setdefault("modes", ["direct"])
    load = tree.setdefault("workload", CommentedMap())
    if stack.content.scenario is not None and isinstance(load, dict) and "scenario" not in load:
        load["scenario"] = str(beside(stack, stack.content.scenario))


def _missing(own: OwnFile) -> list[tuple[tuple[str | int, ...], str]]:
    stack = own.content
    missing: list[tuple[tuple[str | int, ...], str]] = []
    files: list[tuple[tuple[str | int, ...], str]] = [
        *((("database", "sql", at), name) for at, name in enumerate(stack.database.sql)),
        *([(("scenario",), stack.scenario)] if stack.scenario else []),
        *([(("war",), stack.war)] if stack.war else []),
        *([(("compose", "file"), stack.compose.file)] if stack.compose else []),
        *([(("artifact",), stack.artifact)] if stack.artifact else []),
        *((("tls", key), name) for key, name in stack.tls or () if name),
        *([(("settings_file", "template"), stack.settings_file.template)] if stack.settings_file else []),
        *((("command", at), stack.words[at]) for at in command_files(stack.words)),
    ]
    for name in stack.services:
        missing += [(("services", name, *key), why) for key, why in _missing(own.of_service(name))]
    for key, name in files:
        in_copy = stack.directory is not None and key[0] == "command" and (beside(own, stack.directory) / name).exists()
        if not in_copy and not beside(own, name).is_file():
            missing.append((key, f"there is no file {beside(own, name)}{_instead(beside(own, name))}"))
    directories: list[tuple[tuple[str | int, ...], str | None]] = [
        (("directory",), stack.directory),
        (("server_config",), stack.server_config),
        *((("data", place), name) for place, name in stack.data.items()),
    ]
    for key, directory in directories:
        if directory is not None and not beside(own, directory).is_dir():
            missing.append((key, f"there is no directory {beside(own, directory)}"))
    commands: list[tuple[tuple[str | int, ...], list[str] | None]] = [
        (("command",), None if stack.java_program or not stack.words else stack.words),
        (("restart",), stack.restart),
        (("compose", "command"), stack.compose.command if stack.compose else None),
        (("database", "reset"), stack.database.reset),
        *((("audits", at, "command"), audit.command) for at, audit in enumerate(stack.audits)),
    ]
    for key, command in commands:
        if command is not None and not _program(own, command[0]):
            missing.append((key, f"there is no program {quoted(command[0], 200)} on the path or beside this file"))
    if stack.compose is not None and not missing and (why := no_service(own)):
        missing.append((("compose", "service"), why))
    if stack.server_config is not None and not missing:
        try:
            configured(own)
        except UsageError as error:
            missing.append((("server_config",), str(error)))
    if stack.settings_file is not None and not missing:
        text = read_text(beside(own, stack.settings_file.template))
        unknown = [name for name in placeholders(text) if name not in IN_SETTINGS]
        missing += [(("settings_file", "template"), unknown_placeholder(name, IN_SETTINGS)) for name in unknown]
    return missing


def _without_value(own: OwnFile) -> list[tuple[tuple[str | int, ...], str]]:
    """References that stand for nothing here."""
    missing: list[tuple[tuple[str | int, ...], str]] = []
    stack = own.content
    texts = [*stack.texts()]
    for service in stack.services:
        texts += [(("services", service, *key), text) for key, text in stack.of_service(service).texts()]
    for key, text in texts:
        for name in filter(REFERENCE.fullmatch, placeholders(text)):
            try:
                referred(own, name)
            except UsageError as error:
                missing.append((key, str(error).partition(": ")[2]))
    return missing


def _instead(path: Path) -> str:
    """What to do about a file that is not there."""
    near = nearest(path.name, [path_.name for path_ in path.parent.glob("*")] if path.parent.is_dir() else [])
    if near:
        return f"; did you mean {near}?"
    return "; build it first" if path.suffix in (".jar", ".war", ".ear") else ""


def check_java(own: OwnFile) -> None:
    """Raises UsageError, with the line of the stack file, where this host's JVM cannot load the classes of what
    leadline starts on it.
    """
    stack = own.content
    if not stack.managed or not (stack.war or stack.java_program or "${java}" in stack.words):
        return
    server = war_server(own) if stack.war else CommandServer(own)
    try:
        why = too_new(artifact(own), server.find_java(expanded(stack.java) if stack.java else None))
    except UsageError as error:
        why = str(error)
    if why:
        raise UsageError(f"{line_of(own, 'java' if stack.java else 'war' if stack.war else 'command')}: {why}")


def _misspelt(own: OwnFile) -> list[tuple[tuple[str | int, ...], str]]:
    """Properties of the command and the environment that the framework would take, and without an effect."""
    try:
        catalogue = own_server.catalogue(own)
    except UsageError as error:
        return [(("catalogue",), f"{error}{_other_catalogue(own)}")]
    words: list[tuple[tuple[str | int, ...], str]] = [(("command", at), w) for at, w in enumerate(own.content.words)]
    words += [(("knobs", name, "argument"), knob.argument or "") for name, knob in own.content.knobs.items()]
    properties = [(key, match[1]) for key, word in words if (match := re.match(r"(?:--|-D)([\w.-]+)=", word))]
    wrong = [(key, misspelt) for key, name in properties if (misspelt := catalogue.misspelt(name))]
    variables = [(("environment", name), catalogue.misspelt_variable(name)) for name in own.content.environment]
    return [*wrong, *((key, why) for key, why in variables if why)]


def _other_catalogue(own: OwnFile) -> str:
    """The catalogue that its artifact has, where that is another one."""
    with suppress(UsageError):
        framework = read_artifact(artifact(own)).framework
        if framework in own_server.FRAMEWORKS and framework != own.content.catalogue:
            return f"; write `catalogue: {framework}`"
    return ""


def _program(own: OwnFile, word: str) -> bool:
    in_copy = own.content.directory is not None and (beside(own, own.content.directory) / word).is_file()
    return "${" in word or in_copy or beside(own, word).is_file() or shutil.which(word) is not None
