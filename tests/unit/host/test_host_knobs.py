"""Host parameters: the catalogue, and setting them under a directory that stands for /."""

import os
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from leadline.checks.files.study import parse_study
from leadline.host.knobs import FAMILIES
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import ApplyCost, Level, Risk
from leadline.model.ownparts import OwnKnob
from leadline.places.simulated import SimulatedTestbed, parse_truth

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


SWAPPINESS = {"host.swap": OwnKnob.model_validate({"sysctl": "vm.swappiness", "levels": {"little": 10, "much": 90}})}


def test_a_declared_setting_is_set_read_back_and_undone_by_who_does_not_know_it(
    host: LocalHost, root: Path, tmp_path: Path
) -> None:
    module = put(root, "sys/module/x/parameters/on", "Y")
    declared = {"file": "/sys/module/x/parameters/on", "kind": "boolean"}
    host.declare({**SWAPPINESS, "host.on": OwnKnob.model_validate(declared)})
    assert host.read_back("host.swap") == "60"  # none of its levels
    for level in ("much", "10"):
        host.set_knob("host.swap", level)
    host.set_knob("host.on", False)
    assert host.read_back("host.swap") == "little"
    assert (host.knob_path("host.swap").read_text(), module.read_text()) == ("10", "0")
    with pytest.raises(UsageError, match=r"did you mean host\.swap"):
        host.read_back("vm.swappiness")  # one file, one knob
    assert len(LocalHost(state=tmp_path / "state", root=root).restore()) == 2
    assert (host.read_back("host.swap"), host.read_back("host.on")) == ("60", True)


def test_a_declared_setting_that_cannot_be_read_written_or_is_dangerous(host: LocalHost, root: Path) -> None:
    put(root, "sys/a/text", "words")
    put(root, "sys/a/fixed", "5").chmod(0o444)
    rows = {"text": {"file": "/sys/a/text"}, "fixed": {"file": "/sys/a/fixed"}, "absent": {"file": "/sys/a/none"}}
    rows |= {"free": {"sysctl": "vm.min_free_kbytes"}, "over": {"sysctl": "vm.overcommit_memory", "levels": [0, 2]}}
    rows["bad"] = {"file": "/sys/a/other", "risk": "dangerous"}
    host.declare({f"host.{name}": OwnKnob.model_validate(row) for name, row in rows.items()})
    reasons = {name: host.writable(f"host.{name}") for name in ("text", "fixed", "absent", "free")}
    assert "'words' is not a number" in reasons["text"]
    assert "fixed is read-only here" in reasons["fixed"]
    assert "does not exist" in reasons["absent"]
    assert not reasons["free"]
    for name, level in (("free", 512), ("over", 2), ("bad", 1)):  # as the catalogue has it, and as it is declared
        with pytest.raises(UsageError, match="disposable"):
            host.set_knob(f"host.{name}", level)
    with pytest.raises(UsageError, match=r"host\.b and host\.a are both"):
        host.declare({f"host.{name}": OwnKnob.model_validate(rows["text"]) for name in "ab"})


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"sysctl": "kernel.modules_disabled"}, "never set: one way"),
        ({"file": "/sys/block/sda/device/delete"}, "never set"),
        ({"file": "/sys/../etc/passwd"}, "no file below /proc/sys or /sys"),
        ({"sysctl": "../vm"}, "no name of a sysctl"),
        ({"sysctl": "vm.swappiness", "argument": "-x"}, "argument and sysctl; write one of"),
        ({"sysctl": "vm.swappiness", "read_back": {"http": "/x"}}, "leave read_back out"),
        ({"sysctl": "vm.swappiness", "levels": {"a": 1, "b": 1}}, "two names have one level"),
    ],
)
def test_what_no_setting_is_declared_as(row: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(problem)):
        OwnKnob.model_validate(row)


def test_declared_settings_in_a_study_and_their_names_in_its_plan() -> None:
    text = (
        "study: s\nquestion: q?\nworkload: { users: 4 }\nknobs:\n"
        "  host.swap: { sysctl: vm.swappiness, levels: { little: 10, much: 90 } }\n"
        "factors: { host.swap: [90, little] }\n"
    )
    file = parse_study(text, "s.yaml")
    testbed = SimulatedTestbed(parse_truth("truth: {}", "t"), Path("absent"))
    assert testbed.plan(file).plan.factors[0].levels == ("much", "little")
    assert type(file.study).model_validate_json(file.study.model_dump_json()) == file.study
    with pytest.raises(
        UsageError, match=re.escape("declare it: knobs: { host.max_user_watches: { sysctl: fs.inotify.max_user_watches")
    ):
        testbed.plan(
            parse_study(text.replace("host.swap: [90, little]", "fs.inotify.max_user_watches: [1, 2]"), "s.yaml")
        )
    for old, new, problem in (
        ("host.swap:", "vm.swap:", "s.yaml:5: 'vm.swap': name it host.swap"),
        ("much: 90", "much: 10", "s.yaml:5: two names have one level"),
        ("sysctl: vm.swappiness", "argument: '${level}'", "s.yaml:5: a knob without read-back"),
        ("factors: { host.swap: [90", "factors: { host.swap: [91", "s.yaml:6: host.swap: 91 is not one of"),
    ):
        with pytest.raises(UsageError, match=re.escape(problem)):
            testbed.plan(parse_study(text.replace(old, new), "s.yaml"))


def test_the_queue_of_the_device_below_the_current_directory_is_set_and_put_back_with_what_follows(
    tmp_path: Path, root: Path
) -> None:
    number = Path.cwd().stat().st_dev
    disk = root / "sys/devices/virtio1/block/vdx"
    put(root, "sys/devices/virtio1/block/vdx/vdx1/partition", "1")
    (root / "sys/dev/block").mkdir(parents=True)
    (root / f"sys/dev/block/{os.major(number)}:{os.minor(number)}").symlink_to(disk / "vdx1")
    queue = {"scheduler": "[none] mq-deadline", "nr_requests": "64", "read_ahead_kb": "128", "wbt_lat_usec": "2000"}
    for name, text in queue.items():
        put(root, f"sys/block/vdx/queue/{name}", text)
    host = LocalHost(state=tmp_path / "state", root=root)
    assert host.read_back("block.queue.scheduler") == "none"
    assert "does not exist" in host.writable("block.queue.rq_affinity")
    host.apply({"block.queue.nr_requests": 128, "block.queue.scheduler": "mq-deadline"})
    places = root / "sys/block/vdx/queue"
    assert (places / "scheduler").read_text() == "mq-deadline"
    assert host.read_back("block.queue.nr_requests") == 128
    put(root, "sys/block/vdx/queue/wbt_lat_usec", "75000")  # as the kernel does with a new scheduler
    host.restore()
    assert [(places / name).read_text().strip() for name in ("scheduler", "nr_requests", "wbt_lat_usec")] == [
        "none",
        "64",
        "2000",
    ]
