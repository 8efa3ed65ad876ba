"""The commands of ``leadline scenario``: bad files and places are refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recordings import API, SHOP, entry, har
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.model.errors import UsageError


def refused(*words: str) -> str:
    with pytest.raises(UsageError) as caught:
        CliRunner().invoke(app, ["scenario", *words], catch_exceptions=False)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    out = tmp_path / "no" / "x.yaml"
    (tmp_path / "a.har").write_text(har(entry("GET", f"{SHOP}/a", 0)))
    (tmp_path / "a.yaml").write_text(API)
    message = f"'{out}' cannot be written: there is no folder {out.parent}"
    assert refused("from-har", str(tmp_path / "a.har"), "--out", str(out)) == message
    assert refused("from-openapi", str(tmp_path / "a.yaml"), "--out", str(out)) == message
    assert refused("export", "brokerage-json", "--to", "k6", "--out", str(out)) == message


@pytest.mark.parametrize("command", ["from-har", "from-openapi"])
def test_endless_nesting_is_refused(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if command == "from-har":  # how deep the reader goes depends on the version of Python

        def too_deep(*_: object, **__: object) -> None:
            raise RecursionError

        monkeypatch.setattr(json, "loads", too_deep)
    file = tmp_path / "deep.json"
    file.write_text("[" * 5000)
    assert refused(command, str(file)) == f"{file}: nested too deeply"
