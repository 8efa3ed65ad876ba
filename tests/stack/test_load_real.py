"""The real driver, started as the lab does, against a real server; its files read back."""

import json
import math
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jsonschema
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from recordings import API, FORM, PETS, asked, entry, har, tour
from ruamel.yaml import YAML

from leadline.load.command import run_scenario, scenario_schema
from leadline.load.convert.har import from_har
from leadline.load.convert.openapi import from_openapi
from leadline.load.driver import DriverRun, find_binary
from leadline.load.result import read_summary
from leadline.load.scenario import built_in_scenarios
from leadline.load.series import by_transaction, responses_between, seconds_between, steady_series
from leadline.model.workload import Workload

pytestmark = pytest.mark.stack

SCENARIO = """
scenario: two
pause: { shape: fixed, mean: 5ms }
mix: { good: 3, bad: 1 }
transactions:
  good: [{ get: /good, check: { contains: fine } }]
  bad: [{ get: /bad }]
"""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    seen: dict[str, int]

    def do_GET(self) -> None:
        body = b"fine"
        with self.lock:
            self.seen[self.path] = self.seen.get(self.path, 0) + 1
        self.send_response(200 if self.path == "/good" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, int]]]:
    _Handler.seen = {}
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_address[1]}", _Handler.seen
        found.shutdown()


def value_at_rank(histogram: HdrHistogram, percentile: float) -> int:
    """The smallest value that at least `percentile` of the values do not exceed.

    The Python library rounds the rank to the nearest, HdrHistogram itself and the driver round up.
    """
    total = histogram.get_total_count()
    rank = math.ceil(percentile / 100 * total)
    return int(histogram.get_value_at_percentile((rank - 0.25) / total * 100))


def test_files_agree_with_each_other_and_with_the_server(server: tuple[str, dict[str, int]], tmp_path: Path) -> None:
    url, seen = server
    scenario = tmp_path / "two.yaml"
    scenario.write_text(SCENARIO)
    workload = Workload(scenario=str(scenario), users=1, ramp_up=1, steady=2, ramp_down=0.5)
    run = DriverRun(workload, url, 5, tmp_path / "out")
    log = tmp_path / "driver.log"
    with log.open("w") as output:
        assert subprocess.run(run.spec(log).argv, stdout=output, stderr=subprocess.STDOUT, check=False).returncode == 0
    result = read_summary(run.out)
    assert result.completed
    assert result.total["good"].ok == seen["/good"]
    assert result.total["bad"].failed == seen["/bad"] == result.errors["status_4xx"]

    window = responses_between(run.out, *result.phases.steady)
    assert window.ok == result.all.ok
    assert window.p99 == pytest.approx(result.all.response_ms.p99, rel=2e-3)
    assert window.mean == pytest.approx(result.all.response_ms.mean, rel=2e-3)
    assert window.errors == pytest.approx(result.all.failed / (result.all.ok + result.all.failed))
    assert by_transaction(run.out, 1, 3)["bad"].ok == 0
    seconds = seconds_between(run.out, *result.phases.steady)
    assert sum(sum(second.counts) for second in seconds) == window.ok
    assert max(second.values_ms[-1] for second in seconds) == pytest.approx(window.max, rel=2e-3)
    assert sum(second.failed for second in seconds) == result.all.failed

    series = steady_series(run.out)
    assert [row.phase for row in series[:3]] == ["ramp_up", "steady", "steady"]
    assert sum(row.ok_per_s for row in series if row.phase == "steady") == result.all.ok

    reader = HistogramLogReader(str(run.out / "service.hlog"), HdrHistogram(64, 3_600_000_000_000, 3))
    counts = 0
    while (interval := reader.get_next_interval_histogram()) is not None:
        assert interval.get_tag() == "good"
        counts += interval.get_total_count()
    assert counts == result.total["good"].ok

    reader = HistogramLogReader(str(run.out / "steady.hlog"), HdrHistogram(64, 3_600_000_000_000, 3))
    tags = {}
    while (interval := reader.get_next_interval_histogram()) is not None:
        tags[interval.get_tag()] = interval
    for kind, latency in (("response", result.all.response_ms), ("service", result.all.service_ms)):
        histogram = tags[f"{kind}/good"]
        assert histogram.get_total_count() == result.all.ok
        found = [value_at_rank(histogram, p) / 1e6 for p in (50, 95, 99, 99.9, 100)]
        expected = [latency.p50, latency.p95, latency.p99, latency.p999, latency.max]
        assert found == pytest.approx(expected, rel=1e-3)  # of one bucket
    blocked = HistogramLogReader(str(run.out / "blocked.hlog"), HdrHistogram(64, 3_600_000_000_000, 3))
    waits = 0
    while (interval := blocked.get_next_interval_histogram()) is not None:
        waits += interval.get_total_count()
    assert waits == seen["/good"] + seen["/bad"]
    assert result.statuses == {"200": seen["/good"], "404": seen["/bad"]}


def test_built_in_scenarios_are_valid() -> None:
    for path in built_in_scenarios().values():
        checked = subprocess.run([find_binary(), "check", path], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr


def test_alone_in_the_foreground(server: tuple[str, dict[str, int]], tmp_path: Path) -> None:
    url, seen = server
    scenario = tmp_path / "two.yaml"
    scenario.write_text(SCENARIO)
    options = ["--url", url, "--steady", "300ms", "--out", str(tmp_path / "out"), "--var", "nothing=1"]
    assert run_scenario(str(scenario), options) == 2
    assert not seen
    assert run_scenario(str(scenario), options[:-2]) == 0
    assert read_summary(tmp_path / "out").total["good"].ok == seen["/good"]


def test_the_published_schema_takes_what_the_driver_takes(tmp_path: Path) -> None:
    schema = json.loads(scenario_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    yaml = YAML(typ="safe")
    for path in built_in_scenarios().values():
        validator.validate(yaml.load(path))
    good = yaml.load(SCENARIO)
    validator.validate(good)
    for change in (
        {"mix": None},
        {"graph": {"start": {"good": 1}}},
        {"transactions": {"good": [{"get": "/a", "post": "/b"}]}},
        {"transactions": {"good": [{"get": "a"}]}},
        {"transactions": {"good": [{"get": "/", "extract": {"x": {"css": "a", "json": "/b"}}}]}},
        {"feeds": {"f": {"pick": "random"}}},
        {"unknown": 1},
    ):
        bad = {key: value for key, value in {**good, **change}.items() if value is not None}
        assert not validator.is_valid(bad), change
        file = tmp_path / "bad.yaml"
        with file.open("w") as stream:
            yaml.dump(bad, stream)
        done = subprocess.run([str(find_binary()), "check", str(file)], capture_output=True, text=True, check=False)
        assert done.returncode == 2, (change, done.stdout)
        assert ".yaml:" in done.stderr


def test_converted_files_are_scenarios_by_schema_and_driver(tmp_path: Path) -> None:
    plain = har(
        entry("GET", "http://h/a?b=$1", 0), entry("POST", "http://h/c", 1, post={"mimeType": FORM, "text": "x=1"})
    )
    odd = [
        entry("GET", f"http://[::1]/{path}", number)
        for number, path in enumerate(["a b/ä?c=d|e", "a#b", "123", "null", "all", "-/-", "x" * 300])
    ]
    texts = {"api.yaml": API, "pets.json": PETS, "tour.har": tour(), "plain.har": plain, "odd.har": har(*odd)}
    password = {"mimeType": "application/x-www-form-urlencoded", "text": "password=x"}
    texts["login.har"] = har(entry("POST", "http://[::1]/in", 0, "p1", post=password), entry("GET", "http://[::1]/", 1))
    for place in ("path", "query", "header", "cookie"):
        texts[f"{place}.yaml"] = asked(place, "{ type: integer, maximum: -5 }")
    validator = jsonschema.Draft202012Validator(json.loads(scenario_schema()))
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        out = tmp_path / f"{name}.scenario.yaml"
        if name in ("api.yaml", "tour.har"):  # by the command, which takes a second to start
            argv = [sys.executable, "-m", "leadline.cli", "scenario", "from", str(tmp_path / name), "--out", str(out)]
            assert subprocess.run(argv, check=False).returncode == 0
        else:
            convert = from_har if name.endswith("har") else from_openapi
            out.write_text(convert(text, "made").text())
        validator.validate(YAML(typ="safe").load(out))
        done = subprocess.run([str(find_binary()), "check", str(out)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (name, done.stderr)


def test_recorded_arrivals_are_replayed(server: tuple[str, dict[str, int]], tmp_path: Path) -> None:
    url, seen = server
    scenario = tmp_path / "one.yaml"
    unit = "arrivals: { unit: transaction }\n"
    scenario.write_text(f"scenario: one\n{unit}mix: {{ good: 1 }}\ntransactions:\n  good: [{{ get: /good }}]\n")
    times = tmp_path / "times.txt"
    times.write_text("".join(f"{0.02 * number:.3f}\n" for number in range(25)))
    options = ["--arrivals", "replay", "--replay", str(times), "--speed", "2", "--out", str(tmp_path / "out")]
    assert run_scenario(str(scenario), ["--url", url, *options, "--progress", "none"]) == 0
    result = read_summary(tmp_path / "out")
    assert result.arrivals.model == "replay"
    assert result.arrivals.replay == str(times)
    assert result.arrivals_planned == result.arrivals_actual == seen["/good"] == 25
    assert result.phases.steady[1] == pytest.approx(0.24, abs=1e-6)


CROWDED = """
import socket, subprocess, sys
with socket.create_server(("127.0.0.1", 9000), backlog=64):
    sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""


def test_a_host_without_free_ports_is_the_limit(tmp_path: Path) -> None:
    """Ten ports in a network namespace of its own, thirty users: twenty connections fail for want of a port."""
    alone = ["unshare", "--map-root-user", "--net", "sh", "-c"]
    if subprocess.run([*alone, "ip link set lo up"], capture_output=True).returncode:
        pytest.skip("host: needs a network namespace of its own (unshare --net)")
    (tmp_path / "one.yaml").write_text("scenario: one\nmix: { a: 1 }\ntransactions: { a: [{ get: /a }] }\n")
    ports = 'ip link set lo up && echo "40000 40009" > /proc/sys/net/ipv4/ip_local_port_range && exec "$@"'
    options = ["--users", "30", "--steady", "300ms", "--timeout", "200ms", "--url", "http://127.0.0.1:9000", "--out"]
    driver = [str(find_binary()), "run", str(tmp_path / "one.yaml"), *options, str(tmp_path / "out")]
    done = subprocess.run([*alone, ports, "sh", sys.executable, "-c", CROWDED, *driver], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr  # the verdict: most of it failed
    summary = read_summary(tmp_path / "out")
    assert summary.requests.unmade >= 20
    assert summary.driver.limit
    assert any("for want of ports" in sentence for sentence in summary.driver.evidence if "limit:" in sentence)
