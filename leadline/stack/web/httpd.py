"""Apache httpd: the one this host has (as ``httpd`` or ``apache2``), with its event MPM unless a level says another."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar

from leadline.host import here
from leadline.host.facts import MEND, VARIABLE, find_httpd
from leadline.model.errors import LeadlineError
from leadline.model.knob import Level
from leadline.stack.base import Progress, Settings
from leadline.stack.web import common
from leadline.stack.web.common import FILES, PRIVATE, STATUS, FrontContext, WebServer

_MODULES = ("modules", "lib/apache2/modules", "lib64/httpd/modules", "lib/httpd/modules", "lib64/apache2")
_THREADS = 25  # ThreadsPerChild's default
_KEEPALIVE_REQUESTS = 100  # MaxKeepAliveRequests' default
_BACKLOG = 511  # ListenBacklog's default
_ALWAYS = ("unixd", "authz_core", "authz_host", "log_config", "mime")
_PROXY = ("headers", "proxy", "proxy_http")


class Httpd(WebServer):
    """Apache httpd in the foreground."""

    name: ClassVar[str] = "httpd"
    title: ClassVar[str] = "Apache httpd"

    @property
    def version(self) -> str:
        return _version(self.binary)

    @property
    def binary(self) -> Path:
        """Raises LeadlineError where this host has none."""
        httpd, why = find_httpd()
        if httpd is None:
            raise LeadlineError(
                f"Apache httpd is not here ({why}): {MEND}, or name an unpacked one in {VARIABLE}; nginx needs no"
                " installing"
            )
        return httpd

    def provision(self, progress: Progress) -> None:
        progress(f"found Apache httpd {self.version} in {self.binary}")
        _modules(self.binary)

    def command(self, context: FrontContext) -> list[str]:
        return [str(self.binary), "-f", str(self.file), "-d", str(context.directory), "-DFOREGROUND"]

    def configuration(self, context: FrontContext, settings: Settings) -> str:
        private = context.directory
        tls, http2 = settings.get(common.TLS.name, False), settings.get(common.HTTP2.name, False)
        compression = settings.get(common.COMPRESSION.name, False)
        wanted = [f"mpm_{_model(settings)}", *_ALWAYS, *(() if context.site else _PROXY)]
        wanted += ["ssl", "socache_shmcb"] if tls else []
        wanted += ["http2"] if http2 else []
        wanted += ["filter", "deflate"] if compression else []
        wanted += ["status"] if context.observe else []
        wanted += ["alias"] if context.site or settings.get(common.STATIC.name, False) else []
        lines = [
            f'ServerRoot "{private}"',
            f'DefaultRuntimeDir "{private}"',
            f'PidFile "{private}/httpd.pid"',
            f'ErrorLog "{private}/error.log"',
            "ServerName localhost",
            f"Listen {context.address}:{context.port}",
            *([f"ListenBacklog {settings[common.BACKLOG.name]}"] if common.BACKLOG.name in settings else []),
            *_loads(self.binary, wanted),
            f'Mutex "file:{private}" default',
            'TypesConfig "/dev/null"',
            "AddType text/html .html",
            "AddType text/css .css",
            "AddType application/javascript .js",
            "AddType text/plain .txt",
            "AddType image/svg+xml .svg",
        ]
        lines += _processes(settings)
        lines += _keepalive(settings)
        lines.append(f"Protocols {('h2' if tls else 'h2c') + ' ' if http2 else ''}http/1.1")
        if tls:
            lines += ["SSLEngine on", f'SSLCertificateFile "{private}/tls.crt"']
            lines.append(f'SSLCertificateKeyFile "{private}/tls.key"')
        if compression:
            kinds = "text/html text/css text/plain application/javascript application/json image/svg+xml"
            lines.append(f"AddOutputFilterByType DEFLATE {kinds}")
        if settings.get(common.ACCESS_LOG.name, False):
            lines.append(r'LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"" combined')
            lines.append(f'CustomLog "{private}/access.log" combined')
        if settings.get(common.SENDFILE.name, False):
            lines.append("EnableSendfile On")
        lines += [f'DocumentRoot "{context.site or private / "www"}"']
        lines += [f"<Location {PRIVATE}>", "  Require local", "</Location>"]
        if context.observe:
            lines += [f"<Location {STATUS}>", "  SetHandler server-status", "  Require local", "</Location>"]
        if context.site is None:
            lines += _proxy(context, settings, bool(tls))
        else:
            lines.append(f'Alias "{PRIVATE}/probe.html" "{private}/www{PRIVATE}/probe.html"')
        return "\n".join([*lines, ""])

    def parsed(self) -> str:
        # It is mod_info that writes the dump; the running server does without.
        loads = [word for line in _loads(self.binary, ["info"]) for word in ("-C", line)]
        argv = [*self.command(self.context), *loads, "-D", "DUMP_CONFIG", "-t"]
        done = self.asked(argv)
        if done.returncode:
            raise LookupError(f"httpd -D DUMP_CONFIG failed: {done.stderr.strip().splitlines()[-1:]}")
        return done.stdout

    def _level(self, name: str) -> Level:
        return self._loaded_model() if name == common.MODEL.name else super()._level(name)

    def _loaded_model(self) -> str:
        """The MPM that the program has loaded, or was built with, as it lists its modules. Raises LookupError."""
        done = self.asked([*self.command(self.context), "-D", "DUMP_MODULES", "-t"])
        match = re.search(r"^\s*mpm_(\w+)_module\b", done.stdout, re.MULTILINE)
        if match is None:
            raise LookupError(f"httpd -D DUMP_MODULES names no MPM: {(done.stderr or done.stdout)[:200]!r}")
        return match[1]

    def parsed_level(self, name: str, text: str) -> Level:
        proxy = next((line for line in text.splitlines() if "ProxyPass " in line and "://" in line), "")
        if name == common.UPSTREAM_KEEPALIVE.name:
            if "disablereuse=on" in proxy.lower():
                return 0
            match = re.search(r"\bsmax=(\d+)", proxy)
            return int(match[1]) if match else _THREADS
        if name == common.UPSTREAM.name and proxy:
            return "unix" if "unix:" in proxy else "tcp"
        if name == common.KEEPALIVE_REQUESTS.name:
            match = re.search(r"^\s*MaxKeepAliveRequests (\d+)", text, re.MULTILINE)
            return int(match[1]) + 1 if match else _KEEPALIVE_REQUESTS + 1
        if name == common.SENDFILE.name:
            return bool(re.search(r"^\s*EnableSendfile on\s*$", text, re.MULTILINE | re.IGNORECASE))
        if name == common.BACKLOG.name:
            match = re.search(r"^\s*ListenBacklog (\d+)", text, re.MULTILINE)
            return int(match[1]) if match else _BACKLOG
        if name == common.ACCESS_LOG.name:
            return bool(re.search(r"^\s*CustomLog ", text, re.MULTILINE))
        raise LookupError(f"Apache httpd does not tell the level of {name}")

    def counters(self) -> Mapping[str, float]:
        _, _, body = self.client().get(f"{STATUS}?auto")
        self._asked += 1
        fields = dict(line.split(": ", 1) for line in body.decode("utf-8", "replace").splitlines() if ": " in line)
        try:
            # A request is counted when it has been answered: this one is not in yet.
            return {
                "requests": max(0.0, float(fields["Total Accesses"]) - (self._asked - 1)),
                "workers_busy": float(fields["BusyWorkers"]) - 1,
                "workers_idle": float(fields["IdleWorkers"]),
            }
        except KeyError as error:
            raise ValueError(f"server-status does not tell {error}") from None

    def words(self) -> str:
        error_log = self.context.directory / "error.log"
        written = error_log.read_text(errors="replace") if error_log.exists() else ""
        return f"{super().words()}{written}"

    def keep_logs(self) -> None:
        error_log = self.context.directory / "error.log"
        if error_log.exists():
            with (self.context.artefacts / "httpd-error.log").open("a") as stream:
                stream.write(error_log.read_text(errors="replace"))
            error_log.unlink()

    def is_error(self, line: str) -> bool:
        return bool(re.search(r":(?:emerg|alert|crit|error)\]|^AH\d+:|[Ss]yntax error|not bind|Invalid command", line))


def _model(settings: Settings) -> str:
    return str(settings.get(common.MODEL.name, common.MODEL.default))


def _processes(settings: Settings) -> list[str]:
    if common.WORKERS.name not in settings:
        return []
    count = int(settings[common.WORKERS.name])
    if _model(settings) == common.PREFORK:
        return [
            f"ServerLimit {count}",
            f"StartServers {count}",
            f"MaxRequestWorkers {count}",
            "MinSpareServers 1",
            f"MaxSpareServers {count + 1}",  # none is ended for idling
        ]
    threads = count * _THREADS
    return [
        f"ServerLimit {count}",
        f"StartServers {count}",
        f"MaxRequestWorkers {threads}",
        "MinSpareThreads 1",
        f"MaxSpareThreads {threads + _THREADS}",  # none is ended for idling
    ]


def _keepalive(settings: Settings) -> list[str]:
    if common.KEEPALIVE_REQUESTS.name not in settings:
        return []
    carried = int(settings[common.KEEPALIVE_REQUESTS.name])
    # It counts the requests after the first, and 0 would mean no limit.
    return ["KeepAlive off"] if carried == 1 else ["KeepAlive on", f"MaxKeepAliveRequests {carried - 1}"]


def _proxy(context: FrontContext, settings: Settings, tls: bool) -> list[str]:
    root = context.deployment.path
    direct = f"http://{context.server_address}:{context.server_port}{root}"
    target = f"unix:{context.socket}|http://localhost{root}" if context.socket else direct
    options = ""
    if common.UPSTREAM_KEEPALIVE.name in settings:
        kept_alive = int(settings[common.UPSTREAM_KEEPALIVE.name])
        options = f" smax={kept_alive} ttl=1" if kept_alive else " disablereuse=On"
    lines = ["ProxyPreserveHost On"]
    if settings.get(common.STATIC.name, False):
        lines += [f'ProxyPass "{root}/{FILES}/" "!"', f'Alias "{root}/{FILES}/" "{context.directory}/{FILES}/"']
    lines.append(f'ProxyPass "{root}" "{target}"{options}')
    scheme = "https" if tls else "http"
    lines.append(f"RequestHeader set X-Forwarded-Proto {scheme}")
    if tls:
        lines.append('Header edit Location "^http://([^/]+)/" "https://$1/"')
    return lines


def _loads(binary: Path, wanted: Sequence[str]) -> list[str]:
    """``LoadModule`` lines of modules that are not compiled in. Raises LeadlineError for one that is missing."""
    compiled, directory = _modules(binary)
    lines = []
    for name in wanted:
        if name in compiled:
            continue
        file = directory / f"mod_{name}.so"
        if not file.exists():
            raise LeadlineError(
                f"this Apache httpd ({binary}) lacks mod_{name}: neither compiled in nor in {directory}"
            )
        lines.append(f'LoadModule {name}_module "{file}"')
    return lines


@cache
def _said(binary: Path, option: str) -> str:
    try:
        done = here.alone([str(binary), option], reads=[binary.resolve().parent.parent], timeout=60)
    except OSError as error:
        raise LeadlineError(f"Apache httpd cannot be run: {error}") from error
    return done.stdout + done.stderr


def _version(binary: Path) -> str:
    match = re.search(r"Apache/(\S+)", _said(binary, "-v"))
    if match is None:
        raise LeadlineError(f"{binary} -v does not answer as Apache httpd does: {_said(binary, '-v')[:200]!r}")
    return match[1]


def _modules(binary: Path) -> tuple[frozenset[str], Path]:
    """Names of the modules compiled in, and the directory of the others. Raises LeadlineError."""
    _version(binary)
    compiled = {word.removeprefix("mod_").removesuffix(".c") for word in _said(binary, "-l").split()}
    compiled |= {f"mpm_{name}" for name in common.MODEL.choices if name in compiled}
    # Debian's and Red Hat's programs do not say where they keep them.
    prefix = binary.resolve().parent.parent
    root = re.search(r'HTTPD_ROOT="([^"]+)"', _said(binary, "-V"))
    bases = [prefix, *([Path(root[1])] if root else []), Path("/usr")]
    for base in bases:
        for place in _MODULES:
            if (base / place / "mod_proxy.so").exists():
                return frozenset(compiled), base / place
    if "proxy" in compiled:
        return frozenset(compiled), prefix
    looked = ", ".join(str(base) for base in bases)
    raise LeadlineError(f"the modules of Apache httpd ({binary}) are in none of the usual places below {looked}")
