"""Confirmation studies: what is chosen, how large they are, and that luck is not confirmed while effects are."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from simulated_study import SimulatedSystem, pseudo_factors
from typer.testing import CliRunner

from leadline.analysis.study import analyse
from leadline.analysis.table import SETTING, as_one_factor
from leadline.cli.main import app
from leadline.design.make import make_plan, plan_from_json, plan_to_json
from leadline.design.properties import describe_design
from leadline.layouts.check import check_plan
from leadline.model.design import Design
from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.model.plan import Factor
from leadline.model.result import Verdict
from leadline.planning.forecast import Setup, forecast
from leadline.planning.noise import assumed
from leadline.store.lab import Store

STUDY = """\
study: first
question: Does a pool matter?
stack: { server: tomcat }
workload: { users: 40, variables: { think: 60ms }, ramp_up: 6s, steady: 12s, ramp_down: 1s }
factors:
  server.datasource.max_connections: [10, 8, 20, 40]
  vm.vfs_cache_pressure: [100, 50]
design: { replicates: 4, sentinels: null, seed: 3 }
responses: [throughput]
"""
REAL = (
    "truth: { seed: 5, effects: [{ when: { server.datasource.max_connections: 20 }, percent: { throughput: 12% } }] }"
)
LUCK = "truth: { seed: 5 }"


def test_the_best_of_many_null_levels_is_not_confirmed_and_a_planted_effect_is() -> None:
    """A choice on one set of trials, the conclusion from another; the number of trials is the planning's."""
    factor = Factor("k", tuple(range(9)), 0, pseudo=True)
    plan = make_plan([factor], Design(replicates=3, sentinels=None))
    small = make_plan([Factor("k", (0, 1), 0, pseudo=True)], Design(kind="confirmation", replicates=3, sentinels=None))
    need = forecast(small, assumed("throughput", 4.0, "given"), Setup(20, 30), effect=8.0).need
    assert need is not None
    assert need.replicates is not None
    confirmed = {0.0: 0, 0.08: 0}
    for planted in confirmed:
        effects: dict[tuple[str, Level], float] = {("k", 5): 1 + planted} if planted else {}
        for seed in range(60):
            system = SimulatedSystem(effects=effects, cv=0.04)
            best: Level = 5
            if not planted:
                ratios = {trial.treatment["k"]: 0.0 for trial in plan.trials}
                for one in system.run(plan, seed):
                    ratios[one.treatment["k"]] += math.log(one.responses["throughput"])
                best = max((level for level in ratios if level != 0), key=lambda level: ratios[level])
            fresh = make_plan(
                [Factor("k", (0, best), 0, pseudo=True)],
                Design(kind="confirmation", replicates=need.replicates, sentinels=None),
            )
            found = analyse(fresh, system.run(fresh, 5_000 + seed), ["throughput"]).responses[0].effects[0]
            confirmed[planted] += found.verdict is Verdict.BETTER
    assert confirmed[0.0] / 60 <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / 60)
    assert confirmed[0.08] / 60 >= 0.8 - 3 * math.sqrt(0.8 * 0.2 / 60)


def test_factors_that_change_together_are_one_comparison() -> None:
    factors = pseudo_factors(3)
    plan = make_plan(factors, Design(kind="confirmation", replicates=6, sentinels=None))
    check_plan(plan)
    assert plan_from_json(plan_to_json(plan)) == plan
    assert describe_design(plan).runs == 2
    effects: dict[tuple[str, Level], float] = {("pseudo1", "b"): 1.1, ("pseudo3", "b"): 1.1}
    observations = SimulatedSystem(effects=effects, cv=0.02).run(plan, 4)
    one, seen = as_one_factor(plan, observations)
    assert [factor.name for factor in one.factors] == [SETTING]
    (effect,) = analyse(one, seen, ["throughput"]).responses[0].effects
    assert effect.level == "pseudo1=b, pseudo2=b, pseudo3=b"
    assert effect.interval is not None
    assert effect.interval.contains(21.0)
    with pytest.raises(UsageError, match="compares the baseline with one setting, but k has 3 levels"):
        make_plan([Factor("k", (1, 2, 3), 1)], Design(kind="confirmation"))


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lab with a simulated study that has a true effect, another in which all is luck."""
    folder = tmp_path_factory.mktemp("confirm")
    for name, truth in (("real", REAL), ("luck", LUCK)):
        (folder / f"{name}.truth").write_text(truth)
        (folder / f"{name}.yaml").write_text(STUDY.replace("first", name))
        invoke(folder, "run", str(folder / f"{name}.yaml"), name)
    return folder


def invoke(folder: Path, command: str, study: str, truth: str, *options: str) -> Any:
    done = CliRunner().invoke(
        app,
        [
            *(command, study, "--simulate", str(folder / f"{truth}.truth")),
            *("--lab", str(folder / "lab"), "--json", *options),
        ],
    )
    if done.exception is not None:
        raise done.exception
    return json.loads(done.stdout)


def test_a_true_effect_is_confirmed_beside_its_first_estimate(labs: Path) -> None:
    plan = invoke(labs, "confirm", "real", "real", "--dry-run")
    assert {trial["label"] for trial in plan["trials"]} == {"baseline", "server.datasource.max_connections=20"}
    assert len(plan["trials"]) >= 6
    assert plan["forecast"]["smallest"]["0.8"] < 30
    document = invoke(labs, "confirm", "real", "real")
    (found,) = document["analysis"]["confirmations"]
    assert found["verdict"] == "better"
    assert found["sentence"].startswith("Confirmed: server.datasource.max_connections=20 changes throughput by +")
    assert "real@1, on which it was chosen, had +" in found["sentence"]
    assert found["interval"]["low"] <= 12 <= found["interval"]["high"]
    assert found["first"] is not None
    assert document["study"]["design"]["seed"] != 3
    again = invoke(labs, "confirm", "real", "real")
    assert again["id"] == document["id"], "what was confirmed before is shown, not run until it fits"
    assert Store(labs / "lab" / "simulated").load(document["id"]).study.confirms is not None


def test_luck_is_not_confirmed(labs: Path) -> None:
    document = invoke(labs, "confirm", "luck", "luck", "--effect", "6%", "--setting", "vm.vfs_cache_pressure=50")
    (found,) = document["analysis"]["confirmations"]
    assert found["verdict"] in ("undetermined", "equivalent")
    assert "onfirmed: vm.vfs_cache_pressure=50" in found["sentence"] or "Refuted" in found["sentence"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--setting", "vm.vfs_cache=50"), "has no factor 'vm.vfs_cache'; did you mean vm.vfs_cache_pressure?"),
        (("--setting", "vm.vfs_cache_pressure=7"), "the levels of vm.vfs_cache_pressure to confirm are 50"),
        (("--best", "9"), "--best 9: luck@2 has 4 settings with a figure for throughput"),
        (("--best", "2", "--setting", "x=1"), "leave one of the two out"),
        (("--response", "p99"), "first has no 'p99'; it has throughput".replace("first", "luck")),
    ],
)
def test_what_cannot_be_confirmed_is_told(labs: Path, options: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError) as error:
        invoke(labs, "confirm", "luck", "luck", "--effect", "6%", *options)
    assert words in str(error.value)


def test_several_settings_and_combinations(labs: Path) -> None:
    two = invoke(labs, "confirm", "real", "real", "--best", "2", "--effect", "10%", "--dry-run")
    assert len({trial["label"] for trial in two["trials"]}) == 3
    both = "server.datasource.max_connections=20,vm.vfs_cache_pressure=50"
    document = invoke(labs, "confirm", "real", "real", "--setting", both, "--effect", "10%")
    (found,) = document["analysis"]["confirmations"]
    assert found["setting"] == "server.datasource.max_connections=20 with vm.vfs_cache_pressure=50"
    assert found["verdict"] == "better"


def test_a_confirmation_takes_no_longer_than_its_study(labs: Path) -> None:
    small = ("--setting", "vm.vfs_cache_pressure=50", "--effect", "0.5%", "--dry-run")
    with pytest.raises(UsageError, match=r"takes [\d,]+ trials and .* longer than the study itself") as error:
        invoke(labs, "confirm", "luck", "luck", *small)
    assert "in that time an effect of" in str(error.value)
    allowed = invoke(labs, "confirm", "luck", "luck", *small, "--budget", "5000h")
    assert allowed["seconds"] <= 5000 * 3600
