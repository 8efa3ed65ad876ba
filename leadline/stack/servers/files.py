"""Texts of configuration files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from leadline.stack.deployment import Deployment

_TEMPLATES = Path(__file__).parent / "templates"


def template(name: str, deployment: Deployment | None = None) -> str:
    """A configuration file shipped with leadline, with the names of the application for ``@name@``, ``@jndi@`` (of its
    data source) and ``@pool@`` (the last part of that).
    """
    text = (_TEMPLATES / name).read_text()
    if deployment is not None:
        source = deployment.data_source
        for mark, text_ in (("@name@", deployment.name), ("@jndi@", source.jndi), ("@pool@", source.name)):
            text = text.replace(mark, text_)
    return text


def properties_text(values: Mapping[str, str]) -> str:
    """A Java properties file in ASCII, which readers of UTF-8 and of ISO 8859-1 take alike (java.util.Properties)."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in values.items())


def _escaped(value: str) -> str:
    plain = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    if plain.startswith((" ", "\t", "\f")):
        plain = f"\\{plain}"
    units = plain.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)
