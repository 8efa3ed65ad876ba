"""summary.json of several drivers as one: counts added, latencies from the added histograms, any limit is a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leadline.load.cluster.histograms import Counts, empty, latency, total
from leadline.model.errors import LeadlineError

Document = dict[str, Any]
_SCHEDULING = ("normal", "raised", "realtime")  # the least of all counts
_SAMPLES = 3
_AT_LEAST = "response_at_least"


def merged_summary(names: Sequence[str], documents: Sequence[Document], steady: Mapping[str, Counts]) -> Document:
    """``steady``: the added histograms of the steady phase by tag (``response/NAME``, ``service/NAME``, ``blocked``,
    ``lag``). Raises LeadlineError when the drivers did not run the same version and scenario.
    """
    first = documents[0]
    for name, document in zip(names, documents, strict=True):
        for what in ("version", "scenario", "arrivals", "seed"):
            if _comparable(document[what]) != _comparable(first[what]):
                raise LeadlineError(f"driver {name} had another {what} than driver {names[0]}")
    found: Document = {key: value for key, value in first.items() if all(d.get(key) == value for d in documents)}
    found.pop("share", None)
    found.pop("verdict", None)  # of a part: the whole is judged anew
    timeout_ms = 1000 * first["timeout_s"] if "timeout_s" in first else None
    found |= {
        "completed": all(document["completed"] for document in documents),
        "url": first["url"],
        "arrivals": first["arrivals"],
        "phases": {**first["phases"], "drained": max(document["phases"]["drained"] for document in documents)},
        "steady": _steady([document["steady"] for document in documents], steady, timeout_ms),
        "total": _sums([document["total"] for document in documents]),
        "error_samples": _samples(documents),
        "driver": _driver(names, [document["driver"] for document in documents], steady),
        "littles_law": _littles_law([document["littles_law"] for document in documents]),
    }
    for key in ("requests", "errors", "statuses"):
        if key in first:
            found[key] = _sums([document[key] for document in documents])
    for key in ("arrivals_planned", "arrivals_actual", "dropped"):
        found[key] = sum(document[key] for document in documents)
    found |= _latencies(first, lambda what: _of_all(what, steady))
    if "limits" in first:
        transactions = found["steady"]["transactions"]
        found["limits"] = [_limit(limit, transactions, steady, timeout_ms) for limit in first["limits"]]
    return found


def _comparable(found: Any) -> Any:
    """Without the place of a recording, which is another on every host."""
    return {key: value for key, value in found.items() if key != "replay"} if isinstance(found, dict) else found


def _sums(parts: Sequence[Mapping[str, Any]]) -> Document:
    """Counts added, key by key, at any depth."""
    found: Document = {}
    for key in dict.fromkeys(key for part in parts for key in part):
        values = [part[key] for part in parts if key in part]
        found[key] = _sums(values) if isinstance(values[0], Mapping) else sum(values)
    return found


def _latencies(document: Mapping[str, Any], histogram: Callable[[str], Counts]) -> Document:
    """Every figure of times that ``document`` has, from the histogram of that name; None throughout where the drivers
    wrote none.
    """
    names = [key for key, value in document.items() if key.endswith("_ms") and isinstance(value, Mapping)]
    return {key: latency(histogram(key.removesuffix("_ms"))) for key in names}


def _of_all(what: str, steady: Mapping[str, Counts]) -> Counts:
    """Of all transactions: under a tag of its own, or those of each."""
    if what in steady:
        return steady[what]
    return total(histogram for tag, histogram in steady.items() if tag.startswith(f"{what}/"))


def _steady(parts: Sequence[Document], steady: Mapping[str, Counts], timeout_ms: float | None) -> Document:
    seconds = max(part["duration_s"] for part in parts)

    def transaction(found: Sequence[Document], histogram: Callable[[str], Counts]) -> Document:
        counts = _sums([{key: one[key] for key in one if not key.endswith(("_ms", "_at_least"))} for one in found])
        counts["per_second"] = counts["ok"] / seconds if seconds > 0 else 0.0
        merged = counts | _latencies(found[0], histogram)
        if _AT_LEAST in found[0]:
            figures = merged["response_ms"].items()
            merged[_AT_LEAST] = [name for name, value in figures if _is_at_least(merged, name, value, timeout_ms)]
        return merged

    names = list(parts[0]["transactions"])
    transactions = {
        name: transaction(
            [part["transactions"][name] for part in parts],
            lambda what, name=name: steady.get(f"{what}/{name}", empty()),  # type: ignore[misc]
        )
        for name in names
    }
    whole = transaction([part["all"] for part in parts], lambda what: _of_all(what, steady))
    return {"duration_s": seconds, "transactions": transactions, "all": whole}


def _is_at_least(part: Document, figure: str, value: float | None, timeout_ms: float | None) -> bool:
    """Whether a figure of response times is a lower bound: timeouts are in it (the driver's own rule)."""
    if not part.get("timeouts") or timeout_ms is None or value is None:
        return False
    return figure == "mean" or value >= timeout_ms


def _driver(names: Sequence[str], parts: Sequence[Document], steady: Mapping[str, Counts]) -> Document:
    found: Document = {key: value for key, value in parts[0].items() if all(d.get(key) == value for d in parts)}
    return found | {
        "cpu_user_s": sum(part["cpu_user_s"] for part in parts),
        "cpu_system_s": sum(part["cpu_system_s"] for part in parts),
        "cpu_share": max(part["cpu_share"] for part in parts),
        "scheduling": min((part["scheduling"] for part in parts), key=_SCHEDULING.index),
        **_latencies(parts[0], lambda what: steady.get(what, empty())),
        "limit": any(part["limit"] for part in parts),
        "evidence": [
            f"{name}: {sentence}" for name, part in zip(names, parts, strict=True) for sentence in part["evidence"]
        ],
    }


def _littles_law(parts: Sequence[Document]) -> Document:
    observed = sum(part["concurrency_observed"] or 0.0 for part in parts)
    expected = sum(part["concurrency_expected"] or 0.0 for part in parts)
    error = (expected - observed) / observed if observed > 0 else None
    return {"concurrency_observed": observed, "concurrency_expected": expected, "relative_error": error}


def _samples(documents: Sequence[Document]) -> Document:
    found: dict[str, list[str]] = {}
    for document in documents:
        for kind, texts in document["error_samples"].items():
            found.setdefault(kind, []).extend(texts)
    return {kind: texts[:_SAMPLES] for kind, texts in found.items()}


def _limit(
    limit: Document, transactions: Mapping[str, Document], steady: Mapping[str, Counts], timeout_ms: float | None
) -> Document:
    name, measure = limit["transaction"], limit["measure"]
    if measure == "errors":
        part = transactions[name]
        counted = part["ok"] + part["failed"]
        value = part["failed"] / counted if counted else None
    else:
        value = latency(steady.get(f"response/{name}", empty()))[measure]
    bound = measure != "errors" and _is_at_least(transactions[name], measure, value, timeout_ms)
    own = {key: item for key, item in limit.items() if key != "at_least"} | ({"at_least": True} if bound else {})
    return {**own, "value": value, "kept": None if value is None else value <= limit["bound"] and not bound}
