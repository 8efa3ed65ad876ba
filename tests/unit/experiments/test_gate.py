"""Gates of real programs, short, and the studies they are made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.api.gates import GateRun, run_gate
from leadline.api.studies import Study
from leadline.conclude.gate import GateVerdict
from leadline.experiments.gate import blocks_within, command_study
from leadline.host.local import LocalHost
from leadline.model.errors import UsageError
from leadline.places.testbed import LocalTestbed
from leadline.trial.command import Command, commands_of

NAP = "sleep 0.03"


def command(text: str) -> Command:
    return commands_of([text], {})[0]


@pytest.fixture
def bed(tmp_path: Path) -> LocalTestbed:
    """This machine with a root of its own, so that its lease is too."""
    root = tmp_path / "root"
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text("MemTotal: 16000000 kB\n")
    (root / "proc/self/mountinfo").write_text("21 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    found = LocalTestbed(tmp_path / "lab")
    found.host = LocalHost(state=tmp_path / "state", root=root)
    return found


def ended(bed: LocalTestbed, base: str, head: str, *fail: str, blocks: int = 20) -> GateRun:
    keys = command_study(command(base), command(head), fail, 60.0, 1)
    keys["design"]["replicates"] = blocks
    keys["command"]["runs"] = 1  # a test is in a hurry
    return run_gate(Study.of(keys), base, head, bed, lambda: 1.0)


def test_a_slower_program_is_a_regression_and_ends_the_gate_early(bed: LocalTestbed) -> None:
    run = ended(bed, NAP, "sleep 0.3", "wall>50%")
    assert run.gate.verdict is GateVerdict.REGRESSION
    assert run.gate.blocks < run.gate.of
    assert (run.exit_code(True), run.exit_code(False)) == (1, 1)
    assert run.run.page.is_file()
    assert run.result.record.study.fail == ["wall>50%"]
    assert "| wall&gt;50% | broken | +" in run.markdown()


def test_the_same_program_passes_and_a_shell_is_taken_where_it_is_needed(bed: LocalTestbed) -> None:
    run = ended(bed, NAP, f"true && {NAP}", "wall>400%")
    assert run.gate.verdict is GateVerdict.UNCHANGED
    assert run.exit_code(True) == 0
    assert run.gate.rates is not None
    assert run.gate.rates.fail < 0.05


def test_a_head_that_fails_is_a_regression(bed: LocalTestbed) -> None:
    run = ended(bed, NAP, "false", "wall>50%")
    assert run.gate.verdict is GateVerdict.REGRESSION
    assert "wall: every trial failed" in run.gate.line
    assert run.document()["verdict"] == "regression"


def test_what_is_too_close_to_call_is_undecided(bed: LocalTestbed) -> None:
    run = ended(bed, NAP, NAP, "wall>0%", blocks=3)
    assert run.gate.verdict is GateVerdict.UNDECIDED
    assert (run.exit_code(True), run.exit_code(False)) == (4, 0)
    assert run.gate.blocks == run.gate.of == 3


def test_a_base_that_fails_is_refused() -> None:
    with pytest.raises(UsageError, match="BASE 'false' fails: exit code 1"):
        command_study(command("false"), command("true"), (), 60.0, 1)


def test_a_budget_that_holds_too_few_blocks_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"--budget 1m: a block of both takes about 20s, .* write --budget 1m20s or more"
    ):
        blocks_within(60.0, 20.0)
