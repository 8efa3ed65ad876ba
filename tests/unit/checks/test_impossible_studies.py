"""Studies that cannot run: one message each, at once, by the dry run. That the run can do what the dry run accepts
is fuzzed (`agree` of test_fuzz.py).
"""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from leadline.checks import machine
from leadline.checks.files.study import StudyFile, find_study, parse_study
from leadline.checks.load import check_load
from leadline.checks.plan import plan_study
from leadline.checks.subject import study_catalogue
from leadline.host.journal import UndoJournal
from leadline.host.local import LocalHost
from leadline.host.registry import HOSTS
from leadline.load.scenario import sent_variables
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.plan import Plan
from leadline.model.study import MachineKind
from leadline.model.workload import Workload
from leadline.places.knobs import choice_of, settings_of
from leadline.places.simulated import SimulatedTestbed, Truth
from leadline.places.testbed import RunOptions
from leadline.store.lab import Store

STUDY = """\
study: plain
question: Which of a datasource's size, its statement cache and the age limit for dirty pages matters?
stack: { app: brokerage, mode: direct, server: liberty, database: postgres }
workload:
  scenario: brokerage-classic
  arrivals: closed
  users: 40
  variables: { think: 60ms }
  load_units: 1
  ramp_up: 6s
  steady: 12s
  ramp_down: 1s
factors:
  server.datasource.max_connections: [10, 2, 40]
  server.datasource.statement_cache: [60, 0]
  vm.dirty_expire_centisecs: [3000, 500]
settings: { jvm.heap: 256m, server.threads.min: 50 }
design: { kind: one-at-a-time, replicates: 3, sentinels: 6, seed: 20 }
limits: { errors: 0.1%, p90: 2s }
"""


def study(overrides: Sequence[str], factors: Sequence[str] = ()) -> StudyFile:
    return parse_study(STUDY, "plain.yaml", overrides, factors)


def planned(*overrides: str, factors: tuple[str, ...] = ()) -> Plan:
    file = study(overrides, factors)
    return plan_study(file, LocalHost(), study_catalogue(file)).plan


def refused(*overrides: str, factors: tuple[str, ...] = ()) -> str:
    with pytest.raises(UsageError) as error:
        planned(*overrides, factors=factors)
    told = str(error.value)
    assert "\n" not in told
    assert len(told) < 600
    return told


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["observe=false"], "a profile is a series, which `observe: false` does not record"),
        (["profile=full", "stack.host=ssh:app"], "a profile is taken on this host, and the server runs on ssh:app"),
        (["stack.host=vm"], "a guest's server is not here"),
        (["stack={web: httpd}", "factors={}", "settings={}"], "a profile needs a server's JVM"),
    ],
)
def test_a_profile_is_of_a_jvm_on_this_host(overrides: Sequence[str], told: str) -> None:
    assert told in refused("profile=true", *overrides)


def test_a_fork_is_warm_so_its_users_pause_within_its_steady_phase_alone() -> None:
    forks = ["stack.host=virtual-time", "guest={memory: 1536m, kernel: 6.1-cloud}", "design={kind: forks, worlds: 2}"]
    load = ["workload.ramp_up=10s", "workload.steady=8s", "workload.load_units=24", "responses=[throughput]"]
    file = find_study("dealership-load", [*forks, *load], ["load.injection_rate=8,24"])
    with pytest.raises(UsageError, match="a user pauses for 10s between transactions"):
        check_load(file)


def test_a_profile_is_planned() -> None:
    assert re.search(
        r"A light profile of the server in \d+ of \d+ trials, of every", " ".join(planned("profile=true").notes)
    )
    assert [study([text]).study.profile for text in ("profile=true", "profile=off")] == ["light", "off"]
    assert study([]).study.profile == "off"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("workload.steady=-30", "workload.steady: -30s is not between 1s and 168h"),
        ("workload.steady=0", "workload.steady: 0s is not between 1s"),
        ("workload.steady=.nan", ".nan is not a finite number"),
        ("workload.steady=nan", "'nan' is not a duration"),
        ("workload.ramp_up=-1", "workload.ramp_up: -1s is not between 0s and 24h"),
        ("workload.timeout=0", "workload.timeout: 0s is not between 1ms and 1h"),
        ("workload.users=1000000000000", "workload.users: 1,000,000,000,000 is not between 1 and 1,000,000"),
        ("workload.users=true", "workload.users: true is a switch; a number is wanted"),
        ("workload.users=[", "did not find expected node content"),
        ("workload.users=" + "[" * 600, "more than 40 lists and mappings in each other"),
        ("workload.users=" + "9" * 5000, "a number of 5,000 digits"),
        ("workload.users=0x" + "f" * 5000, "a number of 5,002 digits"),
        ("workload.users=", "write it as key=value"),
        ("workload.users= ", "no value; write null"),
        ("workload.users=!!python/object:os.system x", "tags are not read here"),
        ("workload.users=2026-99-99", "a whole number is wanted"),
        ("=3", "write it as key=value"),
        ("a" + ".b" * 5000 + "=3", "no key of a study"),
        ("workload.load_units=1000000", "workload.load_units: 1,000,000 is not between 1 and 1,000"),
        ("workload.variables.think=-5", "mean: `-5` is not a duration"),
        ("workload.variables.think=100", "mean: `100` has no unit: write 100ms or 100s"),
        ("workload.variables.thnik=5ms", "has no parameter 'thnik'; did you mean think?"),
        ("workload.variables.units=5", "units is workload.load_units"),
        ("workload.scenario=/", "does not exist, or is no file"),
        ("workload={arrivals: poisson, rate: 1e9}", "workload.rate: 1e+09 is not between 0.001 and 1e+06"),
        ("workload={users: 2, source_address: 192.0.2.77}", "192.0.2.77: not an address of this host"),
        ("stack.host=evil", "stack.host is 'evil', not one of local"),
        ("stack.java=/nowhere", "no JDK in /nowhere"),
        ("placement.server_cpus=7000", "CPU 7000 of '7000' cannot be used here"),
        ("placement.server_cpus=a", "'a' is not a list of CPUs such as 0,2-3"),
        ("placement.server_cpus=0-99999999999", "is not a list of CPUs"),
        ("placement.server_memory=-5", "placement.server_memory: -5 is not between 64m and 64t"),
        ("placement.server_memory=60t", "60t is more than this machine has"),
        ("responses=[]", "responses: it is empty"),
        ("responses=[p50, p50]", "responses lists p50 twice"),
        ("responses=[p51]", "unknown response 'p51'; percentiles: p50, p90, p95, p99, p999"),
        ("limits.errors=null", "limits.errors: null is not a share such as 0.1%"),
        (
            "workload={users: 2, ramp_up: 1500ms, steady: 1s}",
            "steady: 1s after a ramp-up of 1.5s holds no whole second",
        ),
        ("limits.errors=100%", "limits.errors: "),
        ("workload.variables.think=10h", "a user pauses for 36000s between transactions"),
        ("workload={arrivals: replay, replay: " + "n" * 300 + "}", "no file nnn"),
        ("workload={arrivals: replay, replay: ~nobody-here/x}", "no file ~nobody-here/x"),
        ("limits={p90: 2s, p99: 1s}", "p90 is never above p99"),
        ("equivalence={a: 1}", 'equivalence: {"a": 1} is not a share'),
        ("settings.jvm.heap=.inf", ".inf is not a finite number"),
        ("settings.jvm.heap=1e999", "1e999 is too large a number"),
        ("settings.jvm.heap=9999999t", "'9999999t' is larger than any memory"),
        ("budget=5s", "no trial ends within the budget of 5s: the load of one trial takes 19s"),
        ("budget=-1", "budget: -1s is not between 1s"),
        ("dead_man=0", "dead_man: 0s is not between 1s and 1h"),
        ("dead_man=1e12", "dead_man: "),
        ("dead_man=.inf", ".inf is not a finite number"),
        ("design.seed=-1", "design.seed: -1 is not between 0"),
        ("design.seed=99999999999999999999", "design.seed: 99999999999999999999 is too large"),
        ("design.replicates=100000", "design.replicates: 100,000 is not between 1 and 1,000"),
        ("pseudo_factors={vm.dirty_expire_centisecs: [a, b]}", "is a pseudo-factor and a factor; keep one of them"),
        ('pseudo_factors={"a\\tb": [a, b]}', "a name has 1 to 100 printable characters"),
        ("pseudo_factors={' a': [a, b]}", "a name has 1 to 100 printable characters"),
        ("workload.users=*nobody", "the alias *nobody stands for nothing"),
        (
            "workload={arrivals: poisson, rate: 0.001, steady: 10s}",
            "are 0.01 in a steady state of 10s",
        ),
        ("workload={arrivals: poisson, rate: 1000000, max_sessions: 1}", "none may last longer than 1us"),
        ("workload={users: 20, max_sessions: 5}", "5 sessions at most are fewer than the 20 users; say 20 or more"),
        ("workload={profile: '0s:1,9s:30', max_sessions: 5}", "fewer than the 30 users"),
        ("placement.web_cpus=0", "these CPUs are for a web server; set web.server: nginx"),
        ("placement.web_memory=64m", "this memory is for a web server; set web.server: nginx"),
        ("design={kind: full-factorial, replicates: 1000}", "12,000 trials, more than 10,000; set replicates to 833"),
        ("design={kind: d-optimal, runs: 10000}", "30,000 trials, more than 10,000; set runs to a smaller number"),
        ("design.switchback.slot=100s", "workload.steady of 12s is too short for one block"),
        ("design.switchback={slot: 5s, wash_out: 5s}", "leaves no whole second of a slot of 5s; say 4s or less"),
        ("design={blocks: incomplete, block_size: 1000}", "block_size 1000 holds all 5 runs"),
        ("placement.server_memory=256m", "jvm.heap 256m does not fit into placement.server_memory 256m"),
        ("settings.jvm.heap=60000g", "60000g is above the largest legal value"),
        ("study=ABC", "small letters, digits and hyphens are wanted"),
        ("stack.server=tomcatt", "did you mean tomcat?"),
        ("workload.generator=wrk2", "did you mean wrk?"),
        ("workload.http=3", "workload.http is '3', not one of auto, 1.1, 2"),
        ("workload.source_address=127.0.0.9-127.0.0.2", "a range is FIRST-LAST"),
        ("drivers=[{via: local, weight: 1e300}]", "drivers.0.weight: it is too large"),
        ("drivers=[{via: local, name: a b}]", "has other characters than letters"),
        ("drivers=[local, {via: no-such-program there}]", "no program no-such-program on the path"),
    ],
)
def test_what_no_run_can_do_is_refused_in_one_line(override: str, said: str) -> None:
    assert said in refused(override)


@pytest.mark.parametrize(
    ("overrides", "factor", "said"),
    [
        ((), "placement.server_cpus=all,7000", "CPU 7000 of '7000' cannot be used here"),
        ((), "placement.server_cpus=all,a", "'a' is not a list of CPUs such as 0,2-3"),
        ((), "placement.database_memory=0,60t", "60t is more than this machine has"),
        ((), "placement.database_memory=0,1m", "1m is below the smallest legal value 32m (or 0)"),
        ((), "placement.server_memory=128m,256m", "jvm.heap 256m does not fit into placement.server_memory 128m"),
        (("placement.server_cpus=0",), "placement.server_cpus=all,0", "placement has server_cpus, too"),
        (("settings.placement.server_cpus='0'",), "", "write placement: { server_cpus: ... }"),
    ],
)
def test_limits_that_no_run_can_set_are_refused(overrides: tuple[str, ...], factor: str, said: str) -> None:
    factors = (factor,) if factor else ()
    assert said in refused(*overrides, factors=factors)


def test_cpus_of_the_driver_beside_several_drivers_are_refused() -> None:
    told = refused("drivers=[local, local]", "placement.driver_cpus=0")
    assert "each of several drivers has CPUs of its own: write `cpus` in drivers" in told


def test_keys_of_the_load_beside_another_generator_are_said_to_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, script = tmp_path / "k6", tmp_path / "x.js"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    script.touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    file = study([f"workload.generator={{name: k6, script: {script}}}"])
    found = plan_study(file, LocalHost(), study_catalogue(file)).plan.notes
    (said,) = (note for note in found if note.startswith("k6 brings its own load: workload."))
    assert {"users", "variables"} <= set(said.removesuffix(" change nothing.").partition("workload.")[2].split(", "))
    assert "ramp_up" not in said


def test_levels_that_are_one_after_normalising_are_refused() -> None:
    assert "jvm.heap lists the level 512m twice" in refused("settings={}", factors=("jvm.heap=512m,0.5g",))
    assert "more than 100 levels" in refused(factors=("server.threads.max=" + "5," * 30_000,))
    assert "write it as knob=level" in refused(factors=("=1,2",))


@pytest.mark.parametrize("text", ["self: &self\n  <<: *self\n", "a: &a [*a]\n"])
def test_an_alias_that_stands_for_itself_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^x\.yaml:\d: the alias \*(self|a) stands for itself$"):
        parse_study("study: x\n" + text, "x.yaml")


def test_aliases_count_as_often_as_they_stand_for_something() -> None:
    bomb = "a0: &a0 [1, 1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
    with pytest.raises(UsageError, match="more than 5,000 values"):
        parse_study("study: x\n" + bomb, "x.yaml")


def test_a_file_that_is_none_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        file.truncate(10**12)
    (tmp_path / "latin.yaml").write_bytes(b"study: x\nquestion: \xff\n")
    expected = {pipe: "it is a pipe", tmp_path: "it is a directory", Path("/dev/zero"): "it is a device"}
    expected |= {large: "is too large", tmp_path / "latin.yaml": "latin.yaml:2: not UTF-8"}
    for path, said in expected.items():
        with pytest.raises(UsageError, match=said):
            find_study(str(path))
    for name in ("a\0b", "x" * 100_000):
        with pytest.raises(UsageError, match="no study file"):
            find_study(name)


def test_a_mark_of_byte_order_and_other_ends_of_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(b"\xef\xbb\xbfstudy: x\r\nquestion: q\r\nworkload: { users: 2 }\r\n")
    assert find_study(str(path)).study.workload.users == 2


def test_a_scenario_that_is_another_file_is_not_told() -> None:
    told = refused("workload.scenario=/etc/passwd")
    assert told.endswith("/etc/passwd is no scenario: it is no mapping with `transactions`")
    assert "root" not in told


def test_a_recording_that_is_not_there_is_named() -> None:
    assert "no file /nowhere" in refused("workload={arrivals: replay, replay: /nowhere}")


@pytest.mark.parametrize(("text", "said"), [("1000000\n", "the next one at 1000000 s"), ("1\n2\n", "10 to 40 s of")])
def test_a_recording_without_arrivals_in_the_steady_state_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "recording"
    path.write_text(text)
    assert said in refused(f"workload={{arrivals: replay, replay: {path}}}")


@pytest.mark.parametrize(("kind", "said"), [("pipe", "it is a pipe"), ("zero", "it is a device"), ("large", "256 MiB")])
def test_a_feed_that_is_no_file_is_not_waited_for(tmp_path: Path, kind: str, said: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)
    path = tmp_path / "small.yaml"
    path.write_text(f"{SCENARIO}feeds: {{ f: {{ csv: {kind} }} }}\n")
    assert said in refused(f"workload={{users: 2, scenario: {path}}}")


def test_every_kind_of_machine_that_a_study_can_name_is_there() -> None:
    assert set(HOSTS) == set(get_args(MachineKind))


def test_more_users_than_ports_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "local_ports", lambda _host: 10)
    assert "name 3 or more, as in workload.source_address" in refused("workload.users=21")
    planned("workload.users=20", "workload.source_address=127.0.0.2-127.0.0.3")


def test_no_message_is_without_an_end() -> None:
    told = str(UsageError("x" * 50_000 + "\x1b[2J\n" + "y\n" * 5_000))
    assert len(told.split("\n")) == 31
    assert max(map(len, told.split("\n"))) < 1_000
    assert told.endswith("more lines")
    assert "\x1b" not in told


def test_the_dry_run_reads_the_truth_and_asks_for_a_lab_that_can_be(tmp_path: Path) -> None:
    from leadline.cli.main import app

    (tmp_path / "file").write_text("effects: 3")

    def told(*words: str) -> str:
        error = CliRunner().invoke(app, ["run", *words, "--dry-run"]).exception
        assert isinstance(error, UsageError)
        return str(error)

    file = str(tmp_path / "file")
    assert "a truth file is a mapping" in told("quickstart", "--simulate", file)
    assert "is no directory" in told("quickstart", "--lab", f"{file}/lab")
    (tmp_path / "loop").symlink_to("loop")
    assert "Too many levels of symbolic links" in told("quickstart", "--lab", str(tmp_path / "loop"))
    assert "File name too long" in told("quickstart", "--lab", "n" * 300)
    assert "the path contains unprintable characters" in told("quickstart", "--lab", "a\nb")
    assert "name a directory" in told("quickstart", "--lab", "")
    assert "write it as key=value" in told("quickstart", "--budget", "")


def test_a_plan_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    from leadline.cli.main import app

    os.mkfifo(tmp_path / "pipe")
    for path, said in ((tmp_path / "pipe", "it is a pipe"), (Path("/dev/zero"), "it is a device")):
        error = CliRunner().invoke(app, ["plan", "--check", str(path)]).exception
        assert isinstance(error, UsageError)
        assert said in str(error)


SCENARIO = 'scenario: small\nmix: { a: 1 }\ntransactions: { a: [{ get: "/a" }] }\n'


def test_only_declared_parameters_are_sent(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    planned(f"workload={{users: 2, scenario: {path}}}")
    assert sent_variables(Workload(users=2, scenario=str(path))) == {}
    assert sent_variables(Workload(users=2, load_units=3)) == {"units": 3}
    path.write_text(SCENARIO.replace("get", "gte"))
    with pytest.raises(UsageError, match=r"did you mean `get`\?"):
        planned(f"workload={{users: 2, scenario: {path}}}")


def test_the_dry_run_says_the_load_back_and_what_it_could_not_check(tmp_path: Path) -> None:
    from leadline.cli.main import app

    options = ["run", "quickstart", "--dry-run", "--lab", str(tmp_path / "lab"), "--set", "workload.steady=120"]
    told = CliRunner().invoke(app, options).stdout
    assert "load of a trial: ramp-up 8s, steady 2m, ramp-down 1s; a request may take 10s" in told
    assert "not checked: that levels take effect" in told
    found = json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)
    assert found["load"]["steady"] == 120
    assert found["load"]["variables"]["think"] == "100ms"
    assert len(found["not_checked"]) == 2


@pytest.mark.parametrize("name", ["q?lab", "x%20y", "a#b", "a:b@c", "ä'\"; --"])
def test_the_lab_is_where_its_path_says(tmp_path: Path, name: str) -> None:
    Store(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "lab.sqlite").is_file()
    Store(tmp_path / name, create=False)


def test_a_lab_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "lab.sqlite").write_text("not a database, but long enough to be looked at" * 50)
    with pytest.raises(LeadlineError, match="file is not a database"):
        Store(tmp_path, create=False)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[]", "a list"),
        ("3", "a number"),
        ("null", "null"),
        ('"x"', "a text"),
        ('{"id": 1}', "an entry of another form"),
        ('{"update": {}}', "an entry of another form"),
        ("[" * 3000, "no JSON"),
        ("\udcff", "no JSON"),
        ('{"kind": "file"}', "an entry of another form"),
    ],
)
def test_any_line_of_the_journal_is_passed_over(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "host.jsonl"
    path.write_bytes(line.encode("utf-8", errors="surrogateescape") + b"\n")
    (told,) = UndoJournal(path, root=tmp_path).restore()
    assert told == f"{path}: line 1 is unreadable ({reason}), passed over"


def test_a_stack_of_the_command_line_is_checked() -> None:
    with pytest.raises(UsageError, match=r"no mode 'obm', there is direct, session, orm; did you mean orm\?"):
        choice_of("liberty/obm")
    with pytest.raises(UsageError, match="'inf' is not a number that can be set"):
        settings_of(choice_of("liberty"), ["server.threads.max=inf"])


CROSSED = """\
study: crossed
question: Is a name a sign?
workload: { users: 5, ramp_up: 1s, steady: 6s, ramp_down: 0s }
pseudo_factors: { a x b: [1 x 1, 2 x 2], c: [x, y] }
design: { kind: full-factorial, replicates: 3, sentinels: null }
responses: [throughput]
"""


def simulated(file: StudyFile, lab: Path) -> Store:
    place = SimulatedTestbed(Truth(), lab)
    place.run(file, place.plan(file), RunOptions())
    return place.store


def test_a_factor_whose_name_looks_like_an_interaction_is_a_factor(tmp_path: Path) -> None:
    from leadline.experiments.results import analysis_of

    store = simulated(parse_study(CROSSED, "crossed.yaml"), tmp_path / "lab")
    assert {store.find(name) for name in ("1", "crossed", "crossed@1")} == {1}
    for other in ("2", "9" * 5000, "\u00b2", "other@1", "@1", "crossed@"):
        with pytest.raises(UsageError, match="studies there: crossed@1"):
            store.find(other)
    response = analysis_of(store.load(store.ids()[0])).responses[0]
    assert sorted(effect.factor for effect in response.effects) == ["a x b", "c"]
    assert [effect.factors for effect in response.interactions] == [("a x b", "c")]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"dead_man": -1}, "dead_man: -1s is not between"),
        ({"design": {"duet": {"slot": 10.0}}}, "design: duet was removed in 0.2.0: write rotation, or switchback"),
        ({"design": {"kind": "racing"}}, "design: racing was removed in 0.2.0: write one-at-a-time with"),
    ],
)
def test_a_lab_holds_what_is_refused_today_as_a_sentence(tmp_path: Path, part: dict[str, object], message: str) -> None:
    store = simulated(parse_study(CROSSED, "crossed.yaml"), tmp_path / "lab")
    from sqlalchemy import update

    from leadline.store import schema

    with store.transaction() as connection:
        old = json.dumps({"study": "x", "question": "q", **part})
        connection.execute(update(schema.studies).values(study=old))
    with pytest.raises(LeadlineError, match=f"is not one that this leadline reads: {message}"):
        store.load(1)
    assert store.studies() == [], "what other commands read of the lab is not in its way"
