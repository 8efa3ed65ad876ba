"""Runs a generator in the foreground and leaves the files of leadline-load."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO, get_args

import numpy as np
from hdrh.histogram import HdrHistogram

from leadline.host import here
from leadline.host.received import end_of
from leadline.host.textfile import expanded, is_file
from leadline.load import result as load_result
from leadline.load.driver import scenario_reads
from leadline.load.generators.base import PRINTED, Findings, Generator, Job, Sample, Totals, results_of
from leadline.load.result import FORMAT, NOTHING, Latency, read_summary, write_document
from leadline.load.series import ALL
from leadline.model.errors import LeadlineError, UsageError, did_you_mean
from leadline.model.received import ReceivedError, from_json
from leadline.model.workload import GeneratorName

GENERATORS: Mapping[str, Generator] = {
    name: import_module(f"leadline.load.generators.{name}").GENERATOR for name in get_args(GeneratorName)
}


def find_generator(name: str) -> Generator:
    """Raises UsageError naming the nearest one."""
    if name in GENERATORS:
        return GENERATORS[name]
    hint = did_you_mean(name, list(GENERATORS)) or f"generators: {', '.join(GENERATORS)}"
    raise UsageError(f"no generator {name!r}; {hint}")


# What a generator found, in the files of leadline-load: everything that reads a run reads these.


_COLUMNS = "time_ns,second,phase,transaction,ok,failed,response_mean_ms,response_p50_ms,response_p99_ms"
_HEADER = f"{_COLUMNS},service_mean_ms,in_flight,skipped,unanswered,unanswered_from_ms,dropped".split(",")
_LOWEST, _HIGHEST = 64, 3_600_000_000_000  # ns, as in leadline-load
_BUSY = 0.9  # share of its CPUs from which a generator counts as the limit
_LONGER = 3600.0  # seconds that requests may be spread over beyond twice the run
_NAMES = 200  # of transactions; a script that puts ids into its URLs makes one name a request
_LOST = 0.02  # share of planned arrivals not made from which it does


@dataclass(frozen=True)
class Ran:
    """The ended process: name, unix seconds, its CPU, the CPUs it could use, and the phases the run was to have."""

    name: str
    began: float
    ended: float
    cpu_user: float
    cpu_system: float
    cpus: int
    ramp_up: float = 0.0
    steady: float | None = None  # None: to the end
    completed: bool = True  # no signal ended it


@dataclass(frozen=True)
class _Phases:
    begin: float
    end: float
    drained: float

    def of(self, second: int) -> str:
        if second + 1 <= self.begin + 1e-6:
            return "ramp_up"
        return "steady" if second + 1 <= self.end + 1e-6 else "ramp_down"


def write_files(out: Path, job: Job, ran: Ran, found: Findings) -> None:
    """``summary.json``, and for single requests ``seconds.csv``, ``response.hlog`` and ``service.hlog``.

    The run starts with the first request. Raises LeadlineError when it ended before its steady phase did.
    """
    if found.totals is not None:
        if ran.steady is not None or ran.ramp_up > 0:
            what = "a ramp-up" if ran.steady is None else "a steady phase"
            raise LeadlineError(f"{found.totals.reason}; {what} cannot be cut out of it")
        summary = _summary(job, ran, found, ran.began, _Phases(0.0, found.totals.seconds, found.totals.seconds))
        steady = _of_totals(found.totals)
        counts = {found.totals.name: _counts(found.totals.ok, sum(found.totals.errors.values()))}
        law = {"concurrency_observed": None, "concurrency_expected": None, "relative_error": None}
        summary |= {"steady": steady, "total": counts, "errors": found.totals.errors, "littles_law": law}
    else:
        samples = sorted(_tagged(found.samples), key=lambda sample: sample.end)
        if not samples:
            raise LeadlineError(f"{ran.name} made no request")
        start = min(sample.due for sample in samples)
        drained = samples[-1].end - start
        if drained > (longest := 2 * abs(ran.ended - ran.began) + _LONGER):
            raise ReceivedError(f"what {ran.name} left", f"its requests are spread over {drained:g} s, not {longest:g}")
        end = drained if ran.steady is None else ran.ramp_up + ran.steady
        if end > drained + 1.0 or ran.ramp_up >= drained:
            raise LeadlineError(
                f"{ran.name} sent requests for {drained:.1f} s, but ramp-up and steady phase last {end:g} s: let its "
                "script or options run longer (${seconds} holds the length of the whole run)"
            )
        phases = _Phases(ran.ramp_up, min(end, drained), drained)
        summary = _summary(job, ran, found, start, phases) | _of_samples(samples, start, phases)
        _write_seconds(out / "seconds.csv", samples, start, phases)
        for log, kind in (("response", "response_ms"), ("service", "service_ms")):
            _write_log(out / f"{log}.hlog", samples, start, kind)
    write_document(out, summary)


def _summary(job: Job, ran: Ran, found: Findings, start: float, phases: _Phases) -> dict[str, Any]:
    totals = found.totals
    count = len(found.samples) if totals is None else totals.ok + sum(totals.errors.values())
    open_ = found.meaning.model == "open"
    elapsed = ran.ended - ran.began
    share = (ran.cpu_user + ran.cpu_system) / (elapsed * ran.cpus) if elapsed > 0 else 0.0
    evidence = []
    if share > _BUSY:
        evidence.append(f"{ran.name} used {share:.0%} of the {ran.cpus} CPUs it could run on")
    if found.dropped > _LOST * (count + found.dropped):
        evidence.append(f"{ran.name} dropped {found.dropped} of {count + found.dropped} planned arrivals")
    return {
        "format": FORMAT,
        "version": found.version,
        "completed": ran.completed,
        "generator": {
            "name": ran.name,
            "version": found.version,
            "measured_from": found.meaning.measured_from,
            "model": found.meaning.model,
            "sentence": found.meaning.sentence,
            "per_second": totals is None,
            "missing": found.missing if totals is None else totals.reason,
        },
        "scenario": {"name": job.script or ran.name, "sha256": ""},
        "variables": {},
        "url": job.url,
        "seed": job.seed,
        "arrivals": {"model": found.meaning.model, "users": None, "rate": None},
        "started_unix_ns": round(start * 1e9),
        "phases": {
            "ramp_up": [0.0, phases.begin],
            "steady": [phases.begin, phases.end],
            "ramp_down": [phases.end, phases.drained],
            "drained": phases.drained,
        },
        "requests": {"count": count, "bytes_in": 0, "bytes_out": 0, "connects": 0, "reconnects": 0},
        "error_samples": {},
        "blocked_ms": asdict(NOTHING),
        "arrivals_planned": count + found.dropped if open_ else 0,
        "arrivals_actual": count if open_ else 0,
        "dropped": found.dropped,
        "driver": {
            "cpu_user_s": ran.cpu_user,
            "cpu_system_s": ran.cpu_system,
            "cpu_share": share,
            "scheduling": "normal",
            "lag_ms": asdict(NOTHING),
            "limit": bool(evidence),
            "evidence": evidence,
        },
    }


def _of_totals(totals: Totals) -> dict[str, Any]:
    rate = totals.ok / totals.seconds if totals.seconds > 0 else 0.0
    part = {
        **_counts(totals.ok, sum(totals.errors.values())),
        "per_second": rate,
        "response_ms": asdict(totals.latency),
        "service_ms": asdict(totals.latency),
    }
    return {"duration_s": totals.seconds, "transactions": {totals.name: part}, "all": part}


def _of_samples(samples: Sequence[Sample], start: float, phases: _Phases) -> dict[str, Any]:
    length = phases.end - phases.begin
    last = math.inf if phases.end >= phases.drained else phases.end
    inside = [sample for sample in samples if phases.begin <= sample.due - start < last]
    all_named = _by_name(samples)
    named = _by_name(inside)
    errors: dict[str, int] = {}
    for sample in samples:
        if sample.error:
            errors[sample.error] = errors.get(sample.error, 0) + 1
    area = sum(
        max(0.0, min(one.end - start, phases.end) - max(one.end - start - one.service_ms / 1000, phases.begin))
        for one in samples
    )
    observed = area / length if length > 0 else 0.0
    ended = [sample for sample in samples if phases.begin <= sample.end - start < last]
    expected = sum(sample.service_ms for sample in ended) / 1000 / length if length > 0 else 0.0
    relative = (expected - observed) / observed if observed > 0 else None
    return {
        "steady": {
            "duration_s": length,
            "transactions": {name: _part(named.get(name, []), length) for name in all_named},
            "all": _part(inside, length),
        },
        "total": {name: _total(samples) for name, samples in all_named.items()},
        "errors": errors,
        "littles_law": {
            "concurrency_observed": observed,
            "concurrency_expected": expected,
            "relative_error": relative,
        },
    }


def _counts(ok: int, failed: int) -> dict[str, int]:
    return {"ok": ok, "failed": failed, "skipped": 0}


def _total(samples: Sequence[Sample]) -> dict[str, int]:
    failed = sum(1 for sample in samples if sample.error)
    return _counts(len(samples) - failed, failed)


def _part(samples: Sequence[Sample], length: float) -> dict[str, Any]:
    timed = [sample for sample in samples if sample.timed]
    response = latency_of([sample.response_ms for sample in timed])
    unanswered = [sample.response_ms for sample in samples if sample.unanswered]
    figures = {name: value for name, value in asdict(response).items() if value is not None} if unanswered else {}
    counts = _total(samples)
    return {
        **counts,
        "per_second": counts["ok"] / length if length > 0 else 0.0,
        "response_ms": asdict(response),
        "unanswered": len(unanswered),
        "response_at_least": [name for name, ms in figures.items() if name == "mean" or ms >= min(unanswered)],
        "service_ms": asdict(latency_of([sample.service_ms for sample in timed])),
    }


def latency_of(values: Sequence[float]) -> Latency:
    """Mean and percentiles by the nearest rank, as HdrHistogram has them."""
    if not values:
        return NOTHING
    ranked = np.sort(np.array(values))
    p = [float(ranked[max(0, math.ceil(q * len(ranked)) - 1)]) for q in (0.5, 0.9, 0.95, 0.99, 0.999)]
    return Latency(float(ranked.mean()), p[0], p[1], p[2], p[3], p[4], float(ranked[-1]))


def _write_seconds(path: Path, samples: Sequence[Sample], start: float, phases: _Phases) -> None:
    begins = np.sort(np.array([sample.end - start - sample.service_ms / 1000 for sample in samples]))
    ends = np.array([sample.end - start for sample in samples])
    with path.open("w", encoding="ascii", newline="", errors="replace") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(_HEADER)
        for second, inside in _by_second(samples, start):
            until = second + 1
            flying = int(np.searchsorted(begins, until, "right") - np.searchsorted(ends, until, "right"))
            row = [round(start * 1e9) + second * 1_000_000_000, second, phases.of(second)]
            for name, group in [*_by_name(inside).items(), (ALL, inside)]:
                part = _part(group, 1.0)
                response, service = part["response_ms"], part["service_ms"]
                waits = [sample.response_ms for sample in group if sample.unanswered]
                figures = [response["mean"], response["p50"], response["p99"], service["mean"]]
                texts = ["" if value is None else f"{value:.6f}" for value in (*figures, min(waits, default=None))]
                counted = [flying, 0, len(waits), texts.pop(), 0]
                writer.writerow([*row, name, part["ok"], part["failed"], *texts, *counted])


def _write_log(path: Path, samples: Sequence[Sample], start: float, kind: str) -> None:
    """HdrHistogram interval log, version 1.3, tag = transaction; of the requests whose times are known."""
    with path.open("w", encoding="ascii", errors="replace") as stream:
        stream.write("#[Histogram log format version 1.3]\n")
        stream.write(f"#[BaseTime: {start:.3f} (seconds since epoch)]\n")
        stream.write('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n')
        for second, inside in _by_second(samples, start):
            groups: dict[str, HdrHistogram] = {}
            for sample in inside:
                if sample.timed:
                    if sample.name not in groups:  # one of its own takes 0.1 ms
                        groups[sample.name] = HdrHistogram(_LOWEST, _HIGHEST, 3)
                    groups[sample.name].record_value(min(max(round(getattr(sample, kind) * 1e6), 1), _HIGHEST))
            _write_intervals(stream, second, groups)


def _write_intervals(stream: TextIO, second: int, groups: Mapping[str, HdrHistogram]) -> None:
    for name, histogram in groups.items():
        most = histogram.get_max_value() / 1e6
        stream.write(f"Tag={name},{second:.3f},1.000,{most:.3f},{histogram.encode().decode('ascii')}\n")


def _tagged(samples: Sequence[Sample]) -> Iterator[Sample]:
    """With names that a tag of the logs can be, ASCII without spaces and commas, so that all files have the same; the
    first ``_NAMES`` of them, all others together.
    """
    tags: dict[str, str] = {}
    for sample in samples:
        if sample.name not in tags and len(tags) < _NAMES:
            tag = re.sub(r"[\s,]", "_", sample.name[:200]).encode("ascii", "backslashreplace").decode("ascii")
            tags[sample.name] = f"{tag}_" if tag == ALL else tag
        tag = tags.get(sample.name, "other")
        yield sample if tag == sample.name else replace(sample, name=tag)


def _by_name(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.name, []).append(sample)
    return groups


def _by_second(samples: Sequence[Sample], start: float) -> list[tuple[int, list[Sample]]]:
    """Every second from 0 to the last, with the requests that were due in it."""
    seconds = [max(0, math.floor(sample.due - start + 1e-9)) for sample in samples]
    groups: list[list[Sample]] = [[] for _ in range(max(max(seconds), math.ceil(samples[-1].end - start) - 1) + 1)]
    for second, sample in zip(seconds, samples, strict=True):
        groups[second].append(sample)
    return list(enumerate(groups))


@dataclass(frozen=True)
class Plan:
    """A run of a generator and where its results go. ``steady`` None: to the end of the tool's own run."""

    generator: str
    job: Job
    out: Path
    ramp_up: float = 0.0
    steady: float | None = None
    replace: bool = False  # results of an earlier run are removed


def run_generator(plan: Plan) -> None:
    """Starts the tool, waits, reads its results and writes them as leadline-load's. What the tool prints goes to
    standard output and ``raw/printed.txt``. Raises UsageError, also where results of an earlier run are, LeadlineError.
    """
    tool = find_generator(plan.generator)
    job = plan.job
    tool.check(job)
    _ = job.words  # an unknown placeholder is an error before anything is written
    if plan.ramp_up > 0 and not tool.per_second:
        raise UsageError(
            f"{tool.name} keeps no time of single requests, so a ramp-up cannot be left out of its figures: leave "
            "--ramp-up out, and let a run of its own warm the server up"
        )
    try:
        if plan.replace:
            load_result.remove(plan.out)
        else:
            load_result.refuse(plan.out)
        job.raw.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {plan.out}: {error.strerror}") from None
    command = tool.command(job)
    env = {**os.environ, **job.environment, **command.env}
    printed = job.raw / PRINTED
    started = job.raw / load_result.STARTED
    started.write_text("", encoding="ascii")
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    with printed.open("w", encoding="utf-8") as output:
        try:
            with here.own_user(command.argv, job.raw, tool_reads(plan), [job.raw], tied=True) as argv:
                code, output_text = here.foreground(argv, apart=True, output=output, env=env)
        except OSError as error:
            started.unlink()
            raise LeadlineError(f"{tool.name} could not be started: {error}") from None
    ended, after = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    text = end_of(printed)
    sys.stdout.write(text)
    sys.stdout.flush()
    if code and not output_text and not _left_results(tool.name, code):
        if not _measured(job.raw):
            started.unlink()
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")
        raise LeadlineError(f"{tool.name} ended with code {code}: {last.strip()}")
    ran = Ran(
        tool.name,
        began,
        ended,
        after.ru_utime - before.ru_utime,
        after.ru_stime - before.ru_stime,
        here.cpu_count(),
        plan.ramp_up,
        plan.steady,
        completed=not output_text,
    )
    if output_text:
        with suppress(LeadlineError):  # too little for a summary
            write_files(plan.out, job, ran, results_of(tool, job))
        if not _measured(job.raw):
            started.unlink()
        name = signal.Signals(output_text[-1]).name
        raise LeadlineError(f"{tool.name} was ended by {name} before its run was over: {plan.out} has what it did")
    write_files(plan.out, job, ran, results_of(tool, job))


def tool_reads(plan: Plan) -> list[Path]:
    """What the tool's user must reach: the program with what it came with, the script, what lies beside it, and files
    that the options name.
    """
    program = shutil.which(plan.job.program or plan.generator)
    paths = [] if program is None else [Path(program), Path(program).resolve(), Path(program).resolve().parent.parent]
    if plan.job.script is not None and is_file(script := expanded(plan.job.script)):
        paths += scenario_reads(script.resolve())
    paths += [Path(word) for word in plan.job.options if word.startswith("/") and Path(word).is_file()]
    return paths


def _measured(raw: Path) -> bool:
    """Whether a tool that failed left anything but words."""
    words = (PRINTED, "hook.lua", "jmeter.log")
    return any(path.stat().st_size for path in raw.rglob("*") if path.is_file() and path.name not in words)


def _left_results(tool: str, code: int) -> bool:
    """Codes that mean a broken limit of the script's own, not a broken run: k6 99, Gatling 2."""
    return (tool, code) in (("k6", 99), ("gatling", 2))


def plan_text(plan: Plan) -> str:
    """The plan as JSON, for the process that a host starts."""
    return json.dumps(asdict(plan), default=str)


def plan_from(text: str) -> Plan:
    document = from_json(text)
    job = document.pop("job")
    job["raw"] = Path(job["raw"])
    return Plan(**{**document, "out": Path(document["out"]), "job": Job(**job)})


def main() -> int:
    """``python -m leadline.load.generators.run PLAN.json``: exit code as leadline-load's."""
    try:
        plan = plan_from(Path(sys.argv[1]).read_text(encoding="utf-8"))
        run_generator(plan)
        result = read_summary(plan.out)
        if not any(total.ok for total in result.total.values()):
            raise LeadlineError(f"{plan.generator}: no request succeeded: {dict(result.errors) or 'none was made'}")
    except LeadlineError as error:
        print(f"leadline: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
