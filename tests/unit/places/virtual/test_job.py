"""The scripts of a guest, run by busybox's shell with the guest's own functions in words."""

import shutil
import subprocess
from pathlib import Path

import pytest

from leadline.host.base import ProcessSpec
from leadline.model.guest import Guest, GuestDisk
from leadline.places.virtual import job
from leadline.places.virtual.job import Captured, Started

pytestmark = pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not installed")

# What job.sh has in a guest; ``su`` runs as whoever runs the test.
GUEST = """
say() { echo "say $*"; }
put() { echo "put $*"; }
fail() { echo "fail $*"; exit 9; }
seconds() { cut -d' ' -f1 /proc/uptime; }
as() { shift; exec env -i PATH="$PATH" "$@"; }
"""


def script(*lines: str) -> tuple[int, str]:
    text = "\n".join([job.helpers(), GUEST, *lines])
    done = subprocess.run(["busybox", "sh", "-c", text], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_a_knob_is_written_or_told_with_the_kernels_words(tmp_path: Path) -> None:
    file = tmp_path / "swappiness"
    file.write_text("60\n")
    assert script(f"knob {file} 10") == (0, "")
    assert file.read_text() == "10\n"
    assert script(f"knob {tmp_path}/none 10", "echo on") == (
        9,
        f"fail configuration this kernel has no {tmp_path}/none\n",
    )
    code, said = script(f"knob {tmp_path} 10", "echo on")
    assert code == 9
    assert said.startswith(f"fail configuration the kernel refuses 10 for {tmp_path}: ")


SAID = 'uname() { echo 6.1.0-56-cloud-amd64; }; cat() { echo "console=ttyS0 quiet preempt=full mitigations=off"; }'


def test_a_guest_that_is_booted_as_it_was_meant_goes_on() -> None:
    text = job.booted("6.1.0-56-cloud-amd64", ["preempt=full", "mitigations=off"])
    assert script(SAID, text, "echo on") == (0, "on\n")


def test_a_wrong_uname_after_boot_is_a_failure_of_the_host() -> None:
    assert script(SAID, job.booted("6.12.118+deb13-cloud-amd64", []), "echo on") == (
        9,
        "fail infrastructure the guest came up with kernel 6.1.0-56-cloud-amd64, not 6.12.118+deb13-cloud-amd64\n",
    )


@pytest.mark.parametrize("parameter", ["preempt=none", "preempt=ful", "transparent_hugepage=never"])
def test_a_boot_parameter_that_does_not_read_back_is_a_failure_of_the_treatment(parameter: str) -> None:
    code, said = script(SAID, job.booted("6.1.0-56-cloud-amd64", [parameter]), "echo on")
    assert code == 9
    assert said.startswith(f"fail configuration the boot parameter {parameter} is not in /proc/cmdline: console=")


def test_a_load_ends_with_the_driver(tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    chown = "chown() { :; }"
    said = script(chown, f"load 30 {out} {log} X=1 sh -c 'echo $X; echo done >{out}/summary.json'", "echo on")
    assert said == (0, "on\n")
    assert log.read_text() == "1\n"
    assert (out / "summary.json").exists()


def test_a_driver_that_fails_or_hangs_ends_the_trial(tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    quiet = 'chown() { :; }; broken() { fail "$@"; }'
    code, said = script(quiet, f"load 30 {out} {log} sh -c 'echo bad; exit 3'", "echo on")
    assert (code, said) == (9, "fail infrastructure the driver ended with code 3: bad \n")
    code, said = script(quiet, f"load 1 {out} {log} sleep 50", "echo on")
    assert code == 9
    assert "on\n" not in said


@pytest.mark.parametrize("end", ["true", "exit 1"])
def test_a_full_file_system_is_why_a_load_fails(end: str, tmp_path: Path) -> None:
    """Whether the driver could write its results or not."""
    full = "chown() { :; }; dd() { return 1; }"
    code, said = script(full, f"load 30 {tmp_path}/out {tmp_path}/log sh -c '{end}'", "echo on")
    assert code == 9
    assert said == "fail configuration the guest's file system is full: give `guest` more memory\n"


def test_what_a_service_waits_for_ends_with_the_service() -> None:
    own = 'broken() { fail "$@"; }; alive() { [ ! -e /nowhere ] && broken configuration "the $1 ended"; }'
    assert script(own, "wait_for server 60 'was not ready' false", "echo on") == (
        9,
        "fail configuration the server ended\n",
    )
    assert script("alive() { :; }", "wait_for server 60 'was not ready' true", "echo on") == (0, "on\n")


def test_words_reach_the_driver_and_services_as_they_are(tmp_path: Path) -> None:
    odd = "a 'b' \"c\" $d;e"
    out, log = tmp_path / "out", tmp_path / "log"
    spec = ProcessSpec("driver", ["printf", "%s|", odd, "x"], log, env={"LC_ALL": "C"})
    assert script("chown() { :; }", job.loaded(spec, out, 30)) == (0, "")
    assert log.read_text() == f"{odd}|x|"


def test_services_start_in_order_and_the_database_listens_first(tmp_path: Path) -> None:
    specs = [
        ProcessSpec("database", ["postgres", "-D", "/data"], tmp_path / "db.log", env={"LC_ALL": "C"}, cwd=tmp_path),
        ProcessSpec(
            "server", ["java", "-jar"], tmp_path / "server.log", cwd=tmp_path, cpus="0,2-3", limits={"memory": 1 << 28}
        ),
    ]
    started = [Started(spec, tmp_path) for spec in specs]
    captured = Captured(tmp_path, started, "http://127.0.0.1:8080/a", "http://127.0.0.1:8080/a/health", 5432, {})
    words = "memory() { echo memory $*; }; begin() { echo begin $1 $4 $5 $6; }; wait_for() { echo wait $*; }"
    words += "; sleep() { :; }"
    code, said = script(words, job.started(captured, 0, Guest(), 60.0))
    assert code == 0
    assert said.splitlines()[:-1] == [
        "begin database LC_ALL=C postgres -D",
        "wait database 120 does not listen listens 5432",
        "memory server 268435456",
        "begin server taskset d java",
        "wait server 60 was not ready after 60 s answers http://127.0.0.1:8080/a/health",
    ]


def test_a_fork_sets_tells_loads_and_tells_again(tmp_path: Path) -> None:
    knobs = job.knobs({Path("/proc/sys/vm/swappiness"): "10", Path("/proc/sys/vm/lowmem_reserve_ratio"): "1 2"})
    assert knobs == "knob /proc/sys/vm/swappiness 10\nknob /proc/sys/vm/lowmem_reserve_ratio '1 2'"
    text = job.measured("load 9 out log a", tmp_path, [tmp_path / "gc.log"])
    first = [line.split()[0] for line in text.splitlines()]
    assert first[:6] == ["settings", "figures", "load", "figures", "maps", "settings"]
    assert len(job.helpers()) + len(text) < 60_000  # a job has 64 KiB


def test_the_disk_holds_the_databases_directories_and_swap_is_as_fast(tmp_path: Path) -> None:
    files, data = tmp_path / "files", Path("/srv/data")
    (files / "srv" / "data" / "base").mkdir(parents=True)
    database = ProcessSpec("database", ["db"], Path("/tmp/db.log"), cwd=data, owns=[data / "base", data])
    server = ProcessSpec("server", ["java"], Path("/tmp/server.log"), cwd=Path("/srv"))
    captured = Captured(tmp_path, [Started(database, files), Started(server, files)], "", "", 1, {})
    guest = Guest(disk=GuestDisk(size=256 << 20, mib_per_s=80), swap=64 << 20)
    assert job.devices(guest, captured).splitlines() == ["swap 64 80", "disk 256 80 /srv/data"]
    assert guest.machine_memory == guest.memory + (320 << 20)
    assert job.devices(Guest(swap=32 << 20), captured) == "swap 32 60"
