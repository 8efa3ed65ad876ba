"""``figures --pages``: study C's table and pages over time, of a stored study or a published table."""

from __future__ import annotations

from pathlib import Path

from leadline.api.labs import load_lab
from leadline.api.process import read_text
from leadline.cli.output import print_json, say
from leadline.figures.pages import read_pages
from leadline.model.errors import UsageError

_LARGEST = 1024**2  # bytes


def show_pages(source: str, lab: Path, out: Path | None, system: str | None, json: bool) -> None:
    """Raises UsageError, OSError."""
    from leadline.api import telling

    path = Path(source)
    if path.suffix.lower() == ".csv":
        if system is not None:
            raise UsageError("--system names a factor of a study; a table has its systems in a column")
        table, drawn, simulated = read_pages(read_text(path, _LARGEST), source), None, False
    elif path.is_file():
        raise UsageError(f"{source}: a table of pages ends in .csv")
    else:
        record = load_lab(lab).study(source).record
        table, simulated = telling.pages_table(record, system), record.simulated
        drawn = telling.pages_over_time(record, system)
    written = [] if out is None else telling.write_pages(table, drawn, out, simulated=simulated)
    if json:
        files = {"files": [str(file) for file in written]} if out else {}
        print_json({**telling.pages_document(table, simulated=simulated), **files})
        return
    say(*telling.pages_lines(table), *map(str, written))
