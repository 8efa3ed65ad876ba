"""The example of an application of one's own, end to end: built, started, its pool varied live, the planted effect
found, the data audited, everything put back.
"""

import csv
import json
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import leadline
from own_examples import QSHOP, SHOP, built, mean_throughput, sources
from witnesses import matrix

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def jar() -> Path:
    return built(SHOP, "shop.jar")


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


FRONT = """\
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
fn main() {
    let words: Vec<String> = std::env::args().collect();
    for client in TcpListener::bind(("127.0.0.1", words[1].parse().unwrap())).unwrap().incoming() {
        let (mut client, relay) = (client.unwrap(), words[2].clone());
        std::thread::spawn(move || {
            let mut behind = TcpStream::connect(relay).unwrap();
            let mut buffer = [0; 64];
            while let Ok(n @ 1..) = client.read(&mut buffer) {
                behind.write_all(&buffer[..n]).unwrap();
                let n = behind.read(&mut buffer).unwrap();
                client.write_all(&buffer[..n]).unwrap();
            }
        });
    }
}
"""
RELAY = """\
import java.net.*;
public class Relay {
    public static void main(String[] words) throws Exception {
        var server = new ServerSocket(Integer.parseInt(words[0]), 50, InetAddress.getLoopbackAddress());
        while (true) {
            var client = server.accept();
            new Thread(() -> serve(client, Integer.parseInt(words[1]))).start();
        }
    }
    static void serve(Socket client, int store) {
        try (client; var behind = new Socket(InetAddress.getLoopbackAddress(), store)) {
            var buffer = new byte[64];
            for (int n; (n = client.getInputStream().read(buffer)) > 0; ) {
                behind.getOutputStream().write(buffer, 0, n);
                n = behind.getInputStream().read(buffer);
                client.getOutputStream().write(buffer, 0, n);
            }
        } catch (Exception gone) { }
    }
}
"""
STORE = """\
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
LOAD = """\
import json, socket, sys, time
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
end = time.time() + float(sys.argv[3]) + 1
while time.time() < end:
    start = time.time()
    c.sendall(b"hello\\n"); c.recv(64)
    print(json.dumps({"start": start, "duration": time.time() - start, "type": "publish"}))
"""
FRONT_STACK = """\
stack: front
command: ./front ${port} 127.0.0.1:${relay.port}
ready: { tcp: "${port}", within: 60s }
services:
  store:
    command: PYTHON store.py ${port}
    ready: { log: "^accepting", within: 60s }
  relay:
    command: java Relay.java ${port} ${store.port}
    ready: { tcp: "${port}", within: 60s }
knobs:
  app.delay:
    service: store
    levels: { quick: 1, slow: 40 }
    argument: "--delay=${level}"
    read_back: { file: state.txt, pattern: "delay=([0-9]+)" }
"""
FRONT_STUDY = """\
study: front
question: Is it slower?
stack: front.stack.yaml
workload:
  generator: { name: lines, program: PYTHON, script: load.py, options: "${host} ${port} ${seconds}" }
  ramp_up: 1s
  steady: 2s
  ramp_down: 0s
factors: { app.delay: [quick, slow], placement.server_cpus: [all, "0"] }
settings: { relay.jvm.heap: 64m }
design: { replicates: 2, sentinels: null }
responses: [throughput, p50]
"""


@pytest.fixture
def front(tmp_path: Path) -> dict[str, str]:
    """A native program, with a JVM and a program of neither kind behind it, and a load of its own."""
    files = {"front.rs": FRONT, "Relay.java": RELAY, "store.py": STORE, "load.py": LOAD}
    files |= {"front.stack.yaml": FRONT_STACK, "front.yaml": FRONT_STUDY}
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace("PYTHON", sys.executable))
    subprocess.run(["rustc", "-O", "front.rs", "-o", "front"], cwd=tmp_path, check=True)
    return files


def test_a_native_program_is_measured_with_services_behind_it(front: dict[str, str], tmp_path: Path) -> None:
    knobs = leadline("knobs", "jvm.heap", "--stack", "front.stack.yaml", cwd=tmp_path).stdout
    assert "relay.jvm.heap" in knobs
    assert not re.search(r"(?m)^(store\.)?jvm\.", knobs)  # it is no JVM itself, nor is the store
    done = leadline("stack", "check", "front.stack.yaml", cwd=tmp_path)
    assert (done.returncode, "start: after store, relay" in done.stdout) == (0, True), done.stdout + done.stderr
    done = leadline("run", "front.yaml", "--json", cwd=tmp_path)
    assert done.returncode in (0, 4), done.stderr
    document = json.loads(done.stdout)
    trials = document["trials"]
    assert [trial["state"] for trial in trials] == ["done"] * 6, trials
    p50: dict[tuple[str, str], list[float]] = {}
    for trial in trials:
        levels = trial["planned"]["levels"]
        key = (levels["app.delay"], levels["placement.server_cpus"])
        p50.setdefault(key, []).append(trial["responses"]["p50"])
    slow = p50.pop(("slow", "all"))
    assert len(p50) == 2  # both sets of CPUs, read back
    assert min(slow) > 40 > min(map(min, p50.values())) > 0, (slow, p50)  # ms that the store waits
    effects = [
        effect
        for response in document["analysis"]["responses"]
        if response["response"] == "p50"
        for effect in response["effects"]
        if effect["factor"] == "app.delay"
    ]
    (effect,) = effects  # two trials of each level, beside a neighbour, may be too few for a verdict
    assert effect["verdict"] in ("worse", "undetermined"), effects
    raw = Path(trials[0]["directory"]) / "raw" / "relay" / "gc.log"
    assert raw.stat().st_size > 0
    assert all((tmp_path / name).read_text() == text.replace("PYTHON", sys.executable) for name, text in front.items())


def test_kill_9_of_leadline_leaves_no_service(front: dict[str, str], tmp_path: Path) -> None:
    assert front
    argv = [sys.executable, "-m", "leadline.cli", "run", "front.yaml"]
    run = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not _of(tmp_path, "./front") and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert all(_of(tmp_path, word) for word in ("store.py", "Relay.java"))
    finally:
        run.kill()
        run.wait()
    restored = leadline("restore", cwd=tmp_path)
    assert restored.returncode == 0, restored.stderr
    assert not any(_of(tmp_path, word) for word in ("store.py", "Relay.java", "front"))


def _of(directory: Path, word: str) -> list[int]:
    """Processes of a test's own files with this word in their command lines."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (process / "cmdline").read_bytes().decode(errors="replace")
            if f"{directory}/{word.removeprefix('./')}" in line:
                pids.append(int(process.name))
    return pids


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
