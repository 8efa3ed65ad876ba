"""Several drivers as one: shares, clocks, histograms, results."""

import json
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

import leadline.load.cluster.hosts as hosts
import leadline.load.cluster.run as cluster_merge
import leadline.load.cluster.run as cluster_run
from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.cli.live import load_text
from leadline.host import process
from leadline.host.journal import UndoJournal
from leadline.host.local import LocalHost
from leadline.load.cluster.hosts import Connection, Offset, offset, scenario_files
from leadline.load.cluster.run import Cluster, DriverJob, DriverPart, merge, option_pairs, read_drivers, seen_from
from leadline.load.progress import ProgressLog, as_json, as_text, together
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.model.hosts import DriverHost, Drivers, shares
from leadline.stack.registry import stack_catalogue


def hosts_of_cluster(*found: object) -> list[DriverHost]:
    return TypeAdapter(Drivers).validate_python(list(found))


def test_shares_follow_the_weights_in_lowest_terms() -> None:
    drivers = hosts_of_cluster("local", {"via": "ssh b", "weight": 4}, {"via": "ssh c", "weight": 2})
    assert shares([driver.model_copy(update={"weight": 3}) for driver in drivers]) == ["0-1/3", "1-2/3", "2-3/3"]
    assert shares([drivers[0].model_copy(update={"weight": 2}), *drivers[1:]]) == ["0-1/4", "1-3/4", "3-4/4"]
    assert shares(drivers[:1]) == ["0-1/1"]


def test_every_driver_has_a_name() -> None:
    found = hosts_of_cluster(
        "local", "ssh -p 2022 me@far.example", "ip netns exec far.example", {"via": "ssh x", "name": "mine"}
    )
    assert [driver.name for driver in found] == ["local", "far.example", "far.example-2", "mine"]
    with pytest.raises(ValidationError, match="two drivers are named a"):
        hosts_of_cluster({"name": "a"}, {"name": "a"})
    with pytest.raises(ValidationError, match="no command"):
        hosts_of_cluster("ssh 'unclosed")


def test_a_host_has_as_many_drivers_as_processes() -> None:
    found = hosts_of_cluster("local", {"via": "ssh b", "name": "b", "cpus": "0-3,6", "processes": 2, "weight": 3})
    assert [(each.name, each.cpus, each.weight) for each in found] == [
        ("local", None, 1),
        ("b-1", "0,2,6", 3),
        ("b-2", "1,3", 3),
    ]
    assert hosts_of_cluster(*(each.model_dump() for each in found)) == found
    with pytest.raises(ValidationError, match=r"3 processes share 2 CPUs \(4-5\): one needs a CPU or more"):
        hosts_of_cluster({"cpus": "4-5", "processes": 3})


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
    prefix, ssh = (Connection(driver, tmp_path) for driver in hosts_of_cluster("ip netns exec a", "ssh -p 22 me@b"))
    assert prefix.argv("echo $HOME") == ["ip", "netns", "exec", "a", "sh", "-c", "echo $HOME"]
    argv = ssh.argv("echo '$HOME'", keeps=True)
    assert argv[:2] == ["sh", "-c"]  # which takes the directory of the socket away at the end
    assert argv[3:5] == [str(tmp_path), "ssh"]
    assert ssh.argv("true")[0] == "ssh"
    assert argv[-5:] == ["-p", "22", "me@b", "--", """exec sh -c 'echo '"'"'$HOME'"'"''"""]
    assert {"BatchMode=yes", "ControlMaster=yes", f"ControlPath={tmp_path}/%C"} <= set(argv)
    assert "cannot be reached: no route" in str(ssh.unusable(255, "banner\nno route\n"))
    with pytest.raises(LeadlineError, match=r"driver missing .*: .*No such file"):
        Connection(hosts_of_cluster({"name": "missing", "via": "/no/such/program"})[0], tmp_path).run("true")


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


def test_a_percentile_that_hangs_on_transactions_without_an_answer_is_a_lower_bound(tmp_path: Path) -> None:
    """Of one driver, of several together, and in the lines of a study."""
    logs = [ProgressLog(tmp_path / name) for name in "ab"]
    line = '{"t":1,"phase":"steady","tps":10.0,"p50_ms":1,"p99_ms":%s,"errors":1,"in_flight":2}\n'
    (tmp_path / "a").write_text(line % '1000,"unanswered_from_ms":1000')
    (tmp_path / "b").write_text(line % "7")
    (one, *_), (other, *_) = (log.take() for log in logs)
    (both,) = together(logs, 0)
    assert [second.unanswered_from_ms for second in (one, other, both)] == [1000, None, 1000]
    for second in (one, both):
        assert "p99 >= 1000.00 ms" in as_text(second)
        assert "p50     1.00 ms" in as_text(second)
        assert "p99 >= 1,000 ms" in load_text(second)
        assert json.loads(as_json(second))["unanswered_from_ms"] == 1000
    assert "p99     7.00 ms" in as_text(other)
    assert "unanswered_from_ms" not in as_json(other)


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


def part(name: str) -> DriverPart:
    return DriverPart(
        DriverHost(name=name, via="ssh b"), Path("out/drivers") / name, "0-1/2", 2, Offset(1e6, 5e4), 100.0
    )


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


# Driver b, by its share, does what `{does}` says once it has heard the start.
LOST_FAKE_LEADLINE_LOAD = """\
#!{python}
import json, pathlib, select, sys, time
if sys.argv[1] == "host":
    step = {step} if pathlib.Path({place!r}, "ran").exists() else 0
    print(json.dumps(dict(version="1", cpus=2, open_files=9, name="fake")), flush=True)
    for _ in sys.stdin:
        print(time.time_ns() + step, flush=True)
    sys.exit()
ours = sys.argv[sys.argv.index("--share") + 1].startswith("1")
def say(text): print(text, flush=True)
def die(text, code):
    say("leadline-load: " + text)
    sys.exit(code)
if {refuses}: die("unknown option `--nothing`", 2)
say('{{"ready":true}}')
while b"start " not in sys.stdin.buffer.read1(64): pass
pathlib.Path({place!r}, "ran").touch()
for t in range(1, 200):
    say(json.dumps(dict(t=t, phase="steady", tps=1.0, p50_ms=1, p99_ms=1, errors=0, in_flight=0)))
    if ours:
        {does}
    if select.select([sys.stdin], [], [], 0.05)[0] and not sys.stdin.buffer.read1(64): sys.exit(1)
    if {short} and t == 3: sys.exit()
"""

Make = Callable[..., Cluster]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A cluster of two drivers on this host."""

    def made(does: str = "pass", step: int = 0, refuses: bool = False, short: bool = False) -> Cluster:
        binary = tmp_path / "fake-leadline-load"
        place = str(tmp_path)
        binary.write_text(
            LOST_FAKE_LEADLINE_LOAD.format(
                python=sys.executable, place=place, does=does, step=step, refuses=refuses, short=short
            )
        )
        binary.chmod(0o755)
        monkeypatch.setattr(hosts, "find_binary", lambda: binary)
        monkeypatch.setattr(cluster_run, "_LEAD", 0.01)
        start = partial(process.start, journal=UndoJournal(tmp_path / "state" / "undo" / "test.jsonl"))
        drivers = [DriverHost(name="a"), DriverHost(name="b")]
        return Cluster(drivers, tmp_path / "out", tmp_path / "logs", start)

    return made


def begin(cluster: Cluster, tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text("scenario: s\ntransactions: {}\n")
    cluster.open()
    cluster.begin(DriverJob(scenario, ["http://h"], [("--users", "2")]))


def follow(cluster: Cluster) -> None:
    deadline = time.monotonic() + 20
    while cluster.running():
        cluster.poll()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    cluster.poll()


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("die('started 312.0 ms late (at most 100 ms are in step)', 1)", "driver b .*lost: started 312.0 ms late"),
        ("sys.exit(137)", "driver b .*lost: ended by signal 9"),
        ("sys.exit(255)", "driver b .*lost: the connection was lost"),
        ("sys.exit(3)", "driver b .*lost: ended with code 3"),
    ],
)
def test_a_driver_that_ends_is_lost(make: Make, tmp_path: Path, does: str, said: str) -> None:
    with make(does) as cluster:
        begin(cluster, tmp_path)
        with pytest.raises(TrialFailure, match=said) as failure:
            follow(cluster)
    assert failure.value.failure_class is FailureClass.INFRASTRUCTURE
    assert not cluster.running()
    assert UndoJournal(tmp_path / "state" / "undo" / "test.jsonl").open_entries() == []


def test_a_silent_driver_is_lost(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_run, "_SILENCE", 0.5)
    with make("time.sleep(30)") as cluster:
        begin(cluster, tmp_path)
        with pytest.raises(TrialFailure, match=r"driver b .*lost: not a word for"):
            follow(cluster)
    assert not cluster.running()


def test_a_clock_that_was_set_fails_the_run(make: Make, tmp_path: Path) -> None:
    with make(step=3_000_000_000, short=True) as cluster:
        begin(cluster, tmp_path)
        follow(cluster)
        with pytest.raises(TrialFailure, match=r"its clock was set by \+\d+\.\d ms during the run") as failure:
            cluster.collect()
    assert failure.value.failure_class is FailureClass.INFRASTRUCTURE


def test_a_driver_that_left_no_results_is_lost_by_name(make: Make, tmp_path: Path) -> None:
    with make(short=True) as cluster:
        begin(cluster, tmp_path)
        follow(cluster)
        with pytest.raises(TrialFailure, match=r"driver [ab].*summary\.json is ") as failure:
            cluster.collect()
    assert failure.value.failure_class is FailureClass.INFRASTRUCTURE


def test_what_the_drivers_refuse_is_the_users_mistake(make: Make, tmp_path: Path) -> None:
    with make(refuses=True) as cluster, pytest.raises(UsageError, match=r"^unknown option `--nothing`$"):
        begin(cluster, tmp_path)


STUDY = """\
study: two
question: Do two drivers do what one does?
workload: { users: 4 }
factors: { jvm.heap: [256m, 512m] }
drivers: [local, { via: ssh b, weight: 3 }]
"""


def plan(text: str, state: Path) -> None:
    file = parse_study(text, "two.yaml")
    stack = file.study.stack
    plan_study(file, LocalHost(state=state), stack_catalogue(stack))


def test_a_load_on_several_hosts_is_planned_like_any_other(tmp_path: Path) -> None:
    plan(STUDY, tmp_path)
    assert [driver.name for driver in parse_study(STUDY, "two.yaml").study.drivers] == ["local", "b"]


def test_another_generator_cannot_be_on_several_hosts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"two\.yaml:5: several drivers are leadline-load on every host"):
        plan(STUDY.replace("{ users: 4 }", "{ users: 4, generator: { name: k6, script: x.js } }"), tmp_path)


def test_a_feed_that_cannot_be_sent_is_refused_beforehand(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text("scenario: s\ntransactions: {}\nfeeds: { people: { csv: /etc/people.csv } }\n")
    with pytest.raises(UsageError, match=r"two\.yaml:3: .*feed people: /etc/people.csv cannot be sent"):
        plan(STUDY.replace("{ users: 4 }", f"{{ users: 4, scenario: {scenario} }}"), tmp_path)
