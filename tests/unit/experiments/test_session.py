"""A session keeps only what was shown to be better, whatever its client does; what it kept is put back at its end."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from leadline.api.running import Session, open_session
from leadline.api.studies import Study
from leadline.model.errors import UsageError
from leadline.planning.gating import RATE, blocks_at, rate_of

KEYS = {
    "study": "greedy",
    "question": "Which settings help?",
    "workload": {"users": 5, "ramp_up": "1s", "steady": "4s", "ramp_down": "1s"},
    "responses": ["throughput"],
    "factors": {"vm.swappiness": [60, 10]},
}
TRUTH = """\
truth:
  noise: { trials: 0.4%, seconds: 1% }
  effects: [{ when: { vm.swappiness: 10 }, percent: { throughput: 20% } }]
"""


def opened(folder: Path, name: str = "greedy") -> Session:
    (folder / "truth.yaml").write_text(TRUTH)
    return open_session(Study.of(KEYS), folder / "lab", name=name, blocks=4, truth=folder / "truth.yaml")


def swappiness(session: Session) -> object:
    return session.place.host.read_back("vm.swappiness")  # type: ignore[attr-defined]


def test_a_greedy_client_keeps_what_helps_and_nothing_else(tmp_path: Path) -> None:
    """Then the server dies and starts again: the session goes on, with the error rate that is left."""
    with opened(tmp_path) as session:
        first = session.measure(session.propose({"vm.dirty_ratio": 10}).number)
        assert not first.better
        with pytest.raises(UsageError, match="only what was shown to be better is kept"):
            session.keep(first.number)
        second = session.measure(session.propose({"vm.swappiness": 10, "vm.dirty_ratio": 30}).number)
        assert (second.verdict, second.rate) == ("better", rate_of([]))
        session.keep(second.number)
        assert swappiness(session) == 10
        assert session.explain(second.number)["changes"]["throughput"][0] == pytest.approx(20, abs=3)
    assert swappiness(session) != 10, "the host is as it was"
    with opened(tmp_path) as session:
        assert [proposal["kept"] for proposal in session.history()] == [False, True]
        assert swappiness(session) == 10
        back = session.measure(session.propose({"vm.swappiness": 60}).number)
        assert (back.verdict, back.rate) == ("worse", 2 * rate_of([])), "the rate of what was shown is passed on"
        session.revert(second.number)
        assert session.describe("vm.swappiness")["in_force"] == {"knobs": {}}
        assert swappiness(session) != 10


def test_a_proposal_that_ran_out_of_time_goes_on_at_its_rate(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        proposal = session.propose({"vm.swappiness": 10})
        cut = session.measure(proposal.number, seconds=15.0)
        assert (cut.verdict, cut.rate) == ("undecided", rate_of([]))
        assert session.measure(proposal.number).better
        assert len(session.history()) == 1


def test_what_was_measured_against_another_state_is_neither_measured_nor_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        cut = session.propose({"vm.dirty_ratio": 10})
        session.measure(cut.number, seconds=15.0)
        session.keep(session.measure(session.propose({"vm.swappiness": 10}).number).number)
        with pytest.raises(UsageError, match="against what is not in force any more; propose it again"):
            session.measure(cut.number)


def test_optuna_asks_and_is_told(tmp_path: Path) -> None:
    """Its loop as the client: the objective is what a proposal changes against what is in force."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize")
    for first in (100, 10):
        study.enqueue_trial({"swappiness": first})
    with opened(tmp_path) as session:
        for _ in range(2):
            trial = study.ask()
            level = trial.suggest_categorical("swappiness", [10, 100])
            proposal = session.measure(session.propose({"vm.swappiness": level}).number)
            study.tell(trial, proposal.percent or 0.0)
            if proposal.better:
                session.keep(proposal.number)
        assert study.best_params == {"swappiness": 10}
        assert session.describe("x")["in_force"] == {"knobs": {"vm.swappiness": 10}}


@pytest.mark.skipif("LEADLINE_MATRIX" not in os.environ, reason="SMAC brings much: LEADLINE_MATRIX=1 runs it")
def test_smac_asks_and_is_told(tmp_path: Path) -> None:
    """The same for SMAC; dask and scikit-learn come with it, so that it is none of development's dependencies."""
    smac = pytest.importorskip("smac", reason="SMAC is not installed: pip install smac")
    space = pytest.importorskip("ConfigSpace").ConfigurationSpace({"swappiness": [10, 100]}, seed=1)
    scenario = smac.Scenario(space, n_trials=4, deterministic=True, output_directory=tmp_path / "smac")
    search = smac.HyperparameterOptimizationFacade(scenario, lambda _, seed=0: float(seed), logging_level=False)
    with opened(tmp_path) as session:
        for _ in range(2):
            trial = search.ask()
            proposal = session.measure(session.propose({"vm.swappiness": int(trial.config["swappiness"])}).number)
            search.tell(trial, smac.runhistory.TrialValue(cost=-(proposal.percent or 0.0)))
            if proposal.better:
                session.keep(proposal.number)
        assert dict(search.intensifier.get_incumbent()) == {"swappiness": 10}
        assert session.describe("x")["in_force"] == {"knobs": {"vm.swappiness": 10}}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"knobs": {"vm.swapiness": 10}}, "unknown knob .vm.swapiness.; did you mean vm.swappiness"),
        ({"knobs": {"vm.swappiness": "much"}}, "vm.swappiness: "),
        ({"knobs": {"vm.swappiness": 100_000}}, "above the largest legal value 200"),
        ({"knobs": {"vm.dirty_ratio": 95}}, "needs a host that is marked disposable"),
        ({"knobs": {"vm.swappiness": 60}}, "in force already"),
        ({}, "one of knobs, command or stack"),
        ({"knobs": {"vm.swappiness": 10}, "command": "true"}, "one of knobs, command or stack"),
        ({"command": "true"}, "this session measures a server"),
        ({"stack": "none.yaml"}, "measures no stack file"),
    ],
)
def test_bad_proposals_are_refused_with_one_clear_message(
    tmp_path: Path, arguments: dict[str, object], why: str
) -> None:
    study = Study.of({**KEYS, "settings": {"vm.swappiness": 60}, "factors": {"vm.dirty_ratio": [20, 10]}})
    (tmp_path / "truth.yaml").write_text(TRUTH)
    with open_session(study, tmp_path / "lab", truth=tmp_path / "truth.yaml") as session:
        with pytest.raises(UsageError, match=why):
            session.propose(**arguments)  # type: ignore[arg-type]
        assert session.history() == []


@pytest.mark.parametrize("name", ["", "../x", "A", "x" * 60])
def test_a_session_has_a_name_that_a_file_can_have(tmp_path: Path, name: str) -> None:
    (tmp_path / "truth.yaml").write_text(TRUTH)
    place = opened(tmp_path).place
    with pytest.raises(UsageError, match="--session"):
        Session(Study.of(KEYS).file, place, name)


def spent(shown: Sequence[bool]) -> float:
    """The rates of all that were not shown to be better."""
    return sum(rate_of(shown[:at]) for at, better in enumerate(shown) if not better)


def test_whatever_is_shown_the_rates_of_the_others_stay_within_the_sessions() -> None:
    random = np.random.default_rng(1)
    for _ in range(200):
        assert spent(list(random.random(300) < random.random())) <= RATE + 1e-12
    assert spent([False] * 3000) == pytest.approx(RATE, rel=1e-3)


def test_later_proposals_have_the_blocks_that_their_rate_needs() -> None:
    assert blocks_at(RATE / 2, 20) == 20
    blocks = [blocks_at(rate_of([False] * before), 20) for before in range(9)]
    assert (blocks[0], blocks) == (blocks[7], sorted(blocks))
    assert (blocks[0], blocks[8]) == (29, 37)


STACK = """\
stack: shop
command: java -jar {jar} --port=${{port}}
ready: {{ path: /health }}
"""


def test_a_stack_file_takes_the_place_of_another(tmp_path: Path) -> None:
    for name in ("main", "change", "third"):
        (tmp_path / f"{name}.jar").write_bytes(b"")
        (tmp_path / f"{name}.stack.yaml").write_text(STACK.format(jar=tmp_path / f"{name}.jar"))
    (tmp_path / "shop.scenario.yaml").write_text(
        "scenario: shop\nmix: { ready: 1 }\ntransactions:\n  ready:\n    - get: /health\n"
    )
    (tmp_path / "truth.yaml").write_text(
        "truth: { noise: { trials: 0.4%, seconds: 1% }, "
        "effects: [{ when: { app.build: head }, percent: { throughput: 20% } }] }\n"
    )
    workload = {**KEYS["workload"], "scenario": str(tmp_path / "shop.scenario.yaml")}  # type: ignore[dict-item]
    study = Study.of({**KEYS, "stack": str(tmp_path / "main.stack.yaml"), "workload": workload})
    with open_session(study, tmp_path / "lab", truth=tmp_path / "truth.yaml", blocks=4) as session:
        first = session.measure(session.propose(stack=str(tmp_path / "change.stack.yaml")).number)
        assert first.better, first
        session.keep(first.number)
        assert session.describe("x")["in_force"]["stack"].endswith("change.stack.yaml")
        other = session.propose(stack=str(tmp_path / "third.stack.yaml"))
        builds = session._study(other, 0.01, 4)["stack"]["own"]["content"]["builds"]
        assert builds["base"]["command"][2].endswith("change.jar")
        assert builds["head"]["command"][2].endswith("third.jar")


def test_a_study_that_no_run_accepts_is_refused_when_the_session_opens(tmp_path: Path) -> None:
    """The fault: the server started, and the first measurement told the client."""
    keys = {**KEYS, "workload": {}}
    (tmp_path / "truth.yaml").write_text(TRUTH)
    session = open_session(Study.of(keys), tmp_path / "lab", truth=tmp_path / "truth.yaml")
    with pytest.raises(UsageError, match="closed arrivals need"), session:
        pass


def test_a_session_file_with_a_wrong_value_is_refused(tmp_path: Path) -> None:
    (tmp_path / "truth.yaml").write_text(TRUTH)
    study = Study.of(KEYS)
    with open_session(study, tmp_path / "lab", truth=tmp_path / "truth.yaml") as session:
        session.propose({"vm.swappiness": 10})
    (path,) = (tmp_path / "lab").rglob("sessions/*.json")
    path.write_text(path.read_text().replace('"rate": 0.0', '"rate": "none"'))
    with (
        pytest.raises(UsageError, match="no session can be read from it"),
        open_session(study, tmp_path / "lab", truth=tmp_path / "truth.yaml"),
    ):
        pass
