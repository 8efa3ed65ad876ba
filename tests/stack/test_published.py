"""Published servers as they are: a jar of Jetty, a Spring Boot server, a message broker, and a WAR on Open Liberty over
its own server.xml. Each comes from nothing to a checked stack and a first study of a planted mistake by the commands of
docs/tutorials/own-application.md; the study is ended by `kill -9`, put back, and goes on.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import leadline
from jvm_generators import jmeter
from own_examples import EXAMPLES, built
from witnesses import matrix, until

from leadline.model.errors import LeadlineError
from leadline.stack.provision import Artefact, fetch

pytestmark = pytest.mark.stack

WIREMOCK = Artefact(
    "org.wiremock",
    "wiremock-standalone",
    "3.13.1",
    "jar",
    "",
    "bdf4c705e7fd61c778e59a19f75396eac4520efeabfac97643a53979bd4d5716",
    19384268,
    "none",
)
ZIPKIN = Artefact(
    "io.zipkin",
    "zipkin-server",
    "3.4.4",
    "jar",
    "exec",
    "45530b0d895d7b56fffa5f6385f4bd45a6b8aa3c57e1c2bda4b4bb1225881333",
    87121076,
    "none",
)
ARTEMIS = Artefact(
    "org.apache.activemq",
    "apache-artemis",
    "2.37.0",
    "zip",
    "bin",
    "c362c124dcabdee734ad5e822aaa623c47370f556e9d6b801cb747278cdf9f86",
    57341904,
)

# An answer takes 50 ms in a thread of the server's own.
THING = '{ "request": { "urlPath": "/thing" }, "response": { "body": "a thing", "fixedDelayMilliseconds": 50 } }'
THINGS = """\
scenario: things
mix: { thing: 1 }
transactions:
  thing:
    - get: /thing
      check: { contains: a thing }
"""
OF_WIREMOCK = """\
directory: data
scenario: things.scenario.yaml
knobs:
  app.threads:
    range: [8, 200]
    default: 25
    argument: "--container-threads=${level}"
    read_back: { jcmd: VM.command_line, pattern: "--container-threads=([0-9]+)" }
"""
SPANS = """\
scenario: spans
mix: { send: 70, services: 30 }
transactions:
  send:
    - post: /api/v2/spans
      json:
        - { traceId: "${hex:16}", id: "${hex:16}", name: buy, timestamp: 1, duration: 10,
            localEndpoint: { serviceName: "shop-${random:1:20}" } }
      check: { status: 202 }
  services:
    - get: /api/v2/services
"""
START = """\
#!/bin/sh
"$2/bin/artemis" create --silent --user load --password load --no-autotune --nio --no-web --no-amqp-acceptor \\
  --no-hornetq-acceptor --no-mqtt-acceptor --no-stomp-acceptor --host 127.0.0.1 --default-port "$1" broker >/dev/null &&
exec broker/bin/artemis run
"""
OF_ARTEMIS = """\
environment: { JAVA_ARGS_APPEND: "${jvm}" }
knobs:
  app.flush:
    summary: nanoseconds that the journal gathers messages before it writes them
    range: [1, 1e9]
    default: 3333333
    system_property: brokerconfig.journalBufferTimeout_NIO
    read_back: { jcmd: VM.system_properties, key: brokerconfig.journalBufferTimeout_NIO }
"""
TRADES = """\
<jmeterTestPlan version="1.2" properties="5.0"><hashTree>
<TestPlan guiclass="TestPlanGui" testclass="TestPlan" testname="trades"/><hashTree>
<ThreadGroup guiclass="ThreadGroupGui" testclass="ThreadGroup" testname="traders">
<intProp name="ThreadGroup.num_threads">8</intProp><intProp name="ThreadGroup.ramp_time">0</intProp>
<boolProp name="ThreadGroup.scheduler">true</boolProp>
<stringProp name="ThreadGroup.duration">${__P(leadline.seconds)}</stringProp>
<elementProp name="ThreadGroup.main_controller" elementType="LoopController" testclass="LoopController">
<intProp name="LoopController.loops">-1</intProp></elementProp></ThreadGroup><hashTree>
<HTTPSamplerProxy guiclass="HttpTestSampleGui" testclass="HTTPSamplerProxy" testname="trade">
<stringProp name="HTTPSampler.domain">${__P(leadline.host)}</stringProp>
<stringProp name="HTTPSampler.port">${__P(leadline.port)}</stringProp>
<stringProp name="HTTPSampler.path">${__P(leadline.path)}/quote?id=1</stringProp>
<stringProp name="HTTPSampler.method">POST</stringProp><boolProp name="HTTPSampler.use_keepalive">true</boolProp>
<elementProp name="HTTPsampler.Arguments" elementType="Arguments"><collectionProp name="Arguments.arguments"/>
</elementProp></HTTPSamplerProxy><hashTree/></hashTree></hashTree></hashTree></jmeterTestPlan>
"""
# Persistent messages by STOMP, each sent once the one before it is on the disk.
SENDER = """\
import json, socket, sys, time
broker = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
answers = broker.makefile("rb")
def ask(command, *headers, body=""):
    broker.sendall("\\n".join([command, *headers, "", body + "\\0"]).encode())
    words = b""
    while (byte := answers.read(1)) != b"\\0":
        if not byte:
            sys.exit("the broker has closed the connection: " + words.decode())
        words += byte
    return words.split()[0].decode()
if ask("CONNECT", "accept-version:1.2", "host:x", "login:load", "passcode:load") != "CONNECTED":
    sys.exit("the broker refuses the connection")
kind = ["destination:orders", "destination-type:ANYCAST", "persistent:true", "receipt:1"]
end = time.time() + float(sys.argv[3]) + 1
while (start := time.time()) < end:
    answer = ask("SEND", *kind, body="x" * 200)
    print(json.dumps({"start": start, "duration": time.time() - start, "type": "send",
                      "outcome": "ok" if answer == "RECEIPT" else answer}))
"""


@dataclass(frozen=True)
class Published:
    """What a stranger writes for a server: ``files`` beside its jar or its start script, ``edits`` of lines of the
    first stack file and ``more`` lines, a study whose second level is the mistake. ``holds``: whatever else runs on
    the machine, of ``figure`` (the response if absent) of trials at the first and the second level. ``sent``: what its
    load writes, at whose first bytes the study is killed.
    """

    artefact: Artefact | None  # None: the WAR on Liberty
    files: Mapping[str, str]
    edits: Mapping[str, str]
    more: str
    workload: str
    factor: str
    levels: tuple[int, int]
    response: str
    holds: Callable[[Sequence[float], Sequence[float]], bool]
    heap: str = ""  # where that is not the factor
    figure: Callable[[Mapping[str, Any]], float] | None = None
    sent: str = ""

    def study(self) -> str:
        return f"""\
study: first
question: Is the second level a mistake?
stack: first.stack.yaml
workload: {{ {self.workload}, ramp_up: 1s, steady: 4s, ramp_down: 0s }}
factors: {{ {self.factor}: [{", ".join(map(str, self.levels))}] }}
settings: {{ {f"jvm.heap: {self.heap}" if self.heap else ""} }}
design: {{ replicates: 2, sentinels: null, seed: 3 }}
responses: [{self.response}]
"""


def collections(trial: Mapping[str, Any]) -> float:
    """Pauses in the GC log of a trial."""
    return sum("Pause " in line for line in (Path(trial["directory"]) / "raw" / "gc.log").read_text().splitlines())


JETTY = Published(
    WIREMOCK,
    {"data/mappings/thing.json": THING, "things.scenario.yaml": THINGS},
    {"3.13.1.jar]": '3.13.1.jar, --port, "${port}"]', "port: 8080\n": "", "path: /": "path: /__admin/health"},
    OF_WIREMOCK,
    "users: 24",
    "app.threads",
    (60, 12),
    "throughput",
    lambda _right, wrong: max(wrong) <= 12 / 0.05,
    "128m",
)
SPRING = Published(
    ZIPKIN,
    {"spans.scenario.yaml": SPANS},
    {},
    "scenario: spans.scenario.yaml\n",
    "users: 8",
    "jvm.heap",
    (400 << 20, 64 << 20),
    "gc_share",
    lambda right, wrong: min(wrong) > max(right),
    figure=collections,
)
WORDS = '"${host} ${port} ${seconds}"'
BROKER = Published(
    ARTEMIS,
    {"start.sh": START, "send.py": SENDER},
    {
        "[start.sh]": '[start.sh, "${port}", HOME]',
        "port: 8080\n": "",
        "{ path: / }": '{ log: "AMQ221007: Server is now" }',
    },
    OF_ARTEMIS,
    f"generator: {{ name: lines, program: {sys.executable}, script: send.py, options: {WORDS} }}",
    "app.flush",
    (3_333_333, 33_333_333),
    "p50",
    lambda _right, wrong: min(wrong) > 15,  # ms: a sender waits for the next write from the one before on
    "256m",
    sent="lines.jsonl",
)
OF_DATABASE = {"driver": "driver", "url": "jdbc", "user": "user", "password": "password"}
# A trade holds its connection for 50 ms.
LIBERTY = Published(
    None,
    {"trades.jmx": TRADES},
    {"path: / }": 'path: "/quote?id=1" }', "database: keep": "database: postgres"}
    | {f'DB_{name.upper()}: ""': f'DB_{name.upper()}: "${{database.{word}}}"' for name, word in OF_DATABASE.items()},
    'properties: { quotes.work: "50" }\n',
    "generator: { name: jmeter, program: JMETER, script: trades.jmx }",
    "server.datasource.max_connections",
    (7, 1),
    "throughput",
    lambda _right, wrong: max(wrong) <= 1 / 0.05,
    sent="jmeter.jtl",
)


def begun(published: Published, place: Path) -> None:
    """In ``place`` the stack file and the study of a server."""
    home, artifact, words = place, place / "start.sh", []
    try:
        if published.artefact is not None:
            home = fetch(published.artefact, print)
    except LeadlineError as error:
        pytest.skip(f"it is not in the Maven repositories that are reached: {error}")
    for name, text in published.files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    if published.artefact is None:
        artifact, words = place / "config", ["--server", "liberty"]
        (artifact / "apps").mkdir(parents=True)
        shutil.copy(built(EXAMPLES / "quotes", "quotes.war"), artifact / "apps")
        shutil.copy(EXAMPLES / "quotes/src/main/liberty/config/server.xml", artifact)
    elif home.is_file():
        artifact = place / home.name
        shutil.copy(home, artifact)
    else:
        artifact.chmod(0o755)
    done = leadline("stack", "init", artifact.name, *words, "--out", "first.stack.yaml", cwd=place)
    assert done.returncode == 0, done.stderr
    text = (place / "first.stack.yaml").read_text()
    for before, after in published.edits.items():
        assert before in text
        text = text.replace(before, after)
    text += published.more
    (place / "first.stack.yaml").write_text(text.replace("HOME", str(home / "apache-artemis-2.37.0")))
    study = published.study()
    if "JMETER" in study:
        study = study.replace("JMETER", jmeter(place / "jmeter"))
    (place / "first.yaml").write_text(study)


SERVERS = [
    pytest.param(JETTY, id="jetty", marks=matrix("a server of threads is measured on Liberty, too")),
    pytest.param(SPRING, id="spring", marks=matrix("the shop of examples/ is Spring Boot, too")),
    pytest.param(BROKER, id="broker"),
    pytest.param(LIBERTY, id="liberty"),
]


@pytest.mark.timeout(2400)  # a minute or two on a quiet machine
@pytest.mark.parametrize("published", SERVERS)
def test_from_nothing_to_a_planted_mistake(published: Published, tmp_path: Path) -> None:
    begun(published, tmp_path)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = leadline("stack", "check", "first.stack.yaml", cwd=tmp_path, timeout=900)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "a study can run on it"), done.stdout + done.stderr
    assert done.stdout.count("not read") <= 1, done.stdout
    if published.sent:
        killed(tmp_path, published.sent)
    done = leadline("run", "first.yaml", "--json", cwd=tmp_path, timeout=1800)
    assert done.returncode in (0, 4), done.stderr  # what differs may be lost beside a busy neighbour
    document = json.loads(done.stdout)
    figures: dict[int, list[float]] = {}
    for trial in document["trials"]:
        level = trial["planned"]["levels"][published.factor]
        if trial["state"] == "failed" and level == published.levels[1]:
            print(trial["failure"], trial["failure_message"])  # a mistake may cost the trial
            continue
        assert trial["state"] == "done", trial
        figure = published.figure(trial) if published.figure else trial["responses"][published.response]
        figures.setdefault(level, []).append(figure)
    right, wrong = (figures.get(level, []) for level in published.levels)
    assert right
    assert not wrong or published.holds(right, wrong), figures
    (effect,) = [effect for each in document["analysis"]["responses"] for effect in each["effects"]]
    assert effect["verdict"] in ("worse", "undetermined", *(() if wrong else ("failed",))), (effect, figures)
    print(effect["verdict"], figures)
    assert done.stderr.count("no series of its pools") == (published is not LIBERTY)
    assert {path: path.read_bytes() for path in files} == files
    nothing_is_left(tmp_path)


def killed(place: Path, sent: str) -> None:
    """A study of ``place``, by `kill -9` of leadline once its load is under way, and put back."""
    argv = [sys.executable, "-m", "leadline.cli", "run", "first.yaml"]
    run = subprocess.Popen(argv, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        log = place / "lab/trials/1/attempt-1/driver/raw" / sent
        until(lambda: log.is_file() and log.stat().st_size > 0, 600, "it is loaded")
    finally:
        run.kill()
        run.wait()
    restored = leadline("restore", cwd=place)
    assert restored.returncode == 0, restored.stderr
    nothing_is_left(place)


def nothing_is_left(place: Path) -> None:
    """Neither a process of a server in ``place`` nor a change of the host."""
    done = leadline("restore", cwd=place)
    assert (done.returncode, "nothing to put back" in done.stdout) == (0, True), done.stdout + done.stderr
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            assert str(place).encode() not in (process / "cmdline").read_bytes(), process
