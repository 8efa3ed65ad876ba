"""httperf: connections at a fixed rate; its report is read as printed."""

from __future__ import annotations

import re

from leadline.host.received import end_of
from leadline.load.generators.base import PRINTED, Command, Findings, Generator, Job, Meaning, Totals, missing
from leadline.load.result import Latency
from leadline.model.errors import UsageError

_OPEN = Meaning(
    "send",
    "open",
    "httperf opened connections at its rate whatever the server did, and counted each reply from the send of its "
    "request: time before the send (a late start, the connection) is not in it, and it reports no percentiles",
)
_CLOSED = Meaning(
    "send",
    "closed",
    "httperf ran without a rate, one connection after the other: it is closed, and latencies are counted from the send",
)
_REASON = "httperf reports the mean reply time only, of all replies, failed ones too, and nothing by second"
_ERRORS = {
    "client-timo": "timeout",
    "socket-timo": "timeout",
    "connrefused": "connect",
    "connreset": "reset",
    "fd-unavail": "connect",
    "addrunavail": "connect",
    "ftab-full": "connect",
    "other": "other",
}


class Httperf:
    """`httperf`; ``--server``, ``--port`` and ``--uri`` come from the URL where they are not given."""

    name = "httperf"
    per_second = False

    def check(self, job: Job) -> str:
        if job.script is not None:
            raise UsageError("httperf has no script: give it its options (--wsess, --wlog, --rate ...)")
        return job.find("httperf", "install your system's package httperf")

    def command(self, job: Job) -> Command:
        words = [self.check(job), *job.words]
        address = job.address
        if not job.has("--server"):
            words += ["--server", address.hostname or "", "--port", str(job.port)]
        if not job.has("--uri", "--wlog", "--wsesslog"):
            words += ["--uri", address.path or "/"]
        if address.scheme == "https" and not job.has("--ssl"):
            words.append("--ssl")
        return Command(words)

    def read(self, job: Job) -> Findings:
        output = end_of(job.raw / PRINTED)

        def number(pattern: str) -> float:
            match = re.search(pattern, output)
            if not match:
                raise missing("httperf", f"no line like {pattern!r} in what it printed")
            return float(match[1])

        seconds = number(r"test-duration ([\d.]+) s")
        replies = number(r"Reply time \[ms\]: response ([\d.]+)")
        replies += number(r"Reply time \[ms\]: response [\d.]+ transfer ([\d.]+)")
        status = {group: int(number(rf"Reply status:.*{group}xx=(\d+)")) for group in "12345"}
        errors = {f"status_{group}xx": status[group] for group in "145" if status[group]}
        for word, kind in _ERRORS.items():
            count = int(number(rf"Errors:.*{word} (\d+)"))
            if count:
                errors[kind] = errors.get(kind, 0) + count
        ok = status["2"] + status["3"]
        mean = replies if ok else None
        latency = Latency(mean, None, None, None, None, None, None)
        meaning = _OPEN if job.has("--rate", "--period") else _CLOSED
        return Findings("httperf", meaning, totals=Totals("request", seconds, ok, errors, latency, _REASON))


GENERATOR: Generator = Httperf()
