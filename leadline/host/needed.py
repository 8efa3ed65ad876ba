"""Which files the undo journals of this host still need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from leadline.host.journal import UndoJournal
from leadline.host.paths import state_dir


def needed_to_undo(paths: Sequence[Path]) -> Path | None:
    """The first of the paths that an open entry of a journal names, or something below it. Raises LeadlineError for a
    journal that cannot be read.
    """
    undo = state_dir() / "undo"
    for journal in sorted(undo.glob("*.jsonl")) if undo.is_dir() else ():
        for entry in UndoJournal(journal).open_entries():
            text = repr(entry)
            for path in paths:
                if re.search(rf"{re.escape(str(path))}(?![\w.-])", text):
                    return path
    return None
