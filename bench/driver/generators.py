"""The same sessions for every generator that knows sessions: login, a page with a token, six transactions (three pages,
two forms, an act with the token), logout; rest after each transaction; a new session is a new user.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common import RELEASE, URL

REQUESTS = 9  # of a session
STEPS = ("look", "form", "look", "act", "look", "form")
REST_MS = 20
IDLE_MS = 600_000
CONNECTIONS = 300  # most that are shared, where that can be said
WARM_USERS = 64
GRIDDED = "leadline-load, --grid 1ms"
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Load:
    """What a generator is to do for ``seconds``: so many requests a second, or always so many users who never rest, or
    so many users who come one by one and then rest for longer than the run. ``warm``: seconds in which 64 users who
    never rest work before that. ``shared``: connections are kept beyond a session, for any other; else each session
    has its own.
    """

    seconds: float
    rate: float = 0.0
    users: int = 0
    idle: int = 0
    warm: int = 0
    shared: bool = False

    @property
    def rest_ms(self) -> int:
        return 0 if self.users else IDLE_MS if self.idle else REST_MS


@dataclass(frozen=True)
class Generator:
    """``argv`` writes its files to a folder and gives the command; ``missing`` says why there is none, else "". A
    generator that ``compiles`` itself while it runs is measured both cold and warm. A ``variant`` of one is in the
    comparison of sessions alone.
    """

    name: str
    argv: Callable[[Load, Path], list[str]]
    missing: Callable[[], str] = str
    compiles: bool = False
    shares: bool = True  # can keep connections beyond sessions
    variant: bool = False


def cache() -> Path:
    """Where what the bench fetches and builds is kept."""
    base = os.environ.get("LEADLINE_CACHE") or str(
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leadline"
    )
    return Path(base) / "bench"


def _step(step: str) -> str:
    if step == "act":
        return '{ post: /act, form: { token: "${token}" }, check: { contains: done } }'
    extract = ', extract: { token: { regex: \'name="token" value="([^"]*)"\' } }' if step == "form" else ""
    return f"{{ get: /{step}, check: {{ contains: page }}{extract} }}"


def leadline_scenario(load: Load) -> str:
    rows = [f"  start: {{ {STEPS[0]}1: 1 }}"]
    for number, step in enumerate(STEPS, 1):
        following = f"{STEPS[number]}{number + 1}" if number < len(STEPS) else "end"
        rows.append(f"  {step}{number}: {{ {following}: 1 }}")
    steps = "\n".join(f"  {step}{number}: [{_step(step)}]" for number, step in enumerate(STEPS, 1))
    login = f"  login: [{{ post: /login, form: {{ user: u }}, check: {{ contains: Welcome }} }}, {_step('form')}]"
    pause = f"pause: {{ shape: fixed, mean: {load.rest_ms}ms }}\n" if load.rest_ms else ""
    graph = "graph:\n" + "\n".join(rows)
    head = f"scenario: sessions\nlogin: login\nlogout: logout\n{pause}{graph}\n"
    return f"{head}transactions:\n{login}\n  logout: [{{ post: /logout }}]\n{steps}\n"


def _leadline(load: Load, folder: Path, *more: str) -> list[str]:
    scenario = folder / "sessions.yaml"
    scenario.write_text(leadline_scenario(load))
    argv = [str(RELEASE / "leadline-load"), "run", str(scenario), "--url", URL, "--out", str(folder / "out")]
    argv += ["--replace"]  # some comparisons start it again and again
    argv += ["--priority", "normal", "--max-sessions", "12000", "--verdict", "file", *more]
    argv += ["--connections", "shared", "--max-connections", str(CONNECTIONS)] if load.shared else []
    if load.rate:
        argv += ["--arrivals", "constant", "--rate", str(load.rate / REQUESTS), "--ramp-down", "1s"]
        return [*argv, "--steady", f"{load.seconds}s"]
    if load.users:
        return [*argv, "--users", str(load.users), "--steady", f"{load.seconds}s"]
    return [*argv, "--users", str(load.idle), "--ramp-up", f"{load.seconds}s", "--steady", "10m"]


_K6 = """import http from 'k6/http';
import { check, sleep } from 'k6';
export const options = { discardResponseBodies: false, noVUConnectionReuse: %s, scenarios: { s: %s } };
const url = '%s', rest = %s;
let token = '';
function step(name) {
  if (name === 'act') {
    check(http.post(url + '/act', { token: token }), { done: (r) => r.status === 200 && r.body.includes('done') });
    return;
  }
  const page = http.get(url + '/' + name);
  check(page, { page: (r) => r.status === 200 && r.body.includes('page') });
  if (name === 'form') { token = page.body.match(/name="token" value="([^"]*)"/)[1]; }
}
export default function () {
  check(http.post(url + '/login', { user: 'u' }), { hello: (r) => r.body.includes('Welcome') });
  step('form');
  for (const name of %s) { if (rest) sleep(rest); step(name); }
  if (rest) sleep(rest);
  http.post(url + '/logout');
}
"""


def _k6(load: Load, folder: Path) -> list[str]:
    span = f"{round(load.seconds * 1000)}ms"
    executor: dict[str, object]
    if load.rate:
        executor = {"executor": "constant-arrival-rate", "rate": round(load.rate), "timeUnit": f"{REQUESTS}s"}
        executor |= {"duration": span, "preAllocatedVUs": 100, "maxVUs": 1000}
    elif load.users:
        executor = {"executor": "constant-vus", "vus": load.users, "duration": span}
    else:
        executor = {"executor": "ramping-vus", "startVUs": 1, "stages": [{"duration": span, "target": load.idle}]}
        executor["stages"] = [{"duration": span, "target": load.idle}, {"duration": "10m", "target": load.idle}]
    script = folder / "sessions.js"
    script.write_text(
        _K6 % (json.dumps(not load.shared), json.dumps(executor), URL, load.rest_ms / 1000, json.dumps(STEPS))
    )
    return [str(cache() / "k6"), "run", "-q", "--no-usage-report", str(script)]


def _k6_missing() -> str:
    if (cache() / "k6").exists():
        return ""
    if not shutil.which("go"):
        return "k6 is built with Go, which is not installed"
    environment = {**os.environ, "GOBIN": str(cache())}
    made = subprocess.run(
        ["go", "install", "go.k6.io/k6@v1.8.1"], env=environment, capture_output=True, text=True, check=False
    )
    return f"k6 could not be built: {made.stderr.strip().splitlines()[-1]}" if made.returncode else ""


def hyperfoil_benchmark(load: Load) -> str:
    def ask(method: str, path: str, rest: str = "") -> str:
        return f"      - httpRequest:\n          {method}: {path}\n          metric: {path[1:]}\n{rest}"

    def form(field: str) -> str:
        return f"          body:\n            form:\n            - name: {field}\n"

    token = (
        "          handler:\n            body:\n              parseHtml:\n                onTagAttribute:\n"
        "                  tag: input\n                  attribute: value\n                  toVar: token\n"
    )
    think = f"      - thinkTime: {load.rest_ms}ms\n" if load.rest_ms else ""
    steps = {
        "look": ask("GET", "/look"),
        "form": ask("GET", "/form", token),
        "act": ask("POST", "/act", form("token") + "              fromVar: token\n"),
    }
    body = ask("POST", "/login", form("user") + "              value: u\n") + steps["form"]
    body += "".join(think + steps[step] for step in STEPS) + think + ask("POST", "/logout")
    span, connections = f"{round(load.seconds * 1000)}ms", CONNECTIONS
    if load.rate:
        phase = f"    constantRate:\n      usersPerSec: {load.rate / REQUESTS}\n      variance: false\n"
        phase += f"      duration: {span}\n      maxSessions: 1000\n"
    elif load.users:
        phase = f"    always:\n      users: {load.users}\n      duration: {span}\n"
    else:
        phase = f"    constantRate:\n      usersPerSec: {load.idle / load.seconds}\n      variance: false\n"
        phase += f"      duration: {span}\n      maxSessions: {load.idle + 100}\n"
        connections = max(1, load.idle)  # as many as the others have
    strategy = "SHARED_POOL" if load.shared else "OPEN_ON_REQUEST"  # and closed with the session
    return (
        f"name: sessions\nhttp:\n  host: {URL}\n  sharedConnections: {connections}\n"
        f"  connectionStrategy: {strategy}\nphases:\n- run:\n{phase}"
        "      scenario:\n      - session:\n" + "\n".join("  " + line for line in body.splitlines()) + "\n"
    )


def _hyperfoil(load: Load, folder: Path) -> list[str]:
    loads = [Load(load.warm, users=WARM_USERS, shared=load.shared)] if load.warm else []
    files = []
    for number, each in enumerate([*loads, load]):
        files.append(folder / f"{number}.hf.yaml")
        files[-1].write_text(hyperfoil_benchmark(each))
    return ["java", "-cp", f"{cache() / 'hyperfoil'}/*:{cache() / 'hyperfoil'}", "Run", *map(str, files)]


def _gatling(load: Load, folder: Path) -> list[str]:
    which: dict[str, float] = {"rate": load.rate / REQUESTS} if load.rate else {"idle": load.idle}
    which = {"users": load.users} if load.users else which
    given = {"url": URL, "steps": ",".join(STEPS), "think": load.rest_ms, "seconds": load.seconds, "warm": load.warm}
    properties = [f"-D{key}={value}" for key, value in {**given, **which}.items()]
    classes = cache() / "gatling"
    # With one processor in sight it waits for ever.
    argv = [
        "java",
        "-XX:ActiveProcessorCount=2",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        *properties,
        "-cp",
        f"{classes}:{classes}/*",
    ]
    return [*argv, "io.gatling.app.Gatling", "-s", "Sessions", "-rf", str(folder / "results"), "-nr"]


def _java_missing(name: str) -> str:
    """Fetches and compiles what lies in the folder of that name."""
    source, classes = HERE / name, cache() / name
    if not (shutil.which("mvn") and shutil.which("javac")):
        return f"{name} is fetched with Maven and compiled with a JDK, which are not installed"
    if not any(classes.glob("*.jar")):
        mvn = ["mvn", "-q", "-B", "-f", str(source / "pom.xml"), "dependency:copy-dependencies"]
        made = subprocess.run([*mvn, f"-DoutputDirectory={classes}"], capture_output=True, text=True, check=False)
        if made.returncode:
            return f"{name} could not be fetched: {(made.stdout or made.stderr).strip().splitlines()[0]}"
    javac = ["javac", "-cp", f"{classes}/*", "-d", str(classes), *map(str, source.glob("*.java"))]
    made = subprocess.run(javac, capture_output=True, text=True, check=False)
    for file in source.glob("*.xml"):
        shutil.copy(file, classes)
    return f"{name}: javac: {made.stderr.strip().splitlines()[0]}" if made.returncode else ""


GENERATORS = (
    Generator("leadline-load", _leadline),
    Generator(GRIDDED, lambda load, folder: _leadline(load, folder, "--grid", "1ms"), variant=True),
    Generator("k6", _k6, _k6_missing),
    Generator("Hyperfoil", _hyperfoil, lambda: _java_missing("hyperfoil"), compiles=True),
    Generator("Gatling", _gatling, lambda: _java_missing("gatling"), compiles=True, shares=False),
)


@functools.cache
def present(variants: bool = False) -> tuple[tuple[Generator, ...], tuple[str, ...]]:
    """Those that can be run, and why the others cannot."""
    found = [(generator, generator.missing()) for generator in GENERATORS if variants or not generator.variant]
    absent = tuple(f"{one.name}: {reason}" for one, reason in found if reason)
    return tuple(one for one, reason in found if not reason), absent
