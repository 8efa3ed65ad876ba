"""Links and anchors of every document, the generated pages, and the site's list of pages."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from leadline.cli.lazy import COMMANDS
from tools.command_pages import MAN_PAGE, PAGE, documented, man_page, page

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
LINK = re.compile(r"(?<!\\)\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")


def prose(text: str) -> str:
    """The text without code, whose brackets are no links."""
    text = re.sub(r"^(```+|~~~+)[^\n]*\n.*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(text: str) -> set[str]:
    """The ids that GitHub and the site give to headings: lower case, hyphens for spaces, no other punctuation."""
    known: dict[str, int] = {}
    found = set()
    plain = re.sub(r"^(```+|~~~+)[^\n]*\n.*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#{1,6} (.+?)\s*$", plain, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = known.get(slug, 0)
        known[slug] = count + 1
        found.add(f"{slug}-{count}" if count else slug)
    return found


def broken_links(source: Path, text: str) -> list[str]:
    """What a document's links name that is not there: a file, or a heading of a page."""
    broken = []
    for target in LINK.findall(prose(text)):
        path, _, fragment = unquote(target).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (source.parent / path) if path else source
        if not file.exists():
            broken.append(f"{target}: no such file")
        elif fragment and file.suffix == ".md":
            headings = anchors(text if file == source else file.read_text(encoding="utf-8"))
            if fragment not in headings:
                broken.append(f"{target}: no such heading")
    return broken


@pytest.mark.parametrize("source", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(source: Path) -> None:
    assert not broken_links(source, source.read_text(encoding="utf-8"))


@pytest.mark.parametrize("link", ["missing.md", "index.md#no-such-heading", "#no-such-heading", "images/none.svg"])
def test_a_broken_link_is_found(link: str) -> None:
    assert len(broken_links(DOCS / "index.md", f"# Here\n\n[text]({link}) and [fine](#here)")) == 1


def test_paths_of_documents_in_the_code_exist() -> None:
    sources = [
        path
        for folder, endings in {
            "leadline": ("py", "toml", "yaml"),
            "driver/src": ("rs",),
            "bench": ("py",),
            "tests": ("py",),
        }.items()
        for ending in endings
        for path in (ROOT / folder).rglob(f"*.{ending}")
    ]
    assert len(sources) > 100
    missing = [
        f"{path.relative_to(ROOT)}: {named}"
        for path in sources
        for named in re.findall(r"(?<![\w./-])docs/[\w/.-]+\.(?:md|svg|png|csv)\b", path.read_text(encoding="utf-8"))
        if not (ROOT / named).exists()
    ]
    assert not missing


def test_the_page_of_the_command_line_is_that_of_the_commands() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tools/command_pages.py"


def test_the_man_page_is_that_of_the_commands() -> None:
    text = MAN_PAGE.read_text(encoding="utf-8")
    assert text == man_page(), "run python tools/command_pages.py"
    sections = re.findall(r"^\.SS (leadline .+)$", text.replace("\\-", "-"), re.MULTILINE)
    assert sorted(sections) == sorted(each.title for each in documented())
    assert {title.split()[1] for title in sections} == set(COMMANDS)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed: it would format the man page")
def test_the_man_page_is_formatted_without_a_warning() -> None:
    argv = ["groff", "-man", "-Tutf8", "-P-cbou", "-ww", str(MAN_PAGE)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "--dry-run" in done.stdout


def test_the_site_lists_every_page_once() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"^ *- .+: (\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_the_map_of_the_rooms_is_that_of_the_code() -> None:
    drawn = subprocess.run([sys.executable, "tools/rooms.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"```\n{drawn.stdout}```\n" in (DOCS / "concepts" / "architecture.md").read_text(encoding="utf-8")
