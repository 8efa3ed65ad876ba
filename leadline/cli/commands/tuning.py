"""Tunings from the command line: ``run``, ``show`` and ``report`` come here when what they are given is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from leadline.cli.hosts import local_host
from leadline.cli.live import watcher
from leadline.cli.output import console, errors, print_json
from leadline.host.base import TrialHost
from leadline.host.local import LocalHost
from leadline.lab.planning import Planned
from leadline.lab.progress import Watcher
from leadline.lab.run import RunResult, StudyRun
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile
from leadline.lab.tuning.check import steps_left_out, tuning_catalogue
from leadline.lab.tuning.file import TuningFile
from leadline.lab.tuning.outline import outline
from leadline.lab.tuning.records import TuningRecords
from leadline.lab.tuning.run import HostRunner, TuningResult, TuningRun
from leadline.model.knob import Knob
from leadline.report.tuning.document import document
from leadline.report.tuning.text import lines
from leadline.report.tuning.view import TuningView, gather

REPORT = "report.html"


def run_tuning(
    file: TuningFile,
    lab: Path,
    *,
    dry_run: bool,
    new: bool,
    disposable: bool,
    truth: Path | None,
    json: bool,
) -> None:
    """Run what is left of a tuning, on this host or a simulated one, or print what it would be."""
    service_knobs = tuning_catalogue(file)
    if truth is not None:
        _simulated(file, truth, lab, service_knobs, dry_run=dry_run, new=new, disposable=disposable, json=json)
        return
    host = local_host(lab, disposable)
    left_out = steps_left_out(file, host, service_knobs, disposable)
    if dry_run:
        _outline(file, host, service_knobs, left_out, lab, json)
        return
    from leadline.stack.standing import require_none_standing

    require_none_standing(lab)
    store = Store(lab)
    with watcher(errors if json else console) as watching:
        runner = _RealRunner(host, service_knobs, disposable, store, watching)
        result = TuningRun(file, left_out, store, runner, watching.message).execute(new)
    present(store, result, json=json)


def _simulated(
    file: TuningFile,
    truth: Path,
    lab: Path,
    service_knobs: list[Knob],
    *,
    dry_run: bool,
    new: bool,
    disposable: bool,
    json: bool,
) -> None:
    from leadline.cli.commands.simulated import FOLDER
    from leadline.host.knobs import FAMILIES
    from leadline.simulate import read_truth
    from leadline.simulate.clock import VirtualClock
    from leadline.simulate.host import SimulatedHost
    from leadline.simulate.tuning import simulate_tuning

    host_knobs = [knob for family in FAMILIES for knob in family(Path("/")).knobs()]
    known = read_truth(truth)
    if dry_run:
        host = SimulatedHost(host_knobs, VirtualClock())
        left_out = steps_left_out(file, host, service_knobs, disposable)
        _outline(file, host, service_knobs, left_out, lab / FOLDER, json)
        return
    output = errors if json else console
    banner = f"SIMULATED on {truth}: no server runs, every figure below is made up; kept in {lab / FOLDER}"
    output.print(banner, markup=False, highlight=False, soft_wrap=True)
    with watcher(output) as watching:
        run = simulate_tuning(
            file,
            known,
            lab / FOLDER,
            watching,
            host_knobs=host_knobs,
            service_knobs=service_knobs,
            source=str(truth),
            fresh=new,
            disposable=disposable,
        )
    present(run.store, run.result, json=json)


def _outline(
    file: TuningFile, host: TrialHost, service_knobs: list[Knob], left_out: dict[str, str], lab: Path, json: bool
) -> None:
    plan = HostRunner(host, service_knobs, disposable=True).plan
    told = outline(file.tuning, left_out, plan, lab)
    if json:
        print_json(told.document())
    else:
        _print(told.lines())


class _RealRunner(HostRunner):
    """Runs studies on this host."""

    def __init__(
        self, host: LocalHost, service_knobs: list[Knob], disposable: bool, store: Store, watching: Watcher
    ) -> None:
        super().__init__(host, service_knobs, disposable)
        self._local = host
        self._store = store
        self._watching = watching

    def run(
        self,
        file: StudyFile,
        planned: Planned,
        *,
        go_on: int | None,
        opened: Callable[[int], None],
        budget: float | None,
        give_up: int,
    ) -> RunResult:
        from leadline.lab.real import RealSystem

        system = RealSystem(file.study, self._local, self._store.directory)
        run = StudyRun(
            file,
            planned,
            self._store,
            self._local,
            system,
            self._watching,
            self._local.guard,
            budget=budget,
            give_up=give_up,
            opened=opened,
        )
        return run.execute(fresh=True, go_on=go_on)


def present(store: Store, result: TuningResult, *, json: bool) -> None:
    """Write the report of a run that has ended and print its result. Ends with code 1 when it is not complete."""
    view = gather(store, TuningRecords(store).load(result.tuning_id))
    page = _build(view, store.directory / "reports" / f"{view.record.tuning.tuning}@{view.record.id}" / REPORT)
    ended: dict[str, Any] = {
        "tuning_id": result.tuning_id,
        "complete": result.complete,
        "stopped": result.stopped,
        "restored": list(result.restored),
        "report": str(page),
    }
    if json:
        print_json({**document(view), "run": ended})
    else:
        *table, answer = lines(view)
        _print(table)
        _print([*(f"put back: {line}" for line in result.restored)])
        _print([f"stopped: {result.stopped}"] if result.stopped else [])
        _print([f"report: {page}", answer])
    if not result.complete:
        raise typer.Exit(1)


def stored(reference: str, lab: Path) -> TuningView | None:
    """The tuning that a lab keeps under this name, None where the name is no tuning's."""
    store = Store(lab, create=False)
    records = TuningRecords(store)
    found = records.find(reference)
    return None if found is None else gather(store, records.load(found))


def show_tuning(view: TuningView, json: bool) -> None:
    """Print what a tuning found."""
    if json:
        print_json(document(view))
    else:
        _print(lines(view))


def report_tuning(view: TuningView, out: Path, json: bool) -> None:
    """Write a tuning's report."""
    page = _build(view, out)
    if json:
        print_json({"report": str(page), "bytes": page.stat().st_size})
    else:
        _print([str(page)])


def _build(view: TuningView, out: Path) -> Path:
    from leadline.report.tuning.page import build

    return build(view, out)


def _print(text: list[str]) -> None:
    for line in text:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
