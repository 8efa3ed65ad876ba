"""A small client that sees by behaviour what a server's port offers."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from leadline.model.received import from_json
from leadline.stack.base import Deployment

PROMPT = 3.0  # seconds in which a server under no load answers
MOST_READ = 1 << 20  # bytes of a body
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_EMPTY_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS = 4  # type of the frame that a server must send first
_HEADER = 9  # bytes before a frame's payload
# Long and repetitive enough that compressing it pays for any server.
PAGE = "<!doctype html><title>probe</title>" + "<p>A page of the web server itself.</p>\n" * 60


def connection_to(url: str, timeout: float) -> http.client.HTTPConnection:
    """A connection to the stack's own server at ``url``, http or https; not yet open. Its certificate is not checked:
    leadline has started what listens there.
    """
    at = urlsplit(url)
    if at.scheme != "https":
        return http.client.HTTPConnection(at.hostname or "", at.port, timeout=timeout)
    return http.client.HTTPSConnection(at.hostname or "", at.port, timeout=timeout, context=_unchecked())


def _unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass(frozen=True)
class Client:
    """Of a port on the loopback. ``certificate`` (PEM): speak TLS and trust it alone; None: plain. ``timeout``: seconds
    for each wait of an exchange.
    """

    port: int
    certificate: str | None = None
    timeout: float = PROMPT
    client: Sequence[Path] = ()  # PEM files of what is shown to a server that asks: certificate and key

    def connect(self, protocols: tuple[str, ...] = ()) -> socket.socket:
        """Raises OSError."""
        plain = socket.create_connection(("127.0.0.1", self.port), self.timeout)
        if self.certificate is None:
            return plain
        context = ssl.create_default_context(cadata=self.certificate)
        if self.client:
            context.load_cert_chain(self.client[0], self.client[-1])
        if protocols:
            context.set_alpn_protocols(list(protocols))
        try:
            return context.wrap_socket(plain, server_hostname="127.0.0.1")
        except BaseException:
            plain.close()
            raise

    def get(self, path: str, accept_encoding: str = "identity") -> tuple[int, dict[str, str], bytes]:
        """Status, headers with names in lower case, body. Raises OSError, ValueError."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
        try:
            connection.sock = self.connect()
            connection.request("GET", path, headers={"Accept-Encoding": accept_encoding, "Connection": "close"})
            answer = connection.getresponse()
            body = answer.read(MOST_READ)
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body
        except http.client.HTTPException as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()

    def speaks_tls(self) -> bool:
        """Whether the port answers a TLS handshake; the certificate is not looked at. Raises OSError."""
        context = _unchecked()
        with socket.create_connection(("127.0.0.1", self.port), self.timeout) as plain:
            try:
                with context.wrap_socket(plain):
                    return True
            except ssl.SSLError:
                return False

    def speaks_http2(self) -> bool:
        """Whether HTTP/2 is chosen in the handshake (ALPN), or without TLS understood from the first byte.

        Raises OSError, LookupError.
        """
        if self.certificate is None:
            return speaks_http2(self.port, self.timeout)
        with self.connect(("h2", "http/1.1")) as connection:
            assert isinstance(connection, ssl.SSLSocket)
            return connection.selected_alpn_protocol() == "h2"

    def compresses(self, path: str) -> bool:
        """Whether a page comes gzipped to a client that takes it. Raises OSError, ValueError."""
        status, headers, _ = self.get(path, "gzip")
        if status != 200:
            raise ValueError(f"{path} was answered by HTTP {status}")
        return headers.get("content-encoding") == "gzip"

    def requests_carried(self, path: str, most: int) -> int:
        """Requests that one connection carried until the server closed it; ``most`` if it did not by then.

        Raises OSError, ValueError.
        """
        request = f"HEAD {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        with self.connect() as connection:
            answers = connection.makefile("rb")
            for carried in range(most):
                try:
                    connection.sendall(request)
                    lines = []
                    while (line := answers.readline()).strip():
                        lines.append(line.strip().lower())
                except (ConnectionResetError, BrokenPipeError):
                    return carried
                if not lines:
                    return carried
                if b" 200 " not in lines[0] + b" ":
                    raise ValueError(f"{path} was answered by {lines[0].decode('latin-1')}")
                if b"connection: close" in lines:
                    return carried + 1
        return most


def unreached(address: str, port: int, timeout: float = 5.0) -> str:
    """Why a port of a host cannot be reached from this one; empty where it can."""
    try:
        socket.create_connection((address, port), timeout).close()
    except OSError as error:
        return str(error)
    return ""


def ready(client: Client, deployment: Deployment) -> str:
    """Empty when the application answers as one that is up, else what was said instead."""
    wanted = deployment.ready
    path = f"{deployment.path}{wanted.path}"
    try:
        status, _, body = client.get(path)
        if status != wanted.status:
            return f"{path}: HTTP {status}"
        health = from_json(body) if wanted.json else {}
        up = isinstance(health, dict) and health.items() >= wanted.json.items()
        return "" if up else f"{path}: {body[:80]!r}"
    except (OSError, ValueError) as error:
        return f"{path}: {error}"


def speaks_http2(port: int, timeout: float = 5.0) -> bool:
    """Whether the server on 127.0.0.1:``port`` answers the preface with its settings.

    Raises LookupError when it cannot be asked.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection:
            connection.sendall(_PREFACE + _EMPTY_SETTINGS)
            answer_bytes = b""
            while len(answer_bytes) < _HEADER and (more := connection.recv(_HEADER - len(answer_bytes))):
                answer_bytes += more
    except ConnectionResetError:
        return False
    except OSError as error:
        raise LookupError(f"port {port} does not tell whether it speaks HTTP/2: {error}") from error
    return len(answer_bytes) == _HEADER and not answer_bytes.startswith(b"HTTP/") and answer_bytes[3] == _SETTINGS
