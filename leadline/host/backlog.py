"""How many connections may wait at a listening socket, as the kernel has it: sock_diag(7)."""

from __future__ import annotations

import socket
import struct

_SOCK_DIAG, _BY_FAMILY = 4, 20  # NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY
_DUMP, _DONE, _ERROR = 0x301, 3, 2  # NLM_F_REQUEST | NLM_F_DUMP; NLMSG_DONE, NLMSG_ERROR
_LISTEN = 10
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")
_TOLD = struct.Struct("=4x2s46xIII")  # port, expires, rqueue, wqueue: of a listening socket waiting and at most


def backlog(port: int) -> int:
    """The most that may wait at ``port`` of this network namespace: what the program asked for, or ``somaxconn``.

    Raises LookupError where nothing listens there, OSError where the kernel does not tell.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        for bound_port, most in _listening(family):
            if bound_port == port:
                return most
    raise LookupError(f"nothing listens on port {port}")


def _listening(family: int) -> list[tuple[int, int]]:
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << _LISTEN)
    ports: list[tuple[int, int]] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(2.0)
        kernel.send(_HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _DUMP, 1, 0) + request)
        while True:
            data = kernel.recv(1 << 16)
            while len(data) >= _HEADER.size:
                length, kind, *_ = _HEADER.unpack_from(data)
                if kind == _DONE:
                    return ports
                if kind == _ERROR:
                    (code,) = struct.unpack_from("=i", data, _HEADER.size)
                    raise OSError(-code, "the kernel does not tell of listening sockets")
                port, _, _, most = _TOLD.unpack_from(data, _HEADER.size)
                ports.append((int.from_bytes(port, "big"), most))
                data = data[(length + 3) // 4 * 4 :]
