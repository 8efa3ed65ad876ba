"""Maven, which fetches distributions and builds the Java programs of a checkout."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from leadline.host import here
from leadline.host.base import Completed
from leadline.model.errors import LeadlineError
from leadline.stack.base import Progress

_BUILD_TIMEOUT = 900.0
_LINES = 20  # of a build's words


def maven(
    arguments: Sequence[str],
    why: str,
    timeout: float | None = None,
    cwd: Path | None = None,
    tell: Callable[[float], None] | None = None,
) -> Completed:
    """Run it; ``why`` it is needed. Raises LeadlineError without Maven and after ``timeout`` seconds."""
    program = shutil.which("mvn")
    if program is None:
        raise LeadlineError(f"Maven (mvn) is not on the PATH; it is needed {why}")
    try:
        return here.run([program, "-B", *arguments], timeout=timeout, cwd=cwd, tell=tell)
    except TimeoutError:
        raise LeadlineError(f"Maven, needed {why}, did not end within {timeout:g} s") from None


def build(
    title: str,
    workloads: Path,
    modules: Sequence[str],
    sources: Iterable[Path],
    made: Sequence[Path],
    progress: Progress,
) -> None:
    """Build ``modules`` unless what they make is newer than their ``sources``. Raises LeadlineError."""
    newest = max(path.stat().st_mtime for path in sources)
    if all(path.is_file() and path.stat().st_mtime >= newest for path in made):
        return
    progress(f"building {title}")
    arguments = ["-q", "-f", str(workloads / "pom.xml"), "-pl", ",".join(modules), "-DskipTests", "package"]
    why = f"to build {title} (leadline's wheel carries it built)"
    done = maven(arguments, why, _BUILD_TIMEOUT)
    if done.returncode or not all(path.is_file() for path in made):
        output = "\n".join(f"  {line}" for line in (done.stdout + done.stderr).strip().splitlines()[:_LINES])
        raise LeadlineError(f"{title} could not be built:\n{output}")
    for path in made:  # Maven leaves a jar alone when its content stays the same
        path.touch()


def last_words(output: str) -> str:
    """The errors that Maven names, else what it said last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("[ERROR]") and not line.endswith("[ERROR]")]
    errors_told = [line for line in errors if not re.match(r"\[ERROR\] (To see|Re-run|For more|\[Help)", line)]
    return "\n".join(f"  {line}" for line in (errors_told[:3] or lines[-5:] or ["(none)"]))
