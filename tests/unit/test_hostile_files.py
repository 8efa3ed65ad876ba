"""Whatever lies where a file from outside belongs, its reader ends at once with one line that names the file."""

from __future__ import annotations

import base64
import json
import os
import resource
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from leadline.host import received
from leadline.load.command import read_others
from leadline.load.generators import gatling, httperf, jmeter, k6, lines, oha, wrk
from leadline.load.generators.base import PRINTED, Generator, Job, results_of
from leadline.load.progress import ProgressLog
from leadline.load.result import read_summary
from leadline.load.series import decoded, last_second, outcomes_in, started_unix_ns, steady_series
from leadline.model.errors import LONGEST_LINE, LeadlineError, UsageError
from leadline.observe.base import read_frames
from leadline.observe.pools import read_samples
from leadline.observe.table import check_tables, read_series
from leadline.places.guest import debian
from leadline.places.virtual import figures
from leadline.stack.own import spring
from leadline.trial.measure import FILE, completion_between

Read = Callable[[Path], object]


def results(tool: Generator) -> Read:
    return lambda folder: results_of(tool, Job("http://127.0.0.1:1", folder, 1.0))


# The file, and what reads it in a folder of its own.
READERS: dict[str, tuple[str, Read]] = {
    "summary": ("summary.json", read_summary),
    "seconds": ("seconds.csv", steady_series),
    "seconds of a window": ("seconds.csv", lambda folder: outcomes_in(folder, [range(5)])),
    "seconds under way": ("seconds.csv", lambda folder: (last_second(folder), started_unix_ns(folder))),
    "latencies": ("response.hlog", lambda folder: outcomes_in(folder, [range(5)], None)),
    "programs beside": ("host.json", read_others),
    "progress": ("driver.log", lambda folder: ProgressLog(folder / "driver.log").take()),
    "k6": ("k6.csv", results(k6.GENERATOR)),
    "jmeter": ("jmeter.jtl", results(jmeter.GENERATOR)),
    "oha": ("oha.json", results(oha.GENERATOR)),
    "oha's rows": ("oha.sqlite", results(oha.GENERATOR)),
    "wrk": ("wrk.json", results(wrk.GENERATOR)),
    "httperf": (PRINTED, results(httperf.GENERATOR)),
    "gatling": ("gatling/a/simulation.log", results(gatling.GENERATOR)),
    "lines": ("lines.jsonl", results(lines.GENERATOR)),
    "agent": ("agent.csv", lambda folder: read_samples(folder / "agent.csv")),
    "frames": ("host.frames", lambda folder: list(read_frames(folder / "host.frames"))),
    "completions": (str(FILE), lambda folder: completion_between(folder, 0, 9e9)),
    "series": ("host.parquet", lambda folder: read_series(folder / "host.parquet")),
    "a guest's figures": ("figures", lambda folder: figures.read(folder / "figures")),
    "a kernel's facts": ("sealed.json", debian.sealed_facts),
}


def beside(folder: Path) -> None:
    """What readers need besides the file that is wrong."""
    (folder / "started").touch()
    (folder / "seconds.csv").write_text("time_ns,second,phase,transaction,ok,failed\n1,0,steady,all,1,0\n")
    (folder / "response.hlog").write_text("")
    (folder / "oha.json").write_text(json.dumps({"errorDistribution": {}, "summary": {"total": 1.0}}))
    with closing(sqlite3.connect(folder / "oha.sqlite")) as rows:
        rows.execute("CREATE TABLE oha (start, duration, status)")
        rows.commit()


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a directory": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a terabyte of nothing": sparse,
}
TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "zeros": bytes(4 << 20),
    "no UTF-8": b"\xff\xfe\x80" * 500,
    "brackets": b"[" * 200_000,
    "a number": b"9" * 20_000,
    "an infinite number": b'{"format": "leadline-load/1", "errorDistribution": 1e999, "time_ns": 1e999}',
    "a list": b"[1, 2]\n",
    "null": b"null\n",
    "texts": b'{"format": "leadline-load/1", "requests": "x", "t": "nan", "errorDistribution": "x", "programs": 1}\n',
    "negative": b"time_ns,second,phase,transaction,ok,failed\n-1,-1,x,all,-5,nan\n",
    "huge": f"time_ns,second,phase,transaction,ok,failed\n{10**400},{10**400},x,all,{10**400},1e999\n".encode(),
    "a far second": f"time_ns,second,phase,transaction,ok,failed\n1,{10**17},x,all,1,1\n".encode(),
    "of k6": b"metric_name,metric_value,timestamp,name,status,error_code,expected_response\n"
    b"http_req_duration,1e999,1,a,2,3,true\n",
    "of jmeter": b"timeStamp,elapsed,label,responseCode,success\n" + b"9" * 5000 + b",nan,a,200,true\n",
    "of the agent": b"time_ns,metric,subject,value\n1,a,b,inf\n",
    "of orders": b"accepted_us,effective_us\n1,x\n",
    "of a log": b"Tag=a,1e300,1.000,5,HISTFAAAAAA=\nTag=a,1.0,1.0,5,AAAA\n",
    "of a frame": zlib.compress(b"frame 1 2 3 4 5 -9999\n" * 50),
    "of entries": zlib.compress(b"frame 1 2 3 4 5 8\na -2000\n" * 50),
    "of a guest": b"/proc/1/task/1/stat:(x\n/proc/1/task/1/schedstat:\n/proc/vmstat:a\n",
    "of gatling": b"RUN\tx\nREQUEST\t\ta\tx\ty\tOK\n",
    "of httperf": b"Total: test-duration 1.2.3 s\nReply time [ms]: response 1..2 transfer 3.4.5\n",
}


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """Two gigabytes more than there are now."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + (2 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def said(read: Read, folder: Path) -> str:
    """The message, empty for what was read."""
    try:
        read(folder)
    except LeadlineError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("content", [*KINDS, *TEXTS])
def test_it_is_read_or_refused_by_name(tmp_path: Path, reader: str, content: str) -> None:
    name, read = READERS[reader]
    beside(tmp_path)
    path = tmp_path / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if content in KINDS:
        KINDS[content](path)
    else:
        path.write_bytes(TEXTS[content])
    text = said(read, tmp_path)
    assert not text or path.name in text or str(tmp_path) in text or f"{reader} left" in text
    assert "\n" not in text
    assert len(text) <= LONGEST_LINE


def histogram(inner: bytes) -> str:
    packed = zlib.compress(inner)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(packed)) + packed).decode()


@pytest.mark.parametrize(
    ("inner", "why"),
    [
        (bytes(1 << 20), "cut off or too large"),
        (struct.pack(">IIIIQQd", 0x1C849313, 1, 0, 5, 1, 2**63, 1.0) + b"\0", "too many counts"),
        (struct.pack(">IIIIQQd", 0x1C849313, 1, 0, 3, 0, 10**9, 1.0) + b"\0", "math domain"),
        (struct.pack(">IIIIQQd", 0x1C849313, 9, 0, 3, 64, 10**9, 1.0) + b"\xfe" * 8 + b"\x7f", "more transactions"),
        (struct.pack(">IIIIQQd", 7, 1, 0, 3, 64, 10**9, 1.0) + b"\0", "another format"),
    ],
)
def test_a_hostile_histogram_is_refused(inner: bytes, why: str) -> None:
    with pytest.raises(LeadlineError, match=f"a log is damaged: .*{why}"):
        decoded(histogram(inner), "a log")


def test_a_table_with_too_many_rows_or_too_few_columns_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row: dict[str, object] = {"time_ns": 1, "metric": "m", "subject": "s", "value": 0.0}
    frame, path = pl.DataFrame([row] * 5000), tmp_path / "a.parquet"
    frame.write_parquet(path)
    assert read_series(path).height == 5000
    frame.drop("value").write_parquet(path)
    with pytest.raises(LeadlineError, match="value"):
        read_series(path)
    monkeypatch.setattr(received.received, "MOST_ROWS", 1000)
    with pytest.raises(LeadlineError, match="5,000 rows; 1,000 are read"):
        read_series(path)


def test_a_view_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(received, "_STEPS", 2)
    with closing(sqlite3.connect(tmp_path / "a")) as rows:
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) AS start FROM n"
        rows.execute(f"CREATE VIEW oha AS {endless}")
        rows.commit()
    with pytest.raises(LeadlineError, match="a is damaged: interrupted"):
        list(received.sqlite_rows(tmp_path / "a", "SELECT start FROM oha", 1))


@pytest.mark.parametrize(
    "metadata", ["[1]", '{"properties": [5]}', '{"properties": [{"name": "x", "defaultValue": 1e999}]}', "[" * 100_000]
)
def test_a_jar_with_strange_metadata_is_refused(tmp_path: Path, metadata: str) -> None:
    jar = tmp_path / "shop.jar"
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("META-INF/spring-configuration-metadata.json", metadata)
    with pytest.raises(UsageError, match=r"shop\.jar: its configuration metadata cannot be read: "):
        spring.catalogue(jar)


def test_a_table_that_ends_the_process_of_its_reader_is_refused_by_name(tmp_path: Path) -> None:
    sound = tmp_path / "a.parquet"
    row: dict[str, object] = {"time_ns": 1, "metric": "m", "subject": "s", "value": 0.0}
    pl.DataFrame([row]).write_parquet(sound)
    check_tables([sound])
    hostile = Path(__file__).parents[1] / "data" / "hostile" / "memory.parquet"  # 1.7 KB that ask for terabytes
    with pytest.raises(LeadlineError, match=r"memory\.parquet is damaged: it is no table"):
        check_tables([sound, hostile, sound])
