"""Presets, profiles, bursts and recordings: in study files, on the command line, on the driver's command line."""

from pathlib import Path

import pytest
import test_load_driver
from known_knobs import service_catalogue
from test_load_driver import options

from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.host.local import LocalHost
from leadline.load.driver import DriverRun
from leadline.load.scenario import preset_options
from leadline.model.errors import UsageError
from leadline.model.shapes import PRESETS, profile_points
from leadline.model.workload import Workload
from leadline.stack import registry

fake_binary = test_load_driver.fake_binary

STUDY = """\
study: shapes
question: Which shape?
stack: { server: tomcat }
workload:
  WORKLOAD
factors:
  server.datasource.max_connections: [10, 20]
"""

PLAIN = "scenario: plain\nmix: { a: 1 }\ntransactions:\n  a: [{ get: /a }]\n"


def planned(workload: str) -> Workload:
    file = parse_study(STUDY.replace("WORKLOAD", workload), "s.yaml")
    plan_study(file, LocalHost(), service_catalogue("tomcat", "postgres"))
    return file.study.workload


@pytest.mark.usefixtures("fake_binary")
def test_profiles_bursts_and_recordings_reach_the_driver(tmp_path: Path) -> None:
    def argv(load: Workload) -> dict[str, str]:
        return options(DriverRun(load, "http://h", 1, tmp_path).argv())

    users = argv(planned("{ profile: '0s:5,10s:1200.5,10s:30' }"))
    assert (users["--arrivals"], users["--profile"]) == ("closed", "0s:5,10s:1200.5,10s:30")
    assert users["--max-sessions"] == "1201"
    assert "--users" not in users
    bursty = argv(planned("{ arrivals: poisson, rate: 20, bursts: 'random:2s/3s' }"))
    assert (bursty["--rate"], bursty["--bursts"]) == ("20.0", "random:2s/3s")
    times = tmp_path / "times.csv"
    times.write_text("0.1\n30\n")
    replayed = argv(planned(f"{{ arrivals: replay, replay: {times}, speed: 2 }}"))
    assert (replayed["--arrivals"], replayed["--replay"], replayed["--speed"]) == ("replay", str(times), "2.0")


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ("profile: 5s", "s.yaml:5: workload.profile: '5s' is not a point"),
        ("users: 3\n  profile: 10s:5,5s:9", "s.yaml:6: workload.profile: '5s:9' is before the point in front of it"),
        ("users: 3\n  profile: 0s:5", "s.yaml:6: a profile stands instead of `users`"),
        ("users: 3\n  profile: 0s=5", "'0s=5' is not a point TIME:VALUE"),
        ("profile: 0s:0,9s:0", "never rises above 0"),
        ("users: 3\n  bursts: 2s", "s.yaml:6: workload.bursts: '2s' is not ON/OFF"),
        ("users: 3\n  bursts: 2s/1s", "s.yaml:6: closed arrivals have `users` or `profile`, not `bursts`"),
        ("users: 3\n  rate: 5", "s.yaml:6: closed arrivals have"),
        ("arrivals: constant\n  users: 5", "s.yaml:6: constant arrivals have `rate` or `profile`, not `users`"),
        ("arrivals: poisson", "s.yaml:4: poisson arrivals need `rate` (sessions a second)"),
        ("load_units: 1", "s.yaml:4: closed arrivals need `users`"),
        ("arrivals: replay", "s.yaml:4: replay arrivals need `replay`"),
        ("arrivals: replay\n  replay: no-such.csv", "s.yaml:6: no file no-such.csv"),
        ("users: 3\n  replay: x.csv", "s.yaml:6: a recording belongs to `arrivals: replay`"),
        ("users: 3\n  speed: 2", "s.yaml:6: speed belongs to"),
        ("preset: fixed-rat", "s.yaml:5: workload.preset is 'fixed-rat', not one of"),
        ("preset: fixed-rate", "s.yaml:5: preset fixed-rate needs `rate`"),
        ("preset: fixed-rate\n  rate: 3\n  arrivals: poisson", "s.yaml:7: preset fixed-rate has arrivals constant"),
        ("preset: clients-threads\n  clients: 3", "s.yaml:5: preset clients-threads needs `threads`"),
        ("preset: clients-threads\n  clients: 3\n  threads: 2\n  users: 5", "s.yaml:8: preset clients-threads has"),
        ("users: 5\n  clients: 3", "s.yaml:6: clients belongs to `preset: clients-threads`"),
        ("users: 5\n  http: 3", "s.yaml:6: workload.http is '3', not one of auto, 1.1, 2"),
        ("users: 5\n  http: atuo", "not one of auto, 1.1, 2; did you mean auto?"),
        ("users: 5\n  http: true", "s.yaml:6: workload.http is true, not one of"),
        ("users: 5\n  htpp: 2", "s.yaml:6: unknown key 'htpp'; did you mean http?"),
        (
            "users: 5\n  requests_per_connection: 0",
            "s.yaml:6: workload.requests_per_connection: 0 is not between 1 and",
        ),
        ("users: 5\n  grid: 0s", "s.yaml:6: workload.grid: 0s is not between 1us and 1s"),
        ("users: 5\n  cpu_latency: 2s", "s.yaml:6: workload.cpu_latency: 2s is not between 0s and 1s"),
        ("users: 5\n  keep_alive: 1", "s.yaml:6: unknown key 'keep_alive'; write `requests_per_connection: N`"),
        ("users: 5\n  connections: share", "s.yaml:6: workload.connections is 'share', not one of session, shared"),
        ("users: 5\n  max_connections: 3", "s.yaml:6: max_connections belongs to `connections: shared`"),
        ("users: 5\n  tls: { ca: x.pem }", "s.yaml:6: unknown key 'tls'; TLS is the stack's"),
        ("users: 5\n  insecure: true", "leadline load SCENARIO --url https://HOST --ca FILE"),
        ("users: 5\n  targets: [a, b]", "s.yaml:6: unknown key 'targets'; a study loads the one server"),
        ("users: 5\n  source_address: here", "s.yaml:6: workload.source_address: 'here' is not an address"),
        (
            "users: 5\n  source_address: 127.0.0.9-127.0.0.2",
            "s.yaml:6: workload.source_address: '127.0.0.9-127.0.0.2': a",
        ),
        ("users: 5\n  source_address: 10.0.0.0-10.9.0.0", "more than 65536 addresses"),
        ("preset: browser\n  users: 3", "s.yaml:5: preset browser: no request of brokerage-classic.yaml has"),
    ],
)
def test_keys_that_do_not_fit_are_named_by_line(workload: str, expected: str) -> None:
    with pytest.raises(UsageError) as raised:
        planned(workload)
    assert expected in str(raised.value)


@pytest.mark.usefixtures("fake_binary")
def test_connections_reach_the_driver(tmp_path: Path) -> None:
    def argv(keys: str) -> dict[str, str]:
        return options(DriverRun(planned(f"{{ users: 5, {keys} }}"), "http://h", 1, tmp_path).argv())

    plain = argv("http: auto")
    assert not {"--http", "--requests-per-connection", "--source-address"} & plain.keys()
    assert argv("http: 1.1")["--http"] == argv("http: '1.1'")["--http"] == "1.1"
    assert argv("http: 2")["--http"] == argv("http: 2.0")["--http"] == "2"
    assert not {"--connections", "--max-connections"} & plain.keys()
    shared = argv("connections: shared, max_connections: 20")
    assert (shared["--connections"], shared["--max-connections"]) == ("shared", "20")
    streams = argv("connections: shared, http: 2")
    assert (streams["--connections"], streams["--http"]) == ("shared", "2")
    assert argv("requests_per_connection: 1")["--requests-per-connection"] == "1"
    assert argv("cpu_latency: 20us")["--cpu-latency"] == "20us"
    assert argv("cpu_latency: 0")["--cpu-latency"] == "0us"
    assert "--cpu-latency" not in plain
    assert argv("grid: 1ms")["--grid"] == "1000us"
    assert "--grid" not in plain
    assert argv("source_address: '127.0.0.2, 127.0.0.5-127.0.0.9'")["--source-address"].endswith("5-127.0.0.9")
    load = planned("{ users: 5, http: 2, requests_per_connection: 100 }")
    assert Workload.model_validate(load.model_dump(mode="json")) == load  # as the lab stores it


def test_a_server_without_http2_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.SERVERS["tomcat"], "plain_http2", False)
    with pytest.raises(UsageError, match=r"s\.yaml:6: tomcat does not speak HTTP/2 without TLS.* take liberty"):
        planned("users: 5\n  http: 2")
    assert planned("users: 5\n  http: 1.1").http == "1.1"


@pytest.mark.usefixtures("fake_binary")
def test_clients_times_threads_are_users_without_think_time(tmp_path: Path) -> None:
    load = planned("{ preset: clients-threads, clients: 30, threads: 2 }")
    assert (load.arrivals, load.users) == ("closed", 60)
    assert Workload.model_validate(load.model_dump()) == load  # as the lab stores it
    argv = options(DriverRun(load, "http://h", 1, tmp_path, {}).argv())
    assert (argv["--users"], argv["--var"]) == ("60", "think=0ms")
    kept = options(DriverRun(load, "http://h", 1, tmp_path, {"think": "5ms"}).argv())
    assert kept["--var"] == "think=5ms"


@pytest.mark.usefixtures("fake_binary")
def test_users_from_many_addresses(tmp_path: Path) -> None:
    many = options(DriverRun(planned("{ preset: many-users, users: 5 }"), "http://127.0.0.1:9", 1, tmp_path).argv())
    assert many["--source-address"] == "127.0.0.2-127.0.0.254"
    load = planned("{ users: 5, source_address: 127.0.0.7 }")
    assert options(DriverRun(load, "http://h", 1, tmp_path).argv())["--source-address"] == "127.0.0.7"
    assert "--source-address" not in DriverRun(planned("{ users: 5 }"), "http://127.0.0.1:9", 1, tmp_path).argv()


def test_presets_on_the_command_line(tmp_path: Path) -> None:
    plain = tmp_path / "plain.yaml"
    plain.write_text(PLAIN)
    words = preset_options("clients-threads", str(plain), ["--clients", "3", "--threads=2", "--url", "http://h"])
    assert words == ["--url", "http://h", "--arrivals", "closed", "--users", "6"]
    rate = preset_options("fixed-rate", "brokerage-classic", ["--rate=5"])
    assert rate == ["--rate", "5", "--arrivals", "constant", "--var", "think=0ms"]
    many = preset_options("many-users", "brokerage-classic", ["--users", "9"])
    assert many == ["--users", "9", "--arrivals", "closed"]
    local = preset_options("many-users", "brokerage-classic", ["--users", "9", "--url", "http://127.0.0.1:1/x"])
    assert local[-2:] == ["--source-address", "127.0.0.2-127.0.0.254"]
    own = preset_options(
        "many-users", str(plain), ["--users=9", "--url=http://localhost", "--source-address=127.0.0.9"]
    )
    assert own.count("--source-address") == 1
    flag = preset_options("many-users", str(plain), ["--insecure", "--users", "9"])
    assert flag == ["--insecure", "--users", "9", "--arrivals", "closed"]
    browser = tmp_path / "browser.yaml"
    browser.write_text(PLAIN.replace("/a }", "/a, embedded: true }"))
    assert preset_options("browser", str(browser), ["--users", "9"])[-2:] == ["--arrivals", "closed"]
    for name, scenario, given, message in (
        ("fixed", plain, [], "did you mean fixed-rate"),
        ("zzz", plain, [], "presets: fixed-rate, many-users"),
        ("fixed-rate", plain, [], "needs --rate"),
        ("fixed-rate", plain, ["--rate", "3", "--arrivals", "poisson"], "has --arrivals constant, not poisson"),
        ("clients-threads", plain, ["--clients", "3"], "needs --threads"),
        ("clients-threads", plain, ["--clients", "x", "--threads", "1"], "--clients x: not a whole number"),
        ("clients-threads", plain, ["--clients", "3", "--threads", "1", "--users", "3"], "leave --users out"),
        ("many-users", plain, ["--users", "3", "--url", "http://[::1"], r"--url http://\[::1: Invalid IPv6 URL"),
        ("browser", plain, ["--users", "3"], "no request of plain.yaml has `embedded: true`"),
    ):
        with pytest.raises(UsageError, match=message):
            preset_options(name, str(scenario), given)
    paused = tmp_path / "paused.yaml"
    paused.write_text(PLAIN + "pause: { shape: fixed, mean: 5ms }\n")
    with pytest.raises(UsageError, match=r"the pause of paused\.yaml is fixed"):
        preset_options("fixed-rate", str(paused), ["--rate", "3"])


def test_every_preset_says_what_it_is_equivalent_to() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "load.md").read_text()
    for name, preset in PRESETS.items():
        assert len(preset.equivalence) > 100
        assert f"`{name}`" in page
        assert preset.tool in page


def test_points_of_a_profile() -> None:
    assert profile_points("0s:10, 500ms:20,1m:0") == [(0, 10), (0.5, 20), (60, 0)]
    assert profile_points("3:1") == [(3, 1)]
