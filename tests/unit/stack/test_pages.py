"""The site of files, and what a study may say of a web server alone; nothing is started."""

import math
import socket
import statistics
import zipfile
from pathlib import Path

import pytest

from leadline.checks.files.study import builtin_studies, parse_study
from leadline.checks.plan import cost, plan_study
from leadline.checks.subject import study_catalogue
from leadline.checks.web import web_servers
from leadline.host.facts import backlog
from leadline.host.local import LocalHost
from leadline.load.scenario import find_scenario, parameters, preset_variables, read_scenario
from leadline.model.errors import UsageError
from leadline.model.shapes import PRESETS
from leadline.model.study import StackChoice
from leadline.stack import pages
from leadline.stack.base import DataSource, Deployment
from leadline.stack.pages import SiteServer, java_server
from leadline.stack.web.common import FrontContext
from leadline.stack.web.httpd import Httpd, _processes
from leadline.stack.web.nginx import Nginx

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "web-servers.md"
STUDY = """\
study: alone
question: Which serves more?
stack: { STACK }
workload: { scenario: pages, users: 10WORKLOAD }
factors:
  FACTOR
settings: { SETTINGS }
placement: { PLACEMENT }
"""


def planned(
    stack: str = "web: nginx",
    factor: str = "web.sendfile: [off, on]",
    settings: str = "",
    workload: str = "",
    placement: str = "",
) -> None:
    text = STUDY.replace("STACK", stack).replace("FACTOR", factor).replace("SETTINGS", settings)
    file = parse_study(text.replace("WORKLOAD", workload).replace("PLACEMENT", placement), "alone.yaml")
    plan_study(file, LocalHost(), study_catalogue(file))


# the site ----------------------------------------------------------------------------------------------------------


def test_sizes_are_those_of_surge() -> None:
    found = pages.sizes(files=40_000, seed=7)
    body = sorted(size for size in found if size < pages.TAIL_FROM)
    tail = [size for size in found if size >= pages.TAIL_FROM]
    assert len(tail) / len(found) == pytest.approx(pages.TAIL_SHARE, rel=0.1)
    # a lognormal distribution cut where the tail begins: its median is the quantile of half of what is left
    normal = statistics.NormalDist(pages.BODY_MU, pages.BODY_SIGMA)
    left = normal.cdf(math.log(pages.TAIL_FROM))
    assert statistics.median(body) == pytest.approx(math.exp(normal.inv_cdf(left / 2)), rel=0.03)
    # Hill's estimator of a Pareto tail's exponent, with what the cut at LARGEST hides left as censored
    events = sum(size < pages.LARGEST for size in tail)
    alpha = events / sum(math.log(size / pages.TAIL_FROM) for size in tail)
    assert alpha == pytest.approx(pages.TAIL_ALPHA, rel=0.08)
    assert max(found) == pages.LARGEST
    assert min(found) >= pages.SMALLEST


def test_the_site_is_the_same_for_a_seed_and_another_for_another() -> None:
    assert pages.sizes() == pages.sizes(seed=pages.SEED)
    assert pages.sizes() != pages.sizes(seed=pages.SEED + 1)
    found = pages.contents()
    assert found == pages.contents()
    assert [len(found[pages.file_name(number)]) for number in range(1, pages.FILES + 1)] == pages.sizes()
    assert len({bytes(content[:21]) for name, content in found.items() if name.startswith("files/")}) == pages.FILES
    for number, files in enumerate(pages.embedded(), 1):
        page = found[f"pages/{number:06}.html"].decode()
        assert page.count("<img ") == len(files) >= 1
        assert all(f'src="/{pages.file_name(each)}"' in page for each in files)


def test_the_document_tells_the_sizes_of_the_site() -> None:
    sizes = pages.sizes()
    weights = [1 / rank for rank in range(1, len(sizes) + 1)]
    mean = sum(size * weight for size, weight in zip(sizes, weights, strict=True)) / sum(weights)
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"{pages.FILES} files of {sum(sizes) / 1e6:.0f} MB together" in text
    median = statistics.median(sizes)
    assert (
        f"The median of the files is {median / 1e3:.0f} kB, the mean of a request for a file {mean / 1e3:.0f} kB"
        in text
    )


def test_scenarios_ask_for_the_whole_site() -> None:
    assert parameters(find_scenario("pages"))["files"] == str(pages.FILES)
    assert parameters(find_scenario("pages-embedded"))["pages"] == str(pages.PAGES)
    for name, feed in (("pages", "file"), ("pages-embedded", "page")):
        assert float(read_scenario(find_scenario(name))["feeds"][feed]["exponent"]) == 1


@pytest.mark.parametrize("name", list(PRESETS))
def test_the_shapes_of_study_cs_tools_fit_the_scenarios(name: str) -> None:
    think = preset_variables(name, "pages-embedded", {})
    assert think == ({} if PRESETS[name].think is None else {"think": PRESETS[name].think})
    if PRESETS[name].embedded:
        with pytest.raises(UsageError, match=r"no request of pages\.yaml has `embedded: true`"):
            preset_variables(name, "pages", {})
    else:
        assert preset_variables(name, "pages", {}) == think


def test_the_archive_holds_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path))
    made, wanted = pages.made_site(), pages.contents()
    with zipfile.ZipFile(made.archive) as archive:
        assert set(archive.namelist()) == {"WEB-INF/web.xml", *wanted}
        assert archive.read(pages.TRIVIAL) == wanted[pages.TRIVIAL]
    assert {str(path.relative_to(made.root)) for path in made.root.rglob("*") if path.is_file()} == set(wanted)
    changed = made.archive.stat().st_mtime_ns
    assert pages.made_site() == made
    assert made.archive.stat().st_mtime_ns == changed, "it is made once"


# the study ---------------------------------------------------------------------------------------------------------


def test_a_web_server_alone_says_the_rest() -> None:
    choice = StackChoice.model_validate({"web": "httpd"})
    assert (choice.app, choice.database) == ("pages", "none")
    assert StackChoice.model_validate(choice.model_dump(mode="json")) == choice, "as the lab keeps it"
    assert "httpd" in choice.title


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        ("web: apache", r":3: stack\.web is 'apache', not one of httpd, nginx"),
        ("web: httpd, server: tomcat", r":3: .* leave server out, or write web\.server in settings"),
        ("web: httpd, database: postgres", r":3: .* leave database out"),
        ("web: httpd, app: brokerage", r":3: .* leave app out"),
        ("web: httpd, host: vm", r"a web server alone runs on this host: leave host"),
        ("web: httpd, host: 'ssh:app'", r"a web server alone runs on this host: leave host"),
    ],
)
def test_stacks_that_cannot_be(stack: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        planned(stack)


@pytest.mark.parametrize(
    "more",
    [
        {"factor": "web.server: [httpd, nginx, tomcat]", "settings": "jvm.heap: 256m, web.workers: 2"},
        {"factor": "web.model: [event, prefork]", "stack": "web: httpd"},
        {"factor": "web.model: [event, prefork]", "settings": "web.server: httpd"},
        {"settings": "web.backlog: 100, web.http2: on", "workload": ", http: 2"},
        {"factor": "jvm.heap: [128m, 256m]", "stack": "web: tomcat"},
    ],
)
def test_levels_that_fit(more: dict[str, str]) -> None:
    planned(**more)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"factor": "web.server: [none, nginx]"}, "none cannot be had here: a web server alone is what is measured"),
        ({"factor": "web.model: [event, prefork]"}, r"web\.model changes nothing: only httpd has more than one model"),
        ({"stack": "web: tomcat"}, r":6: web\.sendfile changes nothing on tomcat; httpd and nginx have it"),
        ({"settings": "jvm.heap: 256m"}, r":7: jvm\.heap changes nothing: none of nginx has a JVM"),
        ({"settings": "web.tls: on"}, r":7: .*a web server alone has no knob web\.tls; it has web\.server"),
        ({"settings": "server.threads.max: 10"}, r"a web server alone has no knob server\.threads\.max"),
        ({"workload": ", load_units: 2"}, r":4: the site is the same for every load"),
        ({"workload": ", http: 2"}, r":4: HTTP/2 needs web\.http2: on in every trial; add web\.http2: on"),
        ({"placement": "web_cpus: 0"}, r":8: a web server alone has server_cpus only"),
        ({"placement": "database_memory: 64m"}, r":8: a web server alone has server_memory only"),
        (
            {"stack": "web: httpd", "settings": "web.http2: on, web.model: prefork"},
            r":7: HTTP/2 of httpd needs threads",
        ),
    ],
)
def test_levels_that_cannot_be_in_force(more: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        planned(**more)


def test_a_scenario_is_named() -> None:
    text = STUDY.replace("scenario: pages, ", "").replace("STACK", "web: nginx").replace("WORKLOAD", "")
    text = text.replace("FACTOR", "web.sendfile: [off, on]").replace("SETTINGS", "").replace("PLACEMENT", "")
    file = parse_study(text, "alone.yaml")
    with pytest.raises(UsageError, match=r"alone\.yaml:4: .* needs a scenario: write pages or pages-embedded"):
        plan_study(file, LocalHost(), study_catalogue(file))


def test_a_backlog_beyond_the_kernels() -> None:
    most = int(Path("/proc/sys/net/core/somaxconn").read_text())
    if most >= 65535:
        pytest.skip(f"host: net.core.somaxconn is {most}: no legal backlog is above it")
    planned(settings=f"web.backlog: {most}")
    with pytest.raises(UsageError, match=rf":7: web\.backlog {most + 1} is more than the kernel takes"):
        planned(settings=f"web.backlog: {most + 1}")


def test_the_built_in_study_is_planned_and_says_what_it_costs() -> None:
    file = parse_study(builtin_studies()["pages"], "pages")
    found = plan_study(file, LocalHost(), study_catalogue(file))
    assert not found.skipped
    assert cost(file.study, found.plan) <= 20 * 60
    assert len(web_servers(file.study)) >= 3
    assert file.study.question.endswith("?")


# the servers -------------------------------------------------------------------------------------------------------


def context(tmp_path: Path) -> FrontContext:
    deployment = Deployment("pages", tmp_path / "pages.war", "/", DataSource("jdbc/none"))
    return FrontContext(
        LocalHost(state=tmp_path / "state"),
        tmp_path,
        tmp_path,
        "127.0.0.1",
        8080,
        0,
        deployment,
        None,
        site=Path("/the/site"),
    )


def test_nginx_alone_passes_nothing_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.stack.web.nginx._told", lambda _: ("1", True))
    monkeypatch.setattr(Nginx, "binary", Path("/bin/true"))
    text = Nginx().configuration(context(tmp_path), {"web.sendfile": True, "web.backlog": 9, "web.workers": 3})
    for line in ('root "/the/site";', "sendfile on;", "listen 127.0.0.1:8080 backlog=9;", "worker_processes 3;"):
        assert line in text
    assert "proxy_pass" not in text
    assert "upstream" not in text
    assert text.count("{") == text.count("}")
    plain = Nginx().configuration(context(tmp_path), {})
    assert "sendfile" not in plain
    assert "backlog" not in plain


def test_httpd_alone_loads_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.stack.web.httpd._loads", lambda _, wanted: [f"LoadModule {name}" for name in wanted])
    monkeypatch.setattr(Httpd, "binary", Path("/bin/true"))
    levels = {"web.sendfile": True, "web.backlog": 9, "web.model": "prefork", "web.workers": 3}
    text = Httpd().configuration(context(tmp_path), levels)
    for line in ('DocumentRoot "/the/site"', "EnableSendfile On", "ListenBacklog 9", "LoadModule mpm_prefork"):
        assert line in text.splitlines()
    assert "proxy" not in text.lower()
    assert "LoadModule mpm_event" in Httpd().configuration(context(tmp_path), {})


def test_processes_of_prefork_have_no_threads() -> None:
    assert "MaxRequestWorkers 3" in _processes({"web.workers": 3, "web.model": "prefork"})
    assert "MaxRequestWorkers 75" in _processes({"web.workers": 3, "web.model": "worker"})
    assert "MaxRequestWorkers 75" in _processes({"web.workers": 3})
    assert _processes({}) == []


def test_the_kernel_tells_the_backlog_of_a_listening_socket() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        with pytest.raises(LookupError, match=f"nothing listens on port {port}"):
            backlog(port)
        for most in (1, 17):
            listening.listen(most)
            assert backlog(port) == most


def test_live_levels_reach_the_java_server_that_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path))
    server, tomcat = SiteServer(StackChoice.model_validate({"web": "tomcat"})), java_server("tomcat")
    levels, taken = {"jvm.flag.MaxHeapFreeRatio": 60}, []
    monkeypatch.setattr(tomcat, "apply", taken.append)
    monkeypatch.setattr(server, "_served", tomcat)
    server.apply(levels)
    assert taken == [levels]
    with pytest.raises(UsageError, match=r"web\.workers: cannot be changed while it runs"):
        server.apply({"web.workers": 2})
    monkeypatch.setattr(server, "_served", Nginx())
    with pytest.raises(UsageError, match="cannot be changed while it runs"):
        server.apply(levels)
