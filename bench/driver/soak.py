"""Runs leadline-load at a high rate for a long time and tests whether its memory and open files stay flat and whether
all goes well. Loopback only. `python bench/driver/soak.py [SECONDS, default 3600] [--rate 2000] [--https 1.1|2]
[--connections shared]`.

Sessions of three transactions arrive at random; each has cookies, a connection and an end, so everything that could
leak is made and given up all the time. Without TLS the server stands still for 0.5 s every 5 s: a thousand sessions and
more pile up and go again and again, so that a neighbour's load, which lets some pile up too, makes no trend.

Once a second the resident memory, the open files and the live sessions are read; each session has one connection, so
files beyond the sessions are what could leak (with shared connections all files, which their most bounds). The trend is
the slope of the means of 20 blocks after the first fifth of the run, with a 95 % interval (least squares, Student's t).
Flat is what has zero in its interval, or surely grew by less than 1 MiB of memory or one file. Exit code 0 when both
are flat, nothing failed, every planned session began and Little's law holds within 5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import linregress
from scipy.stats import t as student

ROOT = Path(__file__).parents[2]
RELEASE = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "driver" / "target")) / "release"
PORT = 16001
BLOCKS = 20
SCENARIO = """
scenario: soak
arrivals: { session_length: 3 }
pause: { shape: exponential, mean: 20ms }
variables: { token: "${hex:32}" }
headers: { X-Token: "${token}" }
mix: { get: 3, post: 1 }
transactions:
  get: [{ get: "/page?id=${random:1:1000}", check: { contains: x } }]
  post: [{ post: /form, form: { text: "${hex:200}" } }]
"""


@dataclass(frozen=True)
class Sample:
    second: float
    memory: float  # KiB
    files: int
    sessions: int


@dataclass(frozen=True)
class Trend:
    mean: float
    growth: float  # over the part of the run looked at
    low: float
    high: float


def sample(pid: int, start: float, sessions: int) -> Sample:
    status = Path(f"/proc/{pid}/status").read_text()
    memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return Sample(time.monotonic() - start, memory, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()), sessions)


def trend(samples: list[Sample], values: list[float]) -> Trend:
    """Growth from the first to the last sample with its 95 % interval, from the means of equal blocks."""
    size = len(samples) // BLOCKS
    blocks = [slice(at * size, (at + 1) * size) for at in range(BLOCKS)]
    times = [statistics.mean(s.second for s in samples[block]) for block in blocks]
    means = [statistics.mean(values[block]) for block in blocks]
    if max(means) == min(means):
        return Trend(means[0], 0.0, 0.0, 0.0)
    fit = linregress(times, means)
    length = samples[-1].second - samples[0].second
    half = float(student.ppf(0.975, BLOCKS - 2)) * fit.stderr * length
    growth = fit.slope * length
    return Trend(statistics.mean(values), growth, growth - half, growth + half)


def run(seconds: int, rate: float, https: str | None, connections: str) -> tuple[list[Sample], dict[str, Any]]:
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        scenario, out = Path(scratch, "soak.yaml"), Path(scratch, "out")
        scenario.write_text(SCENARIO)
        url = f"{'https' if https else 'http'}://127.0.0.1:{PORT}/"
        argv = [
            str(RELEASE / "leadline-load"),
            "run",
            str(scenario),
            "--url",
            url,
            "--out",
            str(out),
            "--verdict",
            "file",
        ]
        argv += ["--steady", f"{seconds}s", "--arrivals", "poisson", "--rate", str(rate)]
        argv += ["--max-sessions", "8000", "--priority", "normal", "--progress", "json", "--connections", connections]
        argv += ["--insecure", "--http", https] if https else []
        argv += ["--max-connections", "500"] if connections == "shared" else []
        target = ["secure_server"] if https else ["known_answers", "--freeze-ms", "500", "--period-ms", "5000"]
        path = str(RELEASE / "examples" / target[0])
        server = subprocess.Popen([path, "--port", str(PORT), *target[1:]], stdout=subprocess.DEVNULL)
        try:
            time.sleep(0.5)
            driver = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
            assert driver.stdout is not None
            samples = []
            try:
                for line in driver.stdout:
                    found = json.loads(line)
                    if found["phase"] == "steady" and driver.poll() is None:
                        samples.append(sample(driver.pid, start, int(found["sessions"])))
            finally:
                if driver.poll() is None:
                    driver.send_signal(signal.SIGTERM)
                code = driver.wait()
            if code != 0:
                raise SystemExit(f"leadline-load ended with code {code}")
            return samples, json.loads((out / "summary.json").read_text())
        finally:
            server.terminate()
            server.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=int, nargs="?", default=3600)
    parser.add_argument("--rate", type=float, default=2000.0, help="sessions a second")
    parser.add_argument("--https", choices=["1.1", "2"], help="HTTP of this version over TLS, a handshake a session")
    parser.add_argument("--connections", choices=["session", "shared"], default="session")
    options = parser.parse_args()
    if options.seconds < 2 * BLOCKS:
        parser.error(f"at least {2 * BLOCKS} seconds")
    build = ["cargo", "build", "--release", "--locked", "--bins", "--examples"]
    subprocess.run([*build, "--manifest-path", str(ROOT / "driver" / "Cargo.toml")], check=True)
    samples, summary = run(options.seconds, options.rate, options.https, options.connections)
    settled = samples[len(samples) // 5 :]
    if len(settled) < BLOCKS:
        raise SystemExit(f"only {len(settled)} samples")
    requests, total = summary["requests"], summary["arrivals_planned"]
    print(f"{options.seconds} s at {options.rate:g} sessions/s: {total} sessions, {requests['count']} requests, ")
    print(f"{requests['connects']} connections, {requests['tls_handshakes']} TLS handshakes, ")
    print(f"errors {summary['errors']}, dropped {summary['dropped']}, {requests['reconnects']} connections made again")
    print("\n".join(["", *summary["driver"]["evidence"]]))
    law = summary["littles_law"]["relative_error"]
    well = not summary["errors"] and not summary["dropped"] and summary["arrivals_actual"] == total
    well &= law is not None and abs(law) < 0.05
    print(f"\nAll planned sessions began: {summary['arrivals_actual']} of {total}; off Little's law by {law:.2%}.")
    print(f"\n| | mean | growth in {settled[-1].second - settled[0].second:.0f} s (95 % interval) | flat |")
    print("| --- | --- | --- | --- |")
    shared = options.connections == "shared"

    def own(at: Sample) -> int:
        return 0 if shared else at.sessions

    rows = [
        ("resident memory, KiB", [s.memory for s in settled], 1024.0),
        (f"open files{'' if shared else ' beyond live sessions'}", [float(s.files - own(s)) for s in settled], 1.0),
    ]
    flat = True
    for name, values, allowed in rows:
        found = trend(settled, values)
        good = found.low <= 0 or found.high < allowed
        flat &= good
        print(
            f"| {name} | {found.mean:.1f} | {found.growth:+.1f} ({found.low:+.1f} to {found.high:+.1f}) | "
            f"{'yes' if good else 'no'} |"
        )
    most = max(s.sessions for s in settled)
    mean = statistics.mean(s.sessions for s in settled)
    print(f"\nLive sessions: {mean:.0f} on average, {most} at most when looked at.")
    return 0 if flat and well else 1


if __name__ == "__main__":
    raise SystemExit(main())
