"""Whole tunings on simulated observations: no store, no files."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned, plan_study
from leadline.experiments.tuning import measured, part_file, treatments_of
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.model.plan import Treatment
from leadline.model.tuning import MODE, Tuning
from leadline.places.simulated import Model, Truth, simulate_observations
from leadline.places.simulated.host import SimulatedHost
from leadline.places.simulated.timing import VirtualClock
from leadline.planning.sequence import Measured, Part, Progress, advance

MODES = ("orm", "session", "direct")
KNOBS = [
    Knob(MODE, Kind.CHOICE, ApplyCost.RESTART, "mode", choices=MODES),
    *(Knob(f"server.{name}", Kind.INTEGER, ApplyCost.RESTART, name, default=0) for name in "abcdefgh"),
]


def tuning(steps: Mapping[str, list[int]], **keys: object) -> Tuning:
    """One step a knob ``server.NAME``."""
    document = {
        "tuning": "t",
        "question": "q",
        "modes": list(MODES),
        "workload": {"users": 40, "ramp_up": 2, "steady": 10, "ramp_down": 1},
        "steps": [{"name": name, "levels": {f"server.{name}": levels}} for name, levels in steps.items()],
        "responses": ["throughput"],
    }
    return Tuning.model_validate(document | keys)


@dataclass
class Simulator:
    """Plays tunings; a part that was planned once is not planned again."""

    tuning: Tuning
    truth: Truth
    _plans: dict[str, tuple[StudyFile, Planned]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.model = Model(self.truth, self.tuning.workload)

    def play(self, seed: int) -> Progress:
        results: dict[str, Measured] = {}
        while True:
            progress = advance(self.tuning, results)
            if progress.next is None:
                return progress
            results[progress.next.key] = self._measure(progress.next, 1000 * seed + len(results))

    def _measure(self, part: Part, seed: int) -> Measured:
        if part.key not in self._plans:
            file = part_file(self.tuning, part)
            self._plans[part.key] = (file, plan_study(file, SimulatedHost([], VirtualClock()), KNOBS))
        file, planned = self._plans[part.key]
        plan = planned.plan
        named = treatments_of(file, plan, part)
        every = {treatment: Treatment.of(part.configurations[name]) for name, treatment in named.items()}
        whole = replace(plan, trials=tuple(replace(t, treatment=every[t.treatment]) for t in plan.trials))
        seen = simulate_observations(whole, self.truth, file.study.workload, seed, model=self.model)
        held = [replace(one, treatment=plan.trials[one.position].treatment) for one in seen]
        return measured(file, part, plan, held, complete=True)
