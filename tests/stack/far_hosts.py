"""Far hosts for tests: a real sshd in network, process, mount and host-name namespaces, with a root of its own.

Its root is an overlay over this one, whose changes are in memory. The directories in ``hidden`` are empty there: what
reads a file of this host by mistake finds nothing. Its kernel is this one's.
"""

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

BENCHMARKING = IPv4Address("198.18.0.0")  # RFC 2544: a /15 for networks between devices under test
_TURNS = itertools.count()
_OWN = ("sshd", "ps -eo", "sleep 0.1", "mount --make-rprivate")
_SSHD = "/usr/sbin/sshd"
_INSIDE = """
set -e
mount --make-rprivate /
mount -t tmpfs none {work}
mkdir {work}/upper {work}/work {work}/root
mount -t overlay overlay -o lowerdir=/,upperdir={work}/upper,workdir={work}/work {work}/root
r={work}/root
mount -t proc proc $r/proc
mount --rbind /sys $r/sys
mount --rbind /dev $r/dev
for each in run tmp var/tmp root {hidden}; do
  mkdir -p $r/$each && mount -t tmpfs -o mode=755 none $r/$each
done
chmod 1777 $r/tmp $r/var/tmp
mkdir -p -m 700 $r/run/sshd $r/root/.ssh
cp {keys}/id.pub $r/root/.ssh/authorized_keys
mkdir -p $r/keys && cp {keys}/host $r/keys/host && chmod 600 $r/keys/host
mkdir -p $r/usr/local/bin
{python}
hostname {name}
echo '{known}' >> $r/etc/hosts
ip link set lo up
for try in $(seq 100); do ip link show {link} > /dev/null 2>&1 && break; sleep 0.05; done
ip addr add {address}/{bits} dev {link}
ip link set {link} up
chroot $r {sshd} -D -e -f /dev/null -h /keys/host -p 22 -o PidFile=none -o UsePAM=no -o StrictModes=no \
  -o PasswordAuthentication=no -o PermitRootLogin=yes -o MaxSessions=50 \
  -o AuthorizedKeysFile=/root/.ssh/authorized_keys &
while true; do wait; sleep 0.1; done  # the first process takes orphans
"""


@dataclass(frozen=True)
class Far:
    """``name``: an alias that ``ssh`` on the path knows; ``init``: the host's first process, as this one numbers it."""

    name: str
    address: str
    init: int
    root: Path

    def _enter(self, command: Sequence[str]) -> list[str]:
        where = ["-t", str(self.init), "-n", "-p", "-m", "-u"]
        return ["nsenter", *where, "--", "chroot", str(self.root), *command]

    def run(self, *command: str, check: bool = True) -> str:
        """A command there, not over SSH."""
        done = subprocess.run(self._enter(command), capture_output=True, text=True, check=False, timeout=60)
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """The same, left running until its input is closed."""
        return subprocess.Popen(self._enter(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def processes(self) -> list[str]:
        """Command lines of whatever runs there beside sshd and what looks."""
        lines = self.run("ps", "-eo", "pid=,args=", "-ww").splitlines()
        return [line.strip() for line in lines if not any(word in line for word in _OWN)]


def missing() -> str:
    """Why there can be no far hosts here; empty where there can."""
    if os.geteuid() != 0:
        return "host: needs root for namespaces"
    for program in (_SSHD, "ssh", "ssh-keygen", "ip", "unshare", "nsenter", "ps"):
        if shutil.which(program) is None:
            return f"{program} is not installed (openssh-server, openssh-client, iproute2, util-linux, procps)"
    done = subprocess.run(
        ["unshare", "-n", "-p", "-m", "-u", "-f", "true"], capture_output=True, check=False, timeout=30
    )
    return "" if done.returncode == 0 else f"host: no namespaces here: {done.stderr.decode().strip()}"


@contextlib.contextmanager
def far_hosts(
    names: Sequence[str], place: Path, hidden: Sequence[Path], python: Path | None = None
) -> Iterator[dict[str, Far]]:
    """Hosts by name, in one network with this one; ``place / "bin"`` has an ``ssh`` that knows them by alias.

    ``python``: the interpreter they have under the name of its version; None for this one.
    """
    keys, binaries = place / "keys", place / "bin"
    for directory in (keys, binaries):
        directory.mkdir(parents=True)
    for name in ("id", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)], check=True, timeout=30)
    turn = 8 * os.getpid() + next(_TURNS)
    network = BENCHMARKING + 16 * (turn % 2**13)
    bridge = f"lb{turn % 2**24:x}"
    _ip(f"link add {bridge} type bridge")
    started: list[subprocess.Popen[bytes]] = []
    found: dict[str, Far] = {}
    try:
        _ip(f"addr add {network + 1}/28 dev {bridge}")
        _ip(f"link set {bridge} up")
        blocks = []
        addresses = {name: str(network + 2 + number) for number, name in enumerate(names)}
        for number, (name, address) in enumerate(addresses.items()):
            link = f"lf{number}{turn % 2**20:x}"
            process = _start(name, addresses, link, place, hidden, python)
            started.append(process)
            init = _child(process)
            _ip(f"link add l{link} type veth peer name {link} netns {init}")
            _ip(f"link set l{link} master {bridge} up")
            found[name] = Far(name, address, init, place / f"{name}-root" / "root")
            known = place / "known_hosts"
            with known.open("a") as file:
                file.write(f"{address} {(keys / 'host.pub').read_text()}")
            blocks.append(
                f"Host {name}\n HostName {address}\n User root\n IdentityFile {keys}/id\n IdentitiesOnly yes\n"
                f" UserKnownHostsFile {known}\n"
            )
        (place / "config").write_text("\n".join(blocks))
        wrapper = binaries / "ssh"
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {place}/config "$@"\n')
        wrapper.chmod(0o755)
        for far in found.values():
            _until_it_answers(wrapper, far.name, place)
        yield found
    finally:
        for process in started:
            process.kill()
            process.wait(10)
        _ip(f"link delete {bridge}", check=False)


def _start(
    name: str, addresses: Mapping[str, str], link: str, place: Path, hidden: Sequence[Path], python: Path | None
) -> subprocess.Popen[bytes]:
    work = place / f"{name}-root"
    work.mkdir()
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    real = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    given = python or real
    script = _INSIDE.format(
        work=work,
        keys=place / "keys",
        hidden=" ".join(str(path).lstrip("/") for path in hidden),
        python=_python(given, version),
        name=name,
        known="\n".join(f"{address} {other}" for other, address in addresses.items()),
        link=link,
        address=addresses[name],
        bits=28,
        sshd=_SSHD,
    )
    log = (place / f"{name}.log").open("wb")
    with log:
        return subprocess.Popen(
            ["unshare", "-n", "-p", "-m", "-u", "-f", "--kill-child", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _python(given: Path, version: str) -> str:
    """An interpreter whose installation lies in a hidden directory is bound into the host."""
    home = given.parent.parent
    return f"mkdir -p $r{home} && mount --bind {home} $r{home}\nln -sf {given} $r/usr/local/bin/python{version}"


def _child(process: subprocess.Popen[bytes]) -> int:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 10
    while not (found := path.read_text().split()):
        assert time.monotonic() < deadline, "unshare started nothing"
        time.sleep(0.02)
    return int(found[0])


def _until_it_answers(wrapper: Path, name: str, place: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        done = subprocess.run(
            [wrapper, "-o", "BatchMode=yes", name, "true"], capture_output=True, check=False, timeout=30
        )
        if done.returncode == 0:
            return
        log = (place / f"{name}.log").read_text()
        assert time.monotonic() < deadline, f"{name} does not answer: {done.stderr.decode()}\n{log}"
        time.sleep(0.1)


def _ip(words: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *words.split()], capture_output=True, text=True, check=False, timeout=30)
    assert not check or done.returncode == 0, f"ip {words}: {done.stderr}"
