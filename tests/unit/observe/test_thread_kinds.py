"""CPU of a JVM's threads by kind."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from leadline.observe.base import Frame
from leadline.observe.processes import ThreadKinds, decode, kind_of_thread
from leadline.observe.window import Recorded, cpu_per_transaction, waits


class FakeFiles:
    """Threads of process 7: name and ns of CPU, by id."""

    def __init__(self, threads: dict[str, tuple[str, int]]) -> None:
        self.threads = threads
        self.read = list[str]()

    def names(self, _folder: str) -> Sequence[str]:
        return list(self.threads)

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        contents = {}
        for path in paths:
            self.read.append(path)
            *_, thread, file = path.split("/")
            name, used = self.threads[thread]
            contents[path] = f"{name}\n".encode() if file == "comm" else f"{used} {used // 10} 6\n".encode()
        return contents


def test_names_of_hotspots_threads() -> None:
    names = ["C2 CompilerThre", "G1 Conc#0", "VM Thread", "VM Periodic Tas", "http-nio-8080-e", "Default Executo"]
    kinds = ["compiler", "collector", "collector", "jvm", "application", "application"]
    assert [kind_of_thread(name) for name in names] == kinds


def test_a_kind_keeps_what_ended_threads_used_and_names_are_read_once() -> None:
    files = FakeFiles({"8": ("http-nio", 1000), "9": ("C1 CompilerThre", 50)})
    kinds = ThreadKinds(files)  # type: ignore[arg-type]
    assert kinds.seen(7) == b"application 0\napplication.delayed 0\ncompiler 0\ncompiler.delayed 0\n"
    files.threads = {"8": ("http-nio", 1400), "9": ("C1 CompilerThre", 80), "10": ("http-nio", 300)}
    kinds.seen(7)
    files.threads = {"9": ("C1 CompilerThre", 90), "10": ("http-nio", 350)}
    assert kinds.seen(7) == b"application 450\napplication.delayed 45\ncompiler 40\ncompiler.delayed 4\n"
    assert sum(path.endswith("comm") for path in files.read) == 3


def test_they_become_responses(tmp_path: Path) -> None:
    frames, used = (
        [],
        {"application": 4 * 10**8, "application.delayed": 10**8, "collector": 10**8, "compiler": 5 * 10**7},
    )
    for second in range(11):
        entries = {
            "constants": b"ticks 100\npage 4096\n",
            "server/7/stat": f"7 (java) S 1 1 1 0 -1 0 0 0 0 0 {50 * second} 0 0 0 20 0 9 0 5 0 10".encode(),
            "server/7/kinds": "".join(f"{kind} {ns * second}\n" for kind, ns in used.items()).encode(),
        }
        frames.append(Frame(second, second * 10**9, second * 10**9, 0, 0, entries))
    decode(frames).write(tmp_path / "processes.parquet")
    responses = cpu_per_transaction(Recorded(tmp_path), [(2.0, 8.0)], throughput=100.0)
    assert responses["application_cpu_per_transaction"] == pytest.approx(4.0)
    assert responses["collector_cpu_per_transaction"] == pytest.approx(1.0)
    assert waits(Recorded(tmp_path), [(2.0, 8.0)], 100.0, 5.0) == {"run_delay": pytest.approx(1.0)}
    assert responses["cpu_per_transaction"] == pytest.approx(5.0)
    assert responses["steady_cpu_per_transaction"] == pytest.approx(4.5)
