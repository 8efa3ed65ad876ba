"""Whatever a live peer does, an object store, a database, an agent or Slurm, leadline ends with one printable line."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sqlite3
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import ModuleType

import pytest

from leadline.host import here
from leadline.model.errors import LONGEST_LINE, LeadlineError
from leadline.model.hosts import SshHost
from leadline.places.pool import slurm
from leadline.places.pool.base import JobState, Partition, Wish
from leadline.places.pool.slurm import SlurmPool
from leadline.places.ssh import connection as far
from leadline.places.ssh.connection import Channel, Connection
from leadline.store import artefacts, database
from leadline.store.artefacts import Artefacts, Patience
from leadline.store.database import Database
from leadline.store.lab import Store
from leadline.store.labfile import ArtefactPlace

pytestmark = pytest.mark.timeout(120)  # seconds after which a test has hung
Talk = Callable[[socket.socket], None]  # what a server does with a connection
MEMORY = 2 << 30  # bytes more than there are now
DIGEST, OTHER = "ab" * 32, "cd" * 32
ESCAPES = "\x1b]0;title\x07\x1b[31mred\x00\r"
ZEROS = bytes(1 << 20)


@pytest.fixture(autouse=True)
def bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In little memory and time, in a directory of its own where programs are looked for first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "x")
    less: dict[ModuleType, dict[str, object]] = {
        here: {"MOST_SAID": 1 << 20},
        far: {"_MOST_TOLD": 200, "_OPENING": 0.5, "_ENDING": 0.5},
        database: {"_TIMEOUT": 0.5, "_LONGEST_ANSWER": 2.0, "_MOST": 4 << 20},
        artefacts: {"PATIENCE": Patience(0.5, 0.3, 1.0)},
        slurm: {"_ASKED": 1.0},
    }
    for module, values in less.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    size = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (size + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)


def refused(works: Mapping[str, Callable[[], object]], words: str = "") -> None:
    """Each, all at once, ends with an error of one line that prints and has ``words``."""

    def message(work: Callable[[], object]) -> str:
        try:
            return f"no error but\n{work()}"
        except LeadlineError as error:
            return str(error)
        except Exception:
            return traceback.format_exc()

    with ThreadPoolExecutor(8) as pool:
        messages = dict(zip(works, pool.map(message, works.values()), strict=True))
    assert {
        kind: text
        for kind, text in messages.items()
        if not (text.isprintable() and words in text and 0 < len(text) <= LONGEST_LINE)
    } == {}


@contextmanager
def served(talk: Talk) -> Iterator[int]:
    """The port of a server that gives each connection to ``talk``."""
    peers: list[socket.socket] = []

    def serve_one(peer: socket.socket) -> None:
        with suppress(OSError, IndexError, struct.error), peer:
            talk(peer)

    def serve() -> None:
        with suppress(OSError):
            while True:
                peers.append(server.accept()[0])
                threading.Thread(target=serve_one, args=(peers[-1],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for peer in peers:
                with suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)


def silent(peer: socket.socket) -> None:
    while peer.recv(1 << 16):
        pass


# the object store ------------------------------------------------------------------------------------------------


class FakeHostileS3:
    """Answers every request in the same way: ``says``, then ``part`` without end, at most one in ``pause`` seconds."""

    def __init__(self, says: bytes, part: bytes = b"", stays: bool = False, pause: float = 0.0) -> None:
        self.says, self.part, self.stays, self.pause = says, part, stays, pause

    def __call__(self, peer: socket.socket) -> None:
        while peer.recv(1 << 16):
            peer.sendall(self.says.replace(b"PORT", str(peer.getsockname()[1]).encode()))
            while self.part:
                peer.sendall(self.part)
                threading.Event().wait(self.pause)
            if not self.stays:
                return


def http(body: bytes, length: int | None = None, status: str = "200 OK", head: str = "") -> bytes:
    size = len(body) if length is None else length
    date = 'Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\nETag: "1"\r\n'
    return f"HTTP/1.1 {status}\r\n{date}Content-Length: {size}\r\n{head}\r\n".encode() + body


def listing(key: str, more: str = "", size: str = "1") -> bytes:
    date = "<LastModified>2015-10-21T07:28:00.000Z</LastModified>"
    token = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{more}</NextContinuationToken>" if more else ""
    contents = f"<Contents><Key>{key}</Key><Size>{size}</Size>{date}</Contents>" if key else ""
    return http(f"<ListBucketResult>{contents}{token}</ListBucketResult>".encode())


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n\r\n"
ENDLESS: dict[str, Talk] = {
    "an endless body": FakeHostileS3(http(b"", 1 << 40), ZEROS),
    "zeros in chunks": FakeHostileS3(CHUNKED, b"100000\r\n" + ZEROS + b"\r\n"),
}
S3: dict[str, Talk] = {
    "a chunk of no size": FakeHostileS3(CHUNKED, b"-1\r\n"),
    "an endless head": FakeHostileS3(b"HTTP/1.1 200 OK\r\n", b"X-Head: " + b"a" * 999 + b"\r\n"),
    "a body that is too short": FakeHostileS3(http(b"{", 5000)),
    "a body that is too long": FakeHostileS3(http(b'{"lab": "x"}' + b" " * 99, 2)),
    "a length that no memory has": FakeHostileS3(http(b"a", 1 << 40)),
    "an error of that length": FakeHostileS3(http(b"a", 1 << 40, status="400 Bad")),
    "a negative length": FakeHostileS3(http(b"a", -1)),
    "a length of many digits": FakeHostileS3(http(b"a", 10**400)),
    "a redirect": FakeHostileS3(http(b"", status="302 Found", head="Location: http://localhost:PORT/elsewhere\r\n")),
    "another content": FakeHostileS3(http(b"other")),
    "brackets": FakeHostileS3(http(b"[" * 60_000)),
    "500 for ever": FakeHostileS3(http(b"", status="500 Internal Server Error"), stays=True),
    "escapes": FakeHostileS3(http(f"<Error><Code>{ESCAPES * 99}</Code></Error>".encode(), status="400 Bad")),
    "no HTTP": FakeHostileS3(b"\x00\xff" * 999),
    "silence": silent,
    "a dead connection": socket.socket.close,
}
KEY = f"prefix/sha256/ab/{DIGEST}"
LISTINGS = {
    "a cut": http(b"<ListBucketResult><Contents>"),
    "brackets": http(b"<" * 99_999),
    "JSON": http(b"[1, 2]"),
    "a negative size": listing(KEY, size="-1"),
    "a size of many digits": listing(KEY, size="9" * 400),
    "no end": listing(KEY, "again"),
    "no end of nothing": listing("", "again"),
}


def there(port: int) -> Artefacts:
    place = ArtefactPlace(Path(), "bucket", "prefix", f"http://127.0.0.1:{port}", "us-east-1")
    return Artefacts(place, retries=1)


def test_an_object_store(tmp_path: Path) -> None:
    works: dict[str, Callable[[], object]] = {}
    with ExitStack() as servers:
        for kind, talk in {**ENDLESS, **S3}.items():
            store, target = there(servers.enter_context(served(talk))), tmp_path / kind
            works[f"{kind}: get"] = lambda store=store, target=target: store.get([(DIGEST, 3, target)])  # type: ignore[misc]
            works[f"{kind}: owner"], works[f"{kind}: probe"] = store.owner, store.probe
            works[f"{kind}: sizes"] = store.sizes
        for kind, says in LISTINGS.items():
            works[kind] = there(servers.enter_context(served(FakeHostileS3(says)))).sizes
        drip = FakeHostileS3(http(b"", 60_000), b" ", pause=0.1)
        works["a slow drip"] = there(servers.enter_context(served(drip))).owner
        refused(works)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 64 << 20


@pytest.mark.parametrize("key", ["../../etc/passwd", "prefix/sha256/../x", f"x/sha256/cd/{OTHER}", f"prefix/{DIGEST}"])
def test_no_strange_key_is_taken_for_a_content(key: str) -> None:
    with served(FakeHostileS3(listing(key))) as port, suppress(LeadlineError):
        assert there(port).sizes() == {}


# the database ----------------------------------------------------------------------------------------------------


def message(code: str, data: bytes = b"", length: int | None = None) -> bytes:
    return code.encode() + struct.pack(">i", len(data) + 4 if length is None else length) + data


def row_type(oid: int, name: bytes = b"a") -> bytes:
    return message("T", struct.pack(">h", 1) + name + b"\0" + struct.pack(">ihihih", 0, 0, oid, -1, -1, 0))


def row(value: bytes, of: int = 25) -> bytes:
    return row_type(of) + message("D", struct.pack(">hi", 1, len(value)) + value)


READY = message("Z", b"I")
HELLO = message("R", struct.pack(">i", 0)) + READY
ERROR = message("E", f"SERROR\0C42P01\0M{ESCAPES.replace(chr(0), '') * 999}\0\0".encode())


class FakeHostilePostgres:
    """Greets with ``hello``; every statement has the answer ``rows``, but for the version of the server."""

    def __init__(self, hello: bytes = HELLO, rows: bytes = b"", part: bytes = b"", pause: float = 0.0) -> None:
        self.hello, self.rows, self.part, self.pause = hello, rows, part, pause

    def __call__(self, peer: socket.socket) -> None:
        with peer.makefile("rb") as requests:
            requests.read(struct.unpack(">i", requests.read(4))[0] - 4)
            peer.sendall(self.hello)
            text = b""
            while code := requests.read(1):
                data = requests.read(struct.unpack(">i", requests.read(4))[0] - 4)
                text = data if code in b"PQ" else text
                peer.sendall(self.answer(code, text))
                while self.part and self.rows_of(text) is self.rows:
                    peer.sendall(self.part)
                    threading.Event().wait(self.pause)

    def rows_of(self, text: bytes) -> bytes:
        if text[:5].lower() in (b"begin", b"commi", b"rollb"):
            return b""
        known = {b"version()": b"PostgreSQL 16.0", b"isolation": b"read committed", b"conforming": b"on"}
        value = next((value for word, value in known.items() if word in text), b"")
        return row(value) if value else self.rows

    def answer(self, code: bytes, text: bytes) -> bytes:
        done = message("C", b"SELECT 1\0")
        if code in b"QD":
            return self.rows_of(text) + (done + READY if code == b"Q" else b"")
        return {b"S": READY, b"P": message("1"), b"B": message("2"), b"E": done}.get(code, b"")


DOCUMENT, NUMBER, DECIMAL = 114, 23, 1700  # types
HELLOS = {
    "garbage": b"\x00\xff" * 999,
    "a kind that is none": message("?"),
    "a negative length": message("R", length=-1),
    "a short length": message("R", length=3),
    "an announced gigabyte": message("R", length=1 << 30) + ZEROS,
    "an authentication of no kind": message("R", b"\xff" * 4),
    "an authentication that is cut": message("R", b"\0"),
    "broken SASL": message("R", struct.pack(">i", 10) + b"\xff\xfe\0\0"),
    "a final word of SASL": message("R", struct.pack(">i", 12) + b"x"),
    "an encoding of no kind": message("S", b"client_encoding\0no such\0") + ERROR,
    "rows before a question": row(b"1") * 9 + HELLO,
    "escapes at once": ERROR,
    "an endless greeting": message("N", b"Mx\0\0") * 999_999,
}
ROWS = {
    "escapes later": ERROR,
    "no rows": b"",
    "a text": row(b"x"),
    "a text for a number": row(b"x", NUMBER),
    "10**400": row(b"1" + b"0" * 400, NUMBER),
    "10**9999": row(b"1" + b"0" * 9999, NUMBER),
    "no number": row(b"NaN", DECIMAL),
    "a document": row(b"[" * 99_999, DOCUMENT),
    "no UTF-8": row(b"\xff\xfe"),
    "a row that is cut": row_type(25) + message("D", b"\0\1\0\0\xff\xff"),
    "columns that are cut": message("T", b"\xff\xff"),
}
POSTGRES: dict[str, Talk] = {
    **{kind: FakeHostilePostgres(hello) for kind, hello in HELLOS.items()},
    **{kind: FakeHostilePostgres(rows=rows) for kind, rows in ROWS.items()},
    "endless rows": FakeHostilePostgres(rows=row_type(25), part=row(b"x" * 9)[len(row_type(25)) :] * 999),
    "endless notices": FakeHostilePostgres(rows=row_type(25), part=message("N", b"Mx\0\0") * 999),
    "a slow drip": FakeHostilePostgres(message("R", length=1 << 20), rows=b"", part=b"x", pause=0.1),
    "silence": silent,
    "a dead connection": socket.socket.close,
}


def at(port: int, folder: Path) -> Database:
    folder.mkdir()
    (folder / "lab.yaml").write_text(f"database: postgresql://anna@127.0.0.1:{port}/team?sslmode=disable\n")
    return Database(folder, False, lambda: 0.0)


def test_a_database(tmp_path: Path) -> None:
    with ExitStack() as servers:
        ports = {kind: servers.enter_context(served(talk)) for kind, talk in POSTGRES.items()}
        refused(
            {kind: lambda kind=kind, port=port: at(port, tmp_path / kind) for kind, port in ports.items()},  # type: ignore[misc]
            "cannot be opened",
        )
    assert {path.name for path in tmp_path.glob("*/*")} == {"lab.yaml"}


def test_a_table_with_other_columns(tmp_path: Path) -> None:
    """In the directory of a lab that was made elsewhere."""
    store = Store(tmp_path)
    with closing(sqlite3.connect(tmp_path / "lab.sqlite")) as rows:
        rows.executescript("DROP TABLE studies; CREATE TABLE studies (id TEXT, name BLOB)")
    refused({"a study": lambda: store.load(1)})


# Slurm -----------------------------------------------------------------------------------------------------------


def fake_hostile_program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f'#!/bin/sh\necho "$0 $*" >> {folder}/called\n{script}\n')
    (folder / name).chmod(0o755)


def says(text: str, code: int = 0) -> str:
    return f"printf %b '{text}'; printf %b '{text}' >&2; exit {code}"


PROGRAMS = {
    "endless lines": "exec yes 'a|b|c|d'",
    "an endless line": "exec tr '\\0' a < /dev/zero",
    "endless errors": "exec yes >&2",
    "silence": "exec sleep 1000",
    "its output outlives it": "sleep 1000 & exit 0",
    "garbage": says("\\377\\000\\033[31m|\\n\\033]0;x\\007"),
    "escapes and a code": says("\\033[31mred\\033]0;title\\007" * 500, 1),
    "killed": "kill -9 $$",
}
NUMBERS = ["", "-1", "--user=root", "NaN", "1e9", "9" * 400, "12 13", "12\\n13", "\\033[31m7", "0x7", "\\0331"]


def test_slurm(tmp_path: Path) -> None:
    pool = SlurmPool(Partition())
    for kind, script in PROGRAMS.items():
        for name in ("sbatch", "squeue", "sinfo", "scancel"):
            fake_hostile_program(tmp_path, name, script)
        works: dict[str, Callable[[], object]] = {f"{kind}: submit": lambda: pool.submit(tmp_path, "title", Wish())}
        if kind != "endless lines":  # which have the form of an answer
            works |= {f"{kind}: hosts": pool.hosts, f"{kind}: states": lambda: pool.states(["1"])}
        refused(works)


def test_a_job_has_a_number(tmp_path: Path) -> None:
    for number in NUMBERS:
        fake_hostile_program(tmp_path, "sbatch", f"printf %b '{number}'")
        submit = {number: lambda: SlurmPool(Partition()).submit(tmp_path, "title", Wish())}
        refused(submit, "not the number of a job")


def test_strange_states_of_jobs_and_hosts(tmp_path: Path) -> None:
    pool = SlurmPool(Partition())
    lines = r"1|NaN|n1|\033[31m\n2|PENDING||held\n-3|PENDING||held\n--user=root|PENDING||held\n4||n4|x\n"
    fake_hostile_program(tmp_path, "squeue", f"printf %b '{lines}'")
    fake_hostile_program(tmp_path, "scancel", "exit 0")
    states = pool.states(["1", "4", "9"])
    assert (states["1"].state, states["1"].host, states["1"].why.isprintable()) == (JobState.LOST, "n1", True)
    assert (states["4"].state, states["4"].host) == (JobState.LOST, "n4")
    assert "scancel" not in (tmp_path / "called").read_text(), "the jobs of others are theirs"
    fake_hostile_program(tmp_path, "sinfo", r"printf %b 'n1|-7|\033[31m\nn\0332|no such state|NaN\n'")
    assert not pool.usable()
    assert all(f"{host.name}{host.why}".isprintable() for host in pool.hosts())


# agents ----------------------------------------------------------------------------------------------------------


def frame(document: object, length: int | None = None) -> bytes:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return struct.pack(">I", (len(text) if length is None else length) & 0xFFFFFFFF) + text


def failure(**values: object) -> bytes:
    return frame({"id": 1, "error": {"is a": "TrialFailure", **values}})


SAID: dict[str, bytes] = {
    "junk": b"Welcome to the host\r\n" * 9,
    "a negative length": frame(b"{}", -1),
    "a length of 2**63": struct.pack(">Q", 2**63),
    "a frame that is cut off": frame(b"{}", 1 << 20),
    "no object": frame([1]),
    "brackets": frame(b"[" * 99_999),
    "a number of 400 digits": frame(b'{"id": 1, "value": 1' + b"0" * 400 + b"}"),
    "a wrong type": frame({"id": 1, "value": {"is a": "map", "value": [[1, 2], 3]}}),
    "an unknown kind": frame({"id": 1, "value": {"is a": ESCAPES, "value": 1}}),
    "a list for an answer": frame({"id": 1, "value": [1] * 99}),
    "an error that is none": frame({"id": 1, "error": 5}),
    "a failure of no class": failure(**{"class": "x", "said": []}),
    "escapes": frame({"id": 1, "error": {"is a": "", "said": [ESCAPES * 999]}}),
    "a failure with escapes": failure(**{"class": "workload", "said": [ESCAPES * 999, ESCAPES]}),
    "exit": b"",
}
DONE_FOR_EVER = {
    "endless progress": "while True: out(TOLD)",
    "endless answers to nobody": "while True: out(NOBODY)",
    "endless signs of life": "while True: out(LIFE)",
    "a slow drip": "while True: out(b'\\0'); time.sleep(0.05)",
    "silence": "time.sleep(1000)",
    "endless errors": "while True: err(b'a' * 65536)",
    "lines of errors": "err(b'\\x1b[31mred\\n' * 999999)",
}
_AGENT = f"""import os, time
TOLD, LIFE = {frame({"id": 1, "told": ESCAPES * 20})!r}, {frame({})!r} * 999
NOBODY = {frame({"id": 7, "value": 1})!r} * 99
def out(data):
    while data: data = data[os.write(1, data):]
def err(data): os.write(2, data)
os.read(0, 9)
"""


def test_an_agent(tmp_path: Path) -> None:
    told: list[str] = []
    scripts = {kind: f"out({data!r}); out = None; time.sleep(0.2)" for kind, data in SAID.items()} | DONE_FOR_EVER

    def ask(kind: str) -> object:
        (tmp_path / kind).write_text(_AGENT + scripts[kind])
        channel = Channel("ssh:far", [sys.executable, "-I", "-S", str(tmp_path / kind)], told.append)
        try:
            return channel.ask("about", timeout=0.5 if kind in DONE_FOR_EVER else 20.0)
        finally:
            channel.close()

    def tell_much() -> None:
        channel = Channel("ssh:far", ["sleep", "1000"], lambda _: None)
        try:
            channel.ask("about", "x" * (1 << 20), timeout=0.5)
        finally:
            channel.close()

    refused({kind: lambda kind=kind: ask(kind) for kind in scripts} | {"no request is taken": tell_much})
    assert all(line.isprintable() for line in told)


ABOUT = (
    "python /usr/bin/python3\nversions 3\nuser 0\nmachine Linux x86_64\naddress 1 2 ;x 4\ncache /c\nleadline-answers\n"
)
HOSTS = {
    "endless-lines": "exec yes",
    "an-endless-line": "exec tr '\\0' a < /dev/zero",
    "endless-errors": "exec yes >&2",
    "silence": "exec sleep 1000",
    "a-child-that-holds-its-output": "sleep 1000 & sleep 1000",
    "nothing-but-the-end": "echo leadline-answers; exec sleep 1000",
    "escapes": says("\\033[31mred\\033]0;x\\007\\n" * 99, 255),
    "a-long-answer": f"case \"$*\" in *leadline-answers*) printf '{ABOUT}'; exec cat;; esac; exec yes",
}


def test_a_host_over_ssh(tmp_path: Path) -> None:
    for name, script in HOSTS.items():
        fake_hostile_program(tmp_path, name, script)
    fake_hostile_program(tmp_path, "ssh", 'for word; do [ -x "./$word" ] && exec "./$word" "$@"; done')

    def open_and_run(name: str) -> None:
        connection = Connection(SshHost(name))
        try:
            connection.open()
            assert connection.address == ""
            connection.run_as_root("true")
        finally:
            connection.close()

    refused({name: lambda name=name: open_and_run(name) for name in HOSTS})  # type: ignore[misc]


# Ctrl-C ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", ["an object store", "an endless list", "a database", "an agent", "Slurm", "a host"])
def test_ctrl_c_ends_the_wait_for_a_silent_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peer: str) -> None:
    for module, name in ((database, "_TIMEOUT"), (far, "_OPENING"), (slurm, "_ASKED")):
        monkeypatch.setattr(module, name, 30.0)
    monkeypatch.setattr(artefacts, "PATIENCE", Patience(silence=30.0, listing=30.0))
    for name in ("squeue", "ssh"):
        fake_hostile_program(tmp_path, name, "exec sleep 1000")
    channel, connection = Channel("ssh:far", ["sleep", "1000"], lambda _: None), Connection(SshHost("far"))
    with served(FakeHostileS3(listing("", "again")) if "list" in peer else silent) as port:
        works: dict[str, Callable[[], object]] = {
            "an object store": lambda: there(port).owner(),
            "an endless list": lambda: there(port).sizes(),
            "a database": lambda: at(port, tmp_path / "lab"),
            "an agent": lambda: channel.ask("about"),
            "Slurm": lambda: SlurmPool(Partition()).states(["1"]),
            "a host": connection.open,
        }
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
        try:
            with pytest.raises(KeyboardInterrupt):
                works[peer]()
        finally:
            channel.close()
            connection.close()
