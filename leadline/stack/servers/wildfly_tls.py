"""TLS at WildFly: its listener for HTTP becomes one for HTTPS, of the same name, port and levels."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from leadline.stack.base import ServiceContext, Settings
from leadline.stack.servers import knobs

_SERVER = "/subsystem=undertow/server=default-server"
PLAIN, SECURE = f"{_SERVER}/http-listener=default", f"{_SERVER}/https-listener=default"
_ELYTRON = "/subsystem=elytron"
# What follows a colon only serves the embedded server that writes the configuration.
_PASSWORD = 'credential-reference={clear-text="${leadline.tls.password:none}"}'
# Remoting and messaging refer to the listener by its name, so it keeps it. Attributes as the template's.
_OPERATIONS = (
    f"{PLAIN}:remove",
    f'{_ELYTRON}/key-store=leadline:add(type=PKCS12,path="${{leadline.tls.store:none}}",{_PASSWORD})',
    f"{_ELYTRON}/key-manager=leadline:add(key-store=leadline,{_PASSWORD})",
    f"{_ELYTRON}/server-ssl-context=leadline:add(key-manager=leadline)",
    f"{SECURE}:add(socket-binding=http,ssl-context=leadline,"
    'tcp-backlog="${leadline.http.queue:10000}",no-request-timeout="${leadline.http.keepalive.timeout:60000}",'
    'enable-http2="${leadline.http.http2:true}")',
)


def operations(settings: Settings, others: Sequence[str]) -> list[str]:
    """``others`` for the listener that there is, after the operations that make it the one for HTTPS."""
    if not settings.get(knobs.TLS.name):
        return list(others)
    return [*_OPERATIONS, *(line.replace(PLAIN, SECURE) for line in others)]


def properties(context: ServiceContext, settings: Settings) -> dict[str, str]:
    """Properties that name the key store, which is written; none without TLS."""
    if not settings.get(knobs.TLS.name) or context.certificate is None:
        return {}
    path, password = context.directory / "tls.p12", secrets.token_urlsafe(18)
    context.certificate.write_keystore(path, password)
    return {"leadline.tls.store": str(path), "leadline.tls.password": password}
