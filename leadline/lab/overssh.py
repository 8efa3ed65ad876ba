"""What a study cannot have whose services run on hosts over SSH."""

from __future__ import annotations

from leadline.lab.studyfile import StudyFile
from leadline.lab.web import web_servers
from leadline.model.errors import UsageError

_NOT_THERE = {  # keys of a study -> why not on a host over SSH, and what to write
    ("design", "rotation"): "no instances stand side by side on a host over SSH: leave the rotation out",
    ("design", "duet"): "no instances stand side by side on a host over SSH: leave the duet out",
}


def check_over_ssh(file: StudyFile) -> None:
    """Raises UsageError with file and line."""
    study = file.study
    for (part, key), why in _NOT_THERE.items():
        if getattr(getattr(study, part), key) is not None:
            raise UsageError(f"{file.where((part, key))}: {why}")
    if named := web_servers(study):
        path = ("factors" if "web.server" in study.factors else "settings", "web.server")
        raise UsageError(f"{file.where(path)}: no web server ({', '.join(named)}) is started on a host over SSH")
