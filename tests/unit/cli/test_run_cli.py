"""``run`` tells what ``doctor`` finds before it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from leadline.cli.commands import execute
from leadline.cli.main import app
from leadline.model.errors import LeadlineError

SWAP = "doctor: swap: on (/dev/vdb); to mend it: sudo swapoff -a"


@pytest.mark.parametrize(
    ("options", "told"), [((), True), (("--dry-run",), False), (("--simulate", "truth.yaml"), False)], ids=str
)
def test_a_real_run_is_told_what_would_spoil_it(
    options: tuple[str, ...], told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked(*_: Any) -> Any:
        def begin(fresh: bool) -> Any:
            raise LeadlineError("the run has begun")

        return begin

    monkeypatch.chdir(tmp_path)
    (tmp_path / "truth.yaml").write_text("truth: { seed: 1 }\n")
    monkeypatch.setattr(execute, "before_a_run", lambda: [SWAP])
    monkeypatch.setattr(execute, "checked", checked)
    done = CliRunner().invoke(app, ["run", "quickstart", *options])
    assert (SWAP in done.output) == told
    assert isinstance(done.exception, LeadlineError) == ("--dry-run" not in options)
