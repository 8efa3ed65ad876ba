"""Studies and tunings as they are written: built-in ones, files, or keys given by a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadline.checks.files.study import StudyFile, TuningFile, find_study, find_tuning, on_its_servers, study_of
from leadline.model.errors import UsageError
from leadline.places.rehost import on_host


@dataclass(frozen=True)
class Study:
    """A study that can be planned and run. Every constructor raises UsageError with the place of what is wrong."""

    file: StudyFile

    @classmethod
    def read(cls, reference: str | Path, overrides: Sequence[str] = (), factors: Sequence[str] = ()) -> Study:
        """A built-in study by its name or a file by its path, with ``key=value`` and ``knob=a,b`` applied."""
        file = find_study(str(reference), overrides, factors)
        return cls(on_its_servers(file) if file.is_builtin else file)

    @classmethod
    def of(cls, keys: Mapping[str, Any]) -> Study:
        """From the keys of a study file (docs/reference/study-file.md)."""
        return cls(study_of(keys))

    def on(self, kind: str) -> tuple[Study, tuple[str, ...]]:
        """The study elsewhere (``here``, ``vm``, ``virtual-time``, ``ssh:NAME``), and what of it is otherwise there."""
        chosen = on_host(self.file, kind)
        return Study(chosen.file), chosen.notes

    @property
    def name(self) -> str:
        return self.file.study.study

    @property
    def host(self) -> str:
        """The kind of host it runs on, or ``ssh:NAME``."""
        stack = self.file.study.stack
        return stack.place

    @property
    def text(self) -> str:
        """As a study file, overrides applied."""
        return self.file.text


@dataclass(frozen=True)
class Tuning:
    """Settings that are tried one after the other (docs/guides/tuning.md)."""

    file: TuningFile

    @property
    def name(self) -> str:
        return self.file.tuning.tuning

    @property
    def host(self) -> str:
        """The kind of host it runs on, or ``ssh:NAME``."""
        return self.file.tuning.stack.choice.place


def read(reference: str | Path, overrides: Sequence[str] = (), factors: Sequence[str] = ()) -> Study | Tuning:
    """A built-in study or tuning by its name, or a file of one. Raises UsageError with file and line."""
    tuning = find_tuning(str(reference), overrides)
    if tuning is None:
        return Study.read(reference, overrides, factors)
    if factors:
        raise UsageError(f"--factor works on studies only; {reference} is a tuning, whose knobs are in its steps")
    return Tuning(tuning)
