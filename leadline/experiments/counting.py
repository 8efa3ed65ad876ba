"""Programs counted in virtual time: a guest is booted and saved once, each program runs in forks of it.

What a program reads is traced here by strace and lies at the same paths in the guest, all of it in memory. A *layout*
is another state of the kernel's generator of random numbers, so other addresses and hash seeds, the same ones for every
program. A fork of the same layout counts the same digits.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections import Counter as Sums
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from threading import Event

from leadline.conclude.gate import CALL, Counted, Counts
from leadline.host import here
from leadline.host.java import find_java
from leadline.host.local import LocalHost
from leadline.host.received import lines_of, read_text
from leadline.load.driver import find_binary
from leadline.model.errors import LeadlineError, UsageError, quoted
from leadline.model.ownstack import OwnFile
from leadline.model.received import reading
from leadline.places.guest import boot as boots
from leadline.places.guest import kernels, machine
from leadline.places.guest.boot import Node, Source, base_system, modules, write_archive
from leadline.places.virtual.guests import DEFAULT_KERNEL
from leadline.places.virtual.instructions import KALLSYMS, KERNEL_HALF, Symbols
from leadline.stack.own.words import Words, beside, full, line_of
from leadline.trial.command import Command

EVENTS = {"exc_page_fault": "page_faults", "__switch_to": "switches"}  # functions of the kernel
_FOREIGN = re.compile("/(proc|sys|dev|run|tmp/hsperfdata_[^/]*)/")  # the guest has its own; JVMs that end take theirs
_MEMORY = 384 << 20  # bytes of a guest beside its files, which it has packed and unpacked, in half of its memory
_MOST_BYTES = 1 << 30  # of the files of all programs
_NAMED = re.compile(r"\w+\((?:AT_FDCWD<(?P<at>[^>]*)>, |\d+<(?P<fd>/[^>]*)>, )?\"(?P<path>[^\"]+)\".* = \d")
# A JVM compiles in the thread that asks for it, not beside it: how far its threads get is no chance then.
_JVM = 'export JAVA_TOOL_OPTIONS="-Xbatch${JAVA_TOOL_OPTIONS:+ $JAVA_TOOL_OPTIONS}"'
# C1 alone compiles what was called 200 times, so in the warm-up. C2 waits for 5,000 calls: a third of what was counted
# was its work, and which methods it had come to depended on the layout.
_SERVER_JVM = "-XX:TieredStopAtLevel=1"
_SILENT = 30.0  # s, after which the watchdog ends the guests
LONGEST = 600.0  # seconds of this machine for a boot, and for a run
_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
_MARK = "read -r _ </proc/net/snmp"  # of MARKS


# Starts a server, loads it, and stops it. The second load is what is counted. What fails here, slowly traced, may pass
# in the guest (/run/leadline), whose clock waits for it.
_SERVE = r"""PATH={java}:$PATH
export JAVA_TOOL_OPTIONS="{jvm}${{JAVA_TOOL_OPTIONS:+ $JAVA_TOOL_OPTIONS}}"
{exports}
cd {directory} || exit 1
{command} </dev/null >{folder}/log 2>&1 &
server=$! tries=0
until grep -qs ':{port:04X} 0*:0000 0A' /proc/net/tcp /proc/net/tcp6; do
  kill -0 $server 2>/dev/null || {{ echo "the server ended: $(tail -n 1 {folder}/log)" >&2; exit 1; }}
  [ $((tries = tries + 1)) -lt 3000 ] || {{ echo "nothing listens on port {port}" >&2; kill -9 $server; exit 1; }}
  sleep 0.1
done
load() {{ # SECONDS
  {load} --steady "$1"s >{folder}/load 2>&1 || [ ! -e /run/leadline ] || {{
    tail -n 9 {folder}/load | tr '\n' ' ' >&2; kill -9 $server; exit 1
  }}
}}
load {warm_up}
{mark}
load {seconds}
{mark}
kill -9 $server
"""
RATE, WARM_UP, SECONDS = 10, 24, 8  # sessions, or transactions without any, a second of the guest's time; how long


def services(own: OwnFile, builds: Sequence[str], scenario: Path, folder: Path) -> list[Command]:
    """Scripts that start a build of a stack file, load it by ``RATE`` (results: ``folder/out``), and stop it. Raises
    UsageError.
    """
    stack = own.content
    if stack.database.kind not in ("none", "keep"):
        where = line_of(own, "database")
        raise UsageError(f"{where}: --count runs no database in its guest: write an embedded one, `database: none`")
    if stack.compose is not None:
        raise UsageError(f"{line_of(own, 'compose')}: --count runs no containers: write a `command`")
    if stack.tls is not None:
        raise UsageError(f"{line_of(own, 'tls')}: --count speaks plain HTTP: leave tls out")
    port = LocalHost().free_port()
    url = f"http://127.0.0.1:{port}{stack.path.rstrip('/')}"
    load = [str(find_binary()), "run", str(scenario), "--url", url, "--arrivals", "constant", "--rate", str(RATE)]
    load += ["--ramp-up", "0s", "--ramp-down", "0s", "--seed", "1", "--out", str(folder / "out"), "--replace"]
    commands = []
    for name in builds:
        build = stack.builds[name]
        work = folder / name
        shutil.copytree(beside(own, build.directory), work) if build.directory else work.mkdir()
        java = (Path(stack.java) if stack.java else find_java()) / "bin"
        places = {"port": str(port), "address": "127.0.0.1", "folder": str(Path(own.file).parent.absolute())}
        words = Words(own, {**places, "directory": str(work), "java": str(java / "java"), "jvm": "", "args": ""})

        def filled(text: str, words: Words = words) -> str:
            return _PLACEHOLDER.sub(lambda match: words[match[1]], text)

        environment = {**stack.environment, **(build.environment or {})}
        text = _SERVE.format(
            exports="\n".join(f"export {key}={shlex.quote(filled(value))}" for key, value in environment.items()),
            jvm=_SERVER_JVM,
            directory=shlex.quote(str(work)),
            command=shlex.join(word for word in map(filled, full(own, build.command or ())) if word),
            folder=shlex.quote(str(folder)),
            java=shlex.quote(str(java)),
            port=port,
            load=shlex.join(load),
            warm_up=WARM_UP,
            seconds=SECONDS,
            mark=_MARK,
        )
        script = folder / f"{name}.sh"
        script.write_text(text)
        commands.append(Command(name, ("/bin/sh", str(script))))
    return commands


def counted(
    commands: Sequence[Command],
    layouts: int,
    host: LocalHost,
    timeout: float,
    message: Callable[[str], None],
    marked: bool = False,
) -> Counted:
    """Every command in every layout. ``timeout``: seconds of this machine for a boot and for a run. ``marked``:
    they have marks of their own, as ``services``.

    Raises UsageError for a program that cannot be traced or fails, TrialFailure, LeadlineError where the first run,
    repeated, counts other digits.
    """
    library = boots.library()
    if isinstance(library, str):
        raise UsageError(f"--count: {library}")
    with tempfile.TemporaryDirectory(prefix="leadline-count-") as name, host.apart("count", _SILENT) as apart:
        work = Path(name)
        tree: dict[str, Source] = {str(Path.cwd()): Node(directory=True)}
        for command in commands:
            message(f"looking at what {command.text} reads")
            tree |= files_of(command, work / "trace", timeout)
        kernel = kernels.provision(DEFAULT_KERNEL, message)
        tree = base_system(kernels.busybox(message)) | modules(kernel.modules) | tree
        image = work / "image.cpio"
        write_archive(tree, image)
        message(f"booting a guest with {len(tree)} files, {image.stat().st_size >> 20} MiB")
        boot = boots.Boot(kernel.image, image, _MEMORY + 4 * (image.stat().st_size >> 20 << 20))
        text = "cat /proc/kallsyms >/tmp/k; put kallsyms /tmp/k; rm /tmp/k\nsave ready\n"
        saved = machine.boot_and_save(apart, boot, text, work / "boot", "ready", timeout)
        symbols = Symbols.of(read_text(saved.files / KALLSYMS))
        plugin = boots.Counter(library, symbols.marks())
        ended = Event()
        runs = [(at, layout) for layout in range(layouts) for at in range(len(commands))] + [(0, 0)]

        def run(number: int) -> Counts:
            at, layout = runs[number]
            place = work / f"run-{number}"
            out = machine.fork(
                apart,
                saved,
                _job(commands[at], layout, "" if marked else _MARK),
                place,
                timeout,
                plugin,
                ended.is_set,
            )
            if (code := out.facts.get("exit")) != "0":
                raise UsageError(
                    f"command {quoted(commands[at].text)} fails in the guest: exit code {code}: {out.facts['errors']}"
                )
            message(f"{number + 1} of {len(runs)}: {commands[at].text}")
            with reading(str(place / boots.BLOCKS)):
                return Counts(at, layout, figures(lines_of(place / boots.BLOCKS), symbols))

        with ThreadPoolExecutor(here.cpus()) as pool:
            try:
                *counts, again = pool.map(run, range(len(runs)))
            except BaseException:
                ended.set()
                raise
        if again.figures != counts[0].figures:
            raise LeadlineError(f"{commands[0].text} counts other digits when it is repeated: no count is exact here")
        return Counted(tuple(command.text for command in commands), tuple(counts))


def figures(blocks: Iterable[str], symbols: Symbols) -> dict[str, int]:
    """Sums over the blocks of a run. Raises ValueError for a line that is no block's."""
    sums: Sums[str] = Sums()
    for line in blocks:
        where, instructions, executions = line.split()
        address, times = int(where, 16), int(executions)
        sums["kernel_instructions" if address >= KERNEL_HALF else "user_instructions"] += int(instructions) * times
        if address >= KERNEL_HALF and (name := symbols.begins(address)) is not None:
            if name in EVENTS:
                sums[EVENTS[name]] += times
            elif call := symbols.call(address):
                sums["syscalls"] += times
                sums[f"{CALL}{call}"] += times
    return {"instructions": sums["user_instructions"] + sums["kernel_instructions"], **sums}


def _job(command: Command, layout: int, mark: str) -> str:
    """The script of a fork: a subshell with the caller's environment, between two marks or with its own."""
    words = [name for name in sorted(os.environ) if name.isidentifier() and name not in ("_", "SHLVL", "OLDPWD")]
    exports = "\n".join(f"export {name}={shlex.quote(os.environ[name])}" for name in words)
    spend = f"head -c {64 * layout} /dev/urandom >/dev/null" if layout else ":"
    return f"""{spend}
mkdir -p /run/leadline
( cd {shlex.quote(str(Path.cwd()))} || exit 1
{exports}
{_JVM}
{mark}
{shlex.join(command.argv)} </dev/null >/dev/null 2>/run/leadline/errors
echo $? >/run/leadline/status
{mark} )
say exit "$(cat /run/leadline/status)"
say errors "$(tail -n 1 /run/leadline/errors | cut -c1-200)"
finish
"""


def files_of(command: Command, trace: Path, timeout: float) -> dict[str, Source]:
    """What a program reads, by path, as it is after a run of it under strace. Raises UsageError."""
    words = ["strace", "-ff", "-q", "-y", "-s", "4096", "-e", "trace=%file"]  # a file of each thread, so no call is cut
    words += ["-o", str(trace), *command.argv]
    try:
        done = here.run(words, timeout=timeout)
    except FileNotFoundError:
        raise UsageError("--count traces what a program reads by strace: apt-get install strace") from None
    except OSError as error:
        raise UsageError(f"command {quoted(command.text)}: {error}") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        raise UsageError(f"command {quoted(command.text)} fails: exit code {done.returncode} {last[:200]}")
    tree: dict[str, Source] = {}
    programs = []
    calls = chain.from_iterable(lines_of(file) for file in sorted(trace.parent.glob(f"{trace.name}.*")))
    for path in dict.fromkeys(paths_of(calls, Path.cwd())):
        _add(tree, path)
        if path.is_file() and os.access(path, os.X_OK):
            programs.append(path)
    for program in list(programs):
        with program.open("rb") as file:
            if (first := file.readline(256)).startswith(b"#!"):
                programs.append(Path(first[2:].split()[0].decode()))
    for path in _interpreters(programs):
        _add(tree, path)
    size = sum(node.size() for node in tree.values() if isinstance(node, Node))
    if size > _MOST_BYTES:
        raise UsageError(f"command {quoted(command.text)} reads {size >> 20} MiB; a guest holds {_MOST_BYTES >> 20}")
    return tree


def paths_of(lines: Iterable[str], directory: Path) -> Iterable[Path]:
    """Absolute paths that a trace of strace (``-y``) has reached."""
    for line in lines:
        if match := _NAMED.match(line):
            base_system = match["at"] or match["fd"] or str(directory)
            yield Path(os.path.normpath(Path(base_system) / match["path"]))


def _interpreters(programs: Sequence[Path]) -> Iterable[Path]:
    """The dynamic linkers of ELF programs, which the kernel opens itself, and what runs scripts."""
    for program in programs:
        yield program
        with program.open("rb") as file:
            head = file.read(4096)
        if match := re.search(rb"/lib\S*/ld-[\w.-]+", head):
            yield Path(match[0].decode())


def _add(tree: dict[str, Source], path: Path) -> None:
    """A file at its own path, what is a link or lies behind one as a link to it; a directory as an empty one."""
    if _FOREIGN.match(str(path)) or not path.exists() or path == Path("/"):
        return
    real = path.resolve()
    if path.is_dir():
        tree.setdefault(str(path), Node(directory=True))
    elif real.is_file():
        tree[str(real)] = Node(real)
        if path != real:
            tree[str(path)] = Node(link=str(real))
