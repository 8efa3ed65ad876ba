"""What a running application says of itself, as JSON over HTTP."""

from __future__ import annotations

import http.client
from typing import Any
from urllib.parse import urlsplit

from leadline.model.received import from_json
from leadline.stack.probe import connection_to


def ask(name: str, url: str, path: str, timeout: float = 10.0, method: str = "GET") -> dict[str, Any]:
    """The JSON object at ``url`` + ``path`` of the running application ``name``. Raises LookupError."""
    at = urlsplit(url + path)
    connection = connection_to(url, timeout)
    try:
        connection.request(method, f"{at.path}?{at.query}" if at.query else at.path, headers={"Connection": "close"})
        answer = from_json(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise LookupError(f"{name} does not answer at {url}{path}: {error}") from error
    finally:
        connection.close()
    if not isinstance(answer, dict):
        raise LookupError(f"{url}{path} is not an object")
    return answer
