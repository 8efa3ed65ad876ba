"""Effects of frames on simulated profiles: error rate without an effect, power, sign, size and coverage with one."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from leadline.analysis.frames import Recording, frame_effects

SAMPLES, PLANTED = 4000, 17
SHARES = np.random.default_rng(5).dirichlet(np.full(40, 2.0))
STACKS = [
    f"Main.main;Main.loop;app.C{i % 6}.handle;app.C{i % 6}.m{i}" + (";java.util.X.get" if i % 3 else "")
    for i in range(40)
]
NOISES: dict[str, dict[str, float]] = {
    "counting": {},
    "recordings differ": {"common": 0.1},
    "every frame differs": {"frames": 0.1},
    "one noisy frame": {"noisy": 0.6},
    "drift": {"drift": 0.2},
}


def study(
    rng: np.random.Generator, pairs: int, blocks: bool, plant: float = 0.0, **noise: float
) -> tuple[Recording, ...]:
    """``pairs`` recordings of each kind in random order, of blocks or of all; ``plant``: share of samples added."""
    order = [(block, kind) for block in range(pairs) for kind in rng.permutation(2)]
    if not blocks:
        order = [order[at] for at in rng.permutation(len(order))]
    recordings = []
    for place, (block, kind) in enumerate(order):
        rates = SAMPLES * SHARES
        rates[PLANTED] += plant * SAMPLES * kind
        rates = rates * np.exp(rng.normal(0, noise.get("common", 0)) + rng.normal(0, noise.get("frames", 0), 40))
        rates[5] *= np.exp(rng.normal(0, noise.get("noisy", 0)))
        counts = rng.poisson(rates * (1 + noise.get("drift", 0) * place / len(order)))
        stacks = {stack: float(count) for stack, count in zip(STACKS, counts, strict=True) if count}
        recordings.append(Recording(stacks, bool(kind), block=block if blocks else None))
    return tuple(recordings)


@pytest.mark.parametrize("blocks", [False, True], ids=["apart", "in blocks"])
@pytest.mark.parametrize("noise", NOISES)
def test_studies_without_an_effect_seldom_name_a_frame(noise: str, blocks: bool) -> None:
    rng, studies = np.random.default_rng(42), 120
    named = 0
    for at in range(studies):
        effects = frame_effects(study(rng, (3, 5)[at % 2], blocks, **NOISES[noise]))
        named += bool(effects.named) or effects.total.named
    assert named <= stats.binom.ppf(0.995, studies, 0.05)


def test_a_planted_loop_is_named_long_before_the_total_moves() -> None:
    rng, studies, pairs = np.random.default_rng(7), 60, 8
    named = totals = covered = right = wrong = 0
    for _ in range(studies):
        effects = frame_effects(study(rng, pairs, blocks=True, plant=0.01, common=0.02))
        method = next(effect for effect in effects.paths if effect.name.endswith(f".m{PLANTED}"))
        assert method.interval is not None
        named += method.named
        right += method.named and method.change > 0 and method in effects.carriers
        totals += effects.total.named
        covered += method.interval.contains(0.01 * SAMPLES)
        frames = {name for effect in effects.named for name in effect.path} - {"java.util.X.get"}
        wrong += any(".m" in name and not name.endswith((f".m{PLANTED}", ".main")) for name in frames)
    assert named >= 0.9 * studies
    assert right >= 0.9 * named, "as a carrier: its caller may stand for it"
    assert totals <= 0.3 * studies, "the total needs ten times as many recordings"
    assert covered >= 0.9 * studies
    assert wrong <= 0.1 * studies, "another method of the application"


def test_intervals_hold() -> None:
    """Of all paths of studies with an effect, by their true values."""
    rng = np.random.default_rng(3)
    truth: dict[str, Any] = {f".m{PLANTED}": 0.02 * SAMPLES}
    covered, intervals = 0, 0
    for _ in range(40):
        for effect in frame_effects(study(rng, 5, blocks=True, plant=0.02, frames=0.05)).paths:
            if effect.name.startswith("app.") and ".m" in effect.name:
                assert effect.interval is not None
                true = 0.02 * SAMPLES * np.exp(0.05**2 / 2) if effect.name.endswith(tuple(truth)) else 0.0
                covered += effect.interval.contains(true)
                intervals += 1
    assert 0.93 <= covered / intervals <= 0.99


def test_comparisons_of_one_study_share_the_error_rate() -> None:
    """Three levels against one baseline, each by three response times that consist of the same parts."""
    rng, studies, levels, responses = np.random.default_rng(7), 150, 3, 3
    parts = ["code", "waiting;A.b", "waiting;C.d", "parked;E.f", "driver", "network"]
    means = np.array([2.0, 1.0, 0.5, 0.3, 0.2, 0.4])
    named = 0
    for _ in range(studies):
        rows = {(block, level): means * np.exp(rng.normal(0, 0.25, 6)) for block in range(8) for level in range(4)}
        effects = []
        for level in range(1, levels + 1):
            for _ in range(responses):
                recordings = [
                    Recording(
                        dict(zip(parts, row * np.exp(rng.normal(0, 0.1, 6)), strict=True)), of == level, block=block
                    )
                    for (block, of), row in rows.items()
                    if of in (0, level)
                ]
                effects.append(frame_effects(recordings, sampled=False, comparisons=levels * responses))
        named += any(effect.named or effect.total.named for effect in effects)
    assert named <= stats.binom.ppf(0.995, studies, 0.05)
