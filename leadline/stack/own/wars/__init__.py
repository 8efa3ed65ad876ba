"""A WAR or EAR of one's own on each server: over a copy of the user's server configuration, or of the shipped one."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.model.ownstack import OwnFile
from leadline.stack.own.wars.base import WarServer
from leadline.stack.own.wars.glassfish import OwnGlassFish
from leadline.stack.own.wars.liberty import OwnLiberty
from leadline.stack.own.wars.tomcat import OwnTomcat, OwnTomEE
from leadline.stack.own.wars.wildfly import OwnWildFly

WARS: Mapping[str, type[WarServer]] = {
    "glassfish": OwnGlassFish,
    "liberty": OwnLiberty,
    "tomcat": OwnTomcat,
    "tomee": OwnTomEE,
    "wildfly": OwnWildFly,
}


def war_server(own: OwnFile) -> WarServer:
    """A new server for a stack file's archive."""
    return WARS[own.content.server or ""](own)


def configured(own: OwnFile) -> str:
    """The name of the pool in the user's server configuration, empty where there is none or more than one. Raises
    UsageError for a directory that is none of that server's, and for a pool that is not there.
    """
    return war_server(own).pool
