"""A secret of a stack file is in nothing that a study leaves, whatever the application prints of it, under any mask."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from conftest import leadline
from witnesses import matrix

pytestmark = pytest.mark.stack

APPLICATION = """\
import http.server, json, os, sys

print("environment", dict(os.environ), file=sys.stderr, flush=True)
print("arguments", sys.argv, flush=True)
answer = json.dumps({"size": int(sys.argv[-1].partition("=")[2]), "state": "up"}).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *words):
        print(os.environ["DB_PASSWORD"], *words, flush=True)


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
STACK = """\
stack: secretive
command: [python3, app.py, "${port}", "--token=${env:OUR_TOKEN}", "${args}"]
directory: app
environment:
  DB_PASSWORD: in-clear-4711
  DB_URL: "jdbc:postgresql://db/shop?user=a&password=${env:OUR_DATABASE}"
  SIGNED_BY: "${file:key.txt}"
ready: { path: /, says: { state: up } }
scenario: look.yaml
knobs:
  app.size:
    summary: what it says
    range: [1, 9]
    default: 1
    argument: "--size=${level}"
    read_back: { http: /, key: size }
"""
STUDY = """\
study: secretive
question: Does it matter?
stack: app.stack.yaml
workload: { users: 2, ramp_up: 500ms, steady: 3s, ramp_down: 0s }
factors: { app.size: [1, 2] }
design: { replicates: 2, sentinels: null, seed: 1 }
responses: [throughput]
"""
SECRETS = ("in-clear-4711", "of-a-command-4712", "of-a-database-4713", "of-a-file-4714")


def holders(place: Path) -> list[str]:
    """Files below a place that hold a secret, in the encodings of programs and recordings."""
    words = [secret.encode(form) for secret in SECRETS for form in ("utf-8", "utf-16-le", "utf-16-be")]
    files = [path for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in files if any(word in path.read_bytes() for word in words)]


@pytest.mark.parametrize("mask", [0o077, pytest.param(0o000, marks=matrix("two studies of a minute each"))])
def test_a_secret_is_in_nothing_that_a_study_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mask: int) -> None:
    given, place = tmp_path / "given", tmp_path / "place"
    (given / "app").mkdir(parents=True)
    place.mkdir()
    given.joinpath("app", "app.py").write_text(APPLICATION)
    given.joinpath("app.stack.yaml").write_text(STACK)
    given.joinpath("key.txt").write_text("of-a-file-4714\n")
    given.joinpath("look.yaml").write_text("scenario: look\nmix: { get: 1 }\ntransactions: { get: [ { get: / } ] }\n")
    given.joinpath("study.yaml").write_text(STUDY)
    for name, secret in (("OUR_TOKEN", SECRETS[1]), ("OUR_DATABASE", SECRETS[2])):
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("LEADLINE_STATE", str(place / "state"))
    monkeypatch.setenv("LEADLINE_LAB", str(place / "lab"))
    before = os.umask(mask)
    try:
        done = leadline("run", given / "study.yaml", "--verbose", cwd=place, timeout=900)
        written = [
            leadline("show", "secretive", "--json", cwd=place),
            leadline("report", "secretive", "--out", "report.html", cwd=place),
            leadline("export", "secretive", "--out", "exported", cwd=place),
        ]
    finally:
        os.umask(before)
    assert done.returncode in (0, 4), done.stderr  # whether sizes differ is not what is asked
    assert "4 of 4 trials done" in done.stdout, done.stdout + done.stderr
    for number, command in enumerate((done, *written)):
        (place / f"said-{number}").write_text(command.stdout + command.stderr)
        assert number == 0 or command.returncode in (0, 4), command.stderr
    assert len(list(place.rglob("*"))) > 20
    assert holders(place) == []
    assert stat.S_IMODE((place / "lab").stat().st_mode) == 0o700
    kept = [place / "lab" / "lab.sqlite", *(place / "lab" / "trials").rglob("*")]
    assert [str(path) for path in kept if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
