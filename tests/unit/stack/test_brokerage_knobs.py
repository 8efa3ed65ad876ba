"""The application's knobs: what they become, how they are read back, what a stack cannot have."""

import http.server
import json
import threading
from collections.abc import Iterator
from typing import ClassVar
from urllib.parse import parse_qsl

import pytest

from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.cli.commands.dry_run import print_plan
from leadline.host.local import LocalHost
from leadline.model.errors import UsageError
from leadline.model.study import StackChoice
from leadline.stack.applications.brokerage import Brokerage
from leadline.stack.applications.java import ask
from leadline.stack.registry import stack_catalogue

STUDY = """\
study: s
question: Which?
stack: {{ server: {server}, mode: {mode} }}
workload: {{ users: 1, steady: 6s }}
factors:
  {factor}
"""


def test_levels_become_system_properties() -> None:
    app = Brokerage()
    assert app.deployment("direct", {}).properties == {"brokerage.mode": "direct"}
    assert app.deployment("orm", {"app.calls": "remote", "app.summary_cache": 60.0}).properties == {
        "brokerage.mode": "orm",
        "brokerage.calls": "remote",
        "brokerage.summary.ttl": "60",
    }
    assert app.deployment("direct", {"app.extra_cpu": 25, "app.extra_statements": 1}).properties == {
        "brokerage.mode": "direct",
        "brokerage.extra_cpu": "25",
        "brokerage.extra_statements": "1",
    }
    with pytest.raises(UsageError, match=r"app\.summary_cache 1\.5s: .* whole seconds; the nearest is 2s"):
        app.deployment("orm", {"app.summary_cache": 1.5})


def test_a_mode_without_beans_refuses_remote_calls() -> None:
    direct = StackChoice(server="tomcat", mode="direct")
    file = parse_study(STUDY.format(server="tomcat", mode="direct", factor="app.calls: [local, remote]"), "s.yaml")
    with pytest.raises(UsageError, match=r"s\.yaml:6: .*remote cannot be had here: mode direct .* on .*liberty"):
        plan_study(file, LocalHost(), stack_catalogue(direct))
    orm = StackChoice(server="liberty", mode="orm")
    file = parse_study(STUDY.format(server="liberty", mode="orm", factor="app.summary_cache: [0, 20s, 1m]"), "s.yaml")
    planned = plan_study(file, LocalHost(), stack_catalogue(orm))
    assert planned.plan.factors[0].levels == (0.0, 20.0, 60.0)


def test_the_mode_is_a_knob_of_servers_that_run_it() -> None:
    assert Brokerage().deployment("direct", {"app.mode": "orm"}).properties == {"brokerage.mode": "orm"}
    assert Brokerage().level("app.mode", {"mode": "session"}) == "session"
    text = STUDY.format(server="tomcat", mode="direct", factor="app.mode: [direct, orm]")
    with pytest.raises(UsageError, match=r"s\.yaml:6: .*orm cannot be had here: tomcat has no such mode, .*liberty"):
        plan_study(parse_study(text, "s.yaml"), LocalHost(), stack_catalogue(StackChoice(server="tomcat")))


REMOTE = """\
study: s
question: Which?
stack: {{ server: {server}, mode: session }}
workload: {{ {load} }}
settings: {{ {settings} }}
factors:
  server.threads.max: [6, 24]
"""


@pytest.mark.parametrize(
    ("server", "load", "settings", "said"),
    [
        ("liberty", "users: 12", "app.calls: remote", "12 users need 24"),
        ("liberty", "profile: '0s:1,9s:12'", "app.calls: remote", "12 users need 24"),
        ("liberty", "users: 3", "app.calls: remote", ""),
        ("liberty", "arrivals: poisson, rate: 5, max_sessions: 12", "app.calls: remote", "up to 12 sessions at once"),
        ("liberty", "users: 12", "app.calls: local", ""),
        ("liberty", "users: 12", "app.summary_cache: 1s", ""),
        ("tomee", "users: 12", "app.calls: remote", ""),
    ],
)
def test_threads_that_remote_calls_would_use_up_are_told(server: str, load: str, settings: str, said: str) -> None:
    file = parse_study(REMOTE.format(server=server, load=load, settings=settings), "s.yaml")
    stack = StackChoice.model_validate({"server": server, "mode": "session"})
    planned = plan_study(file, LocalHost(), stack_catalogue(stack))
    assert len(planned.warnings) == bool(said)
    for warning in planned.warnings:
        assert warning.startswith("Warning: server.threads.max 6 with app.calls remote")
        assert said in warning
        assert warning in planned.plan.notes


def test_only_trials_with_remote_calls_are_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    text = REMOTE.format(server="liberty", load="users: 12", settings="app.summary_cache: 1s")
    kinds = {"full-factorial": 1, "one-at-a-time": 0}
    for kind, warnings in kinds.items():
        file = parse_study(
            text.replace("[6, 24]", "[24, 6]") + f"  app.calls: [local, remote]\ndesign: {{ kind: {kind} }}\n", "s.yaml"
        )
        planned = plan_study(file, LocalHost(), stack_catalogue(StackChoice(server="liberty", mode="session")))
        assert len(planned.warnings) == warnings, kind
        print_plan(file, planned, json=False)
        assert ("12 users need 24" in " ".join(capsys.readouterr().out.split())) == bool(warnings)


class FakeHealth(http.server.BaseHTTPRequestHandler):
    answer: ClassVar[dict[str, object]] = {}

    def do_POST(self) -> None:
        path, _, query = self.path.partition("?")
        assert path == "/brokerage/extra-costs"
        type(self).answer = {**self.answer, **{name: int(text) for name, text in parse_qsl(query)}}
        self.do_GET()

    def do_GET(self) -> None:
        body = json.dumps(self.answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeHealth) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/brokerage"
        server.shutdown()
        thread.join()


def test_levels_are_read_from_the_running_application(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Brokerage()
    monkeypatch.setattr(FakeHealth, "answer", {"status": "up", "calls": "remote", "summary_cache": 60})
    assert app.read_back(url, "app.calls") == "remote"
    assert app.read_back(url, "app.summary_cache") == 60.0
    with pytest.raises(LookupError, match=r"no knob app\.other"):
        app.read_back(url, "app.other")
    monkeypatch.setattr(FakeHealth, "answer", {"status": "down"})
    with pytest.raises(LookupError, match=r"does not tell the level of app\.calls"):
        app.read_back(url, "app.calls")
    monkeypatch.setattr(FakeHealth, "answer", ["up"])
    with pytest.raises(LookupError, match="is not an object"):
        app.read_back(url, "app.calls")


def test_nothing_answers() -> None:
    with pytest.raises(LookupError, match="does not answer at http://127"):
        ask("brokerage", "http://127.0.0.1:9", "/health", timeout=2)


def test_live_levels_change_in_the_running_application(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Brokerage()
    monkeypatch.setattr(FakeHealth, "answer", {"extra_cpu": 0, "extra_wait": 5})
    app.change(url, {"app.extra_cpu": 25})
    assert {name: app.read_back(url, f"app.{name}") for name in ("extra_cpu", "extra_wait")} == {
        "extra_cpu": 25,
        "extra_wait": 5,
    }
