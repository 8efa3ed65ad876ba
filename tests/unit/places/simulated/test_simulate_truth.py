"""Truth files: values, and errors that name the line and the nearest valid choice."""

import re
from pathlib import Path

import pytest

from leadline.model.errors import FailureClass, UsageError
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.model.plan import Factor
from leadline.model.workload import Workload
from leadline.places.simulated import Model, bound, parse_truth

POOL = Knob("server.pool", Kind.INTEGER, ApplyCost.RESTART, "a pool", default=10, minimum=1)
HEAP = Knob("jvm.heap", Kind.SIZE, ApplyCost.RESTART, "a heap")
KNOBS = {knob.name: knob for knob in (POOL, HEAP)}
FACTORS = [Factor("server.pool", (10, 2), 10), Factor("which", ("a", "b"), "a", pseudo=True)]


def test_units_and_signs() -> None:
    truth = parse_truth(
        """
truth:
  server: { demand: 4ms, think: 1s }
  drift: -3%
  noise: { trials: 4.3% }
  failures: [{ class: infrastructure, probability: 10% }]
  effects:
    - when: { server.pool: 2 }
      percent: { throughput: -5%, latency: 0.1 }
""",
        "x.yaml",
    )
    assert truth.server.demand == pytest.approx(0.004)
    assert truth.drift == pytest.approx(-0.03)
    assert truth.noise.trials == pytest.approx(0.043)
    assert truth.failures[0].failure_class is FailureClass.INFRASTRUCTURE
    assert truth.failures[0].at == "reset"
    assert truth.effects[0].percent == {"throughput": -0.05, "latency": 0.1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("truth:\n  noise:\n    trails: 3%\n", "x.yaml:3: unknown key 'trails'; did you mean trials?"),
        ("truth:\n  seed: 1\n  drfit: 3%\n", "x.yaml:3: unknown key 'drfit'; did you mean drift?"),
        (
            "truth:\n  effects:\n    - percent: {throughput: 5%}\n",
            "x.yaml:3: the key 'truth.effects.0.when' is missing",
        ),
        (
            "truth:\n  effects:\n    - when: {a: 1}\n      percent: {trhoughput: 5%}\n",
            "trhoughput is no response a truth can change; did you mean throughput?",
        ),
        ("truth:\n  noise: {trials: 400%}\n", "x.yaml:2: truth.noise.trials: '400%' is not a share"),
        ("truth:\n  drift: fast\n", "'fast' is not a change such as 5%"),
        ("truth:\n  failures: [{class: bad, probability: 1%}]\n", "x.yaml:2: truth.failures.0.class"),
        ("truth:\n  failures: [{class: workload, probability: 1%, stepp: load}]\n", "did you mean step?"),
        ("truth:\n  seed: [\n", "x.yaml:"),
        ("turth: {}\n", "starts with `truth:`"),
        ("truth: {}\nmore: 1\n", "x.yaml:2: unknown key 'more'"),
    ],
)
def test_errors_name_the_line(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_truth(text, "x.yaml")
    assert expected in str(error.value)


def test_levels_are_held_as_the_study_holds_them() -> None:
    truth = parse_truth("truth: {effects: [{when: {jvm.heap: 512m}, percent: {p99: 5%}}]}", "x")
    assert bound(truth, FACTORS, KNOBS).effects[0].when == {"jvm.heap": 512 * 1024 * 1024}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "effects: [{when: {server.pol: 2}, percent: {p99: 5%}}]",
            "unknown knob 'server.pol'; did you mean server.pool?",
        ),
        ("effects: [{when: {server.pool: 0}, percent: {p99: 5%}}]", "below the smallest legal value"),
        ("failures: [{class: workload, probability: 5%, when: {which: b}}]", "which is a pseudo-factor"),
        ("silent: [server.poll]", "silent: unknown knob 'server.poll'; did you mean server.pool?"),
    ],
)
def test_a_truth_about_something_else_is_refused(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as error:
        bound(parse_truth(f"truth: {{{text}}}", "x"), FACTORS, KNOBS)
    assert expected in str(error.value)


def test_planted_percentages_are_exact_and_interactions_multiply() -> None:
    truth = parse_truth(
        """
truth:
  effects:
    - { when: { a: 1 }, percent: { throughput: 10%, cpu_per_transaction: -20% } }
    - { when: { b: 1 }, percent: { throughput: -5%, latency: 30%, startup: 100% } }
    - { when: { a: 1, b: 1 }, percent: { throughput: 4% } }
""",
        "x",
    )
    factors = [Factor("a", (0, 1), 0), Factor("b", (0, 1), 0)]
    model = Model(bound(truth, factors, {}), Workload(users=40))
    assert model.effect(factors, "a", 1, "throughput", crossed=False) == pytest.approx(10)
    assert model.effect(factors, "a", 1, "cpu_per_transaction", crossed=False) == pytest.approx(-20)
    assert model.effect(factors, "b", 1, "p99", crossed=False) == pytest.approx(30)
    assert model.effect(factors, "b", 1, "startup", crossed=False) == pytest.approx(100)
    both, neither = model.responses({"a": 1, "b": 1}), model.responses({"a": 0, "b": 0})
    assert both["throughput"] / neither["throughput"] == pytest.approx(1.1 * 0.95 * 1.04)
    assert model.effect(factors, "a", 1, "throughput", crossed=True) == pytest.approx(100 * (1.1 * 1.04**0.5 - 1))


def test_a_mechanism_acts_through_the_queue() -> None:
    truth = parse_truth("truth: {effects: [{when: {a: 1}, scale: {demand: 2}}, {when: {a: 2}, set: {pool: 1}}]}", "x")
    factors = [Factor("a", (0, 1, 2), 0)]
    model = Model(truth, Workload(users=200))
    slow = model.effect(factors, "a", 1, "throughput", crossed=False)
    assert slow == pytest.approx(100 * (4 / 7 - 1), abs=0.1)  # saturated: 3 + 1 ms of CPU become 6 + 1
    assert model.effect(factors, "a", 1, "server_cpu_per_transaction", crossed=False) == pytest.approx(100)
    assert model.responses({"a": 2})["throughput"] == pytest.approx(1 / 0.006, rel=1e-6)


def test_the_workload_gives_the_think_time() -> None:
    truth = parse_truth("truth: {}", "x")
    quick = Model(truth, Workload(users=2, variables={"think": "10ms"})).responses({})
    slow = Model(truth, Workload(users=2)).responses({})
    assert quick["throughput"] > 5 * slow["throughput"]
    preset = {"preset": "clients-threads", "clients": 2, "threads": 1}
    none = Model(truth, Workload.model_validate(preset)).responses({})
    assert none == Model(truth, Workload(users=2, variables={"think": "0ms"})).responses({})
    own = Model(truth, Workload.model_validate(preset | {"variables": {"think": "10ms"}}))
    assert own.responses({}) == quick


def test_a_workload_without_a_load_has_no_responses() -> None:
    for workload in (Workload(profile="0s:5"), Workload(arrivals="constant", profile="0s:5")):
        with pytest.raises(ValueError, match="are not simulated"):
            Model(parse_truth("truth: {}", "x"), workload).responses({})


def test_the_example_in_the_docs_is_a_truth() -> None:
    page = (Path(__file__).parents[4] / "docs" / "concepts" / "simulation.md").read_text(encoding="utf-8")
    examples = [text for text in re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S) if text.startswith("truth:")]
    assert examples
    assert all(parse_truth(text, "simulation.md").effects for text in examples)
