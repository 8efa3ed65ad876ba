"""Stack files: a first one from a jar, and a check that starts the application once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.checks.files.stack import check_java, read_stack
from leadline.checks.files.study import parse_study
from leadline.checks.load import check_load
from leadline.host.files import datagram_ports
from leadline.host.local import LocalHost
from leadline.host.textfile import expanded, write_private
from leadline.load.result import read_summary
from leadline.model.errors import LeadlineError, RestoreError, TrialFailure, UsageError, did_you_mean, quoted
from leadline.model.knob import ApplyCost, Knob, KnobOwner, Level, Owner
from leadline.model.ownstack import OwnFile
from leadline.model.record import LoadSecond
from leadline.model.study import StackChoice, Study
from leadline.stack.assembly import Stack
from leadline.stack.base import Settings
from leadline.stack.own import firstfile
from leadline.stack.own.artifact import Artifact, read_artifact
from leadline.stack.own.firstfile import first_file
from leadline.stack.own.server import CommandServer
from leadline.stack.own.wars import WARS
from leadline.stack.own.words import line_of
from leadline.stack.registry import stack_catalogue
from leadline.stack.running import require_none_running

if TYPE_CHECKING:
    from leadline.places.real import RealSystem

_LOADED = 2.0  # seconds, and one for each live knob that it has
_MOST_CAUSES = 3
_OF_IT = (Owner.APPLICATION, Owner.SERVER)
_LETTERS = 20  # of a line that is told apart from others
_LOAD = "{ users: 1, ramp_up: 0s, steady: 2s, ramp_down: 0s }"


@dataclass(frozen=True)
class CheckStep:
    """A step of a check with its seconds; ``wrong``: what must be mended before a study can run."""

    name: str
    seconds: float
    told: str = ""
    wrong: str = ""


OnStep = Callable[[CheckStep], None]


def first(artifact: Path, out: Path | None, server: str | None = None, profile: str | None = None) -> tuple[Path, str]:
    """Path and text of a first stack file, ``NAME.stack.yaml`` in the current directory unless ``out`` says another:
    for a jar; for a WAR, an EAR or a directory of its configuration on ``server``; for a start script or a compose
    file. ``profile``: of a jar's properties. Raises UsageError, also where that file exists.
    """
    if artifact.is_dir() and server is not None:
        _check_name(server)
        return _written(artifact, out, lambda name, word: firstfile.of_server(artifact, server, name, word))
    other = firstfile.of_compose if artifact.suffix in (".yaml", ".yml") else firstfile.of_script
    if other is firstfile.of_compose or firstfile.is_script(artifact):
        if server is not None or profile is not None:
            option = "--profile" if server is None else "--server"
            raise UsageError(f"{artifact} is started as it is: leave {option} out")
        return _written(artifact, out, lambda name, word: other(artifact, name, word))
    if artifact.suffix == ".xml" and artifact.is_file():
        raise UsageError(
            f"{artifact}: give the directory of the server's configuration, and --server {' or '.join(WARS)}"
        )
    artifact_ = read_artifact(artifact)
    _check_server(artifact_, server)
    if profile is not None and (artifact_.framework in ("java", "war") or not re.fullmatch(r"[\w.,-]+", profile)):
        why = "no name" if artifact_.framework not in ("java", "war") else f"{artifact_.file} has no profiles"
        raise UsageError(f"--profile {quoted(profile)}: {why}; it is for a jar of Spring Boot or Quarkus")

    def text_of(name: str, word: str) -> str:
        return first_file(artifact_, name, word, server or "", profile)

    return _written(artifact_.file, out, text_of, name_of(artifact_))


def _written(file: Path, out: Path | None, text_of: Callable[[str, str], str], name: str = "") -> tuple[Path, str]:
    """``text_of``: from the application's name, by default that of the folder which has the file, and from the file as
    the stack file's folder sees it.
    """
    folder = file.resolve() if file.is_dir() else file.resolve().parent
    name = name or plain_name((folder.parent if folder.name == "bin" else folder).name)
    path = out or Path(f"{name}.stack.yaml")
    if path.exists():
        raise UsageError(f"{path} exists; remove it, or name another file by --out")
    try:
        word = str(file.resolve().relative_to(path.parent.resolve()))
    except ValueError:
        word = str(file.resolve())
    text = text_of(name, word)
    write_private(path, text)
    path.chmod(0o644)
    return path, text


def name_of(found: Artifact) -> str:
    """Of the application, made of its file's name."""
    return plain_name(
        found.file.absolute().parent.parent.parent.name if found.framework == "quarkus" else found.file.stem
    )


def plain_name(stem: str) -> str:
    """A name for a stack, of a file's or a folder's: without its version."""
    words = re.sub(r"[^a-z0-9]+", "-", re.sub(r"-\d+(\.\d+)*.*$", "", stem).lower()).strip("-")
    return words if re.match(r"[a-z]", words) else f"app-{words}".rstrip("-")


def _check_server(found: Artifact, server: str | None) -> None:
    if (found.framework == "war") != (server is not None):
        kind = found.file.suffix[1:].upper()
        if server is not None:
            raise UsageError(f"{found.file} is started by java -jar: leave --server {server} out")
        raise UsageError(f"{found.file}: a {kind} needs a server: write --server {' or '.join(WARS)}")
    if server is not None:
        _check_name(server)


def _check_name(server: str) -> None:
    if server not in WARS:
        hint = did_you_mean(server, list(WARS)) or f"there is {', '.join(WARS)}"
        raise UsageError(f"--server: unknown server {quoted(server)}; {hint}")


def check(file: Path, lab: Path, on_step: OnStep, message: Callable[[str], None]) -> bool:
    """Start the application once with its knobs at their defaults, read every knob back, load it for some seconds with
    one user, set live knobs to another level and back under that load, run the audits, stop it and put everything back.
    ``on_step`` hears each step; returns whether a study can run.

    Raises UsageError for what is wrong with the file.
    """
    from leadline.places.real import RealSystem  # its libraries take seconds to import

    began = time.monotonic()
    stack = read_stack(expanded(str(file)))
    check_java(stack)
    study, live = _study(stack, file)
    counted = _counted(len(stack.content.knobs), "knob", " of its own")
    on_step(CheckStep("read the file", time.monotonic() - began, counted))
    lab.mkdir(parents=True, exist_ok=True)
    host, steps = LocalHost(), _Steps(on_step)
    host.declare(study.host_knobs)
    knobs = own_knobs(study.stack)
    levels = {
        knob.name: knob.default
        for knob in knobs
        if knob.default is not None and not stack.content.attach and knob.name in stack.content.knobs
    }
    with host.lease():
        require_none_running(lab, host)
        system = RealSystem(study, host, lab)
        directory = lab / "check" / f"{stack.content.stack}-{int(time.time())}"
        try:
            with steps.step("prepare what it needs"):
                system.prepare(message)
            with steps.step("put the data back"):
                system.reset(directory, 1)
            with steps.step("find what runs" if stack.content.attach else "start"):
                system.start_database(levels, directory)
                system.start_server(levels, directory)
                services = ", ".join(study.stack.services)
                steps.told = f"after {services}" if services else ""
            running = system.owners()[0]
            assert isinstance(running, Stack)
            _read_knobs(knobs, levels, running, stack, steps)
            _read_host(host, stack, running, steps)
            changes = Changes(running, live)
            counts = _load(system, directory, changes.seconds * (stack.content.scenario is not None), changes, steps)
            if stack.content.audits:
                with steps.step("audits") as step:
                    failed = [
                        f"{line_of(stack, 'audits', audit.name)}: {audit.name}: {audit.detail}"
                        for audit in system.audit(directory, counts)
                        if not audit.passed
                    ]
                    steps.told = _counted(len(stack.content.audits), "audit")
                    step.extend(failed)
        except RestoreError:
            raise
        except LeadlineError as failure:  # its step has told it
            evidence = failure.evidence if isinstance(failure, TrialFailure) else ""
            if any(line.strip() not in str(failure) for line in evidence.splitlines()):
                message(evidence)
        finally:
            with steps.step("put levels back" if stack.content.attach else "stop") as step:
                unclean = list(system.stop())
                if stack.content.attach:
                    step.extend(unclean)
                elif unclean:  # slow is not broken
                    steps.told = f"{'; '.join(unclean)}; `stop: {{ within: 90s }}` gives it longer before it is killed"
            with steps.step("put the host back"):
                host.restore()
    return steps.good


def _tell_of_datagrams(host: LocalHost, stack: Stack, steps: _Steps) -> None:
    """Instances on one host may find each other where they receive datagrams."""
    pids = {pid for process in stack.processes().values() for pid in process.pids()}
    if ports := sorted(datagram_ports(host.files, pids)):
        told = (
            f"port {' and '.join(map(str, ports[:_MOST_CAUSES]))}; where it finds others of its kind there (clustering "
            "by multicast), instances of a rotation join each other: switch that off, or give each a port of its own"
        )
        steps.tell(CheckStep("listens on UDP", 0.0, told))


def _study(own: OwnFile, file: Path) -> tuple[Study, list[Knob]]:
    """What is run, and its live knobs. Raises UsageError."""
    keys = f"study: check\nquestion: Does it run?\nstack: {own.file}\nworkload: {_LOAD}\nresponses: [throughput]\n"
    parsed = parse_study(keys, str(file))
    if own.content.scenario is not None:
        check_load(parsed)
    knobs = stack_catalogue(parsed.study.stack)
    live = [knob for knob in knobs if knob.apply_cost is ApplyCost.LIVE and knob.owner in _OF_IT]
    return parsed.study.model_copy(update={"observe": False}), live


def _is_read(stack: Stack, knob: Knob) -> bool:
    try:
        stack.read_back(knob.name)
    except LookupError:
        return False
    return True


def _counted(number: int, what: str, more: str = "") -> str:
    return f"{number} {what}{'' if number == 1 else 's'}{more}"


def _read_host(host: LocalHost, own: OwnFile, stack: Stack, steps: _Steps) -> None:
    _tell_of_datagrams(host, stack, steps)
    for name in own.content.host_knobs:
        with steps.step(f"read {name}") as step:
            if why := host.writable(name):
                step.append(f"{line_of(own, 'knobs', name)}: {why}")
            else:
                steps.told = str(host.read_back(name))


def _load(
    system: RealSystem, directory: Path, seconds: float, changes: Changes, steps: _Steps
) -> dict[str, dict[str, int]]:
    """Tells every change, also where the load fails. Without ``seconds`` there is no load."""
    counts: dict[str, dict[str, int]] = {}
    try:
        with steps.step(f"load of {seconds:g} s by one user" if seconds else "load") as step:
            steps.told = "" if seconds else "none: the stack file names no scenario"
            if seconds:
                outcome = system.load_for(seconds, directory, 1, changes)
                counts = {name: dict(counters) for name, counters in outcome.counts.items()}
                ok, failed = (sum(count[how] for count in counts.values()) for how in ("ok", "failed"))
                steps.told = f"{ok} transactions"
                if not ok or failed:
                    step.append(f"{ok} transactions succeeded, {failed} failed{_causes(directory / 'driver')}")
        changes.rest()
    finally:
        for change in changes.done:
            steps.tell(change)
        if changes.absent:
            names = ", ".join(changes.absent)
            reason = next(iter(changes.absent.values()))
            steps.tell(CheckStep("other live knobs", 0.0, f"not read, so none to vary: {names} ({reason})"))
    return counts


def _causes(out: Path) -> str:
    """What the driver says of failed transactions, the most frequent first, each with an example."""
    result = read_summary(out)
    kinds = sorted(result.errors, key=lambda kind: -result.errors[kind])[:_MOST_CAUSES]
    examples = {kind: "".join(f" ({text})" for text in result.error_samples.get(kind, ())[:1]) for kind in kinds}
    return "".join(f"; {result.errors[kind]} x {kind}{examples[kind]}" for kind in kinds)


@dataclass
class Changes:
    """Sets each live knob to another level and back, one in every second of the load that calls it; one that cannot be
    read takes none.
    """

    stack: Stack
    knobs: list[Knob]
    done: list[CheckStep] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)  # knobs that cannot be read here, with the reason
    errors: int = 0  # of the driver, when it was last heard

    def __post_init__(self) -> None:
        there = [knob for knob in self.knobs if _is_read(self.stack, knob)]
        self.seconds = _LOADED + len(there)  # of its load
        self.knobs = [*there, *(knob for knob in self.knobs if knob not in there)]
        self._start = {_plain(line) for line in self.stack.server.words().splitlines()} - {""}

    def __call__(self, second: LoadSecond) -> None:
        if self.done and second.errors > self.errors and "transactions failed" not in self.done[-1].told:
            told = f"{self.done[-1].told}; transactions failed meanwhile"
            self.done[-1] = replace(self.done[-1], told=told)
        self.errors = second.errors
        changed = len(self.done)
        while self.knobs and len(self.done) == changed:
            self._change(self.knobs.pop(0))

    def rest(self) -> None:
        """Change those that are left without a load."""
        for knob in self.knobs:
            self._change(knob)

    def _change(self, knob: Knob) -> None:
        try:
            before = self.stack.read_back(knob.name)
        except LookupError as error:
            self.absent[knob.name] = str(error)
        else:
            self.done.append(self._changed(knob, before))

    def _changed(self, knob: Knob, before: Level) -> CheckStep:
        began, server, step = time.monotonic(), self.stack.server, CheckStep(f"change {knob.name}", 0.0)
        level = another(knob, before)
        if level is None:
            return replace(step, told=f"no level but {knob.format(before)} is known")
        told, wrong = f"{knob.format(before)}, {knob.format(level)} and back", ""
        pid, spoken, restarts = server.process.pid, len(server.words()), self.stack.restarts()
        try:
            self.stack.apply({knob.name: level})
        except LeadlineError as error:
            told = f"{knob.format(level)} is refused ({error}): write levels that it takes while it runs"
        try:
            self.stack.apply({knob.name: before})
        except LeadlineError as error:
            wrong = f"it is not put back to {knob.format(before)}: {error}"
        again = self.stack.restarts() > restarts
        if isinstance(server, CommandServer) and not again:  # whose words nobody knows: some of its start come again
            again = any(_plain(line) in self._start for line in server.words()[spoken:].splitlines())
        if not server.process.alive() or server.process.pid != pid:
            wrong = f"its process ended when it was set to {knob.format(level)}: leave it out, or give other levels"
        elif again:
            told += "; the application starts anew with it: sessions are lost, so vary it between trials, not in slots"
        return replace(step, seconds=time.monotonic() - began, told=told, wrong=wrong)


def another(knob: Knob, level: Level) -> Level | None:
    """A legal level near this one: half of a number, else twice; another choice. None where none is known."""
    candidates: list[Level] = [choice for choice in knob.choices if choice != level]
    if isinstance(level, bool):
        candidates = [not level]
    elif isinstance(level, int):
        candidates = [level // 2, level * 2] if level > 1 else [level + 1]
    elif isinstance(level, float):
        candidates = [level / 2, level * 2]
    for candidate in candidates:
        with suppress(ValueError):
            if (parsed := knob.parse(candidate)) != level and not knob.danger(parsed):
                return parsed
    return None


def _plain(line: str) -> str:
    """A line of a log without its digits; empty for one that is too short to be known again."""
    text = re.sub(r"[\W\d_]+", " ", line).strip()
    return text if len(text) >= _LETTERS else ""


def _read_knobs(knobs: Sequence[Knob], levels: Settings, stack: KnobOwner, own: OwnFile, steps: _Steps) -> None:
    for knob in knobs:
        where = f"{line_of(own, 'knobs', knob.name)}: " if knob.name in own.content.knobs else ""
        with steps.step(f"read {knob.name}") as step:
            try:
                level = stack.read_back(knob.name)
            except LookupError as error:
                if knob.name in levels or not knob.name.startswith("server."):
                    step.append(f"{where}{error}")
                steps.told = str(error)
                continue
            steps.told = knob.format(level)
            if knob.name in levels and level != levels[knob.name]:
                step.append(f"{where}{knob.format(level)} is in force, and {knob.format(levels[knob.name])} was set")


def own_knobs(choice: StackChoice) -> list[Knob]:
    """Those that the stack file itself declares, and of a WAR those of its server."""
    assert choice.own is not None
    declared = choice.own.content
    return [
        knob
        for knob in stack_catalogue(choice)
        if knob.name in declared.knobs or (declared.war is not None and knob.name.startswith("server."))
    ]


class _Steps:
    """Tells each step with its seconds once it is over; what it lists is wrong, and what it raises."""

    def __init__(self, on_step: OnStep) -> None:
        self._on_step = on_step
        self.good = True
        self.told = ""

    @contextmanager
    def step(self, name: str) -> Iterator[list[str]]:
        begin, lines, self.told = time.monotonic(), list[str](), ""
        step = CheckStep(name, 0.0)
        try:
            yield lines
        except RestoreError:
            raise
        except LeadlineError as error:
            lines.append(str(error))
            raise
        finally:
            self.tell(replace(step, seconds=time.monotonic() - begin, told=self.told, wrong="; ".join(lines)))

    def tell(self, step: CheckStep) -> None:
        """A step that is over."""
        self.good = self.good and not step.wrong
        self._on_step(step)
