"""The application on real servers: one log, one digest in every mode; the audits find planted damage."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from witnesses import matrix

from leadline.host.java import find_java
from leadline.host.local import LocalHost
from leadline.model.knob import Level
from leadline.model.study import StackChoice
from leadline.stack import postgres as client
from leadline.stack.applications.brokerage import Brokerage
from leadline.stack.assembly import Stack
from leadline.stack.base import AuditResult
from leadline.stack.options import StackOptions

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]

UNITS, SEED, LOG_SEED, COMMANDS = 1, 5, 9, 500
Counts = Mapping[str, Mapping[str, int]]
OTHER = matrix("another mode or database")
OTHER_MODE = {"session": "direct", "orm": "session"}
NOTHING = {name: {"ok": 0, "failed": 0} for name in ("buy", "sell", "register", "login", "profile")}

# As if all orders of the run had come through the queue.
QUEUED = (
    "INSERT INTO queued_order SELECT account_id, command_id, side, 'FILLED' FROM trade_order WHERE id > 1000"
    " AND command_id IS NOT NULL"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("brokerage")


def stack(place: Path, server: str, mode: str, database: str = "postgres") -> Stack:
    """Provisioned, its data in place, nothing running."""
    options = StackOptions(load_units=UNITS, data_seed=SEED)
    choice = StackChoice.model_validate({"server": server, "mode": mode, "database": database})
    made = Stack(choice, LocalHost(state=place / "state"), place / "home", options)
    made.provision(lambda _: None)
    made.prepare_data(lambda _: None)
    made.reset_data(place / "trial")
    return made


def tools(*arguments: str) -> str:
    command = [str(find_java() / "bin" / "java"), "-jar", str(Brokerage().tools()), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def command_log(place: Path) -> Path:
    file = place / "commands.jsonl"
    file.write_text(
        tools(
            *("commands", "--units", str(UNITS), "--seed", str(SEED)),
            *("--log-seed", str(LOG_SEED), "--generate", str(COMMANDS)),
        )
    )
    return file


@pytest.fixture(scope="module")
def expected(place: Path, command_log: Path) -> str:
    """The digest after the log was played against the database itself, by one thread."""
    return played_on_database(place, command_log, threads=1)


def played_on_database(place: Path, command_log: Path, threads: int, database: str = "postgres") -> str:
    made = stack(place, "tomcat", "direct", database)
    made.start_database({}, place / "trial")
    try:
        before = Brokerage().digest(made.endpoint(), place / "tools.log")
        on_database(made, "replay", "--commands", str(command_log), "--threads", str(threads))
        after = Brokerage().digest(made.endpoint(), place / "tools.log")
        assert after != before
        return after
    finally:
        made.down()


def on_database(made: Stack, command: str, *arguments: str) -> str:
    at = made.endpoint()
    return tools(command, "--url", at.jdbc_url, "--user", at.user, "--password", at.password, *arguments)


def failed(audits: list[AuditResult]) -> set[str]:
    return {each.name for each in audits if not each.passed}


def audit(made: Stack, place: Path, counts: Counts) -> list[AuditResult]:
    return list(made.application.audit(made.endpoint(), UNITS, SEED, counts, place / "tools.log"))


def request(url: str, body: Any = None, cookie: str = "") -> tuple[int, str, str]:
    """Status, body, session cookie. No redirect is followed."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    data = None if body is None else json.dumps(body).encode()
    sent = urllib.request.Request(url, data, {"Content-Type": "application/json", "Cookie": cookie})
    try:
        with urllib.request.build_opener(Stay).open(sent, timeout=30) as answer:
            return answer.status, answer.read().decode(), answer.headers.get("Set-Cookie", "").partition(";")[0]
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode(), ""


@pytest.mark.parametrize("database", ["postgres", pytest.param("mariadb", marks=OTHER)])
def test_any_interleaving_ends_in_the_same_data(place: Path, command_log: Path, expected: str, database: str) -> None:
    assert played_on_database(place, command_log, 6, database) == expected


@pytest.mark.parametrize(
    ("server", "mode", "database"),
    [
        pytest.param("tomcat", "direct", "postgres", marks=OTHER),
        ("liberty", "session", "postgres"),
        pytest.param("liberty", "orm", "postgres", marks=OTHER),
        pytest.param("liberty", "orm", "mariadb", marks=OTHER),
    ],
)
def test_every_mode_ends_in_the_same_data(
    server: str, mode: str, database: str, place: Path, command_log: Path, expected: str
) -> None:
    # On Liberty the mode of the stack gives way to the level of a factor, as in studies that compare modes.
    levels: dict[str, Level] = {} if server == "tomcat" else {"app.mode": mode}
    made = stack(place, server, OTHER_MODE[mode] if levels else mode, database)
    try:
        made.up(levels, place / "trial")
        assert made.read_back("app.mode") == mode
        tools("replay", "--http", made.url(), "--commands", str(command_log), "--threads", "4")
        assert made.application.digest(made.endpoint(), place / "tools.log") == expected  # type: ignore[attr-defined]
        own_rules_hold = failed(audit(made, place, NOTHING))
        assert own_rules_hold == {f"rows-are-counts-{name}" for name in NOTHING}, "only the driver's counts are off"
        answers(made.url(), mode)
    finally:
        assert made.down() == []


def answers(url: str, mode: str) -> None:
    """Status codes, sessions, repeated commands and sold holdings, as the page on the interface promises."""
    status, body, _ = request(f"{url}/health")
    assert status == 200
    assert json.loads(body)["mode"] == mode
    assert request(f"{url}/home")[0] == 303
    assert request(f"{url}/api/home")[0] == 401
    assert request(f"{url}/api/login", {"user": "user-000150", "password": "wrong"})[0] == 401
    status, body, cookie = request(f"{url}/api/login", {"user": "user-000150", "password": "pw-000150"})
    assert (status, json.loads(body)) == (200, {"user": "user-000150", "account": 150})

    def call(path: str, content: Any = None) -> tuple[int, Any]:
        status, body, _ = request(f"{url}/api/{path}", content, cookie)
        return status, json.loads(body)

    status, order = call("buy", {"symbol": "S00003", "quantity": 2, "command": "once"})
    assert status == 200
    assert call("buy", {"symbol": "S00003", "quantity": 2, "command": "once"}) == (200, order)
    held = call("portfolio")[1]["holdings"]
    assert [(lot["symbol"], lot["quantity"]) for lot in held if lot["id"] == order["order"]] == [("S00003", 2)]
    assert call("sell", {"holding": order["order"]})[0] == 200
    assert call("sell", {"holding": order["order"]})[0] == 409
    assert call("sell", {"holding": 10**9})[0] == 404
    assert call("buy", {"symbol": "S00003", "quantity": 0})[0] == 400
    assert call("buy", {"symbol": "NONE", "quantity": 1})[0] == 404
    symbol = max(call("quotes")[1]["quotes"], key=lambda quote: quote["price"])["symbol"]
    for _ in range(40):
        status, refused = call("buy", {"symbol": symbol, "quantity": 10_000})
        if status != 200:
            break
    assert status == 409
    assert "insufficient funds" in refused["error"]
    profile = {"full_name": "<i>Zoë</i>", "address": "1", "email": "z@example.org", "card": "0"}
    assert call("profile", profile) == (200, profile)
    page = request(f"{url}/profile", cookie=cookie)[1]
    assert "&lt;i&gt;Zoë&lt;/i&gt;" in page
    assert "<i>" not in page
    taken = {"user": "user-000001", "password": "secret", "opening_balance": 5} | profile
    assert call("register", taken)[0] == 409
    assert call("logout", {})[0] == 200
    assert request(f"{url}/api/home", cookie=cookie)[0] == 401


def test_audits_pass_on_fresh_data_and_notice_every_mutant_of_a_run(place: Path, command_log: Path) -> None:
    made = stack(place, "tomcat", "direct")
    made.start_database({}, place / "trial")
    try:
        assert failed(audit(made, place, NOTHING)) == set()
        assert failed(audit(made, place, dict(NOTHING) | {"buy": {"ok": 1, "failed": 0}})) == {"rows-are-counts-buy"}
        audits = audit(made, place, dict(NOTHING) | {"buy": {"ok": 0, "failed": 1}})
        assert failed(audits) == set()
        on_database(made, "replay", "--commands", str(command_log), "--threads", "4")
        with client.connect(made.endpoint(), timeout=60) as connection:
            connection.run(QUEUED)
        (place / "counts.json").write_text("{}")
        data = ("--units", str(UNITS), "--seed", str(SEED), "--counts", str(place / "counts.json"))
        mutants = json.loads(on_database(made, "audit", *data, "--mutants", "1"))["mutants"]
        assert len(mutants) > 150
        silent = {each.name for each in audits} - {name for mutant in mutants for name in mutant["failed"]}
        assert silent <= {"rows-are-counts-sell", "nothing-is-negative"}, "those need a row that is seldom chosen"
        assert failed(audit(made, place, NOTHING)) == {f"rows-are-counts-{name}" for name in NOTHING}, "all is undone"
    finally:
        made.down()
