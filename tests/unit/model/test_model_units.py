"""Durations as people write them, as the driver reads them too."""

from __future__ import annotations

import pytest

from leadline.model.units import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (3, 3.0), ("1.5", 1.5), (".5s", 0.5), ("5.us", 5e-6), ("7ns", 7e-9), ("250ms", 0.25), ("2 m", 120),
        ("2min", 120), ("1h30m", 5400), (" 1h 30m ", 5400), ("1D", 86400),
    ],
)  # fmt: skip
def test_durations(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("text", ["", "s", ".", "-1s", "1 0s", "1e3ms", "10 parsecs", "1.5.2s", "NaN", "5 5"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 20s, 5m or 1h30m"):
        parse_duration(text)
