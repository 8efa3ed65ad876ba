"""Real guests in virtual time: the same digits from the same seed, and what ends them told with its class."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from witnesses import matrix

from leadline.host import procfs
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.places.guest import boot as boot_module
from leadline.places.guest import kernels, machine
from leadline.places.guest.boot import BLOCKS, QEMU, Boot, Counter, base_system, cached_archive, join_archives, modules
from leadline.places.guest.machine import Outcome, Saved, boot_and_save, fork, fork_and_save, run
from leadline.places.virtual import instructions, job
from leadline.places.virtual.instructions import Compiled, Mapped, Symbols

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(shutil.which(QEMU) is None, reason=f"{QEMU} is not on the PATH (install qemu-system-x86)"),
]
LIMIT = 300.0  # seconds of this host's time, for a guest that is waited for
SEEDS = (1, 2, 3)
# Processes, page faults, timers, short sleeps, the scheduler, randomness, a file: all that would differ with the host.
WORK = """
for i in 1 2 3 4 5 6 7 8; do
  for k in 1 2 3; do (head -c 4000 /dev/urandom | gzip >>/tmp/noise) & done
  wait
done
sleep 0.0371
mkfifo /tmp/silent; exec 3<>/tmp/silent; k=0
while [ $k -lt 2000 ]; do k=$((k + 1)); read -t 0.001 line <&3; done
cat /proc/stat /proc/interrupts /proc/vmstat /proc/buddyinfo /proc/self/sched /tmp/noise >/tmp/seen 2>/dev/null
put seen /tmp/seen
say swappiness "$(cat /proc/sys/vm/swappiness)"
"""
TREATED = "echo 10 >/proc/sys/vm/swappiness\n" + WORK + "# " + "x" * 20_000
KILLED = """
import os, signal, sys
from pathlib import Path
from leadline.places.guest import machine
from leadline.places.guest.boot import Boot
from leadline.host.local import LocalHost
kernel, archive, state, directory = map(Path, sys.argv[1:])
host = LocalHost(state=state)
class Dies(machine.Monitor):
    def event(self, *_):
        print("runs", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
machine.Monitor = Dies
machine.boot_and_save(host, Boot(kernel, archive, 256 << 20), "save warm", directory, "warm", 300)
"""


@dataclass(frozen=True)
class Place:
    """Where guests run, and what boots them."""

    host: LocalHost
    directory: Path
    boot: Boot

    def save(self, name: str, seed: int = 1) -> Saved:
        return boot_and_save(
            self.host, replace(self.boot, seed=seed), "save warm", self.directory / name, "warm", LIMIT
        )

    def fork(self, saved: Saved, name: str, job: str, limit: float = LIMIT, counter: Counter | None = None) -> Outcome:
        return fork(self.host, saved, job, self.directory / name, limit, counter)

    def left(self) -> list[str]:
        """What runs or lies about: entries of the undo journal, memories of guests."""
        entries = [f"{entry.kind} {entry.target}" for entry in self.host.journal.open_entries()]
        return entries + [str(path) for path in self.directory.rglob("memory")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("guest")
    try:
        kernel, busybox = kernels.provision("6.1-cloud", print), kernels.busybox(print)
    except LeadlineError as error:
        pytest.skip(f"no kernel for a guest: {error}")
    parts = [base_system(busybox), modules(kernel.modules)]
    archive = directory / "initial"
    join_archives([cached_archive(part, directory / "parts") for part in parts], archive)
    host = LocalHost(state=directory / "state")
    yield Place(host, directory, Boot(kernel.image, archive, 256 << 20))
    host.restore()


@pytest.fixture(scope="module")
def worlds(place: Place) -> Iterator[Mapping[str, Saved]]:
    """A saved guest for each seed, and the first seed once more."""
    names = {"again": 1} | {f"seed-{seed}": seed for seed in SEEDS}
    with ThreadPoolExecutor(2) as pool:
        saved = dict(zip(names, pool.map(lambda name: place.save(name, names[name]), names), strict=True))
    yield saved
    for each in saved.values():
        each.remove(place.host)
    assert place.left() == []


@pytest.fixture(scope="module")
def warm(worlds: Mapping[str, Saved]) -> Saved:
    return worlds["seed-1"]


def seen(outcome: Outcome) -> tuple[Mapping[str, str], str]:
    """All that a guest told."""
    return outcome.facts, hashlib.sha256((outcome.files / "seen").read_bytes()).hexdigest()


def test_forks_are_the_same_to_the_last_digit_beside_a_busy_neighbour(
    place: Place, worlds: Mapping[str, Saved]
) -> None:
    """Five times the same trial for each of three seeds; a seed repeats its world, and another seed is another."""
    jobs = [(name, k) for name in worlds for k in range(1 if name == "again" else 5)]
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with ThreadPoolExecutor(3) as pool:  # on two CPUs
            told = list(pool.map(lambda job: seen(place.fork(worlds[job[0]], f"{job[0]}-{job[1]}", WORK)), jobs))
    finally:
        neighbour.kill()
        neighbour.wait()
    found = {name: [each for (of, _), each in zip(jobs, told, strict=True) if of == name] for name in worlds}
    for name, (first, *others) in found.items():
        assert others == [first] * len(others), name
    assert found["again"] == found["seed-1"][:1]
    assert worlds["again"].memory.read_bytes() == worlds["seed-1"].memory.read_bytes()
    assert len({found[f"seed-{seed}"][0][1] for seed in SEEDS}) == len(SEEDS)
    facts = found["seed-1"][0][0]
    assert facts["swappiness"] == "60"
    assert facts["guest.clocksource"] == "tsc"
    assert facts["guest.release"].startswith("6.1.0-")


def test_a_treatment_of_any_length_is_the_same_every_time_and_differs_from_another(place: Place, warm: Saved) -> None:
    first, second = (seen(place.fork(warm, f"treated-{k}", TREATED)) for k in range(2))
    assert first == second
    assert first[0]["swappiness"] == "10"
    assert first[1] != seen(place.fork(warm, "untreated", WORK))[1]


def test_counting_instructions_changes_no_digit_and_tells_a_planted_system_call(place: Place, warm: Saved) -> None:
    """Of system calls before the first mark and after the second none counts."""
    library = boot_module.library()
    if isinstance(library, str):
        pytest.skip(library)
    told = place.fork(warm, "symbols", f"{job.helpers()}\nsymbols")
    symbols = Symbols.of((told.files / "kallsyms").read_text())
    marks = Counter(library, [symbols.addresses[symbols.names.index("snmp_seq_show")]])

    def counted(name: str, times: int) -> dict[str, int]:
        mark, call = "cat /proc/net/snmp >/dev/null\n", "sync\n"
        text = f"{call}{mark}{call * times}{WORK}{mark}{call}"
        with_plugin, without = place.fork(warm, name, text, counter=marks), place.fork(warm, f"{name}-plain", text)
        assert seen(with_plugin) == seen(without)
        lines = (with_plugin.console.parent / BLOCKS).read_text().splitlines()
        return instructions.counted(lines, symbols, Mapped("", {}), Compiled("", {}))

    few, many = counted("few", 3), counted("many", 7)
    assert (few["syscalls.sync"], many["syscalls.sync"]) == (3, 7)
    assert many["instructions.kernel.ksys_sync"] * 3 == few["instructions.kernel.ksys_sync"] * 7
    assert few["syscalls.execve"] == many["syscalls.execve"]


def test_a_fork_can_be_saved_and_forked_again(place: Place, warm: Saved) -> None:
    job = "echo deep >/run/mark; say mark set; save deeper; say lost yes"
    deeper = fork_and_save(place.host, warm, job, place.directory / "deeper", "deeper", LIMIT)
    outcomes = [place.fork(deeper, f"deep-{k}", 'say mark "$(cat /run/mark)"\n' + WORK) for k in range(2)]
    deeper.remove(place.host)
    assert seen(outcomes[0]) == seen(outcomes[1])
    assert outcomes[0].facts["mark"] == "deep"
    assert "lost" not in outcomes[0].facts


ENDS = {
    "told": ("fail workload 'no rows in the table'", FailureClass.WORKLOAD, "^no rows in the table$"),
    "memory": (
        "echo 1 >/proc/sys/vm/overcommit_memory; dd if=/dev/zero of=/dev/null bs=400M count=1",
        FailureClass.CONFIGURATION,
        r"ran out of memory: its kernel killed dd \(process \d+\)",
    ),
    "reserve": (
        "echo 131072 >/proc/sys/vm/min_free_kbytes; dd if=/dev/zero of=/dev/null bs=180M count=1",
        FailureClass.CONFIGURATION,
        "ran out of memory: its kernel killed|kernel panicked",
    ),
    "disk": (
        f"{job.helpers()}\ndd if=/dev/zero of=/full bs=1M 2>/dev/null; broken infrastructure 'the driver ended'",
        FailureClass.CONFIGURATION,
        "the guest's file system is full: give `guest` more memory",
    ),
    "other kernel": (
        f"{job.helpers()}\n{job.booted('6.1.0-1-cloud-amd64', [])}",
        FailureClass.INFRASTRUCTURE,
        r"the guest came up with kernel 6\.1\.0-\d+-cloud-amd64, not 6\.1\.0-1-cloud-amd64",
    ),
    "other parameter": (
        f"{job.helpers()}\n{job.booted('$(uname -r)', ['preempt=full']).replace(chr(39), chr(34))}",
        FailureClass.CONFIGURATION,
        "the boot parameter preempt=full is not in /proc/cmdline",
    ),
    "panic": ("echo c >/proc/sysrq-trigger", FailureClass.CONFIGURATION, "kernel panicked: sysrq triggered crash"),
    "script": ("exit 3", FailureClass.CONFIGURATION, "the guest's job ended with exit code 3"),
    "absent": ("put log /tmp/absent", FailureClass.CONFIGURATION, "there is no /tmp/absent to send as log"),
    "off": ("poweroff -f", FailureClass.CONFIGURATION, "switched itself off before its job's end"),
    "stopped": ("save elsewhere", FailureClass.CONFIGURATION, "stopped at save point elsewhere"),
    "long": ("x" * 70_000, FailureClass.CONFIGURATION, "job has 70,000 bytes; 65,536 at most"),
    "silent": (
        "ready http://127.0.0.1:1/ 2",
        FailureClass.INFRASTRUCTURE,
        "http://127.0.0.1:1/ does not respond after 2 s",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_a_guest_is_told_with_its_class(name: str, place: Place, warm: Saved) -> None:
    script, kind, message = ENDS[name]
    before = place.left()
    with pytest.raises(TrialFailure, match=message) as raised:
        place.fork(warm, f"end-{name}", script)
    assert raised.value.failure_class is kind
    assert place.left() == before


def test_a_guest_that_does_not_end_is_ended(place: Place, warm: Saved) -> None:
    before = place.left()
    with pytest.raises(TrialFailure, match="did not end within 3 s"):
        place.fork(warm, "endless", "while :; do :; done", limit=3)
    assert place.left() == before


def test_a_lost_qemu_is_the_infrastructures(place: Place, warm: Saved) -> None:
    before = place.left()

    def kill() -> None:
        console = place.directory / "lost" / "results"
        while not (console.exists() and b"here" in console.read_bytes()):
            pass
        (entry,) = [entry for entry in place.host.journal.open_entries() if entry.kind == "process"]
        os.kill(entry.data["pid"], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(TrialFailure, match="QEMU was ended by SIGKILL") as raised:
        place.fork(warm, "lost", "say here yes; while :; do :; done")
    killer.join()
    assert raised.value.failure_class is FailureClass.INFRASTRUCTURE
    assert place.left() == before


def test_what_is_no_kernel_is_a_failure_of_the_configuration(place: Place) -> None:
    wrong = replace(place.boot, kernel=place.boot.initramfs)
    with pytest.raises(TrialFailure, match="is no kernel that QEMU boots") as raised:
        run(place.host, wrong, "finish", place.directory / "wrong", LIMIT)
    assert raised.value.failure_class is FailureClass.CONFIGURATION


@pytest.mark.skipif(os.geteuid() != 0, reason="host: only root may mount a file system")
def test_a_full_disk_is_told_before_the_guest_starts(place: Place, tmp_path: Path) -> None:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"host: a tmpfs cannot be mounted here: {done.stderr.decode().strip()}")
    try:
        with pytest.raises(TrialFailure, match=r"a save point takes up to 0\.2 GiB; .* has 0\.0 GiB left") as raised:
            boot_and_save(place.host, place.boot, "save warm", tmp_path / "full", "warm", LIMIT)
        assert list((tmp_path / "full").iterdir()) == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert raised.value.failure_class is FailureClass.INFRASTRUCTURE


def test_kill_9_leaves_nothing_behind(place: Place, tmp_path: Path) -> None:
    arguments = [place.boot.kernel, place.boot.initramfs, tmp_path / "state", tmp_path / "guest"]
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "runs\n"), done.stderr
    host = LocalHost(state=tmp_path / "state")
    (entry,) = [entry for entry in host.journal.open_entries() if entry.kind == "process"]
    assert procfs.carries_mark(entry.data["pid"], entry.data["token"])
    host.restore()
    assert not procfs.carries_mark(entry.data["pid"], entry.data["token"])
    assert not list(tmp_path.rglob("memory"))


@matrix("an emulated boot in real time takes half a minute")
def test_real_time_runs_with_what_the_test_boot_found(place: Place) -> None:
    found = machine.probe(place.host, place.boot, place.directory / "probe")
    boot = replace(place.boot, time="real", cpus=2, accelerator=found.name)
    outcome = run(place.host, boot, 'say cpus "$(nproc)"\n' + WORK, place.directory / "real", LIMIT)
    assert outcome.facts["cpus"] == "2"
    assert (outcome.files / "seen").stat().st_size > 1000
    assert found.meaning.startswith("hardware virtualisation" if found.name == "kvm" else "emulation without")
