"""``leadline knobs --server``, and knobs that only other servers have."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from leadline.cli.commands.knobs import knobs
from leadline.host.local import LocalHost
from leadline.lab.planning import plan_study
from leadline.lab.studyfile import parse_study
from leadline.model.errors import UsageError
from leadline.stack.registry import SERVERS, service_catalogue

STUDY = """\
study: purge
question: Which connections should go?
stack: {{ server: {server} }}
workload: {{ users: 5 }}
{factors}
"""
PURGE = "factors: { server.datasource.purge_policy: [entire-pool, failing-connection] }"


def refusal(server: str, factors: str) -> str:
    file = parse_study(STUDY.format(server=server, factors=factors), "purge.yaml")
    with pytest.raises(UsageError) as refused:
        plan_study(file, LocalHost(state=Path("/nonexistent")), service_catalogue(server, "postgres"))
    return str(refused.value)


@pytest.mark.parametrize("server", list(SERVERS))
def test_a_server_lists_what_it_has_and_what_it_lacks(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    knobs("server", server=server, database="", json=True)
    document = json.loads(capsys.readouterr().out)
    found = {knob["name"]: knob["names"] for knob in document["knobs"]}
    assert found
    assert all(set(names) == {server} for names in found.values())
    assert all(knob["source"] for knob in document["knobs"])
    assert not set(found) & set(document["absent"])
    assert all(server not in owners and owners for owners in document["absent"].values())


def test_what_is_not_there_is_said_with_who_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    knobs("purge_policy", server="tomcat", database="", json=False)
    assert "server.datasource.purge_policy: not in tomcat, only in liberty" in capsys.readouterr().out
    with pytest.raises(UsageError, match="no knob fits 'purge_polcy'"):
        knobs("purge_polcy", server="tomcat", database="", json=False)
    with pytest.raises(UsageError, match="unknown server 'tomkat'; did you mean tomcat"):
        knobs("", server="tomkat", database="", json=False)


def test_a_factor_of_another_server_is_refused_with_the_servers_that_have_it() -> None:
    said = refusal("tomcat", PURGE)
    assert said.startswith("purge.yaml:5: tomcat has no knob server.datasource.purge_policy; liberty")
    assert "did you mean server.datasource.validation?" in refusal(
        "tomcat", "factors: { server.datasource.validatoin: [on, off] }"
    )


def test_a_setting_of_another_server_is_refused_as_well() -> None:
    settings = "settings: { server.threads.queue: 10 }\nfactors: { jvm.heap: [128m, 256m] }"
    said = refusal("liberty", settings)
    assert said.startswith("purge.yaml:5: liberty has no knob server.threads.queue; ")
    able = [name for name in SERVERS if "server.threads.queue" in {k.name for k in service_catalogue(name, "postgres")}]
    assert "tomcat" in able
    assert "liberty" not in able
    assert all(name in said.rpartition(";")[2] for name in able)


def test_the_list_of_all_programs_has_the_range_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    knobs("database.max_connections", server="", database="", json=True)
    [listed] = json.loads(capsys.readouterr().out)["knobs"]
    for name in ("postgres", "mariadb"):
        [own] = [knob for knob in service_catalogue("tomcat", name) if knob.name == "database.max_connections"]
        assert own.minimum is not None
        assert own.maximum is not None
        assert listed["minimum"] <= own.minimum
        assert listed["maximum"] >= own.maximum


def test_a_size_without_a_limit_of_its_own_has_the_machines(capsys: pytest.CaptureFixture[str]) -> None:
    knobs("database.sort_buffer_size", server="", database="mariadb", json=False)
    said = capsys.readouterr().out
    assert re.search(r"1k\.\.\d+[mg];", said), "the machine's memory is the limit"
    knobs("", server="", database="mariadb", json=False)
    assert str(2**63)[:6] not in capsys.readouterr().out
