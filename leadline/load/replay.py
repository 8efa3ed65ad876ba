"""A converted scenario tried at once against a server: what its requests send is partly guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from leadline.host import here
from leadline.host.paths import Scratch
from leadline.load.convert.correlate import SECRETS
from leadline.load.convert.write import METHODS, Draft
from leadline.load.driver import as_own_user, find_binary
from leadline.load.result import read_document
from leadline.model.errors import LeadlineError, UsageError, shortened

SESSIONS = 2  # beside each other: what only one user can do at a time fails here
_MOST_FAILURES = 10  # of operations that do not need each other
_LONGEST = 600.0  # seconds of one replay
_CAUSES = {
    "status 401": "the log-in is not among the requests, or a credential stands as recorded",
    "status 403": "a token (CSRF) stands as recorded, or the user may not do this",
    "status 404": "an id in the path stands as recorded, and is not there (any more)",
    "status 409": "what is sent exists already: a name or version stands as recorded",
    "status 4": "a value that is sent stands as recorded, and is not valid (any more)",
    "status 5": "the server failed: its log tells",
    "no JSON value": "an earlier failure, or the response is not as recorded",
    "no element": "an earlier failure, or the page is not as recorded",
    "nothing matches": "an earlier failure, or the page is not as recorded",
    "no header": "an earlier failure, or the response is not as recorded",
}


@dataclass(frozen=True)
class Replayed:
    """Requests of the scenario, and a line for each that failed in one of ``SESSIONS`` sessions."""

    requests: int
    failures: Sequence[str]

    def noted(self, draft: Draft) -> Draft:
        """The draft with what failed in its comment."""
        return replace(draft, notes=[*draft.notes, *(f"Failed when replayed: {line}." for line in self.failures)])


def replay(draft: Draft, url: str, sessions: int = SESSIONS) -> Replayed:
    """Every request once in each session, without pauses. A walk ends at its first failure, since later requests need
    earlier ones. Raises UsageError for a scenario or URL that the driver does not take, LeadlineError without results.
    """
    scenario = draft.scenario
    requests = list(chain.from_iterable(scenario["transactions"].values()))
    rest, failures = list(requests), []
    while rest:
        problem = _run({**scenario, "transactions": {"replay": rest}}, url, sessions)
        if not problem:
            break
        place = next((at for at, request in enumerate(rest) if _is_of(request, problem)), None)
        failures.append(_explained(problem, None if place is None else rest[place]))
        if "mix" not in scenario or place is None or len(failures) == _MOST_FAILURES:
            break
        del rest[place]
    return Replayed(len(requests), failures)


def _run(scenario: Mapping[str, Any], url: str, sessions: int) -> str:
    """What failed first, as the driver says it; empty where nothing did."""
    tree = {key: value for key, value in scenario.items() if key in ("scenario", "parameters", "headers")}
    tree |= {"mix": {"replay": 1}, "transactions": scenario["transactions"], "arrivals": {"unit": "transaction"}}
    with Scratch(shared=True) as scratch:
        path, times, out = scratch / "replay.yaml", scratch / "times", scratch / "out"
        path.write_text(Draft(tree, ()).text(), encoding="utf-8")
        times.write_text("0\n" * sessions)
        words = [str(find_binary()), "run", str(path), "--url", url, "--out", str(out), "--steady", "50ms"]
        argv = [*words, "--arrivals", "replay", "--replay", str(times), "--progress", "none"]
        argv += ["--insecure"] if url.startswith("https:") else []
        for file in (path, times):
            file.chmod(0o644)
        with as_own_user(argv, out, path) as command:
            done = here.run(command, timeout=_LONGEST)
        if done.returncode == 2:
            raise UsageError(shortened(done.stderr.strip().removeprefix("leadline-load: "), 500))
        try:
            samples = read_document(out)["error_samples"]
        except (OSError, KeyError):
            raise LeadlineError(f"the replay has no results: {shortened(done.stderr.strip(), 300)}") from None
    first = next((texts[0] for texts in samples.values() if texts), "")
    return str(first).removeprefix("replay: ")


def _is_of(request: Mapping[str, Any], problem: str) -> bool:
    """Whether the driver's words are of this request: ``GET /a/7: status 404``."""
    method = next(method for method in METHODS if method in request)
    pieces = re.split(r"\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", str(request[method]))
    pattern = ".*".join(re.escape(piece.replace("$$", "$")) for piece in pieces)
    return re.match(f"{method.upper()} {pattern}: ", problem) is not None


def _explained(problem: str, request: Mapping[str, Any] | None) -> str:
    cause = next((text for words, text in _CAUSES.items() if f": {words}" in problem), "")
    fields = {**(request or {}).get("headers", {}), **(request or {}).get("form", {})}
    recorded = [n for n, v in fields.items() if "${" not in str(v) and (SECRETS.search(n) or n == "Authorization")]
    if recorded and re.search(r": status 40[0-3]", problem):
        cause = f"{', '.join(recorded)} stands as recorded, and was not found in an earlier response"
    return f"{shortened(problem, 300)}{f' (likely: {cause})' if cause else ''}"
