"""A study and a search of a server that runs already: loaded as it is, measured, and still there afterwards."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from command_line import Command

pytestmark = pytest.mark.stack

STUDY = """\
study: served
question: How much does it carry?
stack: { url: URL }
workload: { scenario: url, arrivals: open, ramp_up: 1s, steady: 2s, ramp_down: 0s }
factors: { load.rate: [2, 150] }
design: { replicates: 1 }
limits: { p99: 300ms, errors: 0.9 }
"""


class OneWorker(BaseHTTPRequestHandler):
    """20 ms each, one at a time: at most 50 a second."""

    turn = threading.Lock()

    def do_GET(self) -> None:
        with self.turn:
            threading.Event().wait(0.02)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), OneWorker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        path = tmp_path / "served.yaml"
        path.write_text(STUDY.replace("URL", f"http://127.0.0.1:{server.server_address[1]}"))
        yield path
        server.shutdown()


def test_a_study_measures_it(study: Path) -> None:
    Command("run")(str(study))
    shown = Command("show").document("served")
    responses = [trial["responses"] for trial in shown["trials"]]
    assert all(found["throughput"] > 0 and "cpu_per_transaction" not in found for found in responses)


def test_the_load_it_carries_is_found_and_the_limit_that_is_broken_is_named(study: Path) -> None:
    """150 sessions a second are far beyond it, whatever else this machine does."""
    words = ("--step-factor", "70", "--resolution", "99%", "--repeats", "0")
    found = Command("knee").document(study, *words)
    assert found["limits"][0]["limited_by"] in ("server", "driver")
    assert found["limits"][0]["highest"] < 150
