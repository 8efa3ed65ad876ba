"""A gang: hosts that a pool gives to one job at the same time, for a study whose services or load drivers have hosts of
their own.

The names of hosts in the study stand for hosts of the pool. The first host of a gang runs the job, and whatever has no
host of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from leadline.model.errors import UsageError
from leadline.model.hosts import ssh_host
from leadline.model.study import Study
from leadline.places.pool.job import PoolJob

_BETWEEN = "+"  # in a gang's name: no host's name has it


def _together(study: Study) -> dict[str, list[str]]:
    """What each host that the study names runs, in the order of the gang's hosts after the first."""
    roles_by_host: dict[str, list[str]] = {}
    for driver in study.drivers:
        if driver.destination:
            roles_by_host.setdefault(_machine(driver.destination), []).append(f"driver {driver.name}")
    for role, host in study.stack.ssh_hosts.items():
        roles_by_host.setdefault(_machine(host.name), []).append(role)
    return roles_by_host


def _machine(name: str) -> str:
    """The host of ``user@host:port``, with its port."""
    return name.rpartition("@")[2]


def roles(study: Study) -> list[str]:
    """What runs on each host of the study's gang; of a study on one host it is all there is."""
    hosts, roles_by_host = study.stack.ssh_hosts, _together(study)
    together = {"application": "application" if "database" in hosts else "application and database"}
    return [
        _first(study),
        *(" and ".join(together.get(role, role) for role in roles_there) for roles_there in roles_by_host.values()),
    ]


def _first(study: Study) -> str:
    """What the host runs that has the job."""
    elsewhere = [bool(driver.destination) for driver in study.drivers]
    drives = ["driver"] if not all(elsewhere) or not elsewhere else []
    serves = ["services"] if any(elsewhere) and not study.stack.ssh_hosts else []
    return " and ".join(drives + serves) or "leadline"


def placed(study: Study, hosts: Sequence[str]) -> Study:
    """The study with hosts of the pool in place of those that it names; users and ports stay. Raises UsageError."""
    wanted = roles(study)
    if len(hosts) != len(wanted):
        raise UsageError(f"the job has {len(hosts)} hosts ({', '.join(hosts)}), its roles are {', '.join(wanted)}")
    at = dict(zip(_together(study), hosts[1:], strict=True))
    if not at:
        return study
    stack = study.stack
    services_here = not stack.ssh_hosts
    drivers = [
        driver.moved(at[_machine(driver.destination)], hosts[0] if services_here else driver.server)
        if driver.destination
        else driver
        for driver in study.drivers
    ]
    if services_here:
        return study.model_copy(update={"drivers": drivers})
    if stack.hosts is None:
        named: dict[str, object] = {"host": _at(stack.host, at)}
    else:
        of_roles = {role: _at(word, at) for role, word in stack.hosts.named().items()}
        named = {"hosts": stack.hosts.model_copy(update=of_roles)}
    return study.model_copy(update={"drivers": drivers, "stack": stack.model_copy(update=named)})


def _at(word: str, hosts: Mapping[str, str]) -> str:
    """``ssh:root@app:22`` and n2 are ``ssh:root@n2:22``."""
    host = ssh_host(word)
    assert host is not None
    user, at, place = host.name.rpartition("@")
    _, colon, port = place.partition(":")
    return str(replace(host, name=f"{user}{at}{hosts[place]}{colon}{port}"))


def on_hosts(job: PoolJob, hosts: Sequence[str]) -> PoolJob:
    """The job with its study placed. Raises UsageError."""
    study = placed(job.file.study, hosts)
    return replace(job, study=study.model_dump(mode="json", exclude_unset=True))


def name_of(hosts: Sequence[str]) -> str:
    """Of a gang, as one host of the study."""
    return _BETWEEN.join(hosts)


def hosts_of(name: str) -> list[str]:
    """Of a gang's name."""
    return name.split(_BETWEEN)


def blamed(name: str, why: str) -> list[str]:
    """Hosts of a gang that the reason names, as ``ssh:HOST`` or in an ssh command."""
    before = r"\bssh(?:(?:\+sudo)?:|(?:\s[^\s()]+)*\s)(?:[\w.-]+@)?"
    return [host for host in hosts_of(name) if re.search(rf"{before}{re.escape(host)}\b(?![.-])", why)]
