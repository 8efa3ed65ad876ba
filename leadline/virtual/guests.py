"""The guests of one study: its stack captured, images made, worlds booted, warmed and saved, forks run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from leadline.guest import accelerator, initramfs, kernels, machine
from leadline.guest.accelerator import Accelerator
from leadline.guest.boot import Boot
from leadline.guest.counter import Counter
from leadline.guest.machine import Saved
from leadline.guest.parameters import boot_parameters
from leadline.guest.results import Outcome, tail
from leadline.host import kvm, received
from leadline.load.cluster.files import scenario_files
from leadline.load.driver import DriverRun, find_binary
from leadline.load.knobs import load_knobs
from leadline.load.scenario import find_scenario, sent_variables
from leadline.model.blame import Event, Evidence, blamed
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.guest import KERNEL, Guest
from leadline.model.knob import Level
from leadline.model.load import load_at
from leadline.model.received import ReceivedError
from leadline.model.study import Study
from leadline.model.workload import Workload
from leadline.virtual import bounds, image, instructions, job
from leadline.virtual.capture import Captured, Captures, RecordingHost
from leadline.virtual.host import GuestHost
from leadline.virtual.worlds import Levels, Order, Past

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
        digest = initramfs.write(image.contents(captures, driver, self._host.settings()), stack)
        self._host.about[IMAGE] = digest
        for name in dict.fromkeys(self._kernel_name(past.boot) for past in pasts):
            self._kernels[name] = kernel = kernels.provision(name, message)
            self._host.releases[kernel.release] = name
            base = self._work / "base.cpio"
            initramfs.write(initramfs.base(kernels.busybox(message)) | initramfs.modules(kernel.modules), base)
            self._images[name] = self._work / f"image-{len(self._images)}.cpio"
            initramfs.join([base, stack], self._images[name])
            base.unlink()
        stack.unlink()
        self._check_memory(max(path.stat().st_size for path in self._images.values()))
        if self._study.time == "real":
            test = self._boot(pasts[0])
            self._accelerator = verdict = accelerator.probe(self._local, test, self._work / "accelerator")
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
        done = machine.run(self._local, self._boot(past), text, self._work / "defaults", bounds.BOOT)
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
        text, seconds = job.measured(self._load(run), run.out, logs), bounds.of_fork(run.seconds)
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
        return "\n".join(parts), bounds.of_past(load)

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
