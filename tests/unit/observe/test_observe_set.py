"""An observer that fails costs its own series only."""

from pathlib import Path

import pytest

from leadline.host.files import LocalFiles
from leadline.observe.base import Observer, ObserverContext
from leadline.observe.group import ObserverSet
from leadline.observe.host import HostObserver


class FakeObserver:
    """Notes its calls; raises in the step named by ``fails``."""

    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        self.name = name
        self.log = log
        self.fails = fails
        self.warnings = ["dropped a sample"] if not fails else []

    def _step(self, step: str) -> None:
        self.log.append(f"{self.name} {step}")
        if self.fails == step:
            raise RuntimeError(f"{step} is broken")

    def start(self, context: ObserverContext) -> None:
        self._step("start")

    def stop(self) -> None:
        self._step("stop")

    def collect(self) -> Path | None:
        self._step("collect")
        return Path(f"{self.name}.parquet")

    def collect_from(self, directory: Path) -> Path | None:
        self._step("collect_from")
        return directory / f"{self.name}.parquet"


@pytest.mark.parametrize("step", ["start", "stop", "collect"])
def test_the_others_go_on(step: str) -> None:
    log: list[str] = []
    bad: Observer = FakeObserver("bad", log, step)
    observers = ObserverSet([FakeObserver("a", log), bad, FakeObserver("z", log)])
    observers.start(ObserverContext(Path()))
    observers.stop()
    observers.stop()
    found = observers.collect()
    for name in ("a", "z"):
        assert [f"{name} {each}" for each in ("start", "stop", "collect")] == [
            line for line in log if line.startswith(f"{name} ")
        ]
        assert found[name] == Path(f"{name}.parquet")
    assert ("bad" in found) is (step != "collect")
    assert len([text for text in observers.warnings if "RuntimeError" in text]) == 1
    assert f"{step} is broken" in observers.warnings[0]
    assert observers.warnings[1:] == ("dropped a sample",)
    assert ("bad stop" in log) is (step != "start")


def test_series_of_an_ended_trial(tmp_path: Path) -> None:
    log: list[str] = []
    observers = ObserverSet([FakeObserver("bad", log, "collect_from"), FakeObserver("a", log)])
    assert observers.collect_from(tmp_path) == {"a": tmp_path / "a.parquet"}
    assert "collect_from is broken" in observers.warnings[0]


def test_one_name_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="two observers are named host"):
        ObserverSet([HostObserver(LocalFiles()), HostObserver(LocalFiles())])


def test_a_directory_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    observers = ObserverSet([HostObserver(LocalFiles())])
    observers.start(ObserverContext(blocked))
    observers.stop()
    assert observers.collect() == {}
    assert observers.warnings[0].startswith("host: did not start: ")
