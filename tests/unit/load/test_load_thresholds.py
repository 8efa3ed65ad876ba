"""``leadline load`` in a pipe: a summary, ``--fail`` and exit codes, against a small real server."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from small_server import SCENARIO, small_server
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.load.result import read_summary
from leadline.model.errors import UsageError


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with small_server() as address:
        yield address


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "one.yaml"
    path.write_text(SCENARIO)
    return path


def load(scenario: Path, url: str, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "leadline", "load", str(scenario), "--url", url, "--steady", "300ms", *words]
    done = subprocess.run(argv, cwd=scenario.parent, capture_output=True, text=True, timeout=60, env=os.environ)
    assert "Traceback" not in done.stderr
    return done


def test_a_run_in_a_pipe_ends_with_its_summary_and_its_thresholds(scenario: Path, url: str) -> None:
    conditions = ("--fail", "p50>0ms", "--fail", "errors>0.1%", "--fail=throughput<0.5")
    done = load(scenario, url, *conditions)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (1, "")
    assert lines[0].startswith("failed: p50 is ")
    assert lines[0].endswith("(--fail p50>0ms)")
    assert lines[1] == "kept: errors are 0 % (--fail errors>0.1%)"
    assert [line.split()[0] for line in lines if line.startswith(("get", "all", "results"))] == [
        "get",
        "all",
        "results:",
    ]
    verdict = read_summary(scenario.parent / "leadline-load.out").verdict
    assert verdict is not None
    assert [(t.condition, t.kept) for t in verdict.thresholds] == [
        ("p50>0ms", False),
        ("errors>0.1%", True),
        ("throughput<0.5", True),
    ]
    assert invoke(scenario, url, "--fail", "p99 > 9s").exit_code == 0


def invoke(scenario: Path, url: str, *words: str) -> Result:
    argv = ["load", str(scenario), "--url", url, "--steady", "300ms", "--out", str(scenario.parent / "out"), *words]
    return CliRunner().invoke(app, argv)


def test_a_run_without_a_success_fails_whatever_is_permitted(scenario: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = invoke(scenario, "http://127.0.0.1:9", "--limit-errors", "100%", "--fail", "errors>100%")
    assert done.exit_code == 1
    assert capfd.readouterr().out.startswith("failed: no transaction succeeded")


def test_several_drivers_have_one_verdict(scenario: Path, url: str) -> None:
    done = invoke(scenario, url, "--drivers", "local,local", "--fail", "p50>9s", "--fail", "p99>0ms")
    assert done.exit_code == 1
    assert done.stdout.startswith("failed: p99 is ")
    assert "kept: p50 is " in done.stdout


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("p98>200ms", "'p98' is not measured here; did you mean p9"),
        ("p99<200ms", "it names the harm, not what is wanted; write p99>200ms"),
        ("p99>200", "`200` has no unit: write 200ms or 200s"),
    ],
)
def test_a_bad_condition_is_refused_in_one_line(
    scenario: Path, condition: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    done = invoke(scenario, "http://127.0.0.1:9", "--fail", condition)
    said = str(done.exception) if isinstance(done.exception, UsageError) else capfd.readouterr().err
    assert isinstance(done.exception, UsageError) or done.exit_code == 2
    assert message in said
    assert len(said.splitlines()) == 1
    assert not (scenario.parent / "out" / "summary.json").exists()


def test_a_bad_condition_is_refused_before_another_generator_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "wrk"  # stands for the tool
    tool.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    words = ["load", "--generator", "wrk", "--url", "http://h", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*words, "--fail", "p98>1s"])
    assert "'p98' is not measured" in str(done.exception)
    assert not (tmp_path / "ran").exists()
