"""A scenario as a Hyperfoil benchmark (0.25 and newer): the course of its sessions as sequences."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML

from leadline.load.export.hyperfoil_steps import Steps, leave
from leadline.load.export.hyperfoil_values import INNER, Step, parameter
from leadline.load.export.source import Source, said, session_length, walk_rows

_START, _END = "start", "end"
_LEFT, _NEXT = f"{INNER}left", f"{INNER}next"


def to_hyperfoil(source: Source) -> str:
    """The benchmark as YAML, with parameters URL, BASE (the application's path), RATE, DURATION, MAX_SESSIONS,
    CONNECTIONS and, where it is used, SEED. Comments on top say what is left out of the checks and what differs.
    Raises UsageError naming a construct that has no form, and its line.
    """
    tree = source.tree
    walks = (tree.get("arrivals") or {}).get("unit") != "transaction"
    steps = Steps(source, walks)
    if tree.get("feeds"):
        raise steps.values.refuse(("feeds",), "`feeds`", "its sessions share no position in a list")
    phase: dict[str, Any] = {
        "usersPerSec": parameter("RATE 10"),
        "variance": False,
        "duration": parameter("DURATION 10s"),
        "maxSessions": parameter("MAX_SESSIONS 1000"),
        **({"scenario": _sessions(source, steps)} if walks else _transactions(source, steps)),
    }
    document = {
        "name": str(tree["scenario"]),
        "http": {
            "host": parameter("URL http://127.0.0.1:8080"),
            "sharedConnections": parameter("CONNECTIONS 100"),
        },
        "ergonomics": {"autoRangeCheck": False, "stopOnInvalid": True},
        "phases": [{"main": {"constantRate": phase}}],
    }
    yaml = YAML()
    yaml.width = 10_000
    yaml.representer.ignore_aliases = lambda _: True
    stream = io.StringIO()
    yaml.dump(document, stream)
    return "".join(f"# {note}\n" for note in dict.fromkeys(steps.values.notes)) + stream.getvalue()


def _transactions(source: Source, steps: Steps) -> dict[str, Any]:
    """A fork for each transaction of the mix, by weight."""
    for key in ("login", "logout", "identities"):
        if source.tree.get(key):
            why = "its sessions are not kept"
            raise steps.values.refuse((key,), f"`{key}` with arrivals of single transactions", why)
    forks = []
    for name, weight in walk_rows(source)[_START].items():
        course = [*steps.assign(), *steps.transaction(name, [])]
        scenario = {"initialSequences": [{name: [*_numbers(source, steps), *course]}]}
        forks.append({name: {"weight": weight, "scenario": scenario}})
    return {"forks": forks} if len(forks) > 1 else {"scenario": next(iter(forks[0].values()))["scenario"]}


def _sessions(source: Source, steps: Steps) -> dict[str, Any]:
    """Logs in, then draws a transaction, does it, and draws the next from its row (of a mix: the mix), until the row
    says so or the session is long enough, and logs out. Who has left logs in again and starts over.
    """
    tree, rows, length = source.tree, walk_rows(source), session_length(source)
    login, logout = (str(tree[key]) if tree.get(key) else None for key in ("login", "logout"))
    leaving = {
        str(n)
        for n, name in tree["transactions"].items()
        if isinstance(name, Mapping) and said(name.get("ends_session"))
    }
    leaving |= {logout} if logout else set()
    places = [name for name in dict.fromkeys(name for row in rows.values() for name in row) if name != _END]
    after: dict[str, list[Step]] = {}
    course: dict[str, list[Step]] = {
        "log-in": [*steps.assign(), *(_login(steps, login) if login else []), _go("onward")],
        "onward": [_when(name, f"do-{name}") for name in places],
    }
    for place in places:
        kind = "login" if place == login else "leaving" if place in leaving else ""
        following = f"after-{place}" if "graph" in tree else "-".join(["after", kind]).rstrip("-")
        # a login that is skipped ends its session
        course[f"do-{place}"] = [*steps.transaction(place, [] if kind == "login" else [_go(following)]), _go(following)]
        end = [_go("log-out")] if logout and kind != "leaving" else []
        steps_: list[Step] = []
        if length is not None and kind != "login":
            is_last = {"intCondition": {"fromVar": _LEFT, "equalTo": 0}}
            steps_ += [{"addToInt": f"{_LEFT}--"}, leave(is_last, end)]
        steps_.append(_draw(rows[place]))
        if _END in rows[place]:
            steps_.append(leave({"stringCondition": {"fromVar": _NEXT, "equalTo": _END}}, end))
        if "graph" in tree and kind == "leaving":
            steps_.append(_draw(rows[_START]))
        after[following] = [*steps_, *steps.pause(), _go("log-in" if kind == "leaving" else "onward")]
    if logout:
        after["log-out"] = [*steps.pause(), *steps.transaction(logout, [])]
    if login and leaving & set(places):
        steps.values.notes.append("differs: a session that logs in again sends the cookies it has")
    begin: list[Step] = [{"setInt": f"{_LEFT} <- {length}"}] if length is not None else []
    begin += [*_numbers(source, steps), _draw(rows[_START]), _go("log-in")]
    return {
        "initialSequences": [{"begin": begin}],
        "sequences": [{name: steps} for name, steps in {**course, **after}.items()],
    }


def _login(steps: Steps, login: str) -> list[Step]:
    return [*steps.transaction(login, []), *steps.pause()]


def _numbers(source: Source, steps: Steps) -> list[Step]:
    """Sets what is used of ``user`` and ``session``, which count on from session to session, and ``seed``.

    Threads of Hyperfoil have counters of their own: each counts in steps of the number of threads from its own number
    on, and round in its own identities. With fewer identities than threads the others take the first one.
    """
    most = source.tree.get("identities")
    limits = {"user": None if most is None else int(source.number(most, ("identities",))), "session": None}
    numbers: list[Step] = []
    for name, limit in limits.items():
        if name not in steps.values.used:
            continue
        key, before = INNER + name, f"{INNER}{name}-before"
        again: list[Step] = [
            {"setSharedCounter": {"key": key, "fromVar": "hyperfoil.global.thread.id"}},
            {"addToSharedCounter": f"{key}++"},
            {"getSharedCounter": key},
        ]
        numbers += [
            {"getSharedCounter": {"key": key, "toVar": before}},
            {"addToSharedCounter": {"key": key, "fromVar": "hyperfoil.global.threads"}},
            {"getSharedCounter": key},
            _if({"intCondition": {"fromVar": before, "equalTo": 0}}, again),
        ]
        if limit is not None:
            beyond = {"intCondition": {"fromVar": key, "greaterThan": max(1, limit)}}
            numbers += [_if(beyond, again), _if(beyond, [{"setInt": f"{key} <- 1"}])]
    if "seed" in steps.values.used:
        numbers.append({"setInt": {"var": f"{INNER}seed", "value": parameter("SEED 1")}})
    return numbers


def _draw(row: Mapping[str, float]) -> Step:
    return {"randomItem": {"list": dict(row), "toVar": _NEXT}}


def _go(sequence: str) -> Step:
    return {"newSequence": sequence}


def _when(item: str, sequence: str) -> Step:
    return _if({"stringCondition": {"fromVar": _NEXT, "equalTo": item}}, [_go(sequence)])


def _if(condition: Mapping[str, Any], actions: Sequence[Step]) -> Step:
    return {"conditional": {**condition, "actions": list(actions)}}
