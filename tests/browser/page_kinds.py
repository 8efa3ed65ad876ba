"""A page of every kind, of simulated studies: made in a few seconds each, with the words and figures of real ones."""

import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "report"))

from simulated_soak import Leak, SimulatedSoak
from test_gc_page import write
from test_load_page import write_load
from typer.testing import CliRunner

from leadline.api.results import StudyResult, load_page
from leadline.api.running import run, simulated
from leadline.api.studies import Study, Tuning, read
from leadline.cli.main import app
from leadline.conclude.soak import conclude_soak
from leadline.experiments.bisect.answer import bisect
from leadline.experiments.bisect.run import question
from leadline.experiments.knee.run import knee as search_knee
from leadline.experiments.knee.run import question_of
from leadline.experiments.soak.record import SoakRecord, evened
from leadline.model.soak import DAY, HOUR, SoakTimes
from leadline.report import soak
from leadline.store.lab import Store

LOAD = "workload: { users: 40, variables: { think: 100ms }, ramp_up: 2s, steady: 8s, ramp_down: 1s }\n"
POOL, CACHE = "server.datasource.max_connections", "server.datasource.statement_cache"
TRUTH = f"""\
truth:
  seed: 4
  server: {{ think: 10ms }}
  noise: {{ trials: 1% }}
  effects:
    - {{ when: {{ {POOL}: 2 }}, percent: {{ throughput: -30%, p99: 80% }} }}
    - {{ when: {{ {CACHE}: 0 }}, percent: {{ p50: 40%, cpu_per_transaction: 20% }} }}
    - {{ when: {{ {POOL}: 2, {CACHE}: 0 }}, percent: {{ throughput: 25% }} }}
    - {{ when: {{ vm.swappiness: 10 }}, percent: {{ throughput: 5% }} }}
"""
_HEAD = "question: What do these settings do to a small trading application?\nstack: { server: liberty }\n"
STUDIES = {
    "one-factor": f"factors: {{ {POOL}: [40, 2, 10] }}\n{LOAD}design: {{ replicates: 3 }}\n"
    "responses: [throughput, p50, p99, cpu_per_transaction]\n",
    "factorial": f"factors: {{ {POOL}: [40, 2], {CACHE}: [60, 0] }}\n{LOAD}"
    "design: { kind: full-factorial, replicates: 4 }\nresponses: [throughput, p50, p99]\n",
    "rotation": f"factors: {{ {POOL}: [40, 2], vm.swappiness: [60, 10] }}\n"
    "workload: { users: 40, ramp_up: 9s, steady: 40s }\n"
    "design: { replicates: 3, rotation: { slot: 4s, instances: 3 } }\nresponses: [throughput, p50]\n",
    "switchback": "factors: { vm.swappiness: [60, 10], vm.dirty_ratio: [20, 5] }\n"
    "workload: { users: 40, ramp_up: 2s, steady: 60s, ramp_down: 1s }\n"
    "design: { replicates: 2, sentinels: null, switchback: { slot: 6s, wash_out: 1s } }\n"
    "responses: [throughput, p50]\n",
    "forks": f"guest: {{ memory: 1536m, kernel: 6.1-cloud }}\n{LOAD}"
    "factors: { vm.swappiness: [60, 10], jvm.heap: [256m, 512m] }\ndesign: { kind: forks, worlds: 4 }\n",
}
TUNING = f"""\
tuning: tuned
question: How much do tuned settings gain in each mode?
stack: {{ server: liberty }}
modes: [orm, direct]
{LOAD}steps:
  - {{ name: pool, levels: {{ {POOL}: [2, 40] }} }}
  - {{ name: cache, levels: {{ {CACHE}: [0, 60] }} }}
blocks: {{ step: 3, confirm: 2, compare: 3 }}
factorial: {{ of: all }}
responses: [throughput, p99]
published: {{ source: somebody, bars: {{ orm: {{ untuned: 1, gain: 50% }}, direct: {{ untuned: 2, gain: 60% }} }} }}
"""
SIZES = f"study: sizes\n{_HEAD}{LOAD}factors: {{ {POOL}: [2, 10, 20, 40] }}\nresponses: [throughput, p50]\n"
ARRIVALS = (
    f"study: arrivals\n{_HEAD}workload: {{ scenario: brokerage-classic, arrivals: open, ramp_up: 2s, steady: 8s, "
    "ramp_down: 1s }\nfactors: { load.rate: [100, 400] }\nlimits: { p99: 60ms }\n"
)


def _write(folder: Path, name: str, text: str) -> tuple[Study | Tuning, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.yaml").write_text(text)
    (folder / "truth.yaml").write_text(TRUTH)
    return read(str(folder / f"{name}.yaml")), folder / "truth.yaml"


def _study(name: str, folder: Path) -> Path:
    stack = _HEAD.replace("}", ", host: virtual-time }") if name == "forks" else _HEAD
    subject, truth = _write(folder, name, f"study: {name}\n{stack}{STUDIES[name]}")
    ended = run(subject, folder / "lab", truth=truth)
    return ended.result.report(folder / f"{name}.html")


def _tuning(name: str, folder: Path) -> Path:
    subject, truth = _write(folder, name, TUNING)
    return run(subject, folder / "lab", truth=truth).result.report(folder / f"{name}.html")


def _probe(name: str, folder: Path) -> Path:
    """The newest probe of a bisection or of a search for the largest load."""
    subject, truth = _write(folder, name, SIZES if name == "bisection" else ARRIVALS)
    assert isinstance(subject, Study)
    place = simulated(truth, folder / "lab", subject=subject)
    if name == "bisection":
        bisect(question(subject.file), place)
    else:
        search_knee(question_of(subject.file, None, None, None, 1.5, 0.2, 0, False), place)
    return _newest(place.store).report(folder / f"{name}.html")


def _newest(store: Store) -> StudyResult:
    return StudyResult(store.load(store.ids()[-1]), store)


def _soak(name: str, folder: Path) -> Path:
    """Fourteen days with a leak, a gap and an alarm."""
    subject, truth = _write(folder, "soaked", f"study: soaked\n{_HEAD}{STUDIES['one-factor']}")
    ended = run(subject, folder / "lab", truth=truth)
    assert isinstance(ended.result, StudyResult)
    record = SoakRecord(folder / "soak.jsonl", SoakTimes(14 * DAY, HOUR, DAY))
    SimulatedSoak(3, (Leak("handles", 20.0, after=4 * DAY),)).run(record, 1.7e9, math.inf, lambda _: None)
    answer = conclude_soak(record.intervals, evened(record.intervals), record.times, record.ends)
    return soak.build(ended.result.record, record, answer, folder / f"{name}.html")


def _load(name: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_load(folder / "out")
    return load_page(folder / "out", folder / f"{name}.html")


def gc_logs(name: str, folder: Path) -> Path:
    """Two logs against each other."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{name}.html"
    a, b = write(folder / "a.log", 90), write(folder / "b.log", 140, longest=60.0, every=0.6)
    CliRunner().invoke(app, ["gc", str(a), "--against", str(b), "--html", str(page)], catch_exceptions=False)
    return page


KINDS: Mapping[str, Callable[[str, Path], Path]] = {
    **dict.fromkeys(STUDIES, _study),
    "tuning": _tuning,
    "bisection": _probe,
    "knee": _probe,
    "soak": _soak,
    "load": _load,
    "gc": gc_logs,
}


def page_of(kind: str, folder: Path) -> Path:
    """The page of one of ``KINDS``."""
    return KINDS[kind](kind, folder)
