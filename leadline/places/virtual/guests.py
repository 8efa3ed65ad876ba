"""The guests of one study: its stack captured, images made, worlds booted, warmed and saved, forks run.

A world is a guest that is booted and warmed once, saved, and forked for every treatment; several at the same time.
"""

from __future__ import annotations

import filecmp
import hashlib
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import PriorityQueue
from types import MappingProxyType

from leadline.host import here, kvm, received
from leadline.host.paths import cache_dir
from leadline.load.cluster.hosts import scenario_files
from leadline.load.driver import DriverRun, find_binary
from leadline.load.knobs import load_knobs
from leadline.load.scenario import find_scenario, sent_variables
from leadline.model.errors import Event, Evidence, FailureClass, LeadlineError, TrialFailure, UsageError, blamed
from leadline.model.guest import KERNEL, Guest
from leadline.model.knob import Level
from leadline.model.received import ReceivedError
from leadline.model.study import Study
from leadline.model.workload import Workload, load_at
from leadline.places.guest import kernels, machine
from leadline.places.guest.boot import (
    Boot,
    Counter,
    Node,
    Source,
    base_system,
    boot_parameters,
    join_archives,
    modules,
    write_archive,
)
from leadline.places.guest.machine import Accelerator, Outcome, Saved, tail
from leadline.places.virtual import host, instructions, job
from leadline.places.virtual.host import GuestHost
from leadline.places.virtual.job import OVERLAYS, SETTINGS, USERS, Captured, Captures, RecordingHost

Levels = tuple[tuple[str, Level], ...]
_AHEAD = 2  # worlds that are warm, or being warmed, at the same time: their memory is on the disk


def levels_of(levels: Mapping[str, Level]) -> Levels:
    return tuple(sorted(levels.items()))


@dataclass(frozen=True)
class Past:
    """What forks of one saved guest share: the world's seed, the levels of its boot and those of its services."""

    seed: int
    boot: Levels
    services: Levels


@dataclass(frozen=True)
class Order:
    """A fork: of which past, under which levels of the running kernel and of its load."""

    past: Past
    live: Levels
    load: Levels = ()


@dataclass
class _World:
    saved: Future[Saved]
    futures: dict[Order, Future[Outcome]] = field(default_factory=dict)


class Worlds:
    """Runs guests in threads, so many at the same time.

    ``warm`` boots and warms a past into a directory and saves it, ``fork`` runs one order from it; both raise
    TrialFailure; ``remove`` takes a saved guest away. Directories are below ``home``.
    """

    def __init__(
        self,
        home: Path,
        parallel: int,
        warm: Callable[[Past, Path], Saved],
        fork: Callable[[Saved, Order, Path], Outcome],
        remove: Callable[[Saved], None],
    ) -> None:
        self._home, self._warm, self._fork, self._remove = home, warm, fork, remove
        self._parallel = parallel
        self._pool: ThreadPoolExecutor | None = None  # from the first that is asked for
        self._worlds: dict[Past, _World] = {}
        self._lock = threading.Lock()
        self._number, self._asked = 0, count()
        self._ready: PriorityQueue[tuple[int, Saved, Order, Future[Outcome]]] = PriorityQueue()

    def run_ahead(self, orders: Iterable[Order]) -> None:
        """These forks will be asked for, in this order; begin with what is free."""
        pasts: set[Past] = set()
        for order in orders:
            pasts.add(order.past)
            if len(pasts) > _AHEAD:
                break
            self._ask(order)

    def result(self, order: Order) -> tuple[Saved, Outcome]:
        """Waits for it; it is run anew when it is asked for again. Raises TrialFailure."""
        world, future = self._ask(order)
        try:
            return world.saved.result(), future.result()
        except CancelledError:
            raise TrialFailure(FailureClass.INTERRUPTED, "the guests were ended") from None
        finally:
            with self._lock:
                world.futures.pop(order, None)
                if world.saved.done() and (world.saved.cancelled() or world.saved.exception() is not None):
                    self._worlds.pop(order.past, None)

    def keep_only(self, pasts: Iterable[Past]) -> None:
        """Remove the other saved guests; forks of them that run come to their end first."""
        pasts_kept = set(pasts)
        with self._lock:
            gone = [self._worlds.pop(past) for past in list(self._worlds) if past not in pasts_kept]
        for world in gone:
            for future in world.futures.values():
                future.cancel()
            world.saved.cancel()
            if world.saved.done() and not world.saved.cancelled() and world.saved.exception() is None:
                self._remove(world.saved.result())

    def close(self, wait: bool = False) -> None:
        """No guest is begun any more, saved ones are removed; ``wait`` until those that run have ended.

        Nothing to do before the first is asked for: a run begins by ending what an earlier one left.
        """
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=True)
        self.keep_only([])

    def _ask(self, order: Order) -> tuple[_World, Future[Outcome]]:
        with self._lock:
            world = self._worlds.get(order.past)
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._parallel, thread_name_prefix="guest")
            if world is None:
                try:
                    saved = self._pool.submit(self._warm, order.past, self._directory("world"))
                except RuntimeError:  # closed
                    raise TrialFailure(FailureClass.INTERRUPTED, "the guests were ended") from None
                world = self._worlds[order.past] = _World(saved)
            future = world.futures.get(order)
            if future is None:
                future = world.futures[order] = Future()
                begun, number = future, next(self._asked)
                world.saved.add_done_callback(lambda saved: self._begin(number, saved, order, begun))
            return world, future

    def _begin(self, number: int, saved: Future[Saved], order: Order, future: Future[Outcome]) -> None:
        """The past is there, or failed; the next thread is for the fork that was asked for first of those ready."""
        if saved.cancelled():
            future.cancel()
        elif (error := saved.exception()) is not None:
            if future.set_running_or_notify_cancel():  # else the run has ended meanwhile
                future.set_exception(error)
        else:
            try:
                self._ready.put((number, saved.result(), order, future))
                assert self._pool is not None
                self._pool.submit(self._run)
            except RuntimeError:  # closed meanwhile
                future.cancel()

    def _run(self) -> None:
        _, saved, order, future = self._ready.get()
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(self._fork(saved, order, self._directory("fork")))
        except BaseException as error:  # told where the fork is asked for
            future.set_exception(error)

    def _directory(self, name: str) -> Path:
        self._number += 1
        return self._home / f"{name}-{self._number}"


# What a guest's root holds: the files of a stack at their own paths, a runtime of its JDK, the driver, libraries.


# All of Java SE with what servers use beside it.
_MODULES = (
    "java.se,jdk.unsupported,jdk.management,jdk.management.agent,jdk.attach,jdk.crypto.ec,jdk.naming.dns,jdk.zipfs,"
    "jdk.net,jdk.httpserver,jdk.jfr,jdk.charsets,jdk.security.auth,jdk.security.jgss,jdk.xml.dom,jdk.jdi"
)
_LINK = 300.0  # seconds that jlink may take
_USERS = {"root": 0, **USERS}
_TEXTS = {
    "/etc/hosts": "127.0.0.1 localhost guest\n",
    "/etc/nsswitch.conf": "hosts: files\npasswd: files\ngroup: files\n",
    "/etc/passwd": "".join(f"{name}:x:{uid}:{uid}::/tmp:/bin/sh\n" for name, uid in _USERS.items()),
    "/etc/group": "".join(f"{name}:x:{uid}:\n" for name, uid in _USERS.items()),
}


def contents(captures: Sequence[Captured], driver: Iterable[Path], settings: Iterable[str]) -> dict[str, Source]:
    """By path in the guest. ``driver``: its program and what it reads; ``settings``: patterns of files that tell how
    the kernel is set.

    Raises LeadlineError, OSError.
    """
    nodes: dict[str, Node] = {path: Node(text.encode()) for path, text in _TEXTS.items()}
    nodes[SETTINGS] = Node("".join(f"{path}\n" for path in settings).encode())
    for path in dict.fromkeys(path for captured in captures for path in captured.reads):
        tree = runtime(path) if (path / "bin" / "java").exists() else path
        nodes.update(_tree(tree, path))
    for path in driver:
        nodes.update(_tree(path, path))
    for number, captured in enumerate(captures):
        for process in captured.processes:
            tree_ = _tree(process.files, Path("/"), USERS[process.spec.name], {process.spec.cwd, *process.spec.owns})
            for name, node in tree_:
                if number == 0 or name not in nodes:
                    nodes[name] = node
                elif not _same(nodes[name], node):
                    nodes[f"{OVERLAYS}/{number}{name}"] = node
    for part in ("logs", "raw"):  # services write there, into files that are theirs or that they make
        nodes.setdefault(str(captures[0].directory / part), Node(directory=True, mode=0o1777))
    for path in _libraries(_programs(nodes.values())):
        nodes.setdefault(str(path), Node(path.resolve(), mode=0o755))
    return dict(nodes)


def runtime(jdk: Path) -> Path:
    """A small runtime of a JDK, made once; the JDK itself where it cannot be linked. Raises LeadlineError."""
    tool = jdk / "bin" / "jlink"
    if not tool.exists() or not (jdk / "jmods").is_dir():
        return jdk
    content = (jdk / "release").read_bytes() + _MODULES.encode()
    target = cache_dir() / "guests" / f"runtime-{hashlib.sha256(content).hexdigest()[:16]}"
    if target.exists():
        return target
    work = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(work, ignore_errors=True)
    work.parent.mkdir(parents=True, exist_ok=True)
    argv = [str(tool), "--add-modules", _MODULES, "--no-header-files", "--no-man-pages", "--output", str(work)]
    for command in (argv, [str(work / "bin" / "java"), "-Xshare:dump"]):
        done = here.run(command, timeout=_LINK)
        if done.returncode != 0:
            raise LeadlineError(f"no runtime of {jdk} can be made: {(done.stdout + done.stderr).strip()[-300:]}")
    try:
        work.rename(target)
    except OSError:  # another leadline made it meanwhile
        shutil.rmtree(work)
    return target


def _tree(source: Path, target: Path, user: int = 0, owned: Collection[Path | None] = ()) -> Iterator[tuple[str, Node]]:
    """What is at ``source`` with all below it, as it is to be at ``target``, for all to read. ``owned`` and what lies
    in it is ``user``'s, with the modes it has here.
    """
    paths = [source, *sorted(source.rglob("*"))] if source.is_dir() and not source.is_symlink() else [source]
    tops = set(owned)
    first: dict[tuple[int, int], Path] = {}  # of the names of one file
    for path in paths:
        place = target / path.relative_to(source)
        if str(place) == "/":
            continue
        status = path.lstat()
        theirs = not tops.isdisjoint((place, *place.parents))
        who, mode = (user if theirs else 0), stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            yield str(place), Node(link=str(path.readlink()), user=who, group=who)
        elif stat.S_ISDIR(status.st_mode):
            yield str(place), Node(mode=mode if theirs else 0o755, user=who, group=who, directory=True)
        elif not theirs and (same := first.setdefault((status.st_dev, status.st_ino), place)) != place:
            yield str(place), Node(link=str(same))  # a hard link
        elif stat.S_ISREG(status.st_mode):
            yield str(place), Node(path, mode=mode if theirs else mode | 0o444, user=who, group=who)


def _same(one: Node, other: Node) -> bool:
    if isinstance(one.content, Path) and isinstance(other.content, Path):
        return one.mode == other.mode and filecmp.cmp(one.content, other.content, shallow=False)
    return one == other


def _libraries(programs: Sequence[Path]) -> list[Path]:
    """Shared libraries that the programs need, by the paths under which they are looked for. What is not found here
    they do not need here either: a part of the same program that loads it first, or an extension nobody uses.
    """
    listing = here.run(["ldd", *map(str, programs)], timeout=_LINK).stdout
    return [Path(os.path.normpath(path)) for path in dict.fromkeys(re.findall(r"(/\S+) \(0x", listing))]


def _programs(nodes: Iterable[Node]) -> list[Path]:
    """Those that are ELF files."""
    programs = []
    for path in dict.fromkeys(node.content for node in nodes if isinstance(node.content, Path)):
        with path.open("rb") as stream:
            if stream.read(4) == b"\x7fELF":
                programs.append(path)
    return programs


DEFAULT_KERNEL = "6.1-cloud"
_DRAIN = 30.0  # seconds of the guest's time that the driver may need beyond its plan
IMAGE = "guest.image"  # fact: SHA-256 of the stack's files
_KERNEL = 128 << 20  # bytes of memory that a kernel takes beside what it unpacks
_NOTHING = ""  # name of a save point that is none
_WARMING = 1  # added to the seed: the load before the save point is not that of the trials
Message = Callable[[str], None]


class Guests:
    """Of one study. ``home`` holds the directories of its stack: the same path in every run and lab, for paths are part
    of what a guest computes. ``work`` is the run's own.
    """

    def __init__(self, study: Study, host: GuestHost, local: RecordingHost, home: Path, work: Path) -> None:
        self._study, self._host, self._local = study, host, local
        self._guest = study.guest or Guest()
        self._work = work
        self._captures = Captures(study, local, home)
        self._captured: dict[Levels, tuple[int, Captured] | TrialFailure] = {}
        self._images: dict[str, Path] = {}  # by name of the kernel
        self._kernels: dict[str, kernels.Kernel] = {}
        self._accelerator: Accelerator | None = None  # in real time

    @property
    def workload(self) -> Workload:
        return self._study.workload

    def versions(self) -> Mapping[str, str]:
        return self._captures.versions()

    # once a run ----------------------------------------------------------------------------------------------

    def prepare(self, pasts: Sequence[Past], message: Message) -> None:
        """Capture the stack at every combination of its services' levels that trials have; make the images.

        Raises TrialFailure where the stack runs with none of them, LeadlineError.
        """
        self._local.ending = False
        self._captures.prepare(message)
        combinations = list(dict.fromkeys(past.services for past in pasts))
        for number, services in enumerate(combinations):
            message(f"starting the stack on this host, to see what it starts ({number + 1} of {len(combinations)})")
            self._captured[services] = self._capture(services, number)
        captures = [capture[1] for capture in self._captured.values() if not isinstance(capture, TrialFailure)]
        if not captures:
            raise next(capture for capture in self._captured.values() if isinstance(capture, TrialFailure))
        message("making the guests' image")
        driver = [find_binary(), *scenario_files(find_scenario(self._study.workload.scenario)).values()]
        driver += [job.MKFS] if self._guest.disk else []
        self._work.mkdir(parents=True, exist_ok=True)
        stack = self._work / "stack.cpio"
        digest = write_archive(contents(captures, driver, self._host.settings()), stack)
        self._host.about[IMAGE] = digest
        for name in dict.fromkeys(self._kernel_name(past.boot) for past in pasts):
            self._kernels[name] = kernel = kernels.provision(name, message)
            self._host.releases[kernel.release] = name
            system = self._work / "base.cpio"
            write_archive(base_system(kernels.busybox(message)) | modules(kernel.modules), system)
            self._images[name] = self._work / f"image-{len(self._images)}.cpio"
            join_archives([system, stack], self._images[name])
            system.unlink()
        stack.unlink()
        self._check_memory(max(path.stat().st_size for path in self._images.values()))
        if self._study.time == "real":
            test = self._boot(pasts[0])
            self._accelerator = verdict = machine.probe(self._local, test, self._work / "accelerator")
            kvm.remember(verdict.name == "kvm")
            self._host.about["guest.accelerator"] = verdict.meaning
            message(f"guests run with {verdict.meaning}")

    def _check_memory(self, size: int) -> None:
        """Raises UsageError where the kernel cannot unpack an image of so many bytes: what is unpacked takes half at
        most (tmpfs) of the memory beside kernel and image.
        """
        needed = 3 * size + _KERNEL
        if self._guest.memory < needed:
            advice = (
                f"the stack's files take {size >> 20} MiB, and a kernel unpacks them into half of what they leave free"
            )
            raise UsageError(f"{advice}: write `guest: {{ memory: {needed >> 20}m }}` or more")

    def _capture(self, services: Levels, number: int) -> tuple[int, Captured] | TrialFailure:
        try:
            return number, self._captures.take(dict(services), number)
        except UsageError as error:
            return blamed(Evidence(Event.REFUSED), str(error))
        except TrialFailure as failure:
            if failure.failure_class is FailureClass.INTERRUPTED:
                raise
            return failure

    def captured(self, services: Levels) -> tuple[int, Captured]:
        """Raises TrialFailure where the stack did not run with these levels."""
        capture = self._captured[services]
        if isinstance(capture, TrialFailure):
            raise capture
        return capture

    # guests --------------------------------------------------------------------------------------------------

    def defaults(self, past: Past) -> Path:
        """How the kernel is set after a boot: its files below a directory. Raises TrialFailure."""
        text = "\n".join([job.helpers(), self._verified(past), job.told()])
        done = machine.run(self._local, self._boot(past), text, self._work / "defaults", host.BOOT)
        archive = done.files / "settings-before.tar"
        if not archive.exists():
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                "the guest did not tell how its kernel is set",
                tail(received.end_of(done.console)),
            )
        return unpacked(archive)

    def warm(self, past: Past, directory: Path) -> Saved:
        """Boot, start, warm and save; in real time nothing can be saved. Raises TrialFailure."""
        if self._accelerator is not None:
            return Saved(directory, _NOTHING, self._boot(past), {}, 0.0)
        text, seconds = self._past(past)
        parts = "\n".join([job.helpers(), self._verified(past), "symbols", text, "save warm"])
        return machine.boot_and_save(self._local, self._boot(past), parts, directory, "warm", seconds)

    def fork(self, saved: Saved, order: Order, directory: Path) -> Outcome:
        """One trial; in real time all of it, its boot and its warm-up too. Raises TrialFailure."""
        _, captured = self.captured(order.past.services)
        run = self._driver(captured, order.past.seed, warm=False, levels=dict(order.load))
        logs = [
            job.LOG,
            *(process.spec.output for process in captured.processes),
            captured.directory / "raw" / "gc.log",
        ]
        knobs = job.knobs(self._host.files(dict(order.live)))
        # Counted or not, a guest reads the same script, so that it gives the same digits.
        text = job.measured(self._load(run), run.out, logs, None if self._accelerator else find_binary())
        seconds = host.of_fork(run.seconds)
        if self._accelerator is None:
            return self._forked(saved, "\n".join([job.helpers(), knobs, text]), directory, seconds)
        before, more = self._past(order.past)
        whole = "\n".join([job.helpers(), self._verified(order.past), knobs, before, text])
        return machine.run(self._local, saved.boot, whole, directory, seconds + more)

    def _forked(self, saved: Saved, text: str, directory: Path, seconds: float) -> Outcome:
        """What it executed is counted where this machine's QEMU and the kernel's symbols allow it."""
        symbols, plugin = instructions.symbols_of(saved), instructions.plugin(self._study.observe)
        if isinstance(plugin, str) or not (marks := symbols.marks()):
            return machine.fork(self._local, saved, text, directory, seconds)
        outcome = machine.fork(self._local, saved, text, directory, seconds, Counter(plugin, marks))
        instructions.tell(outcome, symbols)
        return outcome

    def remove(self, saved: Saved) -> None:
        if saved.name != _NOTHING:
            (saved.files / instructions.KALLSYMS).unlink(missing_ok=True)
            saved.remove(self._local)

    def _past(self, past: Past) -> tuple[str, float]:
        """The script that starts and warms, and the wall seconds that it may take. Raises TrialFailure."""
        number, captured = self.captured(past.services)
        load = self._study.workload
        parts = [job.started(captured, number, self._guest, self._study.ready_timeout)]
        if load.ramp_up:
            parts.append(self._load(self._driver(captured, past.seed, warm=True)))
        return "\n".join(parts), host.of_past(load)

    def _verified(self, past: Past) -> str:
        """The script that ends a guest whose kernel, or one of whose boot parameters, is not that of its boot."""
        return job.booted(self._kernels[self._kernel_name(past.boot)].release, self._boot(past).parameters)

    def _driver(
        self, captured: Captured, seed: int, warm: bool, levels: Mapping[str, Level] = MappingProxyType({})
    ) -> DriverRun:
        """The load before the save point, or that of a trial with the levels of its load."""
        load = load_at(self._study.workload, levels, load_knobs(self._study.workload))
        parts = {"steady": load.ramp_up, "ramp_down": 0.0} if warm else {}
        out = captured.directory / "driver"
        workload = load.model_copy(update={**parts, "ramp_up": 0.0})
        cpus = self._study.placement.driver_cpus
        return DriverRun(workload, captured.url, seed + _WARMING * warm, out, sent_variables(load), cpus)

    def _load(self, run: DriverRun) -> str:
        return job.loaded(run.spec(job.LOG), run.out, run.seconds + self._study.workload.timeout + _DRAIN)

    def _kernel_name(self, boot: Levels) -> str:
        return str(dict(boot).get(KERNEL, self._guest.kernel or DEFAULT_KERNEL))

    def _boot(self, past: Past) -> Boot:
        name = self._kernel_name(past.boot)
        kernel, levels = self._kernels[name], dict(past.boot)
        return Boot(
            kernel.image,
            self._images[name],
            self._guest.machine_memory,
            self._guest.cpus,
            self._study.time,
            past.seed,
            boot_parameters(kernel, levels),
            self._accelerator.name if self._accelerator else "tcg",
        )


def unpacked(archive: Path) -> Path:
    """What an archive of a guest's holds, beside it."""
    target = archive.with_suffix("")
    try:
        with received.opened(archive) as stream:
            received.unpack(stream, target, str(archive), passes_over=True)
    except ReceivedError as error:
        raise TrialFailure(FailureClass.INFRASTRUCTURE, str(error)) from error
    archive.unlink()
    return target
