"""A small real HTTP server in a thread, and a scenario that asks it."""

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SCENARIO = "scenario: one\nmix: { get: 1 }\npause: { shape: fixed, mean: 5ms }\ntransactions:\n  get: [{ get: / }]\n"


@contextmanager
def small_server(takes: float = 0.0, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Its URL, https with ``tls``; each response ``takes`` so many seconds."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            time.sleep(takes)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
        server.shutdown()
