"""RAM disks without a device: what is refused, the order of steps, what is undone after each, how one is known."""

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from leadline.host import ramdisk, undo
from leadline.host.journal import UndoJournal
from leadline.host.local import LocalHost
from leadline.host.procfs import place_of
from leadline.host.undo import CannotUndo, CommandFailed, Entry
from leadline.model.errors import FailureClass, TrialFailure

SIZE = 1 << 20


class FakeMachine:
    """Mount table and loop devices in files below ``root``; ``run`` does to them what the real commands would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.argv: list[Sequence[str]] = []
        self.busy = 0  # so many times umount refuses
        self.fails = ""  # this command does
        self.full = False  # the memory is: its file cannot grow
        (root / "proc/self").mkdir(parents=True)
        (root / "sys/block/loop0").mkdir(parents=True)
        (root / "proc/meminfo").write_text("MemAvailable:   8192 kB\n")
        self.table = root / "proc/self/mountinfo"
        self.table.write_text("21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n")

    def run(self, *argv: str) -> str:
        self.argv.append(argv)
        name, last = argv[0], argv[-1]
        if name == self.fails or (self.fails and self.fails in " ".join(argv)):
            raise CommandFailed(f"{name}: no")
        if name == "mount":
            kind, source = argv[2], argv[-2]
            with self.table.open("a") as file:
                file.write(f"22 21 0:1 / {last} rw - {kind} {source} rw\n")
            if self.full:
                (Path(last) / "disk").symlink_to("/dev/full")
        elif name == "umount":
            if self.busy:
                self.busy -= 1
                raise CommandFailed("umount: target is busy")
            kept = [line for line in self.table.read_text().splitlines() if line.split()[4] != last]
            self.table.write_text("".join(f"{line}\n" for line in kept))
            if last.endswith("memory"):  # the file goes with its file system
                (Path(last) / "disk").unlink(missing_ok=True)
        elif argv[:2] == ("losetup", "--find"):
            (self.root / "sys/block/loop0/loop").mkdir()
            (self.root / "sys/block/loop0/loop/backing_file").write_text(f"{last}\n")
            return "/dev/loop0"
        elif argv[:2] == ("losetup", "-d"):
            (self.root / "sys/block/loop0/loop/backing_file").unlink()
            (self.root / "sys/block/loop0/loop").rmdir()
        return ""

    def clean(self, base: Path) -> bool:
        return (
            str(base) not in self.table.read_text()
            and not (self.root / "sys/block/loop0/loop").exists()
            and not base.exists()
        )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: f"/sbin/{name}")
    monkeypatch.setattr(ramdisk, "brd", lambda _: None)
    monkeypatch.setattr(undo, "_PATIENCE", 0.2)
    return FakeMachine(tmp_path / "root")


def journal(machine: FakeMachine) -> UndoJournal:
    return UndoJournal(machine.root / "state/undo/local.jsonl", machine.root)


def test_a_loop_device_over_a_tmpfs_is_made_and_undone(machine: FakeMachine, tmp_path: Path) -> None:
    base, kept = tmp_path / "leadline-x", journal(machine)
    told = ramdisk.make(kept, base, SIZE, machine.run)
    assert told == "/dev/loop0 (loop device over a file on a tmpfs), ext4, 1 MiB"
    assert (base / "memory/disk").stat().st_size == SIZE
    assert base.stat().st_mode & 0o077 == 0
    assert [argv[0] for argv in machine.argv] == ["mount", "losetup", "mkfs.ext4", "mount"]
    (entry,) = kept.open_entries()
    machine.busy = 1  # an ended process is let go of a moment late
    assert undo.undo_mounted([entry], machine.root, machine.run) == f"RAM disk {base}: removed"
    assert machine.clean(base)
    assert undo.undo_mounted([entry], machine.root, machine.run) == f"RAM disk {base}: already removed"


@pytest.mark.parametrize("step", ["losetup", "mkfs.ext4", "mount -t ext4"])
def test_whatever_was_reached_is_undone(machine: FakeMachine, tmp_path: Path, step: str) -> None:
    base, kept = tmp_path / "leadline-x", journal(machine)
    machine.fails = step
    with pytest.raises(CommandFailed):
        ramdisk.make(kept, base, SIZE, machine.run)
    machine.fails = ""
    undo.undo_mounted(kept.open_entries(), machine.root, machine.run)
    assert machine.clean(base)


@pytest.fixture
def host(machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalHost:
    monkeypatch.setattr(ramdisk, "make", partial(ramdisk.make, run=machine.run))
    monkeypatch.setattr(undo, "undo_mounted", partial(undo.undo_mounted, run=machine.run))
    return LocalHost(state=tmp_path / "state", root=machine.root)


@pytest.mark.parametrize("kind", [OSError, TrialFailure])
def test_what_was_begun_is_undone_at_once(
    machine: FakeMachine, host: LocalHost, tmp_path: Path, kind: type[Exception]
) -> None:
    base = tmp_path / "leadline-x"
    machine.full, machine.fails = kind is OSError, "losetup --find"
    with pytest.raises(kind):
        host.ram_disk(base, SIZE)
    assert "mount" in [argv[0] for argv in machine.argv]
    assert host.journal.open_entries() == []
    assert machine.clean(base)


def test_a_disk_in_use_is_not_undone_by_another(machine: FakeMachine, host: LocalHost, tmp_path: Path) -> None:
    host.ram_disk(tmp_path / "leadline-x", SIZE)
    with pytest.raises(FileExistsError):
        host.ram_disk(tmp_path / "leadline-x", SIZE)
    assert not machine.clean(tmp_path / "leadline-x")
    assert host.temporary() == {f"mount {tmp_path}/leadline-x/store": ("gone", "there")}
    host.remove_ram_disk(tmp_path / "leadline-x")
    assert machine.clean(tmp_path / "leadline-x")
    assert host.journal.open_entries() == []


def test_what_was_there_for_a_time_is_told_once(machine: FakeMachine, host: LocalHost, tmp_path: Path) -> None:
    host.ram_disk(tmp_path / "leadline-x", SIZE)
    host.remove_ram_disk(tmp_path / "leadline-x")
    host.private_tree(tmp_path / "leadline-y")
    told = {
        f"mount {tmp_path}/leadline-x/store": ("gone", "gone"),
        f"directory {tmp_path}/leadline-y": ("gone", "there"),
    }
    assert host.temporary() == told
    assert host.temporary() == {}


def test_the_journal_knows_it_before_anything_is_done(machine: FakeMachine, tmp_path: Path) -> None:
    kept = journal(machine)
    kept.path.parent.parent.mkdir(parents=True)
    kept.path.parent.write_text("in the way")
    with pytest.raises(TrialFailure, match="nothing was changed"):
        ramdisk.make(kept, tmp_path / "leadline-x", SIZE, machine.run)
    assert machine.argv == []
    assert not (tmp_path / "leadline-x").exists()


def test_an_old_kernels_tmpfs_may_be_swapped(machine: FakeMachine, tmp_path: Path) -> None:
    machine.fails = "noswap"
    ramdisk.make(journal(machine), tmp_path / "leadline-x", SIZE, machine.run)
    assert [argv[4] for argv in machine.argv[:2]] == [
        f"size={SIZE + (1 << 20)},mode=700,noswap",
        f"size={SIZE + (1 << 20)},mode=700",
    ]


def test_the_kernels_own_device_is_preferred_and_left_blank(
    machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, base, kept = tmp_path / "ram0", tmp_path / "leadline-x", journal(machine)
    device.write_bytes(bytes(SIZE))
    monkeypatch.setattr(ramdisk, "brd", lambda _: str(device))
    assert ramdisk.make(kept, base, SIZE, machine.run) == f"{device} (brd), ext4, 1 MiB"
    assert [argv[0] for argv in machine.argv] == ["mkfs.ext4", "mount"]
    device.write_bytes(b"a file system" + bytes(SIZE))
    undo.undo_mounted(kept.open_entries(), machine.root, machine.run)
    assert machine.clean(base)
    assert not device.read_bytes().strip(b"\0")


def test_a_device_with_somebodys_data_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ramdisk, "device_size", lambda handle: os.fstat(handle).st_size)
    (tmp_path / "ram0").write_bytes(b"data" + bytes(2 * SIZE))
    (tmp_path / "ram1").write_bytes(bytes(SIZE // 2))
    assert ramdisk.brd(SIZE, tmp_path) is None
    (tmp_path / "ram2").write_bytes(bytes(SIZE))
    assert ramdisk.brd(SIZE, tmp_path) == str(tmp_path / "ram2")


@pytest.mark.parametrize(
    ("user", "found", "size", "words"),
    [
        (1000, True, SIZE, "only root may make a RAM disk; run leadline as root, or take tmpfs"),
        (0, False, SIZE, r"not installed: mkfs\.ext4, .*; install the package e2fsprogs, util-linux, or take tmpfs"),
        (0, True, 5 << 20, "a RAM disk of 5 MiB is more than half of the memory available, 4 MiB"),
    ],
)
def test_where_none_can_be_made_the_treatment_fails(
    machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, found: bool, size: int, words: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr("shutil.which", lambda name: name if found else None)
    host = LocalHost(state=tmp_path / "state", root=machine.root)
    with pytest.raises(TrialFailure, match=words) as caught:
        host.ram_disk(tmp_path / "leadline-x", size)
    assert caught.value.failure_class is FailureClass.CONFIGURATION
    assert host.journal.open_entries() == []


def test_what_is_busy_or_not_leadlines_is_told(machine: FakeMachine, tmp_path: Path) -> None:
    with pytest.raises(CannotUndo, match="is not a RAM disk of leadline"):
        undo.undo_mounted([Entry("a", "ramdisk", str(tmp_path / "mine"))], machine.root, machine.run)
    base, kept = tmp_path / "leadline-x", journal(machine)
    ramdisk.make(kept, base, SIZE, machine.run)
    machine.busy = 1000
    with pytest.raises(CannotUndo, match="target is busy"):
        undo.undo_mounted(kept.open_entries(), machine.root, machine.run)
    machine.busy = 0
    (machine.root / "x").mkdir()
    undo.undo_mounted(kept.open_entries(), machine.root, machine.run)
    assert machine.clean(base)


MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:20 / /dev/shm rw shared:2 - tmpfs tmpfs rw
23 21 1:0 / /brd rw - ext4 /dev/ram0 rw
24 21 252:0 / /zram rw - ext4 /dev/zram0 rw
25 21 7:0 / /loop rw - ext4 /dev/loop0 rw
26 21 7:1 / /image rw - ext4 /dev/loop1 rw
27 21 7:2 / /gone rw - ext4 /dev/loop2 rw
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [("/brd/x", "ramdisk"), ("/zram", "ramdisk"), ("/loop/x/y", "ramdisk"), ("/image", "disk"), ("/gone", "disk")],
)
def test_a_ram_disk_is_known_by_its_device(tmp_path: Path, path: str, place: str) -> None:
    table, blocks = tmp_path / "proc/self/mountinfo", tmp_path / "sys/block"
    table.parent.mkdir(parents=True)
    table.write_text(MOUNTS)
    for name, file in (("loop0", "/dev/shm/leadline-x/disk"), ("loop1", "/var/image")):
        (blocks / name / "loop").mkdir(parents=True)
        (blocks / name / "loop/backing_file").write_text(f"{file}\n")
    assert place_of(Path(path), tmp_path) == place


def test_an_entry_of_an_earlier_boot_is_undone(tmp_path: Path) -> None:
    kept = UndoJournal(tmp_path / "undo/local.jsonl")
    kept.record("tree", str(tmp_path / "unused"))
    record = {"id": "a", "kind": "ramdisk", "target": "/dev/shm/leadline-x", "boot": "an earlier one"}
    kept.path.write_text(json.dumps(record) + "\n")
    assert kept.restore() == ["ramdisk /dev/shm/leadline-x: undone by the reboot since"]


def test_a_file_system_of_its_own_is_made_and_undone(machine: FakeMachine, tmp_path: Path) -> None:
    (machine.root / "proc/filesystems").write_text("nodev\ttmpfs\n\text4\n")
    base, kept = tmp_path / "leadline-ext4", journal(machine)
    told = ramdisk.make_image(kept, base, SIZE, "ext4", "noatime", machine.run)
    assert told == "/dev/loop0 (loop device over a file), ext4, 1 MiB, noatime"
    assert machine.argv[-1] == ("mount", "-t", "ext4", "-o", "noatime", "/dev/loop0", str(base / "store"))
    assert (base / "memory/disk").stat().st_blocks * 512 >= SIZE
    (entry,) = kept.open_entries()
    assert undo.undo_mounted([entry], machine.root, machine.run) == f"file system {base}: removed"
    assert machine.clean(base)


@pytest.mark.parametrize("step", ["losetup", "mkfs.ext4", "mount"])
def test_whatever_of_a_file_system_was_reached_is_undone(machine: FakeMachine, tmp_path: Path, step: str) -> None:
    (machine.root / "proc/filesystems").write_text("\text4\n")
    base, kept, machine.fails = tmp_path / "leadline-ext4", journal(machine), step
    with pytest.raises(CommandFailed):
        ramdisk.make_image(kept, base, SIZE, "ext4", "", machine.run)
    machine.fails = ""
    undo.undo_mounted(kept.open_entries(), machine.root, machine.run)
    assert machine.clean(base)


def test_a_reboot_leaves_the_file_of_a_file_system_which_is_undone(machine: FakeMachine, tmp_path: Path) -> None:
    base = tmp_path / "leadline-ext4"
    for name in ("store", "memory"):
        (base / name).mkdir(parents=True)
    (base / "memory/disk").write_bytes(bytes(SIZE))
    entry = Entry("a", undo.IMAGE, str(base), boot="an earlier one")
    kept = journal(machine)
    kept.path.parent.mkdir(parents=True)
    kept.path.write_text(json.dumps(entry.__dict__) + "\n")
    assert kept.restore() == [f"file system {base}: removed"]
    assert machine.clean(base)


@pytest.mark.parametrize(("kind", "words"), [("xfs", "this kernel has no xfs"), ("btrfs", "package btrfs-progs")])
def test_a_file_system_that_cannot_be_had(
    kind: str, words: str, machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine.root / "proc/filesystems").write_text("\text4\n\tbtrfs\n")
    monkeypatch.setattr("shutil.which", lambda name: None if name.startswith("mkfs") else f"/sbin/{name}")
    with pytest.raises(ramdisk.CannotMake, match=words):
        ramdisk.make_image(journal(machine), tmp_path / "leadline-x", SIZE, kind, "", machine.run)


def test_an_overlay_is_made_over_a_copy_and_undone(machine: FakeMachine, tmp_path: Path) -> None:
    (machine.root / "proc/filesystems").write_text("nodev\toverlay\n")
    (tmp_path / "data").mkdir(mode=0o750)
    (tmp_path / "data/kept").write_text("x")
    base, kept = tmp_path / "leadline-data-overlay", journal(machine)
    told = ramdisk.make_overlay(kept, base, tmp_path / "data", "volatile", machine.run)
    assert told == "overlay, its layers on the lab's disk, metacopy=on,volatile"
    layers = [f"{name}dir={base}/memory/{name}" for name in ("lower", "upper", "work")]
    options = ",".join([*layers, "metacopy=on", "volatile"])
    assert machine.argv == [("mount", "-t", "overlay", "-o", options, "overlay", str(base / "store"))]
    assert (base / "memory/lower/kept").read_text() == "x"
    assert (base / "memory/upper").stat().st_mode & 0o777 == 0o750
    assert undo.undo_mounted(kept.open_entries(), machine.root, machine.run) == f"overlay {base}: removed"
    assert machine.clean(base)
    assert (tmp_path / "data/kept").read_text() == "x"


def test_a_reboot_leaves_the_layers_of_an_overlay_which_are_undone(machine: FakeMachine, tmp_path: Path) -> None:
    (machine.root / "proc/filesystems").write_text("nodev\toverlay\n")
    base, kept = tmp_path / "leadline-x", journal(machine)
    ramdisk.make_overlay(kept, base, None, "", machine.run)
    machine.run("umount", str(base / "store"))
    record = json.loads(kept.path.read_text().splitlines()[0])
    kept.path.write_text(json.dumps({**record, "boot": "an earlier one"}) + "\n")
    assert kept.restore() == [f"overlay {base}: removed"]
    assert machine.clean(base)


@pytest.mark.parametrize(
    ("filesystems", "root", "name", "words"),
    [
        ("\text4\n", "ext4", "leadline-x", "this kernel has no overlay"),
        ("nodev\toverlay\n", "overlay", "leadline-x", "the lab lies on an overlay"),
        ("nodev\toverlay\n", "ext4", "leadline-a:b", "a path that holds ':' cannot be named to an overlay"),
    ],
)
def test_an_overlay_that_cannot_be_had(
    machine: FakeMachine, tmp_path: Path, filesystems: str, root: str, name: str, words: str
) -> None:
    (machine.root / "proc/filesystems").write_text(filesystems)
    machine.table.write_text(f"21 1 8:1 / / rw,relatime - {root} {root} rw\n")
    with pytest.raises(ramdisk.CannotMake, match=words):
        ramdisk.make_overlay(journal(machine), tmp_path / name, None, "", machine.run)
    assert machine.argv == []


def test_without_a_device_of_the_kernels_own_there_is_no_brd(machine: FakeMachine, tmp_path: Path) -> None:
    words = r"no RAM disk \(/dev/ram\*\) of 1 MiB .*modprobe brd rd_nr=1 rd_size=1024\), or take ramdisk or tmpfs"
    with pytest.raises(ramdisk.CannotMake, match=words):
        ramdisk.make(journal(machine), tmp_path / "leadline-x", SIZE, machine.run, kernels_own=True)
    assert machine.argv == []
    assert "or take ramdisk or tmpfs" in ramdisk.lacks("brd", machine.root)
