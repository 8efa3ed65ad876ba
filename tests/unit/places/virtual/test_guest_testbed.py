"""What the dry run of a study in guests looks up before anything is booted."""

import sys
import threading
import time
from pathlib import Path

import pytest

from leadline.checks.files.study import StudyFile, parse_study
from leadline.checks.plan import Planned, cost
from leadline.checks.subject import EMULATED, OVERHEAD, subject_of
from leadline.host import kvm
from leadline.host.base import ProcessSpec
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.model.guest import Guest
from leadline.model.knob import Level
from leadline.places.guest import kernels
from leadline.places.guest.boot import Node
from leadline.places.guest.debian import Progress
from leadline.places.testbed import RunOptions
from leadline.places.virtual import guests, testbed
from leadline.places.virtual.host import GuestHost
from leadline.places.virtual.job import OVERLAYS, SETTINGS, USERS, Captured, RecordingHost, Started
from leadline.places.virtual.testbed import GuestTestbed
from leadline.trial.progress import Watcher

STUDY = """\
study: paging
question: q
stack: { server: tomcat, host: virtual-time }
guest: { memory: 128m, kernel: 6.1-cloud }
workload: { users: 8, ramp_up: 4s, steady: 4s, ramp_down: 1s }
factors: { vm.swappiness: [60, 10] }
design: { kind: forks, worlds: 3 }
"""
ON_TWO = STUDY.replace(", kernel: 6.1-cloud", "").replace(
    "{ vm.swappiness", "{ guest.kernel: [6.1-cloud, 6.2-cloud], vm.swappiness"
)


def study(text: str) -> StudyFile:
    return parse_study(text, "paging.yaml")


@pytest.fixture
def only_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def require_known(name: str, _progress: Progress) -> None:
        if name == "6.3-cloud":
            raise LeadlineError("no network")
        if name != "6.1-cloud":
            raise UsageError(f"no kernel '{name}'; did you mean 6.1-cloud?")

    monkeypatch.setattr(kernels, "require_known", require_known)
    monkeypatch.setattr(testbed.shutil, "which", lambda name: f"/usr/bin/{name}")


@pytest.mark.usefixtures("only_one_kernel")
def test_kernels_that_can_be_had_are_planned(tmp_path: Path) -> None:
    planned = GuestTestbed(tmp_path).plan(study(STUDY))
    assert len(planned.plan.trials) == 6
    assert not [text for text in planned.unchecked if "kernel" in text]


@pytest.mark.parametrize(
    ("text", "line"),
    [(STUDY.replace("6.1-cloud", "6.2-cloud"), 4), (ON_TWO, 6)],
)
@pytest.mark.usefixtures("only_one_kernel")
def test_a_kernel_that_there_is_not_is_refused_at_its_line(text: str, line: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"^paging.yaml:{line}: no kernel '6.2-cloud'; did you mean 6.1-cloud"):
        GuestTestbed(tmp_path).plan(study(text))


@pytest.mark.usefixtures("only_one_kernel")
def test_what_cannot_be_looked_up_is_said(tmp_path: Path) -> None:
    planned = GuestTestbed(tmp_path).plan(study(STUDY.replace("6.1-cloud", "6.3-cloud")))
    assert "that kernel 6.3-cloud can be had: no network" in planned.unchecked


@pytest.mark.parametrize(
    ("device", "tried", "why"),
    [
        (False, "", "there is no /dev/kvm"),
        (True, "", "whether hardware virtualisation works has not been tried since this machine's start"),
        (True, "earlier works", "has not been tried since"),
        (True, "now fails", "a test boot with hardware virtualisation failed"),
        (True, "now works", ""),
    ],
)
@pytest.mark.usefixtures("only_one_kernel")
def test_boots_in_real_time_are_counted_as_emulated_unless_a_test_boot_told_otherwise(
    device: bool, tried: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boot").write_text("now\n")
    monkeypatch.setattr(kvm, "_DEVICE", tmp_path / ("boot" if device else "none"))
    monkeypatch.setattr(kvm, "_BOOT", tmp_path / "boot")
    monkeypatch.setattr(kvm, "_file", lambda: tmp_path / "told")
    if tried:
        kvm.remember(tried.endswith("works"))
        (tmp_path / "told").write_text((tmp_path / "told").read_text().replace("now", tried.split()[0]))
    file = study(STUDY.replace("virtual-time", "vm").replace("{ kind: forks, worlds: 3 }", "{ replicates: 3 }"))
    planned = GuestTestbed(tmp_path, kind="vm").plan(file)
    trials, notes = len(planned.plan.trials), " ".join(planned.plan.notes)
    assert (f"{trials} emulated boots and starts of about 55 s each: " in notes) is bool(why)
    assert why in notes
    seconds = cost(file.study, planned.plan, subject_of(file.study).first_overhead())
    assert seconds == pytest.approx(trials * (9 + (EMULATED if why else OVERHEAD)))


@pytest.fixture
def host(tmp_path: Path) -> GuestHost:
    about = {"guest.qemu": "QEMU emulator version 7.2"}
    return GuestHost("virtual-time", Guest(), LocalHost(state=tmp_path / "state"), about)


def tree(root: Path, **files: str) -> Path:
    """A guest's files: ``swappiness`` is one of vm."""
    for name, text in files.items():
        path = root / "proc/sys/vm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    kernel = root / "proc/sys/kernel"
    kernel.mkdir(parents=True)
    (kernel / "osrelease").write_text("6.1.0-56-cloud-amd64\n")
    (root / "proc/cmdline").write_text("console=ttyS0 quiet preempt=full\n")
    huge = root / "sys/kernel/mm/transparent_hugepage"
    huge.mkdir(parents=True)
    (huge / "enabled").write_text("always [madvise] never\n")
    return root


def test_levels_are_those_of_the_guest_that_told_last(host: GuestHost, tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="no guest has told"):
        host.read_back("vm.swappiness")
    host.told(tree(tmp_path / "first", swappiness="60"), defaults=True)
    host.told(tree(tmp_path / "fork", swappiness="10"))
    assert host.read_back("vm.swappiness") == 10
    host.restore()
    assert host.read_back("vm.swappiness") == 60


def test_levels_of_a_boot_are_read_from_what_the_kernel_says(host: GuestHost, tmp_path: Path) -> None:
    host.told(tree(tmp_path / "fork"))
    host.releases["6.1.0-56-cloud-amd64"] = "6.1-cloud"
    found = [host.read_back(f"guest.{name}") for name in ("kernel", "preempt", "mitigations", "transparent_hugepage")]
    assert found == ["6.1-cloud", "full", "", "madvise"]


def test_levels_wait_for_a_fork(host: GuestHost, tmp_path: Path) -> None:
    host.told(tree(tmp_path / "boot", swappiness="60", lowmem_reserve_ratio="256 32 0"), defaults=True)
    host.apply({"vm.swappiness": 10})
    assert host.wanted == {"vm.swappiness": 10}
    assert host.read_back("vm.swappiness") == 60
    levels: dict[str, Level] = {"vm.swappiness": 10, "vm.lowmem_reserve_ratio": "1 1 1"}
    assert host.files(levels) == {
        Path("/proc/sys/vm/swappiness"): "10",
        Path("/proc/sys/vm/lowmem_reserve_ratio"): "1 1 1",
    }


def test_what_this_kernel_lacks_is_a_failure_of_the_treatment(host: GuestHost, tmp_path: Path) -> None:
    host.told(tree(tmp_path / "boot", swappiness="60"), defaults=True)
    with pytest.raises(TrialFailure) as told:
        host.apply({"vm.compaction_proactiveness": 5})
    assert told.value.failure_class is FailureClass.CONFIGURATION
    assert "vm.compaction_proactiveness" in told.value.message


def test_facts_tell_of_guest_and_machine(host: GuestHost, tmp_path: Path) -> None:
    host.told(tree(tmp_path / "boot", swappiness="60"))
    facts = host.guest_facts()
    assert facts["guest.qemu"] == "QEMU emulator version 7.2"
    assert (facts["kernel.release"], facts["vm.swappiness"]) == ("6.1.0-56-cloud-amd64", "60")
    assert "below.cpu.model" in host.facts()
    assert "cpu.model" not in host.facts()  # not the guest's


def test_a_service_is_recorded_with_its_files_and_runs_without_its_limits(tmp_path: Path) -> None:
    host, home = RecordingHost(state=tmp_path / "state"), tmp_path / "home"
    home.mkdir()
    (home / "levels.conf").write_text("before")
    change = f"import pathlib; pathlib.Path({str(home / 'levels.conf')!r}).write_text('after')"
    python = str(Path(sys.executable).resolve())
    argv = [python, "-c", change]
    spec = ProcessSpec("server", argv, tmp_path / "log", cwd=home, cpus="900", limits={"memory": 1}, unprivileged=False)
    with host.recording(tmp_path / "kept"):
        process = host.start(spec)
        while process.alive():
            time.sleep(0.01)
        process.stop()
    (started,) = host.started
    assert started.spec == spec
    kept = tmp_path / "kept" / "server" / home.relative_to("/") / "levels.conf"
    assert (kept.read_text(), (home / "levels.conf").read_text()) == ("before", "after")
    assert started.files == tmp_path / "kept" / "server"


def test_ports_come_in_one_order_while_it_records(tmp_path: Path) -> None:
    host = RecordingHost(state=tmp_path / "state")
    found = []
    for _ in range(2):
        with host.recording(tmp_path / "kept"):
            found.append([host.free_port() for _ in range(3)])
    assert found[0] == found[1]
    assert len(set(found[0])) == 3


def capture(root: Path, number: int, heap: str) -> Captured:
    """A server with a directory of its own, as it was at its start, below ``root``."""
    home = Path("/srv/stack/server")
    kept = root / f"capture-{number}"
    inside = kept / home.relative_to("/")
    (inside / "empty").mkdir(parents=True)
    (inside / "empty").chmod(0o700)
    (inside / "heap.conf").write_text(heap)
    (inside / "same.conf").write_text("same")
    (inside / "same.conf").chmod(0o600)
    (inside / "link").symlink_to("same.conf")
    library = root / "dist"
    library.mkdir(exist_ok=True)
    (library / "private.jar").write_text("jar")
    (library / "private.jar").chmod(0o600)
    if not (library / "same.jar").exists():
        (library / "same.jar").hardlink_to(library / "private.jar")
    spec = ProcessSpec("server", ["java"], root / "server.log", cwd=home, owns=[home], reads=[library])
    return Captured(Path("/srv/stack/trial"), [Started(spec, kept)], "", "", 1, {}, [library])


@pytest.fixture
def driver(tmp_path: Path) -> list[Path]:
    program = tmp_path / "leadline-load"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return [program]


def node(items: object, path: str) -> Node:
    assert isinstance(items, dict)
    found = items[path]
    assert isinstance(found, Node)
    return found


def test_files_keep_their_paths_owners_and_modes(tmp_path: Path, driver: list[Path]) -> None:
    items = guests.contents([capture(tmp_path, 0, "1g")], driver, ["/proc/sys/vm/*"])
    server = USERS["server"]
    own = node(items, "/srv/stack/server/same.conf")
    assert (own.user, own.mode, own.content) == (server, 0o600, tmp_path / "capture-0/srv/stack/server/same.conf")
    empty = node(items, "/srv/stack/server/empty")
    assert (empty.directory, empty.user, empty.mode) == (True, server, 0o700)
    above = node(items, "/srv/stack")
    assert (above.user, above.mode) == (0, 0o755)
    assert node(items, "/srv/stack/server/link").link == "same.conf"
    shared = node(items, f"{tmp_path}/dist/private.jar")
    assert (shared.user, shared.mode) == (0, 0o644)
    assert node(items, f"{tmp_path}/dist/same.jar").link == f"{tmp_path}/dist/private.jar"
    assert node(items, f"{tmp_path}/leadline-load").permissions == 0o755
    assert node(items, SETTINGS).content == b"/proc/sys/vm/*\n"
    assert node(items, "/srv/stack/trial/raw").mode == 0o1777


def test_other_levels_bring_only_what_differs(tmp_path: Path, driver: list[Path]) -> None:
    captures = [capture(tmp_path, 0, "1g"), capture(tmp_path, 1, "2g")]
    items = guests.contents(captures, driver, [])
    assert [path for path in items if path.startswith(OVERLAYS)] == [f"{OVERLAYS}/1/srv/stack/server/heap.conf"]
    assert node(items, f"{OVERLAYS}/1/srv/stack/server/heap.conf").user == USERS["server"]


def test_programs_bring_their_libraries(tmp_path: Path) -> None:
    items = guests.contents([capture(tmp_path, 0, "1g")], [Path("/bin/sleep").resolve()], [])
    assert any(Path(path).name.startswith("libc.so") for path in items)


def test_a_home_without_jlink_is_taken_whole(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    assert guests.runtime(tmp_path) == tmp_path


@pytest.mark.usefixtures("only_one_kernel")
def test_runs_of_one_stack_wait_for_each_other_and_other_stacks_have_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    waiting, first_is_in, homes = threading.Event(), threading.Event(), list[Path]()
    events: list[str] = []

    def run(_bed: GuestTestbed, _file: StudyFile, _planned: Planned, _options: RunOptions, home: Path, _: Path) -> None:
        events.append("begin")
        homes.append(home)
        if not first_is_in.is_set():
            first_is_in.set()
            assert waiting.wait(60)
        events.append("end")

    class Watching(Watcher):
        def message(self, text: str) -> None:
            assert "waiting for its end" in text
            waiting.set()

    monkeypatch.setattr(GuestTestbed, "_run", run)

    def started(text: str, lab: str) -> threading.Thread:
        bed = GuestTestbed(tmp_path / lab, Watching())
        file = study(text)
        thread = threading.Thread(target=bed.run, args=(file, bed.plan(file), RunOptions()))
        thread.start()
        return thread

    threads = [started(STUDY, "lab-1")]
    assert first_is_in.wait(60)
    threads.append(started(STUDY, "lab-2"))
    for thread in threads:
        thread.join(60)
    started(STUDY.replace("server: tomcat", "server: liberty"), "lab-1").join(60)
    assert events == ["begin", "end"] * 3
    assert homes[0] == homes[1] != homes[2]


@pytest.mark.usefixtures("only_one_kernel")
def test_a_level_that_a_service_could_take_live_is_a_start_of_its_own_in_a_guest(tmp_path: Path) -> None:
    text = STUDY.replace("stack: {", "stack: { app: brokerage,").replace(
        "vm.swappiness: [60, 10]", "app.extra_cpu: [0, 5]"
    )
    notes = GuestTestbed(tmp_path).plan(study(text)).plan.notes
    assert any("3 boots, 6 starts with warm-up, 6 forks" in note for note in notes), notes
