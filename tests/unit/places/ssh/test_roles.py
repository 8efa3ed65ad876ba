"""Roles of a stack over several hosts: which agent is asked what, in which order; the agents are fakes that write it
down.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from leadline.checks.files.study import StudyFile, parse_study
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.model.hosts import SshHost
from leadline.model.study import HOST_ROLES, Study
from leadline.places.rehost import on_host
from leadline.places.ssh import testbed
from leadline.places.ssh.connection import Connection
from leadline.places.ssh.host import FarHost, FarHosts
from leadline.places.ssh.stack import FarStack
from leadline.places.ssh.testbed import FarSystem
from leadline.places.ssh.wire import ConnectionLost
from leadline.stack import probe
from leadline.stack.base import Endpoint

ADDRESSES = {"ssh:front": "192.0.2.1", "ssh:app": "192.0.2.2", "ssh:db": "192.0.2.3", "ssh:sup": "192.0.2.4"}
ALL = "{ web: 'ssh:front', application: 'ssh:app', database: 'ssh:db', supplier: 'ssh:sup' }"
NGINX = {"web.server": "nginx"}
Asked = list[tuple[str, str]]


def file(hosts: str = ALL) -> StudyFile:
    text = f"""
study: roles
question: "?"
stack:
  app: dealership
  server: tomcat
  hosts: {hosts}
workload: {{ scenario: dealership, users: 4 }}
factors: {{ jvm.heap: [128m, 256m] }}
settings: {{ web.server: nginx }}
placement: {{ driver_cpus: "0" }}
"""
    return parse_study(text, "roles.yaml")


def study(hosts: str = ALL) -> Study:
    return file(hosts).study


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Each request: the host, and the request."""
    found: Asked = []

    def ask(host: FarHost, do: str, *given: object, timeout: float = 0.0) -> Any:
        del timeout
        address = ADDRESSES[host.name]
        found.append((host.name, do))
        if do == "open_stack":
            assert isinstance(given[1], dict)
            assert given[1]["address"] == address
            assert given[1]["placement"].driver_cpus is None, "those are of the driver's host"
            found[-1] = (host.name, f"open_stack {' '.join(given[1]['roles'])}")
        if do == "stack.url":
            return f"http://{address}:40001/dealership"
        answers = {
            "stack.endpoint": Endpoint(address, 5432, "d", "u", "secret"),
            "stack.expect": f"http://{address}:40000/dealership",
            "start_companion": f"http://{address}:40002",
            "start_server": 2.0,
            "start_web": 0.5,
            "unreached": "",
            "down": [],
        }
        return answers.get(do, "")

    monkeypatch.setattr(FarHost, "ask", ask)
    monkeypatch.setattr(probe, "unreached", lambda *_: "")
    return found


def addressed(told: Study) -> FarHosts:
    hosts = FarHosts(told.stack.ssh_hosts)
    for place in hosts.places:
        place.host.connection._about["address"] = f"192.0.2.9 1 {ADDRESSES[place.host.name]} 22"
    return hosts


def stack(told: Study, lab: Path) -> FarStack:
    return FarStack(told, addressed(told), lab)


def started(told: Study, lab: Path, asked: Asked, levels: dict[str, Any]) -> tuple[FarStack, Asked]:
    made = stack(told, lab)
    asked.clear()
    assert made.start_server(levels, lab / "trial") > 0
    return made, list(asked)


def test_each_host_is_asked_for_its_roles() -> None:
    hosts = FarHosts(study().stack.ssh_hosts)
    assert [(place.host.title, place.roles, place.folder) for place in hosts.places] == [
        ("ssh:front (web)", ("web",), "web-host"),
        ("ssh:app (application)", ("application",), ""),
        ("ssh:db (database)", ("database",), "database-host"),
        ("ssh:sup (supplier)", ("supplier",), "supplier-host"),
    ]
    assert hosts.of("application") is hosts
    assert hosts.elsewhere == ["web", "database", "supplier"]


def test_roles_without_a_host_are_the_applications() -> None:
    hosts = FarHosts(study("{ application: 'ssh:app', web: 'ssh:front', supplier: 'ssh:front' }").stack.ssh_hosts)
    assert [(place.host.title, place.roles, place.folder) for place in hosts.places] == [
        ("ssh:front (web and supplier)", ("web", "supplier"), "web-supplier-host"),
        ("ssh:app (application)", ("application", "database"), ""),
    ]
    alone = FarHosts({"application": SshHost("app")})
    assert (alone.title, alone.elsewhere) == ("ssh:app", [])
    assert alone.of("web") is alone.of("database") is alone


def test_every_agent_opens_its_part(tmp_path: Path, asked: Asked) -> None:
    stack(study(), tmp_path).provision(lambda _: None)
    assert [(host, do) for host, do in asked if do.startswith("open_stack")] == [
        ("ssh:front", "open_stack web"),
        ("ssh:app", "open_stack application"),
        ("ssh:db", "open_stack database"),
        ("ssh:sup", "open_stack supplier"),
    ]


def test_the_supplier_is_started_before_the_server_and_the_web_server_after_it(tmp_path: Path, asked: Asked) -> None:
    made, done = started(study(), tmp_path, asked, NGINX)
    assert done == [
        ("ssh:db", "stack.endpoint"),
        ("ssh:app", "stack.use_database"),
        ("ssh:app", "stack.expect"),
        ("ssh:sup", "start_companion"),
        ("ssh:app", "unreached"),
        ("ssh:app", "stack.use_companion"),
        ("ssh:app", "start_server"),
        ("ssh:sup", "unreached"),
        ("ssh:front", "unreached"),
        ("ssh:front", "stack.use_application"),
        ("ssh:front", "start_web"),
        ("ssh:front", "stack.url"),
    ]
    assert made.url() == "http://192.0.2.1:40001/dealership"


def test_a_trial_without_its_web_server_is_asked_directly(tmp_path: Path, asked: Asked) -> None:
    made, done = started(study(), tmp_path, asked, {**NGINX, "web.place": "absent"})
    assert made.url() == "http://192.0.2.2:40001/dealership"
    assert ("ssh:front", "start_web") in done, "it takes the levels, so that they are read back as not in play"
    assert ("ssh:front", "unreached") not in done


def test_on_one_host_only_that_is_asked(tmp_path: Path, asked: Asked) -> None:
    _, done = started(study("{ application: 'ssh:app' }"), tmp_path, asked, NGINX)
    assert done == [("ssh:app", do) for do in ("stack.expect", "start_server", "stack.url")]


@pytest.mark.parametrize(
    ("knob", "host"),
    [
        ("web.workers", "ssh:front"),
        ("database.work_mem", "ssh:db"),
        ("placement.web_memory", "ssh:front"),
        ("placement.database_memory", "ssh:db"),
        ("app.supplier_delay", "ssh:sup"),
        ("app.agents", "ssh:app"),
        ("placement.server_cpus", "ssh:app"),
        ("jvm.heap", "ssh:app"),
    ],
)
def test_a_knob_is_read_where_its_service_runs(tmp_path: Path, asked: Asked, knob: str, host: str) -> None:
    made = stack(study(), tmp_path)
    made.read_back(knob)
    made.apply({knob: 1})
    assert asked == [(host, "stack.read_back"), (host, "stack.apply")]


def test_data_are_reset_and_all_is_stopped_on_every_host(tmp_path: Path, asked: Asked) -> None:
    made = stack(study(), tmp_path)
    made.reset_data(tmp_path / "trial")
    made.provision(lambda _: None)
    made.check_alive()
    made.down()
    for do in ("reset_data", "stack.check_alive", "down"):
        assert [host for host, each in asked if each == do] == list(ADDRESSES)
    asked.clear()
    made.audit({}, tmp_path / "trial" / "logs" / "audit.log")
    assert asked == [("ssh:app", "audit")], "it reaches the database and the supplier"


def test_the_other_hosts_are_stopped_and_fetched_from_where_one_is_lost(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, told = FarHost.ask, study()
    system = FarSystem(told, addressed(told), tmp_path)
    system.prepare(lambda _: None)

    def lost(host: FarHost, do: str, *given: object, timeout: float = 0.0) -> Any:
        if host.name == "ssh:app":
            raise ConnectionLost(host.title, "the connection is lost")
        return answer(host, do, *given, timeout=timeout)

    monkeypatch.setattr(FarHost, "ask", lost)
    monkeypatch.setattr(Connection, "fetch", lambda *_: None)
    message = "ssh:app (application): the connection is lost"
    assert system.stop() == [message]
    assert [host for host, do in asked if do == "down"] == ["ssh:front", "ssh:db", "ssh:sup"]
    assert system.collect(tmp_path / "trial") == [f"what was recorded there is not here: {message}"]
    assert [host for host, do in asked if do == "forget"] == ["ssh:front", "ssh:db", "ssh:sup"]
    with pytest.raises(TrialFailure, match=message.replace("(", r"\(").replace(")", r"\)")) as caught:
        system.recording.measure(tmp_path / "trial", 1.0)
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE


@pytest.mark.parametrize("back", [True, False])
def test_a_trial_waits_for_a_host_that_is_away_and_is_left_where_it_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    told, said, waits = study(), list[str](), list[float]()
    hosts = FarHosts(told.stack.ssh_hosts, tell=said.append)
    asked = list[str]()

    def reach(host: FarHost) -> None:
        asked.append(host.name)
        if host.name == "ssh:db" and not (back and asked.count("ssh:db") == 2):
            raise ConnectionLost(host.title, "cannot be reached")

    monkeypatch.setattr(FarHost, "reach", reach)
    monkeypatch.setattr("time.sleep", waits.append)
    monkeypatch.setattr(FarStack, "_ready", lambda _: None)
    monkeypatch.setattr(FarStack, "_connections", lambda _: ())
    made = FarStack(told, hosts, tmp_path)
    if back:
        made.ready()
        assert asked == ["ssh:front", "ssh:app", "ssh:db", "ssh:db", "ssh:sup"]
    else:
        with pytest.raises(TrialFailure, match=r"^ssh:db \(database\): cannot be reached$") as caught:
            made.ready()
        assert caught.value.failure_class is FailureClass.INTERRUPTED, "the trial runs again with the next run"
        assert sum(waits) > 50, "a host may boot meanwhile"
    assert said[0] == "waiting for ssh:db (database): cannot be reached"


def test_what_is_reset_for_a_trial_is_reset_on_every_host(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, hosts = FarHost.ask, FarHosts(study().stack.ssh_hosts)

    def ask(host: FarHost, do: str, *given: object, timeout: float = 0.0) -> Any:
        found = answer(host, do, *given, timeout=timeout)
        return {"swap /swap": ["on", "on"]} if do == "host.temporary" else found

    monkeypatch.setattr(FarHost, "ask", ask)
    hosts.drop_page_cache()
    hosts.swap_off()
    assert asked == [(host, f"host.{do}") for do in ("drop_page_cache", "swap_off") for host in ADDRESSES]
    assert hosts.temporary() == {
        "swap /swap": ("on", "on"),
        "ssh:front (web): swap /swap": ("on", "on"),
        "ssh:db (database): swap /swap": ("on", "on"),
        "ssh:sup (supplier): swap /swap": ("on", "on"),
    }


def test_a_way_between_hosts_that_is_closed_names_both(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = FarHost.ask

    def closed(host: FarHost, do: str, *given: object, timeout: float = 0.0) -> Any:
        found = answer(host, do, *given, timeout=timeout)
        return "timed out" if (host.name, do) == ("ssh:front", "unreached") else found

    monkeypatch.setattr(FarHost, "ask", closed)
    with pytest.raises(TrialFailure) as caught:
        stack(study(), tmp_path).start_server(NGINX, tmp_path / "trial")
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE
    assert caught.value.message == (
        "ssh:app (application): what was started there answers, but 192.0.2.2:40000 cannot be reached from"
        " ssh:front (web) (timed out); open its ports from 32768 on to that host"
    )
    assert ("ssh:front", "start_web") not in asked


def test_what_is_put_back_is_told_with_role_and_host(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = FarHosts(study().stack.ssh_hosts)

    def lines(host: FarHost) -> Sequence[str]:
        return [f"swap of {host.name}"]

    monkeypatch.setattr(FarHost, "restore", lines)
    monkeypatch.setattr(hosts.local, "restore", list)
    assert sorted(hosts.restore()) == [
        "ssh:app (application): swap of ssh:app",
        "ssh:db (database): swap of ssh:db",
        "ssh:front (web): swap of ssh:front",
        "ssh:sup (supplier): swap of ssh:sup",
    ]


BLOCK = "".join(f"\n    {role}: {host}" for role, host in zip(HOST_ROLES, ADDRESSES, strict=True))


@pytest.mark.parametrize(
    ("lost", "lacking", "message"),
    [
        ("ssh:sup", "", r"^roles\.yaml:11: ssh:sup \(supplier\): cannot be reached$"),
        ("", "ssh:front", r"^roles\.yaml:8: ssh:front \(web\): Apache httpd is not here$"),
    ],
)
def test_a_dry_run_names_the_host_its_role_and_its_line(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch, lost: str, lacking: str, message: str
) -> None:
    def reach(host: FarHost) -> None:
        if host.name == lost:
            raise ConnectionLost(host.title, "cannot be reached")

    def check(host: FarHost, do: str, _choice: object, roles: Sequence[str], web_servers: Sequence[str]) -> None:
        asked.append((host.name, do))
        assert list(web_servers) == ["nginx"]
        if host.name == lacking:
            assert list(roles) == ["web"]
            raise LeadlineError("Apache httpd is not here")

    monkeypatch.setattr(FarHost, "reach", reach)
    monkeypatch.setattr(FarHost, "ask", check)
    monkeypatch.setattr(testbed, "plan_study", lambda *_: None)
    monkeypatch.setattr(testbed, "check_far_machine", lambda *_: None)
    told = file(BLOCK)
    place = testbed.FarTestbed(tmp_path / "lab", told.study.stack.ssh_hosts)
    with pytest.raises(UsageError, match=message):
        place.plan(told)


def test_an_error_that_has_its_place_is_given_no_other() -> None:
    chosen = on_host(file(BLOCK), "ssh:app").file
    told = "--host ssh:app: design: with one replicate"
    with pytest.raises(UsageError, match=f"^{told}$"), testbed._at(chosen, ()):
        raise UsageError(told)
    with pytest.raises(UsageError, match=r"^--host ssh:app: no Java$"), testbed._at(chosen, ()):
        raise UsageError("no Java")
