"""Whose port it is."""

from __future__ import annotations

import os
import socket

from leadline.host.files import listens
from leadline.host.local import LocalHost


def test_a_port_is_taken_while_a_socket_listens_on_it() -> None:
    host = LocalHost()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert host.port_taken(port) == "Address already in use"
        assert listens(host.files, [os.getpid()], port)
        assert not listens(host.files, [os.getppid()], port), "another process answers there"
    assert host.port_taken(port) == ""
    assert not listens(host.files, [os.getpid()], port)
