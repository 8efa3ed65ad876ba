"""Spring Boot: the application as a fat jar, with embedded Tomcat and HikariCP's pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from leadline.model.knob import Kind, Knob, Level
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.servers import knobs
from leadline.stack.servers.framework import Framework

_HIKARI = "spring.datasource.hikari"
_TOMCAT = "server.tomcat"
_CONNECTIONS = 10  # HikariCP's default maximum
_THREADS = 200  # Tomcat's default threads.max


class SpringBoot(Framework):
    """Spring Boot reads ``application.properties`` of its working directory after the jar's own."""

    name: ClassVar[str] = "spring-boot"
    title: ClassVar[str] = "Spring Boot"
    release: ClassVar[str] = "3.5.7"
    configuration: ClassVar[str] = "application.properties"
    url: ClassVar[str] = f"{_HIKARI}.jdbc-url"
    password: ClassVar[str] = "spring.datasource.password"
    properties: ClassVar[Mapping[str, str]] = {
        knobs.MAX_CONNECTIONS.name: f"{_HIKARI}.maximum-pool-size",
        knobs.MIN_CONNECTIONS.name: f"{_HIKARI}.minimum-idle",
        knobs.CONNECTION_TIMEOUT.name: f"{_HIKARI}.connection-timeout",
        knobs.IDLE_TIMEOUT.name: f"{_HIKARI}.idle-timeout",
        knobs.MAX_AGE.name: f"{_HIKARI}.max-lifetime",
        knobs.THREADS.name: f"{_TOMCAT}.threads.max",
        knobs.MIN_THREADS.name: f"{_TOMCAT}.threads.min-spare",
        knobs.HTTP_CONNECTIONS.name: f"{_TOMCAT}.max-connections",
        knobs.ACCEPT_QUEUE.name: f"{_TOMCAT}.accept-count",
        knobs.KEEP_ALIVE.name: f"{_TOMCAT}.max-keep-alive-requests",
    }

    def fixed(self, context: ServiceContext) -> Mapping[str, str]:
        assert context.database is not None
        return {
            "server.address": context.http_address,
            "server.port": str(context.http_port),
            "server.servlet.context-path": context.application.path,
            "spring.datasource.driver-class-name": self.driver.driver,
            "spring.datasource.url": self.pool_url(context),
            "spring.datasource.username": context.database.user,
            "spring.datasource.password": context.database.password,
        }

    def check(self, settings: Settings) -> None:
        knobs.check_bounds(settings, knobs.MIN_CONNECTIONS, knobs.MAX_CONNECTIONS, _CONNECTIONS)
        knobs.check_bounds(settings, knobs.MIN_THREADS, knobs.THREADS, _THREADS)

    def written(self, knob: Knob, level: Level) -> str:
        return str(round(float(level) * 1000)) if knob.kind is Kind.DURATION else str(level)

    def told(self, knob: Knob, value: object) -> Level:
        number = int(str(value))
        return number / 1000 if knob.kind is Kind.DURATION else number
