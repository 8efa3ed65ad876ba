"""The examples of applications of one's own, built where that is due."""

from pathlib import Path
from typing import Any

from leadline.stack.provision import maven

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOP, QSHOP = EXAMPLES / "shop", EXAMPLES / "qshop"


def built(example: Path, artifact: str) -> Path:
    """What Maven makes of an example, built where it is missing or older than its sources."""
    made = example / "target" / artifact
    found = [example / "pom.xml", *(path for path in (example / "src").rglob("*") if path.is_file())]
    if not made.exists() or made.stat().st_mtime < max(path.stat().st_mtime for path in found):
        done = maven(["-q", "-f", str(example / "pom.xml"), "package"], f"to build {example.name}", 600.0)
        assert done.returncode == 0, done.stdout + done.stderr
        made.touch()
    return made


def sources(example: Path) -> dict[Path, bytes]:
    """All files of an example but what was built from them."""
    files = [path for path in example.rglob("*") if path.is_file() and "target" not in path.parts]
    return {path: path.read_bytes() for path in files}


def mean_throughput(trial: dict[str, Any], knob: str, level: object) -> float:
    """Over the slots of a level of one knob."""
    found = [
        slot["responses"]["throughput"] for slot in trial["slots"] if slot["found"][knob] == level and slot["responses"]
    ]
    assert found, [slot["failure_message"] for slot in trial["slots"]]
    return float(sum(found) / len(found))
