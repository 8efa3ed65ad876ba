"""Places without a mount: what is warned of, what is refused in a plan, how one is known, where data are not whole."""

from pathlib import Path

import pytest

from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.checks.subject import study_catalogue
from leadline.host.local import LocalHost
from leadline.model.errors import UsageError
from leadline.model.places import mount_mistakes, warnings
from leadline.stack import places

STUDY = """\
study: places
question: Does it matter where the log lies?
stack: {{ server: tomcat }}
factors: {{ database.log_place: [disk, {level}] }}
settings: {{ {settings} }}
workload: {{ users: 2, ramp_up: 1s, steady: 6s, ramp_down: 0s }}
design: {{ replicates: 2 }}
"""


def host(directory: Path) -> LocalHost:
    """Without overlay and brd; its mount table has two places of leadline's."""
    root = directory / "root"
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/meminfo").write_text("MemTotal: 16000000 kB\n")
    (root / "proc/filesystems").write_text("\text4\n")
    (root / "proc/self/mountinfo").write_text(
        "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n22 21 0:1 / /dev/shm rw - tmpfs tmpfs rw\n"
        "23 21 1:0 / /lab/leadline-postgres-data-brd/store rw - ext4 /dev/ram0 rw\n"
        "24 21 1:0 / /dev/shm/leadline-0-disk/store rw - ext4 /dev/ram1 rw\n"
        "25 21 7:0 / /lab/leadline-postgres-log-xfs/store rw,noatime - xfs /dev/loop0 rw,attr2\n"
        "26 21 0:2 / /lab/leadline-postgres-data-overlay/store rw - overlay overlay rw,metacopy=on\n"
        "27 21 7:1 / /home rw - xfs /dev/sdb1 rw\n"
    )
    return LocalHost(state=directory / "state", root=root)


@pytest.mark.parametrize(
    ("path", "level"),
    [
        ("/lab/leadline-postgres-data-brd/store/x", "brd"),
        ("/dev/shm/leadline-0-disk/store/x", "ramdisk"),
        ("/lab/leadline-postgres-log-xfs/store/x", "xfs"),
        ("/lab/leadline-postgres-data-overlay/store", "overlay"),
        ("/dev/shm/leadline-1/files", "tmpfs"),
        ("/home/x", "disk"),
        ("/lab/data", "disk"),
    ],
)
def test_a_place_is_known_by_its_mount(tmp_path: Path, path: str, level: str) -> None:
    assert places.level_at(host(tmp_path), Path(path)) == level


def test_options_are_read_where_a_file_system_of_its_own_is(tmp_path: Path) -> None:
    paths = {"log": Path("/lab/leadline-postgres-log-xfs/store/x"), "data": Path("/home/x")}
    assert places.options_at(host(tmp_path), paths, "noatime") == "noatime"
    assert places.options_at(host(tmp_path), paths, "defaults") == "defaults"
    assert places.options_at(host(tmp_path), paths, "sync") == "attr2,noatime,rw"


def test_what_is_lost_and_what_can_be_swapped_is_said() -> None:
    levels = {"database.log_place": ("disk", "tmpfs"), "server.temporary_place": ("ramdisk", "ext4")}
    assert warnings(levels) == [
        "database.log_place = tmpfs: all that was committed since the start is lost at power-off;"
        " it takes memory from everything else and can be swapped out.",
        "server.temporary_place = ramdisk: what lies there is lost at power-off; it takes memory from everything else.",
    ]


def test_options_need_a_file_system_of_their_own() -> None:
    options: dict[str, tuple[str, ...]] = {"database.mount_options": ("noatime",)}
    assert mount_mistakes({**options, "database.data_place": ("disk", "ext4")}) == []
    ((knob, why),) = mount_mistakes({**options, "database.data_place": ("tmpfs",), "server.temporary_place": ("ext4",)})
    assert knob == "database.mount_options"
    assert why.endswith(
        "one of database.data_place, database.log_place, database.temporary_place must be of ext4, xfs, btrfs, overlay"
    )


def planned(tmp_path: Path, level: str, settings: str = "") -> list[str]:
    file = parse_study(STUDY.format(level=level, settings=settings), "places.yaml")
    return list(plan_study(file, host(tmp_path), study_catalogue(file)).warnings)


def test_the_plan_warns(tmp_path: Path) -> None:
    assert planned(tmp_path, "tmpfs") == warnings({"database.log_place": ("tmpfs",)})


@pytest.mark.parametrize(
    ("level", "settings", "words"),
    [
        ("overlay", "", r"places\.yaml:4: overlay: this kernel has no overlay"),
        ("brd", "", r"places\.yaml:4: brd: this kernel has no RAM disk .*or take ramdisk or tmpfs"),
        ("overlai", "", "did you mean overlay"),
        ("tmpfs", "database.mount_options: noatime", r"places\.yaml:5: database\.mount_options is of file systems"),
    ],
)
def test_what_cannot_be_made_is_refused_in_the_plan(
    tmp_path: Path, level: str, settings: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: f"/sbin/{name}")
    with pytest.raises(UsageError, match=words):
        planned(tmp_path, level, settings)
