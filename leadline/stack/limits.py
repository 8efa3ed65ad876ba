"""CPUs and memory of a stack's services as factors: what `placement` says, changed at a start and read back."""

from __future__ import annotations

from collections.abc import Mapping

from leadline import catalogue
from leadline.host.base import Host, Process
from leadline.host.files import field, memory_limit
from leadline.host.process import cpu_set
from leadline.model.errors import NotInPlay
from leadline.model.knob import AtStart, Knob, Level
from leadline.model.study import Placement
from leadline.stack.base import Settings

ALL = "all"
KNOBS = tuple(catalogue.load("placement").values())
NAMES = frozenset(knob.name for knob in KNOBS)
_PREFIX = "placement."
OF_SERVER = tuple(knob for knob in KNOBS if knob.name.startswith(f"{_PREFIX}server_"))


def role_of(name: str) -> str:
    """Of a knob: the service that it limits."""
    return name.removeprefix(_PREFIX).partition("_")[0]


class Limits(AtStart):
    """``processes``: the stack's that run, by role."""

    def __init__(self, host: Host, processes: Mapping[str, Process], knobs: tuple[Knob, ...] = KNOBS) -> None:
        self._host, self._processes, self._knobs = host, processes, knobs
        self._asked: dict[str, Level] = {}

    def knobs(self) -> tuple[Knob, ...]:
        return self._knobs

    def placement(self, fixed: Placement, settings: Settings) -> Placement:
        """Of one start: what is ``fixed`` for the study, with the levels of the settings."""
        self._asked = {name: level for name, level in settings.items() if name in NAMES}
        levels = {name.removeprefix(_PREFIX): level for name, level in self._asked.items()}
        return fixed.model_copy(update={key: None if level in (ALL, 0) else level for key, level in levels.items()})

    def read_back(self, name: str) -> Level:
        """Of all processes of the service. Raises LookupError where they differ, NotInPlay without the service."""
        role = role_of(name)
        process = self._processes.get(role)
        if process is None:
            raise NotInPlay(f"no {role} runs")
        pids = process.pids()
        return self._cpus(name, pids) if name.endswith("_cpus") else self._memory(role, pids)

    def _cpus(self, name: str, pids: list[int]) -> Level:
        usable = self._host.cpus()
        texts = {"".join(field(self._host.files, pid, "Cpus_allowed_list")) for pid in pids}
        sets = {cpu_set(text, usable) for text in texts if text}
        if len(sets) != 1:
            raise LookupError(f"{name}: its processes may use CPUs {sorted(map(sorted, sets))}")
        cpus = str(self._asked.get(name, ALL))
        if sets == {cpu_set(None if cpus == ALL else cpus, usable)}:
            return cpus
        return ALL if sets == {frozenset(usable)} else texts.pop()

    def _memory(self, role: str, pids: list[int]) -> Level:
        limits = {memory_limit(self._host.files, pid) for pid in pids}
        if len(limits) != 1:
            raise LookupError(f"the {role}'s processes have memory limits of {sorted(map(str, limits))} bytes")
        return limits.pop() or 0
