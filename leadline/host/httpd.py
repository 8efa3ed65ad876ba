"""Where this host has Apache httpd, if it has."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

VARIABLE = "LEADLINE_HTTPD"
MEND = "apt-get install apache2-bin"
_NAMES = ("httpd", "apache2")
_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/apache2/bin", "/opt/apache2/bin")


def find_httpd() -> tuple[Path | None, str]:
    """The program, named by LEADLINE_HTTPD, on the PATH or where systems put it; or None and why."""
    named = os.environ.get(VARIABLE)
    if named:
        return (Path(named), "") if os.access(named, os.X_OK) else (None, f"{VARIABLE}={named} cannot be run")
    path = os.pathsep.join([os.environ.get("PATH", ""), *_PLACES])
    path_found = next((Path(path_found) for name in _NAMES if (path_found := shutil.which(name, path=path))), None)
    return path_found, "" if path_found else f"no {' or '.join(_NAMES)} on this host"
