"""Messaging without a server: what Liberty is told, where stores are, how the queue is drained, completion times."""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from server_context import brokerage
from typer.testing import CliRunner

from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.cli.main import app
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, NotInPlay, TrialFailure, UsageError
from leadline.model.knob import Level
from leadline.model.study import StackChoice
from leadline.stack import places
from leadline.stack.applications import brokerage as brokerage_module
from leadline.stack.base import Endpoint, ServiceContext, Settings
from leadline.stack.registry import stack_catalogue
from leadline.stack.servers import liberty
from leadline.stack.servers import tomee as tomee_module
from leadline.stack.servers import wildfly as wildfly_server
from leadline.trial.measure import FILE, completion_between


def host(directory: Path) -> LocalHost:
    return LocalHost(state=directory / "state")


def context(directory: Path, orders: str = "queue", subprotocol: str = "postgresql") -> ServiceContext:
    return ServiceContext(
        host(directory),
        directory,
        directory / "logs",
        database=Endpoint("127.0.0.1", 1, "d", "u", "p", subprotocol),
        deployment=brokerage("direct", {"app.orders": orders}),
    )


def elements(directory: Path, settings: Settings) -> ElementTree.Element:
    lines = liberty.elements(context(directory), settings)
    return ElementTree.fromstring("\n".join(["<server>", *lines, "</server>"]))


def attributes(root: ElementTree.Element, path: str) -> dict[str, str]:
    found = root.find(path)
    assert found is not None
    return found.attrib


@pytest.mark.parametrize(
    ("level", "word", "mapping", "mode"),
    [
        ("assured-persistent", "AssuredPersistent", "persistentMapping", "Persistent"),
        ("best-effort-nonpersistent", "BestEffortNonPersistent", "nonPersistentMapping", "NonPersistent"),
    ],
)
def test_one_level_reaches_sender_queue_and_delivery_mode(
    tmp_path: Path, level: str, word: str, mapping: str, mode: str
) -> None:
    root = elements(tmp_path, {"server.messaging.reliability": level, "server.messaging.consumers": 3})
    assert attributes(root, "jmsConnectionFactory/properties.wasJms") == {mapping: word}
    assert attributes(root, "messagingEngine/queue[@id='brokerageOrders']")["forceReliability"] == word
    assert {node.attrib["deliveryMode"] for node in root.findall("jmsQueue/properties.wasJms")} == {mode}
    receiver = attributes(root, "jmsActivationSpec[@id='brokerage-queue/OrderReceiver']/properties.wasJms")
    assert receiver["maxConcurrency"] == "3"


def test_stores_are_on_the_disk_unless_told(tmp_path: Path) -> None:
    root = elements(tmp_path, {})
    assert attributes(root, "messagingEngine/fileStore")["path"] == str(tmp_path / "messages")
    assert attributes(root, "transaction")["transactionLogDirectory"] == str(tmp_path / "transactions")
    root = elements(tmp_path, {"server.messaging.store_place": "tmpfs"})
    memory = places.memory_directory(tmp_path)
    try:
        assert memory.stat().st_mode & 0o077 == 0
        assert attributes(root, "messagingEngine/fileStore")["path"] == str(memory / "messages")
        assert attributes(root, "transaction")["transactionLogDirectory"] == str(tmp_path / "transactions")
    finally:
        places.remove(host(tmp_path), tmp_path)
    assert not memory.exists()


def test_a_store_in_memory_is_in_the_journal_until_it_is_removed(tmp_path: Path) -> None:
    mine = host(tmp_path)
    memory = places.make(mine, tmp_path)
    (memory / "messages").mkdir()
    (memory / "messages" / "Log").write_text("a message")
    assert places.make(mine, tmp_path) == memory, "made anew for the next start"
    assert not (memory / "messages").exists()
    assert host(tmp_path).restore() == [f"directory {memory}: removed"], "by another process, after a crash"
    assert not memory.exists()
    places.make(mine, tmp_path)
    places.remove(mine, tmp_path)
    assert not memory.exists()
    assert host(tmp_path).restore() == []


def test_what_others_left_in_memory_is_not_touched(tmp_path: Path) -> None:
    memory = places.memory_directory(tmp_path)
    memory.mkdir()
    try:
        with pytest.raises(TrialFailure, match=r"exists already.*remove what is left there") as caught:
            places.make(host(tmp_path), tmp_path)
        assert caught.value.failure_class is FailureClass.INFRASTRUCTURE
        assert host(tmp_path).restore() == []
    finally:
        memory.rmdir()


def test_nothing_is_configured_and_nothing_in_play_without_a_queue(tmp_path: Path) -> None:
    settings = {"server.messaging.reliability": "assured-persistent"}
    assert liberty.elements(context(tmp_path, "direct"), settings) == []
    with pytest.raises(NotInPlay, match=r"sends no messages"):
        liberty.level("server.messaging.reliability", {"configurations": {}}, context(tmp_path))


def wildfly(directory: Path, settings: Settings) -> tuple[str, dict[str, str]]:
    made = context(directory)
    return "\n".join(wildfly_server.messaging_operations(made, settings)), wildfly_server.messaging_properties(
        made, settings
    )


def test_wildflys_levels_are_properties_that_its_configuration_reads(tmp_path: Path) -> None:
    levels: dict[str, Level] = {
        "server.messaging.store_place": "tmpfs",
        "server.messaging.consumers": 3,
        "server.transactions.log_place": "tmpfs",
    }
    changed: list[dict[str, Level]] = [
        {"server.messaging.reliability": "express-nonpersistent"},
        {"server.messaging.reliability": "reliable-persistent"},
        {"server.messaging.store": "memory"},
    ]
    try:
        for more in changed:
            text, found = wildfly(tmp_path, {**levels, **more})
            assert len(found) == 4
            for name in found:
                assert f"${{{name}" in text, name
    finally:
        places.remove(host(tmp_path), tmp_path)
    text, found = wildfly(tmp_path, {"server.messaging.store": "database"})
    assert "journal-datasource,value=messages" in text
    assert found == {}, "the rest is WildFly's own default"
    with pytest.raises(UsageError, match="message store is set up for postgres only"):
        wildfly_server.messaging_operations(
            context(tmp_path, "queue", "mariadb"), {"server.messaging.store": "database"}
        )
    assert wildfly_server.messaging_operations(context(tmp_path, "direct"), levels) == []
    assert wildfly_server.messaging_properties(context(tmp_path, "direct"), levels) == {}


def resources(**changes: Any) -> dict[str, Any]:
    """What WildFly's management model says, its names' keys sorted."""
    server = {"persistenceEnabled": True, "journalDatasource": None, "journalSyncTransactional": True}
    own = "jboss.as:server=default,subsystem=messaging-activemq"
    return {
        "beans": {
            own: server | changes,
            f"jboss.as:jms-queue=brokerageOrders,{own.partition(':')[2]}": {"durable": changes.get("durable", True)},
            "jboss.as:subsystem=transactions": {"objectStorePath": "/dev/shm/x"},
        }
    }


@pytest.mark.parametrize(
    ("name", "changes", "level"),
    [
        ("reliability", {}, "assured-persistent"),
        ("reliability", {"journalSyncTransactional": False}, "reliable-persistent"),
        ("reliability", {"durable": False}, "express-nonpersistent"),
        ("store", {}, "file"),
        ("store", {"journalDatasource": "messages"}, "database"),
        ("store", {"persistenceEnabled": False}, "memory"),
    ],
)
def test_wildflys_levels_are_read_from_its_management_model(
    tmp_path: Path, name: str, changes: dict[str, Any], level: str
) -> None:
    assert wildfly_server.level(f"server.messaging.{name}", resources(**changes), context(tmp_path)) == level


def test_wildfly_without_a_queue_has_nothing_in_play(tmp_path: Path) -> None:
    with pytest.raises(NotInPlay, match=r"sends no messages"):
        wildfly_server.level("server.messaging.store", {"beans": {}}, context(tmp_path))


def tomee(directory: Path, settings: Settings) -> dict[str, str]:
    """Properties of every element of tomee.xml, by its id."""
    root = ElementTree.fromstring(f"<tomee>{tomee_module.messaging_resources(context(directory), settings)}</tomee>")
    return {node.attrib["id"]: (node.text or "") for node in root}


def test_tomees_broker_is_told_the_level_and_the_place(tmp_path: Path) -> None:
    found = tomee(tmp_path, {})
    directory = quote_plus(str(tmp_path / "messages"))
    assert (
        f"broker:()/brokerage?persistent=true&usekahadb=true&kahadb.directory={directory}" in found["brokerageBroker"]
    )
    assert "destination = ActiveMQ.DLQ" in found["jms/brokerageDeadOrders"]
    assert set(found) > {"brokerageMessages", "jms/brokerageConnections", "jms/brokerageOrders", "jms/brokerageQuotes"}
    found = tomee(tmp_path, {"server.messaging.reliability": "express-nonpersistent"})
    assert "broker:()/brokerage?persistent=false\n" in found["brokerageBroker"]
    memory = places.memory_directory(tmp_path)
    try:
        found = tomee(tmp_path, {"server.messaging.store_place": "tmpfs"})
        assert f"kahadb.directory={quote_plus(str(memory / 'messages'))}" in found["brokerageBroker"]
    finally:
        places.remove(host(tmp_path), tmp_path)
    levels = {"server.messaging.consumers": 3}
    assert tomee_module.messaging_properties(context(tmp_path), levels)["OrderReceiver.activation.maxSessions"] == "3"
    assert tomee_module.messaging_resources(context(tmp_path, "direct"), levels) == ""
    assert tomee_module.messaging_properties(context(tmp_path, "direct"), levels) == {}


def broker(persistent: bool, store: str) -> dict[str, Any]:
    own = "org.apache.activemq:brokerName=brokerage"
    return {
        "beans": {
            f"{own},type=Broker": {"Persistent": persistent},
            f"{own},instanceName={store},service=PersistenceAdapter,type=Broker": {"Name": store},
            "openejb.management:MessageDrivenBean=OrderReceiver,j2eeType=Instances": {"InstanceLimit": 3},
        }
    }


def test_tomees_levels_are_read_from_the_brokers_beans(tmp_path: Path) -> None:
    made = context(tmp_path)
    kept = broker(True, f"KahaDBPersistenceAdapter[{tmp_path}]")
    expected = {"reliability": "reliable-persistent", "store": "file", "consumers": 3}
    assert {name: tomee_module.messaging_level(f"server.messaging.{name}", kept, made) for name in expected} == expected
    place = tomee_module.messaging_level(
        "server.messaging.store_place", broker(True, "KahaDBPersistenceAdapter[/dev/shm/x,Index:/]"), made
    )
    assert place == "tmpfs"
    lost = broker(False, "MemoryPersistenceAdapter")
    assert tomee_module.messaging_level("server.messaging.reliability", lost, made) == "express-nonpersistent"
    with pytest.raises(NotInPlay, match=r"no store, as server\.messaging\.reliability is express-nonpersistent"):
        tomee_module.messaging_level("server.messaging.store_place", lost, made)
    with pytest.raises(NotInPlay, match=r"sends no messages"):
        tomee_module.messaging_level("server.messaging.reliability", {"beans": {}}, made)


MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:20 / /dev/shm rw shared:2 - tmpfs tmpfs rw
23 21 0:21 / /lab\\040one rw - ramfs ramfs rw
"""


def test_the_kernel_says_what_a_directory_is_on(tmp_path: Path) -> None:
    mounts = tmp_path / "proc/self/mountinfo"
    mounts.parent.mkdir(parents=True)
    mounts.write_text(MOUNTS)
    told = LocalHost(state=tmp_path, root=tmp_path)
    assert told.place_of(Path("/dev/shm/x/y")) == "tmpfs"
    assert told.place_of(Path("/lab one/x")) == "tmpfs"
    assert told.place_of(Path("/dev/shmoo")) == "disk"
    mounts.write_text(MOUNTS.replace("/dev/shm", "/dev/other"))
    with pytest.raises(UsageError, match="is not a tmpfs on this host"):
        places.make(told, tmp_path)
    mounts.unlink()
    with pytest.raises(LookupError, match="cannot tell"):
        told.place_of(Path("/"))


STUDY = """\
study: s
question: Which?
stack: { server: %s }
workload: { users: 1, steady: 6s }
factors:
  %s
"""


@pytest.mark.parametrize(
    ("server", "factor", "words"),
    [
        (
            "tomcat",
            "app.orders: [direct, queue]",
            "on glassfish and liberty and tomee and wildfly, not",
        ),
        ("liberty", "server.messaging.store: [file, database]", "keeps messages in a file store only; .* wildfly"),
        ("tomee", "server.messaging.reliability: [assured-persistent]", "a crash between the two loses the order"),
        ("tomee", "server.messaging.store: [file, database]", "take wildfly"),
        ("tomee", "server.transactions.log_place: [disk, tmpfs]", "glassfish and liberty and wildfly have it"),
        ("glassfish", "server.messaging.reliability: [express-nonpersistent]", "ignore a delivery mode .* or liberty"),
        ("glassfish", "server.messaging.store: [file, memory]", "no store in memory"),
        ("wildfly", "server.messaging.reliability: [best-effort-nonpersistent]", "take express-nonpersistent"),
        (
            "tomcat",
            "server.messaging.reliability: [a, b]",
            "tomcat has no knob server.messaging.reliability; .*wildfly",
        ),
    ],
)
def test_what_a_server_lacks_is_refused_with_who_has_it(server: str, factor: str, words: str) -> None:
    file = parse_study(STUDY % (server, factor), "s.yaml")
    with pytest.raises(UsageError, match=words):
        plan_study(file, LocalHost(), stack_catalogue(StackChoice(server=server)))


def figures(accepted: int, settled: int, waiting: int = 0, in_work: int = 0) -> dict[str, Any]:
    return {"accepted": accepted, "settled": settled, "waiting": waiting, "in_work": in_work}


class FakeTime:
    """A clock that only moves when somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def drained(monkeypatch: pytest.MonkeyPatch, answers: Iterator[dict[str, Any]], timeout: float) -> tuple[Any, float]:
    clock = FakeTime()
    monkeypatch.setattr(brokerage_module, "ask", lambda *_, **__: next(answers))
    return brokerage_module.drain("http://x", timeout, clock.now, clock.sleep), clock.seconds


def test_a_queue_is_drained_when_everything_accepted_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter([figures(9, 4, 3, 2), figures(9, 8, 0, 1), figures(9, 9)])
    found, seconds = drained(monkeypatch, steps, 60)
    assert found["settled"] == 9
    assert seconds == pytest.approx(0.4)


def test_lost_messages_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found, seconds = drained(monkeypatch, iter([figures(9, 4)] * 1000), 60)
    assert found["settled"] == 4
    assert 5 < seconds < 6


def test_a_queue_that_does_not_empty_fails_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrialFailure, match="not empty 10 s after the load: 9 accepted, 4 settled") as caught:
        drained(monkeypatch, iter([figures(9, 4, 5)] * 1000), 10)
    assert caught.value.failure_class is FailureClass.WORKLOAD
    with pytest.raises(TrialFailure, match="cannot be asked") as caught:
        drained(monkeypatch, iter([{"error": "no messaging"}]), 10)
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE


def test_completion_times_are_those_of_the_orders_accepted_in_the_window(tmp_path: Path) -> None:
    assert completion_between(tmp_path, 0, 10) == {}
    file = tmp_path / FILE
    file.parent.mkdir()
    rows = [(accepted, accepted + 1000 * taken) for taken, accepted in enumerate(range(1_000_000, 1_000_101))]
    rows += [(500_000, 9_000_000), (2_000_000, 9_000_000)]  # before and after
    file.write_text("accepted_us,effective_us\n" + "".join(f"{a},{b}\n" for a, b in rows))
    found = completion_between(tmp_path, 1.0, 2.0)
    assert found == pytest.approx(
        {"completion_mean": 50.0, "completion_p50": 50.0, "completion_p90": 90.0, "completion_p99": 99.0}
    )
    assert completion_between(tmp_path, 20, 30) == {}
    file.write_text("accepted_us,effective_us\n")
    assert completion_between(tmp_path, 1, 2) == {}


def test_the_list_of_knobs_shows_what_a_server_can_have() -> None:
    def choices(*arguments: str) -> list[str]:
        done = CliRunner().invoke(app, ["knobs", "server.messaging.store", "--json", *arguments])
        assert done.exit_code == 0, done.output
        rows = json.loads(done.stdout)["knobs"]
        return next(list(row["choices"]) for row in rows if row["name"] == "server.messaging.store")

    assert choices("--server", "liberty") == ["file"]
    assert choices("--server", "wildfly") == ["file", "memory", "database"]
    assert choices() == ["file", "memory", "database"]
