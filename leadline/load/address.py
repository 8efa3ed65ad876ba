"""URLs of servers under load."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from leadline.model.errors import UsageError


def split_url(url: str) -> SplitResult:
    """Raises UsageError for what is no URL, or has no such port."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"--url {url}: {error}") from None
    return parts
