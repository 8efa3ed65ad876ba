"""Studies of a program that is timed as a whole process: real ones, short."""

from pathlib import Path

import pytest

from leadline.checks.files.study import builtin_studies, parse_study
from leadline.host.local import LocalHost
from leadline.model.command import CommandLoad
from leadline.model.errors import UsageError
from leadline.places.testbed import LocalTestbed, RunOptions
from leadline.stack.places import memory_directory
from leadline.trial.lifecycle import STEPS

STUDY = """\
study: naps
question: Does a longer nap take longer?
command:
  run: "/bin/sleep {length}{unit}"
  levels:
    length: { short: "0.01", long: "0.05" }
    unit: { seconds: s, none: "" }
  setup: echo {unit} > made
  prepare: test -e {files}/made
  runs: 2
  seconds: 20ms
factors:
  length: [short, long]
  command.place: [disk, tmpfs]
design: { replicates: 2, sentinels: null }
responses: [wall, switches]
"""


@pytest.fixture
def bed(tmp_path: Path) -> LocalTestbed:
    """This machine with a root of its own, so that its lease is too: who measures here is left alone."""
    root = tmp_path / "root"
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text("MemTotal: 16000000 kB\n")
    (root / "proc/self/mountinfo").write_text(
        "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n22 21 0:1 / /dev/shm rw - tmpfs tmpfs rw\n"
    )
    found = LocalTestbed(tmp_path / "lab")
    found.host = LocalHost(state=tmp_path / "state", root=root)
    return found


def test_programs_as_trials(bed: LocalTestbed, tmp_path: Path) -> None:
    file = parse_study(STUDY, "naps.yaml")
    planned = bed.plan(file)
    result = bed.run(file, planned, RunOptions())
    assert result.complete, result.stopped
    record = bed.store.load(result.study_id)
    assert all(trial.failure is None for trial in record.trials)
    for trial in record.trials:
        least = 0.05 if trial.planned.treatment["length"] == "long" else 0.01
        assert trial.responses["wall"] > least
        assert [step.name for step in trial.steps] == list(STEPS)
        assert trial.machine is not None
        assert 0 <= (trial.machine.taken or 0.0) <= 1
    places = {r.found for trial in record.trials for r in trial.readings if r.knob == "command.place"}
    assert places == {"disk", "tmpfs"}
    assert not memory_directory(tmp_path / "lab" / "services" / "naps").exists()
    assert record.study.command == file.study.command


MEMORY = """\
study: peaks
question: Does it matter?
command:
  run: "{program}"
  levels: { program: { small: /bin/true, large: "python3 -S -c 'bytearray(99000000)'" } }
  runs: 2
  seconds: 20ms
factors: { program: [small, large] }
design: { replicates: 2, sentinels: null }
responses: [wall, peak_memory]
"""


def test_peak_memory_of_who_starts_a_program_is_not_that_of_the_program(bed: LocalTestbed) -> None:
    file = parse_study(MEMORY, "peaks.yaml")
    record = bed.store.load(bed.run(file, bed.plan(file), RunOptions()).study_id)
    for trial in record.trials:
        large = trial.planned.treatment["program"] == "large"
        assert trial.failure is None
        assert (trial.responses.get("peak_memory", 0.0) > 90) == large
        assert ("peak_memory" in trial.responses) == large


def test_a_program_that_fails_is_a_failure_of_its_treatment(bed: LocalTestbed) -> None:
    text = STUDY.replace('long: "0.05"', 'long: "nonsense"')
    file = parse_study(text, "naps.yaml")
    record = bed.store.load(bed.run(file, bed.plan(file), RunOptions()).study_id)
    failed = [trial for trial in record.trials if trial.failure]
    assert {trial.failure.value for trial in failed if trial.failure} == {"configuration"}
    assert all("exit code 1" in trial.failure_message for trial in failed)
    assert {trial.planned.treatment["length"] for trial in failed} == {"long"}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("{length}", "{lenght}", "naps.yaml:4: run: nothing stands for {lenght}; did you mean {length}?"),
        ("short, long]", "short, lang]", "did you mean long?"),
        ("responses: [wall,", "responses: [p99,", "p99 is measured under load only; a command has wall, cpu"),
        ("question:", "workload: { users: 3 }\nquestion:", "a study of a command has no workload"),
        ("sentinels: null", "switchback: {}", "a command runs alone from start to end"),
        ("unit: {", "java: {", "is no name of a factor of a command"),
        ("disk, tmpfs]", "disk, floppy]", "'floppy' is not one of disk, tmpfs, ramdisk, ext4"),
        ("  setup:", "  files: [/not/there]\n  setup:", "naps.yaml:8: /not/there is not there"),
        ("  setup:", "  java: 98\n  setup:", "naps.yaml:8: no JDK 98 or newer"),
        (
            "disk, tmpfs]",
            "disk, ext4]\n  command.mount: [defaults, noatime]",
            "is of a file system of its own: all levels of command.place must be of ext4, xfs, btrfs",
        ),
        ('{unit}"', '{java}"', "for {java} say which"),
    ],
)
def test_what_is_refused(old: str, new: str, words: str, tmp_path: Path) -> None:
    def planned() -> None:
        LocalTestbed(tmp_path / "lab").plan(parse_study(STUDY.replace(old, new, 1), "naps.yaml"))

    with pytest.raises(UsageError) as error:
        planned()
    assert words in str(error.value)


def test_a_response_of_programs_needs_one() -> None:
    with pytest.raises(UsageError, match="wall is measured for programs only: it needs `command`"):
        parse_study("study: a\nquestion: b?\nresponses: [wall]\nfactors: { jvm.heap: [1g, 2g] }\n", "a.yaml")


def test_texts_of_levels_may_name_the_files() -> None:
    load = CommandLoad(run="{x}/y {archive}", levels={"archive": {"a": "-A{files}/z"}, "x": {"b": "{files}"}})
    filled = load.filled(load.run, {"archive": "-A{files}/z", "x": "{files}", "files": "/f"})
    assert filled == "/f/y -A/f/z"


@pytest.mark.parametrize("name", ["startup", "ramdisk"])
def test_the_built_in_studies(name: str) -> None:
    study = parse_study(builtin_studies()[name], f"{name}.yaml").study
    assert study.command is not None
    assert set(study.command.levels) < set(study.factors)
    assert study.design.each == "command.cache"
