"""Orders through a server's queue: levels read back, one effect whatever happens, what a killed server keeps."""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import listeners
import pytest
import server_cells
from witnesses import matrix

from leadline.host.files import LocalFiles
from leadline.host.java import java_pid
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import Level
from leadline.model.study import StackChoice
from leadline.stack import places
from leadline.stack import postgres as client
from leadline.stack.applications import brokerage
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions
from leadline.stack.servers.knobs import KNOBS

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]

CROWD, FEW, MANY = 20, 3, 10  # orders at once; receivers

# Receivers that wait for the database hold threads of Liberty's one executor: enough must be left for the pages.
THREADS: dict[str, Level] = {"server.threads.min": 20}
IN_MEMORY = "ramdisk" if os.geteuid() == 0 else "tmpfs"  # only root may make a RAM disk
ASSURED: dict[str, Level] = {
    "app.orders": "queue",
    "app.summary_cache": 60.0,
    "server.messaging.reliability": "assured-persistent",
    "server.messaging.store": "file",
    "server.messaging.store_place": "disk",
    "server.messaging.consumers": FEW,
    "server.transactions.log_place": IN_MEMORY,
    **THREADS,
}
# It has no log of transactions, and tells how many messages are received at a time by instances of the bean.
RELIABLE: dict[str, Level] = {
    **{name: level for name, level in ASSURED.items() if name != "server.transactions.log_place"},
    "server.messaging.reliability": "reliable-persistent",
    "server.messaging.store_place": IN_MEMORY,
}
# Five threads serve its pages unless there are more.
GLASSFISH: dict[str, Level] = {
    **{name: level for name, level in ASSURED.items() if name not in THREADS},
    "server.messaging.store_place": "tmpfs",
    "server.threads.max": 20,
}
KEPT = {"glassfish": GLASSFISH, "liberty": ASSURED, "tomee": RELIABLE, "wildfly": ASSURED}
BEST_EFFORT: dict[str, Level] = {
    "app.orders": "queue",
    "app.calls": "remote",
    "server.messaging.consumers": MANY,
    "server.messaging.reliability": "best-effort-nonpersistent",
    "server.messaging.store_place": "tmpfs",
    **THREADS,
}


def queued(reliability: str, store: str | None = None, **more: Level) -> dict[str, Level]:
    levels: dict[str, Level] = {"app.orders": "queue", "server.messaging.reliability": reliability, **more}
    return levels if store is None else {**levels, "server.messaging.store": store}


# What becomes of messages when the server is killed. Of SOME nothing is promised either way.
LOST, SOME, ALL = "lost", "some", "all"
STATED = ("server.messaging.reliability", "server.messaging.store")
KILLED = matrix("a server with a queue, killed under load")
OUT_OF_TIME = matrix("another queue than two of Liberty, or a full message store")
POISON = "ALTER TABLE ledger_entry ADD CONSTRAINT poison CHECK (account_id <> 77) NOT VALID"
# A sequence keeps its steps when a transaction is rolled back: two deliveries fail, the third does not.
PASSING = (
    "CREATE SEQUENCE failures",
    "CREATE FUNCTION fail_twice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " IF NEW.account_id = 77 AND nextval('failures') <= 2 THEN RAISE EXCEPTION 'not yet'; END IF;"
    " RETURN NEW; END $$",
    "CREATE TRIGGER passing BEFORE INSERT ON ledger_entry FOR EACH ROW EXECUTE FUNCTION fail_twice()",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("messaging")


class Broker:
    """One customer of a running stack, who counts what was accepted."""

    def __init__(self, stack: Stack, user: int) -> None:
        self._url = stack.url()
        self._cookie = ""
        self.accepted: list[str] = []
        self._post("login", {"user": f"user-{user:06}", "password": f"pw-{user:06}"})

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", "Cookie": self._cookie}
        sent = urllib.request.Request(f"{self._url}/api/{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(sent, timeout=30) as answer:
            self._cookie = answer.headers.get("Set-Cookie", self._cookie).partition(";")[0]
            return json.load(answer)

    def buy(self, command: str, symbol: str = "S00003") -> None:
        answer = self._post("buy", {"symbol": symbol, "quantity": 1, "command": command})
        assert (answer["order"], answer["status"], answer["command"]) == (None, "accepted", command)
        self.accepted.append(command)


def figures(stack: Stack) -> dict[str, Any]:
    with urllib.request.urlopen(f"{stack.url()}/queue", timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def eventually(holds: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.1)


def run(stack: Stack, statement: str) -> list[list[Any]]:
    with client.connect(stack.endpoint(), timeout=60) as connection:
        return list(connection.run(statement) or [])


def outcomes(stack: Stack, account: int) -> dict[str, str]:
    rows = run(stack, f"SELECT command_id, outcome FROM queued_order WHERE account_id = {account}")
    return {str(command): str(outcome) for command, outcome in rows}


def settled(stack: Stack, account: int, most: int) -> dict[str, str]:
    """Outcomes once nothing moves any more, after a start: what comes late is not lost."""
    found = outcomes(stack, account)
    moved = time.monotonic()
    while len(found) < most and time.monotonic() - moved < 3:
        time.sleep(0.2)
        now = outcomes(stack, account)
        if now != found or figures(stack)["in_work"]:
            found, moved = now, time.monotonic()
    return found


def orders(stack: Stack, account: int) -> list[str]:
    """Commands of the account's orders since the data were loaded, one a row."""
    named = f"account_id = {account} AND command_id NOT LIKE 'seed-%'"
    rows = run(stack, f"SELECT command_id FROM trade_order WHERE {named}")
    return sorted(str(command) for (command,) in rows)


def failed(stack: Stack, place: Path, logins: int, buys: int) -> set[str]:
    counts = {"login": {"ok": logins, "failed": 0}, "buy": {"ok": buys, "failed": 0}}
    return {audit.name for audit in stack.audit(counts, place / "tools.log") if not audit.passed}


def kill_server(stack: Stack) -> None:
    process = stack.processes()["server"]
    os.kill(java_pid(LocalFiles(), process), signal.SIGKILL)
    eventually(lambda: not process.alive())


@contextmanager
def running(place: Path, server: str, mode: str, levels: Mapping[str, Level]) -> Iterator[Stack]:
    choice = StackChoice.model_validate({"server": server, "mode": mode})
    stack = Stack(choice, LocalHost(state=place / "state"), place / "home", StackOptions(observe=False))
    stack.provision(lambda _: None)
    stack.prepare_data(lambda _: None)
    stack.reset_data(place / server / mode)
    try:
        stack.up(levels, place / server / mode)
        listeners.check(stack)
        yield stack
    finally:
        stack.down()


@pytest.mark.parametrize(
    "server", ["liberty", *(pytest.param(name, marks=OUT_OF_TIME) for name in ("glassfish", "tomee", "wildfly"))]
)
def test_kept_orders_have_one_effect_whatever_happens(server: str, place: Path) -> None:
    levels = KEPT[server]
    with running(place, server, "orm", levels) as stack:
        assert {name: stack.read_back(name) for name in levels} == levels
        assert {knob.name for knob in KNOBS} & {knob.name for knob in stack.server.knobs()} <= set(levels)
        times = place / "times.csv"
        broker = Broker(stack, 7)
        for number in range(20):
            broker.buy(f"first-{number}", f"S0000{1 + number % 5}")
        broker.buy("first-0")  # the name of an order that has been placed: nothing more is bought
        stack.drain(times)
        assert outcomes(stack, 7) == dict.fromkeys(broker.accepted, "FILLED")
        assert orders(stack, 7) == sorted(set(broker.accepted))
        assert failed(stack, place, logins=1, buys=20) == set()
        lines = times.read_text().splitlines()
        assert lines[0] == "accepted_us,effective_us"
        assert len(lines) == 21
        assert all(
            0 < effective - accepted < 60e6 for accepted, effective in (map(int, row.split(",")) for row in lines[1:])
        )
        eventually(lambda: figures(stack)["quotes_received"] == 20)
        in_work_at_once(stack, place, FEW)

        redelivered_and_dead(stack, place)

        with server_cells.locked(stack, "ledger_entry"):
            for number in range(30):
                broker.buy(f"kept-{number}")
            assert figures(stack)["settled"] == 23 + CROWD
            kill_server(stack)
        stack.restart_server()
        eventually(lambda: len(outcomes(stack, 7)) == 50)
        brokerage.drain(stack.url(), 60)
        assert outcomes(stack, 7) == dict.fromkeys(broker.accepted, "FILLED"), "nothing that was accepted is lost"
        assert orders(stack, 7) == sorted(set(broker.accepted)), "and nothing is done twice"
        assert failed(stack, place, logins=2 + CROWD, buys=52 + CROWD) == {
            "rows-are-counts-buy",
            "queued-orders-have-one-effect",
        }, "the order that died is the only one without effect"
    assert not places.memory_directory(place / "home" / server).exists()
    assert not places.disk_directory(place / "home" / server).exists()


def in_work_at_once(stack: Stack, place: Path, receivers: int) -> None:
    """So many orders are in work while none can be settled, neither fewer nor more. Each is another customer's, so that
    none waits for an account.
    """
    brokers = [Broker(stack, 101 + number) for number in range(CROWD)]
    waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'ledger_entry'::regclass AND NOT granted"
    with server_cells.locked(stack, "ledger_entry"):
        for number, broker in enumerate(brokers):
            broker.buy(f"crowd-{number}", f"S{number + 10:05}")
        eventually(lambda: run(stack, waiting) == [[receivers]])
        time.sleep(0.5)
        assert run(stack, waiting) == [[receivers]], "not more than there are receivers"
    stack.drain(place / "times.csv")


def redelivered_and_dead(stack: Stack, place: Path) -> None:
    """An order that fails is delivered again until it can be done, and given up after five times."""
    broker = Broker(stack, 77)
    for statement in PASSING:
        run(stack, statement)
    broker.buy("recovers")
    stack.drain(place / "times.csv")
    assert figures(stack)["redelivered"] >= 2
    assert outcomes(stack, 77) == {"recovers": "FILLED"}
    run(stack, POISON)
    broker.buy("dies")
    eventually(lambda: figures(stack)["dead"] == 1)
    run(stack, "ALTER TABLE ledger_entry DROP CONSTRAINT poison")
    assert outcomes(stack, 77) == {"recovers": "FILLED", "dies": "DEAD"}
    assert orders(stack, 77) == ["recovers"]


PROMISES = (
    ("liberty", queued("reliable-persistent", "file", **THREADS), SOME),
    ("liberty", queued("reliable-nonpersistent", "file", **THREADS), LOST),
    ("liberty", queued("express-nonpersistent", "file", **THREADS), LOST),
    ("wildfly", queued("assured-persistent", "database"), ALL),
    ("wildfly", queued("assured-persistent", "memory"), LOST),
    ("wildfly", queued("reliable-persistent", "file"), SOME),
    ("wildfly", queued("express-nonpersistent", "file"), LOST),
    ("tomee", queued("express-nonpersistent"), LOST),
)


@pytest.mark.parametrize(
    ("server", "levels", "promise"),
    [
        pytest.param("liberty", BEST_EFFORT, LOST, marks=KILLED, id="liberty-best-effort-nonpersistent"),
        *(
            pytest.param(
                *(server, levels, promise),
                marks=OUT_OF_TIME,
                id="-".join([server, *(str(levels[name]) for name in STATED if name in levels)]),
            )
            for server, levels, promise in PROMISES
        ),
    ],
)
def test_a_killed_server_keeps_what_the_level_promises_and_doubles_nothing(
    server: str, levels: Mapping[str, Level], promise: str, place: Path
) -> None:
    memory = places.memory_directory(place / "home" / server)
    with running(place, server, "session", levels) as stack:
        assert {name: stack.read_back(name) for name in levels} == levels
        if "server.messaging.store_place" in levels:
            assert list((memory / "messages").iterdir())
        broker = Broker(stack, 8)
        if levels.get("app.calls") == "remote":
            assert server_cells.copies(stack) > 0, "remote calls by value"
        for number in range(5):
            broker.buy(f"before-{number}")
        stack.drain(place / "times.csv")
        others = 0
        if levels.get("server.messaging.consumers") == MANY:
            others = CROWD
            in_work_at_once(stack, place, MANY)
        assert failed(stack, place, logins=1 + others, buys=5 + others) == set()
        with server_cells.locked(stack, "ledger_entry"):
            for number in range(30):
                broker.buy(f"held-up-{number}")
            kill_server(stack)
        stack.restart_server()
        kept = settled(stack, 8, 35)
        lost = set(broker.accepted) - set(kept)
        if promise == LOST:
            assert lost, "the server kept messages that it need not keep: the level has no effect"
        elif promise == ALL:
            assert not lost
        assert orders(stack, 8) == sorted(kept), "nothing is done twice"
        told = failed(stack, place, logins=1 + others, buys=35 + others)
        assert told == ({"rows-are-counts-buy"} if lost else set()), "the audit tells of the loss"
        print(f"{server}: {len(lost)} of 30 lost")
    assert not memory.exists()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of its own with less room than the log of the message store takes."""
    if os.geteuid() != 0:
        pytest.skip("host: only root may mount a file system")
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(tmp_path)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"host: a tmpfs cannot be mounted here: {done.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def buy_until_refused(broker: Broker) -> None:
    for number in range(100):
        broker.buy(f"refused-{number}")


def fill(directory: Path) -> None:
    """Take the room that is left on the file system."""
    with suppress(OSError), (directory / "filler").open("wb", buffering=0) as filler:
        while filler.write(bytes(4096)):
            continue


@OUT_OF_TIME
@pytest.mark.parametrize(
    ("server", "words", "also"),
    [
        ("liberty", "CWSIS1592E", "CWSID0034E"),
        ("tomee", "Journal failed while writing at: .*: java.io.IOException: No space left", "Stopping BrokerService"),
    ],
)
def test_a_full_message_store_fails_the_trial_in_the_servers_words(
    server: str, words: str, also: str, place: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: dict[str, Level] = {"app.orders": "queue", "server.messaging.store_place": "tmpfs", **THREADS}
    monkeypatch.setattr(places, "memory_directory", lambda *_: small / "store")
    with running(place, server, "direct", levels) as stack:
        broker = Broker(stack, 9)
        fill(small)
        with pytest.raises(urllib.error.HTTPError, match="500"):
            buy_until_refused(broker)
        # the server goes on to say so after its answer
        logs = [path for path in stack.server.artefacts() if path.is_file()]
        eventually(lambda: any(also in path.read_text(errors="replace") for path in logs))
        with pytest.raises(TrialFailure, match=f"{server} cannot keep messages: {words}") as caught:
            stack.check_messages()
    assert caught.value.failure_class is FailureClass.CONFIGURATION
    assert also in caught.value.evidence
    assert not (small / "store").exists()


@OUT_OF_TIME
def test_a_broker_without_room_for_its_log_fails_the_start_in_its_words(
    place: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open MQ takes the room for its log at once."""
    levels: dict[str, Level] = {"app.orders": "queue", "server.messaging.store_place": "tmpfs"}
    monkeypatch.setattr(places, "memory_directory", lambda *_: small / "store")
    words = "glassfish cannot keep messages: Failed to create transaction log file"
    with pytest.raises(TrialFailure, match=words) as caught, running(place, "glassfish", "direct", levels):
        pytest.fail("it is ready")
    assert caught.value.failure_class is FailureClass.CONFIGURATION
    assert not (small / "store").exists()
