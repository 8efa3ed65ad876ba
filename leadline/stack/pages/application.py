"""The site as an application: nothing is loaded, and the audits ask for its files."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from leadline.model.study import ALONE
from leadline.stack.base import AskedFor, AuditResult, Counts, Endpoint, Progress, Settings
from leadline.stack.deployment import DataSource, Deployment, Ready
from leadline.stack.opaque import Opaque
from leadline.stack.pages import site
from leadline.stack.probe import MOST_READ, Client

_SHOWN = 12  # digits of the site's hash


class Pages(Opaque):
    """Implements ``leadline.stack.base.Application``."""

    name = ALONE

    @property
    def version(self) -> str:
        """Hash of the site."""
        return f"site {site.digest()[:_SHOWN]}"

    def scenarios(self) -> Sequence[str]:
        return ("pages", "pages-embedded")

    def deployment(self, mode: str, settings: Settings) -> Deployment:
        del mode, settings
        return Deployment(
            name=self.name,
            archive=site.made_site().archive,
            context_root="/",
            data_source=DataSource("jdbc/none"),
            profile="web",
            ready=Ready(f"/{site.TRIVIAL}"),
        )

    def build(self, progress: Progress) -> None:
        """Make the site, unless it is there."""
        del progress
        site.made_site()

    def data_key(self, load_units: int, seed: int) -> str:
        """The site is one, whatever the units."""
        del load_units, seed
        return f"{self.name}-{site.digest()[:_SHOWN]}"

    def load_data(self, database: Endpoint, load_units: int, seed: int, log: Path) -> None:
        """There is no database."""
        del database, load_units, seed, log

    def audit(
        self, database: Endpoint, load_units: int, seed: int, counts: Counts, log: Path, load: AskedFor = None
    ) -> Sequence[AuditResult]:
        """Whether the trivial page, a page and some files come byte by byte, and what is not there does not."""
        del database, load_units, seed, counts, log, load
        client, wanted = Client(urlsplit(self._url).port or 80), site.contents()
        names = [site.TRIVIAL, "pages/000001.html", *(site.file_name(number) for number in (1, 2, site.FILES))]
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
