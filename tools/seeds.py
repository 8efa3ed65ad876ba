"""The page of the five published studies: ``python tools/seeds.py`` writes docs/evidence/seeds.md from seeds.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"
PAGE = EVIDENCE / "seeds.md"
TITLES = {
    "A": "Virtual-memory managers and a Java application (2006)",
    "B": "Tuning an application server (about 2010)",
    "C": "Linux 2.4 against 2.6 under web load (2004)",
    "D": "An application server on two kernels (2005)",
    "E": "Java on a RAM disk (2011)",
}
_HEAD = """# Five published studies, row by row

Each row is a question of a study, the command that asks it today, and what it said here, with 95 % intervals. Two
cores, November 2026; the linked page has date, layout and minutes. *Not run whole yet*: only short forms were run.
`python tools/seeds.py` writes this page; a test plans every command.
"""


def rows() -> dict[str, list[dict[str, str]]]:
    """Rows of each study: ``asks``, ``command``, ``today``, perhaps ``page``."""
    return tomllib.loads((EVIDENCE / "seeds.toml").read_text(encoding="utf-8"))


def page() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for study, entries in rows().items():
        parts.append(f"## {study}. {TITLES[study]}\n\n| question | command | today |\n| --- | --- | --- |")
        for row in entries:
            link = f" ([figures]({row['page']}))" if "page" in row else ""
            parts[-1] += f"\n| {row['asks']} | `{row['command']}` | {row['today']}{link} |"
        parts[-1] += "\n"
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
