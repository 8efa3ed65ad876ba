"""What means nothing beside another option is refused by name, whatever the command; a table of both."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from leadline.cli.lazy import ALONE, APART, COMMANDS, NEEDS, LazyCommands
from leadline.cli.main import app
from leadline.model.errors import UsageError

CHOSEN = {"--undecided": "pass", "--order": "latin", "--cache": "warm", "--generator": "k6"}
NAMED = {"compare": ["x", "y"], "gate": ["x", "y"], "soak": ["x", "--for", "1h"], "figures": ["x.csv"]}
NAMED |= {name: ["x"] for name in ("confirm", "capacity", "run", "bisect", "power", "gc")}
TABLES = [
    *[(name, mode) for name, modes in ALONE.items() for mode in modes],
    *[(name, option) for name, needs in NEEDS.items() for option in needs],
    *[(name, option) for name, pairs in APART.items() for pair in pairs for option in pair[:2]],
]


def options(name: str) -> dict[str, object]:
    command = LazyCommands(name="leadline").get_command(None, name)
    return {max(one.opts, key=len): one for one in command.params if one.param_type_name == "option"}


def words(option: str, parameter: object) -> list[str]:
    if getattr(parameter, "is_flag", False):
        return [option]
    return [option, *[CHOSEN.get(option, "2")] * getattr(parameter, "nargs", 1)]


def refused_of(name: str, *given: str) -> str:
    return refused(name, *NAMED.get(name, []), *given)


def refused(*given: str) -> str:
    done = CliRunner().invoke(app, list(given), prog_name="leadline")
    assert isinstance(done.exception, UsageError), (given, done.output, done.exception)
    return str(done.exception)


@pytest.mark.parametrize(("name", "option"), TABLES)
def test_every_rule_is_of_options_that_there_are(name: str, option: str) -> None:
    assert name in COMMANDS
    assert option in options(name)


@pytest.mark.parametrize(("name", "mode"), [(name, mode) for name, modes in ALONE.items() for mode in modes])
def test_beside_a_mode_every_other_option_is_refused(name: str, mode: str) -> None:
    known = options(name)
    told = {
        option: refused_of(name, *words(mode, known[mode]), *words(option, parameter))
        for option, parameter in known.items()
        if option not in (mode, "--help", *ALONE[name][mode].split())
    }
    assert told
    for option, sentence in told.items():
        assert option in sentence
        assert "means nothing beside" in sentence


@pytest.mark.parametrize(("name", "option"), [(name, option) for name, needs in NEEDS.items() for option in needs])
def test_an_option_without_the_one_it_belongs_to_is_refused(name: str, option: str) -> None:
    needed = NEEDS[name][option]
    assert refused_of(name, *words(option, options(name)[option])).startswith(f"{option} belongs to {needed}")


@pytest.mark.parametrize(("name", "one", "other"), [(n, *pair[:2]) for n, pairs in APART.items() for pair in pairs])
def test_options_that_exclude_each_other_are_refused(name: str, one: str, other: str) -> None:
    known = options(name)
    assert one in (told := refused_of(name, *words(one, known[one]), *words(other, known[other])))
    assert "cannot" in told


@pytest.mark.parametrize(
    ("given", "option"),
    [
        (["run", "quickstart", "--budget", "1h", "--budget", "2h"], "--budget"),
        (["command", "a", "b", "--seed", "1", "--seed", "1"], "--seed"),
        (["command", "a", "b", "--shell", "--no-shell"], "--shell"),
        (["lab", "init", "x", "--database", "a", "--database", "b"], "--database"),
    ],
)
def test_an_option_that_is_given_twice_is_refused(given: list[str], option: str) -> None:
    assert refused(*given).startswith(f"{option} is given 2 times")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["figures", "x.csv", "--system", "kernel"], "--system means nothing for a table"),
        (["figures", "study", "--unit", "ms"], "--unit means nothing for a study"),
        (["figures", "study", "--settings", "3"], "--settings means nothing for a study"),
        (["kernels", "--json", "show", "6.1-cloud"], "--json is of the list"),
        (["load", "--html", "x.html", "--fail", "p99>1s"], "--fail is of a run"),
        (["load", "--html", "x.html", "--users", "3"], "--users is of a run"),
    ],
)
def test_what_a_source_or_a_place_leaves_without_meaning_is_refused(given: list[str], said: str) -> None:
    assert refused(*given).startswith(said)


def test_counts_of_servers_take_what_servers_need() -> None:
    assert {"--scenario", "--stack"} <= {*ALONE["gate"]["--count"].split()}
    assert "are of jars" in refused_of("gate", "--count", "--scenario", "shop.scenario.yaml")
