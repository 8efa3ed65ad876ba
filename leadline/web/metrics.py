"""What is measured live, as Prometheus reads it (and an OpenTelemetry collector, by its receiver for Prometheus)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from leadline.web.watch import Running, newest

_STALE = 10.0  # seconds after which a second of a load is no figure of now


@dataclass(frozen=True)
class Gauge:
    """One figure of a running study now. ``labels``: in their order."""

    name: str
    help: str
    value: float
    labels: tuple[tuple[str, str], ...]


def gauges(running: Iterable[Running]) -> Iterator[Gauge]:
    """Figures of every running study; those of the load as long as it lasts."""
    for study, second in newest(running):
        labels = (("study", study.result.run), ("lab", study.lab))
        live = study.live
        yield Gauge("leadline_trials", "Planned trials.", live.trials, labels)
        yield Gauge("leadline_trials_ended", "Trials that have ended.", live.done, labels)
        yield Gauge("leadline_seconds_left", "Forecast of the time left.", study.seconds_left, labels)
        if second is None or time.time() - live.load_at > _STALE:
            continue
        of_load = (*labels, ("treatment", live.label), ("phase", second.phase))
        rate = "Transactions a second in the last second."
        yield Gauge("leadline_throughput", rate, second.throughput, of_load)
        for quantile, value in (("0.5", second.p50_ms), ("0.99", second.p99_ms)):
            help_text = "Response time in the last second."
            yield Gauge("leadline_response_seconds", help_text, value / 1000, (*of_load, ("quantile", quantile)))
        yield Gauge("leadline_errors", "Failed ones in the last second.", second.errors, of_load)
        yield Gauge("leadline_in_flight", "Transactions under way.", second.in_flight, of_load)


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
