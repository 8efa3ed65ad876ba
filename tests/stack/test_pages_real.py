"""Web servers alone with the site of files: every knob read back, short real loads, the audit; Java servers too."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from witnesses import matrix

from leadline.host.facts import MEND, backlog, find_httpd
from leadline.host.local import LocalHost
from leadline.load.driver import DriverRun
from leadline.load.result import read_summary
from leadline.model.errors import NotInPlay
from leadline.model.knob import Level
from leadline.model.study import StackChoice
from leadline.model.workload import Workload
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions
from leadline.stack.pages import SiteServer

pytestmark = pytest.mark.stack

NO_HTTPD = pytest.mark.skipif(find_httpd()[0] is None, reason=f"no Apache httpd on this host: {MEND}")
JAVA = matrix("a Java server with files takes half a minute")
EVERYTHING: dict[str, Level] = {
    "web.workers": 2,
    "web.keepalive_requests": 37,
    "web.sendfile": True,
    "web.backlog": 100,
    "web.access_log": True,
}
OTHERS: dict[str, Level] = {
    "web.workers": 1,
    "web.keepalive_requests": 1,
    "web.sendfile": False,
    "web.backlog": 33,
    "web.access_log": False,
}
CELLS = [
    pytest.param("nginx", {**EVERYTHING, "web.http2": True}, id="nginx"),
    pytest.param("nginx", {**OTHERS, "web.http2": False}, id="nginx-others"),
    # a kept connection holds a process of prefork: one for each connection that there may be
    pytest.param(
        "httpd", {**EVERYTHING, "web.model": "prefork", "web.workers": 26}, id="httpd-prefork", marks=NO_HTTPD
    ),
    pytest.param("httpd", {**OTHERS, "web.model": "event", "web.http2": True}, id="httpd-event", marks=NO_HTTPD),
    pytest.param("httpd", {"web.model": "worker"}, id="httpd-worker", marks=NO_HTTPD),
    pytest.param("tomcat", {"jvm.heap": 256 * 1024**2}, id="tomcat", marks=JAVA),
    pytest.param("liberty", {"jvm.heap": 256 * 1024**2}, id="liberty", marks=JAVA),
    pytest.param("wildfly", {"jvm.heap": 512 * 1024**2}, id="wildfly", marks=JAVA),
]


@pytest.fixture
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stack]:
    options = StackOptions(web_servers=(request.param,))
    made = Stack(StackChoice.model_validate({"web": "nginx"}), LocalHost(state=tmp_path / "state"), tmp_path, options)
    made.provision(print)
    made.prepare_data(print)
    made.reset_data(tmp_path / "trial")
    yield made
    made.down()


@pytest.mark.parametrize(("stack", "levels"), CELLS, indirect=["stack"])
def test_a_site_is_served_and_every_level_is_read_back(
    stack: Stack, levels: Mapping[str, Level], tmp_path: Path
) -> None:
    assert isinstance(stack.server, SiteServer)
    name = stack.server.may_be[0]
    asked = {"web.server": name, **levels}
    assert stack.up(asked, tmp_path / "trial") > 0
    assert {knob: stack.read_back(knob) for knob in asked} == asked
    assert set(stack.processes()) == {"server"}, "no database, no second server"
    java = name not in ("nginx", "httpd")
    with pytest.raises(NotInPlay):
        stack.read_back("web.workers" if java else "jvm.heap")
    if not java:
        port = int(stack.url().rpartition(":")[2])
        assert levels.get("web.backlog", 511) == backlog(port), "as the kernel has it"
    if name == "nginx":
        with pytest.raises(NotInPlay, match="nginx has one model"):
            stack.read_back("web.model")
    scenarios = stack.application.scenarios()
    for at, scenario in enumerate(scenarios if "web.sendfile" in levels or java else scenarios[:1]):
        workload = Workload.model_validate(
            {"scenario": scenario, "users": 4, "ramp_up": 0, "steady": 1, "ramp_down": 0.1}
        )
        out = tmp_path / f"driver-{at}"
        run = DriverRun(workload, stack.url(), 1, out, {"think": "5ms"}, None, None)
        done = subprocess.run(run.argv(), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        found = read_summary(out)
        assert found.errors == {}, found.error_samples
        assert all(each.ok for each in found.total.values())
        if levels.get("web.keepalive_requests") == 1:
            assert found.requests.connects >= found.requests.count, "no connection carried two requests"
    stack.drain(tmp_path / "times")
    (audit,) = stack.audit({}, tmp_path / "audit.log")
    assert audit.passed, audit.detail
    counters = stack.web_counters()
    assert (counters is None) == java == stack.has_jvm
    assert counters is None or set(counters()) >= {"requests", "connections"}
    stack.check_alive()
    assert stack.down() == []
