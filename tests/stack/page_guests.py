"""A web server of busybox in place of a stack, whose start takes minutes in an emulated guest."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from leadline.host.base import ProcessSpec
from leadline.model.knob import Level
from leadline.places.virtual.job import Captured, Started

SCENARIO = """\
scenario: page
description: One page.
parameters: { think: 20ms, session_length: 100 }
pause: { kind: think, shape: exponential, mean: "${think}" }
arrivals: { unit: session, session_length: "${session_length}" }
mix: { page: 1 }
transactions:
  page:
    - get: /page.html
      check: { contains: pages }
"""
PORT = 28_401


class FakeCaptures:
    """Captures of a stack that is one process."""

    def __init__(self, _study: object, _host: object, home: Path) -> None:
        self._home = home

    def versions(self) -> Mapping[str, str]:
        return {"httpd": "busybox"}

    def prepare(self, progress: Callable[[str], None]) -> None:
        progress("nothing is provisioned")

    def take(self, levels: Mapping[str, Level], number: int) -> Captured:
        assert not levels
        site, kept = self._home / "site", self._home / f"capture-{number}"
        shutil.rmtree(self._home, ignore_errors=True)
        inside = kept / site.relative_to("/")
        inside.mkdir(parents=True)
        (inside / "page.html").write_text("pages\n" * 500)
        for part in ("logs", "raw"):
            (self._home / "trial" / part).mkdir(parents=True)
        argv = ["httpd", "-f", "-p", f"127.0.0.1:{PORT}", "-h", str(site)]
        spec = ProcessSpec("server", argv, self._home / "trial" / "logs" / "server.log", cwd=site, owns=[site])
        url = f"http://127.0.0.1:{PORT}"
        return Captured(self._home / "trial", [Started(spec, kept)], url, f"{url}/page.html", 0, {})
