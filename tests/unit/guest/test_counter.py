"""The plugin that counts: its options, and what this machine says of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.guest import counter
from leadline.guest.counter import Counter


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    counter.library.cache_clear()
    yield
    counter.library.cache_clear()


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(counter, "_PLACES", (tmp_path / "none", tmp_path))
    path = tmp_path / counter.LIBRARY
    path.touch()
    return path


def qemu(monkeypatch: pytest.MonkeyPatch, directory: Path, script: str) -> None:
    program = directory / "qemu"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(counter, "QEMU", str(program))


def test_options_name_file_and_marks() -> None:
    found = Counter(Path("/a,b/plugin.so"), [0xFFFFFFFF81000000, 16]).options()
    assert found == ["-plugin", "file=/a,,b/plugin.so,out=blocks,mark=ffffffff81000000,mark=10"]
    assert Counter(Path("/plugin.so")).options("/dev/null") == ["-plugin", "file=/plugin.so,out=/dev/null"]


def test_a_plugin_that_qemu_takes_is_used(plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    qemu(monkeypatch, tmp_path, f'echo "$*" >{tmp_path}/told; cat >>{tmp_path}/told')
    assert counter.library() == plugin
    told = (tmp_path / "told").read_text()
    assert f"-plugin file={plugin},out=/dev/null\n" in told
    assert '{"execute":"quit"}' in told


def test_why_nothing_is_counted_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "_PLACES", (tmp_path,))
    assert counter.library() == "libleadline_instructions.so is not built (make install)"


def test_qemus_own_words_tell_why_it_takes_none(plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    qemu(monkeypatch, tmp_path, "echo 'qemu: -plugin: invalid option' >&2; exit 1")
    assert counter.library() == f"{tmp_path}/qemu takes no such plugin: qemu: -plugin: invalid option"
    counter.library.cache_clear()
    monkeypatch.setattr(counter, "QEMU", str(tmp_path / "none"))
    assert str(counter.library()).startswith(f"{tmp_path}/none cannot be asked for its plugins: ")
