"""Effects of frames: closure, carriers, one pair, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from leadline.analysis.frames import Recording, frame_effects
from leadline.conclude.explanation import Unit, sentence

USUAL = {"a.Main.run;a.Orders.price;java.util.Map.get": 300, "a.Main.run;a.Orders.price": 100, "a.Main.run": 600}
SLOW = {**USUAL, "a.Main.run;a.Orders.price": 300}


def _recordings(count: int, *, blocks: bool = False) -> list[Recording]:
    """Of each kind, nearly alike."""
    return [
        Recording({stack: samples + at % 3 for stack, samples in stacks.items()}, treated, 10.0, at if blocks else None)
        for at in range(count)
        for treated, stacks in ((False, USUAL), (True, SLOW))
    ]


@pytest.mark.parametrize("blocks", [False, True])
def test_the_methods_changes_sum_to_the_totals(blocks: bool) -> None:
    effects = frame_effects(_recordings(4, blocks=blocks))
    assert effects.total.change == pytest.approx(20.0)
    assert sum(method.change for method in effects.methods) + effects.rest == pytest.approx(effects.total.change)
    assert [effect.path for effect in effects.carriers] == [("a.Main.run", "a.Orders.price")], "not what it calls"
    assert effects.carriers[0].named
    assert effects.total.named
    assert not any(method.named for method in effects.methods if method.name == "java.util.Map.get")
    assert effects.recordings == (4, 4)
    assert effects.blocks == (4 if blocks else 0)


def test_one_pair_has_no_interval_and_names_nothing() -> None:
    effects = frame_effects(_recordings(1))
    assert effects.pair
    assert effects.named == ()
    assert effects.total.interval is None
    assert effects.carriers[0].name == "a.Orders.price"


def test_one_recording_against_several_takes_their_noise() -> None:
    effects = frame_effects([*_recordings(4)[1::2], _recordings(1)[0]])
    assert not effects.pair
    assert effects.carriers[0].name == "a.Orders.price"


def test_what_is_not_in_both_kinds_of_a_block_is_left_out() -> None:
    effects = frame_effects([*_recordings(3, blocks=True), Recording(USUAL, False, 1.0, 9)])
    assert effects.blocks == 3
    assert effects.recordings == (3, 3)
    with pytest.raises(ValueError, match="no recording"):
        frame_effects([Recording(USUAL, False, 1.0, 1), Recording(USUAL, True, 1.0, 2)])


def test_a_frame_of_one_kind_alone_is_named() -> None:
    new = [
        Recording({**USUAL, **({"a.Main.run;a.New.work": 50.0 + at} if treated else {})}, treated)
        for at in range(5)
        for treated in (False, True)
    ]
    effects = frame_effects(new)
    assert [effect.name for effect in effects.carriers] == ["a.New.work"]
    assert effects.carriers[0].baseline == 0
    assert effects.carriers[0].change == pytest.approx(52.0)


def test_small_frames_are_counted_in_the_rest() -> None:
    many = {f"a.Main.run;b.Rare{at}.call": 1.0 for at in range(60)}
    recordings = [
        Recording({**USUAL, "a.Main.run": 1e5, **(many if treated else {})}, treated)
        for _ in range(3)
        for treated in (False, True)
    ]
    effects = frame_effects(recordings)
    assert not any("Rare" in method.name for method in effects.methods)
    assert effects.rest == pytest.approx(60.0)


def test_a_method_that_is_named_on_no_path_is_told_all_the_same() -> None:
    """Its samples are in two paths, too few in each; the method has them all."""
    effects = frame_effects(_recordings(4))
    method = replace(effects.methods[0], path=("a.Orders.price",))
    assert method.own
    assert method.named
    text = sentence(replace(effects, carriers=(), methods=(method,)), Unit("CPU", "samples"))
    assert "a.Orders.price" not in text
    assert "100 % in Orders.price itself" in text


def test_what_else_differs_is_adjusted_for_within_and_over_blocks() -> None:
    """A second factor that costs ten times as much is half as frequent among the treated."""
    rng = np.random.default_rng(4)
    cells = [(False, 0.0), (False, 1.0), (False, 1.0), (True, 0.0), (True, 0.0), (True, 1.0)]
    for blocks in (6, 1):
        recordings = [
            Recording(
                {
                    "a.Main.run": 600 + rng.normal(),
                    "b.Other.work": 500 * other,
                    "c.Own.cost": 50 * treated + rng.normal(),
                },
                treated,
                10.0,
                block if blocks > 1 else None,
                (other,),
            )
            for block in range(blocks)
            for treated, other in cells * (1 if blocks > 1 else 3)
        ]
        effects = frame_effects(recordings)
        assert [effect.name for effect in effects.carriers] == ["c.Own.cost"]
        assert effects.total.change == pytest.approx(5.0, abs=0.2)
        alone = frame_effects([replace(recording, others=()) for recording in recordings])
        assert alone.total.change < -5, "the other factor's"


def test_what_differs_as_the_treatment_does_is_not_adjusted_for() -> None:
    recordings = [replace(recording, others=(float(recording.treated),)) for recording in _recordings(4, blocks=True)]
    assert frame_effects(recordings).total.change == pytest.approx(20.0)
