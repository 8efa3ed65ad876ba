"""Kernels out of packages and of a developer's own hands: a bzImage, a package, a build directory."""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from leadline.model.errors import UsageError, quoted
from leadline.places.guest import debian, sealed
from leadline.places.guest.debian import Progress

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

    def fill(self, progress: Progress, work: Path) -> sealed.Facts:
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
