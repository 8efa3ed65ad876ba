"""The public Python interface, by its guide and as a program uses it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import leadline
from leadline.host.journal import UndoJournal
from leadline.host.local import LocalHost
from leadline.model.errors import LeadlineError, RestoreError, UsageError
from leadline.places import hosts

KEYS = {
    "study": "two",
    "question": "q",
    "factors": {"jvm.heap": ["256m", "512m"]},
    "workload": {"users": 4, "ramp_up": "1s", "steady": "5s", "ramp_down": "0s"},
}
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "python.md"


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    exec("\n".join(blocks), {})
    told = capsys.readouterr().out
    assert "trials" in told
    assert "jvm.heap=512m" in told
    assert "p99 jvm.heap" in told
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "lab" / "simulated" / "lab.sqlite").exists()


def test_every_public_name_is_there_and_documented() -> None:
    for name in leadline.__all__:
        assert getattr(leadline, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        leadline.runn  # noqa: B018 the access is what raises


def test_the_package_alone_imports_nothing_heavy() -> None:
    told = "import sys, leadline; print(sorted({'numpy', 'polars', 'sqlalchemy', 'leadline.api'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_bad_input_raises_what_the_command_prints() -> None:
    with pytest.raises(leadline.UsageError, match=r"heap\.yaml:4: .*unknown knob 'jvm\.heapp'; did you mean jvm\.heap"):
        leadline.plan(leadline.Study.of(KEYS | {"study": "heap", "factors": {"jvm.heapp": ["1g", "2g"]}}))
    with pytest.raises(leadline.UsageError, match="quickstart"):
        leadline.read("quickstrat")
    with pytest.raises(leadline.UsageError, match="--factor works on studies only"):
        leadline.read("daytrader", factors=["jvm.heap=1g,2g"])


def test_a_run_goes_on_and_a_lab_is_read(tmp_path: Path) -> None:
    (tmp_path / "truth.yaml").write_text("truth: { seed: 1 }\n")
    study, truth = leadline.Study.of(KEYS), tmp_path / "truth.yaml"
    short = leadline.run(leadline.Study.of(KEYS | {"budget": "9s"}), tmp_path, truth=truth)
    assert not short.complete
    assert "budget" in short.stopped
    whole = leadline.run(study, tmp_path, truth=truth)
    assert whole.complete
    assert [one.run for one in leadline.load_lab(tmp_path / "simulated").studies()] == ["two@1", "two@2"]
    assert whole.result.answer.startswith("SIMULATED: ")


def test_what_a_watchdog_did_meanwhile_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path))
    journal = UndoJournal(tmp_path / "undo" / "local.jsonl")
    journal.record("process", "server", token="of nobody")

    @contextmanager
    def lease(_host: LocalHost) -> Iterator[None]:
        journal.restore()  # the watchdog, while the lease is waited for
        yield

    monkeypatch.setattr(LocalHost, "lease", lease)
    (line,) = hosts.restore()
    assert line.startswith("put back by the watchdog of the leadline that died, journal entries: 1; ")
    assert hosts.restore() == []


def test_several_hosts_are_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def far(name: str, _tell: object) -> list[str]:
        asked.append(name)
        if name == "ssh:away":
            raise RestoreError("cannot be reached")
        if name == "ssh:used":
            raise LeadlineError("in use")
        return ["swap: on again"]

    monkeypatch.setattr(hosts, "_restore", far)
    assert hosts.restore(["ssh:app", "here"]) == ["ssh:app: swap: on again", "here: swap: on again"]
    told: list[str] = []
    with pytest.raises(LeadlineError, match=r"^ssh:used: in use\Z") as caught:
        hosts.restore(["ssh:used", "here"], told.append)
    assert not isinstance(caught.value, RestoreError)
    assert told == ["here: swap: on again"]
    with pytest.raises(RestoreError, match=r"^ssh:away: cannot be reached\nssh:used: in use\Z"):
        hosts.restore(["ssh:away", "ssh:used", "here"])
    asked.clear()
    with pytest.raises(UsageError, match=r"^--host app: write here or ssh:NAME"):
        hosts.restore(["ssh:db", "app"])
    assert asked == [], "a name is refused before anything is done"
