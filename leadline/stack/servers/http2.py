"""Whether a port without TLS speaks HTTP/2 to a client that begins with it (RFC 9113, section 3.3)."""

from __future__ import annotations

import socket

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_EMPTY_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS = 4  # type of the frame that a server must send first
_HEADER = 9  # bytes before a frame's payload


def speaks_http2(port: int, timeout: float = 5.0) -> bool:
    """Whether the server on 127.0.0.1:``port`` answers the preface with its settings.

    Raises LookupError when it cannot be asked.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection:
            connection.sendall(_PREFACE + _EMPTY_SETTINGS)
            found = b""
            while len(found) < _HEADER and (more := connection.recv(_HEADER - len(found))):
                found += more
    except ConnectionResetError:
        return False
    except OSError as error:
        raise LookupError(f"port {port} does not tell whether it speaks HTTP/2: {error}") from error
    return len(found) == _HEADER and not found.startswith(b"HTTP/") and found[3] == _SETTINGS
