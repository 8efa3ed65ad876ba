"""What makes a guest: QEMU's command line for it, and its initial file system.

Virtual time is ``-icount shift=1,sleep=off`` with a seed and the machine's own clock: two nanoseconds an instruction,
nothing of the host's time (QEMU's docs/devel/tcg-icount.rst). QEMU records, for then its main thread waits while the
guest's processor executes (docs/devel/replay.txt); else it may move the clock of a processor that has just halted,
before its instructions are counted (softmmu/icount.c, icount_start_warp_timer). Nobody keeps the record.

The guest gets its job over fw_cfg, which QEMU reads again from another file when a saved guest goes on. Results leave
over a virtio port without an event descriptor (``ioeventfd=off``), as everything that a thread of the host's would do
later is another time in every run. There is no HPET: its saved counter would be one more clock to put back.

The initial file system is a cpio archive in the format newc, the same bytes for the same content. The kernel unpacks
archives one after the other from one file, so that a large part (a stack) is written once and shared by kernels. It
holds the program with which a guest pauses itself, the same instruction in every run. Source: Linux,
Documentation/driver-api/early-userspace/buffer-format.rst.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import re
import shutil
import stat
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal

import leadline
from leadline.host import here
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import Level
from leadline.places.guest.kernels import Kernel

_MARK = 0x6C6561646C696E65  # in r13, beside the time in r12: a saved processor's registers follow each other
_SINCE = 16  # ns from that time to the pause: eight instructions
_CLOCK = b"\x0ctimer/icount"  # the clock's part of a saved state: version, offset (ns), instructions
_CODE = bytes.fromhex(
    "488b7c2410"  # mov rdi, [rsp+16]        argument 1: the resource file of the PCI device
    "6a025e6a02580f05"  # open(rdi, O_RDWR)  push 2; pop rsi; push 2; pop rax; syscall
    "85c07857"  # test eax, eax; js fail
    "4189c031ff"  # mov r8d, eax; xor edi, edi
    "be00100000"  # mov esi, 4096
    "6a035a6a01415a4531c9"  # push 3; pop rdx; push 1; pop r10; xor r9d, r9d
    "6a09580f05"  # mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
    "4889c3483d00f0ffff7733"  # mov rbx, rax; cmp rax, -4096; ja fail
    "6a035fb8ac0000000f05"  # iopl(3)
    "85c07525"  # test eax, eax; jne fail
    "e4610c01e661"  # in al, 0x61; or al, 1; out 0x61, al
    "0f3148c1e2204809c24989d4"  # rdtsc; shl rdx, 32; or rdx, rax; mov r12, rdx
    f"49bd{_MARK.to_bytes(8, 'little').hex()}"  # mov r13, mark
    "4889df6a615a6c"  # mov rdi, rbx; push 0x61; pop rdx; insb: the machine pauses here
    "31c0"  # xor eax, eax
    "f7d889c76a3c580f05"  # fail: exit(-eax)
)
_BASE = 0x400000
_HEADERS = 64 + 56


def program() -> bytes:
    """An ELF executable of one segment for x86-64."""
    size = _HEADERS + len(_CODE)
    #                                  type, machine, version, entry, program headers, sections, flags,
    #                                  sizes and counts of headers
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    #         loaded, readable and executable, offset, addresses, sizes, alignment
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + segment + _CODE


def settle(state: Path, shift: int) -> None:
    """Put the clock of a guest that was saved in virtual time (2**shift ns an instruction) back to when it paused.

    Raises ValueError where the state has no such clock or no such pause.
    """
    with state.open("r+b") as file:
        content = file.read()
        mark, clock = content.find(_MARK.to_bytes(8, "big")), content.find(_CLOCK)
        if mark < 8 or clock < 0:
            raise ValueError("the saved state tells no time of its pause")
        paused = int.from_bytes(content[mark - 8 : mark], "big") + _SINCE
        at = clock + len(_CLOCK) + 4
        offset, instructions = struct.unpack(">qq", content[at : at + 16])
        settled = paused - (instructions << shift)
        if settled > offset:
            raise ValueError("the saved state's clock is before its pause")
        file.seek(at)
        file.write(struct.pack(">q", settled))


# What machine.py needs, then what a job may need: disks in memory, swap, file systems.
REQUIRED = ("qemu_fw_cfg", "virtio_pci", "virtio_console")
OPTIONAL = ("virtio_blk", "null_blk", "brd", "zram", "ext4", "overlay")
# Modules that make devices as they are loaded: a job loads them itself, with its parameters (`modprobe` by path).
LOADED_BY_JOBS = ("null_blk", "brd", "zram")
_SCRIPTS = {"init": "init.sh", "lib/leadline/run.sh": "run.sh", "lib/leadline/job.sh": "job.sh"}
_MODULES = "lib/leadline/modules"
_CHUNK = 1 << 20
_LARGEST = 0xFFFFFFFF  # bytes of a file: eight hexadecimal digits


@dataclass(frozen=True)
class Node:
    """A file of the guest: its content (a file of this host or bytes), or where a symbolic link points; or a directory.

    ``mode`` None: executable where the host's file is, else 0644; a directory is open to all.
    """

    content: Path | bytes = b""
    link: str | None = None
    mode: int | None = None
    user: int = 0
    group: int = 0
    directory: bool = False

    @property
    def permissions(self) -> int:
        if self.mode is not None:
            return self.mode
        if self.directory:
            return 0o755
        executable = isinstance(self.content, Path) and self.content.stat().st_mode & 0o100
        return 0o755 if executable else 0o644

    def size(self) -> int:
        if self.link is not None:
            return len(os.fsencode(self.link))
        return self.content.stat().st_size if isinstance(self.content, Path) else len(self.content)

    def chunks(self) -> Iterator[bytes]:
        if self.link is not None:
            yield os.fsencode(self.link)
        elif isinstance(self.content, bytes):
            yield self.content
        else:
            with self.content.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    yield chunk


Source = Node | Path | bytes
Tree = Mapping[str, Source]  # by path in the guest, without a slash at its begin


def write_archive(tree: Tree, path: Path) -> str:
    """The archive of ``tree``, directories made where they are missing; returns its SHA-256.

    Raises OSError, ValueError for a file over 4 GiB or a path that leaves the root.
    """
    nodes = {_clean(name): entry if isinstance(entry, Node) else Node(entry) for name, entry in tree.items()}
    parents = {str(above) for name in nodes for above in PurePosixPath(name).parents} - {".", *nodes}
    with path.open("wb") as file:
        out = _Hashed(file)
        for number, name in enumerate(sorted({*nodes, *parents}), start=1):
            if name in nodes:
                node = nodes[name]
                kind = stat.S_IFDIR if node.directory else stat.S_IFREG if node.link is None else stat.S_IFLNK
                mode = kind | (0o777 if node.link is not None else node.permissions)
                _member(out, name, number, mode, node)
            else:
                _member(out, name, number, stat.S_IFDIR | 0o755, Node())
        _member(out, "TRAILER!!!", 0, 0, Node())
        out.pad(512)
    return out.digest.hexdigest()


def cached_archive(tree: Tree, directory: Path) -> Path:
    """The archive of ``tree`` in ``directory``, named by its content. Raises as ``write``."""
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory / f".{uuid.uuid4().hex}"
    try:
        final = directory / f"{write_archive(tree, temporary)}.cpio"
        temporary.replace(final)
    finally:
        temporary.unlink(missing_ok=True)
    return final


def join_archives(parts: Sequence[Path], path: Path) -> None:
    """One file of several archives, as the kernel unpacks them: later ones on top."""
    with path.open("wb") as out:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, out, _CHUNK)


class _Hashed:
    """A file with the digest and the count of what was written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.written = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self.digest.update(data)
        self.written += len(data)

    def pad(self, size: int) -> None:
        self.write(bytes(-self.written % size))


def _clean(name: str) -> str:
    path = PurePosixPath(name.lstrip("/"))
    if ".." in path.parts or not path.parts:
        raise ValueError(f"{name!r} is no path of a guest's file system")
    return str(path)


def _member(out: _Hashed, name: str, number: int, mode: int, node: Node) -> None:
    size, encoded = node.size(), os.fsencode(name) + b"\0"
    if size > _LARGEST:
        raise ValueError(f"{name} has {size:,} bytes; a file of an initial file system may have 4 GiB")
    links = 2 if stat.S_ISDIR(mode) else 1
    #        inode, mode, user, group, links, mtime, size, device (2), special (2), name, checksum
    fields = (number, mode, node.user, node.group, links, 0, size, 0, 0, 0, 0, len(encoded), 0)
    out.write(b"070701" + b"".join(b"%08X" % field for field in fields) + encoded)
    out.pad(4)
    begin = out.written
    for chunk in node.chunks():
        out.write(chunk)
    if out.written - begin != size:
        raise OSError(f"{node.content!s} changed while it was packed")
    out.pad(4)


# -- what goes in


def base_system(busybox: Path) -> dict[str, Source]:
    """A static busybox and leadline's scripts."""
    scripts = Path(__file__).parent
    tree: dict[str, Source] = {
        name: Node((scripts / script).read_bytes(), mode=0o755) for name, script in _SCRIPTS.items()
    }
    tree["lib/leadline/pause"] = Node(program(), mode=0o755)
    return tree | {"bin/busybox": Node(busybox.resolve(), mode=0o755), f"{_MODULES}/order": b""}


def libraries(programs: Iterable[Path]) -> dict[str, Source]:
    """Shared libraries that ``ldd`` names for these programs, by the paths under which they are looked for.

    Raises TrialFailure(infrastructure) for one that is missing.
    """
    tree: dict[str, Source] = {}
    for program in programs:
        for line in here.run(["ldd", str(program)], timeout=60).stdout.splitlines():
            if "not found" in line:
                raise TrialFailure(FailureClass.INFRASTRUCTURE, f"{program} needs {line.split()[0]}, which is missing")
            if match := re.search(r"(/\S+) \(0x", line):
                tree[match[1].lstrip("/")] = Node(Path(match[1]).resolve(), mode=0o755)
    return tree


def modules(
    directory: Path, required: Sequence[str] = REQUIRED, optional: Sequence[str] = OPTIONAL
) -> dict[str, Source]:
    """Modules with those they need, out of a kernel's ``lib/modules/RELEASE``, and the order to load them in.

    What is built in is left out; so are optional ones that this kernel lacks. Raises TrialFailure(configuration) naming
    a required one.
    """
    files = {_module(path.name): path for path in sorted(directory.rglob("*.ko*"))}
    builtin_list = directory / "modules.builtin"
    builtin = (
        {_module(PurePosixPath(line).name) for line in builtin_list.read_text().split()}
        if builtin_list.exists()
        else set()
    )
    order: dict[str, bytes] = {}

    def add(name: str, by: str) -> None:
        if name in builtin or name in order:
            return
        if name not in files:
            raise TrialFailure(FailureClass.CONFIGURATION, f"kernel {directory.name} has no module {name}{by}")
        content = _plain(files[name])
        needed, softly = _before(content)
        for other in needed:
            add(other, f", which {name} needs")
        for other in softly:
            if module := next((candidate for candidate in (other, f"{other}_generic") if candidate in files), None):
                add(module, "")
        order[name] = content

    for name in map(_module, required):
        add(name, ", which a guest needs")
    for name in map(_module, optional):
        if name in files:
            add(name, "")
    loaded = [name for name in order if name not in LOADED_BY_JOBS]
    tree: dict[str, Source] = {f"{_MODULES}/{name}.ko": content for name, content in order.items()}
    return tree | {f"{_MODULES}/order": "".join(f"{name}.ko\n" for name in loaded).encode()}


def _module(name: str) -> str:
    return name.partition(".")[0].replace("-", "_")


def _plain(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".ko":
        return content
    if path.suffix == ".zst":
        return here.exchange(["zstd", "-dcq"], content, timeout=60).stdout
    unpack = {".xz": lzma.decompress, ".gz": gzip.decompress}.get(path.suffix)
    if unpack is None:
        endings = ".ko, .ko.xz, .ko.gz, .ko.zst"
        raise TrialFailure(FailureClass.CONFIGURATION, f"{path.name} is packed as {path.suffix}; {endings} are read")
    return unpack(content)


def _before(module: bytes) -> tuple[list[str], list[str]]:
    """Of the section ``.modinfo``: modules that are needed, and those that should be there before."""
    fields = re.findall(rb"\0(depends|softdep)=([^\0]*)", module)
    needed = [name for key, value in fields if key == b"depends" for name in value.decode().split(",") if name]
    softly = [value.decode().partition("pre:")[2].partition("post:")[0] for key, value in fields if key == b"softdep"]
    return list(map(_module, needed)), [_module(name) for names in softly for name in names.split()]


BLOCKS = "blocks"  # file of a guest's directory: address (hexadecimal), instructions and executions of each block
LIBRARY = "libleadline_instructions.so"
_PACKAGE = Path(leadline.__file__).parent
_PLACES = (_PACKAGE / "_bin", _PACKAGE.parent / "driver" / "target" / "release")
_QUIT = b'{"execute":"qmp_capabilities"}{"execute":"quit"}'


@dataclass(frozen=True)
class Counter:
    """Of one guest. ``marks``: addresses; the longest stretch between two executions of any of them counts."""

    library: Path
    marks: Sequence[int] = ()

    def options(self, out: str = BLOCKS) -> list[str]:
        """QEMU's, to run in the directory of a guest's files."""
        library = str(self.library).replace(",", ",,")
        words = [f"file={library}", f"out={out}", *(f"mark={address:x}" for address in self.marks)]
        return ["-plugin", ",".join(words)]


@cache
def library() -> Path | str:
    """The plugin, or why there are no counts on this machine."""
    path = next((place / LIBRARY for place in _PLACES if (place / LIBRARY).is_file()), None)
    if path is None:
        return f"{LIBRARY} is not built (make install)"
    empty = [QEMU, "-machine", "none", "-accel", "tcg", "-nodefaults", "-display", "none", "-qmp", "stdio"]
    try:
        done = here.run([*empty, *Counter(path).options("/dev/null")], _QUIT, timeout=60.0)
    except OSError as error:
        return f"{QEMU} cannot be asked for its plugins: {error}"
    return path if done.returncode == 0 else f"{QEMU} takes no such plugin: {done.stderr.strip()[-200:]}"


_LAZY_ALONE = (7, 0)  # from this version on what is not full is lazy, on processors that can be lazy


def boot_parameters(kernel: Kernel, levels: Mapping[str, Level]) -> list[str]:
    """``preempt=full`` and the like, of the guest's knobs among ``levels``.

    Raises UsageError for one that this kernel, as it was built, would pass over in silence.
    """
    parameters = []
    for knob in ("guest.preempt", "guest.mitigations", "guest.transparent_hugepage"):
        if knob not in levels:
            continue
        parameter = f"{knob.removeprefix('guest.')}={levels[knob]}"
        if kernel.config and (why := _unknown(kernel, knob, str(levels[knob]))):
            raise UsageError(f"kernel {kernel.name} knows no {parameter}: {why}")
        parameters.append(parameter)
    return parameters


def _unknown(kernel: Kernel, knob: str, level: str) -> str:
    """Why the parameter would do nothing; empty where it does something."""
    if knob == "guest.transparent_hugepage" and "TRANSPARENT_HUGEPAGE" not in kernel.config:
        return "it was built without TRANSPARENT_HUGEPAGE"
    if knob != "guest.preempt":
        return ""
    if "PREEMPT_DYNAMIC" not in kernel.config:
        return "it was built without PREEMPT_DYNAMIC"
    modes = _modes(kernel)
    return "" if level in modes else f"it knows {' and '.join(modes)}"


def _modes(kernel: Kernel) -> list[str]:
    """Modes between which ``preempt=`` chooses (kernel/sched/core.c)."""
    lazy = "ARCH_HAS_PREEMPT_LAZY" in kernel.config
    number = tuple(int(part) for part in re.findall(r"\d+", kernel.release)[:2])
    restricted = "PREEMPT_RT" in kernel.config or (lazy and number >= _LAZY_ALONE)
    return [*(() if restricted else ("none", "voluntary")), "full", *(("lazy",) if lazy else ())]


QEMU = "qemu-system-x86_64"
CPU = "max,-erms,-fsrm"  # of virtual time: QEMU counts a string instruction once for each of its bytes
SHIFT = 1  # of virtual time: 2**SHIFT ns an instruction
CONSOLE, RESULTS, JOB = "console.txt", "results", "job"  # files of a guest's directory


@dataclass(frozen=True)
class Boot:
    """What makes a guest: ``memory`` in bytes; ``parameters`` end the kernel's command line.

    ``accelerator`` counts in real time only: ``kvm`` where ``machine.probe`` found that it works.
    """

    kernel: Path
    initramfs: Path
    memory: int
    cpus: int = 1
    time: Literal["virtual", "real"] = "virtual"
    seed: int = 1
    parameters: Sequence[str] = ()
    accelerator: Literal["tcg", "kvm"] = "tcg"


def command_line(boot: Boot, memory: str) -> list[str]:
    """QEMU's, to run in the directory of its files; it starts stopped. ``memory``: the backend ``ram``."""
    words = ["console=ttyS0", "panic=-1", "quiet", "random.trust_cpu=on"]
    argv = [QEMU, "-machine", "q35,memory-backend=ram,hpet=off", "-nodefaults", "-no-user-config", "-display", "none"]
    argv += ["-no-reboot", "-S", "-cpu", CPU if boot.time == "virtual" else "max", "-smp", str(boot.cpus)]
    argv += ["-m", f"{boot.memory}B", "-object", memory]
    if boot.time == "virtual":
        words += ["clocksource=tsc", "tsc=reliable"]
        argv += ["-accel", "tcg,thread=single", "-icount", f"shift={SHIFT},sleep=off,rr=record,rrfile=/dev/null"]
        argv += ["-seed", str(boot.seed), "-rtc", "base=2026-01-01,clock=vm"]
    else:
        argv += ["-accel", "kvm" if boot.accelerator == "kvm" else "tcg,thread=multi"]
    argv += ["-qmp", "stdio", "-serial", f"file:{CONSOLE}", "-device", "virtio-serial-pci,ioeventfd=off"]
    argv += ["-chardev", f"file,id=results,path={RESULTS}", "-device", "virtserialport,chardev=results,name=leadline"]
    argv += ["-device", "pvpanic-pci", "-action", "panic=pause"]
    argv += ["-fw_cfg", f"name=opt/leadline/job,file={JOB}"]
    argv += ["-kernel", str(boot.kernel.absolute()), "-initrd", str(boot.initramfs.absolute())]
    return [*argv, "-append", " ".join([*words, *boot.parameters])]
