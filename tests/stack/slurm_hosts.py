"""A Slurm of several virtual hosts on this machine, without systemd: munged, slurmctld and a slurmd for each host."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
_TOOLS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scancel", "scontrol")


def missing() -> str:
    """Why there can be no Slurm here; empty where there can be one."""
    if os.getuid():
        return "Slurm's daemons need root"
    lacking = [tool for tool in _TOOLS if shutil.which(tool, path=_PATH) is None]
    if lacking:
        return f"Slurm is not installed: no {', '.join(lacking)} (slurm-wlm, slurm-wlm-basic-plugins, munge)"
    try:
        socket.getaddrinfo("127.0.0.1", 0, flags=socket.AI_ADDRCONFIG)
    except OSError as error:
        return f"Slurm resolves no address where the loopback's is the only one: {error}"
    return ""


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def until(true: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@dataclass
class Slurm:
    place: Path
    names: list[str]
    environment: dict[str, str]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *words: str) -> None:
        with (self.place / f"{name}.out").open("ab") as out:
            self.processes[name] = subprocess.Popen(
                words, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )

    def start_controller(self, *options: str) -> None:
        self.start("slurmctld", "slurmctld", "-D", *options)

    def start_node(self, name: str) -> None:
        self.start(name, "slurmd", "-D", "-N", name)

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes.pop(name).wait()

    def kill_supervisor(self, job: int) -> None:
        """Of a job's process, which lives on: as where a host's daemons are lost."""
        status = Path(f"/proc/{job}/status").read_text()
        parent = next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:"))
        assert b"slurmstepd" in Path(f"/proc/{parent}/cmdline").read_bytes()
        os.kill(int(parent), signal.SIGKILL)

    def run(self, *words: str) -> str:
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    def states(self) -> dict[str, str]:
        try:
            lines = self.run("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
        except subprocess.CalledProcessError:
            return {}
        return dict(line.split() for line in lines)

    def said(self) -> str:
        return "\n".join(
            f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in self.place.glob("*.out")
        )


@contextmanager
def slurm(place: Path, nodes: int, environment: dict[str, str]) -> Iterator[Slurm]:
    """``environment``: of the daemons, and so of the jobs."""
    controller, *ports = free_ports(nodes + 1)
    names = [f"n{number}" for number in range(1, nodes + 1)]
    place.chmod(0o755)
    for folder in ("state", "spool", "munge"):
        (place / folder).mkdir(parents=True)
        (place / folder).chmod(0o700 if folder != "munge" else 0o755)
    key = place / "munge" / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    host = platform.node().partition(".")[0]
    lines = [
        "ClusterName=test",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={controller}",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=socket={place}/munge/socket",
        "CredType=cred/munge",
        f"StateSaveLocation={place}/state",
        f"SlurmctldPidFile={place}/slurmctld.pid",
        f"SlurmdPidFile={place}/slurmd.%n.pid",
        f"SlurmctldLogFile={place}/slurmctld.log",
        f"SlurmdLogFile={place}/slurmd.%n.log",
        f"SlurmdSpoolDir={place}/spool/%n",
        "AccountingStorageType=accounting_storage/none",
        "JobAcctGatherType=jobacct_gather/none",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "MpiDefault=none",
        "ReturnToService=1",
        "SlurmctldTimeout=30",
        "SlurmdTimeout=300",
        "MinJobAge=300",
        "MessageTimeout=30",
        "SchedulerParameters=bf_interval=2,sched_min_interval=0,batch_sched_delay=0",
        "SlurmdParameters=config_overrides",
        "NodeName=DEFAULT CPUs=1 RealMemory=100 State=UNKNOWN",
        *(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port}"
            for name, port in zip(names, ports, strict=True)
        ),
        f"PartitionName=lab Nodes={','.join(names)} Default=YES OverSubscribe=EXCLUSIVE MaxTime=INFINITE State=UP",
    ]
    (place / "slurm.conf").write_text("\n".join(lines) + "\n")
    known = {**environment, "PATH": _PATH, "SLURM_CONF": f"{place}/slurm.conf"}
    cluster = Slurm(place, names, known)
    try:
        files = {name: f"{place}/munge/{name}" for name in ("key", "socket", "pid", "log", "seed")}
        options = [f"--{name}-file={files[name]}" for name in ("key", "pid", "log", "seed")]
        cluster.start("munged", "munged", "--foreground", "--force", f"--socket={files['socket']}", *options)
        until(lambda: Path(files["socket"]).exists(), 20, "munged did not start")
        cluster.start_controller("-c")
        for name in names:
            cluster.start_node(name)
        until(lambda: set(cluster.states().values()) == {"idle"}, 60, f"hosts are not idle: {cluster.said()}")
        yield cluster
    finally:
        for name in ("slurmctld", *names, "munged"):
            if name in cluster.processes:
                cluster.kill(name)
