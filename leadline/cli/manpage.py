"""Writes ``docs/reference/leadline.1``, the man page, from the commands: ``python -m leadline.cli.manpage``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from leadline.cli.lazy import GROUPS
from leadline.cli.reference import Documented, documented

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "leadline.1"
_HEAD = r""".\" Generated from the commands by python -m leadline.cli.manpage; edit their help, not this page.
.TH LEADLINE 1 "" leadline "User Commands"
.SH NAME
leadline \- designed experiments on every layer beneath a Java application
.SH SYNOPSIS
.B leadline
.I COMMAND
.RI [ OPTIONS ]
.SH DESCRIPTION
leadline starts a real stack, varies factors in a designed experiment, measures, audits, puts everything back and
reports effects with intervals. Every command has \-\-help. \-\-version prints the version."""
_TAIL = r""".SH EXIT STATUS
.TP
.B 0
done
.TP
.B 1
the study failed, or something else that is not the user's doing
.TP
.B 2
usage: an option, an argument or a file is wrong
.TP
.B 3
the host could not be put back: leadline restore
.TP
.B 128+n
ended by signal n
.SH ENVIRONMENT
.TP
.B LEADLINE_LAB
the lab, where studies and trials are kept (./lab)
.TP
.B LEADLINE_CACHE
where distributions and database snapshots are kept
.TP
.B LEADLINE_STATE
where the undo journal is kept
"""


def page() -> str:
    """The page as roff: a section for every group of ``leadline --help``."""
    commands = list(documented())
    parts = [_HEAD]
    for title, names in GROUPS.items():
        parts.append(f".SH {title.upper()} COMMANDS")
        for name in names:
            parts += [line for command in commands if command.title.split()[1] == name for line in _command(command)]
    return "\n".join([*parts, _TAIL])


def _command(found: Documented) -> Iterator[str]:
    yield f".SS {_roff(found.title)}"
    yield _text(found.help)
    if found.usage:
        yield f".PP\n.B {_roff(found.title)}\n{_text(found.usage)}"
    for names, meaning in found.rows:
        yield f".TP\n.B {_roff(names)}"
        yield _text(meaning)


def _text(text: str) -> str:
    """Paragraphs; no line of theirs is taken for a request."""
    lines = [_roff(line).strip() for line in text.replace("``", "").splitlines()]
    return "\n".join(line or ".PP" for line in lines)


def _roff(text: str) -> str:
    plain = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", plain)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
