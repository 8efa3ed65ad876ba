"""Kernels: which there are, how they are fetched and kept, local ones. Packages are real, apt-get is a fake."""

import hashlib
import os
import shutil
import struct
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.host.paths import exclusive
from leadline.model.errors import LeadlineError, TrialFailure, UsageError
from leadline.places.guest import debian, kernels
from leadline.places.guest.boot import boot_parameters
from leadline.places.guest.debian import Package, differences, options_of, read, sources, traits
from leadline.places.guest.kernels import Kernel, between, is_name, newest, provision

LIST = """\
Package: linux-image-6.1.0-9-cloud-amd64
Source: linux-signed-amd64
Version: 6.1.20-1
Depends: kmod, linux-base (>= 4.3~), initramfs-tools
Description: Linux 6.1
 a line: of the text
Size: 300
SHA256: aa

Package: linux-image-6.1.0-9-cloud-amd64-unsigned
Version: 6.1.20-1
Size: 1
SHA256: bb

Package: linux-image-6.1-cloud-amd64
Version: 6.1.20-1
Size: 2
SHA256: cc

Package: linux-image-4.19.0-1-amd64
Version: 4.19.1-1
Size: 2
SHA256: cc

Package: bash
Version: 5
Size: 4
SHA256: dd
"""
MIRROR = "http://mirror.example/debian"
# The fake answers as apt-get does: where lists are, what it would read, and packages from a folder.
FAKE_APT = """\
#!/bin/sh
case "$*" in
*--print-uris*) echo "'{mirror}/dists/bookworm/main/binary-amd64/Packages.xz' name 0" ;;
*indextargets*) [ -e {folder}/Packages ] && echo "trixie-security {folder}/Packages" ;;
*download*) [ ! -e {folder}/down ] || {{ echo "E: $(cat {folder}/down)" >&2; exit 100; }}
  for word; do case $word in *=*) cp "{folder}/${{word%%=*}}_${{word#*=}}_amd64.deb" . || exit 100 ;; esac; done ;;
*update*) echo update >>{folder}/calls
  [ ! -e {folder}/down ] || {{ echo "E: $(cat {folder}/down)" >&2; exit 100; }} ;;
esac
"""


def image(release: str) -> bytes:
    """The head of a bzImage."""
    text = f"{release} (maker@example) #1".encode()
    return bytes(0x202) + b"HdrS" + bytes(8) + struct.pack("<H", 0x300) + bytes(0x500 - 0x210) + text + b"\0"


class FakeMirror:
    """Packages as Debian has them, and an apt-get that serves them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        programs = folder / "bin"
        programs.mkdir()
        (programs / "apt-get").write_text(FAKE_APT.format(folder=folder, mirror=MIRROR))
        (programs / "apt-get").chmod(0o755)

    def add(self, name: str, version: str, files: dict[str, bytes], depends: str = "kmod") -> Path:
        """A package, and its entry in the list."""
        tree = self.folder / f"{name}-tree"
        control = (
            f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: a <a@b.example>\nDescription: x\n"
        )
        for path, content in {"DEBIAN/control": control.encode(), **files}.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_bytes(content)
        package = self.folder / f"{name}_{version}_amd64.deb"
        subprocess.run(["dpkg-deb", "-b", "-Znone", tree, package], check=True, capture_output=True)
        digest = hashlib.sha256(package.read_bytes()).hexdigest()
        entry = f"Package: {name}\nVersion: {version}\nDepends: {depends}\nSize: {package.stat().st_size}\n"
        with (self.folder / "Packages").open("a") as listed:
            listed.write(f"{entry}SHA256: {digest}\n\n")
        return package

    def add_kernel(self, release: str = "6.1.0-9-cloud-amd64", version: str = "6.1.20-1", hz: int = 250) -> Path:
        files = {
            f"boot/vmlinuz-{release}": image(release),
            f"boot/config-{release}": f"CONFIG_HZ={hz}\nCONFIG_PREEMPT_DYNAMIC=y\n".encode(),
            f"lib/modules/{release}/kernel/virtio.ko": b"module",
        }
        return self.add(f"linux-image-{release}", version, files)

    def goes_down(self, words: str) -> None:
        (self.folder / "down").write_text(words)

    def calls(self) -> int:
        calls = self.folder / "calls"
        return len(calls.read_text().split()) if calls.exists() else 0


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMirror:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("packages are made and unpacked with dpkg-deb, which is not on this machine")
    made = FakeMirror(tmp_path / "mirror")
    monkeypatch.setenv("PATH", f"{made.folder / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    return made


@pytest.fixture
def told() -> list[str]:
    return []


def test_a_list_has_images_of_every_suite_by_line_and_flavour() -> None:
    packages = list(read(LIST, "bookworm-security"))
    assert packages[0].name == "linux-image-6.1.0-9-cloud-amd64"
    found = newest(packages)
    assert list(found) == ["6.1-cloud"]
    assert (found["6.1-cloud"].size, found["6.1-cloud"].suite) == (300, "bookworm-security")


def package(name: str, version: str, *depends: str) -> Package:
    return Package(name, version, "suite", "00", 10, depends)


@pytest.mark.parametrize(
    ("versions", "newer"),
    [
        (["6.12.9-1", "6.12.10-1"], "6.12.10-1"),
        (["6.12.10-1~bpo12+1", "6.12.10-1"], "6.12.10-1"),
        (["6.12.11-1~bpo12+1", "6.12.10-1"], "6.12.11-1~bpo12+1"),
        (["6.12.10-1", "6.12.10-2"], "6.12.10-2"),
    ],
)
def test_the_newest_version_counts(versions: list[str], newer: str) -> None:
    packages = [package(f"linux-image-6.12.{n}+deb13-rt-amd64", version) for n, version in enumerate(versions)]
    for order in (packages, packages[::-1]):
        assert newest(order)["6.12-rt"].version == newer


def test_a_kernel_in_parts_is_one_where_all_are_there() -> None:
    release = "7.2.9+deb14-amd64"
    parts = [f"linux-{part}-{release}" for part in ("base", "binary", "modules")]
    whole = [package(f"linux-image-{release}", "7.2.9-1", *parts), *(package(part, "7.2.9-1") for part in parts)]
    assert len(newest(whole)["7.2-amd64"].packages) == 4
    without_configuration = [whole[0], *whole[2:]]
    assert len(newest(without_configuration)["7.2-amd64"].packages) == 3
    assert newest(whole[:-1]) == {}  # the mirror dropped the modules
    assert newest([*whole[:-1], package(parts[-1], "7.2.8-1")]) == {}


def uris(*rows: str) -> list[str]:
    return [f"{row}/main/binary-amd64/Packages.xz" for row in rows]


@pytest.mark.parametrize(
    ("given", "main", "security"),
    [
        ([f"{MIRROR}/dists/bookworm"], MIRROR, f"{MIRROR}-security"),
        ([f"{MIRROR}/dists/sid"], MIRROR, f"{MIRROR}-security"),
        (["http://other.example/dists/trixie", f"{MIRROR}/dists/trixie"], MIRROR, f"{MIRROR}-security"),
        (
            ["mirror+file:/etc/m.list/dists/trixie", "mirror+file:/etc/s.list/dists/trixie-security"],
            "mirror+file:/etc/m.list",
            "mirror+file:/etc/s.list",
        ),
        (["http://cache.example/d/dists/trixie"], "http://cache.example/d", None),
    ],
)
def test_other_suites_come_from_the_machines_own_mirror(given: list[str], main: str, security: str | None) -> None:
    rows = sources(uris(*given))
    assert (main, "sid") in rows
    assert (main, "trixie-backports") in rows
    assert ((security, "bullseye-security") if security else (main, "bullseye")) in rows


def test_a_machine_of_another_distribution_is_told() -> None:
    with pytest.raises(UsageError, match=r"no Debian mirror.*or name a kernel of your own"):
        sources(uris("http://archive.example/ubuntu/dists/noble", "http://x.example/dists/cloud-sdk-bookworm"))


def test_a_kernel_is_fetched_once_and_verified_each_time(mirror: FakeMirror, told: list[str]) -> None:
    mirror.add_kernel()
    kernel = provision("6.1-cloud", told.append)
    assert (kernel.release, kernel.version, kernel.flavour) == ("6.1.0-9-cloud-amd64", "6.1.20-1", "cloud")
    assert kernel.config["HZ"] == "250"
    assert (kernel.modules / "kernel/virtio.ko").read_bytes() == b"module"
    mirror.goes_down("Could not resolve 'mirror.example'")  # what is here needs no network
    assert provision("6.1-cloud", told.append) == kernel
    assert provision(kernel.release, told.append).digest == kernel.digest
    assert mirror.calls() == 1
    (kernel.modules / "kernel/virtio.ko").write_bytes(b"another")
    with pytest.raises(LeadlineError, match=r"was changed since it was made: sha256.*remove the directory"):
        provision("6.1-cloud", told.append)


def test_the_cache_counts_until_the_newest_is_asked_for(mirror: FakeMirror, told: list[str]) -> None:
    mirror.add_kernel()
    first = provision("6.1-cloud", told.append)
    mirror.add_kernel("6.1.0-10-cloud-amd64", "6.1.21-1")
    (listed,) = kernels.kernels(told.append, refresh=True)
    assert (listed.version, listed.cached) == ("6.1.21-1", "6.1.20-1")
    assert provision("6.1-cloud", told.append) == first
    second = provision("6.1-cloud", told.append, renew=True)
    assert second.version == "6.1.21-1"
    assert provision("6.1-cloud", told.append) == second
    assert provision("6.1.0-9-cloud-amd64", told.append).digest == first.digest


def test_without_network_the_list_that_is_there_counts(mirror: FakeMirror, told: list[str]) -> None:
    mirror.add_kernel()
    kernels.kernels(told.append)
    mirror.goes_down("Could not resolve 'mirror.example'")
    (mirror.folder / "Packages").unlink()
    assert [each.name for each in kernels.kernels(told.append, refresh=True)] == ["6.1-cloud"]
    assert any("Could not resolve" in line and "going on with the list of" in line for line in told)
    with pytest.raises(LeadlineError, match=r"could not fetch linux-image-6.1.*Could not resolve"):
        provision("6.1-cloud", told.append)


def test_without_any_list_the_reason_is_told(mirror: FakeMirror, told: list[str]) -> None:
    mirror.goes_down("Could not resolve 'mirror.example'")
    with pytest.raises(LeadlineError, match="could not read Debian's package lists; it said: E: Could not resolve"):
        kernels.kernels(told.append)


def test_a_full_disk_is_of_the_infrastructure(mirror: FakeMirror, told: list[str]) -> None:
    mirror.add_kernel()
    kernels.kernels(told.append)
    mirror.goes_down("Write error - write (28: No space left on device)")
    with pytest.raises(TrialFailure, match="the disk is full; free some room"):
        provision("6.1-cloud", told.append)
    with pytest.raises(TrialFailure, match=r"needs about .* MB of room"):
        debian.require_room(mirror.folder, 1 << 60, "linux-image")


def test_a_name_that_is_none_is_refused_with_the_nearest(mirror: FakeMirror, told: list[str]) -> None:
    mirror.add_kernel()
    with pytest.raises(UsageError, match=r"no kernel '6.1-clod'; did you mean 6.1-cloud\?"):
        provision("6.1-clod", told.append)
    with pytest.raises(UsageError, match=r"no kernel 'xyz'; there is 6\.1-cloud"):
        provision("xyz", told.append)


def test_a_machine_without_apt_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match=r"apt-get is not on this machine.*a bzImage, a package or a build directory"):
        provision("6.1-cloud", told.append)


def test_what_a_killed_process_left_is_made_anew(mirror: FakeMirror, told: list[str]) -> None:
    mirror.add_kernel()
    place = kernels.provision("6.1-cloud", told.append).image.parent
    (place / "sealed.json").unlink()  # as before the last step
    half = place.with_name(f".{place.name}.x.half")
    half.mkdir()
    assert provision("6.1-cloud", told.append).image.exists()
    assert not half.exists()


def test_several_processes_fetch_one_after_the_other(mirror: FakeMirror, told: list[str], tmp_path: Path) -> None:
    mirror.add_kernel()
    with exclusive(tmp_path / "cache/kernels/.lock", lambda: None):
        waiting = threading.Event()
        found: list[Kernel] = []
        other = threading.Thread(target=lambda: found.append(provision("6.1-cloud", lambda _: waiting.set())))
        other.start()
        assert waiting.wait(30)  # it told that it waits
        assert not found
    other.join(60)
    assert found[0].name == "6.1-cloud"


def tree_of(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def of_an_image(root: Path) -> Path:
    files = {"boot/vmlinuz-6.9.1": image("6.9.1"), "boot/config-6.9.1": b"CONFIG_HZ=300\n"}
    return tree_of(root, {**files, "lib/modules/6.9.1/kernel/virtio.ko": b"m"}) / "boot/vmlinuz-6.9.1"


def of_a_build(root: Path) -> Path:
    built = {"arch/x86/boot/bzImage": image("6.9.1"), ".config": b"CONFIG_HZ=300\n"}
    return tree_of(root, {**built, "modules.order": b"drivers/virtio.o\n", "drivers/virtio.ko": b"m"})


def of_a_package(root: Path) -> Path:
    root.mkdir()
    mirror = FakeMirror(root / "packages")
    files = {"boot/vmlinuz-6.9.1": image("6.9.1"), "boot/config-6.9.1": b"CONFIG_HZ=300\n"}
    return mirror.add("linux-image-6.9.1", "1", {**files, "lib/modules/6.9.1/kernel/virtio.ko": b"m"})


@pytest.mark.parametrize("make", [of_an_image, of_a_build, of_a_package])
def test_a_local_kernel_is_taken_as_it_is_now(
    make: Callable[[Path], Path], mirror: FakeMirror, told: list[str], tmp_path: Path
) -> None:
    path = make(tmp_path / "own")
    kernel = provision(str(path), told.append)
    assert (kernel.name, kernel.release, kernel.flavour) == (str(path), "6.9.1", "local")
    assert kernel.config == {"HZ": "300"}
    assert [found.name for found in kernel.modules.rglob("*.ko")] == ["virtio.ko"]
    assert provision(str(path), told.append) == kernel
    for changed in path.parent.rglob("vmlinuz-*") if path.is_file() else [path / "arch/x86/boot/bzImage"]:
        if make is not of_a_package:
            changed.write_bytes(image("6.9.1") + b"changed")
            assert provision(str(path), told.append).digest != kernel.digest
    assert mirror.calls() == 0


def test_what_is_no_kernel_is_told(mirror: FakeMirror, told: list[str], tmp_path: Path) -> None:
    text, empty = tmp_path / "text", tmp_path / "empty"
    text.write_text("hello")
    empty.mkdir()
    for path, message in (
        (text, "is no kernel image for x86"),
        (empty, "holds no kernel: there is no arch/x86/boot/bzImage"),
        (tmp_path / "nothing", "there is no such file"),
        (mirror.add("linux-doc", "1", {"a": b""}), "holds no kernel: there is no vmlinuz"),
    ):
        with pytest.raises(UsageError, match=message):
            provision(str(path), told.append)


def test_traits_are_those_of_the_configuration() -> None:
    old = options_of("CONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_HZ=250\nCONFIG_PSI=y\nCONFIG_ZRAM=m\nCONFIG_MEMCG=y\n")
    new = options_of(
        "CONFIG_PREEMPT_LAZY=y\nCONFIG_PREEMPT_DYNAMIC=y\nCONFIG_HZ=250\nCONFIG_LRU_GEN=y\nCONFIG_LRU_GEN_ENABLED=y\n"
        "CONFIG_PSI=y\nCONFIG_PSI_DEFAULT_DISABLED=y\nCONFIG_TRANSPARENT_HUGEPAGE=y\nCONFIG_TRANSPARENT_HUGEPAGE_MADVISE=y\n"
        '# CONFIG_ZRAM is not set\nCONFIG_LSM="yama,bpf"\n'
    )
    assert traits({}) == {}
    told = {trait: (word, traits(new)[trait]) for trait, word in traits(old).items() if word != traits(new)[trait]}
    assert told == {
        "preemption": ("voluntary", "lazy, preempt= changes it"),
        "transparent huge pages": ("none built", "madvise"),
        "multi-generation LRU": ("off", "on"),
        "pressure stall information": ("on", "off by default"),
        "zram": ("module", "off"),
        "memory cgroup": ("on", "off"),
        "security modules": ("off", "yama,bpf"),
    }
    assert differences(old, new)["ZRAM"] == ("m", "-")
    assert "HZ" not in differences(old, new)
    assert traits(options_of("CONFIG_PREEMPT_RT=y\n"))["preemption"] == "real time (PREEMPT_RT)"


def kernel_with(release: str, *options: str) -> Kernel:
    config = dict.fromkeys(options, "y")
    return Kernel("own", release, release, "cloud", Path("vmlinuz"), Path("modules"), config, "00")


def test_boot_parameters_are_those_of_the_guests_knobs() -> None:
    levels = {"guest.preempt": "full", "guest.mitigations": "off", "vm.swappiness": 10}
    for kernel in (kernel_with("6.1.0", "PREEMPT_DYNAMIC"), kernel_with("6.1.0")):  # nothing is known of the second
        assert boot_parameters(kernel, levels) == ["preempt=full", "mitigations=off"]


@pytest.mark.parametrize(
    ("kernel", "knob", "level", "why"),
    [
        (kernel_with("5.10.0", "HZ"), "preempt", "full", "it was built without PREEMPT_DYNAMIC"),
        (kernel_with("6.1.0", "PREEMPT_DYNAMIC"), "preempt", "lazy", "it knows none and voluntary and full"),
        (kernel_with("7.2.1", "PREEMPT_DYNAMIC", "ARCH_HAS_PREEMPT_LAZY"), "preempt", "none", "it knows full and lazy"),
        (kernel_with("6.12.1", "PREEMPT_DYNAMIC", "PREEMPT_RT"), "preempt", "voluntary", "it knows full"),
        (kernel_with("6.1.0", "PREEMPT_RT"), "transparent_hugepage", "never", "built without TRANSPARENT_HUGEPAGE"),
    ],
)
def test_parameters_that_a_kernel_would_pass_over_are_refused(kernel: Kernel, knob: str, level: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"kernel own knows no {knob}={level}: .*{why}"):
        boot_parameters(kernel, {f"guest.{knob}": level})


def test_busybox_is_this_machines_or_debians(
    mirror: FakeMirror, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dynamic = shutil.which("sh")
    assert dynamic is not None
    assert not kernels.is_static(Path(dynamic).resolve())
    (mirror.folder / "bin" / "busybox").symlink_to(dynamic)
    mirror.add("busybox-static", "1.38", {"usr/bin/busybox": b"program"})
    found = kernels.busybox(told.append)
    assert found.read_bytes() == b"program"
    mirror.goes_down("no network")
    assert kernels.busybox(told.append) == found
    found.write_bytes(b"changed")
    with pytest.raises(LeadlineError, match="was changed"):
        kernels.busybox(told.append)


def test_a_seal_covers_every_file(tmp_path: Path) -> None:
    target = tmp_path / "made"

    def fill(work: Path) -> dict[str, str]:
        tree_of(work, {"a/b": b"1", "c": b"2"})
        return {"name": "x"}

    digest = debian.make_sealed(target, fill)["digest"]
    assert debian.verified(target)["digest"] == digest
    (target / "c").rename(target / "d")
    with pytest.raises(LeadlineError, match="was changed"):
        debian.verified(target)
    assert debian.sealed_facts(tmp_path / "none") is None


VERSIONS = {
    "5.10.0-46-cloud-amd64": "5.10.262-1",
    "6.1.0-55-cloud-amd64": "6.1.192-1",
    "6.1.0-56-cloud-amd64": "6.1.192-2",
    "6.1.0-0.deb11.56-cloud-amd64": "6.1.192-2~deb11u1",
    "6.1.0-57-cloud-amd64": "6.1.193-1",
    "6.1.0-57-rt-amd64": "6.1.193-1",
    "6.12.9+deb13-cloud-amd64": "6.12.9-1",
    "6.12.10+deb13-cloud-amd64": "6.12.10-1",
}
RELEASES = list(VERSIONS)


@pytest.fixture
def _lists(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lists:
        def packages(self, _progress: object, _age: float) -> list[Package]:
            return [
                Package(f"linux-image-{name}", version, "suite", "00", 10) for name, version in sorted(VERSIONS.items())
            ]

    monkeypatch.setattr(kernels, "_archive", Lists)


def found(first: str, last: str) -> list[str]:
    return between(first, last, lambda _text: None)


@pytest.mark.usefixtures("_lists")
def test_lines_of_a_flavour_are_ordered_by_number() -> None:
    assert found("5.10-cloud", "6.12-cloud") == ["5.10-cloud", "6.1-cloud", "6.12-cloud"]
    assert found("6.12-cloud", "6.1-cloud") == ["6.12-cloud", "6.1-cloud"]
    assert found("6.1-cloud", "6.1-cloud") == ["6.1-cloud", "6.1-cloud"]


@pytest.mark.usefixtures("_lists")
def test_releases_are_ordered_by_version_and_one_build_of_each_counts() -> None:
    assert found(RELEASES[1], RELEASES[-1]) == [*RELEASES[1:3], RELEASES[4], *RELEASES[6:]]
    assert found(RELEASES[-1], RELEASES[4]) == [RELEASES[-1], RELEASES[-2], RELEASES[4]]
    assert found(RELEASES[3], RELEASES[4]) == RELEASES[3:5]  # the build that is named


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        ("6.1-cloud", "6.1-rt", "6.1-cloud and 6.1-rt are two flavours, which have no order: name two of one flavour"),
        ("6.1-cloud", RELEASES[-1], f"6.1-cloud is a line of kernels and {RELEASES[-1]} one release"),
        ("6.1-clod", "6.12-cloud", "no kernel '6.1-clod'; did you mean 6.1-cloud?"),
    ],
)
@pytest.mark.usefixtures("_lists")
def test_what_has_no_order_is_refused(first: str, last: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        found(first, last)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "kernel"),
    [("6.1-cloud", True), (RELEASES[-1], True), ("./bzImage-6.1-x", False), ("256m", False), ("0.5", False)],
)
@pytest.mark.usefixtures("_lists")
def test_names_of_kernels_are_told_from_other_levels(text: str, kernel: bool) -> None:
    assert is_name(text) is kernel
