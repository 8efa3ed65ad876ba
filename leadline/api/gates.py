"""Gates: two sides of a change in one study, a verdict by declared conditions, and how often such a gate errs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leadline.api.results import StudyResult
from leadline.api.running import Run, checked, open_testbed
from leadline.api.studies import Study
from leadline.checks.files.stack import read_stack
from leadline.conclude.gate import COUNTS, LAYOUTS, OF_COUNTS, OF_SERVERS, Counted, Gate, counted_gate, gate_of
from leadline.experiments.counting import LONGEST, counted, services
from leadline.experiments.gate import BASE, HEAD, built, command_study, of_jars, of_stack_files, server_study
from leadline.experiments.stackfiles import first
from leadline.experiments.trying import scenario_of
from leadline.host.local import LocalHost
from leadline.host.paths import Scratch
from leadline.load.convert.formats import of_file
from leadline.load.result import read_summary
from leadline.model.conditions import exit_code, parse
from leadline.model.errors import UsageError
from leadline.model.judgement import NO_ANSWER_CODE
from leadline.model.ownstack import OwnFile
from leadline.model.units import parse_duration
from leadline.places.testbed import Testbed
from leadline.stack.own.words import beside
from leadline.trial.command import Command, commands_of
from leadline.trial.progress import Watcher

_NAMES = {"": "a command", ".jar": "a jar", ".yaml": "a stack file"}


@dataclass(frozen=True)
class GateRun:
    """A gate that has ended and the run of its study."""

    gate: Gate
    run: Run | None = None
    counted: Counted | None = None  # instead of a run

    @property
    def result(self) -> StudyResult:
        assert self.run is not None
        assert isinstance(self.run.result, StudyResult)
        return self.run.result

    def exit_code(self, undecided_fails: bool) -> int:
        """1 for a regression, 4 where it is undecided, unless that passes; 4 where the run was cut short."""
        if self.run is not None and not self.run.complete:
            return NO_ANSWER_CODE
        return exit_code(self.gate.judged, undecided_fails)

    def document(self) -> dict[str, Any]:
        """As JSON types (docs/reference/json.md)."""
        from leadline.report.ci import gate_document

        if self.counted is not None:
            return {**gate_document(self.gate), "answer": self.counted.answer(), "counts": self.counted.document()}
        assert self.run is not None
        return {**gate_document(self.gate), "answer": self.result.answer, "run": self.run.document()}

    def markdown(self) -> str:
        """For a pull request."""
        from leadline.report.ci import gate_markdown, markdown

        if self.counted is not None:
            return gate_markdown(self.gate, "\n".join(["```text", *self.counted.lines(), "```"]))
        return gate_markdown(self.gate, markdown(self.result.summary()))

    def junit(self, undecided_fails: bool) -> str:
        """For a build's list of tests."""
        from leadline.report.ci import gate_junit

        return gate_junit(self.gate, undecided_fails)


@dataclass(frozen=True)
class GateOptions:
    """``fail``: conditions, those of the kind of sides if empty; ``budget`` as a duration. ``stack``: of jars, how they
    are started; ``scenario`` loads servers, a recording (HAR) too; ``truth`` simulates them.
    ``build`` and ``run``: as of ``gate.built``. ``count``: in virtual time instead.
    """

    fail: Sequence[str] = ()
    budget: str = "15m"
    seed: int = 1
    stack: Path | None = None
    scenario: Path | None = None
    truth: Path | None = None
    build: str = ""
    run: str = ""
    count: bool = False

    @property
    def seconds(self) -> float:
        """Of the budget. Raises UsageError."""
        try:
            return parse_duration(self.budget)
        except ValueError as error:
            raise UsageError(f"--budget {self.budget}: {error}") from None


def gate(base: str, head: str, options: GateOptions, lab: Path, watching: Watcher) -> GateRun:
    """Compare two commands, jars or stack files, or with ``options.build`` revisions. Raises UsageError for what cannot
    be compared.
    """
    if not options.build:
        if options.run:
            raise UsageError("--run says what of two revisions is compared: write --build, too")
        return _gate(base, head, (base, head), options, lab, watching)
    if not options.run:
        raise UsageError("--build: write by --run what it leaves to compare: a jar, a stack file or a command")
    with built(base, head, options.build, options.run) as (first_side, other_side, tree):
        inside = {
            key: tree / path
            for key in ("stack", "scenario")
            if (path := getattr(options, key)) is not None and (tree / path).is_file()
        }
        return _gate(first_side, other_side, (base, head), replace(options, **inside), lab, watching)


def _gate(base: str, head: str, names: tuple[str, str], options: GateOptions, lab: Path, watching: Watcher) -> GateRun:
    since = time.monotonic()
    kinds = {_kind(side) for side in (base, head)}
    if len(kinds) > 1:
        raise UsageError(f"BASE is {_NAMES[_kind(base)]}, HEAD {_NAMES[_kind(head)]}: name two of one kind")
    if options.count and options.truth:
        raise UsageError("--count runs a guest: nothing of it is simulated")
    if kinds == {""}:
        if options.stack or options.scenario or options.truth:
            of_servers = "--stack, --scenario and --simulate"
            raise UsageError(f"{of_servers} are of jars and stack files; these are two commands")
        sides = [commands_of([text], {})[0] for text in (base, head)]
        if options.count:
            return _counted(sides, names, options, watching, since)
        keys = command_study(sides[0], sides[1], options.fail, options.seconds, options.seed)
    else:
        own = _builds(Path(base), Path(head), options)
        scenario = _scenario(own, options, lab, watching)
        if options.count:
            with Scratch() as scratch:
                sides = services(own, (BASE, HEAD), scenario.absolute(), scratch)
                return _counted(sides, names, options, watching, since, scratch)
        keys = server_study(own, scenario.absolute(), options.fail, options.seconds, options.seed)
    study = Study.of(keys)
    place = open_testbed(lab, truth=options.truth, watcher=watching, subject=study)
    return run_gate(study, *names, place, lambda: time.monotonic() - since)


def _counted(
    sides: Sequence[Command],
    names: tuple[str, str],
    options: GateOptions,
    watching: Watcher,
    since: float,
    folder: Path | None = None,  # of services
) -> GateRun:
    conditions = parse(options.fail or (OF_COUNTS if folder is None else OF_SERVERS), COUNTS)
    counts = counted(sides, LAYOUTS, LocalHost(), LONGEST, watching.message, folder is not None)
    if folder is not None:
        done = read_summary(folder / "out").total.values()
        counts = replace(counts, transactions=sum(transaction.ok + transaction.failed for transaction in done))
    return GateRun(counted_gate(counts, conditions, *names, time.monotonic() - since), counted=counts)


def _kind(side: str) -> str:
    """``.jar``, ``.yaml``, or empty for a command. Raises UsageError for the name of a file that is not there."""
    path = Path(side)
    ending = ".yaml" if path.suffix == ".yml" else path.suffix
    if ending not in (".jar", ".yaml") or len(side.split()) > 1:
        return ""
    if not path.is_file():
        raise UsageError(f"there is no file {side}" + ("; build it first" if ending == ".jar" else ""))
    return ending


def _builds(base: Path, head: Path, options: GateOptions) -> OwnFile:
    """One stack file with both builds."""
    if base.suffix != ".jar":
        if options.stack is not None:
            raise UsageError("--stack is of two jars; these are two stack files")
        return of_stack_files(read_stack(base), read_stack(head))
    if options.stack is not None:
        return of_jars(read_stack(options.stack), base, head)
    with Scratch() as scratch:
        path, _ = first(base.absolute(), scratch / "gate.stack.yaml")
        return of_jars(read_stack(path), base, head)


def _scenario(own: OwnFile, options: GateOptions, lab: Path, watching: Watcher) -> Path:
    """The one given, else that of the stack file; from a recording (HAR), or from the OpenAPI description of the base,
    which is started for it.
    """
    path = options.scenario or (beside(own, own.content.scenario) if own.content.scenario else None)
    if path is None and options.truth is not None:
        raise UsageError("a simulated host serves no OpenAPI description; name what loads it by --scenario")
    if path is None:
        return scenario_of(own, lab, watching.message)
    if path.suffix != ".har":
        return path
    lab.mkdir(parents=True, exist_ok=True)
    made = lab / f"{path.stem}.scenario.yaml"
    made.write_text(of_file(path).text(), encoding="utf-8")
    watching.message(f"{made} is made of {path}")
    return made


def run_gate(study: Study, base: str, head: str, place: Testbed, elapsed: Callable[[], float]) -> GateRun:
    """Run the study of a gate, anew, and conclude; its page is written."""
    run = checked(place, study)(True)
    result = run.result
    assert isinstance(result, StudyResult)
    result.report(run.page)
    return GateRun(gate_of(result.record, result.analysis, base, head, elapsed()), run)
