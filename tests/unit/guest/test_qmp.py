"""The QMP client against an imitation that writes what QEMU would, late and in pieces."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.guest.qmp import Monitor, MonitorError


class FakeQemu:
    """A process that answers each command by ``answers``, in order."""

    name, pid = "fake", 1

    def __init__(self, output: Path, *answers: str) -> None:
        self.output, self.answers, self.commands, self.code = output, list(answers), list[dict[str, object]](), None
        output.write_text('{"QMP": {"version": {}}}\n')

    def say(self, text: str) -> None:
        with self.output.open("a") as file:
            file.write(text)

    def write(self, data: bytes) -> None:
        self.commands.append(json.loads(data))
        self.say(self.answers.pop(0))

    def alive(self) -> bool:
        return self.code is None

    def exit_code(self) -> int | None:
        return self.code

    def close_input(self) -> None: ...
    def signal(self, number: int) -> None: ...
    def stop(self, grace: float = 10.0) -> bool:
        return True

    def cpu_seconds(self) -> tuple[float, float]:
        return 0.0, 0.0

    def pids(self) -> list[int]:
        return []


def soon() -> float:
    return time.monotonic() + 60


def monitor_of(tmp_path: Path, *answers: str) -> tuple[FakeQemu, Monitor]:
    fake = FakeQemu(tmp_path / "out", *answers)
    return fake, Monitor(fake, tmp_path / "out")


def test_a_command_returns_and_events_before_it_are_kept(tmp_path: Path) -> None:
    fake, monitor = monitor_of(tmp_path, '{"event": "STOP"}\n{"event": "SHUTDOWN"}\n{"return": {"status": "paused"}}\n')
    assert monitor.command("query-status", soon(), deep=True) == {"status": "paused"}
    assert fake.commands == [{"execute": "query-status", "arguments": {"deep": True}}]
    assert monitor.event({"SHUTDOWN"}, soon()) == {"event": "SHUTDOWN"}


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    fake, monitor = monitor_of(tmp_path, '{"event": "GUEST_P')
    rest: list[Callable[[], None]] = [lambda: fake.say('ANICKED"}\n')]
    fake.write(b"{}")
    event = monitor.event({"GUEST_PANICKED"}, soon(), lambda: rest.pop()() if rest else None)
    assert event == {"event": "GUEST_PANICKED"}


def test_a_refusal_is_said_in_qemus_words(tmp_path: Path) -> None:
    _, monitor = monitor_of(tmp_path, '{"error": {"class": "GenericError", "desc": "No space left on device"}}\n')
    with pytest.raises(MonitorError, match="QEMU refuses migrate: No space left on device"):
        monitor.command("migrate", soon())


def test_the_end_of_qemu_is_told_with_its_last_words(tmp_path: Path) -> None:
    fake, monitor = monitor_of(tmp_path)
    fake.say("qemu-system-x86_64: no such kernel\n")
    fake.code = 1
    with pytest.raises(MonitorError, match="ended with exit code 1"):
        monitor.event({"SHUTDOWN"}, soon())
    assert monitor.said == "qemu-system-x86_64: no such kernel"


def test_the_time_limit_holds(tmp_path: Path) -> None:
    _, monitor = monitor_of(tmp_path)
    with pytest.raises(TimeoutError):
        monitor.event({"SHUTDOWN"}, time.monotonic())
