"""Quarkus: the application as one jar, with Vert.x's server, its servlets and Agroal's pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from leadline.model.knob import Kind, Knob, Level
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.servers import knobs
from leadline.stack.servers.framework import Framework

_POOL = "quarkus.datasource.jdbc"
_THREADS = "quarkus.thread-pool"


class Quarkus(Framework):
    """Quarkus reads ``config/application.properties`` of its working directory over the jar's own. The database's kind
    is fixed when the jar is built.
    """

    name: ClassVar[str] = "quarkus"
    title: ClassVar[str] = "Quarkus"
    release: ClassVar[str] = "3.28.5"
    configuration: ClassVar[str] = "config/application.properties"
    databases: ClassVar[tuple[str, ...]] = ("postgres",)
    url: ClassVar[str] = f"{_POOL}.url"
    password: ClassVar[str] = "quarkus.datasource.password"
    properties: ClassVar[Mapping[str, str]] = {
        knobs.MAX_CONNECTIONS.name: f"{_POOL}.max-size",
        knobs.MIN_CONNECTIONS.name: f"{_POOL}.min-size",
        knobs.CONNECTION_TIMEOUT.name: f"{_POOL}.acquisition-timeout",
        knobs.MAX_AGE.name: f"{_POOL}.max-lifetime",
        knobs.THREADS.name: f"{_THREADS}.max-threads",
        knobs.MIN_THREADS.name: f"{_THREADS}.core-threads",
    }

    def fixed(self, context: ServiceContext) -> Mapping[str, str]:
        assert context.database is not None
        return {
            "quarkus.http.host": context.http_address,
            "quarkus.http.port": str(context.http_port),
            "quarkus.datasource.jdbc.url": self.pool_url(context),
            "quarkus.datasource.username": context.database.user,
            "quarkus.datasource.password": context.database.password,
        }

    def check(self, settings: Settings) -> None:
        knobs.check_bounds(settings, knobs.MIN_CONNECTIONS, knobs.MAX_CONNECTIONS, None)
        knobs.check_bounds(settings, knobs.MIN_THREADS, knobs.THREADS, None)

    def written(self, knob: Knob, level: Level) -> str:
        return f"{round(float(level) * 1000)}ms" if knob.kind is Kind.DURATION else str(level)

    def told(self, knob: Knob, value: object) -> Level:
        return float(str(value)) if knob.kind is Kind.DURATION else int(str(value))
