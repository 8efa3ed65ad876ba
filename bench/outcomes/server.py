"""A server that answers, errs, is silent, hangs up or freezes as it is asked to."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BAD = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 3\r\n\r\nbad"


@dataclass(frozen=True)
class Freeze:
    """From a second after the first request on, for so many seconds; None: for good."""

    second: int
    seconds: float | None


class Server:
    """Paths: ``/ok``, ``/bad``, ``/slow`` (a quarter of a second), ``/never``, ``/close``. Frozen it answers nothing
    until it thaws.
    """

    def __init__(self, freeze: Freeze | None = None) -> None:
        self.coming = freeze
        self.loop = asyncio.new_event_loop()
        self.thawed = asyncio.Event()
        self.thawed.set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _begin(self) -> None:
        """At the first request."""
        freeze, self.coming = self.coming, None
        if freeze is not None:
            self.loop.call_later(freeze.second, self.thawed.clear)
            if freeze.seconds is not None:
                self.loop.call_later(freeze.second + freeze.seconds, self.thawed.set)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ")[1]
                self._begin()
                await self.thawed.wait()
                if path == b"/never":
                    continue
                if path == b"/close":
                    break
                await asyncio.sleep(0.25 if path == b"/slow" else 0.002)
                writer.write(BAD if path == b"/bad" else GOOD)
                await writer.drain()
        writer.close()

    async def _run(self, ready: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


@contextlib.contextmanager
def serving(freeze: Freeze | None = None) -> Iterator[Server]:
    server, ready, stop = Server(freeze), threading.Event(), asyncio.Event()
    thread = threading.Thread(target=lambda: server.loop.run_until_complete(server._run(ready, stop)), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        server.loop.call_soon_threadsafe(server.thawed.set)
        server.loop.call_soon_threadsafe(stop.set)
        thread.join(10)
