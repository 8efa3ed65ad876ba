"""The example of an application of one's own, end to end: built, started, its pool varied live, the planted effect
found, the data audited, everything put back.
"""

import csv
import json
import sys
from pathlib import Path

import pytest
from conftest import leadline
from own_examples import QSHOP, SHOP, built, mean_throughput, sources
from witnesses import matrix

pytestmark = pytest.mark.stack

STUDY = f"""\
study: shop-pool
question: Is a pool of one connection enough for the shop?
stack: {SHOP}/shop.stack.yaml
workload: {{ users: 16, ramp_up: 4s, steady: 16s, ramp_down: 0s, timeout: 60s }}
factors:
  app.spring.datasource.hikari.maximum-pool-size: [10, 1]
settings: {{ app.packing: 50ms, app.server.tomcat.threads.max: 50, jvm.heap: 256m }}
design: {{ replicates: 1, sentinels: null, seed: 3, switchback: {{ slot: 4s, wash_out: 1s }} }}
responses: [throughput, p90]
"""


@pytest.fixture(scope="module")
def jar() -> Path:
    return built(SHOP, "shop.jar")


def test_a_pool_of_one_is_found_in_the_shop(jar: Path, tmp_path: Path) -> None:
    assert jar.is_file()
    before = sources(SHOP)
    (tmp_path / "pool.yaml").write_text(STUDY)
    done = leadline("run", "pool.yaml", "--json", cwd=tmp_path)
    assert done.returncode in (0, 4), done.stderr  # beside a busy neighbour a few slots may give no answer
    (trial,) = json.loads(done.stdout)["trials"]
    assert trial["state"] == "done", trial
    assert {audit["name"]: audit["passed"] for audit in trial["audits"]}["purchases-are-counts"], trial["audits"]
    assert all(audit["passed"] for audit in trial["audits"]), trial["audits"]
    mean = {size: mean_throughput(trial, "app.spring.datasource.hikari.maximum-pool-size", size) for size in (1, 10)}
    assert mean[10] > mean[1], mean  # an order holds its connection for 50 ms
    assert sources(SHOP) == before


QSTUDY = f"""\
study: qshop-pool
question: Is a pool of one connection enough for the shop on Quarkus?
stack: {QSHOP}/qshop.stack.yaml
workload: {{ users: 16, ramp_up: 2s, steady: 8s, ramp_down: 0s, timeout: 60s }}
factors:
  app.quarkus.datasource.jdbc.max-size: [20, 1]
settings: {{ app.packing: 50ms, app.quarkus.thread-pool.max-threads: 50, jvm.heap: 256m }}
design: {{ replicates: 1, sentinels: null, seed: 3, switchback: {{ slot: 2s, wash_out: 500ms }} }}
responses: [throughput, p90]
"""


@matrix("Quarkus is fetched and built in minutes")
def test_the_shop_on_quarkus_is_varied_and_put_back(tmp_path: Path) -> None:
    built(QSHOP, "quarkus-app/quarkus-run.jar")
    before = sources(QSHOP)
    (tmp_path / "pool.yaml").write_text(QSTUDY)
    done = leadline("run", "pool.yaml", "--json", cwd=tmp_path)
    assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
    (trial,) = json.loads(done.stdout)["trials"]
    assert trial["state"] == "done", trial
    assert all(audit["passed"] for audit in trial["audits"]), trial["audits"]
    assert "stock-is-what-was-not-sold" in [audit["name"] for audit in trial["audits"]]
    mean = {size: mean_throughput(trial, "app.quarkus.datasource.jdbc.max-size", size) for size in (1, 20)}
    assert mean[20] > mean[1], mean
    assert sources(QSHOP) == before
    told = leadline("restore", cwd=tmp_path)
    assert (told.returncode, "nothing to put back" in told.stdout) == (0, True), told.stdout + told.stderr


def test_a_first_stack_file_is_written_from_the_jar(jar: Path, tmp_path: Path) -> None:
    done = leadline("stack", "init", str(jar), "--out", "first.stack.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "first.stack.yaml").read_text()
    assert f"- {jar}\n" in text
    assert "catalogue: spring-boot\n" in text
    assert "# spring.datasource.url is jdbc:h2:./shop (application.properties:3 in shop.jar)" in text
    assert "database: none" in text


def test_the_stack_file_passes_its_check(jar: Path, tmp_path: Path) -> None:
    assert jar.is_file()
    done = leadline("stack", "check", str(SHOP / "shop.stack.yaml"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " failed " not in done.stdout
    assert "change app.spring.datasource.hikari.maximum-pool-size: 10, 5 and back" in done.stdout


BROKER = """\
import socket, sys, time, threading
delay = float(next((w[8:] for w in sys.argv if w.startswith("--delay=")), 1)) / 1000
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("delay=%g" % (delay * 1000), file=open("state.txt", "w"), flush=True)
print("accepting connections", flush=True)
def serve(c):
    with c:
        while c.recv(64):
            time.sleep(delay)
            c.sendall(b"ok\\n")
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""
BROKER_LOAD = """\
import json, socket, sys, time
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
end = time.time() + float(sys.argv[3]) + 1
while time.time() < end:
    start = time.time()
    c.sendall(b"hello\\n"); c.recv(64)
    print(json.dumps({"start": start, "duration": time.time() - start, "type": "publish"}))
"""
BROKER_STACK = """\
stack: broker
command: [PYTHON, broker.py, "${port}"]
ready: { log: "^accepting", within: 30s }
knobs:
  app.delay:
    levels: { quick: 1, slow: 40 }
    argument: "--delay=${level}"
    read_back: { file: state.txt, pattern: "delay=([0-9]+)" }
"""
BROKER_STUDY = """\
study: broker
question: Is it slower?
stack: broker.stack.yaml
workload:
  generator: { name: lines, program: PYTHON, script: load.py, options: "${host} ${port} ${seconds}" }
  ramp_up: 1s
  steady: 3s
  ramp_down: 0s
factors: { app.delay: [quick, slow] }
design: { replicates: 2, sentinels: null }
responses: [throughput, p50]
"""


def test_a_broker_is_measured_by_a_load_of_its_own(tmp_path: Path) -> None:
    files = {"broker.py": BROKER, "load.py": BROKER_LOAD, "broker.stack.yaml": BROKER_STACK, "b.yaml": BROKER_STUDY}
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace("PYTHON", sys.executable))
    done = leadline("run", "b.yaml", "--json", cwd=tmp_path)
    assert done.returncode in (0, 4), done.stderr
    trials = json.loads(done.stdout)["trials"]
    assert [trial["state"] for trial in trials] == ["done"] * 4, trials
    quick, slow = (
        [trial["responses"]["p50"] for trial in trials if trial["planned"]["levels"]["app.delay"] == level]
        for level in ("quick", "slow")
    )
    assert min(slow) > 40 > 0 < min(quick) < max(slow), (quick, slow)  # ms that the broker waits
    assert (tmp_path / "load.py").read_text() == files["load.py"]


@matrix("eight starts of the shop take minutes")
def test_queries_one_by_one_no_cache_and_a_pool_of_one_are_each_seen_at_their_cause(jar: Path, tmp_path: Path) -> None:
    assert jar.is_file()
    study = (SHOP / "causes.study.yaml").read_text().replace("stack: ", f"stack: {SHOP}/")
    for long, short in (("ramp_up: 8s", "ramp_up: 3s"), ("steady: 20s", "steady: 10s")):
        assert long in study
        study = study.replace(long, short)
    (tmp_path / "causes.yaml").write_text(study)
    done = leadline("run", "causes.yaml", "--json", cwd=tmp_path, timeout=1200)
    assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
    found: dict[str, list[tuple[float, float]]] = {}
    for trial in json.loads(done.stdout)["trials"]:
        assert trial["state"] == "done", trial
        levels = trial["planned"]["levels"]
        mistakes = {
            "one by one": levels["app.one_by_one"],
            "no cache": not levels["app.cache"],
            "pool of one": levels["app.spring.datasource.hikari.maximum-pool-size"] == 1,
        }
        (mistake,) = [name for name, planted in mistakes.items() if planted] or ["none"]
        commits = trial["responses"]["database_commits_per_transaction"]
        found.setdefault(mistake, []).append((commits, waiting(Path(trial["directory"]))))
    print(found)
    commits_of = {mistake: sum(commits for commits, _ in each) / len(each) for mistake, each in found.items()}
    assert commits_of["one by one"] > 5 * commits_of["none"], found
    assert commits_of["no cache"] > 1.5 * commits_of["none"], found
    assert commits_of["pool of one"] == pytest.approx(commits_of["none"], rel=0.3), found
    assert all(callers > 2 for _, callers in found["pool of one"]), found
    assert all(callers < 1 for _, callers in found["none"]), found


def waiting(attempt: Path) -> float:
    """Callers that wait for a connection, on average over a trial."""
    with (attempt / "raw" / "agent.csv").open() as rows:
        values = [float(row["value"]) for row in csv.DictReader(rows) if row["metric"] == "pool.waiting"]
    return sum(values) / len(values)
