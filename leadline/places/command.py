"""A program timed as a whole process, as the system of a study's trials."""

# ruff: noqa: ARG002 - most of what a system is told is of servers and loads

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from leadline.host.base import Host
from leadline.host.bystanders import Bystanders, Others
from leadline.host.java import find_java, java_home
from leadline.host.received import json_object_file
from leadline.host.timed import Stopwatch, Timed
from leadline.model.command import CACHE, COLD, MOUNT, PLACE, WARM, CommandLoad
from leadline.model.disturbance import MachineUse
from leadline.model.errors import Event, Evidence, TrialFailure, blamed
from leadline.model.knob import AtStart, Knob, KnobOwner, Level
from leadline.model.places import DEFAULTS, DISK, MOUNTED, OVERLAY
from leadline.model.record import AuditRecord, LoadSecond, Phases
from leadline.model.result import SteadyState
from leadline.model.study import Study
from leadline.stack import places
from leadline.store.labfile import services_of
from leadline.trial.command import figures_of
from leadline.trial.system import (
    LoadOutcome,
    Measured,
    OnLoad,
    RunsAlone,
    SecondSeries,
    Settings,
    only_alone,
)

RUNS = "runs.json"  # in a trial's directory
IMAGE_SIZE = 2 << 30  # bytes of a file system of its own
_SETUP = 600.0  # seconds of ``setup`` and of each ``prepare``
_NOT_OF_A_JDK = shutil.ignore_patterns("src.zip", "jmods", "man", "legal", "demo")


class CommandRecording:
    """Reads the runs of a program. ``others``: what other programs used during the last load."""

    others: Others | None = None

    def measure(self, directory: Path, startup: float) -> Measured:
        rows = json_object_file(directory / RUNS)["runs"]
        responses = {name: median(row[name] for row in rows) for name in rows[0] if name != "started"}
        begin, end = rows[0]["started"], rows[-1]["started"] + rows[-1]["wall"]
        sentence = "whole processes, from start to end"
        return Measured(responses, SteadyState("steady", 0.0, sentence), Phases(begin, begin, end, end))

    def machine_use(
        self, directory: Path, stretches: Sequence[Sequence[tuple[float, float]]], beside: Sequence[Path] = ()
    ) -> Sequence[MachineUse | None]:
        """Of all its runs together."""
        bystanders = self.others
        if bystanders is None:
            return [None for _ in stretches]
        return [
            MachineUse({"others_cpu": bystanders.others, "steal": bystanders.steal}, bystanders.programs)
            for _ in stretches
        ]

    def seconds(self, directory: Path) -> SecondSeries:
        return SecondSeries([], {name: [] for name in ("throughput", "mean", "p50", "p99")})

    measure_windows = measure_turns = idle_cpu = only_alone


class CommandSystem(RunsAlone, AtStart):
    """Implements ``leadline.trial.system.System`` for a study with ``command``."""

    def __init__(self, study: Study, command: CommandLoad, host: Host, lab: Path) -> None:
        self._command = command
        self._host = host
        self._home = services_of(lab) / study.study
        self._reset = study.reset
        self._java = find_java(self._command.java) if self._command.java is not None else None
        self._places: dict[str, Path] = {}  # of this run: its files lie there, set up
        self._levels: dict[str, Level] = {}
        self.recording = CommandRecording()
        self._notes: list[str] = []  # of the last load

    def versions(self) -> Mapping[str, str]:
        return {"java": java_home(self._java).version} if self._java is not None else {}

    def prepare(self, message: Callable[[str], None]) -> None:
        message(f"timed: {self._command.run}")

    def reset(self, directory: Path, seed: int) -> None:
        if self._reset.swap == "off":
            self._host.swap_off()

    def start_database(self, settings: Settings, directory: Path) -> None:
        self._levels = dict(settings)

    def start_server(self, settings: Settings, directory: Path) -> float:
        """Its files at their place; nothing runs yet."""
        begun = time.monotonic()
        place = self._place
        if place not in self._places:
            self._places[place] = self._furnished(place, directory)
        return time.monotonic() - begun

    def owners(self) -> Sequence[KnobOwner]:
        return [self]

    def knobs(self) -> Sequence[Knob]:
        return self._command.knobs()

    def read_back(self, name: str) -> Level:
        """The place as the mount table tells it, the others as the next run is given them."""
        where = self._places[self._place]
        if name == PLACE:
            return places.level_at(self._host, where)
        if name == MOUNT:
            return places.options_at(self._host, {PLACE: where}, self._levels[MOUNT])
        return self._levels[name]

    def stop_observers(self) -> Sequence[str]:
        notes, self._notes = self._notes, []
        return notes

    def load(self, directory: Path, seed: int, on_load: OnLoad) -> LoadOutcome:
        argv = shlex.split(self._filled(self._command.run))
        cold = self._levels.get(CACHE, WARM) == COLD
        rows: list[dict[str, Any]] = []
        beside = Bystanders()
        with Stopwatch() as watch:
            for number in range((0 if cold else self._command.warmup) + self._command.runs):
                self._aside(watch, "prepare", self._command.prepare)
                if cold:
                    self._drop()
                timed = watch.time(argv, self._command.timeout)
                if timed.why:
                    raise _failed(timed, f"{argv[0]}: {timed.why}", shlex.join(argv))
                if cold or number >= self._command.warmup:
                    rows.append({"started": timed.figures["started"], **figures_of(timed)})
                on_load(LoadSecond(float(number), "steady", 1 / timed.figures["wall"], 0.0, 0))
            floor = watch.floor(self._command.timeout)
        self.recording.others = beside.used()
        if any(row["peak_memory"] <= floor for row in rows):
            rows = [{name: value for name, value in row.items() if name != "peak_memory"} for row in rows]
            self._notes.append(f"peak memory is left out: below {floor:.0f} MiB it is that of who starts the program")
        (directory / RUNS).write_text(json.dumps({"argv": argv, "runs": rows}, indent=1) + "\n", encoding="utf-8")
        return LoadOutcome({"run": {"ok": len(rows), "failed": 0}}, False, "", [])

    def audit(self, directory: Path, counts: Mapping[str, Mapping[str, int]]) -> Sequence[AuditRecord]:
        wanted, done = self._command.runs, counts["run"]["ok"]
        return [AuditRecord("runs", done == wanted, f"{done} of {wanted} runs ended with exit code 0")]

    def stop(self) -> Sequence[str]:
        """Its files stay until the end of the run, when the host is put back."""
        return ()

    def collect(self, directory: Path) -> Sequence[str]:
        return ()

    @property
    def _place(self) -> str:
        """Of its files: the level, with the options of a file system of its own."""
        place, options = str(self._levels.get(PLACE, DISK)), str(self._levels.get(MOUNT, DEFAULTS))
        return place if options == DEFAULTS else f"{place} {options}"

    def _furnished(self, place: str, directory: Path) -> Path:
        """A directory at that place, with the files in it and set up."""
        kind, _, options = place.partition(" ")
        if kind == DISK:
            filled_directory = self._filled_directory(self._home / "files")
        elif kind == OVERLAY:
            below = self._filled_directory(self._home / "below")
            filled_directory, _ = places.make_at(
                self._host, self._home, kind, f"files-{len(self._places)}", options, over=below
            )
            shutil.rmtree(below)
        elif kind in MOUNTED:
            use = f"files-{len(self._places)}"  # one for each of several options
            filled_directory, _ = places.make_at(self._host, self._home, kind, use, options, IMAGE_SIZE)
            filled_directory = self._filled_directory(filled_directory / "files")
        else:
            filled_directory, _ = places.make_at(self._host, self._home, kind)
            filled_directory = self._filled_directory(filled_directory / "files")
        self._places[place] = filled_directory
        with Stopwatch() as watch:
            try:
                self._aside(watch, "setup", f"cd {shlex.quote(str(filled_directory))} && {{ {self._command.setup}\n}}")
            except TrialFailure:
                del self._places[place]
                raise
        (directory / "logs").mkdir(exist_ok=True)
        return filled_directory

    def _filled_directory(self, found: Path) -> Path:
        """Made anew, with the files in it."""
        if found.exists():
            shutil.rmtree(found)
        found.mkdir(parents=True)
        if self._java is not None:
            shutil.copytree(self._java, found / "java", symlinks=True, ignore=_NOT_OF_A_JDK)
        for name in self._command.files:
            path = Path(name)
            if path.is_dir():
                shutil.copytree(path, found / path.name, symlinks=True)
            else:
                shutil.copy2(path, found / path.name)
        return found

    def _filled(self, text: str) -> str:
        place = self._places[self._place]
        texts = {
            name: each[str(self._levels.get(name, next(iter(each))))] for name, each in self._command.levels.items()
        }
        return self._command.filled(text, {**texts, "files": str(place), "java": str(place / "java")})

    def _aside(self, watch: Stopwatch, key: str, text: str) -> None:
        if not text or not getattr(self._command, key):
            return
        timed: Timed = watch.time(["/bin/sh", "-ec", self._filled(text)], _SETUP)
        if timed.why:
            raise _failed(timed, f"command.{key} fails: {timed.why}", self._filled(text))

    def _drop(self) -> None:
        try:
            self._host.drop_page_cache()
        except LookupError as error:
            raise blamed(Evidence(Event.REFUSED), str(error)) from None


def _failed(run: Timed, told: str, words: str) -> TrialFailure:
    late = run.exit_code is None and "status" in run.figures
    evidence = Evidence(Event.LATE if late else Event.ENDED, exit_code=run.exit_code)
    return blamed(evidence, told if late or evidence.signal is None else f"{told} ({evidence.how})", words)
