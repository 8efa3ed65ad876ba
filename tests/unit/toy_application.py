"""An application of one's own in a few lines of Python, with its stack file."""

import sys
from pathlib import Path

APPLICATION = """
import json, os, socket, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

size = int(next((word[7:] for word in sys.argv if word.startswith("--size=")), 4))
discovery = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # as clusters have one
discovery.bind(("127.0.0.1", 0))
open("state.txt", "a").write("started\\nwait=%s\\n" % os.environ.get("WAIT", "250"))


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        starts = open("state.txt").read().count("started")
        self.wfile.write(json.dumps({"pool": {"size": size}, "starts": starts}).encode())

    def log_message(self, *told):
        pass


HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
STACK = """stack: toy
command: [PYTHON, app.py, "${port}"]
ready: { path: /up, says: { starts: 1 }, within: 10s }
directory: data
scenario: toy.scenario.yaml
knobs:
  app.size:
    range: [1, 64]
    argument: --size=${level}
    read_back: { http: /settings, key: pool.size }
  app.wait:
    kind: duration
    unit: ms
    environment: WAIT
    read_back: { file: state.txt, key: wait }
audits:
  - { name: one-start, http: /state, key: starts, equals: 1 }
  - { name: counted, http: /state, key: pool.size, equals: "5 + ${counts.item.ok}" }
"""


def toy(directory: Path) -> Path:
    """Its stack file, with all that it names beside it."""
    (directory / "data").mkdir()
    (directory / "app.py").write_text(APPLICATION)
    (directory / "toy.scenario.yaml").write_text("transactions: {}\n")
    path = directory / "toy.stack.yaml"
    path.write_text(STACK.replace("PYTHON", sys.executable))
    return path
