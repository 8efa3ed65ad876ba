"""CPU, memory and input/output of process groups."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from leadline.host.files import LocalFiles
from leadline.observe.base import Frame, ObserverContext, read_frames
from leadline.observe.processes import UNITS, ProcessObserver, _script, decode
from leadline.observe.window import CpuLines


class FakeProcess:
    """A process group given by its ids."""

    def __init__(self, name: str, pids: Callable[[], list[int]]) -> None:
        self.name = name
        self.pids = pids
        self.pid = 1

    def alive(self) -> bool:
        return True

    def exit_code(self) -> int | None:
        return None

    def signal(self, number: int) -> None:
        raise NotImplementedError

    def stop(self, grace: float = 10.0) -> bool:
        raise NotImplementedError

    def cpu_seconds(self) -> tuple[float, float]:
        raise NotImplementedError


def stat(
    pid: int,
    user: int,
    system: int = 0,
    parent: int = 1,
    children: tuple[int, int] = (0, 0),
    start: int = 5,
    rss: int = 10,
) -> str:
    return (
        f"{pid} (postgres: x) S {parent} 1 1 0 -1 0 {user * 2} 0 {system} 0 {user} {system} "
        f"{children[0]} {children[1]} 20 0 3 0 {start} 100000 {rss} 0\n"
    )


def frame(n: int, seconds: float, files: dict[str, str]) -> Frame:
    first = {"constants": b"ticks 100\npage 4096\n"} if n == 0 else {}
    texts = {name: text.encode() for name, text in files.items()}
    return Frame(n, int(seconds * 1e9), int((1000 + seconds) * 1e9), 0, 0, {**first, **texts})


def test_cpu_is_that_of_the_processes_clocks_shared_out_by_ticks() -> None:
    files = [
        {"server/1/stat": stat(1, 100, 50), "server/1/clock": "1509000000", "server/2/stat": stat(2, 0)},
        {"server/1/stat": stat(1, 100, 51), "server/1/clock": "1516000000", "server/2/stat": stat(2, 1)},
        {"server/1/stat": stat(1, 100, 51), "server/1/clock": "1519000000", "server/3/clock": "4000000"},
    ]
    files[2] |= {"server/2/stat": stat(2, 1), "server/3/stat": stat(3, 0, start=8)}
    table = decode(frame(n, n, texts) for n, texts in enumerate(files)).frame()
    values = {name: table.filter(pl.col("metric") == name)["value"].to_list() for name in ("cpu", "cpu.system")}
    assert values["cpu"] == pytest.approx([0.007 + 0.01, 0.003 + 0.004])
    assert values["cpu.system"] == pytest.approx([0.0085, 0.007 * 51 / 152])


def last(frames: list[Frame]) -> dict[str, float]:
    rows = decode(frames).frame().filter(pl.col("time_ns") == frames[-1].time_ns)
    return {metric: value for _, metric, _, value in rows.filter(pl.col("subject") == "database").iter_rows()}


def test_cpu_of_a_group() -> None:
    got = last(
        [
            frame(0, 0, {"database/1/stat": stat(1, 100, 50), "database/2/stat": stat(2, 10)}),
            frame(1, 2, {"database/1/stat": stat(1, 150, 60), "database/2/stat": stat(2, 60)}),
        ]
    )
    assert got["cpu.user"] == pytest.approx(0.5)
    assert got["cpu.system"] == pytest.approx(0.05)
    assert got["cpu"] == pytest.approx(0.55)
    assert got["cpu.seconds"] == pytest.approx(1.1)
    assert got["faults.minor"] == pytest.approx(100)
    assert got["rss"] == 2 * 10 * 4096
    assert got["threads"] == 6
    assert got["processes"] == 2


def test_an_ended_child_is_counted_once() -> None:
    """It used 30 ticks by the first sample and 10 more; its parent takes over all 40 when it waits for it."""
    got = last(
        [
            frame(0, 0, {"database/1/stat": stat(1, 100), "database/2/stat": stat(2, 30, parent=1)}),
            frame(1, 1, {"database/1/stat": stat(1, 105, children=(40, 0))}),
        ]
    )
    assert got["cpu.seconds"] == pytest.approx(0.15)


def test_a_child_that_came_and_went_between_two_samples_is_counted() -> None:
    got = last(
        [
            frame(0, 0, {"database/1/stat": stat(1, 100)}),
            frame(1, 1, {"database/1/stat": stat(1, 100, children=(20, 5))}),
        ]
    )
    assert got["cpu.user"] == pytest.approx(0.20)
    assert got["cpu.system"] == pytest.approx(0.05)


def test_an_ended_process_nobody_waited_for_does_not_make_the_sum_go_back() -> None:
    got = last(
        [
            frame(0, 0, {"database/1/stat": stat(1, 100), "database/2/stat": stat(2, 5000, parent=1)}),
            frame(1, 1, {"database/1/stat": stat(1, 110)}),
        ]
    )
    assert got["cpu.seconds"] == pytest.approx(0.10)


def test_a_new_process_counts_whole_and_a_used_again_id_is_a_new_one() -> None:
    got = last(
        [
            frame(0, 0, {"database/1/stat": stat(1, 100), "database/2/stat": stat(2, 900, start=5)}),
            frame(1, 1, {"database/1/stat": stat(1, 100), "database/2/stat": stat(2, 7, start=99)}),
        ]
    )
    assert got["cpu.seconds"] == pytest.approx(0.07)


def test_a_role_that_was_not_seen_in_one_sample_loses_nothing() -> None:
    got = last(
        [
            frame(0, 0, {"database/1/stat": stat(1, 100)}),
            frame(1, 1, {}),
            frame(2, 2, {"database/1/stat": stat(1, 200)}),
        ]
    )
    assert got["cpu.seconds"] == pytest.approx(1.0)
    assert got["cpu"] == pytest.approx(0.5)


def test_input_output() -> None:
    io = "rchar: {}\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 4096\nwrite_bytes: {}\ncancelled_write_bytes: 0\n"
    got = last(
        [
            frame(0, 0, {"database/1/stat": stat(1, 1), "database/1/io": io.format(10, 0)}),
            frame(
                1,
                2,
                {
                    "database/1/stat": stat(1, 1),
                    "database/1/io": io.format(30, 8192),
                    "database/2/stat": stat(2, 1),
                    "database/2/io": io.format(100, 0),
                },
            ),
        ]
    )
    assert got["read_chars"] == (20 + 100) / 2
    assert got["write_bytes"] == 4096
    assert got["read_bytes"] == 2048


def test_context_switches_of_threads_and_kinds_of_memory() -> None:
    status = "Name:\tx\nRssAnon:\t 8 kB\nRssShmem:\t 100 kB\nVmSwap:\t 2 kB\n"
    task = "voluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}\n"
    files = {"database/1/stat": stat(1, 1), "database/1/status": status, "database/2/stat": stat(2, 1)}
    got = last(
        [
            frame(0, 0, {**files, "database/1/task/1": task.format(10, 1), "database/1/task/5": task.format(0, 0)}),
            frame(1, 1, {"database/1/stat": stat(1, 1)}),
            frame(
                2,
                4,
                {
                    **files,
                    "database/2/status": status,
                    "database/1/task/1": task.format(30, 3),
                    "database/1/task/9": task.format(99, 9),
                },
            ),
        ]
    )
    assert got["context_switches.voluntary"] == 5
    assert got["context_switches.involuntary"] == 0.5
    assert got["rss.anon"] == 16 * 1024
    assert got["rss.shared"] == 100 * 1024
    assert got["swap"] == 4 * 1024


def test_this_process_is_recorded_and_a_role_may_come_late(tmp_path: Path) -> None:
    import time

    processes = {"server": FakeProcess("server", lambda: [os.getpid(), 2**22 + 1])}
    observer = ProcessObserver(LocalFiles(), threads_every=1)
    observer.start(ObserverContext(tmp_path, processes, interval=0.02))
    began = time.time()
    before = time.process_time()
    while time.process_time() - before < 0.3:
        pass
    asked = threading.Event()
    processes["driver"] = FakeProcess("driver", lambda: [asked.set(), os.getpid()][1:])  # type: ignore[func-returns-value]
    before = time.process_time()
    while time.process_time() - before < 0.3 or not asked.is_set():
        pass
    observer.stop()
    path = observer.collect()
    assert path is not None
    table = pl.read_parquet(path)
    assert {"server", "driver", "processes", "leadline"} <= set(table["subject"])
    assert set(table["metric"]) <= set(UNITS)
    rss = table.filter((pl.col("metric") == "rss") & (pl.col("subject") == "server"))["value"]
    assert rss.min() > 1 << 20  # type: ignore[operator]
    use = CpuLines(path.parent).between("server", began, time.time())
    assert use is not None
    assert use.seconds > 0.4
    assert "context_switches.involuntary" in set(table["metric"])
    assert not observer.warnings


def test_a_group_that_cannot_be_listed_is_told(tmp_path: Path) -> None:
    def fail() -> list[int]:
        raise ProcessLookupError("gone")

    observer = ProcessObserver(LocalFiles())
    observer.start(ObserverContext(tmp_path, {"server": FakeProcess("server", fail)}, interval=5))
    observer.stop()
    assert observer.warnings == ["processes: server: ProcessLookupError: gone"]
    assert observer.collect() is not None  # its own cost at least


def test_a_group_grows_by_children_between_two_lookups(tmp_path: Path) -> None:
    import subprocess
    import sys

    calls = []

    def pids() -> list[int]:
        calls.append(1)
        return [os.getpid()]

    observer = ProcessObserver(LocalFiles(), members_every=1000)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as first:
        if not (Path("/proc") / str(os.getpid()) / "task" / str(os.getpid()) / "children").exists():
            pytest.skip("host: this kernel does not list the children of a thread")
        observer.start(ObserverContext(tmp_path, {"server": FakeProcess("server", pids)}, interval=0.01))
        while len(list(read_frames(tmp_path / "raw" / "processes.frames"))) < 2:
            pass
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as second:
            wanted = f"server/{second.pid}/stat"
            while not any(wanted in frame.files for frame in read_frames(tmp_path / "raw" / "processes.frames")):
                pass
            second.communicate(b"\n")
        first.communicate(b"\n")
    observer.stop()
    assert len(calls) == 1
    last_files = list(read_frames(tmp_path / "raw" / "processes.frames"))[-1].files
    assert f"server/{os.getpid()}/stat" in last_files


def test_what_a_lone_process_starts_belongs_to_its_role_at_once(tmp_path: Path) -> None:
    """As a load generator: the process of the role starts the tool, which may start another."""
    import subprocess
    import sys

    again = "import subprocess, sys; subprocess.run([sys.executable, '-c', {}])"
    tool = again.format(repr("import os; print(os.getpid(), flush=True); input()"))
    observer = ProcessObserver(LocalFiles(), members_every=1000)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", f"input(); {again.format(repr(tool))}"], text=True, **pipes) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        if not Path(f"/proc/{first.pid}/task/{first.pid}/children").exists():
            pytest.skip("host: this kernel does not list the children of a thread")
        role = {"driver": FakeProcess("driver", lambda: [first.pid])}
        observer.start(ObserverContext(tmp_path, role, interval=0.01))
        while len(list(read_frames(tmp_path / "raw" / "processes.frames"))) < 2:
            pass
        first.stdin.write("\n")
        first.stdin.flush()
        wanted = f"driver/{int(first.stdout.readline())}/stat"
        while not any(wanted in frame.files for frame in read_frames(tmp_path / "raw" / "processes.frames")):
            pass
        first.communicate("\n")
    observer.stop()


def test_processes_of_trials_side_by_side_are_no_strangers_to_each_other(tmp_path: Path) -> None:
    import subprocess
    import sys
    from contextlib import ExitStack

    with ExitStack() as stack:
        argv = [sys.executable, "-c", "input()"]
        first, second, stranger = (stack.enter_context(subprocess.Popen(argv, stdin=subprocess.PIPE)) for _ in range(3))
        trials: dict[Path, dict[str, list[int]]] = {}
        observers = []
        for name, pid in (("first", first.pid), ("second", second.pid)):
            roles = {"server": FakeProcess("server", lambda pid=pid: [pid])}  # type: ignore[misc]
            observers.append(ProcessObserver(LocalFiles()))
            observers[-1].start(ObserverContext(tmp_path / name, roles, interval=0.01, side_by_side=trials))
        raw = tmp_path / "second" / "raw" / "processes.frames"
        looks: list[dict[str, bytes]] = []
        while len(looks) < 3:  # before the end, when each takes a last look alone
            looks = [dict(frame.files) for frame in read_frames(raw) if f"others/{stranger.pid}/stat" in frame.files]
        for observer in observers:
            observer.stop()
        for process in (first, second, stranger):
            process.communicate(b"\n")
    assert not trials
    last_look = looks[-1]
    assert f"server/{second.pid}/stat" in last_look
    assert not {f"others/{first.pid}/stat", f"others/{second.pid}/stat"} & set(last_look)


def test_others_have_the_name_of_their_script_and_kernel_threads_are_apart() -> None:
    def other(pid: int, name: str, ticks: int, start: int = 5, flags: int = 0) -> str:
        text = stat(pid, ticks, start=start).replace("postgres: x", name)
        return text.replace(" 1 1 0 -1 0 ", f" 1 1 0 -1 {flags} ", 1)

    def look(n: int, ticks: int, start: int = 5, script: str = "") -> Frame:
        files = {
            "database/1/stat": stat(1, 1),
            "others/2/stat": other(2, "python3", ticks, start),
            "others/3/stat": other(3, "kworker/0:1", ticks, flags=0x00208040),
        }
        return frame(n, 2.0 * n, files | ({"others/2/script": script} if script else {}))

    frames = [look(0, 100, script="neighbour.py"), look(1, 200), look(2, 50, start=9), look(3, 150, start=9)]
    rows = decode(frames).frame().sort("time_ns")
    programs = rows.filter(pl.col("metric") == "program.cpu")
    # a process of the same number that began later is another one, whose script is not known
    assert programs["subject"].to_list() == ["python3 neighbour.py", "python3", "python3"]
    assert programs["value"].to_list() == pytest.approx([0.5, 0.25, 0.5])
    kernel = rows.filter(pl.col("metric") == "kernel.cpu")
    assert kernel["value"].to_list() == pytest.approx([0.5, 0.0, 0.5])
    assert {"program.cpu", "kernel.cpu"} <= set(UNITS)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("python3\0/home/x/neighbour.py\0--password\0secret\0", "neighbour.py"),
        ("java\0-Xmx1g\0-jar\0/opt/batch.jar\0", "batch.jar"),
        ("java\0-cp\0a/b.jar:c.jar\0-Xmx1g\0org.example.Main\0", "org.example.Main"),
        ("python3\0-c\0import secret\0", ""),
        ("bash\0", ""),
        ("", ""),
        ("java\0--add-opens\0java.base/sun.security.action=ALL-UNNAMED\0-jar\0/opt/app.jar", "app.jar"),
    ],
)
def test_only_the_name_of_a_script_is_kept(line: str, name: str) -> None:
    assert _script(line) == name
