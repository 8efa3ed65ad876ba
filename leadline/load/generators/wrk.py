"""wrk: closed, one thread of requests a connection; its summary is taken over by a Lua function of our own."""

from __future__ import annotations

from importlib import resources

from leadline.host.received import json_object_file
from leadline.load.generators.base import Command, Findings, Generator, Job, Meaning, Totals
from leadline.load.result import MOST, Latency
from leadline.model.errors import UsageError
from leadline.model.received import number, whole

_MEANING = Meaning(
    "send",
    "closed",
    "wrk was closed: a connection asks again only after its response; latencies are counted from "
    "the send, and wrk then "
    "adds values for requests it supposes a stall kept back, so the high percentiles are an estimate of the wait",
)
_REASON = (
    "wrk keeps no time of single requests: there are no seconds, so no warm-up is judged; its latencies are of all "
    "responses that came within its --timeout, failed ones too"
)


class Wrk:
    """`wrk`; a script with functions ``request``, ``response``, ``done`` and so on is run unchanged."""

    name = "wrk"
    per_second = False

    def check(self, job: Job) -> str:
        if job.has("-s", "--script"):
            raise UsageError("wrk: name the Lua script as the script, not among the options")
        if job.script is not None:
            job.script_file("wrk")
        return job.find("wrk", "install your system's package wrk")

    def command(self, job: Job) -> Command:
        program = self.check(job)
        words = job.words
        if not job.has("-d", "--duration"):
            words = ["-d", f"{job.whole_seconds}s", *words]
        before, after = words, []
        if "--" in words:  # arguments of the script's init
            at = words.index("--")
            before, after = words[:at], words[at:]
        target = [] if job.names_server else [job.url]
        hook = job.raw / "hook.lua"
        hook.write_text((resources.files(__package__) / "wrk_hook.lua").read_text(encoding="utf-8"), encoding="utf-8")
        env = {"LEADLINE_WRK_RESULT": str(job.raw / "wrk.json")}
        if job.script is not None:
            env["LEADLINE_WRK_SCRIPT"] = str(job.script_file("wrk"))
        return Command([program, *before, "-s", str(hook), *target, *after], env)

    def read(self, job: Job) -> Findings:
        file = job.raw / "wrk.json"
        document = json_object_file(file)
        requests, status, timeout, connect, read, write = (whole(document, name, str(file), MOST) for name in _COUNTS)
        # An answer that came after --timeout is in ``requests``, in ``timeout`` and, a bad one, in ``status`` too.
        late = min(timeout, requests - status)
        errors = {"connect": connect, "timeout": late, "closed": read + write, "status_bad": status}
        ok = requests - status - late
        seconds = number(document, "duration_us", str(file)) / 1e6
        values = {name: number(document, name, str(file)) / 1000 if ok else None for name in _FIGURES}
        totals = Totals("request", seconds, ok, _some(errors), Latency(**values), _REASON)
        return Findings("wrk", _MEANING, totals=totals)


_COUNTS = ("requests", "status", "timeout", "connect", "read", "write")
_FIGURES = ("mean", "p50", "p90", "p95", "p99", "p999", "max")


def _some(errors: dict[str, int]) -> dict[str, int]:
    return {kind: count for kind, count in errors.items() if count}


GENERATOR: Generator = Wrk()
