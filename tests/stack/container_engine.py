"""A container engine of a test's own: Docker and docker-compose as Debian packages them, unpacked, not installed.

No image registry is asked: the one image is made of this host's JDK (jlink), the C libraries that it loads, busybox.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline.host.paths import cache_dir

IMAGE = "leadline-test-java:1"
_PACKAGES = (
    *("docker.io", "containerd", "runc", "iptables", "libip4tc2", "libip6tc2", "libxtables12", "libnftnl11"),
    *("libnfnetlink0", "libnetfilter-conntrack3", "docker-compose", "python3-attr", "python3-certifi"),
    *("python3-cached-property", "python3-chardet", "python3-charset-normalizer", "python3-distro", "python3-docker"),
    *("python3-dockerpty", "python3-docopt", "python3-dotenv", "python3-idna", "python3-importlib-metadata"),
    *("python3-jsonschema", "python3-more-itertools", "python3-pkg-resources", "python3-pyrsistent"),
    *("python3-requests", "python3-six", "python3-texttable", "python3-typing-extensions", "python3-urllib3"),
    *("python3-websocket", "python3-yaml", "python3-zipp", "libyaml-0-2"),
)
_NEEDED = ("apt-get", "dpkg-deb", "busybox")
_PYTHON = "/usr/bin/python3"  # Debian's, for which its modules are made
_MODULES = "java.se,jdk.management,jdk.management.agent,jdk.attach,jdk.jcmd,jdk.unsupported"
_START = 60.0  # seconds until the engine answers


@dataclass(frozen=True)
class Engine:
    """``environment``: by which ``docker`` and ``docker-compose`` reach it."""

    environment: Mapping[str, str]

    @property
    def compose(self) -> str:
        """``docker compose`` where its plugin is installed, else Debian's ``docker-compose``."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(["docker", "compose", "version"], env=environment, capture_output=True, check=False)
        return "docker-compose" if done.returncode else "docker compose"

    def docker(self, *words: str | Path) -> str:
        done = subprocess.run(
            ["docker", *map(str, words)],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def left(self) -> list[str]:
        """Containers, volumes and networks of projects."""
        found = self.docker("ps", "--all", "--format", "{{.Names}}") + self.docker("volume", "ls", "--quiet")
        networks = self.docker("network", "ls", "--format", "{{.Name}}").split()
        return found.split() + [name for name in networks if name not in ("bridge", "host", "none")]


@contextmanager
def engine(java: Path) -> Iterator[Engine]:
    """One that runs, with an image of this JDK. Skips the test, with the reason, where none can run."""
    if os.geteuid() != 0:
        pytest.skip("host: no container engine: it needs root")
    if missing := [name for name in _NEEDED if shutil.which(name) is None]:
        pytest.skip(f"no container engine: {', '.join(missing)} is not here")
    if not (java / "jmods").is_dir():
        pytest.skip(f"host: no container engine: {java} has no jmods, of which an image is made")
    with tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True) as directory:
        place = Path(directory)
        root = _unpacked(place)
        environment = _programs(root, place)
        log = place / "dockerd.log"
        words = ["dockerd", "--data-root", place / "data", "--exec-root", place / "run", "--pidfile", place / "pid"]
        words += ["--host", environment["DOCKER_HOST"], "--exec-opt", "native.cgroupdriver=cgroupfs"]
        # nothing of the host is changed but for the bridge of a project, which goes with it
        words += ["--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"]
        libraries = {"LD_LIBRARY_PATH": str(root / "usr/lib/x86_64-linux-gnu")}
        libraries["XTABLES_LIBDIR"] = str(root / "usr/lib/x86_64-linux-gnu/xtables")
        with log.open("wb") as out:
            process = subprocess.Popen(
                words, env={**os.environ, **environment, **libraries}, stdout=out, stderr=out, start_new_session=True
            )
        try:
            made = Engine(environment)
            _wait(process, made, log)
            _make_image(made, java, place)
            yield made
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for mount in _mounts_below(place):
                subprocess.run(["umount", "--lazy", mount], check=False)


def packages() -> list[Path]:
    """Of Debian, fetched by apt-get once into leadline's cache."""
    place = cache_dir() / "container-engine"
    if not place.exists():
        with tempfile.TemporaryDirectory(dir=cache_dir()) as directory:
            done = subprocess.run(
                ["apt-get", "-q", "download", *_PACKAGES], cwd=directory, capture_output=True, text=True, check=False
            )
            if done.returncode:
                pytest.skip(f"no container engine: apt-get: {_last(done.stderr)}")
            shutil.copytree(directory, place)
    return sorted(place.glob("*.deb"))


def _unpacked(place: Path) -> Path:
    root = place / "root"
    for package in packages():
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    return root


def _programs(root: Path, place: Path) -> dict[str, str]:
    """How they are reached: a PATH with them, and the engine's address."""
    programs = place / "bin"
    programs.mkdir()
    (programs / "iptables").symlink_to(root / "usr/sbin/xtables-legacy-multi")  # names in a project's network
    compose = programs / "docker-compose"
    modules = f"PYTHONPATH={root}/usr/lib/python3/dist-packages LD_LIBRARY_PATH={root}/usr/lib/x86_64-linux-gnu"
    compose.write_text(f'#!/bin/sh\nexport {modules}\nexec {_PYTHON} {root}/usr/bin/docker-compose "$@"\n')
    compose.chmod(0o755)
    config = os.environ.get("DOCKER_CONFIG", str(place / "config"))
    path = f"{programs}:{root}/usr/bin:{root}/usr/sbin:{os.environ['PATH']}"
    return {"PATH": path, "DOCKER_HOST": f"unix://{place}/docker.sock", "DOCKER_CONFIG": config}


def _wait(process: subprocess.Popen[bytes], made: Engine, log: Path) -> None:
    deadline = time.monotonic() + _START
    while True:
        done = subprocess.run(
            ["docker", "ps"], env={**os.environ, **made.environment}, capture_output=True, check=False
        )
        if done.returncode == 0:
            return
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.skip(f"host: no container engine: dockerd: {_last(log.read_text(errors='replace'))}")
        time.sleep(0.2)


def _make_image(made: Engine, java: Path, place: Path) -> None:
    image = place / "image"
    jlink = [java / "bin" / "jlink", "--add-modules", _MODULES, "--output", image / "jdk"]
    subprocess.run(jlink, check=True, capture_output=True)
    for part in ("bin", "tmp", "etc", "proc", "sys", "dev"):
        (image / part).mkdir()
    (image / "tmp").chmod(0o1777)
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, image / "bin" / "busybox")
    (image / "bin" / "sh").symlink_to("busybox")
    (image / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\n")
    loaded = [image / "bin" / "busybox", image / "jdk" / "bin" / "java", *(image / "jdk" / "lib").rglob("*.so")]
    for library in _libraries(loaded):
        target = image / library.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    packed = place / "image.tar"
    subprocess.run(["tar", "-C", image, "-cf", packed, "."], check=True)
    made.docker("import", "--change", "ENV PATH=/jdk/bin:/bin", packed, IMAGE)
    shutil.rmtree(image)
    packed.unlink()


def _libraries(programs: Sequence[Path]) -> set[Path]:
    """Of the host, with the loader itself."""
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    return {Path(word) for line in said.splitlines() for word in line.split() if word.startswith(("/lib", "/usr/lib"))}


def _mounts_below(place: Path) -> list[str]:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return sorted((mount for mount in mounts if mount.startswith(f"{place}/")), reverse=True)


def _last(said: str) -> str:
    return said.strip().splitlines()[-1][-300:] if said.strip() else "it said nothing"
