"""TLS client certificates, against servers that require them: in ``leadline load`` and of a stack file."""

import json
import ssl
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from small_server import small_server
from toy_application import toy
from typer.testing import CliRunner

from leadline.checks.files.stack import read_stack
from leadline.checks.files.study import parse_study
from leadline.checks.load import check_load
from leadline.cli.main import app
from leadline.experiments.stackfiles import CheckStep, check
from leadline.host.local import LocalHost
from leadline.load.driver import find_binary
from leadline.model.errors import LeadlineError, UsageError
from leadline.stack.certificate import make_certificate

STUDY = "study: check\nquestion: Does it run?\nstack: toy.stack.yaml\nworkload: { users: 1 }\nresponses: [throughput]\n"
TLS = "tls: { ca: data/server.crt, client_certificate: client.crt, client_key: client.key }\n"
LENGTH = """def end_headers(self):
        self.send_header("Content-Length", len(json.dumps({"pool": {"size": size}, "starts": 1})))
        super().end_headers()

    def do_GET"""
SERVER = """
import ssl
server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("server.crt", "server.key")
context.load_verify_locations("client.crt")
context.verify_mode = ssl.CERT_REQUIRED
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@pytest.fixture(autouse=True)
def _driver() -> None:
    try:
        find_binary()
    except LeadlineError:
        pytest.skip("host: needs leadline-load")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the certificates and keys of a server and of a client; keys are their owner's alone."""
    for name in ("server", "client", "other"):
        pair = make_certificate()
        (tmp_path / f"{name}.crt").write_text(pair.certificate)
        (tmp_path / f"{name}.key").write_text(pair.key)
        (tmp_path / f"{name}.pem").write_text(pair.certificate + pair.key)
        for suffix in ("key", "pem"):
            (tmp_path / f"{name}.{suffix}").chmod(0o600)
    return tmp_path


def summary(place: Path, *words: str) -> dict[str, Any]:
    """What a moment of load of a server that asks for the client's certificate came to."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / "server.crt", place / "server.key")
    context.load_verify_locations(place / "client.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    with small_server(tls=context) as url:
        options = ["--users", "2", "--duration", "300ms", "--out", str(place / "out"), "--replace"]
        CliRunner().invoke(app, ["load", url, *options, "--ca", str(place / "server.crt"), *words])
    document: dict[str, Any] = json.loads((place / "out" / "summary.json").read_text())
    return document


@pytest.mark.parametrize("words", [["client.crt", "--client-key=client.key"], ["client.pem"]])
def test_a_client_with_its_certificate_is_let_in(
    words: list[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    counts = summary(place, "--client-certificate", *words)
    assert not any(counts["errors"].values()), counts["error_samples"]
    assert all(total["ok"] > 0 for total in counts["total"].values())
    key = (place / "client.key").read_text().splitlines()[1]
    assert not [path for path in (place / "out").rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


@pytest.mark.parametrize("words", [[], ["--client-certificate", "other.pem"]])
def test_a_client_without_it_is_refused(words: list[str], place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    counts = summary(place, *words)
    assert counts["errors"]["connect"] > 0
    assert not any(total["ok"] for total in counts["total"].values())
    assert "TLS handshake: refused by the server with the alert " in counts["error_samples"]["connect"][0]


def test_several_drivers_get_no_key(place: Path) -> None:
    words = ["load", "https://127.0.0.1:9", "--drivers", "local", "--client-certificate", str(place / "client.pem")]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, UsageError), done.output
    assert str(done.exception) == "--client-certificate cannot stand beside --drivers: its key does not leave this host"


@pytest.fixture
def stack_file(place: Path) -> Path:
    """Of the toy, which asks who its clients are."""
    path = toy(place)
    source = (place / "app.py").read_text()
    source = source[: source.index("HTTPServer((")].replace("def do_GET", LENGTH)
    (place / "app.py").write_text(source + SERVER)
    for name in ("server.crt", "server.key", "client.crt"):
        (place / "data" / name).write_text((place / name).read_text())
    scenario = "scenario: toy\nmix: { item: 1 }\ntransactions: { item: [{ get: / }] }\n"
    (place / "toy.scenario.yaml").write_text(scenario)
    path.write_text(path.read_text().replace("directory:", f"{TLS}directory:").rpartition("  - {")[0])
    (place / "study.yaml").write_text(STUDY)
    return path


def test_an_application_is_probed_loaded_and_audited_with_it(
    stack_file: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(place / "state"))
    monkeypatch.setattr(LocalHost, "lease", lambda _: nullcontext())
    steps: list[CheckStep] = []
    lab = place / "lab"
    assert check(stack_file, lab, steps.append, lambda _: None), [step.wrong for step in steps if step.wrong]
    messages = {step.name: step.told for step in steps}
    assert (messages["read app.size"], messages["audits"]) == ("4", "1 audit")
    key = (place / "client.key").read_text().splitlines()[1]
    assert not [path for path in lab.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("tls", "problem"),
    [
        ("client_certificate: client.crt, client_key: other.key", "--client-key FOLDER/other.key: the key is not that"),
        ("client_certificate: client.crt", "--client-certificate FOLDER/client.crt: no private key in it"),
        ("client_certificate: client.key, client_key: client.key", "no certificate in it"),
        ("client_certificate: clint.crt", "there is no file FOLDER/clint.crt; did you mean client.crt?"),
        ("client_key: client.key", "it is the key of a certificate: write client_certificate, too"),
    ],
)
def test_what_is_wrong_with_it_is_told_with_its_line(tls: str, problem: str, stack_file: Path, place: Path) -> None:
    stack_file.write_text(stack_file.read_text().replace(TLS, f"tls: {{ ca: data/server.crt, {tls} }}\n"))
    with pytest.raises(UsageError) as error:
        check_load(parse_study(STUDY, str(place / "study.yaml")))
    assert "toy.stack.yaml:4: " in str(error.value)
    assert problem.replace("FOLDER", str(place)) in str(error.value)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("drivers: [local, ssh away]\n", "the key of a client certificate does not leave this host"),
        ("settings: { web.server: nginx }\n", "a web server speaks plain HTTP to the application behind it"),
    ],
)
@pytest.mark.usefixtures("stack_file")
def test_what_does_not_go_with_it_is_refused(more: str, problem: str, place: Path) -> None:
    with pytest.raises(UsageError, match=f"{problem}.*, and toy.stack.yaml:4 says `tls`: leave one out"):
        check_load(parse_study(STUDY + more, str(place / "study.yaml")))


def test_a_war_has_the_level_of_its_server(place: Path) -> None:
    (place / "shop.war").write_text("")
    (place / "shop.yaml").write_text(f"stack: shop\nwar: shop.war\nserver: tomcat\n{TLS}")
    with pytest.raises(UsageError, match=r"shop\.yaml:4: tls belongs to a command; a server has the level `server.tls"):
        read_stack(place / "shop.yaml")
