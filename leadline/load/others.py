"""What other programs did during a load (``host.json`` beside its results), and when that forbids a comparison."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from leadline.host.bystanders import Beside
from leadline.host.received import json_object_file
from leadline.model.disturbance import DIFFERENCE
from leadline.model.errors import UsageError
from leadline.model.received import ReceivedError, number, reading

FILE = "host.json"
_MOST = 64 * 1024  # bytes of it
_NAMED = 2  # programs in a sentence


@dataclass(frozen=True)
class Others:
    """Shares 0..1 of all CPUs: of programs that are neither driver nor server, of the hypervisor (steal), and of single
    programs.
    """

    others: float
    steal: float
    programs: dict[str, float] = field(default_factory=dict)

    @property
    def taken(self) -> float:
        return min(1.0, self.others + self.steal)

    def __str__(self) -> str:
        names = [name for name, share in self.programs.items() if share > DIFFERENCE / 2][:_NAMED]
        return f"{100 * self.taken:.0f} %" + (f" ({', '.join(names)})" if names else "")


def keep_others(directory: Path, beside: Beside | None) -> None:
    """Writes what was seen beside a load to the directory of its results."""
    if beside is not None:
        (directory / FILE).write_text(json.dumps(asdict(beside)) + "\n", encoding="utf-8")


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
