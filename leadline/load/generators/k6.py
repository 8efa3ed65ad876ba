"""k6: a row for every request, by its CSV output; whether it was open, by the executors of its script."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from leadline.host import here
from leadline.host.received import table_file
from leadline.load.driver import scenario_reads
from leadline.load.generators import base
from leadline.model.errors import UsageError
from leadline.model.received import from_json, number, whole

_OPEN_EXECUTORS = ("constant-arrival-rate", "ramping-arrival-rate")
_OF_REQUESTS = ("name", "status", "error_code", "expected_response")
_MOST_DROPPED = 1e12
_INSPECT = 60.0  # seconds
_OF_THE_SCRIPT = ("-e", "--env", "-c", "--config", "--compatibility-mode")  # options that its scenarios may depend on


class K6:
    """`k6 run`; the script finds the URL in ``__ENV.LEADLINE_URL``. A transaction is a request's ``name``."""

    name = "k6"
    per_second = True

    def check(self, job: base.Job) -> str:
        if job.has("--out", "-o"):
            raise UsageError("k6: --out is taken: leadline reads its CSV output")
        job.script_file("k6")
        return job.find("k6", "go install go.k6.io/k6@latest")

    def command(self, job: base.Job) -> base.Command:
        program, script = self.check(job), job.script_file("k6")
        out = ["--quiet", "--no-usage-report", "--out", f"csv={job.raw / 'k6.csv'}"]
        return base.Command([program, "run", *out, *job.words, str(script)], {"K6_CSV_TIME_FORMAT": "unix_nano"})

    def read(self, job: base.Job) -> base.Findings:
        samples, dropped = read_csv(job.raw / "k6.csv")
        model = _model(job)
        if model == "open":
            words = "k6 started iterations at its rate (one without a free user is dropped and counted); " + base.SENT
            meaning = base.Meaning("send", "open", words.format(name="k6"))
        else:
            meaning = base.meaning_of("k6", model)
        if model == "closed":  # iterations that a number of them had no time for are no arrivals
            dropped = 0
        return base.Findings("k6", meaning, samples, dropped=dropped)


def read_csv(path: Path) -> tuple[list[base.Sample], int]:
    """Requests and dropped iterations. A request's time is from its first byte sent to the last byte received; time
    before (blocked, connecting, TLS) is not in it, as in k6's own ``http_req_duration``.
    """
    samples: list[base.Sample] = []
    dropped, what = 0, str(path)
    for row in table_file(path, ("metric_name", "metric_value", "timestamp", *_OF_REQUESTS)):
        if row["metric_name"] == "dropped_iterations":
            dropped += round(number(row, "metric_value", what, most=_MOST_DROPPED))
        if row["metric_name"] == "http_req_duration":
            took = number(row, "metric_value", what, most=base.LONGEST_MS)
            end = whole(row, "timestamp", what) / 1e9
            samples.append(base.Sample(row["name"], end, took, took, _error(row, what)))
    return samples, dropped


def _error(row: dict[str, str], what: str) -> str:
    """By k6's own word on what was expected; kinds by its error codes (1xxx: below HTTP)."""
    if row["expected_response"] == "true":
        return ""
    judged = row["expected_response"] == "false"  # empty after setResponseCallback(null)
    status, code = (whole(row, name, what, absent=0) for name in ("status", "error_code"))
    if code == 1050:
        return "timeout"
    if code in (1220, 1221):
        return "reset"
    if 1000 <= code < 1400 and not status:
        return "connect"
    return base.status_kind(status) or ("check" if judged else "")


def _model(job: base.Job) -> base.Model:
    """Open if every scenario has an executor of arrivals; closed if none has."""
    if job.has("--iterations", "-i", "--duration", "-d", "--stage", "-s"):
        return "closed"
    argv = [job.find("k6", ""), "inspect", "--execution-requirements", "--include-system-env-vars"]
    argv += [*_of_the_script(job.words), str(job.script_file("k6"))]
    env = {**os.environ, **job.environment}
    try:
        reads = scenario_reads(job.script_file("k6"))
        done = here.alone(argv, reads, timeout=_INSPECT, env=env)
        scenarios = from_json(done.stdout).get("scenarios") or {}
    except (OSError, ValueError, AttributeError):
        return "unknown"
    kinds = {scenario.get("executor") in _OPEN_EXECUTORS for scenario in scenarios.values()}
    return "unknown" if len(kinds) > 1 else "open" if True in kinds else "closed"


def _of_the_script(words: Sequence[str]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word in _OF_THE_SCRIPT:
            yield from (word, next(rest, ""))
        elif word.partition("=")[0] in _OF_THE_SCRIPT or (word[:2] in ("-e", "-c") and len(word) > 2):
            yield word


GENERATOR: base.Generator = K6()
