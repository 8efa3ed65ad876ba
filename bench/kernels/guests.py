"""One Java program in guests of several kernels, in virtual time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from leadline.host import here
from leadline.host.java import find_java
from leadline.host.local import LocalHost
from leadline.model.errors import LeadlineError
from leadline.places.guest import kernels, machine
from leadline.places.guest.boot import Boot, Node, Tree, base_system, cached_archive, join_archives, libraries, modules
from leadline.places.guest.kernels import Kernel

_MEMORY = 1 << 30  # bytes
_PROGRAM = Path(__file__).with_name("Measure.java")
_JOB = """cd /tmp
/jre/bin/java -Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp /app Measure {scale} >/tmp/out 2>/tmp/err ||
  fail workload "the program ended with $?: $(head -n 3 /tmp/err)"
put out /tmp/out
"""


@dataclass(frozen=True)
class Measured:
    """A guest's run: ``facts`` of its kernel, ``millis`` by part, ``text`` as the program printed it."""

    kernel: Kernel
    seed: int
    facts: dict[str, str]
    millis: dict[str, float]
    text: str
    wall_seconds: float


def java_tree(directory: Path, programs: Sequence[Path] = (_PROGRAM,), modules: str = "java.base") -> Tree:
    """Programs with a runtime that has these modules alone, built in ``directory``. Raises LeadlineError."""
    jdk = find_java()
    runtime, classes = directory / "jre", directory / "app"
    link = [str(jdk / "bin" / "jlink"), "--add-modules", modules, "--no-header-files", "--no-man-pages"]
    for command in (
        [*link, "--output", str(runtime)],
        [str(runtime / "bin" / "java"), "-Xshare:dump"],
        [str(jdk / "bin" / "javac"), "-d", str(classes), *map(str, programs)],
    ):
        done = here.run(command, timeout=300)
        if done.returncode:
            raise LeadlineError(f"{command[0]} failed: {(done.stdout + done.stderr).strip()[-300:]}")
    files = [path for path in (*runtime.rglob("*"), *classes.rglob("*")) if path.is_file()]
    binaries = [runtime / "bin" / "java", runtime / "lib" / "server" / "libjvm.so"]
    tree = {str(path.relative_to(directory)): Node(path.resolve()) for path in files}
    shared = libraries(binaries)  # its own are found beside it
    return {name: node for name, node in shared.items() if "jre/" not in name} | tree


def image(kernel: Kernel, directory: Path, *more: Path) -> Path:
    """An initial file system with the kernel's modules, and ``more`` archives. Raises LeadlineError."""
    tree = base_system(kernels.busybox(tell)) | modules(kernel.modules)
    joined = directory / f"{kernel.release}.cpio"
    join_archives([cached_archive(tree, directory / "parts"), *more], joined)
    return joined


def tell(text: str) -> None:
    """To whom runs it."""
    print(text, file=sys.stderr, flush=True)


def measure(jobs: Sequence[tuple[str, int]], directory: Path, scale: int) -> Iterator[Measured]:
    """Each kernel with its seed, in their order, as many guests at once as there are CPUs. Raises LeadlineError."""
    host = LocalHost()
    program = cached_archive(java_tree(directory / "java"), directory / "parts")
    found = [kernels.provision(name, tell) for name in dict.fromkeys(name for name, _ in jobs)]
    booted = {kernel.name: (kernel, image(kernel, directory, program)) for kernel in found}

    def one(number: int, name: str, seed: int) -> Measured:
        kernel, archive = booted[name]
        boot = Boot(kernel.image, archive, _MEMORY, seed=seed)
        outcome = machine.run(host, boot, _JOB.format(scale=scale), directory / f"guest-{number}", timeout=900)
        text = (outcome.files / "out").read_text()
        millis = {line.split()[0]: float(line.split()[1]) for line in text.splitlines()}
        return Measured(kernel, seed, dict(outcome.facts), millis, text, outcome.wall_seconds)

    with ThreadPoolExecutor(here.cpu_count()) as pool:
        yield from pool.map(lambda row: one(row[0], *row[1]), enumerate(jobs))
