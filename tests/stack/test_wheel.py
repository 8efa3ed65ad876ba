"""The wheel installs elsewhere, with the driver and the Java archives inside."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.stack

ROOT = Path(__file__).resolve().parents[2]


def run(*command: object, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


_ARCHIVES = ("brokerage.war", "brokerage-queue.war", "brokerage-tools.jar", "leadline-agent.jar")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    driver = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "driver" / "target")) / "release" / "leadline-load"
    archives = [ROOT / "workloads" / part for part in ("brokerage-war/target/brokerage.war", "agent/target")]
    libraries = [driver.with_name(f"libleadline_{name}.so") for name in ("gclog", "instructions")]
    for needed in (driver, *libraries, *archives):
        if not needed.exists():
            pytest.skip(f"{needed.relative_to(ROOT)} is not built; make test builds it")
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (found,) = folder.glob("*.whl")
    return found


def test_what_is_inside(wheel: Path) -> None:
    assert "-py3-none-" in wheel.name
    assert "linux" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        driver = archive.getinfo("leadline/_bin/leadline-load")
        assert driver.external_attr >> 16 & 0o111
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        assert b"Requires-Dist: pydantic" in archive.read(metadata)
    libraries = {f"leadline/_bin/libleadline_{name}.so" for name in ("gclog", "instructions")}
    assert libraries | {f"leadline/_java/{name}" for name in _ARCHIVES} <= names
    tracked = run("git", "ls-files", "leadline").split()
    assert set(tracked) <= names, "every file of the package, templates and studies included"


def test_it_runs_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    run(sys.executable, "-m", "pip", "-q", "--python", python, "install", "--no-deps", "--no-index", wheel)
    # the dependencies of this environment, without its own leadline: .pth files are not read along such a path
    site = next((home / "lib").glob("python3*")) / "site-packages"
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = "import leadline, leadline.host.java as j; print(leadline.__file__); print(j.agent_jar())"
    package, agent = run(python, "-P", "-c", code, env=env).split()
    assert Path(package).is_relative_to(home)
    assert Path(agent).is_relative_to(home)
    assert run(home / "bin" / "leadline", "--version", env=env).startswith("leadline ")
    assert "leadline-load" in run(site / "leadline" / "_bin" / "leadline-load", "--version", env=env)
