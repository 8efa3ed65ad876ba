"""What other programs did during a load (``host.json`` beside its results), and when that forbids a comparison."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from leadline.host.bystanders import Others
from leadline.host.received import json_object_file
from leadline.model.disturbance import DIFFERENCE
from leadline.model.errors import UsageError
from leadline.model.received import ReceivedError, number, reading

FILE = "host.json"
_MOST = 64 * 1024  # bytes of it


def keep_others(directory: Path, others: Others | None) -> None:
    """Writes what was seen beside a load to the directory of its results."""
    if others is not None:
        (directory / FILE).write_text(json.dumps(asdict(others)) + "\n", encoding="utf-8")


def read_others(directory: Path) -> Others | None:
    """None where it was not recorded. Raises UsageError where the file is damaged."""
    path = directory / FILE
    try:
        document = json_object_file(path, _MOST)
        with reading(str(path)):
            shares = {name: number(document["programs"], name, str(path)) for name in document["programs"]}
        return Others(number(document, "others", str(path)), number(document, "steal", str(path)), shares)
    except FileNotFoundError:
        return None
    except ReceivedError as error:
        raise UsageError(f"{error}; remove it, and the loads are compared without it") from None


def disturbance(before: Others | None, now: Others | None) -> str:
    """Why two loads cannot be compared: other programs took much more of the CPUs beside one of them; else empty."""
    if before is None or now is None or abs(before.taken - now.taken) <= DIFFERENCE:
        return ""
    return (
        f"not known: other programs took {before} of the CPUs before and {now} now, and what differs may be theirs; "
        "`leadline load --alternate URL_A URL_B` loads both servers in turns"
    )
