"""Hosts of drivers that were lost in a load are waited for before the next trial."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from leadline.host import process
from leadline.host.journal import UndoJournal
from leadline.lab import together
from leadline.load.cluster.spec import read_drivers
from leadline.model.errors import FailureClass, TrialFailure


def test_a_lost_driver_is_waited_for_and_one_that_stays_away_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "_AWAY", (0.0, 0.0))
    there, host = tmp_path / "there", tmp_path / "host"
    host.write_text(f'#!/bin/sh\ntest -e {there} || {{ echo "no route" >&2; exit 1; }}\nexec "$@"\n')
    host.chmod(0o755)
    (tmp_path / "drivers.yaml").write_text(f"- local\n- {{ name: far, via: {host} }}\n")
    drivers = read_drivers(str(tmp_path / "drivers.yaml"))
    start = partial(process.start, journal=UndoJournal(tmp_path / "undo.jsonl"))
    said: list[str] = []
    with pytest.raises(TrialFailure, match=r"^driver far .*: no route") as caught:
        together.reach_drivers(drivers, tmp_path / "place", start, said.append)
    assert caught.value.failure_class is FailureClass.INTERRUPTED
    assert [line.startswith("waiting for driver far ") for line in said] == [True, True]

    def back(line: str) -> None:
        said.append(line)
        there.touch()

    said.clear()
    together.reach_drivers(drivers, tmp_path / "place", start, back)
    assert len(said) == 1, "it was there at the second try"
