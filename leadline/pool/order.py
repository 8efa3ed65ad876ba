"""An order: one block of a study as a directory that its host reads, and into which it puts what came of it.

``order.json`` is written by who gives the block out; the host writes ``bundle/`` and last of all ``ended.json``, each
whole or not at all. Directories are ``LAB/.pool/TOKEN``.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from leadline.model.errors import LeadlineError

ORDER, ENDED, BUNDLE, LOG = "order.json", "ended.json", "bundle", "job.log"


@dataclass(frozen=True)
class Order:
    """``study``: the effective study, JSON, on its host; ``truth``: the file of a simulated run; ``host``: the one over
    SSH on which its services run, empty where they run where the order is carried out.
    """

    study: str
    document: str
    source: str
    plan: str
    block: int
    token: str
    disposable: bool = False
    truth: str = ""
    host: str = ""


@dataclass(frozen=True)
class Ended:
    """How a block ended. ``stopped``: why before its end. ``unfit``: why its host should get no more blocks."""

    host: str
    stopped: str = ""
    unfit: str = ""


def folder(lab: Path, token: str) -> Path:
    return lab.absolute() / ".pool" / token


def write_order(lab: Path, order: Order) -> Path:
    directory = folder(lab, order.token)
    directory.mkdir(parents=True)
    _write(directory / ORDER, asdict(order))
    return directory


def read_order(directory: Path) -> Order:
    """Raises LeadlineError."""
    try:
        return Order(**json.loads((directory / ORDER).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise LeadlineError(f"{directory / ORDER} cannot be read: {error}") from error


def write_ended(directory: Path, ended: Ended) -> None:
    _write(directory / ENDED, asdict(ended))


def read_ended(directory: Path) -> Ended | None:
    """None for a block that has not ended. Raises LeadlineError."""
    try:
        return Ended(**json.loads((directory / ENDED).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise LeadlineError(f"{directory / ENDED} cannot be read: {error}") from error


def _write(path: Path, content: object) -> None:
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as stream:
        json.dump(content, stream)
        stream.flush()
        os.fsync(stream.fileno())
    part.rename(path)
