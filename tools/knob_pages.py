"""Writes ``docs/reference/knobs*.md`` from the catalogue: ``python tools/knob_pages.py``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from leadline import catalogue
from leadline.model.knob import Knob, Owner

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
_HEAD = ("knob", "own name", "range", "default", "apply cost, risk", "what it is")
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
_MADE = "Generated from `leadline/catalogue` by `python tools/knob_pages.py`; edit the data, not this page."
_INTRO = """# Knobs

Every parameter that leadline reads, sets, reads back and undoes. `leadline knobs` prints the same for this machine,
with today's values and with limits that depend on its memory as numbers.

*Apply cost* is what leadline does to change a level: `live`, in the running system; `run`,
with the run of the load driver that every trial makes anyway; `restart`, with the start of the
program that every trial makes anyway; `reboot`, with the start of a guest. *Risk* is that of the levels inside the safe
range: `safe`, or `caution` where a level may cost performance or data. A *dangerous* level can hang, starve or lock out
a host: it is refused with the reason and the nearest safe level, unless the host is marked disposable (`--disposable`).
"""


def _reasons(knob: Knob) -> list[str]:
    """Sentences on its dangerous and refused levels."""
    dangers = [f"{where[0].upper()}{where[1:]}: {why}." for where, why in catalogue.dangers_of(knob)]
    return [*dangers, *(f"`{level}`: {why}." for level, why in knob.refused.items())]


def pages() -> dict[str, str]:
    """File name -> content of every page."""
    written = {}
    links = []
    for name, (title, files) in _PAGES.items():
        sections = {file: list(catalogue.load(file).values()) for file in files}
        shared = _shared(sections.values())
        parts = [f"# {title}", _MADE]
        if shared:
            parts += ["What several of them have:", "\n".join(f"- `{knob}`: {shared[knob]}." for knob in shared)]
        for file, knobs in sections.items():
            parts += [f"## {file}", *_section(knobs, shared)] if len(files) > 1 else _section(knobs, shared)
        written[f"knobs-{name}.md"] = "\n\n".join(parts) + "\n"
        links.append(f"- [{title}](knobs-{name}.md): {sum(map(len, sections.values()))}")
    written["knobs.md"] = f"{_INTRO}\n{_MADE}\n\n" + "\n".join(links) + "\n"
    return written


def _shared(sections: Iterable[Sequence[Knob]]) -> dict[str, str]:
    """Knob -> summary, of knobs that several sections have with the same summary."""
    counts = Counter((knob.name, knob.summary) for knobs in sections for knob in knobs)
    return {name: summary for (name, summary), count in counts.items() if count > 1}


def _section(knobs: Sequence[Knob], shared: Mapping[str, str]) -> list[str]:
    """The manual of most of the knobs, and their table; the own name has its program where there are several."""
    manual = Counter(knob.source for knob in knobs).most_common(1)[0][0]
    programs = {program for knob in knobs for program in knob.names}
    rows = [
        [
            f"`{knob.name}`",
            ", ".join(
                f"{program}: {program_name}" if len(programs) > 1 else program_name
                for program, program_name in knob.names.items()
            ),
            f"{catalogue.range_of(knob)}{catalogue.unit_behind(knob)}",
            catalogue.default_of(knob),
            f"{knob.apply_cost.value}, {catalogue.risk_of(knob)}",
            " ".join(
                part
                for part in (
                    "" if shared.get(knob.name) == knob.summary else f"{knob.summary}.",
                    *_reasons(knob),
                    "" if knob.source == manual else knob.source,
                )
                if part
            ),
        ]
        for knob in knobs
    ]
    columns = [column for column in range(len(_HEAD)) if any(row[column] for row in rows)]
    table = [[line[column] for column in columns] for line in (_HEAD, ["---"] * len(_HEAD), *rows)]
    lines = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in table]
    return [f"Manual: {_cell(manual)}.", "\n".join(lines)]


def _cell(cell: str) -> str:
    return cell.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, content in pages().items():
        (FOLDER / file).write_text(content, encoding="utf-8")
