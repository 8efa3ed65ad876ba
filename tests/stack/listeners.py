"""Every socket that a running stack listens on, and as whom its processes run.
docs/concepts/hosts-and-undo.md has the reasons.

A socket that ``_what`` does not know fails the test, as does one beyond the loopback, a process of root's and one with
any capability.
"""

import os
import re
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from leadline.host import procfs
from leadline.host.privilege import USERS
from leadline.stack.applications.dealership import Beside
from leadline.stack.assembly import Stack

_LISTEN = "0A"
_ACCEPTS = 0x10000  # __SO_ACCEPTCON, proc_pid_net(5)
_LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
_PATIENCE = 5.0
_WORDS = (b"", b"GET / HTTP/1.0\r\n\r\n", b"JRMI\0\2K", b"GIOP\x01\x02\x00\x03" + struct.pack(">III", 8, 1, 0))
_SERVICE = re.compile(r"^(jms|admin) tcp \S+ (\d+)", re.MULTILINE)
_REGISTRY = re.compile(r"^jmxrmi rmi JMX .*/jndi/rmi://[^:/]+:(\d+)/", re.MULTILINE)


@dataclass(frozen=True)
class Listener:
    """``address``: host and port, a path, or a name after ``@``."""

    role: str
    kind: str  # tcp, udp, unix
    address: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.role} {self.kind} {self.address}{f':{self.port}' if self.port else ''}"


def check(made: Stack) -> None:
    """Everything that runs now. An agent has been loaded where levels were read back."""
    found = list(_listeners(made))
    assert {each.role for each in found} >= set(made.processes()), "every service listens"
    assert beyond_the_loopback(made) == []
    ports = [each.port for each in found if (each.role, each.kind) == ("server", "tcp")]
    broker = _of_the_broker(ports) if made.server.name == "glassfish" else {}
    named = {str(each): _what(each, made) or broker.get(each.port, "") for each in found}
    print(*(f"\n{each}: {what}" for each, what in named.items()))
    unknown = [each for each in found if not named[str(each)]]
    said = {str(each): [_said(each.port, word) for word in _WORDS] for each in unknown if each.port}
    assert [str(each) for each in unknown] == [], f"unknown sockets; they say {said}"
    if made.server.name == "glassfish":
        _administration_is_closed([each.port for each in found if "administration" in named[str(each)]])
    for role, process in made.processes().items():
        for pid in process.pids():
            _has_no_privileges(role, pid)


def beyond_the_loopback(made: Stack) -> list[str]:
    """Sockets that others than this host reach."""
    return [str(each) for each in _listeners(made) if each.kind != "unix" and each.address not in _LOOPBACK]


def _what(listener: Listener, made: Stack) -> str:
    """What it is and how it authenticates; empty for one that is not known."""
    server, database = made.server.name, made.database.name
    if listener.kind == "unix":
        if listener.role == "server" and Path(listener.address).name.startswith(".java_pid"):
            return "attach: the kernel tells the user"
        if listener.role == "server" and listener.address.endswith("/socket/application.socket"):
            return "the application: its own"
        if (listener.role, database, listener.address) == ("database", "mariadb", "mariadb.sock"):
            return "the database: random password"
        return ""
    if listener.kind != "tcp":
        return ""
    if listener.role == "database" and listener.port == made.endpoint().port:
        return "the database: random password"
    if listener.role == "web" and listener.port == urlsplit(made.url()).port:
        return "the application: its own"
    if listener.role == "server" and listener.port == urlsplit(made._direct_url()).port:
        return "the application: its own"
    if listener.role == "supplier" and listener.port == _port_of(made, "supplier"):
        return "the supplier emulator: none, it takes orders"
    if listener.role == "server" and server == "glassfish":
        return _of_glassfish(listener.port)
    if listener.role == "caller" and listener.port == _port_of(made, "caller"):
        return "the remote caller: none, it takes requests of the plant"
    if listener.role == "caller" and server in ("glassfish", "liberty"):
        return _of_an_orb(listener.port) or ("ORB: serves nobody" if _stopped_accepting(listener.port) else "")
    remotely = "remote" in (made._settings.get("app.calls"), made._settings.get("app.agents"))
    if listener.role == "server" and server == "liberty" and remotely:
        return _of_an_orb(listener.port) or ("ORB: serves nobody" if _stopped_accepting(listener.port) else "")
    return ""


def _port_of(made: Stack, name: str) -> int | None:
    companion = made.companions.get(name)
    return urlsplit(companion.url).port if isinstance(companion, Beside) else None


def _of_glassfish(port: int) -> str:
    """By what it says."""
    if _said(port, b"").startswith(b"101 imqbroker"):
        return "Open MQ, port mapper: none, it tells ports"
    answer = _said(port, _WORDS[1])
    if answer.startswith(b"HTTP/"):
        return "administration: a password nobody knows"
    return _of_an_orb(port)


def _of_an_orb(port: int) -> str:
    # a request of the Internet inter-ORB protocol for an object that is not there; every ORB answers in its protocol
    if _said(port, _WORDS[3]).startswith(b"GIOP"):
        return "ORB: none, any user of the host may call remote beans"
    return ""


def _stopped_accepting(port: int) -> bool:
    """Whether it takes no connection any more: Yoko's first acceptor drops one without an answer and ends."""
    _said(port, b"")
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    listening = [row for row in rows if row[3] == _LISTEN and row[1].endswith(f":{port:04X}")]
    return bool(listening) and all(int(row[4].partition(":")[2], 16) > 0 for row in listening)


def _of_the_broker(ports: list[int]) -> dict[int, str]:
    """What Open MQ's port mapper tells of the others."""
    told = next((text for port in ports if (text := _said(port, b"").decode()).startswith("101 imqbroker")), "")
    services = {int(port): f"Open MQ, {name}: random passwords" for name, port in _SERVICE.findall(told)}
    # its JMX connector asks for the broker's administrator; the registry in front of it tells its port
    if registry := _REGISTRY.search(told):
        rmi = [port for port in ports if port not in services and _said(port, _WORDS[2]).startswith(b"N")]
        assert int(registry[1]) in rmi
        services |= dict.fromkeys(rmi, "Open MQ, JMX: random password of its administrator")
    return services


def _said(port: int, request: bytes) -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port), _PATIENCE) as client:
            client.sendall(request)
            client.settimeout(_PATIENCE if request else 1.0)
            return client.recv(4096)
    except OSError:
        return b""


def _administration_is_closed(ports: list[int]) -> None:
    assert ports
    for port in ports:
        for who in (b"", b"Authorization: Basic YWRtaW46\r\n"):  # nobody, and admin with the shipped empty password
            request = b"GET /management/domain.json HTTP/1.0\r\nHost: localhost\r\nX-Requested-By: x\r\n" + who
            assert _said(port, request + b"\r\n").split()[1:2] == [b"401"]


def _has_no_privileges(role: str, pid: int) -> None:
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    except FileNotFoundError:  # it has ended
        return
    told = f"{role} {pid} ({status['Name'].strip()})"
    capabilities = {kind: int(status[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Amb")}
    assert set(capabilities.values()) == {0}, told
    if os.geteuid() == 0:
        users = procfs.users(pid)
        assert len(users) == 1, told
        assert users <= set(USERS), told
        assert set(map(int, status["Gid"].split())) == users, told
        assert int(status["CapBnd"], 16) == 0, told
        assert status["NoNewPrivs"].strip() == "1", told
        assert not status["Groups"].strip(), told


def _listeners(made: Stack) -> Iterator[Listener]:
    roles = {}
    for role, process in made.processes().items():
        for pid in process.pids():
            for inode in _sockets(pid):
                roles[inode] = role
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            listens = fields[3] == _LISTEN or (table.startswith("udp") and fields[2].endswith(":0000"))
            if listens and (role := roles.get(fields[9])):
                address, _, port = fields[1].partition(":")
                yield Listener(role, table.rstrip("6"), _address(address), int(port, 16))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if int(fields[3], 16) & _ACCEPTS and (role := roles.get(fields[6])):
            yield Listener(role, "unix", fields[7] if len(fields) == 8 else "(no name)")


def _sockets(pid: int) -> set[str]:
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def _address(digits: str) -> str:
    """Words of four bytes in the order of the CPU (proc_pid_net(5))."""
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    if len(packed) == 4:
        return socket.inet_ntop(socket.AF_INET, packed)
    if packed.startswith(b"\0" * 10 + b"\xff\xff"):
        return f"::ffff:{socket.inet_ntop(socket.AF_INET, packed[12:])}"
    return socket.inet_ntop(socket.AF_INET6, packed)
