"""The truth that the load driver's reports are compared with, on runs whose answers can be told by hand."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def truth() -> ModuleType:
    path = Path(__file__).parents[3] / "bench" / "driver" / "truth.py"
    spec = importlib.util.spec_from_file_location("bench_driver_truth", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def written(truth: ModuleType, tmp_path: Path, text: str) -> Any:
    (tmp_path / "log").write_text(text)
    return truth.read_log(tmp_path / "log")


def test_work_stands_still_while_the_server_does(truth: ModuleType) -> None:
    log = truth.Log([(100, 200), (300, 400)])
    assert log.working(50, 250) == 100
    assert log.working(120, 180) == 0
    assert log.working(0, 500) == 300
    assert log.after(0, 50) == 50
    assert log.after(90, 20) == 210
    assert log.after(150, 10) == 210
    assert log.after(250, 120) == 470
    assert log.after(450, 10) == 460


def test_a_late_start_is_not_in_the_truth(truth: ModuleType, tmp_path: Path) -> None:
    # Due at 0, sent so late that it came at 30 into a server that takes 12: 12 and a way as long as that of answers.
    log = written(truth, tmp_path, "/1 30 31 38 42\n")
    assert truth.of_open(log, {"/1": 0}, 100) == [(16, 16)]
    assert truth.of_open(dataclasses.replace(log, way=0), {"/1": 0}, 100) == [(12, 12)]
    assert written(truth, tmp_path, "/1 0 0 0 2\n/2 0 0 0 3\n/3 0 0 0 9\n").way == 3
    # It came in a freeze: sent in time it would have been answered before.
    log = written(truth, tmp_path, "freeze 20 120\n/1 30 120 128 132\n")
    assert truth.of_open(log, {"/1": 0}, 100) == [(16, 16)]
    assert truth.of_open(log, {"/1": 15}, 100) == [(131, 116)]


def test_users_wait_for_their_own_answers(truth: ModuleType, tmp_path: Path) -> None:
    log = written(truth, tmp_path, "/1/1 0 0 10 10\n/1/2 10 10 20 20\n/1/3 90 90 100 100\n/2/1 0 0 10 10\n")
    due = {"/1/1": 0, "/1/2": 4, "/1/3": 80, "/2/1": 3}
    assert truth.of_users(log, due, 1000) == [(10, 10), (20, 16), (90, 10), (13, 10)]
    assert len(truth.of_users(log, due, 50)) == 3


def test_means_and_percentiles(truth: ModuleType) -> None:
    ms = 1_000_000
    assert truth.summary(range(1 * ms, 1001 * ms, ms)) == pytest.approx(
        {"mean": 500.5, "p50": 500, "p95": 950, "p99": 990, "p999": 999}
    )
