"""Copies of data directories are exact, and never half there."""

import errno
from pathlib import Path

import pytest

from leadline.model.errors import FailureClass, TrialFailure
from leadline.stack import databases


def tree(root: Path, content: bytes) -> Path:
    (root / "base" / "1").mkdir(parents=True)
    (root / "base" / "1" / "1259").write_bytes(content)
    (root / "empty").mkdir(mode=0o700)
    (root / "zero").touch(mode=0o600)
    (root / "link").symlink_to("zero")
    return root


def listing(root: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        inside = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        # the time of a directory changes when files are made in it, and does not matter
        found[str(path.relative_to(root))] = (status.st_mode, inside, status.st_mtime_ns if path.is_file() else 0)
    return found


def fail_after_a_file(source: Path, target: Path) -> None:
    target.mkdir()
    (target / "half").touch()
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_is_put_back_is_exact(tmp_path: Path) -> None:
    data = tree(tmp_path / "data", bytes(range(256)) * 5000)
    before = listing(data)
    databases.save(data, tmp_path / "cache" / "one")
    (data / "base" / "1" / "1259").write_bytes(b"changed")
    (data / "new").write_text("not in the snapshot")
    (data / "zero").unlink()
    databases.put_back(tmp_path / "cache" / "one", data)
    assert listing(data) == before
    assert not databases.interrupted(data)


def test_a_snapshot_that_fails_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tree(tmp_path / "data", b"first")
    kept = tmp_path / "cache" / "one"
    databases.save(data, kept)
    before = listing(kept)
    monkeypatch.setattr(databases, "_copy_tree", fail_after_a_file)
    with pytest.raises(TrialFailure, match="disk is full") as caught:
        databases.save(data, kept)
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE
    assert listing(kept) == before
    assert [path.name for path in kept.parent.iterdir()] == ["one"]


def test_a_snapshot_can_be_replaced(tmp_path: Path) -> None:
    kept = tmp_path / "cache" / "one"
    databases.save(tree(tmp_path / "a", b"first"), kept)
    second = tree(tmp_path / "b", b"second")
    databases.save(second, kept)
    assert listing(kept) == listing(second)


def test_an_interrupted_restore_is_known_until_it_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tree(tmp_path / "data", b"first")
    kept = tmp_path / "cache" / "one"
    databases.save(data, kept)
    with monkeypatch.context() as patch:
        patch.setattr(databases, "_copy_tree", fail_after_a_file)
        with pytest.raises(TrialFailure):
            databases.put_back(kept, data)
    assert databases.interrupted(data)
    databases.put_back(kept, data)
    assert not databases.interrupted(data)
    assert listing(data) == listing(kept)
