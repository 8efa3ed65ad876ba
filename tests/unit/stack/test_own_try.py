"""``leadline try``: what of its settings fits into a budget, told before anything starts."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar

import pytest
from toy_application import toy
from typer.testing import CliRunner

from leadline.checks.files.stack import read_stack
from leadline.cli.main import app
from leadline.experiments import trying
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import Level
from leadline.model.study import StackChoice
from leadline.stack.options import StackOptions

NINE = {f"app.size{number}": "[4, 8]" for number in range(1, 10)}


@pytest.fixture
def stack_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toy with nine knobs, all of them settings to try."""
    path = toy(tmp_path)
    knob = "{ range: [1, 64], argument: '--size=${level}', read_back: { http: /settings, key: pool.size } }"
    before, after = path.read_text().split("knobs:\n", 1)
    knobs = "".join(f"  {name}: {knob}\n" for name in NINE)
    path.write_text(f"{before}knobs:\n{knobs}{after}")
    (tmp_path / "toy.scenario.yaml").write_text("scenario: toy\nmix: { up: 1 }\ntransactions:\n  up:\n    - get: /up\n")
    monkeypatch.setattr(trying, "factors_of", lambda *_: dict(NINE))
    monkeypatch.chdir(tmp_path)
    return path


def tried(stack_file: Path, budget: str) -> trying.Attempt:
    return trying.prepare(stack_file, None, budget, stack_file.parent / "lab", print, lambda _: None, dry_run=True)


@pytest.mark.parametrize(
    ("budget", "kept", "replicates"), [("40m", 9, 2), ("20m", 9, 1), ("7m", 7, 1)], ids=["two", "one", "fewer"]
)
def test_a_budget_takes_replicates_first_then_the_last_settings(
    stack_file: Path, budget: str, kept: int, replicates: int
) -> None:
    attempt = tried(stack_file, budget)
    assert list(attempt.file.study.factors) == list(NINE)[:kept]
    assert attempt.file.study.design.replicates == replicates
    dropped = ", ".join(list(NINE)[kept:])
    wanted = [f"left out, as they do not fit into {budget}: {dropped}"] if dropped else []
    assert [note for note in attempt.notes if "left out" in note] == wanted
    assert not attempt.study.exists(), "a dry run writes nothing"


def test_a_budget_for_no_screening_is_refused_before_a_start(stack_file: Path) -> None:
    with pytest.raises(UsageError, match=r"--budget 2m: the smallest study takes \d\.\d min"):
        tried(stack_file, "2m")
    with pytest.raises(UsageError, match=r"--budget soon: "):
        tried(stack_file, "soon")


class Clock:
    """Of ``trying``: time passes only by what the fake application takes."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FakeStack:
    """An application whose starts take ``start`` seconds, which tells all but ``secret`` and refuses levels."""

    start, secret, refused, fixed = 4.0, "", dict[str, Level](), dict[str, Level]()
    starts: ClassVar[list[dict[str, Level]]] = []
    clock: ClassVar[Clock]

    def __init__(self, choice: StackChoice, host: object, home: Path, options: StackOptions) -> None:
        self._home, self._options, self._levels = home, options, dict[str, Level]()

    def provision(self, progress: object) -> None: ...
    def prepare_data(self, progress: object) -> None: ...
    def reset_data(self, directory: Path) -> None: ...

    def up(self, settings: dict[str, Level], directory: Path) -> float:
        self.starts.append(dict(settings))
        self._levels = {**dict.fromkeys(NINE, 4), **settings, **self.fixed}
        self.clock.sleep(min(self.start, self._options.ready_timeout))
        if self.start > self._options.ready_timeout:
            raise TrialFailure(FailureClass.CONFIGURATION, "it is not ready")
        if any(self._levels.get(name) == level for name, level in self.refused.items()):
            raise TrialFailure(FailureClass.CONFIGURATION, "it ended with exit code 1")
        return self.start

    def down(self) -> list[str]:
        return []

    def homes(self) -> list[Path]:
        return [self._home]

    def read_back(self, name: str) -> Level:
        if name == self.secret or name not in self._levels:
            raise LookupError("nothing tells it")
        return self._levels[name]


@pytest.fixture
def fake(stack_file: Path, monkeypatch: pytest.MonkeyPatch) -> type[FakeStack]:
    class Fake(FakeStack):
        starts: ClassVar[list[dict[str, Level]]] = []
        clock: ClassVar[Clock] = Clock()

    monkeypatch.setattr(trying, "Stack", Fake)
    monkeypatch.setattr(trying, "time", Fake.clock)
    monkeypatch.setattr(LocalHost, "lease", lambda _: nullcontext())
    monkeypatch.setattr(LocalHost, "restore", lambda _: [])
    return Fake


def prepared(stack_file: Path, budget: str) -> trying.Attempt:
    return trying.prepare(stack_file, None, budget, stack_file.parent / "lab", print, lambda _: None)


def dropped(attempt: trying.Attempt) -> dict[str, str]:
    lines = [note.partition(" is left out: ") for note in attempt.notes if " is left out: " in note]
    return {name: why for name, _, why in lines}


def test_settings_that_cannot_be_tried_are_left_out_before_the_first_trial(
    stack_file: Path, fake: type[FakeStack]
) -> None:
    fake.secret, fake.refused, fake.fixed = "app.size2", {"app.size5": 8}, {"app.size7": 6}
    attempt = prepared(stack_file, "40m")
    assert dropped(attempt) == {
        "app.size2": "it cannot be read back (nothing tells it)",
        "app.size5": "it does not start with 8 (it ended with exit code 1)",
        "app.size7": "8 was set, and 6 is in force",
    }
    assert not {"app.size2", "app.size5", "app.size7"} & attempt.file.study.factors.keys()
    assert fake.starts[0] == {}
    assert attempt.file.study.budget is not None
    assert attempt.file.study.budget < 40 * 60 - 4 * len(fake.starts) + 1, "its starts are part of the budget"


def test_a_level_beyond_another_setting_is_moved_or_left_out(
    stack_file: Path, fake: type[FakeStack], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trying, "ABOVE", {"app.size1": ("size9",), "app.size2": ("size8",)})
    fake.fixed = {"app.size9": 6, "app.size8": 8}
    attempt = prepared(stack_file, "40m")
    assert "app.size1 is 6 or 8, as app.size9 is 6" in attempt.notes
    assert attempt.file.study.factors["app.size1"] == [6, 8]
    assert dropped(attempt)["app.size2"] == "app.size8 is 8, and its levels must not be below"


def test_a_slow_start_is_not_repeated_and_its_time_is_planned(stack_file: Path, fake: type[FakeStack]) -> None:
    fake.start = 60.0
    attempt = prepared(stack_file, "20m")
    assert len(fake.starts) == 1, "a second start would take a tenth of what is left"
    assert attempt.file.study.ready_timeout == 240
    assert len(attempt.file.study.factors) == 3
    assert attempt.file.study.budget == 19 * 60


def test_a_start_too_slow_for_the_budget_is_no_answer_with_what_to_do(stack_file: Path, fake: type[FakeStack]) -> None:
    fake.start = 60.0
    with pytest.raises(trying.NotKnownError, match=r"not known: a start takes 60 s.*--budget 10m"):
        prepared(stack_file, "4m")
    assert len(prepared(stack_file, "10m").file.study.factors) == 1
    fake.start = 500.0
    with pytest.raises(trying.NotKnownError, match=r"not known: it is not up within 120 s, half of --budget 4m"):
        prepared(stack_file, "4m")


def test_no_answer_ends_with_its_exit_code(stack_file: Path, fake: type[FakeStack]) -> None:
    fake.start = 60.0
    result = CliRunner().invoke(app, ["try", str(stack_file), "--budget", "4m"])
    assert result.exit_code == 4
    assert "not known: a start takes 60 s" in result.stdout
    result = CliRunner().invoke(app, ["try", str(stack_file), "--budget", "4m", "--json"])
    assert result.exit_code == 4
    assert json.loads(result.stdout)["answered"] is False


def test_what_the_command_sets_itself_is_left_out(stack_file: Path) -> None:
    text = stack_file.read_text()
    stack_file.write_text(text.replace('"${port}"]', '"${port}", --size3=2, "-Xmx2g"]', 1))
    own = read_stack(stack_file)
    assert trying._set_by(own, "jvm.heap") == "-Xmx2g"
    assert trying._set_by(own, "app.size3") == "--size3=2"
    assert trying._set_by(own, "app.size1") == ""


def test_what_the_log_names_as_the_cause_is_told() -> None:
    cause = 'Caused by: org.p.Y: ERROR: relation "item" does not exist'
    log = f"10:00 WARN a\nCaused by: org.h2.X: first\n  at a.B\n{cause}\n"
    assert trying._complaint(log) == (
        '; the application\'s log: Caused by: org.p.Y: ERROR: relation "item" does not exist '
        "(`sql` of `database` names files that make tables)"
    )
    for database in ("ERROR Table 'shop.item' doesn't exist", 'ERROR Table "ITEM" not found'):
        assert "names files that make tables" in trying._complaint(database)
    assert trying._complaint("10:00 ERROR user 7 does not exist\n").endswith("10:00 ERROR user 7 does not exist")
    assert trying._complaint("10:00 INFO up\n") == ""
