"""Figures of running studies as Prometheus reads them; tokens that are refused."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leadline.cli.commands.ui import _kept_token
from leadline.model.errors import UsageError
from leadline.model.record import LoadSecond
from leadline.trial.livelog import Live
from leadline.web import server
from leadline.web.server import gauges, prometheus


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One study in its third trial, at 1000 s."""
    monkeypatch.setattr(server.time, "time", lambda: 1000.0)
    live = Live(trials=8, done=2, position=2, label='a="b\\', step="load", load_at=995.0)
    live.seconds.append(LoadSecond(3.0, "steady", 412.5, 12.5, 1, 4.0, 7))
    return [SimpleNamespace(lab="real", live=live, seconds_left=90.0, result=SimpleNamespace(run="pools@4"))]


def test_prometheus_has_a_head_for_each_name_and_escaped_labels(running: list[Any]) -> None:
    lines = prometheus(gauges(running)).splitlines()
    assert 'leadline_trials{study="pools@4",lab="real"} 8' in lines
    assert 'leadline_seconds_left{study="pools@4",lab="real"} 90' in lines
    labels = r'study="pools@4",lab="real",treatment="a=\"b\\",phase="steady"'
    assert f"leadline_throughput{{{labels}}} 412.5" in lines
    assert f'leadline_response_seconds{{{labels},quantile="0.99"}} 0.0125' in lines
    types = [line for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types)) == 7
    assert all(
        re.fullmatch(r'(# (HELP|TYPE) \w+ .+)|(\w+\{(\w+="([^"\\]|\\.)*",?)+\} [\d.e+-]+)', one) for one in lines
    )


def test_a_load_that_is_over_has_no_figures(running: list[Any]) -> None:
    running[0].live.load_at = 980.0
    assert {one.name for one in gauges(running)} == {
        "leadline_trials",
        "leadline_trials_ended",
        "leadline_seconds_left",
    }


def test_a_token_is_kept_and_one_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = _kept_token(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert _kept_token(file) == token
    file.chmod(0o644)
    with pytest.raises(UsageError, match="others may read it"):
        _kept_token(file)
    file.chmod(0o600)
    file.write_text("short\n")
    with pytest.raises(UsageError, match="20 or more"):
        _kept_token(file)
