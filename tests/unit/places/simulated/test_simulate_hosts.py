"""Studies on several simulated hosts: blocks in turn, what a host does of its own, and what the conclusion says."""

from pathlib import Path

import pytest

from leadline.checks.files.study import parse_study
from leadline.experiments.pilot import hosting_for
from leadline.experiments.results import analysis_of
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, Kind, Knob, Owner
from leadline.model.record import StudyRecord
from leadline.model.result import Scope, Verdict
from leadline.places.simulated import SimulatedTestbed, parse_truth, simulate_observations
from leadline.places.testbed import RunOptions
from leadline.planning.forecast import Hosting

HOST = [Knob("vm.ratio", Kind.INTEGER, ApplyCost.LIVE, "a live knob", default=10, minimum=0, owner=Owner.HOST)]
SERVICE = [Knob("server.pool", Kind.INTEGER, ApplyCost.RESTART, "a pool", default=10, minimum=1)]
STUDY = """
study: pool
question: Does it?
workload: {{ users: 40, ramp_up: 2s, steady: 20s, ramp_down: 1s }}
factors: {{ server.pool: [10, 20], vm.ratio: [10, 40] }}
design: {{ replicates: {replicates}, sentinels: null, seed: 3 }}
responses: [throughput, p50]
"""
NOISE = "  noise: { trials: 0.5%, seconds: 1%, latency_trials: 0.5%, latency_seconds: 1% }\n"
GAIN = "  effects: [{ when: { server.pool: 20 }, percent: { throughput: 20% } }]\n"
LOSS = (
    "  hosts: { count: 3, spread: 10%, own: [{ host: 2, when: { server.pool: 20 }, percent: { throughput: -30% } }] }\n"
)


def ran(lab: Path, truth: str, replicates: int = 9) -> StudyRecord:
    file = parse_study(STUDY.format(replicates=replicates), "pool.yaml")
    place = SimulatedTestbed(parse_truth("truth:\n" + truth, "truth.yaml"), lab, service_knobs=SERVICE, host=HOST)
    result = place.run(file, place.plan(file), RunOptions())
    return place.store.load(result.study_id)


def test_blocks_run_on_hosts_in_turn_and_the_record_says_where(tmp_path: Path) -> None:
    record = ran(tmp_path, NOISE + LOSS)
    assert {(trial.planned.block, trial.host) for trial in record.trials} == {
        (block, f"host-{block % 3 + 1}") for block in range(9)
    }
    assert {one.host for one in record.observations()} == {"host-1", "host-2", "host-3"}
    one = SimulatedTestbed(parse_truth("truth: {}", "t"), tmp_path, service_knobs=SERVICE, host=HOST).store.load_trial(
        record.id, 4
    )
    assert one.host == record.trials[4].host != ""


def test_the_whole_life_cycle_and_the_model_alone_give_the_same_figures(tmp_path: Path) -> None:
    text = "  noise: { seconds: 0, latency_seconds: 0 }\n" + LOSS.replace("spread: 10%", "spread: 10%, effects: 5%")
    record, truth = ran(tmp_path, text), parse_truth("truth:\n" + text, "truth.yaml")
    found = simulate_observations(record.plan, truth, record.study.workload)
    for alone, seen in zip(found, record.observations(), strict=True):
        assert alone.host == seen.host
        assert alone.responses["throughput"] == pytest.approx(seen.responses["throughput"], rel=1e-6)


def test_a_setting_that_gains_on_the_mean_and_loses_on_a_host_is_told(tmp_path: Path) -> None:
    analysis = analysis_of(ran(tmp_path, NOISE + GAIN + LOSS))
    throughput = analysis.responses[0]
    effect = next(one for one in throughput.effects if one.factor == "server.pool")
    assert (effect.verdict, effect.scope) == (Verdict.BETTER, Scope.THESE_HOSTS)
    across = throughput.across_hosts
    assert across is not None
    assert not across.random
    assert across.differ
    told = {one.host: one.verdict for one in across.of("server.pool", 20)}
    assert told == {"host-1": Verdict.BETTER, "host-2": Verdict.WORSE, "host-3": Verdict.BETTER}
    assert "On these 3 hosts, not others: Pool 20 instead of " in analysis.answer
    assert "server.pool=20 helps: " in analysis.answer
    said = "Host by host server.pool=20 wins on 2 of 3 (throughput), but loses on host-2, −17 % [−18, −15]. "
    assert said in analysis.answer
    assert any(
        one.startswith("throughput: Effects differ between the hosts: server.pool=20 by ") for one in analysis.warnings
    )


def test_many_hosts_are_a_sample(tmp_path: Path) -> None:
    analysis = analysis_of(ran(tmp_path, NOISE + GAIN + "  hosts: { count: 6, effects: 3% }\n", 12))
    throughput = analysis.responses[0]
    effect = next(one for one in throughput.effects if one.factor == "server.pool")
    assert (effect.df, effect.scope) == (5, Scope.GENERAL)
    assert throughput.across_hosts is not None
    assert throughput.across_hosts.random
    assert "On average over hosts like these 6: Pool 20 instead of " in analysis.answer
    assert "server.pool=20 helps: " in analysis.answer


def test_hosts_of_one_block_each_are_said_not_to_be_kept_apart(tmp_path: Path) -> None:
    throughput = analysis_of(ran(tmp_path, NOISE + GAIN + "  hosts: { count: 4 }\n", 5)).responses[0]
    across = throughput.across_hosts
    assert across is not None
    assert across.holds.startswith(
        "The 4 hosts are not kept apart, as a host ran one block alone: effects are means over blocks"
    )
    assert across.p_value is None or 0 <= across.p_value <= 1
    assert throughput.effects[0].scope is Scope.GENERAL


def test_one_host_is_as_if_there_were_none(tmp_path: Path) -> None:
    plain, one = (
        analysis_of(ran(tmp_path / name, NOISE + GAIN + more, 3))
        for name, more in (
            ("a", ""),
            ("b", "  hosts: { count: 1 }\n"),
        )
    )
    assert plain == one
    assert plain.responses[0].across_hosts is None


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ("{ count: 2, own: [{ host: 3, percent: { throughput: 1% } }] }", "host 3 is not there: count is 2"),
        ("{ count: 2, own: [{ host: 1, percent: { troughput: 1% } }] }", "did you mean throughput?"),
        ("{ count: 2, efects: 3% }", "did you mean effects?"),
    ],
)
def test_a_truth_that_cannot_be_is_refused_at_its_line(hosts: str, said: str) -> None:
    with pytest.raises(UsageError, match=r"truth.yaml:2: ") as refused:
        parse_truth(f"truth:\n  hosts: {hosts}\n", "truth.yaml")
    assert said.replace("?", "") in str(refused.value)


def test_planning_learns_from_the_lab_how_effects_differ_between_hosts(tmp_path: Path) -> None:
    record = ran(tmp_path, NOISE + GAIN + LOSS)
    found = hosting_for(record.study, tmp_path, 8)
    assert found is not None
    assert found.source == f"pool@{record.id}"
    across = analysis_of(record).responses[0].across_hosts
    assert across is not None
    assert found.differ == pytest.approx(sum(one.percent or 0.0 for one in across.spreads) / 2)
    assert hosting_for(record.study, tmp_path, 8, 3.0) == Hosting(8, 3.0, "given")
    assert hosting_for(record.study, tmp_path / "none", 8) == Hosting(8)
    assert hosting_for(record.study, tmp_path, 1) is None
