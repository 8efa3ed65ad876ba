"""Host parameters: the catalogue, and setting them under a directory that stands for /."""

from pathlib import Path

import pytest

from leadline.host.knobs import FAMILIES
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import ApplyCost, Level, Risk

STUDY_A = [
    "vm.dirty_background_ratio",
    "vm.dirty_expire_centisecs",
    "vm.dirty_ratio",
    "vm.dirty_writeback_centisecs",
    "vm.page-cluster",
    "vm.swappiness",
    "vm.lowmem_reserve_ratio",
    "vm.min_free_kbytes",
    "vm.vfs_cache_pressure",
    "vm.overcommit_memory",
]


def put(root: Path, path: str, text: str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")
    return file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    put(root, "proc/meminfo", "MemTotal:  1048576 kB\nHugepagesize:  2048 kB")
    put(root, "proc/sys/kernel/osrelease", "6.1.0-13-amd64")
    put(root, "proc/sys/vm/swappiness", "60")
    put(root, "proc/sys/vm/min_free_kbytes", "45056")
    put(root, "proc/sys/vm/lowmem_reserve_ratio", "256\t256\t32\t0\t0")
    put(root, "proc/sys/vm/overcommit_memory", "0")
    put(root, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    put(root, "sys/kernel/mm/lru_gen/enabled", "0x0007")
    return root


@pytest.fixture
def host(tmp_path: Path, root: Path) -> LocalHost:
    return LocalHost(state=tmp_path / "state", root=root)


def test_every_setting_of_the_memory_study_is_in_the_catalogue(host: LocalHost) -> None:
    names = {knob.name for knob in host.knobs()}
    assert names.issuperset(STUDY_A)
    assert names.issuperset({"mm.transparent_hugepage.enabled", "mm.transparent_hugepage.defrag", "mm.lru_gen.enabled"})
    assert len(FAMILIES) >= 4


def test_every_knob_is_described_and_lies_where_undo_may_write(host: LocalHost, root: Path) -> None:
    for knob in host.knobs():
        assert knob.summary, knob.name
        assert knob.source, knob.name
        assert knob.apply_cost is ApplyCost.LIVE
        assert host.knob_path(knob.name).is_relative_to(root)
        if knob.default is not None:
            bounded = knob.minimum is not None and isinstance(knob.default, int) and knob.default < knob.minimum
            if not bounded:  # zero of the byte settings means that the ratio counts; it cannot be written
                assert knob.parse(knob.default) == knob.default, knob.name
            assert bounded or not knob.danger(knob.default), knob.name


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("vm.swappiness", 60),
        ("vm.lowmem_reserve_ratio", "256 256 32 0 0"),
        ("mm.transparent_hugepage.enabled", "madvise"),
        ("mm.lru_gen.enabled", 7),
    ],
)
def test_todays_levels_are_read(host: LocalHost, name: str, level: Level) -> None:
    assert host.read_back(name) == level


@pytest.mark.parametrize(
    ("name", "level", "text"),
    [
        ("vm.swappiness", 10, "10"),
        ("vm.lowmem_reserve_ratio", "128,128 32 0 0", "128 128 32 0 0"),
        ("mm.transparent_hugepage.enabled", "never", "never"),
    ],
)
def test_set_and_restore(host: LocalHost, name: str, level: Level, text: str) -> None:
    before = host.read_back(name)
    host.set_knob(name, level)
    assert host.knob_path(name).read_text() == text
    host.restore()
    assert host.read_back(name) == before


def test_a_parameter_this_kernel_lacks(host: LocalHost) -> None:
    with pytest.raises(LookupError, match=r"no vm\.zone_reclaim_mode"):
        host.read_back("vm.zone_reclaim_mode")
    assert "no vm.zone_reclaim_mode" in host.writable("vm.zone_reclaim_mode")
    with pytest.raises(TrialFailure) as caught:
        host.set_knob("vm.zone_reclaim_mode", 1)
    assert caught.value.failure_class is FailureClass.CONFIGURATION


@pytest.mark.parametrize(
    ("name", "level", "words"),
    [
        ("vm.swapiness", 10, "did you mean vm.swappiness"),
        ("vm.swappiness", 201, "above the largest legal value 200"),
        ("vm.swappiness", "many", "not a number"),
        ("vm.lowmem_reserve_ratio", "256 256", "has 2 numbers; it takes 5 numbers here"),
        ("vm.lowmem_reserve_ratio", "a b", "whole numbers"),
        ("mm.transparent_hugepage.enabled", "alway", "did you mean always"),
    ],
)
def test_bad_levels_are_refused_before_anything_is_written(
    host: LocalHost, name: str, level: Level, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        host.set_knob(name, level)
    assert not host.journal.path.exists()


@pytest.mark.parametrize(
    ("name", "level"), [("vm.min_free_kbytes", 262144), ("vm.min_free_kbytes", 512), ("vm.overcommit_memory", 2)]
)
def test_dangerous_levels_need_a_disposable_host(host: LocalHost, tmp_path: Path, name: str, level: int) -> None:
    before = host.read_back(name)
    with pytest.raises(
        UsageError, match=r"can hang, starve or lock out a host: .*nearest safe level is \d+.*disposable"
    ):
        host.set_knob(name, level)
    assert host.read_back(name) == before
    disposable = LocalHost(disposable=True, state=tmp_path / "state", root=host.root)
    disposable.set_knob(name, level)
    assert disposable.read_back(name) == level


def test_a_value_that_does_not_stick_is_a_configuration_failure(
    host: LocalHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leadline.host.knobs.files import FileKnobs

    def rounds(self: FileKnobs, knob: object, level: object) -> None:
        self.path(knob).write_text("40\n")  # type: ignore[arg-type]

    monkeypatch.setattr(FileKnobs, "write", rounds)
    with pytest.raises(TrialFailure, match="set to 41 but reads back 40") as caught:
        host.set_knob("vm.swappiness", 41)
    assert caught.value.failure_class is FailureClass.CONFIGURATION
    (line,) = host.restore()
    assert "something else" not in line, "the kernel's own rounding is not a foreign change"
    assert host.read_back("vm.swappiness") == 60


def test_limits_follow_the_host(tmp_path: Path, root: Path) -> None:
    put(root, "proc/sys/kernel/osrelease", "5.4.0")
    knobs = {knob.name: knob for knob in LocalHost(state=tmp_path, root=root).knobs()}
    assert knobs["vm.swappiness"].maximum == 100
    most = knobs["vm.min_free_kbytes"].dangerous_above
    assert most is not None
    assert most.level == 104857
    assert knobs["vm.min_free_kbytes"].risk_of(104858) is Risk.DANGEROUS
    assert knobs["vm.min_free_kbytes"].risk_of(104857) is Risk.SAFE
    assert knobs["vm.nr_hugepages"].maximum == 512


def test_facts_tell_what_a_study_needs(host: LocalHost, tmp_path: Path) -> None:
    put(host.root, "proc/cmdline", "root=/dev/secret mitigations=off transparent_hugepage=never token=abc")
    host = LocalHost(state=tmp_path / "state", root=host.root, directories={"lab": tmp_path})
    facts = host.facts()
    assert facts["kernel.release"] == "6.1.0-13-amd64"
    assert facts["kernel.boot_options"] == "mitigations=off transparent_hugepage=never"
    assert facts["vm.lowmem_reserve_ratio"] == "256 256 32 0 0"
    assert facts["thp.enabled"] == "madvise"
    assert facts["swap"] == "off"
    assert facts["filesystem.lab"]


def test_the_page_cache_needs_permission(host: LocalHost) -> None:
    with pytest.raises(LookupError, match="page cache cannot be dropped"):
        host.drop_page_cache()
    put(host.root, "proc/sys/vm/drop_caches", "")
    host.drop_page_cache()
    assert (host.root / "proc/sys/vm/drop_caches").read_text() == "3"


@pytest.mark.parametrize(
    ("knob", "file", "lacking", "there"),
    [
        ("vm.swappiness", "proc/swaps", "Filename Type Size", "Filename Type Size\n/swap file 9"),
        ("vm.page-cluster", "proc/swaps", "Filename Type Size", "Filename Type Size\n/dev/zram0 partition 9"),
        ("kernel.numa_balancing", "sys/devices/system/node/online", "0", "0-1"),
        ("vm.zone_reclaim_mode", "sys/devices/system/node/online", "0", "0,2"),
    ],
)
def test_a_knob_that_cannot_act_is_not_set(
    knob: str, file: str, lacking: str, there: str, host: LocalHost, root: Path
) -> None:
    put(root, f"proc/sys/{knob.replace('.', '/', 1)}", "0")
    assert host.writable(knob) == ""  # nothing tells
    put(root, file, lacking)
    assert host.writable(knob).startswith(f"{knob} acts ")
    put(root, file, there)
    assert host.writable(knob) == ""
