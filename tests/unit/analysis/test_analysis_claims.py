"""What a study claims over all of its responses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leadline.analysis.drift import no_drift
from leadline.analysis.selection import claim_key, claimed
from leadline.model.result import Effect, Interaction, ResponseAnalysis, StudyAnalysis, Verdict


def _effect(response: str, factor: str, alone: float | None, adjusted: float | None) -> Effect:
    return Effect(factor, 1, 0, response, Verdict.BETTER, 8, 0, 5.0, p_value=alone, p_adjusted=adjusted)


def _response(name: str, *values: tuple[float | None, float | None], pairs: tuple[float, ...] = ()) -> ResponseAnalysis:
    effects = tuple(_effect(name, f"f{number}", *value) for number, value in enumerate(values))
    interactions = tuple(
        Interaction(
            "f0 x f1", f"1 x {number}", "0 x 0", name, Verdict.BETTER, 8, 0, 5.0, p_value=value, p_adjusted=value
        )
        for number, value in enumerate(pairs)
    )
    return ResponseAnalysis(
        name, 100.0, None, 8, effects, None, no_drift(""), (), None, None, interactions=interactions
    )


def _claimed(*responses: ResponseAnalysis, repeated: bool = False) -> list[str]:
    analysis = StudyAnalysis(responses, 8, {})
    return sorted(f"{response} {factor}" for response, factor, *_ in claimed(analysis, repeated))


def test_one_response_has_the_whole_rate() -> None:
    assert _claimed(_response("a", (0.03, 0.049), (0.04, 0.051))) == ["a f0", "a f1"]  # the second beside none
    assert _claimed(_response("a", (0.03, 0.051), (0.04, 0.051))) == []


def test_the_first_response_has_half_and_others_share_the_rest() -> None:
    assert _claimed(_response("a", (0.025, 0.025)), _response("b", (0.9, 0.9)), _response("c", (0.9, 0.9))) == ["a f0"]
    assert _claimed(_response("a", (0.9, 0.9)), _response("b", (0.0125, 0.0125)), _response("c", (0.9, 0.9))) == [
        "b f0"
    ]
    assert _claimed(_response("a", (0.9, 0.9)), _response("b", (0.02, 0.02)), _response("c", (0.02, 0.02))) == []


def test_what_is_claimed_passes_its_share_on() -> None:
    others = [_response("b", (0.02, 0.02)), _response("c", (0.04, 0.04))]
    assert _claimed(_response("a", (0.001, 0.001)), *others) == ["a f0", "b f0", "c f0"]
    assert _claimed(_response("a", (0.9, 0.9)), *others) == []


def test_within_a_response_what_is_claimed_leaves_the_family() -> None:
    assert _claimed(_response("a", (0.001, 0.003), (0.02, 0.055), (0.5, 0.9))) == ["a f0", "a f1"]
    assert _claimed(_response("a", (0.001, 0.003), (0.02, 0.055), (0.5, 0.9)), repeated=True) == ["a f0"]


def test_interactions_are_a_family_of_their_own() -> None:
    assert _claimed(_response("a", (0.04, 0.04), (0.9, 0.9), pairs=(0.01,))) == ["a f0", "a f0 x f1"]
    assert _claimed(_response("a", (0.041, 0.041), (0.9, 0.9), pairs=(0.011,))) == []


def test_effects_without_a_test_are_not_claimed() -> None:
    assert _claimed(_response("a", (None, None), (0.01, 0.01))) == ["a f1"]


@pytest.mark.parametrize("level", [1, "1"])
def test_keys_tell_levels_of_two_types_apart(level: object) -> None:
    effect = replace(_effect("a", "f", 0.1, 0.1), level=level)
    assert claim_key(effect) == ("a", "f", type(level).__name__, level)
