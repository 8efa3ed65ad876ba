"""Several drivers as one: shares, clocks, histograms, results."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

import leadline.load.cluster.merge as cluster_merge
from leadline.load.cluster.clock import Offset, offset
from leadline.load.cluster.command import option_pairs
from leadline.load.cluster.connection import Connection
from leadline.load.cluster.files import scenario_files
from leadline.load.cluster.merge import Part, merge
from leadline.load.cluster.run import seen_from
from leadline.load.cluster.spec import read_drivers
from leadline.load.progress import ProgressLog, as_json, together
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


def test_a_host_has_as_many_drivers_as_processes() -> None:
    found = hosts("local", {"via": "ssh b", "name": "b", "cpus": "0-3,6", "processes": 2, "weight": 3})
    assert [(each.name, each.cpus, each.weight) for each in found] == [
        ("local", None, 1),
        ("b-1", "0,2,6", 3),
        ("b-2", "1,3", 3),
    ]
    assert hosts(*(each.model_dump() for each in found)) == found
    with pytest.raises(ValidationError, match=r"3 processes share 2 CPUs \(4-5\): one needs a CPU or more"):
        hosts({"cpus": "4-5", "processes": 3})


def test_mistakes_in_a_list_of_drivers_have_their_line(tmp_path: Path) -> None:
    path = tmp_path / "drivers.yaml"
    path.write_text("drivers:\n  - local\n  - { via: ssh b, wieght: 2 }\n")
    with pytest.raises(UsageError, match=r"drivers.yaml:3: unknown key 'wieght'; did you mean weight\?"):
        read_drivers(str(path))
    path.write_text("- local\n- { via: ssh b, weight: 0 }\n")
    with pytest.raises(UsageError, match=r"drivers.yaml:2: weight: 0 is not between 1 and 1,000"):
        read_drivers(str(path))
    path.write_text("- local\n- ssh\n")
    with pytest.raises(UsageError, match=r"via names no host: write `ssh user@host`"):
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


def test_progress_is_told_once_every_driver_has(tmp_path: Path) -> None:
    logs = [ProgressLog(tmp_path / name) for name in "ab"]
    line = '{"t":%d,"phase":"steady","tps":10.0,"p50_ms":1,"p99_ms":%d,"errors":1,"in_flight":2}\n'
    (tmp_path / "a").write_text('{"ready":true}\n' + line % (1, 5) + line % (2, 5) + "bang\n")
    (tmp_path / "b").write_text(line % (1, 9) + (line % (2, 9))[:20])
    assert all(log.read() for log in logs)
    assert (logs[0].ready, logs[1].ready, logs[0].last_words()) == (True, False, "bang")
    (first,) = together(logs, 0)
    assert (first.throughput, first.p99_ms, first.errors, first.in_flight) == (20.0, 9.0, 2, 4)
    assert json.loads(as_json(first))["tps"] == 20.0
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


FAKE_LEADLINE_LOAD = """\
#!/bin/sh
for word; do echo "$word"; done > {words}
echo "leadline-load: driver y had another seed than driver x" >&2
exit {code}
"""


def part(name: str) -> Part:
    return Part(DriverHost(name=name, via="ssh b"), Path("out/drivers") / name, "0-1/2", 2, Offset(1e6, 5e4), 100.0)


def test_the_driver_merges_and_is_told_what_it_cannot_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary, words = tmp_path / "fake-leadline-load", tmp_path / "words"
    monkeypatch.setattr(cluster_merge, "find_binary", lambda: binary)
    binary.write_text(FAKE_LEADLINE_LOAD.format(words=words, code=0))
    binary.chmod(0o755)
    merge([part("x"), part("y")], Path("out"), 7_000_000_000_000_000_123)
    told = words.read_text().splitlines()
    assert told[:5] == ["merge", "--out", "out", "--start", "7000000000000000123"]
    clock = {"clock_offset_ms": 1.0, "clock_uncertainty_ms": 0.05, "clock_moved_ms": 1e-4}
    assert json.loads(told[6]) == [{"via": "ssh b", "share": "0-1/2", "cpus": 2, **clock}] * 2
    assert told[7:] == ["out/drivers/x", "out/drivers/y"]
    binary.write_text(FAKE_LEADLINE_LOAD.format(words=words, code=1))
    with pytest.raises(LeadlineError, match=r"^driver y had another seed than driver x$"):
        merge([part("x"), part("y")], Path("out"), 1)
