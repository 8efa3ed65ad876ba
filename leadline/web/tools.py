"""The server of the Model Context Protocol: the methods of a session as tools, over stdio or on the loopback."""

from __future__ import annotations

import hmac
import queue
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field, ValidationError

import leadline
from leadline.model.errors import LeadlineError, UsageError, shortened, wanted

LOOPBACK = "127.0.0.1"
_IDLE = 3600.0  # seconds after which HTTP forgets a client
INSTRUCTIONS = """Change one system step by step and keep only what is shown to be better: describe what can be changed,
propose one change, measure it (minutes; measured again it goes on), keep what is better. Others cannot be kept: at most
5 of 100 sessions keep anything that is not better, however many proposals are tried. From the ninth on each proposal is
tested more strictly than the one before, so propose the most promising first."""

if TYPE_CHECKING:  # its libraries take seconds to load, in which the server answers already
    from leadline.api.running import Session

Work = Callable[["Session"], Any]
Number = Annotated[int, Field(ge=1, le=10_000, description="of a proposal")]
Word = Annotated[str, Field(max_length=200)]
Line = Annotated[str, Field(max_length=4_000)]
Raw = bool | int | float | Word
Minutes = Annotated[float, Field(gt=0, le=24 * 60, description="at most; until it is decided if absent")]


class _Server(MCPServer[Any]):
    """Wrong arguments are told in one line each."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:
        """As the SDK's."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ToolError):
                raise error.__cause__ from None  # without the SDK's words before it
            if not isinstance(error.__cause__, ValidationError):
                raise
            lines = (f"{name}: {_place(row['loc'])}: {wanted(row)}" for row in error.__cause__.errors())
            raise ToolError("\n".join(dict.fromkeys(shortened(line, 400) for line in lines))) from None


def _place(location: tuple[int | str, ...]) -> str:
    return shortened(".".join(str(part) for part in location[:2]), 100)


class Desk:
    """Calls of the server's threads, done one after the other by the thread that owns the session: the main one, which
    signals end in order.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Work, Future[Any]] | None] = queue.SimpleQueue()

    def ask(self, work: Work) -> Any:
        """What it returns. Raises ToolError with the message for the client."""
        future: Future[Any] = Future()
        self._calls.put((work, future))
        try:
            return future.result()
        except LeadlineError as error:
            raise ToolError(str(error)) from None

    def work(self, session: Session) -> None:
        """Until ``end``."""
        while (call := self._calls.get()) is not None:
            work, future = call
            try:
                future.set_result(work(session))
            except Exception as error:
                future.set_exception(error)

    def end(self) -> None:
        """No call comes any more."""
        self._calls.put(None)


def server_of(ask: Callable[[Work], Any]) -> MCPServer[Any]:
    """A server whose tools are the session's methods."""
    server = _Server("leadline", instructions=INSTRUCTIONS, version=leadline.__version__, log_level="WARNING")

    @server.tool()
    def describe(pattern: Word = "*") -> dict[str, Any]:
        """What is measured and in force, and the knobs that match a pattern (vm.*): range, risk, today's level."""
        return dict(ask(lambda session: session.describe(pattern)))

    @server.tool()
    def propose(
        knobs: Annotated[dict[Word, Raw] | None, Field(max_length=20, description="knob: level")] = None,
        command: Annotated[Line, Field(description="in place of the command that is measured")] = "",
        stack: Annotated[Line, Field(description="stack file in place of the one that is measured")] = "",
        why: Line = "",
    ) -> dict[str, Any]:
        """Note one change: of knobs, of the command, or of the stack file. Nothing is set yet."""
        return asdict(ask(lambda session: session.propose(knobs, command, stack, why)))

    @server.tool()
    def measure(proposal: Number, minutes: Minutes | None = None) -> dict[str, Any]:
        """Compare a proposal with what is in force, in blocks, until it is decided or the minutes are over."""
        return asdict(ask(lambda session: session.measure(proposal, None if minutes is None else 60 * minutes)))

    @server.tool()
    def keep(proposal: Number) -> dict[str, Any]:
        """Put a proposal in force that was shown to be better; it is read back and will be undone at the end."""
        return asdict(ask(lambda session: session.keep(proposal)))

    @server.tool()
    def revert(proposal: Number) -> dict[str, Any]:
        """Take back what was kept."""
        return asdict(ask(lambda session: session.revert(proposal)))

    @server.tool()
    def explain(proposal: Number) -> dict[str, Any]:
        """What the study of a proposal says of every response, with intervals and warnings."""
        return dict(ask(lambda session: session.explain(proposal)))

    @server.tool()
    def history() -> dict[str, Any]:
        """Every proposal of the session, in order."""
        return {"proposals": ask(lambda session: session.history())}

    return server


def listening(port: int) -> socket.socket:
    """On the loopback. Raises UsageError where the port is taken."""
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise UsageError(f"--port {port}: {error.strerror}; take another, or leave it out for stdio") from None


def serve(
    opened: Callable[[], AbstractContextManager[Session]], listener: socket.socket | None = None, token: str = ""
) -> None:
    """Over stdio until the client leaves, or on the loopback for those who show the token. Clients wait for the session
    to be ``opened``, whose errors are raised. Raises LeadlineError where the server fails.
    """
    desk, failures = Desk(), list[Exception]()
    server = server_of(desk.ask)

    def run() -> None:
        try:
            if listener is None:
                anyio.run(server.run_stdio_async)
            else:
                app = _guarded(server.streamable_http_app(host=LOOPBACK, session_idle_timeout=_IDLE), token)
                uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
        except Exception as error:
            failures.append(error)
        finally:
            desk.end()

    threading.Thread(target=run, name="mcp", daemon=True).start()
    with opened() as session:
        desk.work(session)
    if failures:
        raise LeadlineError(f"the server ended: {failures[0]}") from failures[0]


def _guarded(app: Any, token: str) -> Any:
    """The ASGI application for requests that show the token; others get 403."""

    async def checked(scope: Any, receive: Any, send: Any) -> None:
        shown = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "http" and not hmac.compare_digest(shown, f"Bearer {token}".encode()):
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b"show the token: Authorization: Bearer TOKEN\n"})
            return
        await app(scope, receive, send)

    return checked
