"""Recordings of a user's own, compared: a planted loop in a real JVM's recordings, folded stacks, bad input."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.host.java import find_java, java_environment, java_homes
from leadline.model.errors import LeadlineError, UsageError
from leadline.observe.stacks import Kind, stacks_of

METHODS, PLANTED, SAMPLES = 40, 17, 300
USUAL, SLOW = "main;a.Orders.price 100\nmain;a.Other.work 900\n", "main;a.Orders.price 150\nmain;a.Other.work 900\n"
RECORD = f"""
    public static void main(String[] args) throws Exception {{
        extra = Integer.parseInt(args[0]);
        var samples = new java.util.concurrent.atomic.AtomicInteger();
        try (var recording = new jdk.jfr.Recording(); var stream = jdk.jfr.consumer.EventStream.openRepository()) {{
            recording.enable("jdk.ExecutionSample").withPeriod(java.time.Duration.ofMillis(1));
            stream.onEvent("jdk.ExecutionSample", event -> samples.incrementAndGet());
            recording.start();
            stream.startAsync();
            long x = 1;
            while (samples.get() < {SAMPLES}) x = handle(x);
            recording.dump(java.nio.file.Path.of(args[1]));
            System.out.println(x);
        }}
    }}
"""


def _shop(folder: Path) -> None:
    """A program of forty methods alike; its arguments are how often one of them does its work beside once, and a file.

    It works until its recording has enough samples: a busy host takes fewer in a second.
    """
    methods = "\n".join(
        f"static long m{at}(long x) {{ for (int e = 0; e <= {'extra' if at == PLANTED else '0'}; e++) x = work(x); "
        "return x; }"
        for at in range(METHODS)
    )
    methods += "static long work(long x) { for (int k = 0; k < 20_000; k++) x = x * 31 + (x >>> 7) + k; return x; }"
    calls = "\n".join(f"x = m{at}(x);" for at in range(METHODS))
    (folder / "Shop.java").write_text(
        f"public class Shop {{ static int extra; {methods}\n static long handle(long x) {{ {calls} return x; }}\n"
        f"{RECORD} }}\n"
    )
    subprocess.run([find_java() / "bin" / "javac", "Shop.java"], cwd=folder, check=True, env=java_environment())


def _record(folder: Path, name: str, extra: int) -> Path:
    file = folder / name
    frames = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints"]  # as -XX:StartFlightRecording would set it
    command = [find_java() / "bin" / "java", "-XX:+UseSerialGC", *frames, "-cp", folder, "Shop", str(extra), file]
    subprocess.run(command, check=True, capture_output=True, env=java_environment(), timeout=120)
    return file


def _explain(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    assert done.exit_code == 0, f"{done.output}{done.exception}"
    return done.output


def test_a_planted_loop_in_one_of_forty_methods_is_named(tmp_path: Path) -> None:
    _shop(tmp_path)
    before = [_record(tmp_path, f"before{at}.jfr", 0) for at in range(4)]
    after = [_record(tmp_path, f"after{at}.jfr", 12) for at in range(4)]
    document = json.loads(_explain(*before, "--", *after, "--json"))
    more = [row for row in document["paths"] if row["named"] and row["change"] > 0]
    assert f"Shop.m{PLANTED}" in more[0]["path"]
    assert {name for row in more for name in row["path"] if name.startswith("Shop.m")} <= {
        f"Shop.m{PLANTED}",
        "Shop.main",
    }
    low, high = more[0]["interval"]
    share = 100 * (13 / 52 - 1 / 40)
    assert 0.4 * share < low < high < 1.6 * share
    single = _explain(before[0], "--", after[0], "--count", 300)
    assert "One pair of recordings: what of it is noise is not known." in single


def _written(folder: Path, **texts: str) -> list[Path]:
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return [folder / f"{name}.txt" for name in texts]


def test_folded_stacks_are_compared(tmp_path: Path) -> None:
    before, after = _written(tmp_path, before=USUAL, after=SLOW)
    document = json.loads(_explain(before, "--", after, "--count", "10", "--json"))
    assert document["total"]["change"] == pytest.approx(5000)
    assert document["total"]["interval"] is None
    assert [row["path"] for row in document["carriers"]] == [["main", "a.Orders.price"]]
    assert "| +5,000 |" in _explain(before, "--", after, "--count", "10", "--md")
    _explain(before, "--", after, "--folded", tmp_path / "out.folded")
    assert re.search(r"main;a.Orders.price 100 \d+\n", (tmp_path / "out.folded").read_text())


def test_replicates_have_intervals_and_pairs_are_blocks(tmp_path: Path) -> None:
    files = _written(tmp_path, a=USUAL, b=USUAL.replace("900", "903"), c=SLOW, d=SLOW.replace("900", "905"))
    for options in ([], ["--paired"]):
        document = json.loads(_explain(*files[:2], "--", *files[2:], "--count", "10", *options, "--json"))
        assert document["blocks"] == (2 if options else 0)
        assert document["total"]["interval"] is not None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"main;a twelve\n", r"line 1: 'main;a twelve' is no folded stack; write: main;a;b 12"),
        (b"main;a 1\nmain;a nan\n", r"line 2: 'main;a nan'"),
        (b"main;a -1\n", r"line 1"),
        (b"12\n", r"line 1"),
        (b"", "has no sample"),
        (b"\x1f\x8b\x08", "cannot be read as a profile of pprof: it is cut off"),
    ],
)
def test_what_is_no_recording_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        stacks_of([file], Kind.CPU)


def test_a_damaged_recording_is_named(tmp_path: Path) -> None:
    file = tmp_path / "damaged.jfr"
    file.write_bytes(b"FLR\0" + bytes(100))
    with pytest.raises(LeadlineError, match=r"damaged\.jfr cannot be read"):
        stacks_of([file], Kind.CPU)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{a}"], "two kinds of recordings"),
        (["{a}", "--"], "two kinds of recordings"),
        (["{a}", "--", "{a}"], "given twice"),
        (["{a}", "--", "{b}", "{c}", "--paired"], "1 recordings cannot be paired with 2"),
        (["{a}", "--", "{b}", "{c}", "--count", "1", "--count", "2"], "--count is given 2 times"),
        (["{a}", "--", "{d}"], "there is no such file"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    names = dict(zip("abc", _written(tmp_path, a=USUAL, b=SLOW, c=SLOW), strict=True)) | {"d": tmp_path / "none"}
    done = CliRunner().invoke(app, ["explain", *(word.format(**names) for word in arguments)])
    assert isinstance(done.exception, UsageError)
    assert message in str(done.exception)


CLOCK = """
public class Clock {
    public static void main(String[] args) throws Exception {
        var file = java.nio.file.Path.of(args[0]);
        try (var recording = new jdk.jfr.Recording()) {
            recording.enable("jdk.CPUTimeSample").with("throttle", "1 ms");
            recording.start();
            var threads = new Thread[4];
            for (int at = 0; at < threads.length; at++) (threads[at] = new Thread(Clock::work)).start();
            for (Thread thread : threads) thread.join();
            recording.dump(file);
        }
        long sum = 0, shortest = Long.MAX_VALUE;
        for (var event : jdk.jfr.consumer.RecordingFile.readAllEvents(file)) {
            if (!event.getEventType().getName().equals("jdk.CPUTimeSample")) continue;
            long period = event.getDuration("samplingPeriod").toNanos();
            sum += period;
            shortest = Math.min(shortest, period);
        }
        System.out.println(sum + " " + shortest);
    }

    static void work() {
        long x = 1;
        for (int k = 0; k < 300_000_000; k++) x = x * 31 + (x >>> 7) + k;
        if (x == 0) System.out.println();
    }
}
"""


def test_a_sample_after_several_periods_stands_for_as_many(tmp_path: Path) -> None:
    java = next((home for home in java_homes() if home.jdk and home.major >= 25), None)
    if java is None:
        pytest.skip("host: no JDK 25, which samples CPU time")
    (tmp_path / "Clock.java").write_text(CLOCK)
    file, environment = tmp_path / "clock.jfr", java_environment()
    command = [java.path / "bin" / "java", tmp_path / "Clock.java", file]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=120)
    period_sum, shortest = map(int, done.stdout.split())
    (recording,) = stacks_of([file], Kind.CPU)
    assert recording.ns == shortest
    assert sum(recording.samples.values()) == pytest.approx(period_sum / shortest, rel=0.01)
