"""The answer over all responses, on studies whose truth is planted."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from leadline.advice import advise
from leadline.advice.facts import HostUse, Pool, TrialFacts
from leadline.checks.files.study import parse_study
from leadline.conclude.answer import Facts, answer
from leadline.conclude.study import conclude
from leadline.model.disturbance import MachineUse, disturbed
from leadline.model.errors import FailureClass
from leadline.model.judgement import Judgement
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.model.naming import plain_level
from leadline.model.record import StudyRecord, TrialRecord
from leadline.model.result import Disturbance, SteadyState, StudyAnalysis, Verdict
from leadline.places.simulated import SimulatedTestbed, bound, parse_truth, simulate_observations
from leadline.places.simulated.model import Truth
from leadline.report.export import export
from leadline.report.summary import Outcome, health, summary
from leadline.report.text import table

KNOBS = [Knob(f"server.{name}", Kind.INTEGER, ApplyCost.RESTART, name, default=10, minimum=0) for name in "abc"]
HEAD = "workload: { users: 40, ramp_up: 2s, steady: 12s, ramp_down: 1s }\nresponses: [throughput, p50, p99]\n"
QUIET = "noise: { trials: 0.4%, latency_trials: 0.4%, seconds: 1%, latency_seconds: 1% }"


def study(
    effects: str, design: str = "replicates: 4, seed: 3", more: str = "", extra: str = "", names: str = "ab"
) -> StudyRecord:
    """A study of two factors, or of ``names``, that has run, with planted effects."""
    factors = ", ".join(f"server.{name}: [10, 20]" for name in names)
    text = f"study: planted\nquestion: Which matters?\n{HEAD}factors: {{ {factors} }}\ndesign: {{ {design} }}\n{more}"
    file = parse_study(text, "planted.yaml")
    planned = SimulatedTestbed(Truth(), Path(), service_knobs=KNOBS, host=[]).plan(file)
    known = parse_truth(f"truth:\n  seed: 4\n  {QUIET}\n{extra}  effects: [{effects}]\n", "truth.yaml")
    held = bound(known, planned.plan.factors, {knob.name: knob for knob in KNOBS}, "truth.yaml")
    trials = tuple(
        TrialRecord(
            *(number, trial, "failed" if one.failure else "done", 1, one.started, one.started + 30.0, one.failure),
            responses=one.responses,
        )
        for number, (trial, one) in enumerate(
            zip(planned.plan.trials, simulate_observations(planned.plan, held, file.study.workload), strict=True), 1
        )
    )
    return StudyRecord(1, file.study, file.text, planned.plan, 0.0, {}, trials)


def interrupted(record: StudyRecord, level: int) -> StudyRecord:
    """Ctrl-C in the first trial with this level of server.a; what was planned after it did not run."""
    at = next(n for n, trial in enumerate(record.trials) if trial.planned.treatment["server.a"] == level)
    cut = replace(record.trials[at], state="failed", failure=FailureClass.INTERRUPTED, responses={})
    left = tuple(replace(trial, state="planned", started=None, ended=None, responses={}) for trial in record.trials)
    return replace(record, trials=(*record.trials[:at], cut, *left[at + 1 :]))


def test_a_response_that_moved_is_the_answer_whichever_comes_first() -> None:
    told = conclude(study("{ when: { server.a: 20 }, percent: { p50: 60% } }", "replicates: 8, seed: 3")).answer
    assert told.startswith(
        "A 20 instead of 10 hurts: the median response time is 60 % longer (9.02 instead of 5.64 ms)"
    )
    assert "server.a=20 hurts: p50 +60 % [+5" in told
    assert "throughput stays within 2 %" in told
    assert "No change" not in told


def test_a_gain_is_told_with_its_cost() -> None:
    told = conclude(study("{ when: { server.b: 20 }, percent: { throughput: 12%, p99: 40% } }")).answer
    assert told.startswith("B 20 instead of 10 is a trade-off: throughput is 12 % higher (408 instead of 366 trans")
    assert "server.b=20 helps: throughput +12 % [+" in told
    assert re.search(r"; at the cost of p99 \+4[01] % \[\+3", told)
    assert "Confirm the gain by fresh trials: luck alone would give the best of 2 about" in told


def test_a_loss_in_one_layer_and_a_gain_in_another_are_both_told() -> None:
    effects = (
        "{ when: { server.a: 20 }, percent: { throughput: -8% } }, "
        "{ when: { server.b: 20 }, percent: { throughput: 10% } }"
    )
    told = conclude(study(effects, "replicates: 6, seed: 3")).answer
    assert re.search(r"server\.b=20 helps: throughput \+\d", told)
    assert re.search(r"server\.a=20 hurts: throughput −\d", told)
    assert "inconclusive" not in told.split("hurts")[0].split("helps")[0]


def test_nothing_is_told_with_what_it_would_take() -> None:
    record = study("")
    record = replace(
        record,
        trials=tuple(
            replace(
                trial,
                responses={name: value * (1 + 0.06 * ((7 * n) % 5 - 2)) for name, value in trial.responses.items()},
            )
            for n, trial in enumerate(record.trials)
        ),
    )
    told = conclude(record).answer
    assert told.startswith(
        "Not known: whether a or b matters. No change of throughput, p50 or p99 is distinguishable from noise. "
        "This design detects changes of "
    )
    trials = 4 * len(record.trials)
    assert f"half of that takes at most {trials} trials, about {trials * 30 // 60}m" in told


def test_what_makes_no_difference_is_said_within_the_margin() -> None:
    found = conclude(study("", "replicates: 12, seed: 3"))
    assert found.answer == "server.a=20 and server.b=20 make no difference (within 2 %)."


def test_harm_within_the_margin_is_one_verdict_everywhere(tmp_path: Path) -> None:
    record = study("{ when: { server.a: 20 }, percent: { throughput: -1.2% } }", "replicates: 12, seed: 3")
    found = conclude(record)
    assert found.answer == "server.b=20 and server.a=20 make no difference (within 2 %)."
    told = next(one for one in found.responses[0].effects if one.factor == "server.a")
    assert told.simultaneous is not None
    assert told.simultaneous.high < 0
    assert (told.verdict, told.reason) == (Verdict.EQUIVALENT, "worse, but by less than 2 %")
    shown = console(record, found, verbose=True)
    assert "throughput of server.a = 20: worse, but by less than 2 %" in shown
    assert "% worse" not in shown
    (row,) = (
        one for one in summary(record, found).comparisons if (one.response, one.factor) == ("throughput", "server.a")
    )
    assert (row.verdict, row.outcome, row.reason) == (told.verdict, Outcome.PASSED, told.reason)
    export(record, found, tmp_path, ["csv"])
    with (tmp_path / "effects.csv").open(encoding="utf-8") as file:
        (line,) = (
            one for one in csv.DictReader(file) if (one["response"], one["factor"]) == ("throughput", "server.a")
        )
    assert line["verdict"] == "equivalent"
    small = "{ when: { server.a: 20 }, percent: { throughput: 1% } }"
    assert confirmed(small, 12).answer.startswith("Refuted: it makes no difference that matters: ")


def test_a_small_interaction_is_told_nowhere() -> None:
    both = "{ when: { server.a: 20, server.b: 20 }, percent: { throughput: 1% } }"
    record = study(both, "kind: full-factorial, replicates: 24, seed: 3")
    found = conclude(record)
    pair = found.responses[0].interactions[0]
    assert (pair.verdict, pair.sentence) == (Verdict.EQUIVALENT, "")
    assert "None of 1 interaction is distinguishable from none and more than 2 %." in console(
        record, found, verbose=True
    )


def console(record: StudyRecord, found: StudyAnalysis, verbose: bool = False) -> str:
    """What ``leadline show`` prints."""
    out = Console(file=io.StringIO(), width=200)
    out.print(table(record, found, verbose), soft_wrap=True)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_an_interrupted_trial_fails_no_setting() -> None:
    found = conclude(interrupted(study("{ when: { server.a: 20 }, percent: { throughput: 9% } }"), 20))
    assert found.answer.startswith("Not finished: ")
    assert "1 trial interrupted" in found.answer
    assert "failed" not in found.answer
    assert found.failures == {"interrupted": 1}
    assert all(effect.verdict is not Verdict.FAILED for one in found.responses for effect in one.effects)


@pytest.mark.parametrize("kind", [FailureClass.INFRASTRUCTURE, FailureClass.BOTTLENECK])
def test_a_lost_host_or_a_slow_driver_is_no_failure_of_the_setting(kind: FailureClass) -> None:
    record = study("")
    trials = tuple(
        replace(trial, state="failed", failure=kind, responses={})
        if trial.planned.treatment["server.a"] == 20
        else trial
        for trial in record.trials
    )
    found = conclude(replace(record, trials=trials))
    assert "Every trial of" not in found.answer
    assert f"server.a=20 has no figure: all 4 trials failed ({kind.value} 4)" in found.answer


def test_a_setting_that_failed_is_said_with_its_class() -> None:
    broken = "  failures: [{ class: configuration, probability: 100%, when: { server.a: 20 } }]\n"
    found = conclude(study("{ when: { server.b: 20 }, percent: { p50: -30% } }", extra=broken))
    assert "server.b=20 helps: p50 \u221230 % [" in found.answer
    assert "Every trial of server.a=20 failed (configuration)" in found.answer


def test_failures_of_all_treatments_alike_judge_none() -> None:
    record = study("", "replicates: 6, seed: 3")
    good = next(trial for trial in record.trials if trial.planned.treatment["server.a"] == 10)
    trials = tuple(
        trial if trial is good else replace(trial, state="failed", failure=FailureClass.WORKLOAD, responses={})
        for trial in record.trials
    )
    found = conclude(replace(record, trials=trials))
    assert all(effect.verdict is not Verdict.FAILED for one in found.responses for effect in one.effects)
    assert "Every trial of" not in found.answer
    told = next(one for one in found.responses[0].effects if one.factor == "server.a")
    assert "of the baseline level: it is not to blame" in told.reason


@pytest.mark.parametrize(
    ("design", "told"),
    [("fractional-factorial, resolution: 3, replicates: 6", True), ("full-factorial, replicates: 3", False)],
)
def test_an_aliased_interaction_is_told_with_the_main_effect(design: str, told: bool) -> None:
    both = "{ when: { server.a: 20, server.b: 20 }, percent: { throughput: -20% } }"
    analysis = conclude(study(both, f"kind: {design}, seed: 3", names="abc"))
    assert ("; or the interaction of a and b does: this design aliases them" in analysis.answer) is told
    assert any("are aliased with two-factor interactions" in caveat for caveat in analysis.caveats) is told
    assert ("C 20 instead of 10" in analysis.answer) is told, "it does nothing"


def test_an_interaction_is_told_in_words_and_is_no_effect_against_the_baseline() -> None:
    both = "{ when: { server.a: 20, server.b: 20 }, percent: { throughput: 30% } }"
    found = conclude(study(both, "kind: full-factorial, replicates: 3, seed: 3"))
    one = found.responses[0]
    assert {effect.factor for effect in one.effects} == {"server.a", "server.b"}
    pair = one.interactions[0]
    assert (pair.factors, pair.levels) == (("server.a", "server.b"), (20, 20))
    assert pair.sentence.startswith("server.a=20 helps only with server.b=20 (throughput +3")
    assert pair.sentence in found.answer
    cells = {cell.levels: cell.mean for cell in one.cells}
    assert cells[20, 20] / cells[10, 10] == pytest.approx(1.3, rel=0.03)


def test_a_factor_may_be_called_as_an_interaction_is() -> None:
    text = (
        "study: s\nquestion: q\n" + HEAD + "pseudo_factors: { 'a x b': [x, y] }\ndesign: { replicates: 3, seed: 1 }\n"
    )
    file = parse_study(text, "s.yaml")
    plan = SimulatedTestbed(Truth(), Path(), service_knobs=KNOBS, host=[]).plan(file).plan
    seen = simulate_observations(plan, parse_truth("truth: { seed: 1 }", "t"), file.study.workload)
    trials = tuple(
        TrialRecord(n, trial, "done", 1, one.started, responses=one.responses)
        for n, (trial, one) in enumerate(zip(plan.trials, seen, strict=True), 1)
    )
    found = conclude(StudyRecord(1, file.study, text, plan, 0.0, {}, trials))
    assert [effect.factor for effect in found.responses[0].effects] == ["a x b"]
    assert found.responses[0].interactions == ()


def beside(record: StudyRecord, shares: Mapping[int, float]) -> StudyRecord:
    def use(trial: int) -> MachineUse:
        return MachineUse({"others_cpu": shares.get(trial, 0.02)}, {"cc1": 0.3, "sh": 0.1, "sshd": 0.01})

    return replace(record, trials=tuple(replace(trial, machine=use(trial.id)) for trial in record.trials))


def test_a_disturbed_machine_comes_first_in_the_answer_and_the_strip() -> None:
    record = study("{ when: { server.a: 20 }, percent: { throughput: -40% } }")
    quiet, found = (conclude(beside(record, shares)) for shares in ({}, {3: 0.62, 5: 0.4}))
    assert not quiet.answer.startswith("Other programs")
    assert found.answer.startswith("Other programs (cc1, sh) used 40 % to 62 % of the CPUs in 2 of ")
    for analysis, state in ((quiet, "good"), (found, "bad")):
        first = health(record, analysis, [])[1]
        assert (first.title, first.state) == ("Other programs", state)
    assert conclude(record).disturbance is None


def test_a_disturbance_that_was_taken_out_comes_after_what_was_found() -> None:
    planted = "{ when: { server.a: 20 }, percent: { throughput: -40% } }"
    shares = {trial: 0.2 + 0.01 * (trial % 7) for trial in range(1, 40)}
    found = conclude(beside(study(planted, more="covariates: [others_cpu]\n"), shares))
    assert found.answer.startswith("A 20 instead of 10 hurts: throughput ")
    assert found.answer.endswith("; what they did is taken out by analysis of covariance.")


def test_a_slight_disturbance_comes_after_what_was_found() -> None:
    others = Disturbance({1: 0.02, 2: 0.2}, (2,), "", wider=1.1)
    assert others.slight
    assert not replace(others, wider=None).slight
    assert not replace(others, wider=1.5).slight
    assert not replace(others, shares={1: 0.02, 2: 0.4}).slight
    analysis = conclude(study("{ when: { server.a: 20 }, percent: { throughput: -40% } }"))
    facts = Facts(plain_level, Judgement("run", 24, 24, trials=24, done=24))
    told = answer(replace(analysis, disturbance=replace(others, sentence="Others used the CPUs.")), facts)
    assert told.head.startswith("server.a=20 hurts: throughput ")
    assert told.text.endswith("Others used the CPUs.")


def test_a_level_that_is_identical_does_not_answer_for_the_others() -> None:
    record = study("")
    analysis = conclude(record)
    first = analysis.responses[0]
    same = replace(first.effects[0], level=30, verdict=Verdict.IDENTICAL)
    others = [replace(effect, verdict=Verdict.UNDETERMINED) for effect in first.effects]
    analysis = replace(analysis, responses=(replace(first, effects=(*others, same)),))
    facts = Facts(plain_level, Judgement("run", 24, 24, trials=24, done=24), factors=record.plan.factors)
    told = answer(analysis, facts)
    assert told.head.startswith("Not known: whether a or b matters")
    assert f"{same.factor}=30 changes nothing, to the last digit" in told.text
    alone = replace(first, effects=(same,))
    assert answer(replace(analysis, responses=(alone,)), facts).head.startswith(f"{same.factor}=30 changes nothing")


def test_a_trial_is_disturbed_above_the_bound_or_far_above_the_others() -> None:
    assert disturbed({}) == ()
    assert disturbed({1: 0.02, 2: 0.04, 3: 0.03}) == ()
    assert disturbed({1: 0.01, 2: 0.01, 3: 0.08}) == (3,)
    assert disturbed({1: 0.3, 2: 0.3, 3: 0.3}) == (1, 2, 3)


def test_no_larger_pool_is_advised_from_disturbed_trials() -> None:
    pool = Pool("jdbc", 10.0, 10.0, 10.0, 1.0, 5.0, 9.0, 8.0)
    facts = [
        TrialFacts(
            *(trial, "baseline", 20, {"server.datasource.max_connections": 10}, (pool,)),
            host=HostUse(idle=0.3, iowait=0.0, others=0.5 if bad else 0.01),
            disturbed=bad,
        )
        for trial, bad in enumerate((True, True, True))
    ]
    assert [(one.rule, one.disturbed) for one in advise(facts)] == [("kernel.others", False), ("server.pool", True)]
    calm = [replace(one, disturbed=False, host=HostUse(idle=0.3, iowait=0.0, others=0.01)) for one in facts]
    assert [(one.rule, one.disturbed) for one in advise(calm)] == [("server.pool", False)]
    mixed = advise([facts[0], *calm[1:]])
    assert mixed[0].rule == "kernel.others"


def test_a_simulated_study_says_so_first() -> None:
    record = study("")
    found = conclude(replace(record, environment={"host.SIMULATED": "truth"}))
    assert found.simulated
    assert found.answer.startswith("SIMULATED: ")
    assert not conclude(record).simulated


def test_what_cold_trials_tell_is_told_of_a_cold_server() -> None:
    record = study("{ when: { server.a: 20 }, percent: { throughput: 30% } }")
    cold = SteadyState("still-warming", None, "Still warming after 30s.")
    compiles = SteadyState("steady", 2.0, "Steady from 2s on; still compiling: compiler threads were busy for 40%")
    calm = SteadyState("steady", 2.0, "Steady from 2s on.")

    def told(*verdicts: SteadyState) -> str:
        steady = itertools.cycle(verdicts)
        return conclude(replace(record, trials=tuple(replace(t, steady=next(steady)) for t in record.trials))).answer

    words = "the server was still warming up: this holds for its first "
    assert words in told(cold, compiles, calm)
    assert told(cold, compiles, calm).index(words) > told(cold, compiles, calm).index("server.a=20 helps")
    assert words not in told(cold, calm, calm)


def confirmed(effects: str, replicates: int = 6) -> StudyAnalysis:
    more = (
        "confirms: { run: first@1, response: throughput, settings: "
        "[{ levels: { server.a: 20, server.b: 20 }, percent: 9.0, low: 5.0, high: 13.0 }] }\n"
    )
    text = f"kind: confirmation, replicates: {replicates}, sentinels: null, seed: 5"
    record = study(effects, text, more=more)
    return conclude(record)


def test_a_confirmation_that_fails_says_so_and_one_that_holds_tells_its_cost() -> None:
    failed = confirmed("")
    assert failed.answer.startswith(
        "Refuted: it makes no difference that matters: server.a=20 with server.b=20 changes "
    )
    held = confirmed("{ when: { server.a: 20 }, percent: { throughput: 9%, p99: 30% } }")
    assert held.answer.startswith("Confirmed: server.a=20 with server.b=20 changes throughput by +")
    assert "Elsewhere: p99 +3" in held.answer
