"""Plans and analyses give the recorded figures: a change of the code's shape must not move one of them.

``LEADLINE_GOLDEN=exact`` compares to the last digit; without it a part in a million is left to other processors.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from golden_cases import analyse, cases, read, recorded

EXACT = os.environ.get("LEADLINE_GOLDEN") == "exact"


def differences(kept: Any, found: Any, path: str) -> list[str]:
    """Where ``found`` lacks something that was kept, or has another figure; what it has besides is not looked at."""
    if isinstance(kept, dict) and isinstance(found, dict):
        if "effects" in kept and not EXACT and noiseless(kept):
            kept, found = verdicts(kept), verdicts(found)
        return [line for key in kept for line in differences(kept[key], found.get(key), f"{path}.{key}")]
    if isinstance(kept, list) and isinstance(found, list) and len(kept) == len(found):
        pairs = enumerate(zip(kept, found, strict=True))
        return [line for at, (one, other) in pairs for line in differences(one, other, f"{path}[{at}]")]
    if isinstance(kept, float) and isinstance(found, (int, float)) and not EXACT:
        return [] if found == pytest.approx(kept, rel=1e-6, abs=1e-9) else [f"{path}: {kept!r} was recorded: {found!r}"]
    return [] if kept == found else [f"{path}: {kept!r} was recorded: {found!r}"]


def noiseless(response: dict[str, Any]) -> bool:
    """Whether the simulation leaves a response nothing but rounding, which differs from processor to processor."""
    return response["detectable"] is None or response["detectable"] < 1e-3


def verdicts(response: dict[str, Any]) -> dict[str, Any]:
    return {"verdicts": sorted(effect["verdict"] for effect in response["effects"])}


def test_plans_and_analyses_are_those_recorded(tmp_path: Path) -> None:
    kept = read()
    found = {name: recorded(content) for name, content in cases(analyse, tmp_path)}
    assert kept.keys() == found.keys()
    assert len(kept) > 60
    assert not differences(kept, found, "")
