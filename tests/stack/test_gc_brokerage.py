"""The leak test on the application itself: it finds the planted leak, and none where there is none."""

import subprocess
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from witnesses import matrix

from leadline.gcanalysis.summary import GcSummary, summary
from leadline.host.files import LocalFiles
from leadline.host.java import find_java, java_pid
from leadline.host.local import LocalHost
from leadline.model.study import StackChoice
from leadline.observe.gclog.files import parse
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions

pytestmark = pytest.mark.stack

LEAK = 64 << 10  # bytes a request
RATE = 60.0  # requests/s
COLLECTIONS = 20  # with rests of EVERY seconds
MORE = 30  # for the leak to be plain also where the machine stops for a second or two
EVERY = 0.35


def ask(url: str, stop: threading.Event, asked: list[int]) -> None:
    """One page after the other at an even pace."""
    due = time.monotonic()
    while not stop.is_set():
        with urllib.request.urlopen(url, timeout=20) as answer:
            answer.read()
        asked[0] += 1
        due = max(due + 1 / RATE, time.monotonic() - 1)
        stop.wait(max(0.0, due - time.monotonic()))


def collected(place: Path, properties: dict[str, str], collections: int) -> tuple[GcSummary, int, float]:
    """Figures of the server's log under load with a full collection now and then, requests, seconds."""
    options = StackOptions(properties=properties)
    stack = Stack(StackChoice.model_validate({"server": "tomcat"}), LocalHost(state=place / "state"), place, options)
    stack.provision(lambda _: None)
    stack.prepare_data(lambda _: None)
    directory = place / "trial"
    stack.reset_data(directory)
    asked, stop = [0], threading.Event()
    try:
        stack.up({"jvm.heap": 256 << 20, "jvm.collector": "serial"}, directory)
        pid = java_pid(LocalFiles(), stack.processes()["server"])
        client = threading.Thread(target=ask, args=(f"{stack.url()}/", stop, asked))
        client.start()
        began = time.monotonic()
        for _ in range(collections):
            time.sleep(EVERY)
            command = [str(find_java() / "bin" / "jcmd"), "-J-XX:TieredStopAtLevel=1", str(pid), "GC.run"]
            subprocess.run(command, check=True, timeout=60, capture_output=True)
        seconds = time.monotonic() - began
        stop.set()
        client.join(60)
    finally:
        stop.set()
        stack.down()
    return summary(parse(directory / "raw" / "gc.log")), asked[0], seconds


@matrix("a leak takes half a minute to show")
def test_a_planted_leak_is_found(tmp_path: Path) -> None:
    figures, asked, seconds = collected(tmp_path, {"brokerage.leak": str(LEAK)}, MORE)
    found = figures.leak
    print(f"{asked} requests in {seconds:.1f} s: {found}")
    assert found.verdict == "leak", found.sentence
    assert found.slope is not None
    assert found.slope == pytest.approx(LEAK * asked / seconds, rel=0.5)
    assert found.full_in_s is not None
    assert not figures.unknown


def test_no_leak_is_found_where_there_is_none(tmp_path: Path) -> None:
    figures, asked, seconds = collected(tmp_path, {}, COLLECTIONS)
    found = figures.leak
    print(f"{asked} requests in {seconds:.1f} s: {found}")
    assert asked > 100
    assert figures.full >= COLLECTIONS
    assert found.verdict in ("none", "levels off"), found.sentence
