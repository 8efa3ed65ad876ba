"""A gang: hosts that a pool gives to one job at the same time, for a study whose services run on hosts of their own.

The names of hosts in the study stand for hosts of the pool. The first host of a gang runs the job and the load driver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from leadline.model.errors import UsageError
from leadline.model.hosts import SshHost, ssh_host
from leadline.model.study import Study
from leadline.pool.job import Job

_BETWEEN = "+"  # in a gang's name: no host's name has it


def _together(study: Study) -> dict[SshHost, list[str]]:
    """What each of the study's hosts over SSH runs, in the order of the gang's hosts after the driver's."""
    found: dict[SshHost, list[str]] = {}
    for role, host in study.stack.ssh_hosts.items():
        found.setdefault(host, []).append(role)
    return found


def roles(study: Study) -> list[str]:
    """What runs on each host of the study's gang, the driver first; of a study on one host it is all there is."""
    hosts = study.stack.ssh_hosts
    together = {"application": "application" if "database" in hosts else "application and database"}
    return ["driver", *(" and ".join(together.get(role, role) for role in each) for each in _together(study).values())]


def placed(study: Study, hosts: Sequence[str]) -> Study:
    """The study with hosts of the pool in place of those that it names; users and ports stay. Raises UsageError."""
    wanted = roles(study)
    if len(hosts) != len(wanted):
        raise UsageError(f"the job has {len(hosts)} hosts ({', '.join(hosts)}), its roles are {', '.join(wanted)}")
    stack = study.stack
    at = dict(zip(_together(study), hosts[1:], strict=True))
    if not at:
        return study
    if stack.hosts is None:
        named: dict[str, object] = {"host": _at(stack.host, at)}
    else:
        of_roles = {role: _at(word, at) for role, word in stack.hosts.named().items()}
        named = {"hosts": stack.hosts.model_copy(update=of_roles)}
    return study.model_copy(update={"stack": stack.model_copy(update=named)})


def _at(word: str, hosts: Mapping[SshHost, str]) -> str:
    """``ssh:root@app:22`` and n2 are ``ssh:root@n2:22``."""
    found = ssh_host(word)
    assert found is not None
    user, at, place = found.name.rpartition("@")
    _, colon, port = place.partition(":")
    return str(replace(found, name=f"{user}{at}{hosts[found]}{colon}{port}"))


def on_hosts(job: Job, hosts: Sequence[str]) -> Job:
    """The job with its study placed. Raises UsageError."""
    study = placed(job.file.study, hosts)
    return replace(job, study=study.model_dump(mode="json", exclude_unset=True))


def name_of(hosts: Sequence[str]) -> str:
    """Of a gang, as one host of the study."""
    return _BETWEEN.join(hosts)


def blamed(name: str, why: str) -> list[str]:
    """Hosts of a gang that the reason names, else all of them."""
    hosts = name.split(_BETWEEN)
    return [host for host in hosts if re.search(rf"ssh(\+sudo)?:([\w.-]+@)?{re.escape(host)}\b(?![.-])", why)] or hosts
