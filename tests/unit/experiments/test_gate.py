"""Gates of real programs, short, and the studies they are made of."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from leadline.api.gates import GateOptions, GateRun, gate, run_gate
from leadline.api.studies import Study
from leadline.checks.files.stack import read_stack
from leadline.conclude.gate import GateVerdict
from leadline.experiments.counting import services
from leadline.experiments.gate import blocks_within, built, command_study, of_jars, of_stack_files, server_study
from leadline.host.local import LocalHost
from leadline.model.errors import LeadlineError, UsageError
from leadline.places.testbed import LocalTestbed
from leadline.trial.command import Command, commands_of
from leadline.trial.progress import SilentWatcher

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
    """Real runs of the same program: by its error rate one gate in twenty decides, three in a row hardly ever."""
    runs = (ended(bed, NAP, NAP, "wall>0%", blocks=3) for _ in range(3))
    run = next(run for run in runs if run.gate.verdict is GateVerdict.UNDECIDED)
    assert (run.exit_code(True), run.exit_code(False)) == (4, 0)
    assert run.gate.blocks == run.gate.of == 3
    assert "`--count`" in run.gate.remedy


@pytest.fixture
def stacks(tmp_path: Path) -> tuple[Path, Path]:
    paths = (tmp_path / "main" / "shop.stack.yaml", tmp_path / "change" / "shop.stack.yaml")
    for path in paths:
        path.parent.mkdir()
        (path.parent / "shop.jar").write_text("")
        path.write_text('stack: shop\ncommand: [java, -jar, shop.jar, "${port}"]\nenvironment: { AT: "${folder}" }\n')
    return paths


def test_two_jars_are_two_builds_of_one_stack_file(stacks: tuple[Path, Path]) -> None:
    own = of_jars(read_stack(stacks[0]), Path("old.jar"), Path("new.jar"))
    commands = [build.command for build in own.content.builds.values()]
    assert list(own.content.builds) == ["base", "head"]
    assert commands == [["java", "-jar", str(Path(jar).absolute()), "${port}"] for jar in ("old.jar", "new.jar")]
    study = Study.of(server_study(own, Path("shop.scenario.yaml"), ["p99>10%"], 900.0, 1)).file.study
    assert study.stack.own == own
    assert study.responses[0] == "p99"
    assert study.factors == {"app.build": ["base", "head"]}
    assert study.design.layout == "rotation"
    assert 12 <= study.design.replicates <= 20


def test_two_stack_files_keep_the_paths_of_their_folders(stacks: tuple[Path, Path]) -> None:
    own = of_stack_files(*map(read_stack, stacks))
    for path, build in zip(stacks, own.content.builds.values(), strict=True):
        assert build.command[2] == str(path.parent / "shop.jar")
        assert build.environment == {"AT": str(path.parent)}


def test_two_images_are_two_builds_of_one_compose_stack(stacks: tuple[Path, Path]) -> None:
    for path, image in zip(stacks, ("shop:1", "shop:2"), strict=True):
        (path.parent / "compose.yaml").write_text('services: { app: { image: "${IMAGE}" } }')
        path.write_text(
            "stack: shop\ncompose: { service: app, command: sh }\n"
            f'environment: {{ PORT: "${{port}}", IMAGE: "{image}" }}\n'
        )
    builds = of_stack_files(*map(read_stack, stacks)).content.builds
    assert [build.environment["IMAGE"] for build in builds.values()] == ["shop:1", "shop:2"]
    assert [build.compose.file for build in builds.values()] == [str(path.parent / "compose.yaml") for path in stacks]
    with pytest.raises(UsageError, match=r"shop.stack.yaml:2: --count runs no containers"):
        services(of_stack_files(*map(read_stack, stacks)), ["base"], Path("x"), stacks[0].parent)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("port: 8080", "they differ in `port`; a gate compares command, compose, environment, directory of"),
        ("environment: { PASSWORD: x, AT: here }", "of a gate write PASSWORD: ${env:PASSWORD}"),
    ],
)
def test_stack_files_that_differ_elsewhere_are_refused(line: str, told: str, stacks: tuple[Path, Path]) -> None:
    lines = [kept for kept in stacks[1].read_text().splitlines() if kept[:4] != line[:4]]
    stacks[1].write_text("\n".join([*lines, line]))
    with pytest.raises(UsageError, match=re.escape(told)):
        of_stack_files(*map(read_stack, stacks))


HAR = """{"log": {"entries": [{"startedDateTime": "2026-01-01T00:00:00Z", "time": 5,
"request": {"method": "GET", "url": "http://127.0.0.1:8080/items/1", "headers": [], "cookies": []},
"response": {"status": 200, "headers": [], "content": {"mimeType": "text/html", "text": "x"}}}]}}"""


def test_a_recording_is_the_load_and_jvms_are_sampled(stacks: tuple[Path, Path], tmp_path: Path) -> None:
    stacks[0].write_text(stacks[0].read_text() + "scenario: tour.har\n")
    (stacks[0].parent / "tour.har").write_text(HAR)
    (tmp_path / "truth.yaml").write_text("truth: { seed: 4, noise: { trials: 1% } }\n")
    options = GateOptions(truth=tmp_path / "truth.yaml", fail=["cpu>50%"])
    run = gate(*map(str, stacks), options, tmp_path / "lab", SilentWatcher())
    assert run.gate.verdict is GateVerdict.UNCHANGED
    study = run.result.record.study
    assert study.workload.scenario == str(tmp_path / "lab" / "tour.scenario.yaml")
    assert study.profiling == "light"


def test_sides_of_two_kinds_are_refused(stacks: tuple[Path, Path], tmp_path: Path) -> None:
    jar, stack = str(stacks[0].parent / "shop.jar"), str(stacks[0])
    for sides, options, told in (
        ((jar, stack), GateOptions(), "BASE is a jar, HEAD a stack file"),
        ((jar, "absent.jar"), GateOptions(), "there is no file absent.jar; build it first"),
        (("true", "false"), GateOptions(stack=stacks[0]), "these are two commands"),
        ((stack, stack), GateOptions(count=True, truth=stack), "nothing of it is simulated"),
        ((stack, stack), GateOptions(stack=stacks[0]), "--stack is of two jars"),
        ((jar, jar), GateOptions(run="x.jar"), "write --build, too"),
        (("a", "b"), GateOptions(build="make"), "write by --run what it leaves"),
    ):
        with pytest.raises(UsageError, match=re.escape(told)):
            gate(*sides, options, tmp_path / "lab", SilentWatcher())


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        (tmp_path / "source").write_text(f"version {number}\n")
        for words in ("init -q", "add source", "-c user.name=n -c user.email=e commit -qm change"):
            subprocess.run(["git", *words.split()], check=True)
    return tmp_path


def test_two_revisions_are_built_beside_each_other_and_removed(repository: Path) -> None:
    with built("HEAD~1", "HEAD", "cp source app.jar", "app.jar") as (base, head, tree):
        assert [Path(side).read_text() for side in (base, head)] == ["version 1\n", "version 2\n"]
        assert head == str(tree / "app.jar")
    with built("HEAD~1", "HEAD", "true", "cat source") as (base, _, tree):
        assert subprocess.run(["sh", "-c", base], capture_output=True, check=True).stdout == b"version 1\n"
    for build, run, told in (
        ("false", "x", "of HEAD~1 ended with exit code 1"),
        ("true", "x.jar", "left no such file"),
    ):
        with pytest.raises((LeadlineError, UsageError), match=told), built("HEAD~1", "HEAD", build, run):
            pass
    with pytest.raises(UsageError, match="'gone' is no revision"), built("gone", "HEAD", "true", "x"):
        pass
    assert not tree.exists()
    moved = repository.parent / "moved"  # a work tree of somebody's own, on a disk that is not there today
    subprocess.run(["git", "worktree", "add", "--quiet", str(moved)], check=True)
    moved.rename(repository.parent / "away")
    with built("HEAD~1", "HEAD", "true", "cat source"):
        pass
    assert (repository / ".git/worktrees/moved").is_dir()
    subprocess.run(["git", "worktree", "prune"], check=True)
    left = subprocess.run(["git", "worktree", "list"], capture_output=True, text=True, check=True).stdout
    assert left.count("\n") == 1, left
    assert [path.name for path in repository.iterdir() if path.name != ".git"] == ["source"]


def test_a_base_that_fails_is_refused() -> None:
    with pytest.raises(UsageError, match="BASE 'false' fails: exit code 1"):
        command_study(command("false"), command("true"), (), 60.0, 1)


def test_a_budget_that_holds_too_few_blocks_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"--budget 1m: a block of both takes about 20s, .* write --budget 1m20s or more"
    ):
        blocks_within(60.0, 20.0)
