"""The server of the live page: loopback only, nothing without the token, changes by a POST of its own page only.

What the page shows is read anew from the lab's files, as JSON types; what is costly is kept.
"""

from __future__ import annotations

import hmac
import json
import os
import queue
import secrets
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

import leadline
from leadline.api.comparing import compare_runs, history_document, history_of
from leadline.api.results import Lab, StudyResult
from leadline.api.running import go_on, is_running, open_labs, readable, stylesheet
from leadline.conclude.narrowing import Watching, narrowing
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.record import StudyRecord, TrialState
from leadline.trial.livelog import Live, ask_to_stop, read_live

_SECONDS = 900  # of a load that are sent
_MESSAGES = 8
_MOST = 1000  # sentences that wait
_NICE = 15
_RESPONSES = 4  # whose effects are shown as they narrow
_ASKED_AGAIN = 5.0  # seconds for which the list of studies is kept


@dataclass(frozen=True)
class Running:
    """A study that runs now."""

    lab: str  # real or simulated
    result: StudyResult
    live: Live

    @property
    def key(self) -> str:
        return f"{self.lab}/{self.result.record.id}"

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.live.seconds_left(self._now))

    @property
    def left_text(self) -> str:
        return self.live.left_text(self._now)

    @property
    def _now(self) -> float:
        return self.live.left_at if self.lab == "simulated" else time.time()


@dataclass
class Watch:
    """A lab and its simulated studies. Sentences are made one at a time, in a thread of their own, and not while a
    study is measured on this machine.
    """

    directory: Path
    _sentences: dict[tuple[str, int, int], str] = field(default_factory=dict)
    _pending: set[tuple[str, int, int]] = field(default_factory=set)
    _looks: dict[tuple[str, int, str], dict[int, Any]] = field(default_factory=dict)
    _effects_at: dict[str, tuple[int, list[dict[str, Any]]]] = field(default_factory=dict)
    _known: tuple[float, list[tuple[str, StudyResult]]] = (float("-inf"), [])
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _asked: queue.Queue[tuple[tuple[str, int, int], StudyResult]] = field(
        default_factory=lambda: queue.Queue(maxsize=_MOST)
    )
    _worker: threading.Thread | None = None

    def studies(self) -> list[tuple[str, StudyResult]]:
        """Every study with the lab it is in, newest first. Finished ones are read once."""
        with self._lock:
            if time.monotonic() - self._known[0] > _ASKED_AGAIN:
                before = {(name, study.record.id): study for name, study in self._known[1] if not _is_left(study)}
                studies = [
                    (name, study)
                    for name, lab in open_labs(self.directory).items()
                    for study in readable(lab, {number: study for (of, number), study in before.items() if of == name})
                ]
                self._known = (time.monotonic(), studies)
            return self._known[1]

    def lab(self, name: str) -> Lab:
        """Raises UsageError."""
        labs = open_labs(self.directory)
        if name not in labs:
            raise UsageError(f"there is no lab {name}")
        return labs[name]

    def study(self, key: str) -> StudyResult:
        """``real/12``. Raises UsageError for what is not there."""
        name, _, number = key.partition("/")
        if not number.isdecimal():
            raise UsageError(f"{key[:40]!r} names no study; write lab/number")
        return self.lab(name).study(number)

    def running(self) -> list[Running]:
        """Studies that a leadline holds now, newest first."""
        running = []
        for name, study in self.studies():
            if not _is_left(study) or not is_running(study):
                continue
            directory = study.store.directory
            live = read_live(directory, study.record.id)
            if live is not None and live.trials:
                running.append(Running(name, study, live))
        return running

    def live_document(self) -> dict[str, Any]:
        """What runs now, and the list of studies."""
        running = self.running()
        return {
            "running": [self._running(study) for study in running],
            "studies": self._rows({study.key for study in running}, any(study.lab == "real" for study in running)),
        }

    def _running(self, one: Running) -> dict[str, Any]:
        live, study = one.live, one.result.record.study
        steps = live.seconds[-_SECONDS:]
        return {
            "key": one.key,
            "study": one.result.run,
            "question": study.question,
            "simulated": one.result.record.simulated,
            "trial": live.position + 1,
            "trials": live.trials,
            "done": live.done,
            "attempt": live.attempt,
            "label": live.label,
            "phase": steps[-1].phase if steps and live.step == "load" else live.step,
            "left": one.left_text,
            "told": max(0.0, time.time() - live.told_at),
            "seconds": [[s.second, s.throughput, s.p50_ms, s.p99_ms, s.errors, s.unanswered_from_ms] for s in steps],
            "messages": live.messages[-_MESSAGES:],
            "effects": self._effects(one),
        }

    def _effects(self, one: Running) -> list[dict[str, Any]]:
        """Made anew when a trial has ended."""
        key, done = one.key, one.live.done
        with self._lock:
            if key not in self._effects_at or self._effects_at[key][0] != done:
                record = one.result.store.load(one.result.record.id)
                narrowings = [
                    self._narrowing(one.lab, record, response) for response in record.study.responses[:_RESPONSES]
                ]
                self._effects_at[key] = (done, narrowings)
            return self._effects_at[key][1]

    def _narrowing(self, lab: str, record: StudyRecord, response: str) -> dict[str, Any]:
        looks = self._looks.setdefault((lab, record.id, response), {})
        try:
            return asdict(narrowing(record, response, looks))
        except (LeadlineError, ValueError, ArithmeticError) as error:
            return asdict(Watching(response, (), (0, 0), str(error)))

    def _rows(self, running: set[str], measured: bool) -> list[dict[str, Any]]:
        rows = []
        for name, study in self.studies():
            record = study.record
            key = f"{name}/{record.id}"
            done = sum(trial.state == TrialState.DONE for trial in record.trials)
            trials_left = sum(trial.is_left for trial in record.trials)
            rows.append(
                {
                    "key": key,
                    "study": study.run,
                    "name": record.study.study,
                    "simulated": record.simulated,
                    "started": record.created,
                    "trials": len(record.trials),
                    "done": done,
                    "state": "running" if key in running else "unfinished" if trials_left else "finished",
                    "sentence": "" if key in running else self._sentence(name, study, done, measured),
                }
            )
        return rows

    def _sentence(self, lab: str, one: StudyResult, done: int, measured: bool) -> str:
        """The conclusion, or why it is not there yet."""
        key = (lab, one.record.id, done)
        with self._lock:
            if key in self._sentences:
                return self._sentences[key]
            if measured:
                return "shown when no study is measured on this machine"
            if key not in self._pending and not self._asked.full():
                self._pending.add(key)
                self._asked.put_nowait((key, one))
                if self._worker is None:  # a daemon: a conclusion that takes long does not keep the page from ending
                    self._worker = threading.Thread(target=self._conclude, name="sentences", daemon=True)
                    self._worker.start()
        return "analysis under way ..."

    def _conclude(self) -> None:
        behind_others()
        while True:
            key, study = self._asked.get()
            try:
                answer_text = study.answer
            except (LeadlineError, OSError, ValueError) as error:
                answer_text = f"cannot be concluded: {error}"
            with self._lock:
                self._sentences[key] = answer_text
                self._pending.discard(key)


def behind_others() -> None:
    """This thread computes when nothing else wants to: what is measured goes first."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def newest(running: Iterable[Running]) -> list[tuple[Running, Any]]:
    """Each running study with the last second of its load, None before the first."""
    return [(study, study.live.seconds[-1] if study.live.seconds else None) for study in running]


def _is_left(one: StudyResult) -> bool:
    return any(trial.is_left for trial in one.record.trials)


_STALE = 10.0  # seconds after which a second of a load is no figure of now


@dataclass(frozen=True)
class Gauge:
    """One figure of a running study now. ``labels``: in their order."""

    name: str
    help: str
    value: float
    labels: tuple[tuple[str, str], ...]


def gauges(running: Iterable[Running]) -> Iterator[Gauge]:
    """Figures of every running study; those of the load as long as it lasts."""
    for study, second in newest(running):
        labels = (("study", study.result.run), ("lab", study.lab))
        live = study.live
        yield Gauge("leadline_trials", "Planned trials.", live.trials, labels)
        yield Gauge("leadline_trials_ended", "Trials that have ended.", live.done, labels)
        yield Gauge("leadline_seconds_left", "Forecast of the time left.", study.seconds_left, labels)
        if second is None or time.time() - live.load_at > _STALE:
            continue
        of_load = (*labels, ("treatment", live.label), ("phase", second.phase))
        rate = "Transactions a second in the last second."
        yield Gauge("leadline_throughput", rate, second.throughput, of_load)
        for quantile, value in (("0.5", second.p50_ms), ("0.99", second.p99_ms)):
            help_text = "Response time in the last second."
            yield Gauge("leadline_response_seconds", help_text, value / 1000, (*of_load, ("quantile", quantile)))
        yield Gauge("leadline_errors", "Failed ones in the last second.", second.errors, of_load)
        yield Gauge("leadline_in_flight", "Transactions under way.", second.in_flight, of_load)


def prometheus(found: Iterable[Gauge]) -> str:
    """The text exposition format, version 0.0.4."""
    lines: list[str] = []
    named: dict[str, list[Gauge]] = {}
    for gauge in found:
        named.setdefault(gauge.name, []).append(gauge)
    for name, values in named.items():
        lines += [f"# HELP {name} {values[0].help}", f"# TYPE {name} gauge"]
        for one in values:
            labels = ",".join(f'{key}="{_escaped(value)}"' for key, value in one.labels)
            lines.append(f"{name}{{{labels}}} {one.value:.10g}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# The pages: what runs, two runs against each other, one study over time, and the reports of studies.


_ASSETS = {
    "ui.css": "text/css",
    "live.js": "text/javascript",
    "chart.js": "text/javascript",
    "history.js": "text/javascript",
}


class Pages:
    """Makes pages as text. ``form`` proves that a request comes from one of them."""

    def __init__(self, watch: Watch, form: str) -> None:
        self._watch, self._form = watch, form
        self._lock = threading.Lock()
        self._reports: dict[str, tuple[tuple[int, ...], str]] = {}
        self._environment = Environment(
            loader=PackageLoader("leadline.web", "templates"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters["day"] = lambda at: time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
        folder = resources.files("leadline.web").joinpath("templates")
        texts = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in _ASSETS}
        texts["ui.css"] = stylesheet() + texts["ui.css"]
        self.assets = {name: (kind, texts[name]) for name, kind in _ASSETS.items()}

    def home(self) -> str:
        return self._render("home.html.j2", lab=str(self._watch.directory.absolute()))

    def compare(self, first: str, second: str) -> str:
        """Two studies by ``lab/number``. Raises UsageError for what cannot be compared."""
        left_study, other = self._watch.study(first), self._watch.study(second)
        return self._render(
            "compare.html.j2",
            found=compare_runs(left_study, other),
            simulated=left_study.record.simulated or other.record.simulated,
        )

    def history(self, params: Mapping[str, str]) -> str:
        """A study over time: ``lab``, ``study``, and if wanted ``response`` and ``level``. Raises UsageError."""
        lab, study = params.get("lab", "real"), params.get("study", "")
        level = params.get("level", "")
        runs_of_lab = [run for name, run in reversed(self._watch.studies()) if name == lab]
        history = history_of([self._watch.lab(lab)], study, params.get("response") or None, level, runs_of_lab)
        runs = [run for run in runs_of_lab if run.record.study.study == study]
        responses = list(dict.fromkeys(name for run in runs for name in run.record.study.responses))
        levels = list(dict.fromkeys(str(comparison) for run in runs for comparison in run.record.plan.comparisons))
        data = {**history_document(history), "lab": lab}
        return self._render(
            "history.html.j2",
            found=history,
            lab=lab,
            level=level,
            responses=responses,
            levels=levels,
            data=_json(data),
            simulated=any(run.record.simulated for run in runs),
        )

    def report(self, key: str) -> str:
        """The report of a study, made anew when it has gone on. Raises UsageError."""
        result = self._watch.study(key)
        state = tuple(trial.attempt + 100 * (trial.ended is not None) for trial in result.record.trials)
        with self._lock:  # one at a time: each takes seconds and memory
            if key not in self._reports or self._reports[key][0] != state:
                with tempfile.TemporaryDirectory() as folder:
                    path = result.report(Path(folder) / "report.html")
                    self._reports = {key: (state, path.read_text(encoding="utf-8"))}
            return self._reports[key][1]

    def _render(self, name: str, *, simulated: bool = False, **content: Any) -> str:
        shared = {"version": leadline.__version__, "form": self._form, "simulated": simulated}
        return self._environment.get_template(name).render(**shared, **content)


def _json(document: Any) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(document, ensure_ascii=False, default=str)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


LOOPBACK = "127.0.0.1"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_TIMEOUT = 30.0  # seconds for a request to arrive
_LONGEST_BODY = 4096

Params = dict[str, str]


class UiServer(ThreadingHTTPServer):
    """``token`` opens the page; the cookie that it is exchanged for holds another secret, of this process alone."""

    daemon_threads = True

    def __init__(self, watch: Watch, token: str, port: int = 0) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.watch, self.token = watch, token
        self.session, self.form = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self.pages = Pages(watch, self.form)
        self.resumed: list[subprocess.Popen[bytes]] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def cookie(self) -> str:
        """Its name: servers on other ports of a host share its cookies."""
        return f"leadline-{self.port}"

    def stop_study(self, key: str) -> str:
        """Raises UsageError where it does not run."""
        result = self.watch.study(key)
        if not is_running(result):
            raise UsageError(f"{result.run} does not run")
        ask_to_stop(result.store.directory, result.record.id)
        return f"{result.run} is asked to stop: it ends its trial, puts the host back and can be resumed"

    def resume_study(self, key: str) -> str:
        """Raises UsageError where it cannot go on."""
        self.resumed = [
            process for process in self.resumed if process.poll() is None
        ]  # those that ended are no zombies
        result = self.watch.study(key)
        self.resumed.append(go_on(result))
        return f"{result.run} goes on"


class _Handler(BaseHTTPRequestHandler):
    server: UiServer
    server_version, sys_version = "leadline", ""
    timeout = _TIMEOUT

    def do_GET(self) -> None:
        behind_others()  # not in a POST: what it starts would inherit that
        self._guarded(self._get)

    def do_POST(self) -> None:
        self._guarded(self._post)

    def _guarded(self, serve: Callable[[str, Params], None]) -> None:
        split = urlsplit(self.path)
        params = {name: values[-1] for name, values in parse_qs(split.query).items()}
        try:
            if not self._own_host():
                self._refuse("this page is served to its own address only")
            elif self._opened(split.path, params):
                self._let_in()
            elif not self._known(split.path):
                self._refuse("no access without the token: open the address that leadline ui printed")
            else:
                serve(split.path, params)
        except UsageError as error:
            self._send(HTTPStatus.BAD_REQUEST, "text/plain; charset=utf-8", str(error))
        except BrokenPipeError:
            return
        except (LeadlineError, OSError) as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", str(error))

    def _own_host(self) -> bool:
        """Whether the request names this server: a foreign name that leads here (DNS rebinding) is refused."""
        port = self.server.port
        return self.headers.get("Host") in (f"{LOOPBACK}:{port}", f"localhost:{port}")

    def _opened(self, path: str, params: Params) -> bool:
        return self.command == "GET" and path == "/" and _same(params.get("token", ""), self.server.token)

    def _known(self, path: str) -> bool:
        """By the cookie; a scraper of /metrics by the token itself."""
        if path == "/metrics" and _same(self.headers.get("Authorization", ""), f"Bearer {self.server.token}"):
            return True
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            return False
        return cookie is not None and _same(cookie.value, self.server.session)

    def _let_in(self) -> None:
        """The token leaves the address bar; the cookie stays until the browser ends."""
        cookie = f"{self.server.cookie}={self.server.session}; HttpOnly; SameSite=Strict; Path=/"
        self._send(HTTPStatus.SEE_OTHER, "text/plain", "", {"Location": "/", "Set-Cookie": cookie})

    def _refuse(self, why: str) -> None:
        self._send(HTTPStatus.FORBIDDEN, "text/plain; charset=utf-8", why)

    def _get(self, path: str, params: Params) -> None:
        pages = self.server.pages
        match path.strip("/").split("/"):
            case [""]:
                self._page(pages.home())
            case ["compare"]:
                self._page(pages.compare(params.get("first", ""), params.get("second", "")))
            case ["history"]:
                self._page(pages.history(params))
            case ["report", lab, number]:
                # the report has a policy of its own, with the digests of its scripts
                self._send(HTTPStatus.OK, "text/html; charset=utf-8", pages.report(f"{lab}/{number}"), policy=False)
            case ["live.json"]:
                self._send(HTTPStatus.OK, "application/json", json.dumps(self.server.watch.live_document()))
            case ["metrics"]:
                text = prometheus(gauges(self.server.watch.running()))
                self._send(HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", text)
            case [name] if name in pages.assets:
                kind, text = pages.assets[name]
                self._send(HTTPStatus.OK, f"{kind}; charset=utf-8", text)
            case _:
                self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", "there is no such page")

    def _post(self, path: str, _params: Params) -> None:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > _LONGEST_BODY:
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "text/plain; charset=utf-8", "too long")
            return
        self.rfile.read(int(length))
        origin = self.headers.get("Origin", "")
        same = origin in (self.server.address, f"http://localhost:{self.server.port}")
        if not same or not _same(self.headers.get("X-Leadline-Form", ""), self.server.form):
            self._refuse("only the page itself may change something")
            return
        match path.strip("/").split("/"):
            case ["stop", lab, number]:
                outcome = self.server.stop_study(f"{lab}/{number}")
            case ["resume", lab, number]:
                outcome = self.server.resume_study(f"{lab}/{number}")
            case _:
                self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", "there is no such action")
                return
        self._send(HTTPStatus.OK, "text/plain; charset=utf-8", outcome)

    def _page(self, text: str) -> None:
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", text)

    def _send(
        self, status: HTTPStatus, kind: str, text: str, headers: dict[str, str] | None = None, policy: bool = True
    ) -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        fixed = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Content-Security-Policy": _POLICY if policy else "frame-ancestors 'none'; base-uri 'none'",
        }
        for name, value in {**fixed, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the first address has the token."""


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
