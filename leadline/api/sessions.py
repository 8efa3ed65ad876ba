"""Sessions: a program changes a system step by step and keeps what is shown to be better."""

from __future__ import annotations

from pathlib import Path

from leadline.api.running import open_testbed
from leadline.api.studies import Study
from leadline.experiments.session import BLOCKS, Proposal, Session
from leadline.trial.progress import Watcher

__all__ = ["BLOCKS", "Proposal", "Session", "open_session"]


def open_session(
    study: Study,
    lab: Path | str = "lab",
    *,
    name: str = "",
    blocks: int = BLOCKS,
    truth: Path | str | None = None,
    disposable: bool = False,
    watcher: Watcher | None = None,
) -> Session:
    """A session on what a study measures, to be used in ``with``; one of the same name in the lab is gone on with.

    Raises UsageError. Raises LeadlineError on entry where the host is in use.
    """
    place = open_testbed(lab, truth=truth, disposable=disposable, watcher=watcher, subject=study)
    return Session(study.file, place, name or study.name, blocks)
