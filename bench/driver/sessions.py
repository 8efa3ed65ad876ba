"""The same sessions for every generator: login, a page with a token, six transactions (three pages, two forms, an act
with the token), logout; 20 ms of thinking after each transaction; answers checked; a new session is a new user.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common import PORT, RELEASE, ROOT, URL, child

REQUESTS = 9  # of a session
THINK_MS = 20
STEPS = ("look", "form", "look", "act", "look", "form")
HYPERFOIL = Path(__file__).parent / "hyperfoil"


@dataclass(frozen=True)
class Used:
    requests: int
    cpu: float  # seconds


Run = Callable[[float, float], Used]  # requests a second, seconds


def cache() -> Path:
    """Where what the bench fetches and builds is kept."""
    base = os.environ.get("LEADLINE_CACHE") or str(
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leadline"
    )
    return Path(base) / "bench"


def _request(step: str) -> str:
    if step == "act":
        return '{ post: /act, form: { token: "${token}" }, check: { contains: done } }'
    extract = ', extract: { token: { regex: \'name="token" value="([^"]*)"\' } }' if step == "form" else ""
    return f"{{ get: /{step}, check: {{ contains: page }}{extract} }}"


def leadline_scenario() -> str:
    rows = [f"  start: {{ {STEPS[0]}1: 1 }}"]
    for number, step in enumerate(STEPS, 1):
        following = f"{STEPS[number]}{number + 1}" if number < len(STEPS) else "end"
        rows.append(f"  {step}{number}: {{ {following}: 1 }}")
    steps = "\n".join(f"  {step}{number}: [{_request(step)}]" for number, step in enumerate(STEPS, 1))
    login = f"  login: [{{ post: /login, form: {{ user: u }}, check: {{ contains: Welcome }} }}, {_request('form')}]"
    head = f"scenario: sessions\nlogin: login\nlogout: logout\npause: {{ shape: fixed, mean: {THINK_MS}ms }}\n"
    graph = "graph:\n" + "\n".join(rows)
    return f"{head}{graph}\ntransactions:\n{login}\n  logout: [{{ post: /logout }}]\n{steps}\n"


def leadline(*options: str) -> Run:
    def run(rate: float, seconds: float) -> Used:
        with tempfile.TemporaryDirectory() as scratch:
            scenario, out = Path(scratch, "sessions.yaml"), Path(scratch, "out")
            scenario.write_text(leadline_scenario())
            argv = [str(RELEASE / "leadline-load"), "run", str(scenario), "--url", URL, "--out", str(out)]
            argv += ["--arrivals", "constant", "--rate", str(rate / REQUESTS), "--steady", f"{seconds}s"]
            _, cpu, _ = child([*argv, "--ramp-down", "1s", "--priority", "normal", *options])
            found = json.loads((out / "summary.json").read_text())
        if set(found["errors"]) - {"unfinished"} or found["dropped"]:
            raise SystemExit(f"leadline-load: errors {found['errors']}, dropped {found['dropped']}")
        return Used(found["requests"]["count"], cpu)

    return run


K6 = """import http from 'k6/http';
import { check, sleep } from 'k6';
export const options = { discardResponseBodies: false, scenarios: { s: { executor: 'constant-arrival-rate',
  rate: %d, timeUnit: '9s', duration: '%dms', preAllocatedVUs: 300, maxVUs: 1000 } } };
const url = '%s';
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
  sleep(0.02);
  for (const name of %s) { step(name); sleep(0.02); }
  http.post(url + '/logout');
}
"""


def k6() -> Run | str:
    """The generator, or why there is none."""
    binary = cache() / "k6"
    if not binary.exists():
        if not shutil.which("go"):
            return "k6 is not there: it is built with Go, which is not installed"
        made = subprocess.run(
            ["go", "install", "go.k6.io/k6@v1.8.1"],
            env={**os.environ, "GOBIN": str(cache())},
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            return f"k6 could not be built: {made.stderr.strip().splitlines()[-1]}"

    def run(rate: float, seconds: float) -> Used:
        with tempfile.TemporaryDirectory() as scratch:
            script, summary = Path(scratch, "s.js"), Path(scratch, "summary.json")
            script.write_text(K6 % (round(rate), round(seconds * 1000), URL, json.dumps(STEPS)))
            _, cpu, _ = child(
                [str(binary), "run", "-q", "--no-usage-report", "--summary-export", str(summary), str(script)]
            )
            metrics = json.loads(summary.read_text())["metrics"]
        failed, dropped = metrics["checks"]["fails"], metrics.get("dropped_iterations", {}).get("count", 0)
        if failed or dropped:
            raise SystemExit(f"k6: {failed} checks failed, {dropped} iterations dropped")
        return Used(metrics["http_reqs"]["count"], cpu)

    return run


def hyperfoil_benchmark(rate: float, seconds: float) -> str:
    def ask(method: str, path: str, rest: str = "") -> str:
        return f"      - httpRequest:\n          {method}: {path}\n          metric: {path[1:]}\n{rest}"

    def form(field: str) -> str:
        return f"          body:\n            form:\n            - name: {field}\n"

    token = (
        "          handler:\n            body:\n              parseHtml:\n                onTagAttribute:\n"
        "                  tag: input\n                  attribute: value\n                  toVar: token\n"
    )
    think = f"      - thinkTime: {THINK_MS}ms\n"
    steps = {
        "look": ask("GET", "/look"),
        "form": ask("GET", "/form", token),
        "act": ask("POST", "/act", form("token") + "              fromVar: token\n"),
    }
    body = ask("POST", "/login", form("user") + "              value: u\n") + steps["form"] + think
    body += "".join(steps[step] + think for step in STEPS) + ask("POST", "/logout")
    return (
        f"name: sessions\nhttp:\n  host: {URL}\n  sharedConnections: 300\nphases:\n- run:\n    constantRate:\n"
        f"      usersPerSec: {rate / REQUESTS}\n      duration: {round(seconds * 1000)}ms\n      maxSessions: 1000\n"
        "      scenario:\n      - session:\n" + "\n".join("  " + line for line in body.splitlines()) + "\n"
    )


def hyperfoil(warm: float) -> Run | str:
    """The generator (its engine, embedded), warmed for so many seconds before it is measured; or why there is none."""
    classes = cache() / "hyperfoil"
    if not (classes / "Run.class").exists():
        if not (shutil.which("mvn") and shutil.which("javac")):
            return "Hyperfoil is not there: Maven and a JDK are not installed"
        mvn = ["mvn", "-q", "-B", "-f", str(HYPERFOIL / "pom.xml"), "dependency:copy-dependencies"]
        made = subprocess.run([*mvn, f"-DoutputDirectory={classes}"], capture_output=True, text=True, check=False)
        if made.returncode:
            return f"Hyperfoil could not be fetched: {(made.stdout or made.stderr).strip().splitlines()[0]}"
        javac = ["javac", "-cp", f"{classes}/*", "-d", str(classes), str(HYPERFOIL / "Run.java")]
        subprocess.run(javac, check=True)

    def run(rate: float, seconds: float) -> Used:
        with tempfile.TemporaryDirectory() as scratch:
            files = []
            for number, length in enumerate([warm, seconds] if warm else [seconds]):
                files.append(Path(scratch, f"{number}.yaml"))
                files[-1].write_text(hyperfoil_benchmark(rate, length))
            text, cpu, _ = child(["java", "-cp", f"{classes}:{classes}/*", "Run", *map(str, files)])
        lines = re.findall(r"^cpu ([\d.]+) ok (\d+) other (\d+)", text, re.M)
        if len(lines) != len(files) or any(int(other) for _, _, other in lines):
            raise SystemExit(f"Hyperfoil: {lines}\n{text[:2000]}")
        return Used(int(lines[-1][1]), float(lines[-1][0]) if warm else cpu)

    return run


def first_request(argv: list[str]) -> float:
    """Seconds from the start of a generator until its first connection arrives."""
    import socket  # here: only this function listens itself

    with socket.create_server(("127.0.0.1", PORT)) as listener:
        listener.settimeout(60)
        begin = time.monotonic()
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
        try:
            listener.accept()[0].close()
            return time.monotonic() - begin
        finally:
            process.kill()
            process.wait()
