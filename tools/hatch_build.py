"""Hatchling hooks: dependencies from requirements.in; what Cargo and Maven built goes into the wheel."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_JAVA = (
    "workloads/brokerage-war/target/brokerage.war",
    "workloads/brokerage-war/target/brokerage-queue.war",
    "workloads/brokerage-tools/target/brokerage-tools.jar",
    "workloads/dealership-war/target/dealership-queue.war",
    "workloads/dealership-war/target/dealership.war",
    "workloads/dealership-quarkus/target/dealership-quarkus.jar",
    "workloads/dealership-spring/target/dealership-spring.jar",
    "workloads/dealership-tools/target/dealership-tools.jar",
    "workloads/agent/target/leadline-agent.jar",
)
# Libraries that PEP 600 lets a manylinux wheel take from the host and that a Rust program may need.
_ALLOWED = re.compile(rb"lib(gcc_s|m|dl|rt|c|pthread|util|resolv)\.so\.\d+|ld-linux[\w-]*\.so\.\d+")


class Dependencies(MetadataHookInterface):
    """``dependencies`` of the project are the lines of ``requirements.in``."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in ``dependencies``."""
        lines = (Path(self.root) / "requirements.in").read_text().splitlines()
        metadata["dependencies"] = [line.strip() for line in lines if line.strip() and not line.startswith(("#", "-"))]


class Binaries(BuildHookInterface[Any]):
    """Puts what Cargo and Maven built into the wheel; an editable install takes it from where it is built."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises FileNotFoundError naming what is not built."""
        if version == "editable":
            return
        root = Path(self.root)
        built = Path(os.environ.get("CARGO_TARGET_DIR", root / "driver" / "target")) / "release"
        programs = [built / name for name in ("leadline-load", "libleadline_gclog.so", "libleadline_instructions.so")]
        wanted = {path: f"leadline/_bin/{path.name}" for path in programs}
        wanted |= {root / path: f"leadline/_java/{Path(path).name}" for path in _JAVA}
        missing = [str(path) for path in wanted if not path.is_file()]
        if missing:
            raise FileNotFoundError(f"not built yet: {', '.join(missing)}. `make wheel` builds them and the wheel")
        build_data["force_include"].update({str(path): place for path, place in wanted.items()})
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(b''.join(path.read_bytes() for path in programs))}"


def platform_tag(program: bytes, machine: str = "") -> str:
    """``manylinux_2_<n>_<machine>`` for the newest glibc symbol of an ELF program (PEP 600), ``linux_<machine>`` where
    that cannot be told or it needs libraries a host may lack.
    """
    machine = machine or platform.machine()
    names = set(re.findall(rb"\0((?:lib|ld-)[\w.+-]*\.so(?:\.\d+)*)(?=\0)", program))
    versions = [int(minor) for minor in re.findall(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", program)]
    if not versions or not all(_ALLOWED.fullmatch(name) for name in names):
        return f"linux_{machine}"
    return f"manylinux_2_{max(versions)}_{machine}"
