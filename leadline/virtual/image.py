"""What a guest's root holds: the files of a stack at their own paths, a runtime of its JDK, the driver, libraries."""

from __future__ import annotations

import filecmp
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from leadline.guest.initramfs import Node, Source
from leadline.host import here
from leadline.host.paths import cache_dir
from leadline.model.errors import LeadlineError
from leadline.virtual.capture import Captured
from leadline.virtual.job import OVERLAYS, SETTINGS, USERS

# All of Java SE with what servers use beside it.
_MODULES = (
    "java.se,jdk.unsupported,jdk.management,jdk.management.agent,jdk.attach,jdk.crypto.ec,jdk.naming.dns,jdk.zipfs,"
    "jdk.net,jdk.httpserver,jdk.jfr,jdk.charsets,jdk.security.auth,jdk.security.jgss,jdk.xml.dom,jdk.jdi"
)
_LINK = 300.0  # seconds that jlink may take
_USERS = {"root": 0, **USERS}
_TEXTS = {
    "/etc/hosts": "127.0.0.1 localhost guest\n",
    "/etc/nsswitch.conf": "hosts: files\npasswd: files\ngroup: files\n",
    "/etc/passwd": "".join(f"{name}:x:{uid}:{uid}::/tmp:/bin/sh\n" for name, uid in _USERS.items()),
    "/etc/group": "".join(f"{name}:x:{uid}:\n" for name, uid in _USERS.items()),
}


def contents(captures: Sequence[Captured], driver: Iterable[Path], settings: Iterable[str]) -> dict[str, Source]:
    """By path in the guest. ``driver``: its program and what it reads; ``settings``: patterns of files that tell how
    the kernel is set.

    Raises LeadlineError, OSError.
    """
    nodes: dict[str, Node] = {path: Node(text.encode()) for path, text in _TEXTS.items()}
    nodes[SETTINGS] = Node("".join(f"{path}\n" for path in settings).encode())
    for path in dict.fromkeys(path for captured in captures for path in captured.reads):
        tree = runtime(path) if (path / "bin" / "java").exists() else path
        nodes.update(_tree(tree, path))
    for path in driver:
        nodes.update(_tree(path, path))
    for number, captured in enumerate(captures):
        for process in captured.processes:
            own = _tree(process.files, Path("/"), USERS[process.spec.name], {process.spec.cwd, *process.spec.owns})
            for name, node in own:
                if number == 0 or name not in nodes:
                    nodes[name] = node
                elif not _same(nodes[name], node):
                    nodes[f"{OVERLAYS}/{number}{name}"] = node
    for part in ("logs", "raw"):  # services write there, into files that are theirs or that they make
        nodes.setdefault(str(captures[0].directory / part), Node(directory=True, mode=0o1777))
    for path in _libraries(_programs(nodes.values())):
        nodes.setdefault(str(path), Node(path.resolve(), mode=0o755))
    return dict(nodes)


def runtime(jdk: Path) -> Path:
    """A small runtime of a JDK, made once; the JDK itself where it cannot be linked. Raises LeadlineError."""
    tool = jdk / "bin" / "jlink"
    if not tool.exists() or not (jdk / "jmods").is_dir():
        return jdk
    content = (jdk / "release").read_bytes() + _MODULES.encode()
    target = cache_dir() / "guests" / f"runtime-{hashlib.sha256(content).hexdigest()[:16]}"
    if target.exists():
        return target
    work = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(work, ignore_errors=True)
    work.parent.mkdir(parents=True, exist_ok=True)
    argv = [str(tool), "--add-modules", _MODULES, "--no-header-files", "--no-man-pages", "--output", str(work)]
    for command in (argv, [str(work / "bin" / "java"), "-Xshare:dump"]):
        done = here.run(command, timeout=_LINK)
        if done.returncode != 0:
            raise LeadlineError(f"no runtime of {jdk} can be made: {(done.stdout + done.stderr).strip()[-300:]}")
    try:
        work.rename(target)
    except OSError:  # another leadline made it meanwhile
        shutil.rmtree(work)
    return target


def _tree(source: Path, target: Path, user: int = 0, owned: Collection[Path | None] = ()) -> Iterator[tuple[str, Node]]:
    """What is at ``source`` with all below it, as it is to be at ``target``, for all to read. ``owned`` and what lies
    in it is ``user``'s, with the modes it has here.
    """
    paths = [source, *sorted(source.rglob("*"))] if source.is_dir() and not source.is_symlink() else [source]
    tops = set(owned)
    first: dict[tuple[int, int], Path] = {}  # of the names of one file
    for path in paths:
        place = target / path.relative_to(source)
        if str(place) == "/":
            continue
        status = path.lstat()
        theirs = not tops.isdisjoint((place, *place.parents))
        who, mode = (user if theirs else 0), stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            yield str(place), Node(link=str(path.readlink()), user=who, group=who)
        elif stat.S_ISDIR(status.st_mode):
            yield str(place), Node(mode=mode if theirs else 0o755, user=who, group=who, directory=True)
        elif not theirs and (same := first.setdefault((status.st_dev, status.st_ino), place)) != place:
            yield str(place), Node(link=str(same))  # a hard link
        elif stat.S_ISREG(status.st_mode):
            yield str(place), Node(path, mode=mode if theirs else mode | 0o444, user=who, group=who)


def _same(one: Node, other: Node) -> bool:
    if isinstance(one.content, Path) and isinstance(other.content, Path):
        return one.mode == other.mode and filecmp.cmp(one.content, other.content, shallow=False)
    return one == other


def _libraries(programs: Sequence[Path]) -> list[Path]:
    """Shared libraries that the programs need, by the paths under which they are looked for. What is not found here
    they do not need here either: a part of the same program that loads it first, or an extension nobody uses.
    """
    listing = here.run(["ldd", *map(str, programs)], timeout=_LINK).stdout
    return [Path(os.path.normpath(path)) for path in dict.fromkeys(re.findall(r"(/\S+) \(0x", listing))]


def _programs(nodes: Iterable[Node]) -> list[Path]:
    """Those that are ELF files."""
    programs = []
    for path in dict.fromkeys(node.content for node in nodes if isinstance(node.content, Path)):
        with path.open("rb") as stream:
            if stream.read(4) == b"\x7fELF":
                programs.append(path)
    return programs
