"""What is measured live, for Prometheus (text) and OpenTelemetry (OTLP/HTTP, JSON)."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

import leadline
from leadline.model.errors import UsageError
from leadline.web.watch import Running, Watch, newest

_EVERY = 5.0  # seconds between two exports
_TIMEOUT = 5.0
_STALE = 10.0  # seconds after which a second of a load is no figure of now
_PATH = "/v1/metrics"


@dataclass(frozen=True)
class Gauge:
    """One figure of a running study now. ``labels``: in their order."""

    name: str
    unit: str  # of OpenTelemetry (UCUM)
    help: str
    value: float
    labels: tuple[tuple[str, str], ...]


def gauges(running: Iterable[Running]) -> Iterator[Gauge]:
    """Figures of every running study; those of the load as long as it lasts."""
    for study, second in newest(running):
        labels = (("study", study.result.run), ("lab", study.lab))
        live = study.live
        yield Gauge("leadline_trials", "{trial}", "Planned trials.", live.trials, labels)
        yield Gauge("leadline_trials_ended", "{trial}", "Trials that have ended.", live.done, labels)
        yield Gauge("leadline_seconds_left", "s", "Forecast of the time left.", study.seconds_left, labels)
        if second is None or time.time() - live.load_at > _STALE:
            continue
        of_load = (*labels, ("treatment", live.label), ("phase", second.phase))
        rate = "Transactions a second in the last second."
        yield Gauge("leadline_throughput", "{transaction}/s", rate, second.throughput, of_load)
        for quantile, value in (("0.5", second.p50_ms), ("0.99", second.p99_ms)):
            help_text = "Response time in the last second."
            yield Gauge("leadline_response_seconds", "s", help_text, value / 1000, (*of_load, ("quantile", quantile)))
        yield Gauge("leadline_errors", "{transaction}", "Failed ones in the last second.", second.errors, of_load)
        yield Gauge("leadline_in_flight", "{transaction}", "Transactions under way.", second.in_flight, of_load)


def prometheus(found: Iterable[Gauge]) -> str:
    """The text exposition format, version 0.0.4."""
    lines: list[str] = []
    named: dict[str, list[Gauge]] = {}
    for gauge in found:
        named.setdefault(gauge.name, []).append(gauge)
    for name, values in named.items():
        lines += [f"# HELP {name} {values[0].help}", f"# TYPE {name} gauge"]
        for one in values:
            labels = ",".join(f'{key}="{_escaped(value)}"' for key, value in one.labels)
            lines.append(f"{name}{{{labels}}} {one.value:.10g}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def otlp(found: Iterable[Gauge], at_ns: int) -> dict[str, Any]:
    """An ExportMetricsServiceRequest as OTLP's JSON has it."""
    named: dict[str, list[Gauge]] = {}
    for gauge in found:
        named.setdefault(gauge.name, []).append(gauge)
    metrics = [
        {
            "name": name.replace("_", ".", 1),
            "unit": values[0].unit,
            "description": values[0].help,
            "gauge": {
                "dataPoints": [
                    {"timeUnixNano": str(at_ns), "asDouble": value.value, "attributes": _attributes(value.labels)}
                    for value in values
                ]
            },
        }
        for name, values in named.items()
    ]
    resource = (("service.name", "leadline"), ("service.version", leadline.__version__))
    scope = {"name": "leadline", "version": leadline.__version__}
    scoped = [{"scope": scope, "metrics": metrics}]
    return {"resourceMetrics": [{"resource": {"attributes": _attributes(resource)}, "scopeMetrics": scoped}]}


def _attributes(labels: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in labels]


def read_address(text: str) -> SplitResult:
    """Of a collector, ``http://127.0.0.1:4318``. Raises UsageError."""
    try:
        address = urlsplit(text)
        port = address.port
    except ValueError as error:
        raise UsageError(f"--otlp {text!r}: {error}") from None
    if address.scheme not in ("http", "https") or not address.hostname or port == 0 or address.username:
        raise UsageError(f"--otlp {text!r}: write the address of an OTLP/HTTP receiver, as http://127.0.0.1:4318")
    return address


class Exporter:
    """Sends the figures of running studies to an OTLP/HTTP receiver every few seconds, as long as something runs."""

    def __init__(self, watch: Watch, address: SplitResult, every: float = _EVERY) -> None:
        self._watch, self._address, self._every = watch, address, every
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self.trouble = ""  # of the last export

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(_TIMEOUT)

    def _run(self) -> None:
        while not self._over.wait(self._every):
            gauges_now = list(gauges(self._watch.running()))
            if gauges_now:
                self.send(gauges_now)

    def send(self, found: Iterable[Gauge]) -> None:
        """One export; what goes wrong is kept in ``trouble``."""
        address = self._address
        secure = address.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(address.hostname or "", address.port or (443 if secure else 4318), timeout=_TIMEOUT)
        body = json.dumps(otlp(found, time.time_ns())).encode()
        path = address.path.rstrip("/")
        try:
            connection.request(
                "POST", path if path.endswith(_PATH) else path + _PATH, body, {"Content-Type": "application/json"}
            )
            status = connection.getresponse().status
            self.trouble = "" if status == 200 else f"it answered {status}"
        except (OSError, http.client.HTTPException) as error:
            self.trouble = str(error)
        finally:
            connection.close()
