"""dealership under load while its supplier, its database, its server and its queue's store are killed: the audits are
clean afterwards.

One stack in every test run; the other server, mode and database, and the stores, with LEADLINE_MATRIX=1.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import listeners
import pytest
import server_cells
from witnesses import matrix, until

from leadline.host.base import Process
from leadline.host.local import LocalHost
from leadline.load.driver import DriverRun
from leadline.load.result import DriverResult, read_summary
from leadline.load.scenario import find_scenario
from leadline.model.knob import Level
from leadline.model.study import Study
from leadline.model.workload import Workload
from leadline.places.real import RealSystem
from leadline.stack import postgres as client
from leadline.stack.applications.dealership import Supplier
from leadline.stack.applications.java import ask
from leadline.stack.assembly import Stack
from leadline.stack.base import Endpoint, ServiceContext
from leadline.stack.postgres import Postgres
from leadline.stack.provision import build

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]

OTHER = matrix("another server, mode or database")
LOAD = Workload(scenario="dealership", ramp_up=0.5, steady=13.0, ramp_down=2.0, timeout=5.0)
KEPT = 5  # deliveries in the queue when its store is killed
BETWEEN = 1.5  # seconds of load between a recovery and the next kill


def kill(made: Stack, role: str, again: Callable[[], object]) -> None:
    os.kill(made.processes()[role].pid, signal.SIGKILL)
    while made.processes()[role].alive():
        time.sleep(0.01)
    again()
    time.sleep(BETWEEN)


def database_again(made: Stack) -> None:
    assert not made.database.stop()
    made.database.start()  # on the port that the pool knows
    made.database.wait_ready(60)


@pytest.mark.parametrize(
    ("server", "mode", "database", "deliveries"),
    [
        ("tomcat", "direct", "mariadb", "direct"),
        *(
            pytest.param(server, "session", "postgres", "queue", marks=OTHER)
            for server in ("liberty", "wildfly", "tomee", "glassfish")
        ),
        pytest.param("liberty", "session", "mariadb", "direct", marks=OTHER),
        pytest.param("tomcat", "direct", "postgres", "direct", marks=OTHER),
    ],
)
def test_what_was_answered_survives_kills_under_load(
    server: str, mode: str, database: str, deliveries: str, tmp_path: Path
) -> None:
    made = server_cells.stack(tmp_path, server, mode, database, app="dealership")
    made.options = replace(made.options, ready_timeout=90.0)
    trial = tmp_path / "trial"

    made.up({"app.deliveries": deliveries}, trial)
    try:
        run = DriverRun(LOAD, made.url(), 1, trial / "driver", server_cells.FAST)
        driver = subprocess.Popen(run.argv(), stdout=subprocess.DEVNULL)
        time.sleep(BETWEEN)
        kill(made, "supplier", lambda: made.restart_companion("supplier"))
        kill(made, "database", lambda: database_again(made))
        kill(made, "server", made.restart_server)
        assert driver.wait(90) == 0
        clean(made, read_summary(run.out), trial)
        assert made.read_back("app.deliveries") == deliveries
    finally:
        made.down()


def clean(made: Stack, result: DriverResult, trial: Path) -> None:
    """All work that was accepted has had its effect, once."""
    total = result.total.items()
    counts = {name: {"ok": each.ok, "failed": each.failed, "skipped": each.skipped} for name, each in total}
    assert sum(count["failed"] for count in counts.values()) > 0, "the outages were felt"
    made.drain(trial / "times.csv")
    audits = made.audit(counts, trial / "audit.log")
    assert len(audits) >= 25
    assert [f"{each.name}: {each.detail}" for each in audits if not each.passed] == []


def taken_in(made: Stack) -> set[int]:
    """Purchase orders whose parts are there."""
    with client.connect(made.endpoint(), timeout=60) as connection:
        return {int(order) for (order,) in connection.run("SELECT purchase_order_id FROM delivery")}


def acknowledged(supplier: Supplier) -> set[int]:
    """Purchase orders whose delivery the server has accepted, by the supplier's journal."""
    lines = (supplier.context.directory / "journal").read_text().splitlines()
    return {int(line.removeprefix("D ")) for line in lines if line.startswith("D ")}


IN_DATABASE = "server.messaging.store"
ASSURED: dict[str, Level] = {"server.messaging.reliability": "assured-persistent"}


@matrix("a server with a queue, its store killed under load")
@pytest.mark.parametrize(
    ("server", "levels"),
    [
        ("liberty", {**ASSURED, "server.threads.min": 20}),
        ("wildfly", ASSURED),
        ("wildfly", {**ASSURED, IN_DATABASE: "database"}),
        ("tomee", {}),
        ("glassfish", {**ASSURED, "server.threads.max": 20}),
    ],
)
def test_deliveries_in_a_killed_store_of_messages_are_taken_in_from_it(
    server: str, levels: Mapping[str, Level], tmp_path: Path
) -> None:
    """The broker and its files are the server's: with it both are killed. WildFly's tables are the database's, and its
    broker ends with them. The supplier is killed as well, so that nobody else can deliver again.
    """
    made = server_cells.stack(tmp_path, server, "session", app="dealership")
    made.options = replace(made.options, ready_timeout=90.0)
    trial = tmp_path / "trial"
    queue = {"app.deliveries": "queue", "app.supplier_delay": 6.0, "server.messaging.consumers": 1}
    made.up({**queue, **levels}, trial)
    try:
        supplier = made.companions["supplier"]
        assert isinstance(supplier, Supplier)
        run = DriverRun(LOAD.model_copy(update={"steady": 70.0}), made.url(), 1, trial / "driver", server_cells.FAST)
        driver = subprocess.Popen(run.argv(), stdout=subprocess.DEVNULL)
        until(lambda: taken_in(made) and supplier.counts()["pending"] >= KEPT, 60, "deliveries come")
        with server_cells.locked(made, "delivery"):
            until(
                lambda: len(acknowledged(supplier) - taken_in(made)) >= KEPT, 30, f"{KEPT} deliveries are in the queue"
            )
            kill(made, "supplier", lambda: None)
            stored = acknowledged(supplier) - taken_in(made)
            if IN_DATABASE in levels:
                kill(made, "database", lambda: database_again(made))
            kill(made, "server", lambda: None)
        made.restart_server()
        until(lambda: stored <= taken_in(made), 60, f"the {len(stored)} deliveries in the store are taken in")
        print(f"{server}: {len(stored)} deliveries came from the store")
        made.restart_companion("supplier")
        assert driver.wait(120) == 0
        clean(made, read_summary(run.out), trial)
    finally:
        made.down()


WORKLOADS = Path(__file__).resolve().parents[2] / "workloads"
MODULES = ("common", "dealership-core", "dealership-web", "dealership-tools")
TOOLS = WORKLOADS / "dealership-tools" / "target" / "dealership-tools.jar"
PORT = 15560
DEALERS = ("browse", "purchase", "purchase_large", "manage_sell", "manage_cancel")


def command(database: Endpoint, *arguments: str | Path) -> list[str | Path]:
    argv: list[str | Path] = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Ddealership.faults=on"]
    argv += ["-jar", TOOLS, arguments[0]]
    return [*argv, "--url", database.jdbc_url, "--user", database.user, "--units", "1", "--seed", "1", *arguments[1:]]


def tools(database: Endpoint, *arguments: str | Path, codes: tuple[int, ...] = (0,)) -> Any:
    """What it printed, read when it is JSON."""
    environment = os.environ | {"DEALERSHIP_DB_PASSWORD": database.password}
    argv = command(database, *arguments)
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in codes, done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout.startswith("{") else done.stdout


def kill_and_start(database: Postgres, process: Process) -> None:
    """Kill -9 once there are some orders, and start again on what is left."""
    deadline = time.monotonic() + 60
    with client.connect(database.endpoint(), timeout=60) as connection:
        while connection.run("SELECT COUNT(*) FROM sales_order")[0][0] < 20:
            assert time.monotonic() < deadline, "nothing is played"
            time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    assert not database.stop()
    database.start()
    database.wait_ready(60)


def test_a_kill_under_load_leaves_what_audits_expect_and_each_planted_fault_fails_its_audits(tmp_path: Path) -> None:
    sources = [path for module in MODULES for path in (WORKLOADS / module / "src" / "main").rglob("*")]
    build("the dealership's tools", WORKLOADS, MODULES, sources, [TOOLS], lambda _: None)
    database = Postgres(PORT)
    context = ServiceContext(LocalHost(state=tmp_path / "state"), tmp_path / "run", tmp_path / "logs")
    database.configure(context, {"database.fsync": False})  # a killed process leaves its writes to the kernel
    database.provision(lambda _: None)
    process = database.start()
    try:
        database.wait_ready(60)
        load_play_and_audit(database, process, tmp_path)
    finally:
        database.stop()


def survivors(mutants: list[dict[str, Any]]) -> set[str]:
    """Kinds of mutants of which one failed no audit, without its rows."""
    return {mutant["mutant"].partition(" [[")[0] for mutant in mutants if mutant["survived"]}


def load_play_and_audit(database: Postgres, process: Process, directory: Path) -> None:
    endpoint = database.endpoint()
    counted: list[str | Path] = ["--counts", directory / "counts.json"]
    supplier: list[str | Path] = ["--emulator", directory / "supplier.json"]
    assert tools(endpoint, "load") == "100 dealers, 50 models, 250 parts loaded\n"
    play: list[str | Path] = ["--threads", "4", "--rounds", "40", "--models", "2", "--supplier", supplier[1], *counted]
    with ThreadPoolExecutor(1) as pool:
        playing = pool.submit(tools, endpoint, "play", *play)
        kill_and_start(database, process)
        counts = playing.result(timeout=120)
    assert sum(count["ok"] for count in counts.values()) > 400
    # Nobody paced the players: cycles with which agents would have asked as often.
    asked = {name: sum(count.values()) for name, count in counts.items()}
    dealers = sum(asked[name] for name in DEALERS)
    load = {"injection_rate": 1, "seconds": 1000, "waiting": 0, "asked": asked}
    load |= {"dealer_cycle": 9300 / dealers, "plant_cycle": 3 * 0.8 / 6.09 * 1000 / asked["schedule"]}
    (directory / "load.json").write_text(json.dumps(load))
    counted += ["--load", directory / "load.json"]
    audits = tools(endpoint, "audit", *supplier, *counted)["audits"]
    names = {audit["name"] for audit in audits}
    documented = (WORKLOADS.parent / "docs" / "reference" / "dealership-data.md").read_text()
    assert len(names) >= 25
    assert not [name for name in names if f"`{name}`" not in documented and not name.startswith("rows-are-counts-")]
    faults = tools(endpoint, "audit", "--faults", *supplier, *counted)["faults"]
    mutants = tools(endpoint, "audit", "--mutants", "1", *supplier, *counted, codes=(0, 1))["mutants"]
    assert len(mutants) > 250
    unseen = survivors(mutants)
    for seed in "23":  # a load is another one each time: rows may be alike that no table of equivalents foresees
        if unseen:
            unseen &= survivors(
                tools(endpoint, "audit", "--mutants", seed, *supplier, *counted, codes=(0, 1))["mutants"]
            )
    assert unseen == set()
    assert {name for planted in faults + mutants for name in planted["failed"]} == names


RATES_DEALERS, PLANT = "dealer-transactions-have-their-rate", "planned-work-orders-have-their-rate"


def failed(place: Path, scenario: str) -> list[str]:
    """Audits that fail after a load as a trial drives it."""
    study = Study.model_validate(
        {
            "study": "rates",
            "question": "Does the load have its rate?",
            "stack": {"app": "dealership", "server": "tomcat", "mode": "direct", "database": "postgres"},
            "workload": {
                "scenario": scenario,
                "load_units": 10,
                "ramp_up": 3,
                "steady": 24,
                "ramp_down": 1,
                "variables": {"injection_rate": 10},
            },
            "factors": {"jvm.heap": ["256m", "512m"]},
            "responses": ["throughput"],
            "observe": False,
        }
    )
    system = RealSystem(study, LocalHost(state=place / "state"), place / "lab")
    trial = place / "lab" / "trial"
    system.prepare(print)
    system.reset(trial, 1)
    try:
        system.start_database({}, trial)
        system.start_server({}, trial)
        outcome = system.load(trial, 1, lambda _: None)
        audits = {each.name: each for each in system.audit(trial, outcome.counts)}
    finally:
        assert system.stop() == []
    assert audits.keys() > {RATES_DEALERS, PLANT}
    return [each.name for each in audits.values() if not each.passed]


@matrix("a start and half a minute of load each; the audits' faults are planted in every test run")
@pytest.mark.parametrize(
    ("planted", "audits"),
    [
        (("", ""), []),
        (("users: ${mul:10:", "users: ${mul:20:"), [RATES_DEALERS]),
        (("users: ${mul:10:", "users: ${mul:5:"), [RATES_DEALERS]),
        (("users: ${mul:3:", "users: ${mul:6:"), [PLANT]),
        (("users: ${mul:3:", "users: ${mul:1:"), [PLANT]),
    ],
)
def test_a_load_of_other_agents_fails_the_audit_of_their_rate(
    planted: tuple[str, str], audits: list[str], tmp_path: Path
) -> None:
    text = find_scenario("dealership").read_text()
    assert planted[0] in text
    scenario = tmp_path / "dealership.yaml"
    scenario.write_text(text.replace(*planted))
    assert failed(tmp_path, str(scenario)) == audits


OFTEN = ("schedule", "advance-1", "advance-2", "advance-3", "advance-4")
AGENTS_PLANT = (*OFTEN, "claim_large", "complete", "cancel_work", "request_parts", "status")


@matrix("a minute each; PlantApiTest and the unit tests of the caller run")
@pytest.mark.parametrize(
    ("server", "mode"),
    [(server, mode) for server in ("wildfly", "tomee", "glassfish", "liberty") for mode in ("direct", "session")],
)
def test_agents_call_the_server_remotely(server: str, mode: str, tmp_path: Path) -> None:
    made = server_cells.stack(tmp_path, server, mode, app="dealership")
    trial = tmp_path / "trial"
    made.up({"app.agents": "remote"}, trial)
    try:
        assert made.read_back("app.agents") == "remote"
        listeners.check(made)
        run = DriverRun(
            server_cells.DEALERSHIP,
            made.url(),
            1,
            trial / "driver",
            server_cells.FAST,
            population_urls=made.population_urls(),
        )
        subprocess.run(run.argv(), stdout=subprocess.DEVNULL, check=True, timeout=60)
        result = read_summary(run.out)
        counts = {
            name: {"ok": each.ok, "failed": each.failed, "skipped": each.skipped} for name, each in result.total.items()
        }
        assert all(sum(counts[name].values()) > 0 for name in OFTEN), counts
        assert counts["schedule"]["ok"] > 0, counts
        assert sum(count["failed"] for count in counts.values()) == 0, counts
        # Each of the plant's transactions is one request; those of 204, 404 and 409 count as skipped.
        sent = sum(sum(counts[name].values()) for name in AGENTS_PLANT if name in counts)
        called = ask("caller", made.population_urls()["plant"], "/health")["calls"]
        assert called == sent
        made.drain(trial / "times.csv")
        audits = made.audit(counts, trial / "audit.log")
        assert len(audits) >= 25
        assert [f"{each.name}: {each.detail}" for each in audits if not each.passed] == []
        assert {"supplier", "caller"} < set(made.processes())
    finally:
        unclean = made.down()
    assert unclean == []
