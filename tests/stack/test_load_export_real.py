"""An exported scenario, run by the real tool, asks the server for what leadline-load asks."""

import os
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from witnesses import matrix

from leadline.load.driver import find_binary
from leadline.load.export.write import export_scenario

pytestmark = pytest.mark.stack
K6 = matrix("k6, whose script tests/unit/load/test_load_export.py looks at alone")

# One user, one session in the time there is: every request is determined.
SCENARIO = """
scenario: shop
parameters: { items: 3, label: "a b" }
identities: 50
variables: { account: "user-${zpad:4:${user}}" }
pause: { shape: fixed, mean: 20ms }
login: login
logout: logout
headers: { X-Label: "${label}" }
graph:
  start: { list: 1 }
  list: { buy: 1 }
  buy: { odd: 1 }
  odd: { wait: 1 }
  wait: { end: 1 }
transactions:
  login:
    - post: /login
      form: { user: "${account}", "p w": "x&y" }
      check: { contains: "hello" }
  list:
    - get: /list?n=${items}
      extract:
        first: '"id": "(\\w+)"'
        last: { json: "/items/*/id", pick: last }
        title: { css: "h1.t", attribute: id }
        token: { header: x-token }
      check: { matches: 'hel+o', lacks: nothing, json: { /items/0/n: "${number:1}" }, header: { x-token: "^t" } }
  buy:
    - repeat: 2
      requests:
        - put: /buy/${first}/${last}/${title}/${token}
          json: { account: "${account}", n: "${number:${items}}", quote: "\\"${label}\\"", list: [1, true, null, 2.5] }
  odd:
    when_missing: skip
    requests:
      - get: /odd
        extract: { nowhere: "never (.*)" }
      - get: /never
  wait:
    - get: /redirect
    - get: /gone
      check: { skip_status: 404 }
    - get: /not-reached
  logout:
    - delete: /logout
"""
BODY = b'<h1 class="t" id="title">hello</h1>'
JSON = b'{"hello": "<h1 class=\\"t\\" id=title>", "items": [{"id": "i1", "n": 1}, {"id": "i2"}]}'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    lock = threading.Lock()
    seen: Counter[str]

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        words = [self.command, self.path, body, self.headers.get("Content-Type") or "", self.headers["X-Label"] or ""]
        with self.lock:
            self.seen[" | ".join([*words, self.headers.get("Cookie") or ""])] += 1
        answer = b"hello" if self.path == "/login" else JSON
        self.send_response(302 if self.path == "/redirect" else 404 if self.path == "/gone" else 200)
        if self.path == "/redirect":
            self.send_header("Location", "/landed")
        if self.path == "/login":
            self.send_header("Set-Cookie", "s=1; Path=/")
        self.send_header("X-Token", "t1")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[tuple[str, type[_Handler]]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_address[1]}", _Handler
        found.shutdown()


@K6
def test_k6_asks_for_the_same(server: tuple[str, type[_Handler]], tmp_path: Path) -> None:
    k6 = shutil.which("k6") or pytest.skip("k6 is not on the path")
    url, handler = server
    scenario, script = tmp_path / "shop.yaml", tmp_path / "shop.js"
    scenario.write_text(SCENARIO)
    script.write_text(export_scenario(str(scenario), "k6"))

    handler.seen = Counter()
    replay(scenario, url, tmp_path / "out", [0, 0.1, 0.2])
    ours, handler.seen = handler.seen, Counter()
    run_k6(k6, script, url, "3")
    theirs = handler.seen

    def shape(seen: Counter[str]) -> Counter[str]:
        """Per session, users and content types' parameters aside: both count their users on as they come."""
        return Counter(key.replace(f"user-{n:04d}", "user") for key in seen.elements() for n in [_user(key)])

    mine, other = shape(ours), shape(theirs)
    assert set(mine) == set(other)
    count = mine[next(key for key in mine if "/login" in key)]
    assert count == 3
    for key, times in mine.items():
        assert times % count == 0, key
        assert other[key] * count == times * other[next(key for key in other if "/login" in key)], key
    assert {_user(key) for key in ours if "/login" in key} == {1, 2, 3}
    assert {_user(key) for key in theirs if "/login" in key} >= {1, 2, 3}


LINKS = """
scenario: links
login: login
headers: { X-Label: "l${seq}" }
graph: { start: { page: 1 }, page: { out: 1 }, out: { page: 1 } }
arrivals: { session_length: 4 }
transactions:
  login: [{ post: /login }]
  page:
    - get: /dir/page?z=1
      extract:
        whole: { css: "a.whole", attribute: href }
        root: { css: "a.root", attribute: href }
        near: { css: "a.near", attribute: HREF }
        text: { css: h1 }
        id: '"id": (\\d+)'
    - get: "${root}"
    - get: "${near}"
    - get: "${choice:?p=2}"
    - get: "${choice:../up/./n}"
    - get: "${whole}"
    - post: "/p?to=303:/shop/x/land"
      form: { a: b }
    - get: "${near}"
    - post: "/p?to=307:land"
      form: { a: b }
    - head: "/p?to=301:/shop/h"
    - get: "/p?to=302:/shop/never"
      check: { status: 302 }
    - get: "/p?to=302:/shop/never"
      check: { status: [200, 302] }
    - get: "/p?to=301:/shop/once"
      check: { status: [200, 302] }
    - post: "/x/${text}/${mod:${id}:0}/${choice:${seq}:${seq}}"
      json: { id: "${number:${id}}", text: "${text}", next: "${seq}" }
    - get: "/p?to=302:http://elsewhere/"
    - get: /never
  out: { ends_session: true, requests: [{ get: /out }] }
"""


class _Shop(_Handler):
    asked: list[str]

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.asked.append(" | ".join([self.command, self.path, body, self.headers.get("Cookie") or ""]))
        _, _, target = self.path.partition("?to=")
        code, _, location = target.partition(":")
        here = f"http://{self.headers['Host']}"
        page = f'<a class="whole" href="{here}/shop/w#x"><a class="root" href="/shop/r"><a class="near" href="a?x=1">'
        page += '<h1> a <b>b</b>\n</h1>"id": 123456789012345678'
        self.send_response(int(code or 200))
        if location:
            self.send_header("Location", location)
        if self.path == "/shop/login":
            for cookie in ("root=1; Path=/", "shop=1; Path=/shop", "none=1"):
                self.send_header("Set-Cookie", cookie)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.encode())

    do_POST = do_HEAD = do_GET  # noqa: N815


@K6
def test_k6_follows_links_and_redirects_to_the_same_pages(tmp_path: Path) -> None:
    k6 = shutil.which("k6") or pytest.skip("k6 is not on the path")
    scenario, script = tmp_path / "links.yaml", tmp_path / "links.js"
    scenario.write_text(LINKS)
    script.write_text(export_scenario(str(scenario), "k6"))
    with ThreadingHTTPServer(("127.0.0.1", 0), _Shop) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/shop"
        _Shop.asked = []
        replay(scenario, url, tmp_path / "out", [0])
        ours, _Shop.asked = _Shop.asked, []
        run_k6(k6, script, url, "1")
        server.shutdown()
    assert len(ours) == 2 * 21
    assert _Shop.asked[: len(ours)] == ours


WALK = """
scenario: walk
parameters: { n: 2 }
variables: { account: "acc-${zpad:4:${random:7:7}}" }
pause: { shape: exponential, mean: 2ms }
login: login
logout: logout
headers: { X-Label: "l$${n}" }
graph:
  start: { list: 1 }
  list: { buy: 1 }
  buy: { end: 1 }
transactions:
  login:
    - post: /login
      form: { user: "${account}", "p w": "x&y" }
      check: { contains: "hello" }
  list:
    - get: /list?n=${n}
      extract: { first: { json: /items/0/id } }
    - get: /redirect
    - get: /redirect
      check: { status: 302 }
    - get: /list?n=${n}
  buy:
    - repeat: 2
      requests:
        - put: /buy/${first}
          json: { account: "${account}", n: "${number:${random:3:3}}", list: [1, true, null] }
    - get: /gone
      check: { status: 404 }
  logout:
    - delete: /logout
"""
HYPERFOIL = Path(__file__).parent / "hyperfoil"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:build-classpath"


@pytest.fixture(scope="module")
def hyperfoil(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs a benchmark with Hyperfoil's core; FILE URL [PARAMETER=VALUE ...] follow."""
    place = tmp_path_factory.mktemp("hyperfoil")
    jars = place / "jars"
    argv = ["mvn", "-B", "-q", "-f", str(HYPERFOIL / "pom.xml"), PLUGIN, f"-Dmdep.outputFile={jars}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(f"Maven cannot have Hyperfoil's core: {done.stdout.strip().splitlines()[:1]}")
    classes = f"{jars.read_text().strip()}:{place}"
    subprocess.run(["javac", "-cp", classes, "-d", str(place), str(HYPERFOIL / "RunHyperfoil.java")], check=True)
    return ["java", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN", "-cp", classes, "RunHyperfoil"]


def run_hyperfoil(argv: list[str], benchmark: Path, *more: str) -> None:
    done = subprocess.run([*argv, str(benchmark), *more], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.endswith("ended\n"), done.stdout + done.stderr
    errors = [line for line in done.stdout.splitlines() if " ERROR " in line and "jitter-watchdog" not in line]
    assert not errors, errors


def run_k6(k6: str, script: Path, url: str, rate: str) -> None:
    """For a second."""
    env = {**os.environ, "LEADLINE_URL": url, "RATE": rate, "DURATION": "1s"}
    argv = [k6, "run", "--quiet", "--no-usage-report", str(script)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Error" not in done.stderr, done.stderr


def replay(scenario: Path, url: str, out: Path, starts: Sequence[float]) -> None:
    """Sessions of leadline-load at these seconds."""
    times = out.with_suffix(".times")
    times.write_text("".join(f"{at}\n" for at in starts))
    load = ["--arrivals", "replay", "--replay", str(times), "--steady", "3s", "--url", url, "--out", str(out)]
    subprocess.run([str(find_binary()), "run", str(scenario), *load], check=True, timeout=60)


def test_hyperfoil_asks_for_the_same(server: tuple[str, type[_Handler]], hyperfoil: list[str], tmp_path: Path) -> None:
    url, handler = server
    scenario, benchmark = tmp_path / "walk.yaml", tmp_path / "walk.hf.yaml"
    scenario.write_text(WALK)
    benchmark.write_text(export_scenario(str(scenario), "hyperfoil"))

    handler.seen = Counter()
    run_hyperfoil(hyperfoil, benchmark, url)
    theirs, handler.seen = handler.seen, Counter()
    replay(scenario, url, tmp_path / "out", [0, 0.1, 0.2])
    ours = handler.seen
    assert set(ours) == set(theirs)
    logins = [sum(count for key, count in seen.items() if "| /login |" in key) for seen in (ours, theirs)]
    assert logins[0] == 3
    assert logins[1] >= 4  # 5 a second for a second
    for key, number in ours.items():
        assert theirs[key] * logins[0] == number * logins[1], key


def _user(key: str) -> int:
    at = key.find("user-")
    return int(key[at + 5 : at + 9]) if at >= 0 else 0
