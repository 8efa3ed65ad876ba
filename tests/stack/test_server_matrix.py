"""Servers x databases x modes: a start with defaults, a short load, all audits, a clean stop.

All cells take some minutes, so they run only with LEADLINE_MATRIX=1; ``pytest -s`` prints the table. The files of the
single servers run some of them in every test run.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import server_cells
from witnesses import matrix

from leadline.stack import registry

pytestmark = [
    pytest.mark.stack,
    matrix("the whole matrix takes some minutes"),
]

CELLS = [
    ("brokerage", server, database, mode)
    for server in registry.SERVERS
    for database in registry.DATABASES
    for mode in registry.modes("brokerage", server)
]
CELLS += [
    ("dealership", server, database, mode)
    for server in registry.SERVERS
    for database in registry.DATABASES
    for mode in registry.modes("dealership", server)
    if registry.SERVERS[server].reaches(database)
]


@pytest.mark.parametrize(("app", "server", "database", "mode"), CELLS)
def test_a_cell(app: str, server: str, database: str, mode: str, tmp_path: Path) -> None:
    made = server_cells.stack(tmp_path, server, mode, database, app=app)
    cell = server_cells.run(made, tmp_path, {})
    print(
        f"\n| {app} | {server} | {database} | {mode} | {cell.ready:.1f} | {cell.cpu:.1f} | {cell.resident / 2**20:.0f}"
        f" | {cell.ok} | {cell.failed} |"
    )
    assert cell.failed == 0
