"""Panels of a trial over time as static figures."""

from __future__ import annotations

from typing import Any

from leadline.report.charts.trial import GC_PANELS, views

LIMIT = {"s": "limit", "t": [0.0, 8.0], "v": [256.0, 256.0]}


def _series(tracks: list[list[dict[str, Any]]]) -> dict[str, Any]:
    return {"span": 8.0, "phases": [], "panels": {"gc": {"tracks": tracks, "peaks": [50.0, 256.0]}}}


def test_a_trial_without_a_pause_beside_one_with_some_is_drawn() -> None:
    pause = {"s": "Pause Young", "t": [1.0, 3.0], "v": [20.0, 50.0]}
    data = {1: _series([[pause], [LIMIT]]), 2: _series([[], [LIMIT]])}
    (panel,) = (view for view in views(GC_PANELS, data, [1, 2], {1: "one", 2: "other"}) if view.name == "gc")
    figures = [figure for figure in panel.sides if figure is not None]
    assert len(figures) == 2
    assert all(figure.png().startswith(b"\x89PNG") for figure in figures)
