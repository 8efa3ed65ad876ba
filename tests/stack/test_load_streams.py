"""Streams of events, WebSockets and gRPC: the driver against servers of other libraries, whose own log is the truth."""

import asyncio
import json
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from leadline.load.command import run_scenario
from leadline.load.result import DriverResult, Latency, read_summary
from leadline.stack.certificate import make_certificate

grpc = pytest.importorskip("grpc")
pytest.importorskip("websockets")  # which uvicorn uses
pytestmark = pytest.mark.stack

EXAMPLE = Path(__file__).parents[2] / "examples/live/live.scenario.yaml"
PAUSE = 0.01  # seconds before each event
WORDS = 5


@dataclass
class Log:
    """What the server did: events and messages it sent, messages it got, and by path the seconds of each stream."""

    sent: int = 0
    received: int = 0
    closes: list[int] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    first: list[float] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[tuple[str, Log]]:
    log = Log()

    async def prices(request: Request) -> EventSourceResponse:
        return EventSourceResponse(stream("/prices", [("price", '{"symbol": "S1"}')] * 10, stays=True))

    async def answers(request: Request) -> EventSourceResponse:
        assert (await request.json())["question"].startswith("What is ")
        return EventSourceResponse(stream("/answers", [("", word) for word in ["word"] * WORDS + ["[DONE]"]]))

    async def stream(path: str, events: list[tuple[str, str]], stays: bool = False) -> AsyncIterator[dict[str, str]]:
        begin = time.perf_counter()
        log.sent += 1
        yield {"event": "hello", "data": "not counted"} if stays else {"data": "start"}
        log.first.append(time.perf_counter() - begin)
        for kind, data in events:
            await asyncio.sleep(PAUSE)
            log.sent += 1
            seconds = time.perf_counter() - begin
            yield {"event": kind, "data": data} if kind else {"data": data}
        log.seconds.setdefault(path, []).append(seconds)
        if stays:
            await asyncio.sleep(60)  # until the client goes

    async def desk(connection: WebSocket) -> None:
        await connection.accept()
        begin = time.perf_counter()
        try:
            while True:
                message = json.loads(await connection.receive_text())
                log.received += 1
                await asyncio.sleep(PAUSE)
                replies: list[dict[str, Any]] = [{"type": "noise"}]
                if "order" in message:
                    replies.append({"type": "filled", "fill": 7, "client": message["client"]})
                else:
                    assert message == {"confirm": "7"}
                    replies.append({"type": "confirmed"})
                    log.seconds.setdefault("/desk", []).append(time.perf_counter() - begin)
                for reply in replies:
                    log.sent += 1
                    await connection.send_text(json.dumps(reply))
        except WebSocketDisconnect as end:
            log.closes.append(end.code)

    app = Starlette(
        routes=[
            Route("/prices", prices),
            Route("/answers", answers, methods=["POST"]),
            WebSocketRoute("/desk", desk),
        ]
    )
    with serving(app) as port:
        yield f"http://127.0.0.1:{port}", log


@contextmanager
def serving(app: Starlette, **tls: Any) -> Iterator[int]:
    """The port of an application that runs; ``tls`` as uvicorn's configuration."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    running = uvicorn.Server(
        uvicorn.Config(app, log_level="error", ws="websockets-sansio", timeout_graceful_shutdown=1, **tls)
    )
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield int(listener.getsockname()[1])
    running.should_exit = True
    thread.join(10)


def mean(latency: Latency) -> float:
    assert latency.mean is not None
    return latency.mean


def counts(log: Path) -> dict[str, int]:
    reader = HistogramLogReader(str(log), HdrHistogram(64, 3_600_000_000_000, 3))
    found: dict[str, int] = {}
    while (interval := reader.get_next_interval_histogram()) is not None:
        found[interval.get_tag()] = found.get(interval.get_tag(), 0) + interval.get_total_count()
    return found


def test_the_example_counts_what_the_server_logs(server: tuple[str, Log], tmp_path: Path) -> None:
    url, log = server
    out = tmp_path / "out"
    options = ["--users", "4", "--ramp-up", "0", "--steady", "3s", "--ramp-down", "9s", "--timeout", "9s"]
    assert run_scenario(str(EXAMPLE), [*options, "--url", url, "--out", str(out)]) == 0
    result = read_summary(out)
    assert not result.errors
    done = {name: count.ok for name, count in result.total.items()}
    assert done == {
        "prices": len(log.seconds["/prices"]),
        "answer": len(log.seconds["/answers"]),
        "desk": len(log.seconds["/desk"]),
    }
    assert min(done.values()) > 0
    assert result.requests.events == log.sent == 11 * done["prices"] + (WORDS + 2) * done["answer"] + 4 * done["desk"]
    assert result.requests.messages_sent == log.received == 2 * done["desk"]
    assert log.closes == [1000] * done["desk"]

    first, gaps = counts(out / "first_event.hlog"), counts(out / "gap.hlog")
    assert first == {"prices": done["prices"], "answer": done["answer"], "desk": 2 * done["desk"]}
    assert gaps == {"prices": 9 * done["prices"], "answer": (WORDS + 1) * done["answer"]}
    assert counts(out / "first_byte.hlog") == done

    # Nothing can be there before the server sent it: the driver's times are at least the server's own.
    for name, path in (("prices", "/prices"), ("answer", "/answers"), ("desk", "/desk")):
        part = result.transactions[name]
        assert mean(part.response_ms) >= 0.99 * 1000 * sum(log.seconds[path]) / done[name]
        assert mean(part.first_byte_ms) <= mean(part.first_event_ms) or name == "desk"
    assert mean(result.transactions["prices"].first_event_ms) >= 0.99 * 1000 * PAUSE
    assert mean(result.transactions["desk"].first_event_ms) >= 0.99 * 1000 * PAUSE


CALLS = EXAMPLE.with_name("calls.scenario.yaml")


class Quotes:
    """The service of quotes.proto, whose messages are a text and a number below 128."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self.lock = threading.Lock()

    def service(self, details: Any) -> Any:
        name = details.method.rsplit("/", 1)[1]
        make = {
            "Get": grpc.unary_unary_rpc_method_handler,
            "Watch": grpc.unary_stream_rpc_method_handler,
            "Add": grpc.stream_unary_rpc_method_handler,
            "Talk": grpc.stream_stream_rpc_method_handler,
        }[name]
        answer = self.many if name in ("Watch", "Talk") else self.one
        return make(lambda request, context: answer(name, request, context))

    def count(self, where: dict[str, int], name: str) -> None:
        with self.lock:
            where[name] = where.get(name, 0) + 1

    def one(self, name: str, request: Any, context: Any) -> bytes:
        self.count(self.calls, name)
        requests = [request] if name == "Get" else list(request)
        if requests[0] == message("none", 0):
            context.abort(grpc.StatusCode.NOT_FOUND, "no such symbol")
        self.count(self.sent, name)
        return requests[0] if name == "Get" else message("sum", sum(one[-1] for one in requests))

    def many(self, name: str, request: Any, context: Any) -> Iterator[bytes]:
        self.count(self.calls, name)
        for one in [request] * 5 if name == "Watch" else request:
            time.sleep(PAUSE)
            self.count(self.sent, name)
            yield one


def message(symbol: str, number: int) -> bytes:
    """In the form of protobuf: field 1 a text, field 2 a number, left out where it is 0."""
    return bytes([10, len(symbol)]) + symbol.encode() + (bytes([16, number]) if number else b"")


def test_calls_are_what_the_server_counts(tmp_path: Path) -> None:
    service = Quotes()
    running = grpc.server(ThreadPoolExecutor(16), handlers=(service,))
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    out = tmp_path / "out"
    options = ["--users", "2", "--ramp-up", "0", "--steady", "2s", "--ramp-down", "9s", "--http", "2"]
    code = run_scenario(str(CALLS), [*options, "--url", f"http://127.0.0.1:{port}", "--out", str(out)])
    running.stop(1).wait()
    result = read_summary(out)
    assert (code, result.errors) == (0, {}), result.error_samples
    done = {name: count.ok for name, count in result.total.items()}
    assert service.calls == {
        "Get": 2 * done["get"],
        "Watch": done["watch"],
        "Add": done["add"],
        "Talk": done["add"],
    }
    assert service.sent == {"Get": done["get"], "Watch": 5 * done["watch"], "Add": done["add"], "Talk": 2 * done["add"]}
    assert result.requests.events == sum(service.sent.values())
    assert min(done.values()) > 0
    assert mean(result.transactions["watch"].response_ms) >= 0.99 * 1000 * 5 * PAUSE
    assert counts(out / "gap.hlog")["watch"] == 4 * done["watch"]


ECHO = """\
scenario: echo
mix: { echo: 1 }
transactions:
  echo:
    - websocket: /echo
    - send: { word: here }
    - await: { where: { json: { /word: here } } }
    - close: normal
"""


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A directory with the certificates and keys of a server and a client."""
    for name in ("server", "client"):
        pair = make_certificate()
        (tmp_path / f"{name}.crt").write_text(pair.certificate)
        (tmp_path / f"{name}.key").write_text(pair.key)
        (tmp_path / f"{name}.key").chmod(0o600)
    return tmp_path


def loaded(keys: Path, scenario: str, port: int, *more: str, client: bool = True) -> DriverResult:
    """A moment of load of a server with TLS, with the client's certificate or without."""
    out = keys / f"out-{client}"
    shown = ["--client-certificate", str(keys / "client.crt"), "--client-key", str(keys / "client.key")]
    options = ["--users", "2", "--ramp-up", "0", "--steady", "1s", "--ca", str(keys / "server.crt"), *more]
    options += ["--url", f"https://127.0.0.1:{port}", "--out", str(out), *(shown if client else ())]
    run_scenario(scenario, options)
    return read_summary(out)


def both_ways(results: Sequence[DriverResult]) -> None:
    """With the certificate all is well, without it nothing is."""
    shown, hidden = results
    assert not shown.errors, shown.error_samples
    assert min(count.ok for count in shown.total.values()) > 0
    assert sum(count.ok for count in hidden.total.values()) == 0
    assert hidden.errors


def test_a_websocket_of_a_server_that_asks_for_the_clients_certificate(keys: Path) -> None:
    async def echo(connection: WebSocket) -> None:
        await connection.accept()
        with suppress(WebSocketDisconnect):
            while True:
                await connection.send_text(await connection.receive_text())

    (keys / "echo.scenario.yaml").write_text(ECHO)
    files = {
        "ssl_certfile": keys / "server.crt",
        "ssl_keyfile": keys / "server.key",
        "ssl_ca_certs": keys / "client.crt",
    }
    with serving(Starlette(routes=[WebSocketRoute("/echo", echo)]), ssl_cert_reqs=ssl.CERT_REQUIRED, **files) as port:
        both_ways([loaded(keys, str(keys / "echo.scenario.yaml"), port, client=client) for client in (True, False)])


def test_calls_of_a_server_that_asks_for_the_clients_certificate(keys: Path) -> None:
    read = {file.name: file.read_bytes() for file in keys.glob("*.*")}
    pairs = [(read["server.key"], read["server.crt"])]
    running = grpc.server(ThreadPoolExecutor(16), handlers=(Quotes(),))
    port = running.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials(pairs, read["client.crt"], require_client_auth=True)
    )
    running.start()
    both_ways([loaded(keys, str(CALLS), port, "--http", "2", client=client) for client in (True, False)])
    running.stop(1).wait()
