"""Starting services that refuse to run as root."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

from leadline.model.errors import UsageError

NOBODY = 65534
_NAMESPACE = ("unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}", "--")
_SET_USER = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")


def _works(prefix: tuple[str, ...]) -> bool:
    if shutil.which(prefix[0]) is None:
        return False
    return subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0


@functools.cache
def user_namespaces() -> bool:
    """Whether a user namespace with another user mapped can be made here."""
    return _works(_NAMESPACE)


@functools.cache
def _root_prefix() -> tuple[str, ...]:
    if user_namespaces():
        return _NAMESPACE
    if _works(_SET_USER):
        return _SET_USER
    raise UsageError(
        "this service refuses to run as root, and neither unshare (user namespaces) nor setpriv works here;"
        " install util-linux or run leadline as an ordinary user"
    )


def unprivileged_prefix() -> tuple[str, ...]:
    """What to put before a command so that it does not see itself as root; empty when leadline is not root.

    A user namespace with user 65534 mapped to ours is preferred: files keep their owner and need no change of it.
    Else the process really becomes user 65534; see ``make_accessible``. Raises UsageError.
    """
    return () if os.geteuid() != 0 else _root_prefix()


def make_accessible(path: Path) -> None:
    """Let an unprivileged service own ``path`` and all below it.

    Nothing to do but when processes become user 65534 for real. Raises UsageError naming a parent directory that
    this user may not pass, OSError.
    """
    prefix = unprivileged_prefix()
    if not prefix or prefix[0] != "setpriv":
        return
    for parent in path.absolute().parents:
        status = parent.stat()
        if status.st_uid != NOBODY and not status.st_mode & 0o001:
            raise UsageError(
                f"user {NOBODY} may not pass {parent}, which holds {path}; set LEADLINE_CACHE and --lab to directories"
                f" that others may pass, or run chmod o+x {parent}"
            )
    for folder, folders, files in os.walk(path):
        for name in (".", *folders, *files):
            os.chown(os.path.join(folder, name), NOBODY, NOBODY, follow_symlinks=False)  # noqa: PTH118
