"""What the build hooks decide, without building anything."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "tools" / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def binaries(hooks: ModuleType, root: Path) -> Any:
    return hooks.Binaries(str(root), {}, None, None, str(root), "wheel")


def elf(*names: str) -> bytes:
    return b"\x7fELF\0" + b"\0".join(name.encode() for name in names) + b"\0"


def test_the_tag_asks_for_the_newest_glibc_a_program_uses(hooks: ModuleType) -> None:
    program = elf("libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.9")
    assert hooks.platform_tag(program, "x86_64") == "manylinux_2_34_x86_64"


def test_a_library_of_this_host_only_or_no_glibc_makes_no_promise(hooks: ModuleType) -> None:
    assert hooks.platform_tag(elf("libc.so.6", "libssl.so.3", "GLIBC_2.34"), "x86_64") == "linux_x86_64"
    assert hooks.platform_tag(elf("libc.musl"), "aarch64") == "linux_aarch64"


def test_what_is_not_built_is_named(hooks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CARGO_TARGET_DIR", raising=False)
    (tmp_path / "workloads/agent/target").mkdir(parents=True)
    (tmp_path / "workloads/agent/target/leadline-agent.jar").touch()
    with pytest.raises(FileNotFoundError, match="make wheel") as caught:
        binaries(hooks, tmp_path).initialize("standard", {"force_include": {}})
    assert "release/leadline-load" in str(caught.value)
    assert "release/libleadline_gclog.so" in str(caught.value)
    assert "release/libleadline_instructions.so" in str(caught.value)
    assert "brokerage.war" in str(caught.value)
    assert "leadline-agent.jar" not in str(caught.value)


def test_an_editable_install_needs_nothing_built(hooks: ModuleType, tmp_path: Path) -> None:
    build: dict[str, Any] = {"force_include": {}}
    binaries(hooks, tmp_path).initialize("editable", build)
    assert build == {"force_include": {}}


def test_a_wheel_takes_the_driver_from_cargos_own_folder(
    hooks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "elsewhere"))
    driver = tmp_path / "elsewhere/release/leadline-load"
    libraries = [driver.with_name(f"libleadline_{name}.so") for name in ("gclog", "instructions")]
    for path in (driver, *libraries, *(tmp_path / name for name in hooks._JAVA)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(elf("libc.so.6", "GLIBC_2.17"))
    build: dict[str, Any] = {"force_include": {}}
    binaries(hooks, tmp_path).initialize("standard", build)
    assert build["force_include"][str(driver)] == "leadline/_bin/leadline-load"
    assert sorted(Path(place).name for place in build["force_include"].values()) == [
        "brokerage-queue.war",
        "brokerage-tools.jar",
        "brokerage.war",
        "dealership-quarkus.jar",
        "dealership-queue.war",
        "dealership-spring.jar",
        "dealership-tools.jar",
        "dealership.war",
        "leadline-agent.jar",
        "leadline-load",
        "libleadline_gclog.so",
        "libleadline_instructions.so",
    ]
    assert build["tag"].startswith("py3-none-manylinux_2_17_")


def test_the_project_depends_on_what_the_requirements_name(hooks: ModuleType) -> None:
    metadata: dict[str, Any] = {}
    hooks.Dependencies(str(ROOT), {}).update(metadata)
    assert "pydantic" in metadata["dependencies"]
    locked = (ROOT / "requirements.lock").read_text().lower()
    for name in metadata["dependencies"]:
        pinned = re.sub(r"[._]", "-", name.lower())
        assert f"\n{pinned}==" in f"\n{locked}", f"{name} is not pinned: make lock"


def test_lock_files_hold_hashes_and_no_address() -> None:
    for lock in ROOT.glob("requirements*.lock"):
        text = lock.read_text()
        assert "://" not in text
        pinned = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
        assert all(line.endswith("\\") and "==" in line for line in pinned), lock.name
