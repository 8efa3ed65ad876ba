"""A first study file from a few words: what runs, what is asked of it, how long it may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leadline.checks.files.study import parse_study
from leadline.model.errors import UsageError, did_you_mean
from leadline.places.knobs import knobs_of
from leadline.stack.registry import DATABASES, SERVERS, applications_on

FIRST_SERVERS = tuple(name for name in SERVERS if "brokerage" in applications_on(name))  # a first study's application


@dataclass(frozen=True)
class FirstQuestion:
    """``factors``: lines of a study file; the first level of each is the baseline."""

    asks: str
    factors: Mapping[str, str]
    responses: str


QUESTIONS: Mapping[str, FirstQuestion] = {
    "pool": FirstQuestion(
        "How many pooled connections to the database does this load need?",
        {"server.datasource.max_connections": "[10, 5, 20, 40]"},
        "[throughput, p50, p99, cpu_per_transaction]",
    ),
    "heap": FirstQuestion(
        "How large a heap pays?",
        {"jvm.heap": "[512m, 256m, 1g]"},
        "[throughput, p99, gc_share, cpu_per_transaction]",
    ),
    "collector": FirstQuestion(
        "Which garbage collector suits this load?",
        {"jvm.collector": "[g1, parallel, serial]"},
        "[throughput, p50, p99, gc_share, cpu_per_transaction]",
    ),
    "cache": FirstQuestion(
        "Does a cache of prepared statements pay?",
        {"server.datasource.statement_cache": "[0, 60]"},
        "[throughput, p50, p99, cpu_per_transaction, database_cpu_per_transaction]",
    ),
}


def first_study(name: str, question: str, server: str, database: str, users: int) -> str:
    """The text of a study file, checked as ``leadline run`` checks it. Raises UsageError."""
    for option, value, choices in (
        ("question", question, QUESTIONS),
        ("server", server, FIRST_SERVERS),
        ("database", database, DATABASES),
    ):
        if value not in choices:
            hint = did_you_mean(value, list(choices)) or f"one of {', '.join(choices)}"
            raise UsageError(f"--{option} {value!r} is not known; {hint}")
    wording = QUESTIONS[question]
    _, lacking = knobs_of(server, "")
    if absent := [knob for knob in wording.factors if knob in lacking]:
        owners = ", ".join(lacking[absent[0]])
        raise UsageError(f"--question {question}: {server} has no {absent[0]}; it is a knob of {owners}")
    lines = [f"  {knob}: {levels}  # the first level is the baseline" for knob, levels in wording.factors.items()]
    text = "\n".join(
        (
            f"# leadline run {name}.yaml --dry-run tells what it takes and finds; all keys: leadline studies --schema",
            f"study: {name}",
            f"question: {wording.asks}",
            f"stack: {{ server: {server}, database: {database} }}",
            f"workload: {{ users: {users}, ramp_up: 20s, steady: 30s, ramp_down: 2s }}",
            "factors:",
            *lines,
            "design: { replicates: 5 }  # leadline power tells how many an effect needs",
            f"responses: {wording.responses}",
            "",
        )
    )
    parse_study(text, f"{name}.yaml")
    return text
