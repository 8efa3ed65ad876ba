"""What a web server in front costs: CPU of its processes and of Tomcat for a thousand requests, by level.

    python bench/web/cost.py [--seconds 4] [--rounds 2] [--rate 30]

One Tomcat and one PostgreSQL run throughout; variants take turns in front of them, in another order each round, under
the same rate of sessions of the built-in scenario brokerage-static. CPU is what the kernel counted for whole process
groups (ticks of 10 ms) by the requests of the run; each line has the mean over the rounds and every round.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from leadline.host.httpd import find_httpd
from leadline.host.local import LocalHost
from leadline.load.driver import DriverRun, read_summary
from leadline.model.knob import Level
from leadline.model.study import StackChoice
from leadline.model.workload import Workload
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions

VARIANTS: dict[str, dict[str, Level]] = {
    "none": {},
    "plain": {},
    "a connection for each request": {"web.upstream_keepalive": 0},
    "over a Unix socket": {"web.upstream": "unix"},
    "static files": {"web.static": True},
    "compression": {"web.compression": True},
    "TLS": {"web.tls": True},
    "TLS and HTTP/2": {"web.tls": True, "web.http2": True},
    "access log": {"web.access_log": True},
}


def cpu(stack: Stack) -> dict[str, float]:
    return {role: sum(process.cpu_seconds()) for role, process in stack.processes().items()}


def measure(stack: Stack, levels: dict[str, Level], workload: Workload, seed: int, place: Path) -> dict[str, float]:
    """CPU ms of each role for a thousand requests."""
    if levels:
        stack.start_web(levels, place)
    before = cpu(stack)
    certificate = stack.certificate()
    trusted = place / "tls.crt" if certificate else None
    if trusted and certificate:
        trusted.write_text(certificate)
    run = DriverRun(workload, stack.url(), seed, place / f"driver-{seed}", {}, None, trusted)
    subprocess.run(run.argv(), stdout=subprocess.DEVNULL, check=True)
    found = read_summary(run.out)
    if found.errors:
        sys.exit(f"errors: {dict(found.error_samples)}")
    used = {role: 1e6 * (seconds - before[role]) / found.requests.count for role, seconds in cpu(stack).items()}
    stack.stop_web()
    return used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rate", type=float, default=30, help="sessions a second, of about 125 requests")
    options = parser.parse_args()
    servers = ["nginx", *(["httpd"] if find_httpd()[0] else [])]
    cases: dict[str, dict[str, Level]] = {"none": {}} | {
        f"{server}, {name}": {"web.server": server, **levels}
        for server in servers
        for name, levels in VARIANTS.items()
        if name != "none"
    }
    workload = Workload.model_validate(
        {
            "scenario": "brokerage-static",
            "arrivals": "constant",
            "rate": options.rate,
            "ramp_up": 0.5,
            "steady": options.seconds,
            "ramp_down": 1,
            "variables": {},
        }
    )
    found: dict[str, list[dict[str, float]]] = {name: [] for name in cases}
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        wanted = StackOptions(web_servers=servers)
        stack = Stack(StackChoice(server="tomcat"), LocalHost(state=place / "state"), place / "home", wanted)
        stack.provision(print)
        stack.prepare_data(print)
        stack.reset_data(place)
        try:
            # The socket is there for the variants that use it.
            stack.up({"web.server": "nginx", "web.upstream": "unix"}, place)
            stack.stop_web()
            seed = 1
            measure(stack, {}, workload, seed, place)  # what is cold is compiled
            for number in range(options.rounds):
                order = list(cases)
                random.Random(number).shuffle(order)
                for name in order:
                    seed += 1
                    found[name].append(measure(stack, cases[name], workload, seed, place))
        finally:
            stack.down()
    print(f"{'CPU ms for 1,000 requests':40} web server (rounds)         Tomcat (rounds)")
    for name, rounds in found.items():
        cells = []
        for role in ("web", "server"):
            values = [each[role] for each in rounds if role in each]
            each_round = ", ".join(f"{value:.0f}" for value in values)
            mean = f"{sum(values) / len(values):.0f} ({each_round})" if values else "-"
            cells.append(f"{mean:27}")
        print(f"{name:40} {' '.join(cells).rstrip()}")


if __name__ == "__main__":
    main()
