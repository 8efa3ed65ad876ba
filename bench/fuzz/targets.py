"""What is fuzzed: each reader with its seeds, called as the command line calls it."""

from __future__ import annotations

import hashlib
import io
import json
import random
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from bench.fuzz.agree import drawn_study
from bench.fuzz.mutate import mutated
from leadline.checks.files.study import (
    StudyFile,
    builtin_studies,
    builtin_tunings,
    find_study,
    find_tuning,
    parse_study,
)
from leadline.cli.commands import record as scenario_command
from leadline.design.make import plan_from_json, plan_to_json
from leadline.experiments.results import analysis_of
from leadline.experiments.tuning import steps_left_out, tuning_catalogue
from leadline.host import journal, received
from leadline.host.knobs import FAMILIES
from leadline.layouts.check import check_plan
from leadline.load.cluster.hosts import scenario_files
from leadline.load.cluster.run import read_drivers
from leadline.load.driver import check_by_driver
from leadline.load.generators import jmeter, k6
from leadline.load.generators.base import Generator, Job, results_of
from leadline.load.result import read_summary
from leadline.load.scenario import built_in_scenarios, preset_variables
from leadline.load.series import new_histogram, outcomes_in, steady_series
from leadline.model.errors import FailureClass, LeadlineError, RestoreError, TrialFailure
from leadline.model.received import reading
from leadline.model.workload import Workload
from leadline.observe.base import FrameWriter, read_frames
from leadline.observe.pools import read_samples
from leadline.observe.table import TallTable, read_series
from leadline.places.guest.machine import read_sent
from leadline.places.pool.job import Ending, EndKind, read_ending
from leadline.places.running import choice_of, settings_of
from leadline.places.simulated import SimulatedTestbed, Truth, parse_truth
from leadline.places.ssh import wire
from leadline.places.testbed import RunOptions
from leadline.store.bundle import Manifest, read_bundle, take_study, write_bundle
from leadline.store.lab import Store
from leadline.store.tunings import TuningRecords
from leadline.trial.looks import check_looks

HERE = Path(__file__).parent
Read = Callable[[bytes, Path], None]
HOST_KNOBS = [knob for family in FAMILIES for knob in family(Path("/")).knobs()]
MOST_TRIALS = 12  # of an accepted study that is run on the simulated host
MOST_SECONDS = 200.0  # of load in them


class Disagreement(AssertionError):
    """What a dry run accepted, the run refused."""


@dataclass(frozen=True)
class Target:
    """``read`` raises LeadlineError for what it refuses; anything else that it raises is a fault."""

    read: Read
    seeds: Sequence[bytes] = ()
    binary: bool = False  # bytes are changed in their places only
    draw: Callable[[random.Random], bytes] | None = None  # in place of seeds and their mutations
    seconds: float = 1.0  # of CPU for one input

    def input(self, number: int, rng: random.Random) -> bytes:
        if self.draw is not None:
            return self.draw(rng)
        return mutated(self.seeds, rng, self.binary) if number >= len(self.seeds) else self.seeds[number]


_REQUESTS = [  # of people: curl, Postman, .http, access logs
    b"curl 'http://a/b?c=1' -X PUT -H 'Authorization: Bearer x.y.z' --data-raw $'{\"d\": 1}' --compressed -b 'e=f'\n"
    b"curl -F g=@h http://a/i",
    b'{"info": {"schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json", "name": "a"}, '
    b'"variable": [{"key": "b", "value": "http://c"}], "item": [{"name": "d", "request": {"method": "POST", "url": '
    b'{"raw": "{{b}}/e"}, "header": [{"key": "f", "value": "g"}], "body": {"mode": "raw", "raw": "{}"}}}]}',
    b"@a = http://b\n### one\nPOST {{a}}/c HTTP/1.1\nContent-Type: application/json\n\n{}\n\n###\nGET {{a}}/e\n",
    b'127.0.0.1 - - [29/Nov/2026:10:00:01 +0000] "GET /item/7?a=b HTTP/1.1" 200 12 "-" "x"\n'
    b'127.0.0.1 - u [29/Nov/2026:10:00:02 +0000] "POST /buy HTTP/1.1" 302 - "-" "x"\n',
]


def _seeds(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((HERE / "seeds").glob(f"{name}*"))]


def _written(data: bytes, folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def _planned(file: StudyFile, folder: Path) -> None:
    """Plan as a dry run does; what is small then runs on the simulated host, which must not refuse it."""
    place = SimulatedTestbed(Truth(), folder / "lab")
    planned = place.plan(file)
    load = file.study.workload
    seconds = load.ramp_up + load.steady + load.ramp_down
    slots = sum(slot.seconds for trial in planned.plan.trials for slot in trial.slots)
    trials = len(planned.plan.trials)
    if trials > MOST_TRIALS or trials * seconds + slots > MOST_SECONDS:
        return
    check_looks(file, planned.plan)
    try:
        run = place.run(file, planned, RunOptions(fresh=True))
        record = place.store.load(run.study_id)
        analysis_of(record)
        refused = [trial for trial in record.trials if trial.failure is FailureClass.CONFIGURATION]
        if refused:
            raise LeadlineError(refused[0].failure_message)
        audited = any(trial.failure_message.startswith("audit failed") for trial in record.trials)  # an outcome
        if not audited and file.study.budget is None and any(trial.is_left for trial in record.trials):
            raise LeadlineError(run.stopped or "trials are left")
    except TrialFailure:
        raise
    except LeadlineError as error:
        raise Disagreement(str(error)) from error


def _study(data: bytes, folder: Path) -> None:
    _planned(find_study(str(_written(data, folder, "study.yaml"))), folder)


def _agree(data: bytes, folder: Path) -> None:
    _planned(parse_study(_text(data), "any.yaml"), folder)


def _tuning(data: bytes, folder: Path) -> None:
    file = find_tuning(str(_written(data, folder, "tuning.yaml")))
    if file is not None:
        steps_left_out(file, SimulatedTestbed(Truth(), Path(), service_knobs=tuning_catalogue(file)))


def _scenario(data: bytes, folder: Path) -> None:
    load = Workload(scenario=str(_written(data, folder, "scenario.yaml")), users=2)
    check_by_driver(load, 1)
    scenario_files(Path(load.scenario))
    preset_variables("fixed-rate", load.scenario, {})


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="surrogateescape")


def _set(data: bytes, folder: Path) -> None:
    _planned(find_study("quickstart", _text(data).split("\n")), folder)


def _factor(data: bytes, folder: Path) -> None:
    _planned(find_study("quickstart", [], _text(data).split("\n")), folder)


def _stack(data: bytes, _folder: Path) -> None:
    name, *settings = _text(data).split("\n")
    settings_of(choice_of(name), settings)


def _converted(data: bytes, folder: Path) -> None:
    scenario_command.from_(_written(data, folder, "in"), folder / "out.yaml", resources=True)


def _journal(data: bytes, folder: Path) -> None:
    """Nothing is undone: the ways of undoing are left out, the reading and grouping are all there."""
    known, journal._UNDO = journal._UNDO, {}
    try:
        journal.UndoJournal(_written(data, folder, "host.jsonl"), root=folder).restore()
    except RestoreError:
        pass  # there are entries, and none can be undone here
    finally:
        journal._UNDO = known


def _lab(data: bytes, folder: Path) -> None:
    lab = folder / "read"
    lab.mkdir(exist_ok=True)
    for name in ("lab.sqlite-wal", "lab.sqlite-shm"):
        (lab / name).unlink(missing_ok=True)
    _written(data, lab, "lab.sqlite")
    store = Store(lab, create=False)
    store.studies()
    records = TuningRecords(store)
    for number in records.ids():
        records.load(number)


def _archive(data: bytes, folder: Path) -> None:
    received.unpack(io.BytesIO(data), folder / "in", "an archive", received.Bounds(1000, 1 << 20), passes_over=True)
    if [path for path in folder.rglob("*") if path.is_symlink() or (folder / "in") not in (path, *path.parents)]:
        raise AssertionError("it wrote a link, or outside")


def _archive_seeds() -> list[bytes]:
    """As Python and as GNU's programs write them, with the longest names."""
    found = []
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w", format=form) as archive:
            for name in ("end.json", "bundle/rows.json", "x" * 90 + "/" + "y" * 90, "link"):
                member = tarfile.TarInfo(name)
                member.size, member.type = (4, tarfile.REGTYPE) if name != "link" else (0, tarfile.SYMTYPE)
                archive.addfile(member, io.BytesIO(b"text"))
        found.append(target.getvalue())
    return found


def _bundle(data: bytes, folder: Path) -> None:
    (folder / "bundle").mkdir(exist_ok=True)
    digest = hashlib.sha256(data).hexdigest()
    _written(data, folder, "bundle/rows.json")
    told = asdict(Manifest("seed", "k", "p", {"rows.json": digest}))
    _written(json.dumps(told).encode(), folder, "bundle/manifest.json")
    read_bundle(folder / "bundle")
    take_study(Store(folder / "lab"), folder / "bundle")
    Store(folder / "lab").studies()


def _bundle_seeds() -> list[bytes]:
    """Rows of the lab of ``_lab_seeds``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _written(_lab_seeds()[0], folder, "lab.sqlite")
        write_bundle(Store(folder), 1, folder / "bundle")
        return [(folder / "bundle" / "rows.json").read_bytes()]


def _ending(data: bytes, folder: Path) -> None:
    _written(data, folder, "end.json")
    read_ending(folder)


def _frame(data: bytes, _folder: Path) -> None:
    with reading("an answer"):  # as the channel has it
        message = wire.read_frame(io.BytesIO(len(data).to_bytes(4, "big") + data).read) or {}
        wire.unpacked(message.get("value"))
        wire.unpacked_error(message.get("error") or {}, "a host")


def _file(name: str, read: Callable[[Path], object]) -> Read:
    """Of a reader of a folder in which the driver or another program left this file, and its neighbours in order."""

    def read_one(data: bytes, folder: Path) -> None:
        _written(b"time_ns,second,phase,transaction,ok,failed\n1,0,steady,all,1,0\n", folder, "seconds.csv")
        for other in ("response.hlog", "started"):
            _written(b"", folder, other)
        _written(data, folder, name)
        read(folder)

    return read_one


def _of_file(name: str, read: Callable[[Path], object], seeds: Callable[[], Sequence[bytes]]) -> Target:
    binary = Path(name).suffix in (".parquet", ".frames")
    return Target(_file(name, read), seeds(), binary)


def _left(tool: Generator) -> Callable[[Path], object]:
    return lambda folder: results_of(tool, Job("http://127.0.0.1:1", folder, 1.0))


def _log_seed() -> bytes:
    histogram = new_histogram()
    for ns in (10**6, 5 * 10**6, 10**9):
        histogram.record_value(ns)
    line = f"Tag=look,0.000,1.000,1000.000,{histogram.encode().decode('ascii')}\n"
    return ("#[Histogram log format version 1.3]\n" + line + line.replace("0.000,", "1.000,", 1)).encode()


def _series_seed() -> bytes:
    table, target = TallTable(), io.BytesIO()
    for second in range(20):
        table.add(second * 10**9, "cpu.idle", "cpu0", 0.5)
    table.frame().write_parquet(target)
    return target.getvalue()


def _frames_seed() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        writer = FrameWriter(Path(name) / "a")
        for second in range(3):
            writer.write(second, second, 0, 0, [("stat", b"cpu 1 2 3\n"), ("memory", b"x" * 50)])
        writer.close()
        return (Path(name) / "a").read_bytes()


_K6 = b"""metric_name,timestamp,metric_value,error_code,expected_response,name,status
http_req_duration,1700000000000000000,12.5,,true,look,200
http_req_duration,1700000001000000000,99.5,1050,false,buy,0
dropped_iterations,1700000001000000000,3,,,,
"""
_JTL = b"""timeStamp,elapsed,label,responseCode,success,Connect
1700000000000,12,look,200,true,1
1700000001000,99,buy,Non HTTP response code: java.net.SocketTimeoutException,false,2
"""
_AGENT = b"time_ns,metric,subject,value\n1,agent.pools,server,2\n1,heap.used,server,1e6\n"
_LEFT: tuple[
    tuple[str, str, Callable[[Path], object], Callable[[], Sequence[bytes]]], ...
] = (  # name, file, reader, seeds
    ("summary", "summary.json", read_summary, lambda: _seeds("summary")),
    ("seconds", "seconds.csv", steady_series, lambda: _seeds("seconds")),
    ("hlog", "response.hlog", lambda folder: outcomes_in(folder, [range(5)], None), lambda: [_log_seed()]),
    ("k6", "k6.csv", lambda folder: k6.read_csv(folder / "k6.csv"), lambda: [_K6]),
    ("jmeter", "jmeter.jtl", _left(jmeter.GENERATOR), lambda: [_JTL]),
    ("agent", "agent.csv", lambda folder: read_samples(folder / "agent.csv"), lambda: [_AGENT]),
    ("series", "a.parquet", lambda folder: read_series(folder / "a.parquet"), lambda: [_series_seed()]),
    ("frames", "a.frames", lambda folder: list(read_frames(folder / "a.frames")), lambda: [_frames_seed()]),
)


def _guest(data: bytes, _folder: Path) -> None:
    read_sent(data)


def _lab_seeds() -> list[bytes]:
    """A lab with one simulated study, as one file; its texts are mutated through their bytes."""
    text = (
        "study: seed\nquestion: q\nworkload: { users: 2, ramp_up: 1s, steady: 5s, ramp_down: 0s }\n"
        "factors: { jvm.heap: [128m, 256m] }\ndesign: { replicates: 2, sentinels: null }\nresponses: [throughput]\n"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = parse_study(text, "seed.yaml")
        place = SimulatedTestbed(Truth(), folder / "lab")
        place.run(file, place.plan(file), RunOptions())
        with closing(sqlite3.connect(folder / "lab" / "lab.sqlite")) as connection:
            connection.execute("VACUUM INTO ?", (str(folder / "whole"),))
        return [(folder / "whole").read_bytes()]


def _plan(data: bytes, _folder: Path) -> None:
    check_plan(plan_from_json(_text(data)))


def _plan_seeds() -> list[bytes]:
    file = find_study("quickstart")
    return [plan_to_json(SimulatedTestbed(Truth(), Path()).plan(file).plan).encode()]


def _truth(data: bytes, _folder: Path) -> None:
    parse_truth(_text(data), "truth.yaml")


def _drivers(data: bytes, folder: Path) -> None:
    read_drivers(str(_written(data, folder, "drivers.yaml")))


_SETS = (
    *("workload.users=20", "workload.steady=30s", "limits.errors=0.1%", "settings.jvm.heap=256m", "design.seed=3"),
    *("factors.jvm.heap=[128m, 256m]", "placement.server_cpus=0", "responses=[p50, p99]", "budget=2h", "dead_man=30s"),
    *("design={kind: full-factorial, replicates: 2}", "pseudo_factors={a: [x, y]}", "workload.variables.think=5ms"),
    *("drivers=[local, {via: ssh b, weight: 2}]", "workload.replay=/dev/zero", "stack.java=/nowhere"),
)
_ENTRY = {
    **{"id": "0123456789ab", "kind": "file", "target": "/proc/sys/vm/swappiness", "note": "", "boot": "b", "time": 1.5},
    **{"original": {"/proc/sys/vm/swappiness": "60"}, "owner": {"pid": 1}, "values": ["10"], "data": {"token": "t"}},
}


def _journal_seed() -> bytes:
    kinds = ("file", "process", "cgroup", "swap", "tree", "ramdisk")
    lines = [{**_ENTRY, "id": f"{kind}1", "kind": kind} for kind in kinds]
    return "\n".join(
        json.dumps(line) for line in [*lines, {"update": "file1", "value": "20"}, {"done": "tree1"}, []]
    ).encode()


def targets() -> Mapping[str, Callable[[], Target]]:
    """By name; made when asked for, since some seeds take a moment."""
    return {
        "study": lambda: Target(_study, [*(text.encode() for text in builtin_studies().values()), *_seeds("study")]),
        "agree": lambda: Target(_agree, draw=drawn_study, seconds=5.0),
        "tuning": lambda: Target(_tuning, [*(text.encode() for text in builtin_tunings().values()), *_seeds("tuning")]),
        "scenario": lambda: Target(_scenario, [path.read_bytes() for path in built_in_scenarios().values()]),
        "set": lambda: Target(_set, [text.encode() for text in _SETS]),
        "factor": lambda: Target(
            _factor, [b"jvm.heap=128m,256m", b"vm.swappiness=1,60,100", b"server.threads.max=5,50"]
        ),
        "stack": lambda: Target(
            _stack, [b"liberty/orm\njvm.heap=512m", b"tomcat\nserver.threads.max=20", b"tomee/session"]
        ),
        "har": lambda: Target(_converted, _seeds("har")),
        "openapi": lambda: Target(_converted, _seeds("openapi")),
        "requests": lambda: Target(_converted, _REQUESTS),
        "journal": lambda: Target(_journal, [_journal_seed()]),
        "lab": lambda: Target(_lab, _lab_seeds(), binary=True),
        "archive": lambda: Target(_archive, _archive_seeds(), binary=True),
        "bundle": lambda: Target(_bundle, _bundle_seeds(), seconds=5.0),
        "ending": lambda: Target(_ending, [json.dumps(asdict(Ending(EndKind.DONE, "n1", "x", ["y"]))).encode()]),
        "frame": lambda: Target(_frame, [wire.frame({"id": 1, "value": wire.packed([1, {"a": Path("b")}])})[4:]]),
        "guest": lambda: Target(
            _guest, [b"say a b\nput x 1 " + hashlib.sha256(b"y").hexdigest().encode() + b"\nyfinish\n"]
        ),
        **{name: partial(_of_file, *rest) for name, *rest in _LEFT},
        "plan": lambda: Target(_plan, _plan_seeds()),
        "truth": lambda: Target(_truth, _seeds("truth")),
        "drivers": lambda: Target(_drivers, [b"- local\n- ssh user@host\n- { via: ssh b, weight: 2, cpus: 0-1 }\n"]),
    }
