"""Debian's kernels as this machine gets them, and a Java program in guests of several, in virtual time."""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import leadline
from witnesses import MATRIX

from bench.kernels.guests import Measured, image, measure, tell
from leadline.host.local import LocalHost
from leadline.places.guest import machine
from leadline.places.guest.boot import QEMU, Boot, boot_parameters
from leadline.places.guest.kernels import provision

pytestmark = pytest.mark.stack

SEEDS = (1, 2)
THREE = ("5.10-amd64", "6.1-rt", "6.12-cloud")  # lines and flavours
ALL = (*THREE, "5.10-cloud", "6.1-amd64", "6.1-cloud", "6.12-rt", "7.2-cloud")
KERNELS = ALL if MATRIX else THREE
CHANGED, LEVELS = "6.12-cloud", {"preempt": "full", "mitigations": "off", "transparent_hugepage": "never"}


def line_of(release: str) -> str:
    """6.1 of 6.1.0-57-rt-amd64: the mirror may have a newer release a minute after it was listed."""
    return ".".join(release.split(".")[:2])


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Releases by name, as the command lists them."""
    done = leadline("kernels", "--json", cwd=tmp_path_factory.mktemp("listed"), timeout=600)
    if done.returncode:
        pytest.skip(f"no kernels can be had here: {done.stderr.strip()}")
    return {kernel["name"]: kernel["release"] for kernel in json.loads(done.stdout)["kernels"]}


@pytest.fixture(scope="module")
def fetched(listed: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    done = leadline("kernels", "fetch", *KERNELS, cwd=tmp_path_factory.mktemp("fetched"), timeout=600)
    if done.returncode:
        pytest.skip(f"the mirror does not have what it lists: {done.stderr.strip()}")
    assert re.search(rf"6\.12-cloud: {re.escape(line_of(listed['6.12-cloud']))}\S+, sha256 ", done.stdout)
    return {name: listed[name] for name in KERNELS}


def test_the_command_tells_what_differs(fetched: dict[str, str], tmp_path: Path) -> None:
    shown = leadline("kernels", "show", "6.12-cloud", "--against", "6.1-rt", "--json", cwd=tmp_path)
    document = json.loads(shown.stdout)
    assert document["traits"]["preemption"] == ["voluntary, preempt= changes it", "real time (PREEMPT_RT)"]
    assert document["traits"]["transparent huge pages"][1] == "none built"
    assert document["options"]["PREEMPT_RT"] == ["-", "y"]


@dataclass(frozen=True)
class Guests:
    """``measured``: the first kernel with every seed, the others with one, then the first once more. ``changed``: the
    facts of one that was booted with ``LEVELS``.
    """

    measured: list[Measured]
    changed: dict[str, str]


@pytest.fixture(scope="module")
def guests(fetched: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Guests:
    if shutil.which(QEMU) is None:
        pytest.skip(f"{QEMU} is not on the PATH; {machine.INSTALL}")
    first, *others = fetched
    jobs = [*((first, seed) for seed in SEEDS), *((name, SEEDS[0]) for name in others)]
    with ThreadPoolExecutor(1) as pool:  # beside the others: it only boots
        changed = pool.submit(booted, tmp_path_factory.mktemp("changed"))
        measured = list(measure([*jobs, jobs[0]], tmp_path_factory.mktemp("guests"), scale=300))
    return Guests(measured, changed.result())


@pytest.fixture
def measured(guests: Guests) -> list[Measured]:
    return guests.measured


def booted(directory: Path) -> dict[str, str]:
    kernel = provision(CHANGED, tell)
    parameters = boot_parameters(kernel, {f"guest.{name}": level for name, level in LEVELS.items()})
    boot = Boot(kernel.image, image(kernel, directory), 1 << 30, parameters=parameters)
    return dict(machine.run(LocalHost(), boot, "true", directory / "guest", timeout=600).facts)


def test_each_guest_has_the_kernel_that_was_asked_for(measured: list[Measured], fetched: dict[str, str]) -> None:
    for guest in measured:
        assert guest.facts["guest.release"] == guest.kernel.release
        assert line_of(guest.kernel.release) == line_of(fetched[guest.kernel.name])
        assert ("PREEMPT_RT" in guest.facts["guest.version"]) is (guest.kernel.flavour == "rt")
        assert guest.facts["guest.clocksource"].startswith("tsc")
    assert len({guest.kernel.name.partition("-")[0] for guest in measured}) >= 3
    assert {guest.kernel.flavour for guest in measured} == {"amd64", "cloud", "rt"}


def test_the_program_did_the_same_work_on_each(measured: list[Measured]) -> None:
    sums = {json.dumps([line.split()[::2] for line in guest.text.splitlines()]) for guest in measured}
    assert len(sums) == 1
    assert len(json.loads(sums.pop())) == 4


def test_a_seed_gives_the_same_digits_and_another_seed_others(measured: list[Measured]) -> None:
    *first, again = measured
    assert again.text == first[0].text
    assert len({guest.text for guest in first}) == len(first)


def test_kernels_differ_by_more_than_seeds(measured: list[Measured]) -> None:
    """A round trip over the loopback passes more instructions under PREEMPT_RT than on the oldest kernel."""

    def times(name: str) -> list[float]:
        return [guest.millis["loopback_tcp"] for guest in measured if guest.kernel.name == name]

    assert min(times("6.1-rt")) > max(times("5.10-amd64"))


def test_boot_parameters_are_in_force(guests: Guests) -> None:
    usual = next(guest.facts for guest in guests.measured if guest.kernel.name == CHANGED)
    for name, level in LEVELS.items():
        assert guests.changed[f"guest.{name}"] in (level, f"always madvise [{level}]"), name
        assert guests.changed[f"guest.{name}"] != usual[f"guest.{name}"], name
