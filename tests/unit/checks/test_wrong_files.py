"""What is said of study and tuning files that cannot be run: one line each, with file, line and the nearest choice."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.checks.files.study import parse_study, parse_tuning
from leadline.checks.plan import plan_study
from leadline.checks.subject import study_catalogue
from leadline.cli.main import app
from leadline.experiments.tuning import steps_left_out, tuning_catalogue
from leadline.host.local import LocalHost
from leadline.model.errors import UsageError
from leadline.places.testbed import LocalTestbed

STUDY = """\
study: mine
question: q
stack: { server: liberty, database: postgres, mode: direct }
workload: { users: 20 }
factors:
  server.datasource.statement_cache: [0, 20]
settings: { SETTINGS }
"""
TUNING = """\
tuning: mine
question: q
stack: { server: tomcat }
modes: [direct]
workload: { users: 20 }
steps:
  - name: pool
    levels: { server.datasource.max_connections: [8, 20] }
    why: q
SETTINGS
"""
LEVELS = "levels: { server.datasource.max_connections: [8, 20] }"


def plan(text: str) -> None:
    file = parse_study(text, "mine.yaml")
    plan_study(file, LocalHost(), study_catalogue(file))


def check(text: str) -> dict[str, str]:
    file = parse_tuning(text, "mine.yaml")
    return steps_left_out(file, LocalTestbed(Path(), service_knobs=tuning_catalogue(file)))


def of_study(settings: str, old: str = "SETTINGS", new: str = "") -> str:
    return STUDY.replace("SETTINGS", settings).replace(old, new)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (of_study("", "liberty", "librety"), "3: unknown server 'librety'; did you mean liberty?"),
        (of_study("", "postgres", "oracle"), "3: unknown database 'oracle'; there is postgres, mariadb"),
        (of_study("", "mode: direct", "app: brokrage"), "3: unknown application 'brokrage'; did you mean brokerage?"),
        (of_study("", "liberty", "tomcat").replace("mode: direct", "mode: orm"), "3: tomcat cannot run brokerage in"),
        (
            of_study("server.datasource.min_connections: 30, server.datasource.max_connections: 20"),
            "7: server.datasource.min_connections 30 is above server.datasource.max_connections 20; lower it or raise",
        ),
        (
            of_study(
                "server.threads.max: 8", "server.datasource.statement_cache: [0, 20]", "server.threads.min: [9, 20]"
            ),
            "6: server.threads.min 9 is above server.threads.max 8; lower it or raise server.threads.max",
        ),
        (
            of_study("server.messaging.consumers: 3"),
            "7: server.messaging.consumers changes nothing without a queue; set app.orders: queue",
        ),
        (
            of_study("app.orders: direct, server.messaging.store: file"),
            "7: server.messaging.store changes nothing without a queue; set app.orders: queue",
        ),
        (
            of_study("app.agents: remote", "server: liberty", "app: dealership, server: tomcat"),
            "7: app.agents: remote cannot be had here: tomcat takes no remote calls of other programs; ",
        ),
        (
            of_study(
                "app.agents: remote, server.tls: on", "server: liberty", "app: dealership, server: wildfly"
            ).replace("users: 20", "scenario: dealership"),
            "7: app.agents remote calls over a plain port: leave server.tls out",
        ),
        (
            of_study("app.agents: remote", "server: liberty", "app: dealership, server: wildfly"),
            "7: app.agents remote is for the scenario dealership by leadline-load; set workload.scenario to it, or",
        ),
    ],
)
def test_a_study_that_cannot_be_run_is_refused_at_its_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan(text)
    told = str(refused.value)
    assert told.startswith(f"mine.yaml:{said}")
    assert "\n" not in told


@pytest.mark.parametrize(
    "settings",
    [
        "app.orders: queue, server.messaging.consumers: 3",
        "server.transactions.log_place: disk",
        "server.datasource.min_connections: 20, server.datasource.max_connections: 20",
    ],
)
def test_a_study_that_makes_sense_is_planned(settings: str) -> None:
    plan(of_study(settings, "mode: direct", "mode: session"))
    # one of the levels fits: what does not is a trial that fails, which is a result
    plan(of_study("server.threads.max: 8", "server.datasource.statement_cache: [0, 20]", "server.threads.min: [4, 20]"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("levels:", "levls:", "8: unknown key 'levls'; did you mean levels?"),
        ("steps:", "stepps:", "6: unknown key 'stepps'; did you mean steps?"),
        ("tomcat", "tomcat, mode: direct", "3: unknown key 'mode'; a tuning names its modes under `modes`"),
        ("tomcat", "tomkat", "3: unknown server 'tomkat'; did you mean tomcat?"),
        ("tomcat", "tomcat, database: mariadbb", "3: unknown database 'mariadbb'; did you mean mariadb?"),
        ("[direct]", "[direkt]", "4: modes.0 is 'direkt', not one of direct, session, orm; did you mean direct?"),
        ("[direct]", "[direct, orm]", "4: tomcat cannot run brokerage in mode orm, only direct; "),
        ("max_connections", "max_conections", "8: unknown knob 'server.datasource.max_conections'; did you mean "),
        ("[8, 20]", "[8, twenty]", "8: server.datasource.max_connections: 'twenty' is not a number"),
        ("[8, 20]", "8", "8: steps.0.levels.server.datasource.max_connections: write a list, such as [1, 2] (found 8)"),
        ("[8, 20]", "[8, [20]]", "8: steps.0.levels.server.datasource.max_connections.1: a level is one number, word"),
        ("[8, 20]", "[8]", "8: server.datasource.max_connections needs its untuned level and at least one candidate"),
        ("[8, 20]", "[8, 8]", "8: step pool lists the level 8 twice"),
        ("[8, 20] }", "[8, 20], server.threads.max: [1, 2, 3] }", "8: the knobs of step pool move together, so they "),
        (LEVELS, "levels: [8, 20]", "8: steps.0.levels: write keys with values, such as { key: value } (found [8, 20]"),
        ("why: q", "elsewhere: { server.datasource.max: 8 }", "9: elsewhere names server.datasource.max, which step "),
        ("why: q", "modes: [om]", "9: steps.0.modes.0 is 'om', not one of direct, session, orm; did you mean orm?"),
        ("SETTINGS", "skip: [pol]", "10: skip names pol, which is no step; did you mean pool?"),
        ("SETTINGS", "settings: { app.mode: orm }", "10: app.mode is not set: name the mode under `modes`"),
        ("SETTINGS", "settings: { server.threads.maxx: 5 }", "10: unknown knob 'server.threads.maxx'; did you mean "),
        ("SETTINGS", "settings: { server.threads.max: lots }", "10: server.threads.max: 'lots' is not a number"),
        ("SETTINGS", "settings: { app.orders: queue }", "10: app.orders: queue cannot be had here: orders go through"),
        ("SETTINGS", "settings: { web.tls: on }", "10: web.tls changes nothing without a web server; set web.server"),
        ("SETTINGS", "placement: { web_cpus: 1 }", "10: these CPUs are for a web server; set web.server: nginx"),
        ("SETTINGS", "blocks: { step: three }", '10: blocks.step: a whole number is wanted (found "three")'),
        ("SETTINGS", "blocks: { confirm: 1 }", "10: confirm is 0, or two blocks and more"),
        (
            "SETTINGS",
            "responses: [steady_cpu]",
            "10: unknown response 'steady_cpu'; did you mean steady_cpu_per_transaction?",
        ),
        ("SETTINGS", "responses: [thruput]", "10: unknown response 'thruput'; did you mean throughput?"),
        ("users: 20", "users: 20, rate: 5", "5: closed arrivals have `users` or `profile`, not `rate`"),
        ("users: 20", "users: 20, scenario: quikstart", "5: no scenario 'quikstart'"),
    ],
)
def test_a_wrong_tuning_is_refused_in_one_line_before_anything_starts(old: str, new: str, said: str) -> None:
    text = TUNING if old == "SETTINGS" else TUNING.replace("SETTINGS", "")
    assert old in text
    with pytest.raises(UsageError) as refused:
        check(text.replace(old, new, 1))
    told = str(refused.value)
    assert told.startswith(f"mine.yaml:{said}")
    assert "\n" not in told


def test_levels_of_a_step_to_come_mean_nothing_before_it() -> None:
    later = """
  - { name: front, levels: { web.server: [none, nginx], web.place: [absent, same] } }
  - { name: orders, levels: { app.orders: [direct, queue], server.messaging.consumers: [1, 5] } }
"""
    text = TUNING.replace("tomcat", "liberty").replace("\nSETTINGS", later)
    assert check(text) == {}


def test_a_step_whose_meaning_hangs_on_another_is_refused_before_hours_are_spent() -> None:
    steps = """
  - { name: orders, levels: { app.orders: [direct, queue] } }
  - { name: consumers, levels: { server.messaging.consumers: [1, 5] } }
"""
    with pytest.raises(UsageError, match=r"^mine\.yaml:11: server\.messaging\.consumers changes nothing"):
        check(TUNING.replace("tomcat", "liberty").replace("\nSETTINGS", steps))


SECRET = "hunter2"
OTHER_FILES = {
    "shadow": f"root:$6${SECRET}:19000:0:99999:7:::\ndaemon:*{SECRET}:19000\n",
    "environment": f"PASSWORD={SECRET}\nTOKEN={SECRET}\n",
    "key": f"-----BEGIN PRIVATE KEY-----\n{SECRET}{SECRET}\n-----END PRIVATE KEY-----\n",
    "secrets.yaml": f"password: {SECRET}\nusers:\n  - name: {SECRET}\n",
    "twice.yaml": f"password: 1\npassword: {SECRET}\n",
    "my.cnf": f"[client]\nuser = root\npassword = {SECRET}\n",
    "token.json": json.dumps({"password": SECRET, "list": [SECRET]}),
    "netrc": f"machine x login y password {SECRET}\n",
    "broken": f'"{SECRET}\n{{{SECRET} [\n',
    "binary": f"\0\1{SECRET}\n",
}
LOAD = ("--url", "http://127.0.0.1:9", "--out", "out")
READERS: dict[str, tuple[str, ...]] = {
    "study": ("plan", "FILE"),
    "plan": ("plan", "--check", "FILE"),
    "truth": ("run", "quickstart", "--dry-run", "--simulate", "FILE"),
    "scenario": ("plan", "quickstart", "--set", "workload.scenario=FILE"),
    "driver's scenario": ("load", "FILE", *LOAD),
    "replay": ("load", "brokerage-ping", *LOAD, "--arrivals", "replay", "--replay", "FILE"),
    "feed": ("load", "feed.yaml", *LOAD),
    "drivers": ("load", "brokerage-ping", *LOAD, "--check", "--drivers", "FILE.yaml"),
    "groups": ("figures", "quickstart", "--groups-file", "FILE"),
    "table": ("figures", "FILE.csv"),
    "recording": ("scenario", "from", "FILE"),
    "collector's log": ("gc", "FILE"),
}
FEED = "scenario: x\nfeeds: { f: { csv: FILE } }\nmix: { a: 1 }\ntransactions: { a: [{ get: '/${f.x}' }] }\n"


@pytest.mark.parametrize("reader", READERS)
def test_nothing_is_told_of_a_file_that_is_another_one(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Keys, tags and names may be: a message quotes no value and no line of what is not the file that was meant."""
    monkeypatch.chdir(tmp_path)
    for name, text in OTHER_FILES.items():
        for file in (name, f"{name}.yaml", f"{name}.csv"):
            (tmp_path / file).write_text(text)
        (tmp_path / "feed.yaml").write_text(FEED.replace("FILE", name))
        words = [word.replace("FILE", str(tmp_path / name)) for word in READERS[reader]]
        done = CliRunner().invoke(app, words)
        said = f"{done.output}{done.exception}{''.join(capfd.readouterr())}"
        assert done.exit_code != 0, f"{reader} took {name}"
        assert SECRET not in said, f"{reader} told of {name}: {said}"
