"""Access logs as a mix and as arrivals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recordings import read
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.load.convert.formats import of_file
from leadline.load.convert.write import Draft

CLF = '127.0.0.1 - ann [10/Oct/2024:13:55:{second:02d} +0000] "{request} HTTP/1.1" {status} 2326{more}'
REQUESTS = [
    (0, "GET /", 200),
    (0, "GET /orders/17", 200),
    (1, "GET /orders/18?view=full", 200),
    (1, "POST /orders", 201),
    (1, "GET /logo.png", 200),
    (1, "GET /orders/9f8b6a7c-1111-4222-8333-444455556666/lines", 304),
    (3, "GET /orders/19", 404),
    (3, "GET /", 200),
]


def of(tmp_path: Path, lines: list[str]) -> Draft:
    (tmp_path / "access.log").write_text("\n".join(lines) + "\n")
    return of_file(tmp_path / "access.log")


def plain(more: str = "") -> list[str]:
    return [
        CLF.format(second=second, request=request, status=status, more=more) for second, request, status in REQUESTS
    ]


def tomcat() -> list[str]:
    return [
        f'2024-10-10T13:55:0{second}+00:00 10.0.0.1 "{request} HTTP/1.1" {status} 12ms'
        for second, request, status in REQUESTS
    ]


def as_json() -> list[str]:
    base = 1728568500
    rows = [
        {"ts": base + second, "request": {"method": request.split()[0], "uri": request.split()[1]}, "status": status}
        for second, request, status in REQUESTS
    ]
    return [json.dumps(row) for row in rows]


def nginx_json() -> list[str]:
    return [
        json.dumps({"time_iso8601": f"2024-10-10T13:55:0{s}+00:00", "request": f"{r} HTTP/1.1", "status": str(c)})
        for s, r, c in REQUESTS
    ]


@pytest.mark.parametrize(
    "lines",
    [plain(), plain(' "http://ref" "Mozilla/5.0 (X11)"'), tomcat(), as_json(), nginx_json()],
    ids=["common", "combined", "tomcat", "caddy", "nginx-json"],
)
def test_a_log_is_a_mix_and_arrivals(lines: list[str], tmp_path: Path) -> None:
    draft = of(tmp_path, lines)
    scenario = read(draft)
    assert scenario["mix"] == {"home": 2, "orders": 2, "orders-lines": 1}
    assert scenario["transactions"]["orders"] == [{"get": "/orders/${choice:17:18?view=full}"}]
    assert list(draft.times) == pytest.approx([0, 0.5, 1, 1.5, 3])
    notes = " ".join(draft.notes)
    for part in ("by POST, whose bodies no log holds: 1", "answered with 404: 1", "for images, styles and scripts: 1"):
        assert part in notes


def test_many_different_segments_are_values(tmp_path: Path) -> None:
    lines = [
        CLF.format(second=0, request=f"GET /shoes/{a}-{b}/sizes", status=200, more="")
        for a in ("red", "blue", "green", "grey", "pink", "white", "black", "brown")
        for b in ("low", "high", "old", "new", "soft", "hard", "long", "short")
    ]
    draft = of(tmp_path, lines)
    assert read(draft)["mix"] == {"shoes-sizes": 64}
    assert "Only the 20 most frequent paths are taken, equally often, of transactions: 1." in " ".join(draft.notes)


def test_lines_of_another_form_are_counted_and_other_files_refused(tmp_path: Path) -> None:
    assert "Requests left out, lines of another form: 1." in " ".join(of(tmp_path, [*plain(), "garbage"]).notes)
    (tmp_path / "a").write_text(CLF.format(second=0, request="POST /", status=200, more=""))
    done = CliRunner().invoke(app, ["scenario", "from", str(tmp_path / "a")])
    assert "the log has no GET or HEAD that succeeded" in str(done.exception)


def test_the_arrivals_stand_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text("\n".join(plain()))
    done = CliRunner().invoke(app, ["scenario", "from", str(tmp_path / "access.log"), "-o", str(tmp_path / "s.yaml")])
    assert done.exit_code == 0, done.exception
    assert done.stderr == f"arrivals: --arrivals replay --replay {tmp_path / 's.times'}\n"
    assert (tmp_path / "s.times").read_text().split() == ["0.000000", "0.500000", "1.000000", "1.500000", "3.000000"]
