"""Loads of that server: of random mixes of outcomes, and while it is frozen."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from bench.outcomes.record import differences, read_rows
from bench.outcomes.server import Freeze, Server, serving
from leadline.load.driver import find_binary
from leadline.load.result import DriverResult, read_summary
from leadline.load.series import started_unix_ns

KINDS = ("ok", "bad", "slow", "never", "close")
_TRIES = 20  # of a load, until its drivers start in step


def scenario(weights: dict[str, int], pause_ms: int, directory: Path) -> Path:
    """A scenario of single requests, and of one transaction of two steps whose second one is a kind of its own."""
    lines = ["scenario: outcomes"]
    if pause_ms:
        lines.append(f"pause: {{ kind: think, shape: exponential, mean: {pause_ms}ms }}")
    lines.append(f"mix: {{ {', '.join(f'{name}: {weight}' for name, weight in weights.items())} }}")
    lines.append("transactions:")
    for name in weights:
        steps = ["ok", name.removeprefix("two-")] if name.startswith("two-") else [name]
        lines.append(f"  {name}: [ {', '.join(f'{{ get: /{step} }}' for step in steps)} ]")
    path = directory / "outcomes.scenario.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(path: Path, url: str, out: Path, options: list[str]) -> DriverResult:
    """The result of a load; every transaction is recorded. A load whose drivers did not start in step, as this host was
    too busy, is made again. Raises RuntimeError with the driver's words where there is no result.
    """
    argv = [str(find_binary()), "run", str(path), "--url", url, "--out", str(out), "--verdict", "exit"]
    for _ in range(_TRIES):
        ended = subprocess.run(
            [*argv, "--transactions", *options],
            **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": 60, "check": False},
        )
        if "are in step" not in ended.stdout:
            break
    if ended.returncode not in (0, 1) or not (out / "summary.json").exists():
        raise RuntimeError(f"{' '.join(argv)}: {ended.stdout}")
    return read_summary(out)


def mixed(directory: Path, server: Server, seed: int) -> list[str]:
    """A load of a random mix, by one driver or several, open or closed; what differs from its record."""
    rng = random.Random(seed)
    directory.mkdir(parents=True, exist_ok=True)
    weights = {kind: rng.choice((0, 1, 1, 2, 5, 20)) for kind in KINDS} | {"two-never": rng.choice((0, 0, 1, 3))}
    weights = {name: weight for name, weight in weights.items() if weight} or {"never": 1}
    path = scenario(weights, rng.choice((0, 20, 100)), directory)
    options = [
        "--seed",
        str(seed),
        "--timeout",
        rng.choice(("300ms", "1100ms")),
        "--ramp-up",
        rng.choice(("0s", "1s", "500ms")),
    ]
    options += ["--steady", rng.choice(("2s", "3s")), "--ramp-down", rng.choice(("0s", "1s"))]
    processes = rng.choice((1, 1, 2, 3))
    options += ["--processes", str(processes)] if processes > 1 else []
    if rng.random() < 0.5:
        options += ["--arrivals", rng.choice(("constant", "poisson")), "--rate", str(rng.choice((5, 60, 300)))]
        options += ["--max-sessions", str(rng.choice((3, 30, 300)))]
    else:
        options += ["--users", str(rng.choice((1, 3, 20)))]
    if rng.random() < 0.3:
        options += ["--windows", "0s-1s,2s-3s"]
    out = directory / "out"
    result = run(path, server.url, out, options)
    parts = sorted((out / "drivers").iterdir()) if processes > 1 else [out]
    rows = read_rows(parts)
    windows = [sorted(rng.sample(range(5), rng.randint(1, 5))) for _ in range(8)] + [list(range(30))]
    found = differences(out, rows, windows)
    begin, end = result.phases.steady
    steady = [row for row in rows if begin <= row.due_ns / 1e9 < end]
    counts = (sum(row.outcome == "ok" for row in steady), sum(row.outcome == "dropped" for row in steady))
    if (result.all.ok, result.all.dropped) != counts:
        found.append(f"summary.json has {result.all.ok} and {result.all.dropped} dropped, recorded {counts}")
    if started_unix_ns(out) is None:
        found.append("no start")
    return [f"seed {seed}: {one}" for one in found]


def frozen(directory: Path, freeze: Freeze, seed: int) -> list[str]:
    """A load of three seconds of a server that freezes; what is wrong with its figures."""
    rng = random.Random(seed)
    directory.mkdir(parents=True, exist_ok=True)
    path = scenario({"ok": 1}, rng.choice((0, 5)), directory)
    arrivals = rng.choice((["--users", "5"], ["--arrivals", "constant", "--rate", "50", "--max-sessions", "400"]))
    out = directory / "out"
    steady = 3
    options = ["--steady", f"{steady}s", "--ramp-up", "0s", "--timeout", "1500ms", *arrivals]
    with serving(freeze) as server:
        result = run(path, server.url, out, options)
    rows = read_rows([out])
    found = differences(out, rows, [list(range(steady)), *([second] for second in range(steady))])
    lasting = freeze.seconds is None or freeze.second + freeze.seconds > steady + 1.5
    assert result.verdict is not None
    if lasting and freeze.second < steady and result.verdict.passed:
        found.append(f"{freeze} passed: {result.all}")
    if lasting and freeze.second < steady and not result.all.unanswered:
        found.append(f"{freeze}: nothing was unanswered")
    least = min(freeze.seconds or 1.5, 1.5) * 1000 - 200
    if freeze.second < steady and (result.all.response_ms.max or 0) < least:
        found.append(f"{freeze}: no response took {least} ms")
    return [f"{arrivals}: {one}" for one in found]
