"""What a study cannot have whose services run on hosts over SSH."""

from __future__ import annotations

from leadline.checks.files.study import StudyFile
from leadline.model.errors import UsageError
from leadline.stack.base import Application
from leadline.stack.registry import APPLICATIONS, application_of

_NOT_THERE = {  # keys of a study -> why not on a host over SSH, and what to write
    ("design", "rotation"): "no instances stand side by side on a host over SSH: leave the rotation out",
}


def check_over_ssh(file: StudyFile) -> None:
    """Raises UsageError with file and line."""
    study = file.study
    for (part, key), why in _NOT_THERE.items():
        if getattr(getattr(study, part), key) is not None:
            raise UsageError(f"{file.where((part, key))}: {why}")
    supplier = study.stack.hosts.supplier if study.stack.hosts else None
    if supplier is not None and not _supplied(application_of(study.stack)):
        able = " and ".join(name for name, application in APPLICATIONS.items() if _supplied(application()))
        sentence = f"{study.stack.app} has no supplier emulator, {able} has: leave supplier out"
        raise UsageError(f"{file.where(('stack', 'hosts', 'supplier'))}: hosts.supplier is {supplier}, but {sentence}")


def _supplied(application: Application) -> bool:
    return any(companion.name == "supplier" for companion in application.companions({}))
