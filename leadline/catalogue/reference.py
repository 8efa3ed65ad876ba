"""Writes ``docs/reference/knobs*.md`` from the catalogue: ``python -m leadline.catalogue.reference``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from leadline import catalogue
from leadline.catalogue import text
from leadline.model.knob import Knob, Owner

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
_HEAD = ("knob", "own name", "range", "default", "apply cost, risk", "what it is, and the manual")
_PAGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "host": ("Knobs of the host", catalogue.families()),
    "guest": ("Knobs of the guest", ("guest",)),
    "jvm": ("Knobs of the JVM", ("jvm",)),
    "servers": ("Knobs of the application servers", catalogue.programs(Owner.SERVER)),
    "databases": ("Knobs of the databases", catalogue.programs(Owner.DATABASE)),
    "web": ("Knobs of the web servers in front", ("web",)),
    "load": ("Knobs of the load", ("load",)),
    "application": ("Knobs of the application", catalogue.programs(Owner.APPLICATION)),
}
_MADE = "Generated from `leadline/catalogue` by `python -m leadline.catalogue.reference`; edit the data, not this page."
_INTRO = """# Knobs

Every parameter that leadline reads, sets, reads back and undoes. `leadline knobs` prints the same for this machine,
with today's values and with limits that depend on its memory as numbers.

*Apply cost* is what leadline does to change a level: `live`, in the running system; `run`,
with the run of the load driver that every trial makes anyway; `restart`, with the start of the
program that every trial makes anyway; `reboot`, with the start of a guest. *Risk* is that of the levels inside the safe
range: `safe`, or `caution` where a level may cost performance or data. A *dangerous* level can hang, starve or lock out
a host: it is refused with the reason and the nearest safe level, unless the host is marked disposable (`--disposable`).
"""


def pages() -> dict[str, str]:
    """File name -> content of every page."""
    contents = {}
    links = []
    for name, (title, files) in _PAGES.items():
        parts = [f"# {title}", _MADE]
        count = 0
        for file in files:
            knobs = list(catalogue.load(file).values())
            count += len(knobs)
            parts += [f"## {file}", _table(knobs)] if len(files) > 1 else [_table(knobs)]
        contents[f"knobs-{name}.md"] = "\n\n".join(parts) + "\n"
        links.append(f"- [{title}](knobs-{name}.md): {count}")
    contents["knobs.md"] = f"{_INTRO}\n{_MADE}\n\n" + "\n".join(links) + "\n"
    return contents


def _table(knobs: Iterable[Knob]) -> str:
    rows = (_HEAD, tuple("---" for _ in _HEAD), *text.rows_of(knobs))
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows)


def _cell(cell: str) -> str:
    return cell.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, content in pages().items():
        (FOLDER / file).write_text(content, encoding="utf-8")
