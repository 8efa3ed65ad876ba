"""Threads of the linear algebra in this process.

The analysis is many small matrices. OpenBLAS spreads each over all cores, where the threads wait for each other by
spinning: on a busy machine most of the time. What is started from here, the system under test above all, must not
inherit the remedy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

NAME = "OPENBLAS_NUM_THREADS"
_own: set[str] = set()


def one_blas_thread() -> None:
    """One thread, unless the user said otherwise. OpenBLAS reads it when numpy is imported: call it before."""
    if NAME not in os.environ:
        os.environ[NAME] = "1"
        _own.add(NAME)


def inherited() -> Mapping[str, str]:
    """The environment without what this process set for itself."""
    return {name: value for name, value in os.environ.items() if name not in _own}
