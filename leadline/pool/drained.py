"""Hosts that get no more blocks, and why: a file of the lab, which holds until a host is taken back."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from leadline.host.lock import exclusive
from leadline.model.errors import LeadlineError, UsageError, nearest


@dataclass(frozen=True)
class Drained:
    """``since``: unix seconds."""

    host: str
    why: str
    since: float


class DrainedHosts:
    """Those of one pool in one lab."""

    def __init__(self, lab: Path, pool: str) -> None:
        self._path = lab / ".pool" / "drained.json"
        self._pool = pool

    def _read(self) -> dict[str, dict[str, dict[str, object]]]:
        try:
            return dict(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise LeadlineError(f"{self._path} cannot be read: {error}; remove it to take back all hosts") from error

    def all(self) -> dict[str, Drained]:
        return {name: Drained(**told) for name, told in self._read().get(self._pool, {}).items()}  # type: ignore[arg-type]

    def add(self, host: str, why: str) -> None:
        with exclusive(self._path.with_suffix(".lock"), lambda: None):
            known = self._read()
            known.setdefault(self._pool, {})[host] = asdict(Drained(host, why, time.time()))
            self._write(known)

    def take_back(self, host: str) -> None:
        """Raises UsageError for one that is not drained."""
        with exclusive(self._path.with_suffix(".lock"), lambda: None):
            known = self._read()
            drained = known.get(self._pool, {})
            if host not in drained:
                near = nearest(host, list(drained))
                hint = f"did you mean {near}?" if near else f"drained are: {', '.join(drained) or 'none'}"
                raise UsageError(f"{host} is not drained in pool {self._pool}; {hint}")
            del drained[host]
            self._write(known)

    def _write(self, known: object) -> None:
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(known, indent=1), encoding="utf-8")
        part.rename(self._path)
