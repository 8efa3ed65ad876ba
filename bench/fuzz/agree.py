"""Studies drawn at random, most of them sensible: what the dry run accepts, the run must be able to do."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

Choices = Mapping[str, Sequence[Any]]

_LEVELS: Choices = {
    "jvm.heap": ("128m", "256m", "512m", "1g", 402653184, "0.75g"),
    "jvm.collector": ("g1", "parallel", "serial"),
    "server.threads.max": (5, 20, 50, "80"),
    "server.datasource.max_connections": (2, 10, 40),
    "vm.swappiness": (0, 10, 60, 100),
    "vm.dirty_ratio": (5, 20, 60),
}
_ARRIVALS: Sequence[Mapping[str, Any]] = (
    *({"users": users} for users in (1, 2, 5, 30, 1000)),
    *({"arrivals": model, "rate": rate} for model in ("open", "constant") for rate in (0.5, 5, 80.5)),
    {"preset": "clients-threads", "clients": 2, "threads": 3},
    {"preset": "fixed-rate", "rate": 10},
    {"preset": "many-users", "users": 20},
    {"users": 5, "connections": "shared", "max_connections": 2},
)
_WORKLOADS: Choices = {
    "ramp_up": ("0s", "1s", "2500ms", 8, 1.5),
    "steady": ("1s", "2s", "5s", "9s", "16s", 7.5),
    "ramp_down": ("0s", "1s", "500ms", 4),
    "load_units": (1, 2, 50),
    "max_sessions": (1, 5, 1000),
    "timeout": ("1ms", "1s", "1h"),
    "scenario": ("brokerage-classic", "brokerage-json"),
    "variables": ({"think": "5ms"}, {"think": "60ms"}, {"think": "4s"}, {"think": "10m"}),
    "http": ("auto", "1.1", "2"),
    "grid": ("1ms", "1us"),
    "requests_per_connection": (1, 100),
    "source_address": ("127.0.0.2", "127.0.0.2-127.0.0.5"),
}
_DESIGNS: Sequence[Mapping[str, Any]] = (
    {"kind": "one-at-a-time"},
    {"kind": "full-factorial"},
    {"kind": "fractional-factorial", "resolution": 3, "foldover": True},
    {"kind": "plackett-burman"},
    {"kind": "definitive-screening"},
    *(
        {"kind": "d-optimal", "runs": runs, "model": model}
        for runs in (4, 6)
        for model in ("main-effects", "interactions")
    ),
    {"kind": "confirmation", "replicates": 4},
    {"kind": "configurations", "configurations": {"one": {"a": "y"}}},
    {"blocks": "incomplete", "block_size": 2},
    *({"blocks": blocks} for blocks in ("latin", "williams", "abba")),
    *({"replicates": 4, "looks": looks} for looks in (2, 3, 4, "watched")),
    *({"replicates": 2, "rotation": {"slot": slot, "instances": count}} for slot in ("2s", "4s") for count in (1, 2)),
    *({"switchback": {"slot": slot}} for slot in ("1s", "2s", "4s")),
    *(
        {"switchback": {"slot": "3s", "wash_out": wash, "order": order}}
        for wash in (0, 1)
        for order in ("williams", "abba")
    ),
)
_STUDIES: Choices = {
    "responses": (["throughput"], ["p99", "throughput"], ["gc_share"], ["errors"], ["startup", "completion_p99"]),
    "budget": ("12s", "1m", "5m", "2h"),
    "equivalence": ("2%", 0.1, "1e-9%"),
    "limits": ({"errors": 0}, {"p90": "1us"}, {"p90": "1s", "p99": "2s"}, {"errors": 1}),
    "settings": ({"jvm.thread_stack": "512k"}, {"vm.page-cluster": 1}),
    "pseudo_factors": ({"a": ["x", "y"]}, {"a": ["x", "y", "z"], "b x c": ["1 x 1", "2"]}),
    "reset": ({"database": "keep"}, {"swap": "off"}, {"page_cache": "drop"}),
    "placement": ({"server_cpus": 0}, {"server_memory": "8g"}, {"driver_cpus": "0"}),
    "dead_man": ("1s", "1h"),
    "ready_timeout": ("1s",),
    "observe": (False,),
    "covariates": (["others_cpu"], ["others_cpu", "steal", "frequency"]),
    "wait": ("quiet", {"quiet": 0.5, "over": "1s", "at_most": "2s"}),
    "repeat": ({}, {"others_cpu": 0.1, "at_most": 2}),
    "stack": tuple({"server": name} for name in ("liberty", "tomcat", "wildfly", "tomee", "glassfish")),
}
_WRONG = (0, -1, "", [], {}, None, True, 1e300, "-1s", "1e9s", "no", [1], {"a": 1}, 2**63, "jvm.heap", "0-99", "0.5")


def _some(rng: random.Random, choices: Choices, likely: float) -> dict[str, Any]:
    return {key: rng.choice(values) for key, values in choices.items() if rng.random() < likely}


def _spoilt(rng: random.Random, tree: dict[str, Any]) -> None:
    """One value somewhere in it replaced."""
    key = rng.choice(list(tree))
    if isinstance(tree[key], dict) and tree[key] and rng.random() < 0.9:
        _spoilt(rng, tree[key])
    else:
        tree[key] = rng.choice(_WRONG)


def drawn_study(rng: random.Random) -> bytes:
    """One study as JSON, which is YAML."""
    names = rng.sample(sorted(_LEVELS), rng.choice((1, 1, 2, 3)))
    pseudo = {"pseudo_factors": {"a": ["x", "y"]}} if rng.random() < 0.3 else {}
    study = {
        "study": "any",
        "question": "q",
        "workload": {
            **{"ramp_up": "0s", "steady": "5s", "ramp_down": "0s"},
            **rng.choice(_ARRIVALS),
            **_some(rng, _WORKLOADS, rng.choice((0, 0.1, 0.3))),
        },
        "factors": {name: rng.sample(_LEVELS[name], rng.choice((2, 2, 3))) for name in names},
        "design": {"replicates": 2, "sentinels": rng.choice((None, None, 1, 2, 6)), **rng.choice(_DESIGNS)},
        "responses": ["throughput"],
        **pseudo,
        **_some(rng, _STUDIES, rng.choice((0, 0.1, 0.2))),
    }
    tree: dict[str, Any] = json.loads(json.dumps(study))
    if rng.random() < 0.3:
        _spoilt(rng, tree)
    return json.dumps(tree).encode()
