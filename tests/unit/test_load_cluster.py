"""Several drivers as one: shares, clocks, histograms, results."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from pydantic import TypeAdapter, ValidationError

from leadline.load.cluster.clock import Offset, offset
from leadline.load.cluster.command import option_pairs
from leadline.load.cluster.connection import Connection
from leadline.load.cluster.files import scenario_files
from leadline.load.cluster.histograms import added, empty, encoded, latency, total
from leadline.load.cluster.merge import Part, merge
from leadline.load.cluster.progress import ProgressLog, together
from leadline.load.cluster.run import seen_from
from leadline.load.cluster.spec import read_drivers
from leadline.load.result import read_summary
from leadline.load.series import responses_between, steady_series
from leadline.model.drivers import DriverHost, Drivers, shares
from leadline.model.errors import LeadlineError, UsageError


def hosts(*found: object) -> list[DriverHost]:
    return TypeAdapter(Drivers).validate_python(list(found))


def test_shares_follow_the_weights_in_lowest_terms() -> None:
    drivers = hosts("local", {"via": "ssh b", "weight": 4}, {"via": "ssh c", "weight": 2})
    assert shares([driver.model_copy(update={"weight": 3}) for driver in drivers]) == ["0-1/3", "1-2/3", "2-3/3"]
    assert shares([drivers[0].model_copy(update={"weight": 2}), *drivers[1:]]) == ["0-1/4", "1-3/4", "3-4/4"]
    assert shares(drivers[:1]) == ["0-1/1"]


def test_every_driver_has_a_name() -> None:
    found = hosts("local", "ssh -p 2022 me@far.example", "ip netns exec far.example", {"via": "ssh x", "name": "mine"})
    assert [driver.name for driver in found] == ["local", "far.example", "far.example-2", "mine"]
    with pytest.raises(ValidationError, match="two drivers are named a"):
        hosts({"name": "a"}, {"name": "a"})
    with pytest.raises(ValidationError, match="no command"):
        hosts("ssh 'unclosed")


def test_mistakes_in_a_list_of_drivers_have_their_line(tmp_path: Path) -> None:
    path = tmp_path / "drivers.yaml"
    path.write_text("drivers:\n  - local\n  - { via: ssh b, wieght: 2 }\n")
    with pytest.raises(UsageError, match=r"drivers.yaml:3: unknown key 'wieght'; did you mean weight\?"):
        read_drivers(str(path))
    path.write_text("- local\n- { via: ssh b, weight: 0 }\n")
    with pytest.raises(UsageError, match=r"drivers.yaml:2: weight: 0 is not between 1 and 1,000"):
        read_drivers(str(path))
    path.write_text("- local\n- ssh b\n")
    assert [driver.via for driver in read_drivers(str(path))] == ["local", "ssh b"]
    assert [driver.via for driver in read_drivers("local, ssh b")] == ["local", "ssh b"]
    path.write_text("{}\n")
    with pytest.raises(UsageError, match="list of drivers"):
        read_drivers(str(path))
    with pytest.raises(UsageError, match="no such file"):
        read_drivers("nowhere.yaml")
    many = [f"ssh user@host-{n}" for n in range(30)]  # longer than a file's name can be
    assert [driver.via for driver in read_drivers(",".join(many))] == many


def test_commands_go_through_the_prefix_or_through_ssh(tmp_path: Path) -> None:
    prefix, ssh = (Connection(driver, tmp_path) for driver in hosts("ip netns exec a", "ssh -p 22 me@b"))
    assert prefix.argv("echo $HOME") == ["ip", "netns", "exec", "a", "sh", "-c", "echo $HOME"]
    argv = ssh.argv("echo '$HOME'", keeps=True)
    assert argv[:2] == ["sh", "-c"]  # which takes the directory of the socket away at the end
    assert argv[3:5] == [str(tmp_path), "ssh"]
    assert ssh.argv("true")[0] == "ssh"
    assert argv[-4:] == ["-p", "22", "me@b", """exec sh -c 'echo '"'"'$HOME'"'"''"""]
    assert {"BatchMode=yes", "ControlMaster=yes", f"ControlPath={tmp_path}/%C"} <= set(argv)
    assert "cannot be reached: no route" in str(ssh.unusable(255, "banner\nno route\n"))
    with pytest.raises(LeadlineError, match=r"driver missing .*: .*No such file"):
        Connection(hosts({"name": "missing", "via": "/no/such/program"})[0], tmp_path).run("true")


def test_the_offset_is_where_all_samples_agree() -> None:
    draw = random.Random(5)
    true, samples = 1_234_567, []
    for _ in range(50):
        asked = draw.randrange(10**12)
        there, back = draw.randrange(1_000, 500_000), draw.randrange(1_000, 500_000)
        samples.append((asked, asked + there + true, asked + there + back))
    found = offset(samples)
    assert found is not None
    assert abs(found.ns - true) <= found.uncertainty_ns < 250_000
    assert found.uncertainty_ns <= min(received - asked for asked, _, received in samples) / 2
    step = 10**9  # the other clock was set in between
    assert offset([*samples, (0, step + true, 1_000)]) is None


def histogram(values: list[int]) -> str:
    found = HdrHistogram(64, max(1 << 27, *values), 3)  # as the driver's: it grows with what it holds
    for value in values:
        found.record_value(value)
    return str(found.encode(), "ascii")


def recorded(found: HdrHistogram) -> dict[int, int]:
    return {item.value_iterated_to: item.count_at_value_iterated_to for item in found.get_recorded_iterator()}


def test_added_histograms_hold_every_value() -> None:
    draw = random.Random(2)
    parts = [[round(draw.lognormvariate(15, spread)) + 64 for _ in range(3000)] for spread in (0.5, 1.5, 3)]
    parts[0].append(3_600_000_000_000)
    merged = added([histogram(values) for values in parts])
    reference = HdrHistogram(64, 3_600_000_000_000, 3)
    for values in parts:
        for value in values:
            reference.record_value(value)
    buckets = recorded(reference)
    payload, most = encoded(merged)
    read = HdrHistogram.decode(payload)
    assert recorded(read) == buckets
    assert most == pytest.approx(reference.get_max_value() / 1e6)
    figures = latency(merged)
    ordered = sorted(value for part in parts for value in part)
    for name, q in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)):
        true = ordered[max(1, -int(-q * len(ordered) // 1)) - 1]
        assert figures[name] == pytest.approx(true / 1e6, rel=2e-3)
    assert figures["mean"] == pytest.approx(sum(ordered) / len(ordered) / 1e6, rel=1e-3)
    assert latency(empty())["p99"] is None
    assert total([]).sum() == 0


def test_progress_is_told_once_every_driver_has(tmp_path: Path) -> None:
    logs = [ProgressLog(tmp_path / name) for name in "ab"]
    line = '{"t":%d,"phase":"steady","tps":10.0,"p50_ms":1,"p99_ms":%d,"errors":1,"in_flight":2}\n'
    (tmp_path / "a").write_text('{"ready":true}\n' + line % (1, 5) + line % (2, 5) + "bang\n")
    (tmp_path / "b").write_text(line % (1, 9) + (line % (2, 9))[:20])
    assert all(log.read() for log in logs)
    assert (logs[0].ready, logs[1].ready, logs[0].last_words()) == (True, False, "bang")
    (first,) = together(logs, 0)
    assert (first.per_second, first.p99_ms, first.errors, first.in_flight) == (20.0, 9.0, 2, 4)
    assert json.loads(first.as_json())["tps"] == 20.0
    assert together(logs, 1) == []


def test_feeds_are_sent_along_where_they_can_be(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "people.csv").write_text("name\na\n")
    scenario.write_text("transactions: {}\nfeeds: { people: { csv: data/people.csv }, ranks: { zipf: 5 } }\n")
    assert list(scenario_files(scenario)) == ["s.yaml", "data/people.csv"]
    for wrong in ("/etc/passwd", "../people.csv", "${which}.csv"):
        scenario.write_text(f'transactions: {{}}\nfeeds: {{ people: {{ csv: "{wrong}" }} }}\n')
        with pytest.raises(UsageError, match=r"feed people: .* cannot be sent"):
            scenario_files(scenario)


class FakeDriverFiles:
    """What leadline-load would have written, from given response times (ns) by second and transaction."""

    def __init__(self, directory: Path, seconds: list[dict[str, list[int]]], **changed: object) -> None:
        directory.mkdir(parents=True)
        head = "#[Histogram log format version 1.3]\n#[StartTime: 5.000 (seconds since epoch)]\n#\n"
        lines: list[str] = []
        rows: list[str] = []
        every: dict[str, list[int]] = {}
        for second, found in enumerate(seconds):
            for name, values in found.items():
                every.setdefault(name, []).extend(values)
                lines.append(f"Tag={name},{second}.000,1.000,{max(values) / 1e6:.3f},{histogram(values)}\n")
                rows.append(f"1,{second},steady,{name},{len(values)},1,9,9,9,9,3,0\n")
            count = sum(len(values) for values in found.values())
            rows.append(f"1,{second},steady,all,{count},{len(found)},9,9,9,9,3,0\n")
        for log in ("response", "service"):
            (directory / f"{log}.hlog").write_text(head + "".join(lines))
        tags = [(f"{log}/{name}", values) for name, values in every.items() for log in ("response", "service")]
        tags += [("lag", [1000]), ("blocked", [2000])]
        steady = "".join(f"Tag={tag},0.000,{len(seconds)}.000,1,{histogram(values)}\n" for tag, values in tags)
        (directory / "steady.hlog").write_text(head + steady)
        names = "time_ns,second,phase,transaction,ok,failed,response_mean_ms,response_p50_ms,response_p99_ms,"
        (directory / "seconds.csv").write_text(f"{names}service_mean_ms,in_flight,skipped\n{''.join(rows)}")
        (directory / "outcomes.csv").write_text(
            "time_ns,second,phase,transaction,what,name,count\n"
            "1,0,steady,a,status,200,2\n1,1,steady,a,error,timeout,1\n"
        )
        nothing = dict.fromkeys(["mean", "p50", "p90", "p95", "p99", "p999", "max"])
        steady_part = {
            name: {
                **{"ok": len(values), "failed": 1, "skipped": 0, "per_second": 0.0, "statuses": {"200": 1}},
                **{"response_ms": nothing, "service_ms": nothing, "connect_ms": nothing},
            }
            for name, values in every.items()
        }
        ok = sum(len(values) for values in every.values())
        everything = {"ok": ok, "failed": len(every), "skipped": 0, "per_second": 0.0}
        own = {"cpu_user_s": 1.0, "cpu_system_s": 0.5, "cpu_share": 0.2, "scheduling": "realtime", "lag_ms": nothing}
        document = {
            **{"format": "leadline-load/1", "version": "1", "completed": True, "seed": 1, "url": "http://h"},
            **{"scenario": {"name": "s", "sha256": "0"}, "variables": {}, "started_unix_ns": 5},
            "arrivals": {"model": "closed", "users": 4, "rate": None},
            "phases": {"ramp_up": [0, 0], "steady": [0, 2], "ramp_down": [2, 2], "drained": 2.25},
            "steady": {
                "duration_s": 2.0,
                "transactions": steady_part,
                "all": {**everything, "response_ms": nothing, "service_ms": nothing},
            },
            "total": {name: {"ok": len(values), "failed": 1, "skipped": 0} for name, values in every.items()},
            "requests": {"count": ok, "bytes_in": 9, "bytes_out": 9, "connects": 2, "reconnects": 0},
            **{"errors": {"timeout": 2}, "error_samples": {"timeout": ["a", "b"]}, "blocked_ms": nothing},
            **{"arrivals_planned": ok, "arrivals_actual": ok, "dropped": 0},
            "driver": {**own, "limit": False, "evidence": ["fine: all"]},
            "littles_law": {"concurrency_observed": 1.0, "concurrency_expected": 1.1, "relative_error": 0.1},
            "limits": [
                {"transaction": "a", "measure": "p99", "unit": "ms", "bound": 3.0, "value": 1.0, "kept": True},
                {"transaction": "a", "measure": "errors", "unit": "share", "bound": 0.5, "value": 0, "kept": True},
            ],
            **changed,
        }
        (directory / "summary.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("http://127.0.0.1:9080/b", "http://10.0.0.1:9080/b"),
        ("https://[::1]:9443/b=3", "https://10.0.0.1:9443/b=3"),
        ("http://h=2", "http://10.0.0.1=2"),
        ("unix:/run/server.sock:/b", "unix:/run/server.sock:/b"),
    ],
)
def test_the_server_has_another_address_from_there(url: str, seen: str) -> None:
    assert seen_from(url, DriverHost(server="10.0.0.1")) == seen
    assert seen_from(url, DriverHost()) == url
    assert seen_from("http://h:1/", DriverHost(server="fe80::1")) == "http://[fe80::1]:1/"


def test_options_are_names_with_and_without_values() -> None:
    found = option_pairs(["--insecure", "--var=a=b", "--users", "3", "--check"])
    assert found == [("--insecure", ""), ("--var", "a=b"), ("--users", "3"), ("--check", "")]
    with pytest.raises(UsageError, match="unexpected word 'users'"):
        option_pairs(["users", "3"])


def part(directory: Path, name: str) -> Part:
    return Part(DriverHost(name=name), directory / name, "0-1/2", 2, Offset(1e6, 5e4), 100.0)


def test_results_are_merged_as_one_driver_would_have_them(tmp_path: Path) -> None:
    ms = 1_000_000
    first = [{"a": [1 * ms] * 98 + [2 * ms]}, {"a": [1 * ms], "b": [7 * ms]}]
    second = [{"a": [5 * ms] * 3}, {"b": [300 * ms, 1 * ms]}, {"b": [2 * ms]}]
    FakeDriverFiles(tmp_path / "x", first)
    limit = {"limit": True, "evidence": ["limit: late"], "scheduling": "normal", "lag_ms": {}}
    FakeDriverFiles(
        tmp_path / "y",
        second,
        driver={**limit, "cpu_user_s": 1, "cpu_system_s": 1, "cpu_share": 0.95},
        url="http://far",
    )
    out = tmp_path / "out"
    merge([part(tmp_path, "x"), part(tmp_path, "y")], out, 7_000_000_000_000_000_123)

    result = read_summary(out)
    assert result.started_unix_ns == 7_000_000_000_000_000_123
    assert (result.all.ok, result.all.failed, result.transactions["b"].ok) == (107, 4, 4)
    assert result.all.per_second == 107 / 2
    assert result.total["a"].ok == 103
    assert (result.arrivals_planned, result.requests.connects, result.errors) == (107, 4, {"timeout": 4})
    assert result.transactions["a"].response_ms.p50 == pytest.approx(1, rel=1e-3)
    assert result.transactions["a"].response_ms.p99 == pytest.approx(5, rel=1e-3)  # the first driver's alone: 2
    assert result.all.response_ms.max == pytest.approx(300, rel=1e-3)
    assert result.limits[0].value == result.transactions["a"].response_ms.p99
    assert (result.limits[0].kept, result.limits[1].kept) == (False, True)
    assert result.driver.limit
    assert result.driver.evidence == ("x: fine: all", "y: limit: late")
    assert (result.driver.scheduling, result.driver.cpu_share) == ("normal", 0.95)
    assert result.littles_law.concurrency_observed == 2.0
    document = json.loads((out / "summary.json").read_text())
    assert [one["name"] for one in document["drivers"]] == ["x", "y"]
    assert document["drivers"][1]["clock_offset_ms"] == 1.0

    transactions = document["steady"]["transactions"]
    assert [transactions[name]["statuses"] for name in "ab"] == [{"200": 2}, {"200": 2}]
    assert transactions["a"]["connect_ms"]["p50"] is None  # no histogram of it was written
    outcomes = (out / "outcomes.csv").read_text().splitlines()[1:]
    assert outcomes[0] == "7000000000000000123,0,steady,a,status,200,4"
    assert outcomes[1:] == ["7000000001000000123,1,steady,a,error,timeout,2"]

    rows = steady_series(out)
    assert [row.ok_per_s for row in rows] == [102, 4, 1]
    assert [row.failed_per_s for row in rows] == [2, 3, 1]
    assert [row.in_flight for row in rows] == [6, 6, 3]
    assert rows[0].p99 == pytest.approx(5, rel=1e-3)
    assert rows[1].response_mean_ms == pytest.approx((1 + 7 + 300 + 1) / 4, rel=1e-3)
    window = responses_between(out, 0, 2)
    assert window.count == 106
    assert window.max == pytest.approx(300, rel=1e-3)
    assert "StartTime: 7000000000.000" in (out / "response.hlog").read_text()


def test_results_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    seconds = [{"a": [1_000_000]}]
    FakeDriverFiles(tmp_path / "x", seconds)
    FakeDriverFiles(tmp_path / "y", seconds, seed=2)
    with pytest.raises(LeadlineError, match="driver y had another seed than driver x"):
        merge([part(tmp_path, "x"), part(tmp_path, "y")], tmp_path / "out", 1)
    FakeDriverFiles(tmp_path / "z", seconds)
    log = tmp_path / "z" / "response.hlog"
    log.write_text(log.read_text()[:-5])
    with pytest.raises(LeadlineError, match="cut off"):
        merge([part(tmp_path, "x"), part(tmp_path, "z")], tmp_path / "out", 1)
    (tmp_path / "z" / "summary.json").unlink()
    with pytest.raises(LeadlineError, match=r"summary\.json is missing"):
        merge([part(tmp_path, "x"), part(tmp_path, "z")], tmp_path / "out", 1)
