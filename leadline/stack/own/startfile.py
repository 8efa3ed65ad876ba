"""First stack files for what is not started by ``java -jar``: a start script, a service of a compose file, a server's
own configuration.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from leadline.host.textfile import read_text
from leadline.model.errors import UsageError, quoted
from leadline.model.ownstack import OwnFile, OwnStack
from leadline.model.yamltext import load_yaml
from leadline.stack.own import quarkus
from leadline.stack.own.wars import WARS

_KEYS = "keys: docs/reference/stack-file.md"
_READY = "ready: { path: / }  # a path that answers 200 once it is up"
_LONGEST = 1 << 20  # bytes of a script or a compose file
_APPS = ("apps", "dropins", "webapps", "standalone/deployments", "deployments", "autodeploy")  # of servers
# Variables by which scripts take options of their JVM; the first that a script reads is taken.
_OPTIONS = ("JAVA_OPTS_APPEND", "JAVA_ARGS_APPEND", "JAVA_OPTS", "JVM_OPTS", "CATALINA_OPTS", "JAVA_ARGS")
_LAUNCHER = "JDK_JAVA_OPTIONS"  # read by the `java` of every JDK from 9 on
_VARIABLE = re.compile(r"\$\{env\.(\w+)\}")  # of Open Liberty and WildFly, without a value of its own
_PUBLISHED = re.compile(r"(?:\d+\.[\d.]+:)?(?P<port>\d+|\$\{\w+(?::?-[^}]*)?\}|\$\w+)(?::\d+)?(?:/tcp)?")


# Such text needs no quotes in YAML.
_PLAIN = re.compile(r"(?!(?:null|true|false|yes|no|on|off|y|n)$)[a-z./][\w./+@-]*", re.IGNORECASE)
_SERVICE = re.compile(r"[\w.-]+", re.ASCII)


def _text(word: str | Path) -> str:
    """A text in YAML."""
    return str(word) if _PLAIN.fullmatch(str(word)) else json.dumps(str(word))


def is_script(file: Path) -> bool:
    """Whether a file begins as programs do that another one reads (``#!``); a jar that starts itself is a jar."""
    with suppress(OSError), file.open("rb") as stream:
        return stream.read(2) == b"#!" and not zipfile.is_zipfile(stream)
    return False


def of_script(file: Path, name: str, word: str) -> str:
    """The text of a stack file for a start script; ``word``: the script as the stack file's folder sees it."""
    text = read_text(file, _LONGEST)
    lines = [f"# a start script; {_KEYS}", f"stack: {name}"]
    lines += [
        f"command: [{_text(word)}]  # add how it takes its port: `--port=${{port}}`; then leave `port` out",
        "port: 8080",
        f"# directory: {_text(Path(word).parent.parent)}  # if it writes beside itself: it then runs in a copy",
    ]
    if re.search(r"\bjava\b", text):
        option = next((name for name in _OPTIONS if re.search(rf"\$\{{?{name}\b", text)), _LAUNCHER)
        lines.append(f'environment: {{ {option}: "${{jvm}}" }}  # options of its JVM')
    jars = [jar for folder in (file.parent, file.parent.parent / "lib") for jar in folder.glob("quarkus-run.jar")]
    with suppress(UsageError):  # a release without a list of its properties
        if jars and quarkus.catalogue(jars[0]).knobs:
            near = os.path.normpath(Path(word).parent / os.path.relpath(jars[0], file.parent))
            lines += [f"artifact: {_text(near)}", "catalogue: quarkus"]
    return "\n".join([*lines, _READY, ""])


def of_compose(file: Path, name: str, word: str) -> str:
    """The text of a stack file for the service of a compose file that no other one needs, a published one if there are
    several. Raises UsageError.
    """
    tree = load_yaml(read_text(file, _LONGEST), str(file), typ="safe")
    services = tree.get("services") if isinstance(tree, Mapping) else None
    if not isinstance(services, Mapping) or not services:
        raise UsageError(f"{file} has no `services`, so it is no compose file")
    for service_name, service in services.items():
        if not _SERVICE.fullmatch(str(service_name)):
            raise UsageError(f"{file}: {quoted(str(service_name))} is no name of a service")
        needs = service.get("depends_on") if isinstance(service, Mapping) else "none"
        if not isinstance(needs or [], list | Mapping):
            raise UsageError(f"{file}: services.{service_name}: {quoted(str(service))} is no service of a compose file")
    needed = {str(other) for service in services.values() for other in service.get("depends_on") or ()}
    fronts = [name_ for name_ in map(str, services) if name_ not in needed] or list(map(str, services))
    published = [front for front in fronts if services[front].get("ports")]
    front = (published or fronts)[0]
    others = [name_ for name_ in map(str, services) if name_ != front]
    lines = [
        f"# a service of a compose file; {_KEYS}",
        *([f"# those that it depends on start with it; there is also {', '.join(others)}"] if others else []),
        f"stack: {name}",
        f"compose: {{ file: {_text(word)}, service: {_text(front)} }}",
        *_ports(services[front].get("ports")),
        _READY,
        "database: none  # its volumes are new in every trial; keep: they stay",
    ]
    return "\n".join([*lines, ""])


def _ports(entries: Any) -> list[str]:
    """Lines for the first published port: a number of its own, or a variable that takes a free one."""
    first = entries[0] if isinstance(entries, Sequence) and entries and not isinstance(entries, str) else None
    text = str(first.get("published", "")) if isinstance(first, Mapping) else str(first or "")
    match = _PUBLISHED.fullmatch(text)
    if match is None:
        return ['environment: { PORT: "${port}" }  # and `ports: ["127.0.0.1:${PORT}:8080"]` in the compose file']
    if match["port"].isdigit():
        return [f"port: {match['port']}"]
    variable = re.sub(r"\W.*", "", match["port"].lstrip("${"))
    return [f'environment: {{ {variable}: "${{port}}" }}  # a free one, published as the compose file says']


def of_server(directory: Path, server: str, name: str, word: str) -> str:
    """The text of a stack file for an archive on the user's configuration of a server. Raises UsageError for a
    directory that is none of that server's.
    """
    words: dict[str, Any] = {"stack": name, "server": server, "server_config": str(directory), "war": "x.war"}
    content = OwnStack.model_construct(**words)
    server_ = WARS[server](OwnFile.model_construct(file=str(directory), content=content))
    pools = sorted(server_.pools_in(directory))
    archives = [
        path
        for folder in _APPS
        for path in sorted((directory / folder).glob("*"))
        if path.suffix.lower() in (".war", ".ear")
    ]
    war = _text(f"{word}/{archives[0].relative_to(directory)}") if archives else "FILE.war  # the archive"
    root = server_.root_in(directory, archives[0]) if archives else ""
    more = [f"# there is also {path.relative_to(directory)}" for path in archives[1:]]
    lines = [f"# a configuration of {server}; {_KEYS}", f"stack: {name}", f"war: {war}", *more, f"server: {server}"]
    lines += [f"server_config: {_text(word)}", *([f"context_root: {_text(root)}"] if root else [])]
    if pools:
        others = f"  # or {', '.join(pools[1:])}" if len(pools) > 1 else ""
        lines.append(f"data_source: {_text(pools[0])}{others}")
    texts = [path.read_text(errors="replace") for path in directory.rglob("*.xml")]
    if names := sorted({name for text in texts for name in _VARIABLE.findall(text)} - os.environ.keys()):
        lines += [
            '# its files read these; with `database: postgres` there are "${database.jdbc}", ".user", ".driver" ...'
        ]
        lines += [f"environment: {{ {', '.join(f'{variable}: {_text(str())}' for variable in names)} }}"]
    return "\n".join([*lines, _READY, "database: keep  # none: it has no data; or a reset command", ""])
