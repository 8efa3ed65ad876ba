"""The text of a first stack file for an archive, from what it brings and what its own properties say. What is guessed
of a property is a line of comment with where it was read.

Also for what is not started by ``java -jar``: a start script, a service of a compose file, a server's own
configuration.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from leadline.host.textfile import read_text
from leadline.model.errors import UsageError, quoted, shortened
from leadline.model.ownstack import OwnFile, OwnStack
from leadline.model.yamltext import load_yaml
from leadline.stack.own import quarkus, spring
from leadline.stack.own.artifact import Artifact
from leadline.stack.own.parameters import Catalogue, Properties, read_properties
from leadline.stack.own.wars import WARS

_EMBEDDED = ("h2", "hsqldb", "derby")  # databases that Spring Boot makes in memory where no URL is named
_MOST_MISSPELT = 20
_PATH = re.compile(r"(/[\w.-]+)+", re.ASCII)
_SPRING_TLS = ("server.ssl.bundle", "server.ssl.key-store", "server.ssl.certificate")
_QUARKUS_TLS = (
    "quarkus.http.tls-configuration-name",
    "quarkus.http.ssl.certificate.files",
    "quarkus.http.ssl.certificate.file",
    "quarkus.http.ssl.certificate.key-store-file",
)


def first_file(found: Artifact, name: str, word: str, server: str = "", profile: str | None = None) -> str:
    """``word``: the artifact as the stack file's folder sees it; ``server``: of a WAR or EAR; ``profile``: in place of
    those that its properties say are active.
    """
    if found.framework == "war":
        return "\n".join([*_war(found, name, word, server), ""])
    lines = [f"# {_told(found)}", f"stack: {name}"]
    if found.framework == "java":
        lines += [
            f"command: [java, -jar, {word}]  # add how it takes its port: `--port=${{port}}`; then leave `port` out",
            "port: 8080",
            "ready: { path: / }  # a path that answers 200 once it is up",
        ]
    else:
        lines += (_spring_boot if found.framework == "spring-boot" else _quarkus)(
            found, word, read_properties(found, profile), profile
        )
    return "\n".join([*lines, ""])


def _spring_boot(found: Artifact, word: str, properties: Properties, profile: str | None) -> list[str]:
    options = ["--server.port=${port}", "--server.address=${address}"]
    comments = [*_notes(found, properties, spring.catalogue, "--spring.profiles.active")]
    comments += _replaced(properties, "server.port", _FREE)
    options += [f"--spring.profiles.active={profile}"] if profile else []
    if properties.beside:
        places = ",".join(f"optional:file:{_beside(found, word, folder)}/" for folder in properties.beside)
        comments.append("# Files beside the jar count where it starts in their folder; here this option reads them.")
        options.append(f"--spring.config.additional-location={places}")
    tls = properties.first(*_SPRING_TLS)
    if tls and properties.text("server.ssl.enabled") != "false":
        comments.append(_read(properties, tls, "TLS is off here: the load is plain HTTP"))
        options.append("--server.ssl.enabled=false")
    port = properties.text("management.server.port")
    managed = port not in ("", "-1", properties.text("server.port"))
    if managed:
        comments += _replaced(properties, "management.server.port", "${port.management}, a free one, in its place")
        options.append("--management.server.port=${port.management}")
    lines = [
        *comments,
        "command:",
        *(f'  - "{option}"' if "$" in option else f"  - {option}" for option in ("java", "-jar", word, *options)),
    ]
    prefix = _root(properties, "server.servlet.context-path", "spring.webflux.base-path", lines)
    lines += [
        "# Its properties are knobs, such as app.spring.jpa.open-in-view: leadline knobs app.spring --stack FILE",
        "catalogue: spring-boot",
    ]
    health = properties.text("management.endpoint.health.enabled") != "false" and port != "-1"
    if found.has("spring-boot-actuator") and health:
        base = properties.text("management.endpoints.web.base-path") or "/actuator"
        below = properties.text("management.server.base-path") if managed else prefix
        path = _joined(below, base, properties.text("management.endpoints.web.path-mapping.health") or "health")
        lines += [f"ready: {{ path: {path}, {_PORT if managed else ''}says: {{ status: UP }} }}"]
    else:
        lines += [f"{_LISTENS}  # Spring Boot listens once it is up; a path that answers 200 says more"]
    return lines + _spring_data(found, properties)


_FREE = "${port}, a free one, in its place"
_PORT = 'port: "${port.management}", '
_LISTENS = 'ready: { tcp: "${port}" }'


def _spring_data(found: Artifact, properties: Properties) -> list[str]:
    name = properties.first("spring.datasource.url", "spring.datasource.hikari.jdbc-url", "spring.r2dbc.url")
    url = properties.text(name)
    if name:
        return _database(properties, name, url, "SPRING_DATASOURCE_URL", "SPRING_DATASOURCE_")
    if not (found.has("spring-jdbc") or found.has("spring-r2dbc")):
        return []
    if embedded := next((library for library in _EMBEDDED if found.has(library)), ""):
        others = [
            library for library in ("postgresql", "mysql-connector-j", "mariadb-java-client") if found.has(library)
        ]
        more = f"; there are drivers of {', '.join(others)}, too" if others else ""
        return [f"database: none  # no URL is named and {embedded} is in the jar: in memory, made at every start{more}"]
    if found.has("postgresql"):
        return _private("postgres", "${database.jdbc}", "SPRING_DATASOURCE_URL", "SPRING_DATASOURCE_")
    return ["database: keep  # none: in memory or in its directory; or a reset command"]


def _quarkus(found: Artifact, word: str, properties: Properties, profile: str | None) -> list[str]:
    options = ["-Dquarkus.http.port=${port}", "-Dquarkus.http.host=${address}"]
    comments = [*_notes(found, properties, quarkus.catalogue, "-Dquarkus.profile")]
    comments += _replaced(properties, "quarkus.http.port", _FREE)
    options += [f"-Dquarkus.profile={profile}"] if profile else []
    if properties.beside:
        names = [path for folder in properties.beside for path in sorted(folder.glob("application.*"))]
        places = ",".join(f"{_beside(found, word, path.parent)}/{path.name}" for path in names)
        comments.append("# Files in config/ count where it starts beside them; here this option reads them.")
        options.append(f"-Dquarkus.config.locations={places}")
    if tls := properties.first(*_QUARKUS_TLS):
        comments.append(_read(properties, tls, "the load is plain HTTP, beside its port for TLS"))
        options += ["-Dquarkus.http.insecure-requests=enabled", "-Dquarkus.http.ssl-port=${port.tls}"]
    managed = properties.text("quarkus.management.enabled") == "true"
    if managed:
        comments.append(_read(properties, "quarkus.management.enabled", "on ${port.management}, a free one"))
        options.append("-Dquarkus.management.port=${port.management}")
    words = ", ".join(f'"{option}"' for option in options)
    lines = [*comments, f"command: [java, {words}, -jar, {word}]"]
    prefix = _root(properties, "quarkus.http.root-path", "", lines)
    lines += [
        "# Its properties are knobs, app.quarkus.thread-pool.max-threads, say: leadline knobs app.quarkus --stack FILE",
        "catalogue: quarkus",
    ]
    ready = f"{_LISTENS}  # Quarkus listens once it is up; a path that answers 200 says more"
    if found.has("quarkus-smallrye-health"):
        root = properties.text("quarkus.management.root-path" if managed else "quarkus.http.non-application-root-path")
        health = properties.text("quarkus.smallrye-health.root-path") or "health"
        below = "" if managed or root.startswith("/") else prefix  # a path with / begins at the server
        path = _joined(below, *(["/"] if health.startswith("/") else [root or "q"]), health, "ready")
        ready = f"ready: {{ path: {path}, {_PORT if managed else ''}says: {{ status: UP }} }}"
    lines.append(ready)
    kind, url = properties.text("quarkus.datasource.db-kind"), properties.text("quarkus.datasource.jdbc.url")
    if url:
        name = "quarkus.datasource.jdbc.url"
        return lines + _database(properties, name, url, "QUARKUS_DATASOURCE_JDBC_URL", "QUARKUS_DATASOURCE_")
    if found.has("quarkus-jdbc-postgresql") and kind in ("", "postgresql", "pgsql", "pg"):
        lines += _private("postgres", "${database.jdbc}", "QUARKUS_DATASOURCE_JDBC_URL", "QUARKUS_DATASOURCE_")
    elif found.has("quarkus-jdbc-mariadb") or found.has("quarkus-jdbc-mysql"):
        driver = "mysql" if found.has("quarkus-jdbc-mysql") else "mariadb"
        lines += _private("mariadb", _mariadb(driver), "QUARKUS_DATASOURCE_JDBC_URL", "QUARKUS_DATASOURCE_")
    return lines


# what both have in common ------------------------------------------------------------------------------------------


def _notes(
    found: Artifact, properties: Properties, catalogue: Callable[[Path], Catalogue], option: str
) -> Iterator[str]:
    """Comments: profiles, files that were not read, names without an effect."""
    others = sorted(properties.offered - set(properties.profiles))
    if properties.offered:
        active = f"in force: {', '.join(properties.profiles)}; " if properties.profiles else ""
        there = f"there are also {', '.join(map(_plain, others))}: {option}=NAME in the command" if others else ""
        yield f"# Profiles: {active}{there}".rstrip("; ")
    yield from (f"# {_plain(problem)}" for problem in properties.problems)
    if place := properties.first("spring.config.import", "quarkus.config.locations"):
        yield _read(properties, place, "that is not read here")
    try:
        known = catalogue(found.file)
    except UsageError:  # no metadata: nothing is known of its names
        return
    wrong: dict[str, str] = {}
    for name, entry in properties.written:
        plain = re.sub(r"\[.*", "", name)
        why = known.misspelt(plain)
        if why and not (found.framework == "quarkus" and plain in known.removed):  # fixed by this very file
            wrong.setdefault(f"# without an effect: {_plain(name)} ({entry.where}): {_plain(why)}", "")
    yield from list(wrong)[:_MOST_MISSPELT]


def _read(properties: Properties, name: str, what: str) -> str:
    """A comment: what a property says, where, and what follows."""
    entry = properties.in_force[name]
    return f"# {name} is {_plain(_shown(properties.text(name)))} ({_plain(entry.where)}): {what}"


def _replaced(properties: Properties, name: str, what: str) -> list[str]:
    return [_read(properties, name, what)] if properties.text(name) else []


def _shown(text: str) -> str:
    """A URL without what it says after ? or ;, and without a password; any other text."""
    return re.sub(r"//[^/@]*@", "//", re.split(r"[?;]", text)[0]) if ":" in text else text


def _plain(text: str) -> str:
    """Of one line, without what would end a comment."""
    return shortened("".join(letter if letter.isprintable() else " " for letter in text), 200)


def _root(properties: Properties, servlet: str, reactive: str, lines: list[str]) -> str:
    """Adds `path` where its own path is one name; returns what stands before other paths: a path of several names."""
    name = properties.first(servlet, reactive)
    text = "/" + properties.text(name).strip("/") if name else "/"
    if text == "/" or not _PATH.fullmatch(text):
        return ""
    if text.count("/") == 1:
        lines += [_read(properties, name, "it begins there"), f"path: {text}"]
        return ""
    lines.append(_read(properties, name, "begin the paths of a scenario with it"))
    return text


def _joined(*parts: str) -> str:
    path = "/" + "/".join(filter(None, (part.strip("/") for part in parts)))
    return path if path == "/" or _PATH.fullmatch(path) else "/"


def _beside(found: Artifact, word: str, folder: Path) -> str:
    """A folder beside the archive, as the stack file sees it."""
    if Path(word).is_absolute():
        return str(folder.resolve())
    below = os.path.relpath(folder, found.file.parent)
    return os.path.normpath(f"${{folder}}/{Path(word).parent}/{below}")


def _database(properties: Properties, name: str, url: str, variable: str, others: str) -> list[str]:
    """``variable``: takes the URL; ``others``: begins the names of those for the user and the password."""
    kind, _, rest = re.sub(r"^(jdbc:|r2dbc:(pool:)?|vertx-reactive:)+", "", url).partition(":")
    if kind in ("postgresql", "mariadb", "mysql") and url.startswith("jdbc:"):
        own = "${database.jdbc}" if kind == "postgresql" else _mariadb(kind)
        comment = _read(properties, name, "leadline's own in its place")
        return [comment, *_private("postgres" if kind == "postgresql" else "mariadb", own, variable, others)]
    if kind in (*_EMBEDDED, "sqlite"):
        if rest.startswith((":memory:", "mem", "//mem", "/mem")):
            return [_read(properties, name, "in memory, made anew at every start"), "database: none"]
        file = re.sub(r"^(file:|nio:|async:|//)*", "", rest)
        if not file.startswith(("/", "~", "tcp:", "ssl:", "hsql")):
            return [_read(properties, name, "in its directory, a fresh one at every start"), "database: none"]
    comment = _read(properties, name, "its data are never put back; a `reset` command would")
    return [comment, "database: keep"]


def _mariadb(driver: str) -> str:
    return (
        "${database.jdbc}" if driver == "mariadb" else "jdbc:mysql://${database.host}:${database.port}/${database.name}"
    )


def _private(kind: str, url: str, variable: str, others: str) -> list[str]:
    return [
        f"# Leadline's own {kind}, put back before each trial; without these lines its data are its own affair.",
        f"database: {{ kind: {kind}, first_start: true }}  # sql: [schema.sql] where it makes no tables itself",
        "environment:",
        f'  {variable}: "{url}"',
        f'  {others}USERNAME: "${{database.user}}"',
        f'  {others}PASSWORD: "${{database.password}}"',
    ]


def _war(found: Artifact, name: str, word: str, server: str) -> list[str]:
    kind = found.file.suffix[1:].upper()
    lines = [
        f"# a {kind} on {server}; keys: docs/reference/stack-file.md",
        f"stack: {name}",
        f"war: {word}",
        f"server: {server}",
        f"context_root: /{found.file.stem}",
        "# server_config: DIRECTORY  # your own configuration of the server; without it leadline's is used",
        "ready: { path: /, status: 200 }  # a path that answers 200 once it is up",
    ]
    if found.data_source:
        lines += [
            "# Leadline's own PostgreSQL, put back before each trial, behind the data source of the archive.",
            "database: { kind: postgres, first_start: true }  # sql: [schema.sql] where it makes no tables itself",
            f"data_source: {found.data_source}",
        ]
    else:
        lines += ["database: none  # or postgres, mariadb, and the `data_source` by its JNDI name"]
    return lines


def _told(found: Artifact) -> str:
    framework = {"spring-boot": "Spring Boot ", "quarkus": "Quarkus "}.get(found.framework, "")
    of = f"{framework}{found.version}, " if framework else ""
    return f"{of}main class {found.main_class}; keys: docs/reference/stack-file.md"


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
