"""This host as commands use it."""

from __future__ import annotations

from pathlib import Path

from leadline.host.local import LocalHost
from leadline.host.paths import cache_dir


def local_host(lab: Path, disposable: bool) -> LocalHost:
    """This host; its facts tell of the file systems of the cache and of the lab, also of one that is yet to be made."""
    lab = lab.absolute()
    while not lab.exists():
        lab = lab.parent
    return LocalHost(disposable=disposable, directories={"cache": cache_dir(), "lab": lab})
