"""Kernels for guests: Debian's, by LINE-FLAVOUR or release, and local ones by their path.

A kernel is fetched once and kept in the cache: the mirror drops old versions. Its digest is taken each time it is used.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from leadline.host.paths import cache_dir, exclusive
from leadline.model.errors import LeadlineError, UsageError, nearest, quoted
from leadline.places.guest import debian
from leadline.places.guest.debian import Archive, Package, Progress, options_of

_MAGIC, _MAGIC_AT, _VERSION_AT = b"HdrS", 0x202, 0x20E  # of the boot protocol, Documentation/arch/x86/boot.rst
_BUILT_IMAGE = Path("arch/x86/boot/bzImage")


def is_path(name: str) -> bool:
    """Whether a name is meant as a path: a file of a kernel's name is not looked for."""
    return "/" in name or name.endswith(".deb")


def release_of(image: Path) -> str:
    """``uname -r`` of a bzImage. Raises UsageError for something else."""
    with image.open("rb") as stream:
        head = stream.read(0x10000)
    if head[_MAGIC_AT : _MAGIC_AT + 4] != _MAGIC:
        raise UsageError(f"{image} is no kernel image for x86 (bzImage), package (.deb) or build directory")
    (place,) = struct.unpack_from("<H", head, _VERSION_AT)
    text = head[place + 0x200 :].split(b"\0", 1)[0].decode(errors="replace")
    return text.partition(" ")[0]


def from_packages(files: Iterable[Path], work: Path) -> None:
    """Leave image, configuration and modules of a kernel's packages in ``work``, and remove the packages. Raises
    LeadlineError.
    """
    tree = work / "tree"
    for file in files:
        debian.unpack(file, tree)
        file.unlink()
    places = {"boot/vmlinuz-*": "vmlinuz", "**/modules/*/vmlinuz": "vmlinuz", "**/config-*": "config"}
    places["**/modules/*/config"] = "config"
    for pattern, name in places.items():
        for path in tree.glob(pattern):
            path.rename(work / name)
    for modules in [*tree.glob("lib/modules"), *tree.glob("usr/lib/modules")][:1]:
        (work / "lib").mkdir()
        modules.rename(work / "lib" / "modules")
    shutil.rmtree(tree)


@dataclass(frozen=True)
class Source:
    """A kernel somewhere on this machine."""

    path: Path
    kind: Literal["image", "package", "build"]

    @classmethod
    def of(cls, name: str) -> Source:
        """Raises UsageError for a path where no kernel is."""
        path = Path(name).expanduser().absolute()
        if path.is_dir():
            if not (path / _BUILT_IMAGE).is_file():
                raise UsageError(
                    f"{quoted(name, 200)} holds no kernel: there is no {_BUILT_IMAGE}; run make bzImage modules"
                )
            return cls(path, "build")
        if not path.is_file():
            raise UsageError(f"no kernel {quoted(name, 200)}: there is no such file; leadline kernels lists Debian's")
        if path.suffix == ".deb":
            return cls(path, "package")
        release_of(path)
        return cls(path, "image")

    def key(self) -> str:
        """Changes when the image or a module does. Raises OSError."""
        total = hashlib.sha256(f"{self.kind} {self.path}".encode())
        for path in (self._image, *self._modules()):
            status = path.stat()
            total.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
        with self._image.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
        return total.hexdigest()[:16]

    def fill(self, progress: Progress, work: Path) -> debian.Facts:
        """For ``sealed.make``. Raises UsageError, LeadlineError, OSError."""
        progress(f"copying the kernel of {self.path}")
        if self.kind == "package":
            copies = [Path(shutil.copy2(path, work)) for path in (self.path, *self._modules())]
            from_packages(copies, work)
            if not (work / "vmlinuz").exists():
                raise UsageError(f"{self.path} holds no kernel: there is no vmlinuz in it")
        else:
            shutil.copyfile(self._image, work / "vmlinuz")
        release = release_of(work / "vmlinuz")
        modules = work / "lib" / "modules" / release
        modules.mkdir(parents=True, exist_ok=True)
        if self.kind != "package":
            self._copy_rest(release, work, modules)
        return {"name": str(self.path), "release": release, "version": release, "flavour": "local", "suite": ""}

    def _copy_rest(self, release: str, work: Path, modules: Path) -> None:
        configs = [self.path / ".config", self.path.with_name(f"config-{release}"), self.path.with_name("config")]
        for config in configs:
            if config.is_file() and not (work / "config").exists():
                shutil.copyfile(config, work / "config")
        if self.kind == "build":
            for module in self._modules():
                target = modules / "kernel" / module.relative_to(self.path)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(module, target)
            if (built_in := self.path / "modules.builtin").exists():
                shutil.copyfile(built_in, modules / built_in.name)
        elif (installed := self._installed(release)) is not None:
            shutil.copytree(installed, modules, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build", "source"))

    @property
    def _image(self) -> Path:
        return self.path / _BUILT_IMAGE if self.kind == "build" else self.path

    def _installed(self, release: str) -> Path | None:
        """``/boot/vmlinuz-V`` has its modules in ``/lib/modules/V``."""
        roots = (self.path.parent, self.path.parent.parent)
        places = (root / base / "modules" / release for root in roots for base in ("lib", "usr/lib"))
        return next((place for place in places if place.is_dir()), None)

    def _modules(self) -> list[Path]:
        """Files beside the image that belong to it: modules, or the other packages of the same build."""
        if self.kind == "package":
            match = re.fullmatch(r"linux-(?:image|base|binary|modules)-([\w.+~-]+_.+)", self.path.name)
            parts = [f"linux-{part}-{match[1]}" for part in ("base", "binary", "modules")] if match else []
            return [path for part in parts if (path := self.path.with_name(part)) != self.path and path.is_file()]
        if self.kind == "build":
            order = self.path / "modules.order"
            lines = order.read_text().split() if order.exists() else []
            names = (Path(line.removeprefix("kernel/")).with_suffix(".ko") for line in lines)
            return [path for name in names if (path := self.path / name).is_file()]
        installed = self._installed(release_of(self.path))
        return sorted(installed.rglob("*.ko*")) if installed else []


_NAME = re.compile(r"linux-image-((\d+\.\d+)\.\d+\S*?-((?:cloud-|rt-)?amd64))$")
_OLDEST = (5, 10)
_DAY = 86_400.0  # seconds that a package list is good for
_HOUR = 3_600.0  # where a package is to be fetched by it
_MINUTE = 60.0  # where the newest is asked for
_INTERPRETER = 3  # PT_INTERP of elf(5): the program needs a dynamic linker
IMAGE, CONFIG = "vmlinuz", "config"  # files of a kernel's directory


@dataclass(frozen=True)
class Kernel:
    """A kernel that is here. ``release`` is what ``uname -r`` says, ``version`` the package's; ``modules`` is
    ``lib/modules/<release>``, packed as they come; ``config`` as of ``options_of``, empty where it is
    not known; ``digest`` is the SHA-256 over all of it.
    """

    name: str
    release: str
    version: str
    flavour: str
    image: Path
    modules: Path
    config: Mapping[str, str]
    digest: str


@dataclass(frozen=True)
class Listed:
    """A kernel that can be had: ``packages`` to fetch, empty where the mirror has dropped it; ``cached`` the version
    that is here, empty for none.
    """

    name: str
    release: str
    version: str
    flavour: str
    suite: str
    packages: tuple[Package, ...] = ()
    cached: str = ""

    @property
    def size(self) -> int:
        """Bytes to fetch."""
        return sum(package.size for package in self.packages)


def kernels(progress: Progress, refresh: bool = False) -> list[Listed]:
    """The newest of every line and flavour, oldest line first; those of the cache alone where no list can be had, which
    ``progress`` hears. Raises UsageError where there is neither.
    """
    cached = {facts["name"]: facts for facts in _cached()}
    listed = newest(_packages(progress, 0.0 if refresh else _DAY))
    for name, facts in cached.items():
        listed[name] = replace(listed.get(name, _of_cache(facts)), cached=facts["version"])
    return sorted(listed.values(), key=_place)


def releases(progress: Progress) -> list[Listed]:
    """Every release that can be had or is in the cache. Raises as ``kernels``."""
    packages = _packages(progress, _DAY)
    releases = {facts["release"]: _of_cache(facts) for facts in _cached()}
    for release in dict.fromkeys(match[1] for package in packages if (match := _NAME.match(package.name))):
        releases |= {listed.release: listed for listed in newest(packages, any_release=release).values()}
    return list(releases.values())


def _packages(progress: Progress, age: float) -> list[Package]:
    """By lists not older than ``age`` seconds; none where none can be had and the cache has kernels."""
    try:
        with _locked(progress):
            return _archive().packages(progress, age)
    except LeadlineError as error:
        if not _cached():
            raise
        progress(str(error))
        return []


def newest(packages: Iterable[Package], any_release: str = "") -> dict[str, Listed]:
    """The newest complete kernel by its name; with ``any_release`` those of that release."""
    by_name: dict[tuple[str, str], Package] = {}
    for package in packages:
        by_name.setdefault((package.name, package.version), package)
    newest_by_name: dict[str, Listed] = {}
    for (name, version), package in by_name.items():
        match = _NAME.match(name)
        if match is None or _numbers(match[2])[:2] < _OLDEST or any_release not in ("", match[1]):
            continue
        parts = [by_name.get((needed, version)) for needed in package.depends if not needed.startswith("linux-base-")]
        if None in parts:  # a part of it has left the mirror; without its base only the configuration is not known
            continue
        parts += [by_name[needed, version] for needed in package.depends if (needed, version) in by_name]
        flavour = match[3].removesuffix("-amd64")
        listed = Listed(
            f"{match[2]}-{flavour}",
            match[1],
            version,
            flavour,
            package.suite,
            tuple(dict.fromkeys(filter(None, (package, *parts)))),
        )
        if listed.name not in newest_by_name or _age(version) > _age(newest_by_name[listed.name].version):
            newest_by_name[listed.name] = listed
    return newest_by_name


def require_known(name: str, progress: Progress) -> None:
    """Raises UsageError for a name that is no kernel's; nothing is fetched but lists."""
    if is_path(name):
        Source.of(name)
    elif not _kept(name):
        with _locked(progress):
            _chosen(name, progress, _DAY)


def provision(name: str, progress: Progress, renew: bool = False) -> Kernel:
    """The kernel ``name``, in the cache and verified: LINE-FLAVOUR, a release (``6.1.0-56-cloud-amd64``), or a path of
    a bzImage, a package or a build directory. What the cache has of it counts, unless ``renew`` asks for the newest.

    Raises UsageError for an unknown name, with the nearest one; LeadlineError without network, with apt's own words, or
    where a file of the cache was changed; TrialFailure(infrastructure) on a full disk.
    """
    if is_path(name):
        with _locked(progress):
            return _local(name, progress)
    if not renew and (directory := _kept(name)):
        return _opened(directory, name)
    with _locked(progress):
        if not renew and (directory := _kept(name)):  # another process was faster
            return _opened(directory, name)
        listed = _chosen(name, progress, _MINUTE if renew else _HOUR)
        target = _directory() / f"{listed.release}_{listed.version}"
        if debian.sealed_facts(target) is None:
            debian.make_sealed(target, partial(_fill, listed, progress))
    return _opened(target, name)


def busybox(progress: Progress) -> Path:
    """A busybox that needs no library: this machine's, else Debian's. Raises as ``provision``."""
    path = shutil.which("busybox")
    if path and is_static(Path(path)):
        return Path(path)
    with _locked(progress):
        target = _directory() / "busybox"
        if debian.sealed_facts(target) is None:
            listed = [package for package in _archive().packages(progress, _HOUR) if package.name == "busybox-static"]
            if not listed:
                raise UsageError("no static busybox is here and Debian's lists have none: install busybox-static")
            debian.make_sealed(target, partial(_fill_busybox, listed[-1], progress))
        debian.verified(target)
    return target / "busybox"


def is_static(program: Path) -> bool:
    """Whether an ELF program runs without a dynamic linker. Raises OSError."""
    data = program.read_bytes()
    if data[:5] != b"\x7fELF\x02":
        return False
    (place,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)
    kinds = (struct.unpack_from("<I", data, place + size * row) for row in range(count))
    return (_INTERPRETER,) not in kinds


def _directory() -> Path:
    return cache_dir() / "kernels"


def _archive() -> Archive:
    return Archive(_directory() / "apt")


def _locked(progress: Progress) -> AbstractContextManager[None]:
    return exclusive(_directory() / ".lock", lambda: progress("waiting for another process that fetches kernels"))


def _cached() -> list[debian.Facts]:
    """Of kernels of Debian, the newest of each name last."""
    facts_ = [facts for path in _directory().glob("*_*") if (facts := debian.sealed_facts(path))]
    return sorted(facts_, key=lambda facts: _age(facts["version"]))


def _of_cache(facts: debian.Facts) -> Listed:
    name, release, version, flavour, suite = (facts[key] for key in ("name", "release", "version", "flavour", "suite"))
    return Listed(name, release, version, flavour, suite, cached=version)


def _kept(name: str) -> Path | None:
    matching = [facts for facts in _cached() if name in (facts["name"], facts["release"])]
    return _directory() / f"{matching[-1]['release']}_{matching[-1]['version']}" if matching else None


def _opened(directory: Path, name: str) -> Kernel:
    facts = debian.verified(directory)
    config = directory / CONFIG
    return Kernel(
        name,
        facts["release"],
        facts["version"],
        facts["flavour"],
        directory / IMAGE,
        directory / "lib" / "modules" / facts["release"],
        options_of(config.read_text(encoding="utf-8", errors="replace")) if config.exists() else {},
        facts["digest"],
    )


def _chosen(name: str, progress: Progress, age: float) -> Listed:
    """By lists not older than ``age`` seconds."""
    packages = _archive().packages(progress, age)
    kernels_ = newest(packages)
    if name in kernels_:
        return kernels_[name]
    for listed in newest(packages, any_release=name).values():
        return listed
    near = nearest(name, list(kernels_))
    names = (listed.name for listed in sorted(kernels_.values(), key=_place))
    hint = f"did you mean {near}?" if near else f"there is {', '.join(names)}"
    raise UsageError(
        f"no kernel {quoted(name)}; {hint} (or a path with a slash: a bzImage, a package or a build directory)"
    )


def _fill(listed: Listed, progress: Progress, work: Path) -> debian.Facts:
    files = _archive().fetch(listed.packages, work, progress)
    progress(f"unpacking {listed.name} {listed.version}")
    from_packages(files, work)
    return {
        "name": listed.name,
        "release": listed.release,
        "version": listed.version,
        "flavour": listed.flavour,
        "suite": listed.suite,
        "packages": {package.file_name: package.sha256 for package in listed.packages},
    }


def _local(name: str, progress: Progress) -> Kernel:
    source = Source.of(name)
    target = _directory() / f"local-{source.key()}"
    if debian.sealed_facts(target) is None:
        debian.make_sealed(target, partial(source.fill, progress))
    return _opened(target, name)


def _fill_busybox(package: Package, progress: Progress, work: Path) -> debian.Facts:
    (file,) = _archive().fetch([package], work, progress)
    debian.unpack(file, work / "tree")
    binary = next(path for path in (work / "tree").rglob("busybox") if path.parent.name == "bin")
    binary.rename(work / "busybox")
    shutil.rmtree(work / "tree")
    file.unlink()
    return {"version": package.version, "packages": {package.file_name: package.sha256}}


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


def _place(listed: Listed) -> tuple[tuple[int, ...], str]:
    return _numbers(listed.name.partition("-")[0]), listed.name


def _age(version: str) -> tuple[tuple[int, ...], bool]:
    """Orders versions of one line: a rebuild for an older release (``~``) is the older one."""
    version_text, tilde, _ = version.partition("~")
    return _numbers(version_text), not tilde


_LOOKS_LIKE = re.compile(r"\d+\.\d+.*-")


def is_name(text: str) -> bool:
    """Whether a text looks like the name of a kernel of Debian."""
    return not is_path(text) and _LOOKS_LIKE.match(text) is not None


def between(first: str, last: str, progress: Progress) -> list[str]:
    """From ``first`` to ``last``, both among them and in this direction: two lines (``6.1-cloud``), or two releases.

    Of a release that is built for several Debians one build counts. Raises UsageError for a name that is no kernel's,
    for two flavours, and for a line with a release; LeadlineError where no list can be had.
    """
    for name in (first, last):
        require_known(name, progress)
    lines = {kernel.name: kernel for kernel in kernels(progress)}
    if (first in lines) != (last in lines):
        line, release = (first, last) if first in lines else (last, first)
        raise UsageError(f"{line} is a line of kernels and {release} one release: name two lines or two releases")
    available = lines if first in lines else {release.release: release for release in releases(progress)}
    ends = (available[first], available[last])
    if ends[0].flavour != ends[1].flavour:
        raise UsageError(f"{first} and {last} are two flavours, which have no order: name two of one flavour")
    low, high = sorted(map(_number, ends))
    inside = {  # of builds with one number the last counts: that of its own Debian
        _number(kernel): name
        for name, kernel in sorted(available.items(), key=lambda item: (_number(item[1]), "~" not in item[1].version))
        if kernel.flavour == ends[0].flavour and low < _number(kernel) < high
    }
    names = list(inside.values())
    return [first, *(names if _number(ends[0]) == low else names[::-1]), last]


def _number(kernel: Listed) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", kernel.version.partition("~")[0])))
