"""The site that web servers serve: a trivial page, files of heavy-tailed sizes, pages that embed some of them.

Sizes are those of SURGE: P. Barford, M. Crovella, "Generating Representative Web Workloads for Network and Server
Performance Evaluation", SIGMETRICS 1998. The body of the distribution is lognormal, its tail Pareto; here the tail is
cut at ``LARGEST``. A file's number is its rank by popularity, which the scenario draws from Zipf's law as SURGE does.
Sizes are drawn in the order of the numbers, so size and popularity are independent. A seed gives the same bytes always.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from leadline.host.paths import cache_dir, exclusive
from leadline.model.study import ALONE
from leadline.stack.base import AskedFor, AuditResult, Counts, Endpoint, Opaque, Progress, Settings
from leadline.stack.deployment import DataSource, Deployment, Ready
from leadline.stack.probe import MOST_READ, Client

SEED = 1
FILES = 500
PAGES = 50
BODY_MU, BODY_SIGMA = 9.357, 1.318  # of the logarithm of bytes
TAIL_SHARE, TAIL_FROM, TAIL_ALPHA = 0.07, 133_000, 1.1
EMBEDDED_ALPHA = 2.43  # files that a page embeds: Pareto from 1
MOST_EMBEDDED = 20
SMALLEST, LARGEST = 64, 4 * 1024**2  # bytes
TRIVIAL = "index.html"
_VERSION = "1"  # another one makes another site
_LETTERS = b"abcdefghijklmnopqrstuvwxyz      "
_TRIVIAL_PAGE = "<!doctype html><title>trivial</title><p>leadline: the trivial page.</p>\n"
_WEB_XML = '<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0"/>\n'


@dataclass(frozen=True)
class Site:
    """``root``: directory of the files; ``archive``: the same as an archive (WAR)."""

    root: Path
    archive: Path


def sizes(files: int = FILES, seed: int = SEED) -> list[int]:
    """Bytes of each file, the most popular first."""
    draw = random.Random(f"sizes {seed}")
    return [_size(draw) for _ in range(files)]


def _size(draw: random.Random) -> int:
    if draw.random() < TAIL_SHARE:
        size = TAIL_FROM * draw.paretovariate(TAIL_ALPHA)
    else:
        size = draw.lognormvariate(BODY_MU, BODY_SIGMA)
        while size > TAIL_FROM:
            size = draw.lognormvariate(BODY_MU, BODY_SIGMA)
    return min(LARGEST, max(SMALLEST, round(size)))


def embedded(pages: int = PAGES, files: int = FILES, seed: int = SEED) -> list[list[int]]:
    """Numbers of the files that each page embeds, the most popular page first."""
    draw = random.Random(f"pages {seed}")
    counts = [min(MOST_EMBEDDED, int(draw.paretovariate(EMBEDDED_ALPHA))) for _ in range(pages)]
    return [[draw.randrange(1, files + 1) for _ in range(count)] for count in counts]


def file_name(number: int) -> str:
    """Of a file below the site's root."""
    return f"files/{number:06}.txt"


def contents(seed: int = SEED) -> dict[str, bytes]:
    """Name below the root to bytes, of the whole site."""
    letters = random.Random(f"text {seed}").choices(_LETTERS, k=1 << 16)
    text = bytes(letters) * (LARGEST // len(letters) + 1)
    contents_ = {TRIVIAL: _TRIVIAL_PAGE.encode()}
    for number, size in enumerate(sizes(seed=seed), 1):
        contents_[file_name(number)] = (f"leadline-file {number:06}\n".encode() + text)[:size]
    for number, files in enumerate(embedded(seed=seed), 1):
        images = "".join(f'<img src="/{file_name(file)}" alt="">\n' for file in files)
        contents_[f"pages/{number:06}.html"] = (
            f"<!doctype html><title>leadline-page {number:06}</title>\n{images}".encode()
        )
    return contents_


@lru_cache(maxsize=1)
def digest() -> str:
    """A hash of every name and byte of the site."""
    digest_ = hashlib.sha256()
    for name, content in contents().items():
        digest_.update(name.encode() + b"\0" + content + b"\0")
    return digest_.hexdigest()


def made_site() -> Site:
    """The site in leadline's cache, made unless it is there."""
    place = cache_dir() / "site" / f"v{_VERSION}-s{SEED}"
    site = Site(place / "www", place / "pages.war")
    if site.archive.is_file():
        return site
    place.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(place.with_suffix(".lock"), lambda: None):
        if not site.archive.is_file():
            _make(place)
    return site


def _make(place: Path) -> None:
    """All or nothing: under another name first."""
    work = place.with_name(f"{place.name}.{os.getpid()}")
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(place, ignore_errors=True)
    work.mkdir(mode=0o755)
    with zipfile.ZipFile(work / "pages.war", "w") as archive:
        archive.writestr("WEB-INF/web.xml", _WEB_XML)
        for name, content in contents().items():
            file = work / "www" / name
            file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(0o644)
            archive.writestr(name, content)
    (work / "pages.war").chmod(0o644)
    work.rename(place)


_SHOWN = 12  # digits of the site's hash


class Pages(Opaque):
    """Implements ``leadline.stack.base.Application``."""

    name = ALONE

    @property
    def version(self) -> str:
        """Hash of the site."""
        return f"site {digest()[:_SHOWN]}"

    def scenarios(self) -> Sequence[str]:
        return ("pages", "pages-embedded")

    def deployment(self, mode: str, settings: Settings) -> Deployment:
        del mode, settings
        return Deployment(
            name=self.name,
            archive=made_site().archive,
            context_root="/",
            data_source=DataSource("jdbc/none"),
            profile="web",
            ready=Ready(f"/{TRIVIAL}"),
        )

    def build(self, progress: Progress) -> None:
        """Make the site, unless it is there."""
        del progress
        made_site()

    def data_key(self, load_units: int, seed: int) -> str:
        """The site is one, whatever the units."""
        del load_units, seed
        return f"{self.name}-{digest()[:_SHOWN]}"

    def load_data(self, database: Endpoint, load_units: int, seed: int, log: Path) -> None:
        """There is no database."""
        del database, load_units, seed, log

    def audit(
        self, database: Endpoint, load_units: int, seed: int, counts: Counts, log: Path, load: AskedFor = None
    ) -> Sequence[AuditResult]:
        """Whether the trivial page, a page and some files come byte by byte, and what is not there does not."""
        del database, load_units, seed, counts, log, load
        client, wanted = Client(urlsplit(self._url).port or 80), contents()
        names = [TRIVIAL, "pages/000001.html", *(file_name(number) for number in (1, 2, FILES))]
        wrong = [difference for name in names if (difference := _other(client, name, wanted[name]))]
        try:
            status, _, _ = client.get("/files/none.txt")
        except (OSError, ValueError) as error:
            status, wrong = 0, [*wrong, f"files/none.txt: {error}"]
        if status != HTTPStatus.NOT_FOUND:
            wrong.append(f"files/none.txt, which is not there: HTTP {status}")
        difference = "; ".join(wrong) or f"{len(names)} files come as they are, one that is not there does not"
        return [AuditResult("files-are-the-sites", not wrong, difference)]


def _other(client: Client, name: str, wanted: bytes) -> str:
    """What came in place of a file; empty where it came."""
    try:
        status, _, body = client.get(f"/{name}")
    except (OSError, ValueError) as error:
        return f"{name}: {error}"
    same = status == HTTPStatus.OK and body == wanted[:MOST_READ]
    return "" if same else f"{name}: HTTP {status}, {len(body):,} other bytes"
