"""A gang: hosts that a pool gives to one job at the same time, for a study whose services run on hosts of their own.

The names of hosts in the study stand for hosts of the pool. The first host of a gang runs the job and the load driver.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from leadline.model.errors import UsageError
from leadline.model.hosts import ssh_host
from leadline.model.study import Study
from leadline.pool.job import Job

_BETWEEN = "+"  # in a gang's name: no host's name has it


def roles(study: Study) -> list[str]:
    """What runs on each host of the study's gang, the driver first; of a study on one host it is all there is."""
    stack = study.stack
    if stack.ssh is None:
        return ["driver"]
    together = "application" if stack.database_ssh is not None else "application and database"
    return ["driver", together, *(["database"] if stack.database_ssh is not None else [])]


def placed(study: Study, hosts: Sequence[str]) -> Study:
    """The study with hosts of the pool in place of those that it names; users and ports stay. Raises UsageError."""
    wanted = roles(study)
    if len(hosts) != len(wanted):
        raise UsageError(f"the job has {len(hosts)} hosts ({', '.join(hosts)}), its roles are {', '.join(wanted)}")
    if len(wanted) == 1:
        return study
    stack = study.stack
    if stack.hosts is None:
        return study.model_copy(update={"stack": stack.model_copy(update={"host": _at(stack.host, hosts[1])})})
    named = {"application": _at(stack.hosts.application, hosts[1])}
    if stack.hosts.database is not None:
        named["database"] = _at(stack.hosts.database, hosts[-1])
    of_roles = stack.hosts.model_copy(update=named)
    return study.model_copy(update={"stack": stack.model_copy(update={"hosts": of_roles})})


def _at(word: str, host: str) -> str:
    """``ssh:root@app:22`` and n2 are ``ssh:root@n2:22``."""
    found = ssh_host(word)
    assert found is not None
    user, at, place = found.name.rpartition("@")
    _, colon, port = place.partition(":")
    return str(replace(found, name=f"{user}{at}{host}{colon}{port}"))


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
