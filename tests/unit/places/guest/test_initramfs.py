"""A guest's initial file system: what cpio reads, the same bytes for the same content, modules in their order."""

import gzip
import hashlib
import lzma
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from leadline.model.errors import FailureClass, TrialFailure
from leadline.places.guest.boot import (
    Node,
    Source,
    cached_archive,
    join_archives,
    libraries,
    modules,
    program,
    write_archive,
)

needs_cpio = pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio is not on the PATH")


def module(*depends: str, before: str = "") -> bytes:
    return f"ELF\0license=GPL\0depends={','.join(depends)}\0name=x\0{before and f'softdep=pre: {before}'}\0".encode()


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, Source]:
    script = tmp_path / "script"
    script.write_bytes(b"#!/bin/sh\n" * 321)
    script.chmod(0o750)
    return {
        "usr/lib/deep/er/data": bytes(range(256)) * 17,
        "bin/script": script,
        "/etc/passwd": b"root:x:0:0::/root:/bin/sh\n",
        "empty": b"",
        "bin/link": Node(link="../usr/lib/deep"),
        "var/own": Node(b"x", mode=0o4711, user=70, group=71),
    }


def unpacked(archive: Path, target: Path) -> Path:
    target.mkdir()
    with archive.open("rb") as file:
        subprocess.run(["cpio", "-idm", "--quiet", "--no-preserve-owner"], stdin=file, cwd=target, check=True)
    return target


@needs_cpio
def test_cpio_lists_every_file_with_its_directories_mode_and_owner(tree: dict[str, Source], tmp_path: Path) -> None:
    write_archive(tree, tmp_path / "a.cpio")
    with (tmp_path / "a.cpio").open("rb") as file:
        done = subprocess.run(["cpio", "-tnv", "--quiet"], stdin=file, capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[8] for row in rows] == sorted(row[8] for row in rows)
    listed = {row[8]: (row[0], row[2], row[3], row[4]) for row in rows}
    assert listed["bin"] == ("drwxr-xr-x", "0", "0", "0")
    assert listed["usr/lib/deep/er"][0] == "drwxr-xr-x"
    assert listed["usr/lib/deep/er/data"] == ("-rw-r--r--", "0", "0", "4352")
    assert listed["bin/script"] == ("-rwxr-xr-x", "0", "0", "3210")
    assert listed["bin/link"][0] == "lrwxrwxrwx"
    assert listed["var/own"] == ("-rws--x--x", "70", "71", "1")
    assert set(listed) >= {"etc/passwd", "empty", "var", "usr", "usr/lib", "usr/lib/deep"}


@needs_cpio
def test_cpio_unpacks_the_content(tree: dict[str, Source], tmp_path: Path) -> None:
    write_archive(tree, tmp_path / "a.cpio")
    root = unpacked(tmp_path / "a.cpio", tmp_path / "root")
    assert (root / "usr/lib/deep/er/data").read_bytes() == tree["usr/lib/deep/er/data"]
    assert (root / "bin/script").read_bytes() == (tmp_path / "script").read_bytes()
    assert (root / "bin/link").readlink() == Path("../usr/lib/deep")
    assert (root / "empty").read_bytes() == b""


def test_the_archive_depends_on_the_content_alone(tree: dict[str, Source], tmp_path: Path) -> None:
    first = write_archive(tree, tmp_path / "a.cpio")
    os.utime(tmp_path / "script", (1, 1))
    (tmp_path / "script").chmod(0o755)
    again = write_archive(dict(reversed(tree.items())), tmp_path / "b.cpio")
    assert first == again == hashlib.sha256((tmp_path / "b.cpio").read_bytes()).hexdigest()
    assert write_archive(tree | {"empty": b"1"}, tmp_path / "c.cpio") != first


def test_parts_are_cached_by_content_and_joined_at_their_borders(tmp_path: Path) -> None:
    one = cached_archive({"a": b"1"}, tmp_path / "cache")
    assert cached_archive({"a": b"1"}, tmp_path / "cache") == one
    two = cached_archive({"b": b"2"}, tmp_path / "cache")
    assert sorted((tmp_path / "cache").iterdir()) == sorted([one, two])
    join_archives([one, two], tmp_path / "both")
    assert (tmp_path / "both").read_bytes() == one.read_bytes() + two.read_bytes()
    assert one.stat().st_size % 512 == 0  # the kernel looks for the next archive at a border of four bytes


@pytest.mark.parametrize("name", ["../up", "a/../../b", "/", ""])
def test_a_path_that_leaves_the_root_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no path of a guest's file system"):
        write_archive({name: b""}, tmp_path / "a.cpio")


def test_modules_come_with_what_they_need_in_loading_order(tmp_path: Path) -> None:
    kernel = tmp_path / "6.1.0-test"
    (kernel / "kernel/drivers").mkdir(parents=True)
    (kernel / "kernel/virtio-ring.ko").write_bytes(module())
    (kernel / "kernel/virtio_pci.ko.xz").write_bytes(lzma.compress(module("virtio-ring", "built_in")))
    (kernel / "kernel/drivers/null_blk.ko").write_bytes(module("configfs"))
    (kernel / "kernel/configfs.ko").write_bytes(module())
    (kernel / "kernel/ext4.ko.gz").write_bytes(gzip.compress(module(before="crc32c absent post: late")))
    (kernel / "kernel/crc32c_generic.ko").write_bytes(module())
    (kernel / "modules.builtin").write_text("kernel/lib/built-in.ko\n")
    tree = modules(kernel, required=["virtio_pci"], optional=["null_blk", "ext4", "absent"])
    order = b"virtio_ring virtio_pci configfs crc32c_generic ext4"
    assert tree["lib/leadline/modules/order"] == b"".join(b"%s.ko\n" % name for name in order.split())
    assert tree["lib/leadline/modules/virtio_pci.ko"] == module("virtio-ring", "built_in")
    assert tree["lib/leadline/modules/null_blk.ko"] == module("configfs")  # there, and left to jobs to load
    with pytest.raises(TrialFailure, match=r"kernel 6\.1\.0-test has no module absent, which a guest needs") as raised:
        modules(kernel, required=["absent"], optional=[])
    assert raised.value.failure_class is FailureClass.CONFIGURATION


def test_shared_libraries_of_a_program_are_named_where_it_looks_for_them() -> None:
    files = libraries([Path("/bin/ls")])
    assert any(name.split("/")[-1].startswith("libc.so") for name in files)
    for name, node in files.items():
        assert isinstance(node, Node)
        assert isinstance(node.content, Path)
        assert not name.startswith("/")
        assert node.content.read_bytes()[:4] == b"\x7fELF"


def test_the_pausing_program_is_an_executable_that_tells_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "pause"
    path.write_bytes(program())
    path.chmod(0o755)
    assert subprocess.run([path, tmp_path / "absent"], check=False).returncode == 2  # ENOENT
