"""One thread for the linear algebra of this process; nothing of it for what is started from here."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from leadline.host.threads import NAME, inherited, one_blas_thread
one_blas_thread()
print(os.environ[NAME], inherited().get(NAME), "numpy" in sys.modules)
"""
COMMAND = """
import os
from leadline.cli.main import main
from leadline.host.threads import NAME
try:
    main()
except SystemExit:
    print(os.environ[NAME])
"""


@pytest.mark.parametrize(
    ("before", "after"), [({}, "1 None False"), ({"OPENBLAS_NUM_THREADS": "3"}, "3 3 False")], ids=["unset", "set"]
)
def test_the_users_word_counts_and_children_do_not_inherit_ours(
    before: dict[str, str], after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == after


def test_the_command_line_starts_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    done = subprocess.run([sys.executable, "-c", COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[1] == "1"
