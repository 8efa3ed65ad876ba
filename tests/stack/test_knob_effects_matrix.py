"""Servers x modes x knobs: what each level changes, seen under two treatments; one start for each of the two.

All starts take many minutes, so they run only with LEADLINE_MATRIX=1, and one server with ``-k liberty``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from knob_effects import AT_ONCE, HOMES, MARKS, NARROW, POOL, REQUESTS, WIDE, Seen, look
from server_cells import stack
from witnesses import matrix

from leadline.stack import registry
from leadline.stack.servers import knobs

pytestmark = pytest.mark.stack

_ALL = matrix("the effects of all knobs take many minutes")
CELLS = [(server, mode) for server in registry.SERVERS for mode in registry.modes("brokerage", server)]


@dataclass(frozen=True)
class Cell:
    server: str
    mode: str
    narrow: Seen
    wide: Seen


@pytest.fixture(scope="module", params=CELLS, ids=lambda cell: "-".join(cell))
def cell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cell:
    server, mode = request.param
    place: Path = tmp_path_factory.mktemp(f"{server}-{mode}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knobs, "UPKEEP", 1)
        made = stack(place, server, mode)
        found = Cell(server, mode, look(made, place, NARROW, WIDE), look(made, place, WIDE, NARROW))
    for name, seen in (("narrow", found.narrow), ("wide", found.wide)):
        told = {key: value for key, value in vars(seen).items() if key not in ("levels", "read_back")}
        print(f"\n{server} {mode} {name}: {told}")
    return found


def statement_cache(cell: Cell) -> None:
    assert cell.narrow.parses == 0
    assert cell.wide.parses >= REQUESTS


def max_connections(cell: Cell) -> None:
    assert cell.narrow.blocked == POOL
    assert cell.wide.blocked > POOL


def connection_timeout(cell: Cell) -> None:
    assert cell.narrow.refused == AT_ONCE - POOL
    assert cell.wide.refused == 0


def min_connections(cell: Cell) -> None:
    if cell.server == "wildfly":  # its shortest idle time is a minute
        assert (cell.narrow.opened, cell.wide.opened < POOL) == (POOL, True)
    else:
        assert (cell.narrow.kept, cell.wide.kept) == (POOL, 0)


def validation(cell: Cell) -> None:
    assert cell.narrow.checks >= REQUESTS
    assert cell.wide.checks == 0
    assert cell.narrow.survived == [200] * 3


def threads(cell: Cell) -> None:
    assert cell.wide.blocked == 6


def calls(cell: Cell) -> None:
    for seen in (cell.narrow, cell.wide):
        copied = seen.levels.get("app.calls") == "remote" and not seen.levels.get("server.calls.by_reference", False)
        assert (seen.copies > 0) == copied


def summary_cache(cell: Cell) -> None:
    assert cell.narrow.summaries == 0
    assert cell.wide.summaries == HOMES


def keep_alive(cell: Cell) -> None:
    assert cell.narrow.carried == 3
    assert cell.wide.carried == 6


def heap(cell: Cell) -> None:
    assert (cell.narrow.heap_max, cell.wide.heap_max) == (384, 448)


def collector(cell: Cell) -> None:
    assert (cell.narrow.collector, cell.wide.collector) == ("serial", "parallel")


def http2(cell: Cell) -> None:
    assert (cell.narrow.http2, cell.wide.http2) == (False, True)


def compression(cell: Cell) -> None:
    assert 0 < cell.narrow.encoded < cell.narrow.plain / 2
    assert cell.wide.encoded == cell.wide.plain


def monitoring(cell: Cell) -> None:
    assert "pool.max" in cell.narrow.figures
    assert "pool.max" not in cell.wide.figures


def access_log(cell: Cell) -> None:
    assert cell.narrow.access_lines == MARKS
    # the file of the treatment before is wiped with the server's directory
    assert cell.wide.access_lines == 0


# knob -> the check, and what shows the effect in words
EFFECTS: dict[str, tuple[Callable[[Cell], None], str]] = {
    "app.calls": (calls, "arguments and results that arrived as copies: some, or 0"),
    "app.summary_cache": (summary_cache, "queries of the summary that the database ran for 6 home pages: 0, or 6"),
    "jvm.collector": (collector, "the collector's own log"),
    "jvm.heap": (heap, "the collector's own log"),
    "server.access_log": (access_log, "lines for 5 marked requests: 5, or 0"),
    "server.calls.by_reference": (calls, "copies of remote calls: some, or 0"),
    "server.datasource.connection_timeout": (
        connection_timeout,
        "of 12 requests that wait for a locked table, those that fail before it is free: 7, or 0",
    ),
    "server.datasource.max_connections": (
        max_connections,
        "sessions of the database that wait for a locked table, 12 requests at once: 5 and never more, or more",
    ),
    "server.datasource.min_connections": (
        min_connections,
        "sessions of the database left by the idle timeout: 5, or 0; WildFly: open before any load: 5, or fewer",
    ),
    "server.datasource.statement_cache": (
        statement_cache,
        "SELECTs that the database parsed for 40 pages: 0, or 40",
    ),
    "server.datasource.validation": (
        validation,
        "round trips without a statement for 40 pages: 40 or more, or 0; with it no request meets a cut connection",
    ),
    "server.http.compression": (compression, "bytes of the home page for a client that takes gzip"),
    "server.http.http2": (http2, "the answer to HTTP/2's preface"),
    "server.http.max_keep_alive_requests": (keep_alive, "requests that one connection carried: 3, or all 6"),
    "server.monitoring": (monitoring, "whether the server tells of its pool; Tomcat: a bean for each connection"),
    "server.threads.max": (
        threads,
        "sessions that wait for a locked table, 12 requests at once and 9 connections: 6 and never more",
    ),
}


@_ALL
def test_levels_are_read_back(cell: Cell) -> None:
    for seen in (cell.narrow, cell.wide):
        assert seen.read_back == seen.levels


@_ALL
@pytest.mark.parametrize("knob", EFFECTS)
def test_the_effect(cell: Cell, knob: str) -> None:
    if knob not in cell.wide.levels and knob not in cell.narrow.levels:
        pytest.skip(f"LEADLINE_MATRIX=1 tells: {cell.server} in mode {cell.mode} has no knob {knob}")
    EFFECTS[knob][0](cell)
