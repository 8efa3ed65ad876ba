"""Study files: what is accepted, and what is said of what is not."""

from pathlib import Path

import pytest

from leadline.checks.files.study import builtin_studies, find_study, json_schema, parse_study
from leadline.model.errors import UsageError
from leadline.model.study import Study

GOOD = """\
study: pools
question: Do larger pools pay?
stack: { mode: direct, server: liberty }
workload: { arrivals: open, rate: 20, ramp_up: 20s, steady: 1m30s }
factors:
  server.datasource.max_connections: [10, 20]
  jvm.heap: [256m, 1g]
design: { replicates: 5, sentinels: null }
limits: { p90: 2s, errors: 0.1% }
budget: 2h
"""


def refused(text: str) -> str:
    with pytest.raises(UsageError) as error:
        parse_study(text, "pools.yaml")
    return str(error.value)


def test_a_good_file_is_read_with_its_units() -> None:
    study = parse_study(GOOD, "pools.yaml").study
    assert study.workload.arrivals == "poisson"
    assert study.workload.steady == 90
    assert study.limits.errors == 0.001
    assert study.budget == 7200
    assert study.factors["jvm.heap"] == ["256m", "1g"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("stack: { mode", "stack: { moed", "pools.yaml:3: unknown key 'moed'; did you mean mode?"),
        ("mode: direct", "mode: dirct", "pools.yaml:3: stack.mode is 'dirct', not one of direct, session, orm"),
        ("ramp_up: 20s", "ramp_up: 20x", "pools.yaml:4: workload.ramp_up: '20x' is not a duration"),
        ("[256m, 1g]", "[256m, [1g]]", "pools.yaml:7: factors.jvm.heap.1: a level is one number, word or switch"),
        ("replicates: 5", "replicates: 0", "pools.yaml:8: design.replicates: 0 is not between 1 and 1,000"),
        ("replicates: 5", "kind: racing", "pools.yaml:8: racing was removed in 0.2.0: write one-at-a-time with `looks"),
        ("replicates: 5", "duet: {}", "pools.yaml:8: duet was removed in 0.2.0: write rotation, or switchback for"),
        ("budget: 2h", "bugdet: 2h", "pools.yaml:10: unknown key 'bugdet'; did you mean budget?"),
        ("study: pools", "study: Pools!", "pools.yaml:1: study: small letters, digits and hyphens are wanted"),
        ("question: Do larger pools pay?\n", "", "pools.yaml:1: the key 'question' is missing"),
        ("errors: 0.1%", "errors: 120%", "pools.yaml:9: limits.errors: '120%' is not a share"),
        ("budget: 2h", "budget: [", "pools.yaml:11: "),
        (
            "budget: 2h",
            "drivers:\n- local\n- { via: ssh b, wieght: 2 }",
            "12: unknown key 'wieght'; did you mean weight?",
        ),
        ("budget: 2h", "drivers: [local, '']", "pools.yaml:10: drivers.1.via: it is empty"),
        ("budget: 2h", "study: again", 'pools.yaml:10: found duplicate key "study"'),
    ],
)
def test_an_error_names_the_line_and_the_nearest_choice(old: str, new: str, expected: str) -> None:
    assert old in GOOD
    assert expected in refused(GOOD.replace(old, new))


def test_something_else_than_a_mapping_is_refused() -> None:
    assert refused("- a\n- b\n").startswith("pools.yaml:1: no study file: it is a mapping")


def test_command_line_changes_keys_and_factors() -> None:
    file = parse_study(GOOD, "x", ["workload.rate=40", "settings.vm.swappiness=10", "budget=30m"], ["jvm.heap=1g,2g"])
    assert file.study.workload.rate == 40
    assert file.study.settings == {"vm.swappiness": 10}
    assert file.study.budget == 1800
    assert file.study.factors["jvm.heap"] == ["1g", "2g"]


def test_one_level_on_the_command_line_holds_a_factor_and_more_vary_a_setting() -> None:
    held = parse_study(GOOD, "x", [], ["jvm.heap=1g"])
    assert "jvm.heap" not in held.study.factors
    assert held.study.settings["jvm.heap"] == "1g"
    assert held.where(("settings", "jvm.heap")) == "--factor jvm.heap=1g"
    varied = parse_study(GOOD, "x", ["settings.vm.swappiness=10"], ["vm.swappiness=10,60"])
    assert varied.study.settings == {}
    assert varied.study.factors["vm.swappiness"] == [10, 60]


def test_a_change_without_a_value_is_refused() -> None:
    with pytest.raises(UsageError, match="write it as key=value"):
        parse_study(GOOD, "x", ["budget"])
    with pytest.raises(UsageError, match="write it as knob=level,level"):
        parse_study(GOOD, "x", [], ["jvm.heap"])


def test_lines_are_found_for_later_errors() -> None:
    file = parse_study(GOOD, "pools.yaml")
    assert file.where(("factors", "jvm.heap")) == "pools.yaml:7"
    assert file.where(("factors", "no.such.knob")) == "pools.yaml:5"


def test_builtin_studies_parse_and_a_near_miss_is_named(tmp_path: Path) -> None:
    for name in builtin_studies():
        assert find_study(name).study.study == name
    with pytest.raises(UsageError, match="did you mean quickstart"):
        find_study("quikstart")
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    assert find_study(str(path)).study.study == "pools"


@pytest.mark.parametrize(
    ("stack", "more", "profiling"),
    [
        ("{ server: tomcat }", "", "light"),
        ("{ server: tomcat, host: 'ssh:app' }", "", "light"),
        ("{ server: tomcat }", "profile: off", "off"),
        ("{ server: tomcat }", "profile: full", "full"),
        ("{ server: tomcat }", "observe: false", "off"),
        ("{ server: tomcat, host: vm }", "", "off"),
        ("{ web: nginx }", "", "off"),
        ("{ url: 'http://10.0.0.7:8080/' }", "", "off"),
        ("jar.stack.yaml", "", "light"),
        ("native.stack.yaml", "", "off"),
        ("running.stack.yaml", "", "off"),
    ],
)
def test_a_jvm_that_leadline_starts_has_a_profile_without_a_word(
    tmp_path: Path, stack: str, more: str, profiling: str
) -> None:
    rest = "ready: { path: / }\ndatabase: none\nscenario: pages.yaml\n"
    for name, how in {
        "jar": "command: [java, -cp, ., Shop, '${port}']",
        "native": "command: [python3, front.py, '${port}']",
        "running": "attach: { port: 8080 }\nmine: true",
    }.items():
        (tmp_path / f"{name}.stack.yaml").write_text(f"stack: {name}\n{how}\n{rest}")
    (tmp_path / "pages.yaml").write_text("scenario: pages\nmix: { page: 1 }\ntransactions: { page: [{ get: / }] }\n")
    text = f"study: any\nquestion: Any?\nstack: {stack}\nworkload: {{ users: 2 }}\n{more}\nfactors: {{}}\n"
    (tmp_path / "any.yaml").write_text(text)
    assert parse_study(text, str(tmp_path / "any.yaml")).study.profiling == profiling


def test_the_schema_knows_every_key() -> None:
    schema = json_schema(Study)
    assert schema["additionalProperties"] is False
    assert {"study", "question", "factors", "design", "budget"} <= set(schema["properties"])


def test_a_stored_study_of_0_1_0_is_read_without_the_layout_it_does_not_have() -> None:
    old = GOOD.replace("replicates: 5", "replicates: 5, duet: null")
    assert parse_study(old, "pools.yaml").study == parse_study(GOOD, "pools.yaml").study
