"""TomEE's knobs: Tomcat's for HTTP; its own for the pool, which is Tomcat JDBC here, and for session beans."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from leadline.model.knob import Level
from leadline.stack.base import Settings
from leadline.stack.deployment import Deployment
from leadline.stack.servers import knobs, tomcat_levels
from leadline.stack.servers.agent import beans

_CONNECTIONS = 100  # the pool's default maximum
_IDLE = 10  # the pool's default minimum; it opens as many at once, and fails if it may hold fewer
_OF_TOMCAT = ("server.threads.", "server.http.", knobs.TLS.name, knobs.ACCESS_LOG.name)

_WAYS = knobs.ways_of("tomee")  # lines of the data source; ${} are the properties that Tomcat's part writes
_BEANS = "leadline.beans.max"
_STATEMENTS = "StatementCache(prepared=true,callable=false,max=${leadline.statements.max})"
_CONTAINER = """\
  <Container id="Default Stateless Container" type="STATELESS">
    MaxSize = ${leadline.beans.max}
  </Container>
"""
_MARK = "    <!-- levels -->\n"


def properties(settings: Settings) -> dict[str, str]:
    """Properties that the templates read, for the levels that are set. Raises UsageError for contradictions."""
    values = tomcat_levels.properties(settings)
    if statements := int(settings.get(knobs.STATEMENT_CACHE.name, 0)):
        values["leadline.statements.max"] = str(statements * _most(settings))
    if knobs.BEAN_INSTANCES.name in settings:
        values[_BEANS] = str(settings[knobs.BEAN_INSTANCES.name])
    return values


def _most(settings: Settings) -> int:
    return int(settings.get(knobs.MAX_CONNECTIONS.name, _CONNECTIONS))


def lines(settings: Settings) -> list[str]:
    """Lines of the data source that the levels need."""
    lines_ = [line for name, way in _WAYS.items() if name in settings for line in way.lines]
    if knobs.MIN_CONNECTIONS.name not in settings and _most(settings) < _IDLE:
        lines_ += ["MinIdle = ${leadline.pool.max}", "InitialSize = ${leadline.pool.max}"]
    if settings.get(knobs.STATEMENT_CACHE.name):
        lines_.append(f"JdbcInterceptors = {_STATEMENTS}")
    return lines_


def resources(text: str, settings: Settings) -> str:
    """The template of tomee.xml with the lines that the levels need."""
    assert _MARK in text
    written = text.replace(_MARK, "".join(f"    {line}\n" for line in lines(settings)))
    container = _CONTAINER if knobs.BEAN_INSTANCES.name in settings else ""
    return written.replace("</tomee>", f"{container}</tomee>")


_POOLS = "ObjectType=datasources"


def question(application: Deployment) -> dict[str, str]:
    """What the agent is asked: of the pools only the one that all work goes through."""
    source = application.data_source.jndi.replace("/", "_")
    attributes = ",".join([*(way.attribute for way in _WAYS.values()), "JdbcInterceptors"])
    return {
        **tomcat_levels.QUESTION,
        "bean.pool": f"openejb.management:DataSource={source},{_POOLS}|{attributes}",
        "bean.stateless": "openejb.management:j2eeType=Pool,*|MaxSize",
    }


def level(name: str, answer: Mapping[str, Any]) -> Level:
    """A knob's level from the agent's answer. Raises LookupError, KeyError."""
    if name.startswith(_OF_TOMCAT):
        return tomcat_levels.level(name, answer)
    if name == knobs.BEAN_INSTANCES.name:
        return int(beans(answer, "j2eeType=Pool")[0]["MaxSize"])
    pool = beans(answer, _POOLS)[0]
    if name == knobs.STATEMENT_CACHE.name:
        match = re.search(r"StatementCache\(.*\bmax=(\d+)", pool["JdbcInterceptors"] or "")
        return int(match[1]) // int(pool["MaxActive"]) if match else 0
    if name not in _WAYS:
        raise LookupError(f"TomEE does not tell the level of {name}")
    value = pool[_WAYS[name].attribute]
    return _WAYS[name].level(name, None if name == knobs.MAX_AGE.name and not value else value, "TomEE")
