"""What a study asks of its host, checked before anything starts."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from leadline.checks.files.study import StudyFile
from leadline.checks.stack import stacks_of
from leadline.host.base import HERE, PROC, Ability, Host, PlannedHost
from leadline.host.files import OPEN_FILES, open_files, rows
from leadline.host.java import java_home
from leadline.host.process import parse_cpus
from leadline.layouts import must_fit
from leadline.load.scenario import source_address
from leadline.model.errors import UsageError
from leadline.model.knob import Level, Machine
from leadline.model.plan import Plan
from leadline.model.shapes import address_count
from leadline.model.study import HOST_ROLES, Study
from leadline.model.units import format_size
from leadline.stack.base import Application
from leadline.stack.options import KNOBS as LIMITS
from leadline.stack.registry import APPLICATIONS, application_of, server_of

_NOT_THERE = {  # keys of a study -> why not on a host over SSH, and what to write
    ("design", "rotation"): "no instances stand side by side on a host over SSH: leave the rotation out",
}


def check_over_ssh(file: StudyFile) -> None:
    """Raises UsageError with file and line."""
    study = file.study
    for (part, key), why in _NOT_THERE.items():
        if getattr(getattr(study, part), key) is not None:
            raise UsageError(f"{file.where((part, key))}: {why}")
    supplier = study.stack.hosts.supplier if study.stack.hosts else None
    if supplier is not None and not _supplied(application_of(study.stack)):
        able = " and ".join(name for name, application in APPLICATIONS.items() if _supplied(application()))
        sentence = f"{study.stack.app} has no supplier emulator, {able} has: leave supplier out"
        raise UsageError(f"{file.where(('stack', 'hosts', 'supplier'))}: hosts.supplier is {supplier}, but {sentence}")


def _supplied(application: Application) -> bool:
    return any(companion.name == "supplier" for companion in application.companions({}))


NOT_CHECKED = (
    "that downloads are to be had and the services start with these levels: a trial where they do not fails as "
    "`configuration`",
    "that levels take effect: every trial reads them back",
)
_ABILITIES = {  # that limits need, by their names
    "memory": Ability.MEMORY_LIMIT,
    "memory_high": Ability.MEMORY_SHARES,
    "swap": Ability.MEMORY_SHARES,
    "cpu_quota": Ability.CPU_LIMIT,
    "cpu_weight": Ability.CPU_LIMIT,
}
_PORTS = f"{PROC}/sys/net/ipv4/ip_local_port_range"
_USUAL_PORTS = "32768 60999"  # where the host does not tell (ip-sysctl.rst)
_USABLE = 0.8  # share of memory that instances side by side may take
_BESIDE_HEAP = 256 << 20  # bytes of a JVM: metaspace, code, threads, buffers
_DATABASE_CACHES = ("database.shared_buffers", "database.innodb_buffer_pool_size")
_DATABASE_CACHE = 128 << 20  # as PostgreSQL and MariaDB have it
_BESIDE_CACHE = 128 << 20  # bytes of a database: sessions, log buffers


class CheckedHost(PlannedHost, Protocol):
    """What is asked of a host on which services are to run."""

    def lacks(self, ability: Ability) -> str: ...


def check_machine(file: StudyFile, host: Host) -> None:
    """CPUs, memory, Java and rights. Raises UsageError with file and line."""
    for path, problem in (*_problems(file, lambda _: host, host), *_java_problems(file.study)):
        raise UsageError(f"{file.where(path)}: {problem}")


def check_far_machine(file: StudyFile, of: Callable[[str], CheckedHost], driver: Host) -> None:
    """As ``check_machine``; ``of``: the host of a role, as the study's ``stack.hosts`` calls it. JDKs are asked for
    there.
    """
    for path, problem in _problems(file, of, driver):
        raise UsageError(f"{file.where(path)}: {problem}")


def not_checked(file: StudyFile) -> list[str]:
    """What only a run can tell."""
    unchecked = list(NOT_CHECKED)
    if any(driver.via != "local" for driver in file.study.drivers):
        unchecked.append("the hosts of `drivers`: a run asks each before the first trial")
    if file.study.workload.generator is not None:
        unchecked.append(f"what {file.study.workload.generator.name} makes of its script and options")
    return unchecked


def _limits(study: Study) -> Iterator[tuple[tuple[str | int, ...], str, str, Level]]:
    """Each limit that the study asks for: its key, the role, the limit's name, and what is asked."""
    for key, limit in study.placement:
        role, _, kind = key.partition("_")
        if limit is not None:
            yield ("placement", key), role, kind, limit
    for knob in LIMITS:
        role, _, kind = knob.name.removeprefix("placement.").partition("_")
        for at, raw in enumerate(study.factors.get(knob.name, ())):
            with suppress(ValueError):  # told where levels are read
                if (level := knob.parse(raw)) != knob.default:
                    yield ("factors", knob.name, at), role, kind, level


def _most_files(host: Host) -> int:
    """Open files of a process that leadline starts: root may raise its own limit up to ``fs.nr_open``."""
    kernel = int(next(iter(rows(host.files, f"{PROC}/sys/fs/nr_open")), 1 << 20))
    return kernel if os.geteuid() == 0 else min(kernel, open_files(host.files, os.getpid()) or kernel)


def _problems(
    file: StudyFile, of: Callable[[str], CheckedHost], driver_host: Host
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    study, host = file.study, of("application")
    usable = driver_host.cpus()
    for path, role, kind, limit in _limits(study):
        on = driver_host if role == "driver" else host if role == "server" else of(role)
        if kind == "cpus":
            if problem := _refused(partial(parse_cpus, str(limit), on.cpus())):
                yield path, problem
            continue
        if kind == OPEN_FILES:
            if on is driver_host and int(limit) > (most := _most_files(driver_host)):
                yield path, f"{int(limit):,} open files are more than a process may have here ({most:,})"
            continue
        memory = on.machine().memory
        if kind.startswith("memory") and int(limit) > memory:
            has = format_size(memory // 1024**2 * 1024**2)
            yield path, f"{format_size(int(limit))} is more than {_who(on)} has ({has})"
        if reason := on.lacks(_ABILITIES[kind]):
            yield path, f"no {_ABILITIES[kind]} can be set {on.where}: {reason}"
    if study.drivers and study.placement.driver_cpus is not None:
        yield ("placement", "driver_cpus"), "each of several drivers has CPUs of its own: write `cpus` in drivers"
    for at, driver in enumerate(study.drivers):
        program = shlex.split(driver.via)[0]
        if driver.via == "local":
            if driver.cpus is not None and (problem := _refused(partial(parse_cpus, driver.cpus, usable))):
                yield ("drivers", at, "cpus"), problem
        elif shutil.which(program) is None:
            yield ("drivers", at), f"via: no program {program} on the path"
    if problem := _ports(study, driver_host):
        yield ("workload", "users"), problem
    if study.workload.cpu_latency is not None and not study.drivers and (why := driver_host.lacks(Ability.CPU_LATENCY)):
        yield ("workload", "cpu_latency"), f"/dev/cpu_dma_latency cannot be written here ({why}); leave it out"
    for on in dict.fromkeys(map(of, HOST_ROLES)):
        if study.reset.page_cache == "drop" and (why := on.lacks(Ability.DROP_PAGE_CACHE)):
            yield ("reset", "page_cache"), f"the page cache cannot be dropped {on.where} ({why}); write keep"
        if study.reset.swap == "off" and (why := on.lacks(Ability.SWAP_OFF)):
            yield ("reset", "swap"), f"swap cannot be switched off {on.where} ({why}); write keep"


def _who(host: CheckedHost) -> str:
    return "this machine" if host.where == HERE else host.name


def _java_problems(study: Study) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if study.stack.java is not None:
        home = Path(study.stack.java)
        if problem := _refused(lambda: java_home(home)):
            yield ("stack", "java"), problem
    for stack in stacks_of(study):
        if problem := _refused(partial(server_of(stack).check_java, stack.java)):
            yield ("stack", "java" if stack.java else "server"), problem


def _ports(study: Study, host: Host) -> str:
    """What is wrong where each user has a connection of its own and the addresses of this host are too few."""
    load = study.workload
    if load.users is None or load.connections != "session" or load.generator is not None or study.drivers:
        return ""
    address = load.source_address or source_address(load.preset, "http://localhost/")
    addresses = address_count(address) if address else 1
    ports = local_ports(host)
    if load.users <= ports * addresses:
        return ""
    return (
        f"{load.users:,} connections, but {addresses:,} x {ports:,} ports (source addresses x ports of each): "
        f"name {-(-load.users // ports)} or more, as in workload.source_address: 127.0.0.2-127.0.0.99"
    )


def local_ports(host: Host) -> int:
    """Ports that this host gives to outgoing connections of one address."""
    first, last = map(int, " ".join(rows(host.files, _PORTS) or [_USUAL_PORTS]).split())
    return last - first + 1


def _refused(check: Callable[[], object]) -> str:
    try:
        check()
    except UsageError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class Room:
    """What the largest block of instances side by side needs of this machine, in a sentence; ``refused`` where it does
    not fit, with ``fit``: how many of them would.
    """

    told: str
    refused: str = ""
    fit: int = 0


def room_for(plan: Plan, settings: Mapping[str, Level], machine: Machine) -> Room:
    """The memory of all instances of a block, when their heaps and databases are full, against the machine's."""
    needs = [
        (sum(_instance_memory({**settings, **trial.treatment.as_dict()}, machine) for trial in block), len(block))
        for block in plan.together
    ]
    needed, instances = max(needs)
    sentence = (
        f"{instances} instances at once need about {_mib(needed)} of memory (heap, {_mib(_BESIDE_HEAP)} of each JVM, "
        "database)"
    )
    most = int(_USABLE * machine.memory)
    if needed > most:
        fit = most // (needed // instances)
        return Room(sentence, f"{sentence}; {_USABLE:.0%} of this machine's are {_mib(most)}", fit)
    cpus = f"{machine.cpus} CPU{'' if machine.cpus == 1 else 's'}"
    return Room(
        f"{sentence}; this machine has {_mib(machine.memory)} and {cpus}, of which one instance at a time has load."
    )


def check_side_by_side(file: StudyFile, plan: Plan, settings: Mapping[str, Level], machine: Machine) -> Room:
    """The largest block of a rotation against this machine's memory and its CPUs.

    Raises UsageError with file and line where it does not fit, unless the study says what to do then, and for what
    instances side by side cannot have.
    """
    if lack := apart(file.study):
        path, problem = lack
        raise UsageError(f"{file.where(path)}: {problem}")
    room = room_for(plan, settings, machine)
    if room.refused and must_fit(file.study.design):
        fewer = f"take {room.fit} at a time by `blocks: incomplete, block_size: {room.fit}`"
        mend = fewer if room.fit >= 2 else "lower jvm.heap"
        hint = "" if "jvm.heap" in settings else "; set jvm.heap (a quarter of memory where it is not set)"
        raise UsageError(f"{file.where(('design', 'rotation'))}: {room.refused}: {mend}{hint}")
    return room


def apart(study: Study) -> tuple[tuple[str, ...], str] | None:
    """The key of a study whose instances cannot stand side by side, and why."""
    if study.drivers:
        return ("drivers",), "instances side by side have a driver each: leave drivers out"
    stack_file = study.stack.own
    if stack_file is not None and stack_file.content.fixed_port is not None:
        return ("stack",), "instances side by side need ports of their own: write ${port} in place of `port`"
    if stack_file is not None and stack_file.content.database.kind in ("command", "keep"):
        sentence = (
            f"instances side by side have data of their own, and `database` is {stack_file.content.database.kind}"
        )
        return ("stack",), f"{sentence}: write postgres, mariadb or none"
    if study.reset.database == "keep":
        return ("reset", "database"), "instances side by side have data of their own: write snapshot"
    return None


def _instance_memory(levels: Mapping[str, Level], machine: Machine) -> int:
    """Bytes of a server and its database when both are full."""
    heap = levels.get("jvm.heap", machine.memory // 4)
    cache = next((levels[name] for name in _DATABASE_CACHES if name in levels), _DATABASE_CACHE)
    return int(heap) + _BESIDE_HEAP + int(cache) + _BESIDE_CACHE


def _mib(size: int) -> str:
    return format_size(size // 1024**2 * 1024**2)
