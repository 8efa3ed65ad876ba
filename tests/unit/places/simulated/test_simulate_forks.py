"""Forks without QEMU: plan, life cycle, analysis, report, power and confirmation on a simulated truth."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.checks.files.study import builtin_studies, parse_study
from leadline.checks.plan import Planned
from leadline.checks.subject import study_catalogue
from leadline.cli.main import app
from leadline.model.errors import UsageError
from leadline.model.record import StudyRecord
from leadline.places.simulated import SimulatedTestbed, parse_truth, simulate_observations
from leadline.places.testbed import RunOptions
from leadline.places.virtual.host import plan_guests
from leadline.planning.forecast import setup_of
from leadline.store.lab import Store

GUIDE = (Path(__file__).parents[4] / "docs" / "guides" / "virtual-time.md").read_text(encoding="utf-8")
PAGING, ON_KERNELS = re.findall(r"```yaml\n(study: .*?)```", GUIDE, re.DOTALL)
TRUTH = """\
truth:
  seed: 3
  server: { demand: 8ms, database_demand: 3ms, think: 5ms }
  effects:
    - { when: { vm.swappiness: 10 }, percent: { throughput: 0.5%, latency: -0.5% } }
    - { when: { jvm.heap: 512m }, percent: { throughput: 2%, latency: -2% } }
    - { when: { guest.kernel: 6.12-cloud }, percent: { throughput: -3%, latency: 3% } }
  noise: { trials: 3%, worlds: 0.1% }
  drift: 20%
"""


def planned(text: str, *overrides: str) -> Planned:
    file = parse_study(text, "paging.yaml", overrides)
    return plan_guests(file, "virtual-time", study_catalogue(file))


def simulated(text: str, lab: Path, *overrides: str) -> StudyRecord:
    file = parse_study(text, "paging.yaml", overrides)
    place = SimulatedTestbed(parse_truth(TRUTH, "truth.yaml"), lab)
    ended = place.run(file, place.plan(file), RunOptions())
    assert ended.complete
    return place.store.load(ended.study_id)


def command(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, f"{result.output} {result.exception}"
    return result.output


def test_the_guide_says_what_the_plan_says() -> None:
    assert planned(PAGING).plan.notes[0] in GUIDE
    assert len(planned(ON_KERNELS).plan.trials) == 5 * 2 * 3
    assert "10 boots, 10 starts" in " ".join(planned(ON_KERNELS).plan.notes)


def test_within_a_world_there_is_no_noise(tmp_path: Path) -> None:
    record = simulated(PAGING, tmp_path)
    seen = {(one.block, one.treatment): dict(one.responses) for one in record.observations()}
    for trial in record.plan.trials:
        if trial.treatment["vm.dirty_ratio"] == 5:  # the truth does not name it
            assert seen[trial.block, trial.treatment] == seen[trial.block, record.plan.baseline]
    assert len({figures["throughput"] for figures in seen.values()}) == 5 * 3


def test_the_life_cycle_and_the_model_alone_give_the_same_figures(tmp_path: Path) -> None:
    record = simulated(PAGING, tmp_path)
    file = parse_study(PAGING, "paging.yaml")
    place = SimulatedTestbed(parse_truth(TRUTH, "truth.yaml"), tmp_path)
    made = place.plan(file)
    truth = place.bound(file, made)
    alone = simulate_observations(made.plan, truth, file.study.workload)
    for one, other in zip(record.observations(), alone, strict=True):
        assert one.responses["throughput"] == pytest.approx(other.responses["throughput"], rel=1e-12)


def test_effects_are_found_and_the_report_says_which_time_it_is(tmp_path: Path) -> None:
    (tmp_path / "paging.yaml").write_text(PAGING)
    (tmp_path / "truth.yaml").write_text(TRUTH)
    lab = str(tmp_path / "lab")
    told = command("run", str(tmp_path / "paging.yaml"), "--simulate", str(tmp_path / "truth.yaml"), "--lab", lab)
    assert "Virtual time: an instruction model" in told
    assert re.search(r"vm\.swappiness = 10 +5 +\+0\.\d{3} % .* better", told)
    assert re.search(r"vm\.dirty_ratio = 5 +5 +0\.0 % .* identical", told)
    verbose = command("show", "paging", "--lab", f"{lab}/simulated", "--verbose")
    assert "vm.dirty_ratio=5 changes nothing, to the last digit in every world" in verbose
    assert "Drift" not in told
    document = json.loads(command("show", "paging", "--lab", f"{lab}/simulated", "--json"))
    assert document["time"] == "virtual"
    verdicts = {one["factor"]: one["verdict"] for one in document["analysis"]["responses"][0]["effects"]}
    assert verdicts == {"vm.swappiness": "better", "vm.dirty_ratio": "identical", "jvm.heap": "better"}
    page = (tmp_path / "lab/simulated/reports/paging-1/report.html").read_text(encoding="utf-8")
    assert "Never compare its figures with those of wall-clock time" in page
    assert "forks, one-at-a-time, 5 worlds" in page


def test_one_world_says_that_it_is_one(tmp_path: Path) -> None:
    record = simulated(PAGING, tmp_path, "design.worlds=1")
    told = command("show", str(record.id), "--lab", str(tmp_path))
    assert "one world gives a difference, not an effect" in told
    assert "Of one world alone: differences without intervals" in told
    assert "[" not in told.split("throughput", 1)[1].split("Forks have", 1)[0]


def test_settings_on_every_kernel(tmp_path: Path) -> None:
    record = simulated(ON_KERNELS, tmp_path)
    first = json.loads(command("show", str(record.id), "--lab", str(tmp_path), "--json"))["analysis"]["responses"][0]
    effects = {one["factor"]: one for one in first["effects"]}
    assert effects["vm.dirty_ratio"]["verdict"] == "identical"
    assert effects["guest.kernel"]["verdict"] == "worse"
    assert effects["guest.kernel"]["interval"]["low"] < -3 < effects["guest.kernel"]["interval"]["high"]
    assert effects["guest.kernel"]["df"] == pytest.approx(4)
    pairs = {tuple(one["factors"]) for one in first["interactions"]}
    assert pairs == {("guest.kernel", "vm.swappiness")}  # the other one does nothing on either kernel


def test_power_knows_worlds_and_refuses_the_other_time(tmp_path: Path) -> None:
    simulated(PAGING, tmp_path)
    real = PAGING.replace(", host: virtual-time", "").replace("guest: { memory: 1536m, kernel: 6.1-cloud }\n", "")
    real = real.replace("kind: forks, worlds: 5", "replicates: 3").replace("study: paging", "study: wall")
    path = tmp_path / "wall.yaml"
    path.write_text(real)
    refused = CliRunner().invoke(app, ["power", str(path), "--lab", str(tmp_path), "--from", "paging@1"])
    assert isinstance(refused.exception, UsageError)
    assert "was measured in virtual time and wall is in real time" in str(refused.exception)
    (tmp_path / "paging.yaml").write_text(PAGING)
    simulate = ["--simulate", str(tmp_path / "truth.yaml")]
    (tmp_path / "truth.yaml").write_text(TRUTH)
    told = command("run", str(tmp_path / "paging.yaml"), "--dry-run", "--lab", str(tmp_path.parent), *simulate)
    assert "0.5 % of effects between worlds (assumed" in told
    assert re.search(r"to halve that: \d+ worlds instead of 5", told)
    assert "layout" not in told


def test_a_confirmation_forks_fresh_worlds(tmp_path: Path) -> None:
    (tmp_path / "paging.yaml").write_text(PAGING)
    (tmp_path / "truth.yaml").write_text(TRUTH)
    truth, lab = ["--simulate", str(tmp_path / "truth.yaml")], ["--lab", str(tmp_path / "lab")]
    command("run", str(tmp_path / "paging.yaml"), *truth, *lab)
    told = command("confirm", "paging", "--setting", "vm.swappiness=10", *truth, *lab)
    assert "Confirmed: vm.swappiness=10" in told
    first, second = (Store(tmp_path / "lab/simulated", create=False).load(number) for number in (1, 2))
    assert (second.study.design.kind, second.study.guest) == ("forks", first.study.guest)
    assert not {trial.seed for trial in first.plan.trials} & {trial.seed for trial in second.plan.trials}


@pytest.mark.parametrize("name", ["kernels", "kernels-app", "kernels-vmm", "kernels-web"])
def test_a_built_in_study_costs_what_it_says(name: str) -> None:
    text = builtin_studies()[name]
    said = re.search(r"(\d+) trials,\s+(?:# )?about (\d+)\s+(?:# )?minutes", text)
    assert said
    made = planned(text)
    study = parse_study(text, name).study
    assert len(made.plan.trials) == int(said[1])
    minutes = setup_of(study.design, study.workload, 0.0, cpus=2).seconds(made.plan) / 60
    assert minutes == pytest.approx(int(said[2]), rel=0.1)
    assert re.search(rf"`{name}` \([^)]*{said[2]} minutes", GUIDE)
