"""A stack file: how an application of one's own is started, probed, reset, audited, and which knobs it has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic_core import CoreSchema

from leadline.model import ownparts
from leadline.model.bounds import FilePath, Label, Strict, count
from leadline.model.errors import KeyedError, did_you_mean, nearest, quoted

COMMAND = "command"  # in place of a server's name
ServerName = Literal["glassfish", "liberty", "tomcat", "tomee", "wildfly"]
_OF_WAR = ("server", "context_root", "server_config", "data_source", "data", "properties")
_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
PORT = re.compile(r"port\.[a-z][a-z0-9_-]*")  # a placeholder for one more free port
REFERENCE = re.compile(r"(env|file|secret):(.+)")  # a placeholder for a value that no lab keeps
SECRETIVE = re.compile(r"pass(?:word|wd|phrase)?(?![a-z])|secret|token|credential|(?:api|private|access)_?key", re.I)
PLACEHOLDERS = ("port", "address", "folder", "directory", "java", "jvm", "args")
IN_SETTINGS = ("port", "folder", "jvm", "args", "environment")  # of a settings file's template
IN_WAR = ("port", "address", "folder", "directory")
IN_COMPOSE = ("port", "address", "folder", "jvm")
DRIVER = "database.driver"  # path of the JDBC driver's jar
OF_DATABASE = tuple(f"database.{word}" for word in ("jdbc", "host", "port", "name", "user", "password"))


def _root(text: str) -> str:
    if not re.fullmatch(r"/[\w.-]*", text, re.ASCII):
        raise ValueError(f"{quoted(text)} is not where an application begins: write / or /name")
    return text


def _database(found: object) -> object:
    return {"kind": found} if isinstance(found, str) else found


BUILD = f"{ownparts.PREFIX}build"  # the knob of ``builds``
COMPANIONS = ("supplier", "caller")  # processes of leadline's own applications that are part of the load
_ROLES = ("server", "database", "web", "driver", *COMPANIONS)
_TAKEN = (*_ROLES, "leadline", "others", "processes", "app", "host", "jvm", "port", "command", "audit", "load", "reset")


class Build(Strict):
    """How one of several builds is started: what it says stands in place of the stack file's own."""

    command: ownparts.Command | None = None
    compose: ownparts.Compose | None = None
    environment: dict[Label, Annotated[ownparts.Text, Field(max_length=4_000)]] | None = Field(
        default=None, max_length=200
    )
    directory: FilePath | None = None


class Helper(Strict):
    """A service beside the application: a program of any kind, started before it and ended after it."""

    command: ownparts.Command
    ready: ownparts.Ready = ownparts.Ready()
    stop: ownparts.Stop = ownparts.Stop()
    directory: FilePath | None = None
    environment: dict[Label, Annotated[ownparts.Text, Field(max_length=4_000)]] = Field(
        default_factory=dict, max_length=200
    )


class OwnStack(Strict):
    """An application of one's own as a stack file tells it (docs/tutorials/own-application.md)."""

    stack: ownparts.Name = Field(description="name of the application")
    command: ownparts.Command | None = Field(
        default=None, description="starts it in the foreground: `java -jar shop.jar --server.port=${port}`"
    )
    attach: ownparts.Attach | None = Field(
        default=None, description="in place of `command`: a process that runs, which leadline never stops"
    )
    compose: ownparts.Compose | None = Field(
        default=None, description="in place of `command`: a service of a compose file, in a project of its own"
    )
    mine: Literal[True] | None = Field(
        default=None, description="of `attach`: the process is yours to measure and to change"
    )
    war: FilePath | None = Field(
        default=None, description="in place of `command`: an archive (WAR or EAR) that `server` runs"
    )
    server: ServerName | None = Field(default=None, description="of `war`")
    context_root: Annotated[str, AfterValidator(_root), Field(max_length=200)] | None = Field(
        default=None, description="of `war`: where it begins below its address; / and the archive's name if absent"
    )
    server_config: FilePath | None = Field(
        default=None,
        description="of `war`: directory of your own configuration of the server, which is copied",
    )
    data_source: Label | None = Field(
        default=None,
        description="of `war`: the pool whose knobs are `server.datasource.`: its JNDI name; with `server_config` its "
        "name there, needed where there are several",
    )
    data: dict[Label, FilePath] = Field(
        default_factory=dict,
        max_length=20,
        description="of `war`: a directory of the server's own and the one beside this file that is copied there at "
        "every start: an embedded database, files",
    )
    properties: dict[Label, Annotated[ownparts.Text, Field(max_length=4_000)]] = Field(
        default_factory=dict, max_length=200, description="of `war`: system properties of the server's JVM"
    )
    artifact: FilePath | None = Field(
        default=None,
        description="of `attach`, of `compose`, of a `command` that is a script: the jar that runs, for its catalogue",
    )
    restart: ownparts.Command | None = Field(
        default=None, description="of `attach`: restarts the process; without it only live knobs can be varied"
    )
    settings_file: ownparts.SettingsFile | None = Field(
        default=None, description="of `attach`: what the process reads when it is restarted"
    )
    port: Annotated[int, count(65_535)] | None = Field(
        default=None, description="of an application that takes none; a free one, as ${port}, if absent"
    )
    path: Annotated[str, AfterValidator(_root), Field(max_length=200)] = Field(
        default="/", description="where it begins below its address; of a `war` that is `context_root`"
    )
    tls: ownparts.OwnTls | None = Field(default=None, description="of an application that speaks HTTPS by itself")
    ready: ownparts.Ready = ownparts.Ready()
    stop: ownparts.Stop = ownparts.Stop()
    directory: FilePath | None = Field(
        default=None, description="copied to a fresh one in which it runs, at every start; empty if absent"
    )
    environment: dict[Label, Annotated[ownparts.Text, Field(max_length=4_000)]] = Field(
        default_factory=dict, max_length=200
    )
    builds: dict[Label, Build] = Field(
        default_factory=dict,
        max_length=20,
        description="with `command` or `compose`: name: how this build is started; the knob `app.build`",
    )
    services: dict[ownparts.Name, Helper] = Field(
        default_factory=dict,
        max_length=20,
        description="beside a `command` or `war`: name: how it is started, in this order, before the application",
    )
    java: FilePath | None = Field(default=None, description="JAVA_HOME of its JVM; the one found if absent")
    database: Annotated[ownparts.OwnDatabase, BeforeValidator(_database)] = ownparts.OwnDatabase()
    catalogue: Literal["spring-boot", "quarkus"] | None = Field(
        default=None, description="every property in the artifact's own metadata is a knob, `app.` before its name"
    )
    knobs: dict[Label, ownparts.OwnKnob] = Field(
        default_factory=dict,
        max_length=200,
        description="names begin with `app.`, of the kernel's settings with `host.`",
    )
    audits: list[ownparts.Audit] = Field(default_factory=list, max_length=100)
    scenario: FilePath | None = Field(default=None, description="of studies that name none; beside this file")

    @property
    def own_knobs(self) -> dict[str, ownparts.OwnKnob]:
        """Of the application itself."""
        return {name: knob for name, knob in self.knobs.items() if not knob.of_host and knob.service is None}

    @property
    def host_knobs(self) -> dict[str, ownparts.OwnKnob]:
        """Settings of the kernel that it declares."""
        return {name: knob for name, knob in self.knobs.items() if knob.of_host}

    @property
    def java_program(self) -> bool:
        """Whether the first word of the command is the JVM itself."""
        return bool(self.command) and self.words[0].rpartition("/")[2] == "java"

    def of_build(self, name: object) -> OwnStack:
        """As one of ``builds`` is started; itself for any other name."""
        build = self.builds.get(str(name))
        if build is None:
            return self
        changed = {key: text for key in Build.model_fields if (text := getattr(build, key))}
        return self.model_copy(update=changed)

    def of_service(self, name: str) -> OwnStack:
        """One of ``services`` as a stack of its own, with the knobs that are its."""
        knobs = {of: knob for of, knob in self.knobs.items() if knob.service == name}
        knobs = {of: knob.model_copy(update={"service": None}) for of, knob in knobs.items()}
        keys = {key: getattr(self.services[name], key) for key in Helper.model_fields}
        return OwnStack.model_construct(stack=name, java=self.java, knobs=knobs, **keys)

    @property
    def words(self) -> list[str]:
        """Of the command, none where there is none."""
        return self.command or []

    @property
    def managed(self) -> bool:
        """Whether leadline starts its process itself, so that it may give it less of the host."""
        return self.attach is None and self.compose is None

    @property
    def fixed_port(self) -> int | None:
        """A port that is the application's own."""
        return self.port or (self.attach.port if self.attach else None)

    @property
    def jvm(self) -> bool:
        """Whether options of a JVM can be given: its command is known, or the file says where they go."""
        return (
            self.war is not None
            or self.java_program
            or self.attach is not None
            or self.compose is not None
            or any("${jvm}" in text for _, text in self.texts())
        )

    def texts(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Every text with placeholders, and its key."""
        yield from ((("command", at), word) for at, word in enumerate(self.words))
        yield from ((("restart", at), word) for at, word in enumerate(self.restart or ()))
        yield from ((("environment", name), text) for name, text in self.environment.items())
        yield from ((("properties", name), text) for name, text in self.properties.items())
        yield from ((("ready", *key), text) for key, text in self.ready.texts())

    @property
    def port_names(self) -> list[str]:
        """Of the ports that each start of it gets beside its own: `port.admin`."""
        names = (name for _, text in self.texts() for name in _PLACEHOLDER.findall(text))
        return list(dict.fromkeys(name for name in names if PORT.fullmatch(name)))

    @property
    def root(self) -> str:
        """Where the application begins below its address."""
        if self.war is None:
            return self.path
        stem = re.sub(r"[^\w.-]", "-", self.war.rpartition("/")[2].rpartition(".")[0], flags=re.ASCII)
        return self.context_root or f"/{stem}"

    @model_validator(mode="before")
    @classmethod
    def _data_of_its_own(cls, found: object) -> object:
        attached = isinstance(found, Mapping) and found.get("attach") is not None and "database" not in found
        return {**found, "database": "keep"} if attached and isinstance(found, Mapping) else found

    @model_validator(mode="after")
    def _one_start(self) -> OwnStack:
        ways = [way for way in ("command", "war", "attach", "compose") if getattr(self, way)]
        if len(ways) != 1:
            problem = " and ".join(ways) or "nothing that runs"
            raise KeyedError(
                (ways[1],) if ways else (), f"it says {problem}; write one of command, war, attach and compose"
            )
        if self.attach is None:
            for name in ("mine", *(("artifact",) if self.war else ()), "restart", "settings_file"):
                if getattr(self, name) is not None:
                    raise KeyedError((name,), f"{name} is for a process that runs already: write `attach`")
            self._check_war()
            self._check_compose()
            return self
        if self.mine is None:
            problem = "leadline did not start it: write `mine: true` beside it to say that it is yours to measure"
            raise KeyedError(("attach",), problem)
        if self.fixed_port is None:
            raise KeyedError(("attach",), f"say by `port: 8080` where {self.attach.title} listens")
        if self.directory is not None:
            raise KeyedError(("directory",), "a process that runs already has its directory: leave it out")
        if self.database.private:
            problem = f"`database: {self.database.kind}` is started with the application, and this one runs already"
            raise KeyedError(("database",), f"{problem}: write keep, none, or a reset command")
        self._check_catalogue()
        if self.restart is not None and self.attach.pid is not None:
            raise KeyedError(("restart",), "its pid is another one then: write attach by port, pid_file or unit")
        if self.settings_file is not None and self.restart is None:
            raise KeyedError(("settings_file",), "it is read at a start: write the `restart` command, too")
        if self.environment and self.settings_file is None:
            raise KeyedError(("environment",), "it is given at a start: by a settings_file with ${environment}")
        return self

    def _check_catalogue(self) -> None:
        if self.catalogue is not None and self.artifact is None:
            raise KeyedError(("catalogue",), "say by `artifact: shop.jar` which file's properties they are")

    def _check_compose(self) -> None:
        if self.compose is None:
            return
        if self.directory is not None:
            raise KeyedError(("directory",), "a container has a directory of its own: leave it out")
        self._check_catalogue()
        for name, knob in self.knobs.items():
            if knob.argument is not None:
                problem = "a container has its command from its image: set it by environment or system_property"
                raise KeyedError(("knobs", name, "argument"), problem)
            if knob.read_back is not None and knob.read_back.file is not None:
                raise KeyedError(("knobs", name, "read_back"), "a container's files are its own: read it by http, jmx")

    def _check_war(self) -> None:
        if self.war is None:
            for name in _OF_WAR:
                if getattr(self, name):
                    raise KeyedError((name,), f"{name} is for a server that runs an archive: write `war`")
            return
        if self.server is None:
            servers = ", ".join(get_args(ServerName))
            raise KeyedError(("war",), f"say by `server: liberty` which server runs it; there is {servers}")
        kind = self.war.rpartition(".")[2].lower()
        if kind not in ("war", "ear"):
            raise KeyedError(("war",), f"{quoted(self.war)} is no .war and no .ear; a jar is started by a `command`")
        if kind == "ear" and self.server in ("tomcat", "tomee"):
            raise KeyedError(("war",), f"{self.server} takes no EAR here; write glassfish, liberty or wildfly")
        if self.server == "glassfish" and self.context_root == "/":
            raise KeyedError(
                ("context_root",), "GlassFish takes it from the archive's name: write /name, or leave it out"
            )
        of_server = dict.fromkeys(("directory", "catalogue"), "`server_config` and `data`")
        for name, instead in {**of_server, "tls": "the level `server.tls: on`"}.items():
            if getattr(self, name) is not None:
                raise KeyedError((name,), f"{name} belongs to a command; a server has {instead}")
        if self.path != "/":
            raise KeyedError(("path",), "of a `war` the key is `context_root`")
        if self.data_source is not None and self.server_config is None and not self.database.private:
            problem = "there is no pool: write `database: postgres` or mariadb, or the `server_config` that has it"
            raise KeyedError(("data_source",), problem)
        for place in self.data:
            if place.startswith("/") or ".." in place.split("/"):
                problem = (
                    f"{quoted(place)} is not below the server's own directory: write it without / at its beginning"
                )
                raise KeyedError(("data", place), problem)
        for name, knob in self.own_knobs.items():
            if knob.argument is not None:
                problem = "a server takes no arguments: set it by environment or system_property"
                raise KeyedError(("knobs", name, "argument"), problem)

    @property
    def _known(self) -> list[str]:
        """Placeholders that it may use."""
        placeholders = IN_WAR if self.war is not None else IN_COMPOSE if self.compose is not None else PLACEHOLDERS
        of_war = (DRIVER,) if self.war is not None else ()
        return [*placeholders, *((*OF_DATABASE, *of_war) if self.database.private else ())]

    @model_validator(mode="after")
    def _consistent(self) -> OwnStack:
        placeholders = self._known
        self._check_services()
        for at, name in enumerate(self.services):
            part = self.of_service(name)
            part._check_program(placeholders, self.database.kind, list(self.services)[at:], ("services", name))
            placeholders = [*placeholders, *(f"{name}.{port}" for port in ("port", *part.port_names))]
        self._check_program(placeholders, self.database.kind)
        for name, knob in self.knobs.items():
            if wrong := knob.misnamed(name):
                raise KeyedError(("knobs", name), wrong)
        self._check_builds()
        if self.catalogue is not None and not self.jvm:
            raise KeyedError(("catalogue",), "levels are read in the JVM: write ${jvm} where its options go")
        names = [audit.name for audit in self.audits]
        for at, audit in enumerate(self.audits):
            if audit.name in names[:at]:
                raise KeyedError(("audits", at, "name"), f"two audits are called {audit.name}")
            if audit.sql is not None and not self.database.private:
                problem = "sql is asked of leadline's own database: write `database: postgres` or mariadb"
                raise KeyedError(("audits", at, "sql"), f"{problem}, or take http or command")
        return self

    def _check_builds(self) -> None:
        way, other = ("compose", "command") if self.compose else ("command", "compose")
        if self.builds and (not getattr(self, way) or BUILD in self.knobs):
            raise KeyedError(("builds",), f"builds are of a `command` or `compose`, and their knob is {BUILD}")
        for name, build in self.builds.items():
            if not (build.compose or build.environment if self.compose else build.command):
                raise KeyedError(
                    ("builds", name), f"say by `{way}`{' or `environment`' * bool(self.compose)} what runs"
                )
            if getattr(build, other) or (self.compose and build.directory):
                raise KeyedError(("builds", name), f"this stack file has a `{way}`: leave {other} and directory out")

    def _check_services(self) -> None:
        names = list(self.services)
        if names and not self.managed:
            problem = "they have theirs" if self.attach else "those that it depends on in its file are started with it"
            raise KeyedError(("services",), f"services are of a `command` or `war`; {problem}")
        for name in names:
            if name in (*_TAKEN, self.stack, self.database.kind):
                problem = f"{quoted(name)} is the name of another part: write another one, such as {name}-service"
                raise KeyedError(("services", name), problem)
        for knob_name, knob in self.knobs.items():
            if knob.service is not None and knob.service not in names:
                hint = did_you_mean(knob.service, names) or f"there is {', '.join(names) or 'none'}"
                problem = f"there is no service {quoted(knob.service)} in `services`; {hint}"
                raise KeyedError(("knobs", knob_name, "service"), problem)

    def _check_program(
        self,
        placeholders: Sequence[str],
        database: str,
        later: Sequence[str] = (),
        place: tuple[str, ...] = (),
    ) -> None:
        """What starts it, below the key ``place``, and its knobs. ``later``: services that are not up by then."""
        for path, text in self.texts():
            for name in _PLACEHOLDER.findall(text):
                of, _, port = name.partition(".")
                if of in later and port.partition(".")[0] == "port":
                    problem = f"write {of} above it" if of != place[-1] else f"write ${{{port}}} for its own"
                    raise KeyedError((*place, *path), f"{of} is not up by then, as services start in order: {problem}")
                named = PORT.fullmatch(name) and self.attach is None
                if name not in placeholders and not named and not REFERENCE.fullmatch(name):
                    raise KeyedError((*place, *path), unknown_placeholder(name, placeholders, database))
        other_sign = self.ready.command or self.ready.log or self.ready.tcp
        takes = other_sign or any("${port}" in text for _, text in self.texts())
        if self.war is None and self.fixed_port is None and not takes:
            problem = " --server.port=${port}, or `port: 8080` for an application with one of its own"
            raise KeyedError(
                (*place, "compose" if self.compose is not None else "command"),
                "nothing takes the port: write ${port} where the command or the environment says it, such as"
                f"{' --port=${port}, or a `ready` by tcp, log or command' if place else problem}",
            )
        if not self.jvm and (lost := [name for name, knob in self.own_knobs.items() if knob.system_property]):
            raise KeyedError(("knobs", lost[0]), "a system property needs a JVM: write ${jvm} where its options go")
        for name, knob in self.own_knobs.items():
            if knob.read_back and knob.read_back.way in ("jmx", "jcmd") and not self.jvm:
                problem = f"{knob.read_back.way} needs a JVM: write ${{jvm}} where its options go"
                raise KeyedError(("knobs", name, "read_back"), problem)


def placeholders(text: str) -> list[str]:
    """Names of the placeholders in a text."""
    return _PLACEHOLDER.findall(text)


def unknown_placeholder(name: str, known: Sequence[str], database: str = "none") -> str:
    """What is told of a placeholder that is not known."""
    if name in OF_DATABASE:
        return f"${{{name}}} is of leadline's own database, and `database` is {database}: write postgres or mariadb"
    near = nearest(name, list(known))
    hint = f"did you mean ${{{near}}}?" if near else f"there is {', '.join(f'${{{name_}}}' for name_ in known)}"
    return f"unknown placeholder ${{{name}}}; {hint}"


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with its placeholders filled in; ``values`` has them all."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)


def named_after(found: object) -> object:
    """A study's `stack` that a stack file was read into: application, server and database are called as in the file."""
    own_stack = found.get("own") if isinstance(found, Mapping) else None
    content = own_stack.get("content") if isinstance(own_stack, Mapping) else None
    if not isinstance(found, Mapping) or not isinstance(content, Mapping):
        return found
    database = content.get("database", "keep" if content.get("attach") else "none")
    kind = database.get("kind", "none") if isinstance(database, Mapping) else database
    java = {"java": content["java"]} if content.get("java") is not None else {}
    server = content.get("server") or COMMAND
    return {**java, **found, "app": content.get("stack"), "server": server, "database": kind}


@dataclass(frozen=True)
class OrStackFile:
    """An annotation for the schema of editors: in place of the keys the name of a stack file may stand."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "description": "a stack file"}, dict(handler(schema))]}


class OwnFile(Strict):
    """A stack file as a study holds it: ``file`` is where it was read from, its contents are those of that time."""

    file: str
    content: OwnStack

    def of_service(self, name: str) -> OwnFile:
        """One of its services as if it were alone in it."""
        return OwnFile.model_construct(file=self.file, content=self.content.of_service(name))

    @property
    def title(self) -> str:
        """Where it is told, and what becomes of its data."""
        places = {
            "none": "",
            "keep": ", its data are never put back",
            "command": ", its data put back by a command",
        }
        kind, services = self.content.database.kind, ", ".join(self.content.services)
        beside = f" beside {services}" if services else ""
        return f"{self.file.rpartition('/')[2]}{beside}{places.get(kind, f' with {kind}')}"
