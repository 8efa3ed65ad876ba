"""Scripts of a guest: how its services start and are warmed, and what a fork does.

They use the functions that every guest has (``leadline/guest/job.sh``): ``save``, ``put``, ``say``, ``fail``,
``finish``. Everything they wait for is waited for in the guest's own time.

What a stack starts is recorded on this host: its processes with their files as they were at the start of each. The
stack runs here once, as in a trial, so every level is rendered, started and read back by the code of all studies.
A guest then starts the same processes on the same files at the same paths.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from leadline.host.base import ProcessSpec
from leadline.host.local import LocalHost
from leadline.host.process import LocalProcess
from leadline.model.bounds import MEBIBYTE, cpu_numbers
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.guest import DISK_RATE, Guest
from leadline.model.knob import Level
from leadline.model.study import Study
from leadline.stack.assembly import Stack
from leadline.stack.base import Progress
from leadline.stack.options import StackOptions

SERVICES = ("database", "server", "web")  # in the order of their start
_FIRST_PORT = 28_401  # a guest has all its ports free: the same ones in every capture, as far as this host allows


@dataclass(frozen=True)
class Started:
    """A process, and where its own files are kept as they were when it was started."""

    spec: ProcessSpec
    files: Path  # stands for /


@dataclass(frozen=True)
class Captured:
    """A stack at one combination of levels. ``found``: the levels that its services told here; ``directory`` stands
    for a trial's; ``reads``: what the processes reach beside their own files.
    """

    directory: Path
    processes: Sequence[Started]
    url: str
    ready_url: str
    database_port: int
    found: Mapping[str, Level]
    reads: Sequence[Path] = ()

    def on_disk(self) -> list[Path]:
        """Directories that a guest's disk holds: the database's own, of a stack without one its first service's."""
        first = next((process for process in self.processes if process.spec.name == "database"), self.processes[0])
        paths = dict.fromkeys(
            path.absolute() for path in [*first.spec.owns, *([first.spec.cwd] if first.spec.cwd else [])]
        )
        existing = [path for path in paths if (first.files / path.relative_to("/")).is_dir()]
        return [path for path in existing if not any(other in path.parents for other in existing)]


class RecordingHost(LocalHost):
    """This host, which keeps what is started on it while it records. Ports are then handed out in a fixed order."""

    ending = False  # nothing is started any more
    started: list[Started]
    _kept: Path | None = None
    _next_port = _FIRST_PORT

    @contextmanager
    def recording(self, kept: Path) -> Iterator[None]:
        self._kept, self._next_port, self.started = kept, _FIRST_PORT, []
        try:
            yield
        finally:
            self._kept = None

    def start(self, spec: ProcessSpec) -> LocalProcess:
        """Also raises TrialFailure(interrupted) when the run ends."""
        if self.ending:
            raise TrialFailure(FailureClass.INTERRUPTED, f"{spec.name} is not started: the run ends")
        if self._kept is not None and spec.name in SERVICES:
            files = self._kept / spec.name
            for path in dict.fromkeys([*spec.owns, *([spec.cwd] if spec.cwd else [])]):
                _copy(path.absolute(), files)
            self.started.append(Started(spec, files))
            spec = replace(spec, cpus=None, limits={})  # those of the guest
        return super().start(spec)

    def free_port(self) -> int:
        if self._kept is None:
            return super().free_port()
        while self.port_taken(self._next_port):
            self._next_port += 1
        self._next_port += 1
        return self._next_port - 1


class Captures:
    """Captures of one study's stack. ``home`` holds its directories: the same in every run, for paths are part of what
    a guest computes.
    """

    def __init__(self, study: Study, host: RecordingHost, home: Path) -> None:
        self._host, self._home = host, home
        options = StackOptions(
            load_units=study.workload.load_units,
            placement=study.placement,
            observe=study.observe,
            ready_timeout=study.ready_timeout,
        )
        self._stack = Stack(study.stack, host, home / "services", options)

    def versions(self) -> Mapping[str, str]:
        return self._stack.versions()

    def prepare(self, progress: Progress) -> None:
        """Distributions, application, data. Raises TrialFailure, LeadlineError."""
        self._stack.provision(progress)
        self._stack.prepare_data(progress)

    def take(self, levels: Mapping[str, Level], number: int) -> Captured:
        """Start the stack with these levels of its services, read them back, stop it.

        Raises TrialFailure with its class, UsageError for levels that contradict each other.
        """
        directory, kept_at, stack = self._home / "trial", self._home / f"capture-{number}", self._stack
        for path in (directory, kept_at):
            shutil.rmtree(path, ignore_errors=True)
        for part in ("logs", "raw"):
            (directory / part).mkdir(parents=True)
        with self._host.recording(kept_at):
            try:
                stack.reset_data(directory)
                stack.start_database(levels, directory)
                stack.start_server(levels, directory)
                levels_read, port = {name: stack.read_back(name) for name in levels}, stack.endpoint().port
                urls = stack.url(), stack.ready_url()
            finally:
                unclean = stack.down()
        if unclean:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"the stack did not stop in order: {'; '.join(unclean)}")
        started = self._host.started
        reads = dict.fromkeys(path for process in started for path in process.spec.reads)
        return Captured(directory, started, *urls, port, levels_read, tuple(reads))


def _copy(path: Path, root: Path) -> None:
    """``path`` below ``root``, links as links; nothing where it does not exist."""
    target = root / path.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.copytree(path, target, symlinks=True, dirs_exist_ok=True)
    elif path.exists():
        shutil.copy2(path, target, follow_symlinks=False)


USERS = {name: 1001 + at for at, name in enumerate((*SERVICES, "driver"))}  # each service has its own
OVERLAYS = "/leadline/levels"  # files of the second and later captures that differ from the first one's
SETTINGS = "/leadline/settings"  # a file with the patterns of files that tell how the kernel is set
LOG = Path("/tmp/driver.log")
_LISTENS = 120  # seconds until the database must listen
_PROCESSES = "comm schedstat stat status io"
_MACHINE = "stat vmstat meminfo net/snmp net/netstat"
_GROUPS = "/sys/fs/cgroup"
MKFS = Path("/sbin/mke2fs")  # of e2fsprogs: busybox makes no journal
_UUID = "1ead11e0-0000-4000-8000-000000000001"  # the same in every guest, for it seeds the file system's hashes
_HELPERS = r"""
as() { # USER ARGV...: in place of this shell
  who=$1; shift; exec su -s /bin/sh -c 'exec "$@"' -- "$who" sh env -i PATH="$PATH" "$@"
}
grouped() { # each service is a group: its CPU keeps that of threads and processes which ended
  [ -e @GROUPS@/cgroup.procs ] || mount -t cgroup2 none @GROUPS@ 2>/dev/null
}
begin() { # NAME DIRECTORY OUTPUT ARGV...: a service, its number in /run/NAME
  name=$1 at=$2 out=$3; shift 3
  mkdir -p "${out%/*}"
  grouped && mkdir -p @GROUPS@/"$name"
  ( [ ! -d @GROUPS@/"$name" ] || echo 0 >@GROUPS@/"$name"/cgroup.procs
    cd "$at" && as "$name" "$@" ) >>"$out" 2>&1 9>&- </dev/null &
  echo $! >/run/"$name"; echo "$out" >/run/"$name".log
  say "$name.began" "$(seconds)"
}
memory() { # NAME BYTES: what its processes may take together
  grouped
  echo +memory >@GROUPS@/cgroup.subtree_control && mkdir -p @GROUPS@/"$1" && echo "$2" >@GROUPS@/"$1"/memory.max ||
    fail configuration "this kernel cannot limit the memory of the $1"
}
device() { # NAME MIB RATE: a disk in memory that is there in full, RATE MiB/s at most; sets $made
  modules=/lib/leadline/modules config=/sys/kernel/config
  [ -d /sys/module/null_blk ] || insmod $modules/null_blk.ko nr_devices=0 || lacking "null_blk (the $1)"
  [ -d $config/nullb ] || mount -t configfs none $config
  before=" $(ls /sys/block | tr '\n' ' ')"
  mkdir $config/nullb/"$1" && cd $config/nullb/"$1" || lacking "null_blk with configfs (the $1)"
  { echo "$2" >size && echo 512 >blocksize && echo 1 >memory_backed && echo 2 >irqmode && echo "$3" >mbps &&
    echo 1 >power; } || lacking "null_blk in memory (the $1)"
  cd /
  for made in $(ls /sys/block); do case $before in *" $made "*) ;; *) break ;; esac; done
  made=/dev/$made
  dd if=/dev/zero of="$made" bs=1M count="$2" conv=fsync 2>/dev/null &&
    [ "$(($(cat /sys/block/"${made##*/}"/size) / 2048))" = "$2" ] || fail configuration "the $1 cannot be made"
  echo 1 >/proc/sys/vm/drop_caches
  say guest."$1" "null_blk, $2 MiB, $3 MiB/s"
}
disk() { # MIB RATE DIRECTORY...: these directories on a file system of their own
  device disk "$1" "$2"; shift 2
  options=hash_seed=@UUID@,lazy_itable_init=0,lazy_journal_init=0,nodiscard
  said=$(@MKFS@ -q -t ext4 -U @UUID@ -E $options "$made" 2>&1 &&
    mkdir -p /disk && mount -t ext4 "$made" /disk 2>&1) || fail configuration "no ext4 on the disk: $said"
  for one; do
    at=/disk/$((number = number + 1))
    said=$(cp -a "$one" $at 2>&1 && rm -rf "$one" && mkdir "$one" && mount --bind $at "$one" 2>&1) ||
      fail configuration "$one is not on the disk: $said"
  done
  sync
}
swap() { # MIB RATE
  device swap "$1" "$2"
  mkswap "$made" >/dev/null && swapon "$made" || fail configuration "this kernel cannot swap"
}
roomy() { # a full file system is why the rest fails
  dd if=/dev/zero of=/tmp/room bs=64k count=1 2>/dev/null && rm -f /tmp/room || {
    rm -f /tmp/room; fail configuration "the guest's file system is full: give \`guest\` more memory"; }
}
broken() { # CLASS TEXT: with the last words of the services, as evidence
  for one in /run/*.log; do echo "--- ${one##*/}"; tail -n 12 "$(cat "$one")"; done >/dev/console
  roomy
  fail "$1" "$2"
}
alive() { # NAME
  kill -0 "$(cat /run/"$1")" 2>/dev/null || broken configuration "the $1 ended in the guest"
}
wait_for() { # NAME SECONDS TEXT COMMAND...
  name=$1 text=$3 until=$(($(seconds | cut -d. -f1) + $2)); shift 3
  until "$@"; do
    alive "$name"
    [ "$(seconds | cut -d. -f1)" -lt $until ] || broken infrastructure "the $name $text in the guest"
    sleep 0.25
  done
}
listens() { grep -q ":$(printf %04X "$1") 0*:0000 0A" /proc/net/tcp; } # PORT
answers() { timeout 20 wget -q -O /tmp/answer "$1" 2>/dev/null; } # URL
load() { # SECONDS OUT LOG ARGV...: the driver to its end, which comes in so many seconds
  limit=$1 out=$2 log=$3; shift 3
  rm -rf "$out"; mkdir -p "$out"; chown driver "$out"
  ( as driver "$@" ) >"$log" 2>&1 9>&- </dev/null &
  driver=$!
  ( sleep "$limit"; kill -KILL $driver && fail infrastructure "the load did not end within $limit s" ) >/dev/null 2>&1 &
  watch=$!
  wait $driver; code=$?
  kill $watch 2>/dev/null
  roomy
  for one in @SERVICES@; do
    [ ! -e /run/$one ] || alive $one
  done
  [ $code = 0 ] || broken infrastructure "the driver ended with code $code: $(tail -n 3 "$log" | tr '\n' ' ')"
}
figures() { # NAME
  { for f in @MACHINE@; do grep -H '' /proc/$f; done
    grep -H '_usec' @GROUPS@/*/cpu.stat 2>/dev/null
    for f in @PROCESSES@; do grep -H '' /proc/[0-9]*/task/[0-9]*/$f 2>/dev/null; done; } >/tmp/figures-"$1"
}
symbols() { # of the kernel, before anything else needs the memory
  cat /proc/kallsyms >/tmp/kallsyms; put kallsyms /tmp/kallsyms; rm /tmp/kallsyms
}
maps() { # code of all processes
  grep -H ' ..xp ' /proc/[0-9]*/maps >/tmp/maps 2>/dev/null
}
compiled() { # DRIVER: what JVMs compiled, by address
  for one in $(grep -lx java /proc/[0-9]*/comm 2>/dev/null | cut -d/ -f3); do "$1" perfmap "$one"; done >/dev/null 2>&1
  grep -H '' /tmp/perf-*.map >/tmp/compiled 2>/dev/null || true
}
booted() { # RELEASE PARAMETER...: as it was to be booted
  [ "$(uname -r)" = "$1" ] || fail infrastructure "the guest came up with kernel $(uname -r), not $1"
  line=" $(cat /proc/cmdline) "; shift
  for one; do
    case $line in *" $one "*) ;; *) fail configuration "the boot parameter $one is not in /proc/cmdline:$line" ;; esac
  done
}
knob() { # FILE TEXT
  [ -e "$1" ] || fail configuration "this kernel has no $1"
  said=$( { printf '%s\n' "$2" >"$1"; } 2>&1 ) || fail configuration "the kernel refuses $2 for $1: ${said##*: }"
}
settings() { # NAME
  for f in $(cat @SETTINGS@); do
    [ -f "$f" ] && mkdir -p "/tmp/$1/${f%/*}" && cat "$f" >"/tmp/$1$f" || true
  done 2>/dev/null
  tar -C "/tmp/$1" -cf "/tmp/$1.tar" . && put "$1.tar" "/tmp/$1.tar"
  rm -rf "/tmp/$1" "/tmp/$1.tar"
}
"""


def helpers() -> str:
    fill = {
        "@GROUPS@": _GROUPS,
        "@MACHINE@": _MACHINE,
        "@PROCESSES@": _PROCESSES,
        "@SETTINGS@": SETTINGS,
        "@SERVICES@": " ".join(SERVICES),
        "@MKFS@": str(MKFS),
        "@UUID@": _UUID,
    }
    text = _HELPERS
    for mark, value in fill.items():
        text = text.replace(mark, value)
    return text


def booted(release: str, parameters: Sequence[str]) -> str:
    """Ends a guest with another kernel, and one whose command line lacks a parameter, before anything is started."""
    return f"booted {_quoted([release, *parameters])}"


def told() -> str:
    """How the kernel is set."""
    return "settings settings-before"


def devices(guest: Guest, captured: Captured) -> str:
    """Disk and swap. The disk holds the directories of the database, of a stack without one those of its server."""
    rate = guest.disk.mib_per_s if guest.disk else DISK_RATE
    lines = [f"swap {guest.swap // MEBIBYTE} {rate}"] if guest.swap else []
    if guest.disk:
        on_disk = captured.on_disk()
        lines.append(f"disk {guest.disk.size // MEBIBYTE} {rate} {_quoted(list(map(str, on_disk)))}")
    return "\n".join(lines)


def started(captured: Captured, number: int, guest: Guest, ready_timeout: float) -> str:
    """Services of the capture ``number`` in their order; the application answers at the end."""
    lines = [f"[ ! -d {OVERLAYS}/{number} ] || cp -a {OVERLAYS}/{number}/. /", devices(guest, captured)]
    for process in captured.processes:
        spec, output = process.spec, str(process.spec.output)
        if "memory" in spec.limits:
            lines.append(f"memory {spec.name} {round(spec.limits['memory'])}")
        lines.append(f"begin {spec.name} {_quoted([str(spec.cwd or '/'), output, *_command(spec)])}")
        if spec.name == "database":
            lines.append(f"wait_for database {_LISTENS} 'does not listen' listens {captured.database_port}")
            lines.append("sleep 1")  # it listens a moment before its first answer
    last = captured.processes[-1].spec.name
    text = f"was not ready after {ready_timeout:g} s"
    lines.append(f"wait_for {last} {round(ready_timeout)} {_quoted([text, 'answers', captured.ready_url])}")
    lines.append(f'say {last}.answers "$(seconds)"')
    return "\n".join(lines)


def loaded(driver: ProcessSpec, out: Path, seconds: float) -> str:
    """The driver to its end, which must come within so many seconds of the guest's time."""
    return f"load {round(seconds)} {_quoted([str(out), str(driver.output), *_command(driver)])}"


def knobs(levels: Mapping[Path, str]) -> str:
    """Files of the kernel get these texts."""
    return "\n".join(f"knob {_quoted([str(path), text])}" for path, text in levels.items())


def measured(load: str, out: Path, files: Sequence[Path], driver: Path | None = None) -> str:
    """Load, with figures before and after, and what JVMs compiled where the ``driver`` that asks them is given.

    ``files`` are put beside the driver's results, those that are there.
    """
    asked = [f"compiled {_quoted([str(driver)])}"] if driver else []
    lines = [told(), "figures before", load, "figures after", "maps", *asked, "settings settings-after"]
    names = ["figures-before", "figures-after", "maps", *(["compiled"] if driver else [])]
    lines += [f"put {name} /tmp/{name}" for name in names]
    lines.append(f'for f in {shlex.quote(str(out))}/*; do put "driver/${{f##*/}}" "$f"; done')
    lines += [f"[ ! -f {_quoted([str(path)])} ] || put {_quoted([f'logs/{path.name}', str(path)])}" for path in files]
    return "\n".join(lines)


def _command(spec: ProcessSpec) -> list[str]:
    environment = [f"{name}={value}" for name, value in sorted(spec.env.items())]
    mask = sum(1 << cpu for cpu in cpu_numbers(spec.cpus)) if spec.cpus else 0
    return [*environment, *(["taskset", f"{mask:x}"] if mask else []), *map(str, spec.argv)]


def _quoted(words: Sequence[str]) -> str:
    return " ".join(map(shlex.quote, words))
