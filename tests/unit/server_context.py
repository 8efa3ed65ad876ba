"""What a server's part is given to write its configuration, with nothing fetched and nothing started."""

from dataclasses import replace
from pathlib import Path

import pytest

from leadline.host.local import LocalHost
from leadline.stack import postgres, provision
from leadline.stack.applications.brokerage import Brokerage
from leadline.stack.base import Deployment, Endpoint, Progress, ServiceContext, Settings
from leadline.stack.provision import Artefact
from leadline.stack.servers import common

PASSWORD = "a<b&c\\d"


def brokerage(mode: str = "direct", settings: Settings | None = None) -> Deployment:
    """The reference application at some levels, whether it is built or not."""
    return Brokerage().deployment(mode, settings or {})


def queued(context: ServiceContext, orders: str = "queue") -> ServiceContext:
    """With the application's orders behind a queue."""
    archive = context.application.archive
    return replace(context, deployment=replace(brokerage("orm", {"app.orders": orders}), archive=archive))


def server_context(
    place: Path, patch: pytest.MonkeyPatch, mode: str = "orm", java_home: Path | None = None
) -> ServiceContext:
    """Distributions are in ``place/dist``, drivers empty files beside it."""

    def fake_fetch(artefact: Artefact, progress: Progress) -> Path:
        if artefact.packaging != "jar":
            return place / "dist"
        driver = place / artefact.file_name
        driver.touch()
        return driver

    assert postgres.Postgres.jdbc_driver.subprotocol in provision.DRIVERS  # by its import
    for module in (common, provision):
        patch.setattr(module, "fetch", fake_fetch)
    archive = place / "brokerage.war"
    archive.touch()
    return ServiceContext(
        LocalHost(state=place / "state"),
        place / "server",
        place / "trial" / "logs",
        java_home=java_home,
        http_port=15701,
        database=Endpoint("127.0.0.1", 15700, "leadline", "someone", PASSWORD),
        deployment=replace(brokerage(mode), archive=archive),
        raw=place / "trial" / "raw",
    )
