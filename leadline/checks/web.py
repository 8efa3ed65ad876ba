"""What a study says about web servers, checked before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from leadline.checks.files.study import StudyFile
from leadline.host.base import PlannedHost
from leadline.host.process import cpu_set
from leadline.load.scenario import find_scenario, read_scenario
from leadline.model.errors import UsageError
from leadline.model.knob import KnobOwner, Level
from leadline.model.ownstack import ServerName
from leadline.model.plan import Factor
from leadline.model.study import StackChoice, Study
from leadline.stack.pages import is_java, java_server
from leadline.stack.registry import application_of, check_http, server_of, servers_with
from leadline.stack.servers import knobs as server_knobs
from leadline.stack.web import common

SOMAXCONN = "net.core.somaxconn"


def web_servers(study: Study) -> list[str]:
    """Names of the web servers that some trial of the study starts, in the order of the file."""
    name = common.SERVER.name
    levels = study.factors.get(name, [study.settings.get(name, study.stack.web or common.NONE)])
    return [str(level) for level in levels if level != common.NONE]


def check_web(
    file: StudyFile,
    host: PlannedHost,
    factors: Sequence[Factor],
    settings: Mapping[str, Level],
    idle_settings: bool = False,
    of: Callable[[str], PlannedHost] | None = None,
) -> None:
    """Raises UsageError with file and line for levels that cannot be in force together, and for what changes nothing;
    ``idle_settings`` lets the latter pass among the settings and the placement. ``of``: see ``plan_study``.
    """
    study = file.study
    levels: dict[str, set[Level]] = {factor.name: set(factor.levels) for factor in factors}
    levels |= {name: {level} for name, level in settings.items()}

    def where(name: str) -> str:
        return file.where(("factors" if name in study.factors else "settings", name))

    servers = levels.get(common.SERVER.name, {common.NONE})
    if study.stack.web is not None:
        _check_alone(file, host, levels.get(common.SERVER.name, {study.stack.web}), levels, where)
        return
    places = levels.get(common.PLACE.name, {""})
    present = servers != {common.NONE} and places != {common.ABSENT}
    if present:
        _check_front(file, host, levels, where, of("web") if of is not None else None)
    else:
        _check_absent(file, servers, levels, where, idle_settings)
    for name in (common.TLS.name, server_knobs.TLS.name):
        if study.workload.generator is not None and True in levels.get(name, ()):
            raise UsageError(
                f"{where(name)}: {study.workload.generator.name} is not told to trust the certificate of the run;"
                f" leave workload.generator or {name} out"
            )
    if not present or common.NONE in servers or common.ABSENT in places:
        try:
            check_http(study.stack, study.workload.http)
        except UsageError as error:
            raise UsageError(f"{file.where(('workload', 'http'))}: {error}") from None


Levels = Mapping[str, set[Level]]
Where = Callable[[str], str]


def _check_absent(file: StudyFile, servers: set[Level], levels: Levels, where: Where, idle_settings: bool) -> None:
    """What changes nothing while no trial has a web server in front."""
    study = file.study
    named = servers != {common.NONE}  # but absent everywhere
    remedy = "web.place is absent in every trial; leave it out" if named else "set web.server: nginx"
    says_so = (common.SERVER.name, *([common.PLACE.name] if named else []))
    for name in levels:
        if name in common.KNOB_NAMES and name not in says_so and not (idle_settings and name in study.settings):
            raise UsageError(f"{where(name)}: {name} changes nothing without a web server; {remedy}")
    if named and common.SERVER.name in study.factors:
        raise UsageError(f"{where(common.SERVER.name)}: {common.SERVER.name} makes no difference: {remedy}")
    if study.stack.hosts is not None and (apart := study.stack.hosts.web) is not None:
        line = file.where(("stack", "hosts", "web"))
        raise UsageError(f"{line}: hosts.web is {apart}, but no web server is in front; {remedy}, or leave web out")
    for key, what in (("web_cpus", "these CPUs are"), ("web_memory", "this memory is")):
        if getattr(study.placement, key) is not None and not idle_settings:
            raise UsageError(f"{file.where(('placement', key))}: {what} for a web server; {remedy}")


def _check_front(
    file: StudyFile, host: PlannedHost, levels: Levels, where: Where, web_host: PlannedHost | None
) -> None:
    """A web server in front of the application server. ``web_host``: where it has a host of its own, that is known."""
    study = file.study
    places = levels.get(common.PLACE.name, {""})
    upstreams = levels.get(common.UPSTREAM.name, {"tcp"})
    elsewhere = "web" in study.stack.ssh_hosts
    if elsewhere:
        _check_apart(file, places, upstreams, where)
    else:
        _check_place(file, host, places, where(common.PLACE.name))
    _check_own(levels.get(common.SERVER.name, {common.NONE}), levels, where)
    _check_backlog(web_host if elsewhere else host, elsewhere, levels, where)
    if common.SENDFILE.name in levels and True not in levels.get(common.STATIC.name, ()):
        raise UsageError(
            f"{where(common.SENDFILE.name)}: {common.SENDFILE.name} changes nothing while the application server"
            " gives the files; set web.static: on"
        )
    if "unix" in upstreams and not server_of(study.stack).unix_socket:
        raise UsageError(
            f"{where(common.UPSTREAM.name)}: {study.stack.server} listens on TCP only;"
            f" {' and '.join(servers_with(lambda kind: kind.unix_socket))} can listen on a Unix socket"
        )
    if True in levels.get(server_knobs.TLS.name, ()):
        raise UsageError(
            f"{where(server_knobs.TLS.name)}: the web server speaks plain HTTP to the application server; write"
            " web.tls in place of server.tls"
        )
    if True in levels.get(common.COMPRESSION.name, ()) and not _asks_compressed(study.workload.scenario):
        raise UsageError(
            f"{where(common.COMPRESSION.name)}: scenario {study.workload.scenario} does not ask for compressed"
            f" answers, so nothing would change; take one with `compression: true`{_such_as(study.stack)}"
        )
    if study.workload.http == "2" and levels.get(common.HTTP2.name) != {True}:
        raise UsageError(
            f"{file.where(('workload', 'http'))}: the web server speaks HTTP/2 only with web.http2: on;"
            " add it to settings, or write 1.1 or auto"
        )


def _check_alone(file: StudyFile, host: PlannedHost, servers: set[Level], levels: Levels, where: Where) -> None:
    """Of web servers alone."""
    java = sorted(str(name) for name in servers if is_java(name))
    choice = file.study.stack
    for name in java:
        try:
            java_server(cast(ServerName, name)).check_java(choice.java)
        except UsageError as error:
            raise UsageError(f"{where(common.SERVER.name)}: {error}") from None
    web = servers - set(java)
    for name in levels:
        of_web = name in common.KNOB_NAMES and name != common.SERVER.name
        if of_web and not web:
            raise UsageError(f"{where(name)}: {name} changes nothing on {', '.join(java)}; httpd and nginx have it")
        if name.startswith("jvm.") and not java:
            raise UsageError(f"{where(name)}: {name} changes nothing: none of {', '.join(map(str, web))} has a JVM")
    for role in ("database", "web"):
        for part in ("cpus", "memory"):
            if getattr(file.study.placement, f"{role}_{part}") is not None:
                place = file.where(("placement", f"{role}_{part}"))
                raise UsageError(f"{place}: a web server alone has server_{part} only")
    workload = file.study.workload
    if workload.load_units != 1:
        raise UsageError(f"{file.where(('workload', 'load_units'))}: the site is the same for every load: leave it out")
    if workload.http == "2" and (java or levels.get(common.HTTP2.name) != {True}):
        sentence = f"{', '.join(java)} cannot be told of it here" if java else "add web.http2: on to settings"
        raise UsageError(f"{file.where(('workload', 'http'))}: HTTP/2 needs web.http2: on in every trial; {sentence}")
    _check_own(web, levels, where)
    _check_backlog(host, False, levels, where)


def _check_own(servers: set[Level], levels: Levels, where: Where) -> None:
    """What web servers have of their own, in front or alone."""
    model = common.MODEL.name
    if model in levels and "httpd" not in servers:
        raise UsageError(f"{where(model)}: {model} changes nothing: only httpd has more than one model")
    if common.PREFORK in levels.get(model, ()) and True in levels.get(common.HTTP2.name, ()):
        raise UsageError(f"{where(model)}: HTTP/2 of httpd needs threads: with web.http2: on take event or worker")


def _check_backlog(host: PlannedHost | None, elsewhere: bool, levels: Levels, where: Where) -> None:
    """``host``: the web server's, None for one that is not known yet; ``elsewhere``: the study's levels of the kernel
    are another host's.
    """
    backlog = common.BACKLOG.name
    most = None if host is None else _level_here(host, SOMAXCONN)
    if not elsewhere:
        most = max(map(int, levels.get(SOMAXCONN, ())), default=most)
    for level in levels.get(backlog, ()):
        if most is not None and int(level) > most:
            whose = f"the kernel of {host.name}" if elsewhere and host else "the kernel"
            mend = f"raise it there (sysctl -w {SOMAXCONN}={level})" if elsewhere else f"set {SOMAXCONN}"
            raise UsageError(
                f"{where(backlog)}: {backlog} {level} is more than {whose} takes ({SOMAXCONN} is {most}); lower it,"
                f" or {mend}"
            )


def _level_here(host: PlannedHost, name: str) -> int | None:
    """A level of this host; None where it does not tell."""
    if not isinstance(host, KnobOwner):  # not running yet
        return None
    try:
        return int(host.read_back(name))
    except (LookupError, OSError, ValueError):
        return None


def _such_as(choice: StackChoice) -> str:
    return next((f", such as {name}" for name in application_of(choice).scenarios() if _asks_compressed(name)), "")


def _asks_compressed(scenario: str) -> bool:
    return str(read_scenario(find_scenario(scenario)).get("compression")) == "true"


def _check_apart(file: StudyFile, places: set[Level], upstreams: set[Level], where: Where) -> None:
    """Of a web server on a host of its own."""
    line = file.where(("stack", "hosts", "web"))
    if common.SAME in places:
        raise UsageError(
            f"{where(common.PLACE.name)}: {common.PLACE.name} is same, the CPUs of the application server, but"
            f" hosts.web ({line}) gives the web server a host of its own; write own or absent, or leave hosts.web out"
        )
    if "unix" in upstreams:
        raise UsageError(
            f"{where(common.UPSTREAM.name)}: no Unix socket reaches another host, and hosts.web ({line}) gives the web"
            " server one of its own; write tcp, or leave hosts.web out"
        )


def _check_place(file: StudyFile, host: PlannedHost, places: set[Level], where: str) -> None:
    own_cpus, same = file.study.placement.web_cpus, file.study.placement.server_cpus
    if own_cpus is None:
        if common.OWN in places:
            raise UsageError(f"{where}: web.place is own, but placement.web_cpus names no CPUs; write web_cpus: 1")
        return
    if {common.OWN, common.SAME} <= places and cpu_set(own_cpus, host.cpus()) == cpu_set(same, host.cpus()):
        place = file.where(("placement", "web_cpus"))
        raise UsageError(f"{place}: web_cpus {own_cpus} are the CPUs of the server: web.place own and same are one")
