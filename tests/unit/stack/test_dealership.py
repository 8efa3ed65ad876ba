"""dealership: its knobs, its supplier emulator, what the audits are told."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.study import StackChoice
from leadline.stack.applications import dealership
from leadline.stack.applications.dealership import Dealership
from leadline.stack.base import Feature
from leadline.stack.registry import modes, stack_catalogue
from leadline.stack.servers.glassfish import GlassFish
from leadline.stack.servers.liberty import Liberty
from leadline.stack.servers.tomee import TomEE
from leadline.stack.servers.wildfly import WildFly


def test_modes_and_calls_go_by_what_the_server_can() -> None:
    assert modes("dealership", "tomcat") == ["direct"]
    assert modes("dealership", "liberty") == ["direct", "session"]
    direct = {k.name: k for k in stack_catalogue(StackChoice(app="dealership", server="tomcat"))}["app.calls"]
    assert "mode direct calls no session bean" in direct.refused["remote"]
    session = stack_catalogue(StackChoice(app="dealership", server="liberty", mode="session"))
    assert not next(knob for knob in session if knob.name == "app.calls").refused


def test_the_server_is_told_mode_and_calls() -> None:
    app = Dealership()
    deployment = app.deployment("session", {"app.calls": "remote"})
    assert deployment.properties == {"dealership.mode": "session", "dealership.calls": "remote"}
    assert (deployment.context_root, deployment.data_source.jndi) == ("/dealership", "jdbc/dealership")
    assert [beside.name for beside in app.companions({})] == ["supplier"]
    assert app.companions({})[0] is app.companions({"app.calls": "remote"})[0]


def test_deliveries_go_through_a_queue_where_the_server_has_one() -> None:
    app = Dealership()
    deployment = app.deployment("direct", {"app.deliveries": "queue"})
    assert deployment.archive.name == "dealership-queue.war"
    assert deployment.properties == {"dealership.mode": "direct", "dealership.deliveries": "queue"}
    assert {Feature.BEANS, Feature.MESSAGING} <= deployment.features
    assert [queue.jndi for queue in deployment.queues] == ["jms/dealershipDeliveries", "jms/dealershipDeadDeliveries"]
    assert app.deployment("session", {}).archive.name == "dealership.war"
    assert Feature.MESSAGING not in app.deployment("session", {"app.deliveries": "direct"}).features
    on_tomcat = {k.name: k for k in stack_catalogue(StackChoice(app="dealership", server="tomcat"))}["app.deliveries"]
    assert "deliveries go through a queue on " in on_tomcat.refused["queue"]
    assert on_tomcat.refused["queue"].endswith("not on tomcat")


def test_agents_call_remotely_where_the_server_takes_calls_of_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WildFly, "unpacked", tmp_path)
    app = Dealership(package=tmp_path / "leadline")
    deployment = app.deployment("direct", {"app.agents": "remote"})
    assert {Feature.BEANS, Feature.REMOTE_CLIENTS} <= deployment.features
    assert deployment.remote_bean is not None
    client = WildFly().remote_client(deployment, deployment.remote_bean, 9080, 0)
    assert client.bean == "ejb:/dealership/PlantAgents!leadline.dealership.remote.RemoteDealership"
    assert client.naming["java.naming.provider.url"] == "remote+http://127.0.0.1:9080"
    assert [beside.name for beside in app.companions({"app.agents": "remote"})] == ["supplier", "caller"]
    assert app.deployment("direct", {}).remote_bean is None
    called = deployment, deployment.remote_bean, 9080, 9081
    monkeypatch.setattr(GlassFish, "unpacked", tmp_path)
    assert GlassFish().remote_client(*called).naming["org.omg.CORBA.ORBInitialPort"] == "9081"
    assert Liberty().remote_client(*called).bean == (
        "corbaname::127.0.0.1:9081#ejb/global/dealership/PlantAgents!leadline%5c.dealership%5c.remote%5c.RemoteDealership"
    )
    (tmp_path / "lib").mkdir()
    for name in ("openejb-client-9.0.0.jar", "jakartaee-api-9.1-M2-tomcat.jar"):
        (tmp_path / "lib" / name).touch()
    monkeypatch.setattr(TomEE, "unpacked", tmp_path)
    client = TomEE().remote_client(*called)
    assert (client.bean, client.naming["java.naming.provider.url"]) == (
        "PlantAgentsRemote",
        "http://127.0.0.1:9080/tomee/ejb",
    )
    on_wildfly = {k.name: k for k in stack_catalogue(StackChoice(app="dealership", server="wildfly"))}["app.agents"]
    assert not on_wildfly.refused
    on_tomcat = {k.name: k for k in stack_catalogue(StackChoice(app="dealership", server="tomcat"))}["app.agents"]
    assert on_tomcat.refused["remote"].startswith("tomcat takes no remote calls of other programs; ")
    assert "wildfly" in on_tomcat.refused["remote"]


def test_a_caller_that_does_not_run_has_agents_over_http(tmp_path: Path) -> None:
    assert Dealership(package=tmp_path / "leadline").read_back("http://127.0.0.1:1", "app.agents") == "http"


def test_stages_count_as_one_transaction() -> None:
    counts = {name: {"ok": 2, "failed": 1, "skipped": 9} for name in ("advance-1", "advance-4", "claim_large")}
    assert Dealership().audit_files(counts) == {
        "--counts": {
            "advance": {"ok": 4, "failed": 2, "skipped": 18},
            "claim_large": {"ok": 2, "failed": 1, "skipped": 9},
        }
    }


def test_what_agents_asked_for_is_audited_for_its_own_scenario() -> None:
    load = {
        "scenario": "dealership",
        "variables": {"injection_rate": "2", "dealer_cycle": "10s", "plant_cycle": "650ms"},
        "asked": {"browse": 5},
        "seconds": 60.0,
        "waiting": 0.5,
    }
    told = {"injection_rate": 2.0, "dealer_cycle": 10.0, "plant_cycle": 0.65, "seconds": 60.0, "waiting": 0.5}
    assert Dealership().audit_files({}, load)["--load"] == {**told, "asked": {"browse": 5}}
    assert "--load" not in Dealership().audit_files({}, {**load, "scenario": "other"})
    assert "--load" not in Dealership().audit_files({})


def drained(left: list[Any]) -> list[float]:
    """Seconds slept until the drain ended."""
    slept: list[float] = []
    numbers: Iterator[Any] = iter(left)
    dealership.drain(lambda: (int(next(numbers)), 0), 1.0, now=lambda: sum(slept), sleep=slept.append)
    return slept


def test_every_purchase_order_is_waited_for() -> None:
    assert len(drained([3, "busy", 1, 0])) == 3
    with pytest.raises(
        TrialFailure, match="3 purchase orders are not delivered 1 s after the load; the supplier holds 0"
    ) as caught:
        drained([3] * 20)
    assert caught.value.failure_class is FailureClass.WORKLOAD
    with pytest.raises(TrialFailure, match="cannot be asked"):
        drained(["none"] * 20)


def test_a_supplier_that_never_ran_tells_nothing(tmp_path: Path) -> None:
    supplier = Dealership(package=tmp_path / "leadline").supplier
    with pytest.raises(LookupError, match="has not been started"):
        supplier.counts()
    (tmp_path / "journal").touch()
    supplier.reset(tmp_path)
    assert not (tmp_path / "journal").exists()
    assert supplier.stop()
