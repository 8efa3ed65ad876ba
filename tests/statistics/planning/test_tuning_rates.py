"""Tunings with known truth: what helps is kept, intervals hold it at the stated rate, what does not help is not."""

import math

from scipy import stats
from simulated_tuning import Simulator, tuning

from leadline.model.result import Verdict
from leadline.model.tuning import Tuning
from leadline.places.simulated import Truth
from leadline.planning.sequence import decision_levels

NOISE = {"trials": "3%", "blocks": "2%"}
TRUTH = Truth.model_validate(
    {
        "noise": NOISE,
        "effects": [
            {"when": {"app.mode": "session"}, "percent": {"throughput": "20%"}},
            {"when": {"app.mode": "direct"}, "percent": {"throughput": "80%"}},
            {"when": {"server.a": 1}, "percent": {"throughput": "30%"}},
            {"when": {"server.b": 1}, "percent": {"throughput": "10%"}},
            {"when": {"server.b": 2}, "percent": {"throughput": "25%"}},
            {"when": {"server.b": 2, "app.mode": "direct"}, "percent": {"throughput": "-40%"}},
            {"when": {"server.b": 1, "app.mode": "direct"}, "percent": {"throughput": "-40%"}},
        ],
    }
)
TOTAL = {"orm": 1.3 * 1.25, "session": 1.3 * 1.25, "direct": 1.3}
RELATIVE = {"orm": 1.0, "session": 1.2, "direct": 1.8}
PLAYS = 16


def planted(confirm: int) -> Tuning:
    return tuning({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]}, blocks={"step": 3, "confirm": confirm, "compare": 3})


def few(wrong: int, of: int, share: float) -> bool:
    """Whether so many may be wrong at this share, but for one case in a thousand."""
    return wrong <= stats.binom.ppf(0.999, of, share)


def test_planted_steps_are_kept_and_their_gains_recovered() -> None:
    for confirm in (3, 0):
        simulator = Simulator(planted(confirm), TRUTH)
        wrong = misses = together = simultaneous = intervals = 0
        for seed in range(PLAYS):
            found = simulator.play(seed)
            wanted = {"orm": {"a": 1, "b": 2}, "session": {"a": 1, "b": 2}, "direct": {"a": 1}}
            wrong += found.kept != wanted
            comparison = found.comparison
            assert comparison is not None
            if found.kept != wanted:
                continue
            held = []
            for mode, gain in comparison.gains.items():
                assert gain.interval is not None
                assert gain.simultaneous is not None
                truth = 100 * (TOTAL[mode] - 1)
                misses += not gain.interval.contains(truth)
                intervals += 1
                held.append(gain.simultaneous.contains(truth))
            for rung in comparison.rungs:
                done = math.prod({"a": 1.3, "b": 1.25}[step] for step in rung.steps)
                if rung.relative is not None:
                    assert rung.relative.simultaneous is not None
                    held.append(rung.relative.simultaneous.contains(100 * (RELATIVE[rung.mode] * done - 1)))
            simultaneous += 1
            together += all(held)
        assert few(wrong, PLAYS, 0.1), f"confirm {confirm}: {wrong} of {PLAYS}"
        assert few(misses, intervals, 0.05)
        assert few(simultaneous - together, simultaneous, 0.05)


def test_where_nothing_helps_nothing_is_kept() -> None:
    nothing = Truth.model_validate({"noise": NOISE})
    for confirm, plays in ((3, 20), (0, 40)):
        simulator = Simulator(tuning({name: [0, 1] for name in "abcd"}, blocks={"confirm": confirm}), nothing)
        kept = sum(any(one.kept for one in simulator.play(seed).decisions) for seed in range(plays))
        assert few(kept, plays, 0.05), f"confirm {confirm}: {kept} of {plays}"


def test_interactions_between_steps_are_seen_by_the_factorial_and_not_by_the_sequence() -> None:
    truth = Truth.model_validate(
        {
            "noise": {"trials": "1%"},
            "effects": [
                {"when": {"server.a": 1}, "percent": {"throughput": "20%"}},
                {"when": {"server.b": 1}, "percent": {"throughput": "20%"}},
                {"when": {"server.a": 1, "server.b": 1}, "percent": {"throughput": "-10%"}},
            ],
        }
    )
    whole = tuning({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, factorial={"of": "all", "replicates": 3})
    found = Simulator(whole, truth).play(1)
    assert [one.mode for one in found.factorials] == list(whole.modes)
    for one in found.factorials:
        pairs = {effect.factor: effect for effect in one.analysis.interactions}
        assert pairs["a x b"].verdict is Verdict.WORSE
        assert pairs["a x b"].percent is not None
        assert abs(pairs["a x b"].percent + 10) < 4
        assert all(pairs[name].verdict is not Verdict.WORSE for name in pairs if name != "a x b")
    # The sequence gives the whole interaction to whichever step comes second.
    second = next(one for one in found.decisions if one.step == "b" and one.mode == "orm")
    assert second.confirmed is not None
    assert second.confirmed.percent is not None
    assert abs(second.confirmed.percent - 8) < 4


def test_the_error_rates_are_shared_out_over_the_steps() -> None:
    alone, many = (decision_levels(tuning({"a": [0, 1]}, blocks={"confirm": 0}), steps)[0] for steps in (1, 8))
    assert alone == 0.95**2
    assert 0.98 < many < 0.99
    loose, fresh = decision_levels(tuning({"a": [0, 1]}), 8)
    assert loose < many
    assert fresh == 0.95
