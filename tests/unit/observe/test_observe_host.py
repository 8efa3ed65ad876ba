"""The kernel's text as series."""

import math
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import leadline
from leadline.host.files import LocalFiles
from leadline.observe import host
from leadline.observe.base import COLUMNS, Frame, ObserverContext, read_frames
from leadline.observe.host import UNITS, HostObserver, decode

STAT = """cpu  {user} 10 200 {idle} 50 0 5 {steal} 0 0
cpu0 {user} 10 200 {idle} 50 0 5 {steal} 0 0
intr {intr} 0 0 7
ctxt {ctxt}
btime 1700000000
processes {forks}
procs_running 3
procs_blocked 1
"""
DISKS = """   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0
   7       1 loop1 5 0 8 1 0 0 0 0 0 1 1
 254       0 vda {reads} 0 {sectors} {read_ms} {writes} 0 {written} {write_ms} 0 {busy} 0 0 0 0 0 0 0
 254       1 vda1 {reads} 0 {sectors} {read_ms} {writes} 0 {written} {write_ms} 0 {busy} 0 0 0 0 0 0 0
"""
NET = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
    lo:{rx} 1 0 0 0 0 0 0 {tx} 1 0 0 0 0 0 0
  ifb0:       0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
"""
MEMINFO = """MemTotal:       1000 kB
MemFree:         400 kB
Dirty:            12 kB
Writeback:         3 kB
SwapTotal:       100 kB
SwapFree:         60 kB
HugePages_Total:       4
HugePages_Free:        1
Hugepagesize:       2048 kB
"""


def frame(n: int, seconds: float, **files: str) -> Frame:
    block = {"sys/block": b"loop0\nloop1\nvda"} if n == 0 else {}
    texts = {name.replace("__", "/"): text.encode() for name, text in files.items()}
    return Frame(n, int(seconds * 1e9), int((1000 + seconds) * 1e9), 2_000_000, n * 3_000_000, {**block, **texts})


def values(frames: list[Frame]) -> dict[tuple[str, str], float]:
    """(metric, subject) to the value at the last frame."""
    rows = decode(frames).frame()
    last = rows.filter(pl.col("time_ns") == frames[-1].time_ns)
    return {(metric, subject): value for _, metric, subject, value in last.iter_rows()}


def stat(user: int = 100, idle: int = 1000, steal: int = 0, intr: int = 0, ctxt: int = 0, forks: int = 0) -> str:
    return STAT.format(user=user, idle=idle, steal=steal, intr=intr, ctxt=ctxt, forks=forks)


def test_cpu_shares_and_rates() -> None:
    got = values(
        [frame(0, 0, stat=stat()), frame(1, 2, stat=stat(user=250, idle=1040, steal=10, intr=300, ctxt=1000, forks=4))]
    )
    for subject in ("host", "cpu0"):
        assert got["cpu.user", subject] == pytest.approx(0.75)
        assert got["cpu.idle", subject] == pytest.approx(0.20)
        assert got["cpu.steal", subject] == pytest.approx(0.05)
        assert got["cpu.nice", subject] == 0
    assert got["interrupts", "host"] == 150
    assert got["context_switches", "host"] == 500
    assert got["forks", "host"] == 2
    assert got["runqueue", "host"] == 3
    assert got["blocked", "host"] == 1
    assert got["observer.lateness_ms", "host"] == 2
    assert got["observer.cpu_ms", "host"] == 3


def test_the_first_sample_has_no_rates() -> None:
    got = values([frame(0, 0, stat=stat(), meminfo=MEMINFO)])
    assert not [key for key in got if key[0].startswith("cpu.")]
    assert got["memory.free", "host"] == 400 * 1024


def test_memory_in_bytes() -> None:
    got = values([frame(0, 0, meminfo=MEMINFO)])
    assert got["memory.dirty", "host"] == 12 * 1024
    assert got["memory.writeback", "host"] == 3 * 1024
    assert got["memory.swap_used", "host"] == 40 * 1024
    assert got["memory.huge_pages_used", "host"] == 3 * 2048 * 1024


def test_idle_that_steps_back_is_nought_and_a_counter_that_goes_back_gives_no_rate() -> None:
    got = values([frame(0, 0, stat=stat(idle=1000, ctxt=5000)), frame(1, 1, stat=stat(user=200, idle=998, ctxt=10))])
    assert got["cpu.idle", "host"] == 0
    assert got["cpu.user", "host"] == 1
    assert ("context_switches", "host") not in got


def test_vmstat_rates() -> None:
    before = "pgpgin 100\npgpgout 0\npswpin 5\nallocstall_normal 1\nallocstall_movable 1\npgscan_kswapd 7\noom_kill 0\n"
    after = "pgpgin 300\npgpgout 8\npswpin 9\nallocstall_normal 4\nallocstall_movable 2\npgscan_kswapd 9\noom_kill 1\n"
    got = values([frame(0, 0, vmstat=before), frame(1, 2, vmstat=after)])
    assert got["paging.in", "host"] == 100 * 1024
    assert got["paging.out", "host"] == 4 * 1024
    assert got["swap.in", "host"] == 2
    assert got["allocstall", "host"] == 2
    assert got["pgscan_kswapd", "host"] == 1
    assert got["oom_kill", "host"] == 0.5


def disks(**changed: int) -> str:
    zero = dict.fromkeys(("reads", "sectors", "read_ms", "writes", "written", "write_ms", "busy"), 0)
    return DISKS.format(**{**zero, **changed})


def test_disks_without_partitions_and_idle_loops() -> None:
    got = values(
        [
            frame(0, 0, diskstats=disks()),
            frame(1, 2, diskstats=disks(reads=4, sectors=40, read_ms=6, written=4, writes=1, write_ms=9, busy=500)),
        ]
    )
    assert got["disk.read_bytes", "vda"] == 40 * 512 / 2
    assert got["disk.write_bytes", "vda"] == 4 * 512 / 2
    assert got["disk.read_await_ms", "vda"] == 1.5
    assert got["disk.write_await_ms", "vda"] == 9
    assert got["disk.util", "vda"] == 0.25
    subjects = {subject for metric, subject in got if metric.startswith("disk.")}
    assert subjects == {"vda", "loop1"}  # loop1 had requests


def test_a_disk_that_rests_has_no_mean_wait_and_its_clock_may_wrap() -> None:
    top = (1 << 32) - 100
    got = values([frame(0, 0, diskstats=disks(busy=top)), frame(1, 1, diskstats=disks(busy=150))])
    assert got["disk.util", "vda"] == 0.25
    assert ("disk.read_await_ms", "vda") not in got


def test_network_and_tcp() -> None:
    snmp = "Tcp: ActiveOpens RetransSegs\nTcp: {} {}\n"
    netstat = "TcpExt: ListenOverflows\nTcpExt: {}\n"
    got = values(
        [
            frame(0, 0, net__dev=NET.format(rx=0, tx=5), net__snmp=snmp.format(1, 2), net__netstat=netstat.format(0)),
            frame(1, 1, net__dev=NET.format(rx=70, tx=9), net__snmp=snmp.format(4, 3), net__netstat=netstat.format(6)),
        ]
    )
    assert got["net.rx_bytes", "lo"] == 70
    assert got["net.tx_bytes", "lo"] == 4
    assert ("net.rx_bytes", "ifb0") not in got
    assert got["tcp.active_opens", "host"] == 3
    assert got["tcp.retransmits", "host"] == 1
    assert got["tcp.listen_overflows", "host"] == 6


def test_pressure_from_totals() -> None:
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={}\n"
    got = values(
        [frame(0, 0, pressure__io=text.format(1000, 0)), frame(1, 2, pressure__io=text.format(501_000, 250_000))]
    )
    assert got["psi.io.some", "host"] == 0.25
    assert got["psi.io.full", "host"] == 0.125
    assert ("psi.cpu.some", "host") not in got


@pytest.mark.parametrize("text", ["", "\n\n", "cpu", "garbage 1 2", "cpu0 a b c d\n: : :\n", "Tcp: A B\nTcp: 1\n"])
def test_text_that_makes_no_sense_gives_nothing(text: str) -> None:
    names = ("stat", "vmstat", "meminfo", "diskstats", "net__dev", "net__snmp", "pressure__cpu")
    frames = [frame(n, n, **dict.fromkeys(names, text)) for n in range(2)]
    observed = {metric for metric, _ in values(frames)} - {"observer.cpu_ms", "observer.lateness_ms"}
    assert not observed


def test_process_stat_with_a_name_of_parentheses_and_blanks() -> None:
    line = "7 (a) b) (c) S 1 7 7 0 -1 4194560 11 2 3 4 50 60 70 80 20 0 9 0 12345 1000 42 18446744073709551615\n"
    parsed = host.process_stat(line)
    assert parsed == host.ProcessStat(1, 11, 3, 50, 60, 70, 80, 9, 12345, 42, "a) b) (c")
    assert host.process_stat(line[:40]) is None
    assert host.process_stat("") is None


def test_this_host_is_recorded_and_collected_again_from_the_raw_file(tmp_path: Path) -> None:
    observer = HostObserver(LocalFiles())
    observer.start(ObserverContext(tmp_path, interval=0.05))
    while True:  # until there are rates
        raw = tmp_path / "raw" / "host.frames"
        series = observer.collect_from(tmp_path) if raw.exists() else None
        if series and "cpu.user" in pl.read_parquet(series)["metric"].to_list():
            break
    observer.stop()
    observer.stop()
    path = observer.collect()
    assert path == tmp_path / "series" / "host.parquet"
    table = pl.read_parquet(path)
    assert tuple(table.columns) == COLUMNS
    assert table.schema == pl.Schema({"time_ns": pl.Int64, "metric": pl.Utf8, "subject": pl.Utf8, "value": pl.Float64})
    totals = table.filter((pl.col("subject") == "host") & pl.col("metric").is_in([f"cpu.{k}" for k in host.CPU_FIELDS]))
    for total in totals.group_by("time_ns").agg(pl.col("value").sum())["value"]:
        assert total == pytest.approx(1.0)
    assert table["value"].is_finite().all()
    cpus = {s for s in table["subject"].unique() if s.startswith("cpu")}
    assert len(cpus) == os.sysconf("SC_NPROCESSORS_ONLN")
    assert not observer.warnings
    again = HostObserver(LocalFiles()).collect_from(tmp_path)
    assert again is not None
    assert pl.read_parquet(again).equals(table)


def test_a_host_without_these_files_is_no_error(tmp_path: Path) -> None:
    observer = HostObserver(LocalFiles(tmp_path / "none"))
    observer.start(ObserverContext(tmp_path, interval=10))
    observer.stop()
    path = observer.collect()
    assert path is not None
    assert set(pl.read_parquet(path)["metric"]) <= {"observer.cpu_ms", "observer.lateness_ms"}
    assert HostObserver(LocalFiles()).collect() is None
    assert HostObserver(LocalFiles()).collect_from(tmp_path / "nothing here") is None


def test_every_metric_has_a_unit() -> None:
    import fnmatch

    directory = Path("/proc")
    texts = {}
    for name in ("stat", "vmstat", "meminfo", "diskstats", "net/dev", "net/snmp", "net/netstat"):
        texts[name] = (directory / name).read_bytes()
    frames = [Frame(n, n * 10**9, n * 10**9, 0, 0, texts) for n in range(2)]
    metrics = set(decode(frames).frame()["metric"])
    assert {"context_switches", "memory.dirty", "pgfault"} <= metrics
    assert not [metric for metric in metrics if not any(fnmatch.fnmatchcase(metric, pattern) for pattern in UNITS)]
    assert not math.isnan(sum(decode(frames).frame()["value"]))


def test_what_a_killed_recorder_wrote_is_not_lost(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from leadline.host.files import LocalFiles\n"
        "from leadline.observe.base import ObserverContext; from leadline.observe.host import HostObserver\n"
        "HostObserver(LocalFiles()).start(ObserverContext(Path(sys.argv[1]), interval=0.02)); time.sleep(60)"
    )
    root = Path(leadline.__file__).parent.parent
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=root) as recorder:
        raw = tmp_path / "raw" / "host.frames"
        while not raw.exists() or len(list(read_frames(raw))) < 5:
            assert recorder.poll() is None
        recorder.kill()
    count = len(list(read_frames(raw)))
    assert count >= 5
    path = HostObserver(LocalFiles()).collect_from(tmp_path)
    assert path is not None
    dirty = pl.read_parquet(path).filter(pl.col("metric") == "memory.dirty")
    assert dirty.height == count
