"""What runs behind brokerage's pages: waiting until the queue of orders is empty, and how long each order took."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from leadline.model.errors import FailureClass, TrialFailure
from leadline.stack.applications.health import ask
from leadline.stack.probe import connection_to

_POLL = 0.2
_STILL = 5.0  # seconds without any settlement after which what is missing does not come any more


def drain(
    url: str,
    timeout: float,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Wait until every accepted order is settled and no message waits; the last figures of the queue.

    Messages that a server has lost are not waited for: nothing waits and nothing has moved for five seconds. Raises
    TrialFailure(workload) when the queue is not empty in time, (infrastructure) when the application does not answer.
    """
    began = moved = now()
    settled = -1
    while True:
        try:
            figures = ask("brokerage", url, "/queue", timeout=30.0)
            done, idle = int(figures["settled"]), not int(figures["waiting"]) and not int(figures["in_work"])
            accepted = int(figures["accepted"])
        except (LookupError, ValueError, TypeError) as error:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"the queue of orders cannot be asked: {error}") from error
        if done != settled:
            settled, moved = done, now()
        if idle and (done >= accepted or now() - moved > _STILL):
            return figures
        if now() - began > timeout:
            raise TrialFailure(
                FailureClass.WORKLOAD,
                f"the queue of orders is not empty {timeout:g} s after the load: {accepted} accepted, {done} settled",
                str(figures),
            )
        sleep(_POLL)


def save_times(url: str, path: Path) -> int:
    """Write when each order was accepted and took effect (microseconds of Unix time) as CSV; how many orders.

    Raises TrialFailure(infrastructure).
    """
    at = urlsplit(url)
    connection = connection_to(url, timeout=60)
    try:
        connection.request("GET", f"{at.path}/queue/times", headers={"Connection": "close"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise OSError(f"HTTP {answer.status}")
    except (OSError, http.client.HTTPException) as error:
        raise TrialFailure(
            FailureClass.INFRASTRUCTURE, f"the times of the queued orders cannot be fetched: {error}"
        ) from error
    finally:
        connection.close()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    return max(0, body.count(b"\n") - 1)
