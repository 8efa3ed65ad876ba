"""A real Slurm for tests: controller and nodes as processes of this machine, without systemd and without a service.

The nodes share this machine's kernel. Each has a state of leadline's own, and leadline a network of its own there, so
that every node has the host's lease to itself; their hooks put them back.

With ``kernels`` Slurm "boots" a node: its reboot program ends the daemon and starts it again, for some features with a
personality (personality(2)) in which the kernel calls itself 2.6: another name of the same kernel.

With ``far`` nodes are hosts of far_hosts.py as well: their jobs run in the network of that host, the others of a gang
are reached by its sshd, and hooks put that host back, too. Slurm's daemons stay in the network of this machine.

With ``machine`` the one node is another machine (booted_host.py), whose features are kernels of its GRUB.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from far_hosts import Far

_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scontrol", "unshare", "ip")
_CONTROLLER, _OF_MACHINE, _FIRST_NODE = 26817, 26818, 27001
_CONF = """
ClusterName=test
SlurmctldHost={machine}({controller_address})
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge/socket
CredType=cred/munge
StateSaveLocation={home}/state
SlurmctldPidFile={home}/run/slurmctld.pid
SlurmctldLogFile={home}/log/slurmctld.log
SlurmdPidFile={home}/run/slurmd.%n.pid
SlurmdLogFile={home}/log/slurmd.%n.log
SlurmdSpoolDir={home}/spool/%n
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ProctrackType=proctrack/{tracking}
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SwitchType=switch/none
ReturnToService=0
Prolog={home}/hook
Epilog={home}/hook
PrologFlags=Alloc
KillWait=30
SlurmdTimeout={timeout}
MessageTimeout={message}
BatchStartTimeout=120
MinJobAge=300
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_min_interval=0,batch_sched_delay=0
NodeName=DEFAULT CPUs={cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=500 {more}
{nodes}
PartitionName=all Nodes=ALL Default=YES OverSubscribe=EXCLUSIVE MaxTime=INFINITE DefaultTime=60 State=UP
"""
_CGROUP = """
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainCores=no
ConstrainRAMSpace=no
ConstrainDevices=no
"""
# What an administrator installs: a node that cannot be put back is drained, one that another uses is not.
_HOOK = """#!/bin/sh
export PATH={path}
test -e {home}/broken.$SLURMD_NODENAME && exit 1
{home}/leadline restore > {home}/log/hook.$SLURMD_NODENAME 2>&1
test $? -le 1 || exit 1
{also}
"""
_ALSO_FAR = """
{home}/leadline restore --host ssh:$SLURMD_NODENAME >> {home}/log/hook.$SLURMD_NODENAME 2>&1
test $? -le 1
"""
_KERNELS = """
NodeFeaturesPlugins=node_features/helpers
RebootProgram={home}/reboot
ResumeTimeout={boots}
"""
_HELPERS = """
BootTime={boots}
ExecTime={helps}
"""
# Sourced: the node whose daemon started this script.
_WHICH = """
node=$SLURMD_NODENAME process=$PPID
while [ -z "$node" ] && [ "$process" -gt 1 ]; do
  node=$(tr '\\0' ' ' < /proc/$process/cmdline | sed -n 's/^[^ ]*slurmd .*-N *\\([^ ]*\\).*/\\1/p')
  process=$(awk '/^PPid/ {{ print $2 }}' /proc/$process/status)
done
"""
_HELPER = """#!/bin/sh
{which}
if [ -n "$1" ]; then echo "$1" > {home}/run/next.$node; else cat {home}/run/feature.$node; fi
"""
_REBOOT = """#!/bin/sh
{which}
pid=$(cat {home}/run/slurmd.$node.pid)
export SLURM_CONF={home}/slurm.conf
setsid sh -c "
  sleep 0.5; kill $pid; while test -d /proc/$pid; do sleep 0.1; done
  test -e {home}/run/next.$node && mv {home}/run/next.$node {home}/run/feature.$node
  feature=\\$(cat {home}/run/feature.$node)
  echo $node \\$feature >> {home}/log/boots
  case \\$feature in
{cases}  *) exec slurmd -b -f {home}/slurm.conf -N $node;;
  esac" < /dev/null > {home}/log/reboot.$node 2>&1 &
"""
# Of a node that is another machine: this machine's files are its root here, its own one is that of its first process.
_MACHINE_HELPER = """#!/bin/sh
if [ -n "$1" ]; then echo "$1" > {home}/run/next; exit; fi
case $(uname -r) in
{cases}esac
"""
_MACHINE_REBOOT = """#!/bin/sh
echo n1 $(cat {home}/run/next) >> {home}/log/boots
case $(cat {home}/run/next) in
{cases}esac
exec chroot /proc/1/root sh -c "grub-reboot '$entry' && systemctl reboot"
"""
_MACHINE_SERVICE = """
mount -t tmpfs none /host{home}/munge
chroot /host munged --socket={home}/munge/socket --force --key-file={home}/munge.key --pid-file=/run/munge.pid \
  --log-file=/run/munge.log --seed-file=/run/munge.seed
export PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec chroot /host slurmd -D -f {home}/slurm.conf -N n1
"""
_MACHINE_HOOK = "#!/bin/sh\n"  # leadline's start takes a minute on an emulated CPU, and this is done twice a job
_MACHINE_LEADLINE = """#!/bin/sh
export LEADLINE_STATE=/run/leadline PYTHONPATH={checkout}
exec {python} -m leadline "$@"
"""
_LEADLINE = """#!/bin/sh
export LEADLINE_STATE={home}/leadline-$SLURMD_NODENAME PYTHONPATH={checkout}
exec unshare -n sh -c 'ip link set lo up; exec "$0" -m leadline "$@"' {python} "$@"
"""
_FAR_LEADLINE = """#!/bin/sh
export LEADLINE_STATE={home}/leadline-$SLURMD_NODENAME PYTHONPATH={checkout}
exec nsenter -t $(cat {home}/run/far.$SLURMD_NODENAME) -n {python} -m leadline "$@"
"""


@dataclass(frozen=True)
class Machine:
    """Another machine as a node, at ``address``; this one is ``here`` to it. ``entries``: of GRUB's menu, by release.

    ``boot`` starts it with the script that it runs at each boot.
    """

    address: str
    here: str
    entries: Mapping[str, str]
    boot: Callable[[str], AbstractContextManager[object]]


def missing() -> str:
    """Why there can be no Slurm here; empty where there can."""
    if os.geteuid() != 0:
        return "host: needs root for Slurm's nodes"
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            return f"{program} is not installed (slurm-wlm, munge, util-linux, iproute2)"
    return ""


@dataclass(frozen=True)
class Slurm:
    """``environment`` finds it; ``leadline`` is the program of the nodes."""

    home: Path
    nodes: tuple[str, ...]

    @property
    def leadline(self) -> Path:
        return self.home / "leadline"

    @property
    def environment(self) -> Mapping[str, str]:
        return {"SLURM_CONF": str(self.home / "slurm.conf")}

    def ask(self, *argv: str) -> str:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=30, env={**os.environ, **self.environment}
        )
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def states(self) -> dict[str, str]:
        """Of each node, as sinfo has it."""
        told = [line.split() for line in self.ask("sinfo", "-h", "-N", "-o", "%N %T").splitlines()]
        return {name: state for name, state, *_ in told}

    def broken(self, node: str) -> Path:
        """While this file is there, the node's hooks cannot put it back."""
        return self.home / f"broken.{node}"

    def boots(self) -> list[tuple[str, str]]:
        """Node and feature of each reboot so far."""
        file = self.home / "log" / "boots"
        return [tuple(line.split()) for line in file.read_text().splitlines()] if file.exists() else []

    def start(self, node: str) -> None:
        self.ask("slurmd", "-f", str(self.home / "slurm.conf"), "-N", node)

    def kill(self, node: str, steps: bool) -> None:
        """The node's daemon at once, and what its jobs started if ``steps``."""
        pid = int((self.home / "run" / f"slurmd.{node}.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        if steps:
            for found in _named(f"{self.home}/leadline-{node}"):
                with suppress(ProcessLookupError):
                    os.kill(found, signal.SIGKILL)


def _named(word: str) -> list[int]:
    """Processes that have the word in their environment, and those of Slurm that started them."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            with suppress(OSError):
                if f"LEADLINE_STATE={word}\0".encode() in (path / "environ").read_bytes():
                    found.append(int(path.name))
    return found


def _write_kernels(home: Path, names: tuple[str, ...], kernels: Mapping[str, str], machine: Machine | None) -> None:
    features = "".join(f"Feature={feature} Helper={home}/helper\n" for feature in kernels)
    boots, helps = (900, 60) if machine else (60, 10)
    (home / "helpers.conf").write_text(_HELPERS.format(boots=boots, helps=helps) + features)
    if machine is not None:
        told = "".join(f"  {release}) echo {feature};;\n" for feature, release in kernels.items())
        asked = "".join(f"  {feature}) entry='{machine.entries[release]}';;\n" for feature, release in kernels.items())
        for name, text, cases in (("helper", _MACHINE_HELPER, told), ("reboot", _MACHINE_REBOOT, asked)):
            (home / name).write_text(text.format(home=home, cases=cases))
            (home / name).chmod(0o755)
        return
    cases = "".join(
        f"  {feature}) exec {before} slurmd -b -f {home}/slurm.conf -N $node;;\n"
        for feature, before in kernels.items()
        if before
    )
    for name in names:
        (home / "run" / f"feature.{name}").write_text(f"{next(iter(kernels))}\n")
    for name, text in (("helper", _HELPER), ("reboot", _REBOOT)):
        (home / name).write_text(text.format(home=home, which=_WHICH.format(), cases=cases))
        (home / name).chmod(0o755)


@contextmanager
def slurm(
    home: Path,
    count: int,
    kernels: Mapping[str, str] | None = None,
    far: Mapping[str, Far] | None = None,
    machine: Machine | None = None,
) -> Iterator[Slurm]:
    """So many nodes, ``n1`` on, all idle. ``kernels``: features of each, the first active, with what stands before
    the daemon's command once it was booted. ``far``: the host that each node is. ``machine``: what the one node is,
    its ``kernels`` releases by feature.
    """
    for folder in ("state", "run", "log", "spool", "munge"):
        (home / folder).mkdir(parents=True)
    names = tuple(f"n{number}" for number in range(1, count + 1))
    here = os.uname().nodename
    address = machine.address if machine else "127.0.0.1"
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={'host' if machine else here} NodeAddr={address} Port={_FIRST_NODE + at}"
        for at, name in enumerate(names)
    )
    tracking = "cgroup" if Path("/sys/fs/cgroup/freezer").is_dir() and not machine else "linuxproc"
    more = f"State=UNKNOWN Features={','.join(kernels)}" if kernels else "State=UNKNOWN"
    conf = _CONF.format(
        machine=here,
        controller=_OF_MACHINE if machine else _CONTROLLER,
        controller_address=machine.here if machine else "127.0.0.1",
        home=home,
        tracking=tracking,
        nodes=nodes,
        more=more,
        timeout=600 if machine else 10,
        message=100 if machine else 10,
        cpus=1 if machine else 2,
    )
    if kernels:
        conf += _KERNELS.format(home=home, boots=900 if machine else 60)
        _write_kernels(home, names, kernels, machine)
    (home / "slurm.conf").write_text(conf)
    (home / "cgroup.conf").write_text(_CGROUP)
    checkout = Path(__file__).resolve().parents[2]
    for name, host in (far or {}).items():
        (home / "run" / f"far.{name}").write_text(f"{host.init}\n")
    also = _ALSO_FAR.format(home=home) if far else ""
    program = _MACHINE_LEADLINE if machine else _FAR_LEADLINE if far else _LEADLINE
    for name, text in (("hook", _MACHINE_HOOK if machine else _HOOK), ("leadline", program)):
        script = text.format(home=home, path=os.environ["PATH"], checkout=checkout, python=sys.executable, also=also)
        (home / name).write_text(script)
        (home / name).chmod(0o755)
    (home / "munge.key").write_bytes(os.urandom(64))
    (home / "munge.key").chmod(0o400)
    home.chmod(0o755)
    found = Slurm(home, names)
    munge = [f"--{kind}-file={home}/munge.{kind}" for kind in ("key", "pid", "log", "seed")]
    subprocess.run(["munged", f"--socket={home}/munge/socket", "--force", *munge], check=True, timeout=30)
    booted = ExitStack()
    try:
        if machine is not None:
            booted.enter_context(machine.boot(_MACHINE_SERVICE.format(home=home)))
        found.ask("slurmctld", "-c", "-f", str(home / "slurm.conf"))
        for name in names if machine is None else ():
            found.start(name)
        deadline = time.monotonic() + (600 if machine else 60)
        while set(states := found.states().values()) != {"idle"}:
            assert time.monotonic() < deadline, f"nodes are {states}: {(home / 'log' / 'slurmctld.log').read_text()}"
            time.sleep(0.1)
        yield found
    finally:
        booted.close()
        for name in names:
            for left in _named(f"{home}/leadline-{name}"):
                with suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)
        for file in [*(home / "run").glob("*.pid"), home / "munge.pid"]:
            with suppress(OSError, ValueError):
                os.kill(int(file.read_text()), signal.SIGKILL)
