"""Whose port it is."""

from __future__ import annotations

import os
import socket

from leadline.stack.servers import ports


def test_a_port_is_taken_while_a_socket_listens_on_it() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert ports.taken(port) == "Address already in use"
        assert ports.listens([os.getpid()], port)
        assert not ports.listens([os.getppid()], port), "another process answers there"
    assert ports.taken(port) == ""
    assert not ports.listens([os.getpid()], port)
