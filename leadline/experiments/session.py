"""A session: a program changes one system step by step, and keeps only what was shown to be better.

Each proposal is one study of paired blocks, what is in force against what is proposed, looked at after every block and
ended as soon as it is decided. ``leadline.planning.gating`` says how strictly. What was kept is in force between
studies under the host's undo journal and a watchdog, and part of both sides of the next ones. The lab remembers the
session: one that is opened again goes on with the same error rate.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

from leadline.analysis.sequential import FEWEST
from leadline.checks.files.stack import read_stack
from leadline.checks.files.study import StudyFile, study_of
from leadline.experiments.gate import BASE, FACTOR, HEAD, of_stack_files
from leadline.experiments.results import analysis_of
from leadline.host.textfile import read_text, write_private
from leadline.model.errors import LeadlineError, TrialFailure, UsageError, quoted
from leadline.model.knob import Catalogue, Knob, Level, Owner
from leadline.model.ownstack import BUILD, OwnFile
from leadline.model.received import from_json
from leadline.places.testbed import RunOptions, Testbed
from leadline.planning.gating import RATE, blocks_at, rate_of
from leadline.planning.looks import State, due, look, schedule

MOST_KNOBS, MOST_PROPOSALS = 20, 10_000
BLOCKS = 20  # of one comparison alone
CANDIDATE = "candidate"
PROPOSED, UNDECIDED, FAILED = "proposed", "undecided", "failed"
_SHOWN = 200  # knobs
_WORDS = {
    State.BETTER: "better",
    State.WORSE: "worse",
    State.SAME: "no difference beyond the margin",
    State.BEYOND: "not shown",
    State.OPEN: UNDECIDED,
}


@dataclass
class Proposal:
    """``knobs``, or a ``command`` or ``stack`` file in place of the one in force. ``rate``: one-sided error rate, 0
    until it is measured; ``percent``, ``low`` and ``high``: of the first response, over all looks. ``against``: what
    was in force when it was measured.
    """

    number: int
    knobs: dict[str, Level] = field(default_factory=dict)
    command: str = ""
    stack: str = ""
    why: str = ""
    rate: float = 0.0
    of_blocks: int = 0
    study: int | None = None
    verdict: str = PROPOSED
    percent: float | None = None
    low: float | None = None
    high: float | None = None
    blocks: int = 0
    kept: bool = False
    reason: str = ""
    against: dict[str, Any] = field(default_factory=dict)

    @property
    def better(self) -> bool:
        return self.verdict == _WORDS[State.BETTER]


class Session:
    """A context manager. ``base``: a study whose stack, workload or command, settings and first response the proposals
    share; its factors are what else may be asked for. ``blocks``: at most, of one comparison alone;
    proposals are judged more strictly and have more.

    Every method raises UsageError for what the client has to write otherwise, LeadlineError where the host fails.
    """

    def __init__(self, base: StudyFile, place: Testbed, name: str, blocks: int = BLOCKS) -> None:
        if not FEWEST < blocks <= 500:
            raise UsageError(f"--blocks {blocks}: write {FEWEST + 1} to 500")
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,40}", name):
            raise UsageError(f"--session {quoted(name)}: up to 40 small letters, digits and hyphens")
        self.place, self.name, self.blocks = place, name, blocks
        keys = base.study.model_dump(mode="json", exclude_unset=True)
        for key in ("factors", "baseline", "pseudo_factors", "design", "fail", "confirms", "budget"):
            keys.pop(key, None)
        self._keys: dict[str, Any] = keys
        self._file = base
        self._responses = base.study.responses
        services = place.knobs(base)
        self._knobs = Catalogue([*place.host.knobs(), *services])
        self._proposals: list[Proposal] = []
        self._held: ExitStack | None = None
        self._open = ExitStack()
        self._path = place.directory / "sessions" / f"{name}.json"

    def __enter__(self) -> Self:
        self._open.enter_context(self.place.host.held())
        try:
            self._check()
            self._proposals = _read(self._path)
            self._put_in_force()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._release()
        finally:
            self._open.close()

    # -- what there is

    def describe(self, pattern: str = "*") -> dict[str, Any]:
        """Host, what is measured, knobs that match with range, risk and today's level, and what is in force."""
        matching = self._knobs.matching(pattern)
        return {
            "session": self.name,
            "host": self.place.host.name,
            "disposable": self.place.disposable,
            "measures": self._keys.get("command") or self._keys.get("stack") or "the built-in application",
            "judged_by": self._responses[0],
            "margin_percent": 100 * self._file.study.equivalence,
            "in_force": self._in_force(),
            "error_rate": RATE,
            "knobs": [self._row(knob) for knob in matching[:_SHOWN]],
            "knobs_left_out": max(0, len(matching) - _SHOWN),
        }

    def history(self) -> list[dict[str, Any]]:
        """Every proposal, in order."""
        return [asdict(proposal) for proposal in self._proposals]

    def explain(self, number: int) -> dict[str, Any]:
        """What the study of a proposal says: the answer, every response's change, warnings."""
        proposal = self._of(number)
        if proposal.study is None:
            raise UsageError(f"proposal {number} is not measured yet")
        analysis = analysis_of(self.place.store.load(proposal.study))
        effects = [effect for response in analysis.responses for effect in response.effects]
        changes = {effect.response: [effect.percent, *_ends(effect.simultaneous)] for effect in effects}
        return {**asdict(proposal), "answer": analysis.answer, "changes": changes, "warnings": list(analysis.warnings)}

    # -- what is done

    def propose(
        self, knobs: Mapping[str, object] | None = None, command: str = "", stack: str = "", why: str = ""
    ) -> Proposal:
        """Note a change of knobs, of the command or of the stack file; nothing is set yet."""
        if sum(map(bool, (knobs, command, stack))) != 1:
            raise UsageError("a proposal changes one of knobs, command or stack")
        if len(self._proposals) >= MOST_PROPOSALS or len(knobs or {}) > MOST_KNOBS:
            raise UsageError(f"at most {MOST_PROPOSALS} proposals of a session, and {MOST_KNOBS} knobs of a proposal")
        if command and "command" not in self._keys:
            raise UsageError("command: this session measures a server; propose knobs, or a stack file")
        if stack:
            of_stack_files(self._own(), read_stack(Path(stack)))
        levels = {name: self._level(name, raw) for name, raw in (knobs or {}).items()}
        if knobs and all(level == self._today(name) for name, level in levels.items()):
            raise UsageError(f"{', '.join(levels)}: in force already")
        proposal = Proposal(len(self._proposals) + 1, levels, command, stack and str(Path(stack).absolute()), why[:400])
        self._proposals.append(proposal)
        self._write()
        return proposal

    def measure(self, number: int, seconds: float | None = None) -> Proposal:
        """Blocks of what is in force and the proposal, until it is decided or ``seconds`` are over; measured again, it
        goes on.
        """
        proposal = self._of(number)
        if proposal.verdict not in (PROPOSED, UNDECIDED):
            raise UsageError(f"proposal {number} is decided: {proposal.verdict}; to test it anew propose it again")
        self._check_against(proposal)
        rate = proposal.rate or rate_of([earlier.better for earlier in self._proposals if earlier.rate])
        of_blocks = proposal.of_blocks or blocks_at(rate, self.blocks)
        file = study_of(self._study(proposal, rate, of_blocks))
        planned = self.place.plan(file)
        if planned.skipped:
            raise UsageError("; ".join(planned.skipped))
        proposal.rate, proposal.of_blocks, proposal.against = rate, of_blocks, self._in_force()
        self._write()  # its rate is spent, whatever happens now
        self._release()

        def opened(study: int) -> None:
            proposal.study = study
            self._write()

        try:
            options = RunOptions(fresh=proposal.study is None, go_on=proposal.study, budget=seconds, opened=opened)
            ended = self.place.run(file, planned, options)
        finally:
            self._put_in_force()
        self._judge(proposal, ended.stopped)
        self._write()
        return proposal

    def keep(self, number: int) -> Proposal:
        """Put a proposal in force that was shown to be better: set, read back, in the journal. Others are refused."""
        proposal = self._of(number)
        if not proposal.better or proposal.kept:
            state = "kept already" if proposal.kept else proposal.verdict
            raise UsageError(f"proposal {number} is {state}: only what was shown to be better is kept")
        self._check_against(proposal)
        proposal.kept = True
        try:
            self._put_in_force()
        except LeadlineError:
            proposal.kept = False
            self._put_in_force()
            raise
        self._write()
        return proposal

    def revert(self, number: int) -> Proposal:
        """Take back what was kept: the host is put back and what is kept still is set anew."""
        proposal = self._of(number)
        if not proposal.kept:
            raise UsageError(f"proposal {number} is not in force")
        proposal.kept = False
        self._put_in_force()
        self._write()
        return proposal

    # -- how

    def _check(self) -> None:
        """Plan the base study with a proposal that changes nothing, so that what no run accepts is told at once."""
        design = {"looks": "watched", "sentinels": None, "replicates": self.blocks}
        same = {"pseudo_factors": {CANDIDATE: [BASE, HEAD]}, "design": design}
        self.place.plan(study_of({**self._keys, **same}))

    def _of(self, number: int) -> Proposal:
        if not 1 <= number <= len(self._proposals):
            raise UsageError(f"there is no proposal {number}; there are {len(self._proposals)}")
        return self._proposals[number - 1]

    def _check_against(self, proposal: Proposal) -> None:
        if proposal.rate and proposal.against != self._in_force():
            problem = "was measured against what is not in force any more"
            raise UsageError(f"proposal {proposal.number} {problem}; propose it again")

    def _in_force(self) -> dict[str, Any]:
        """What was kept: levels of knobs, the command, the stack file."""
        state: dict[str, Any] = {"knobs": {}}
        for proposal in self._proposals:
            if proposal.kept:
                state["knobs"] |= proposal.knobs
                state |= {key: value for key in ("command", "stack") if (value := getattr(proposal, key))}
        return state

    def _put_in_force(self) -> None:
        """Put the host back, then set what was kept, under a watchdog."""
        self._release()
        host = self.place.host
        own = {knob.name for knob in host.knobs()}
        levels = {name: level for name, level in self._in_force()["knobs"].items() if name in own}
        if not levels:
            return
        with ExitStack() as held:
            held.enter_context(host.guard(self._file.study.dead_man))
            try:
                host.apply(levels)
            except TrialFailure as failure:
                host.restore()
                raise LeadlineError(str(failure)) from failure
            self._held = held.pop_all()

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            try:
                self.place.host.restore()
            finally:
                held.close()

    def _level(self, name: str, raw: object) -> Level:
        knob = self._knobs.get(name)
        try:
            level = knob.accept(raw, self.place.disposable)
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None
        if knob.owner is Owner.HOST and (reason := self.place.host.writable(name)):
            raise UsageError(f"{name} cannot be set: {reason}")
        if self._today(name) is None:
            raise UsageError(f"{name}: its level today is not known; name it under `settings` of the study")
        return level

    def _today(self, name: str) -> Level | None:
        knob, kept = self._knobs.get(name), self._in_force()["knobs"]
        settings = self._keys.get("settings", {})
        if name in kept or name in settings:
            return kept.get(name) if name in kept else knob.parse(settings[name])
        if knob.owner is not Owner.HOST:
            return knob.default
        try:
            return self.place.host.read_back(name)
        except (LookupError, OSError):
            return None

    def _row(self, knob: Knob) -> dict[str, Any]:
        bounds = {"least": knob.minimum, "most": knob.maximum, "choices": list(knob.choices), "unit": knob.unit}
        dangers = {"dangerous_below": knob.dangerous_below, "dangerous_above": knob.dangerous_above}
        return {
            "knob": knob.name,
            "today": self._today(knob.name),
            "kind": knob.kind.value,
            **{key: value for key, value in bounds.items() if value not in (None, [], "")},
            **{key: limit.level for key, limit in dangers.items() if limit is not None},
            "risk": knob.risk.value,
            "apply_cost": knob.apply_cost.value,
            "summary": knob.summary,
        }

    def _own(self) -> OwnFile:
        """The stack file in force."""
        own = self._file.study.stack.own
        if own is None:
            raise UsageError("stack: this session measures no stack file")
        kept = self._in_force().get("stack")
        return read_stack(Path(kept)) if kept else own

    def _study(self, proposal: Proposal, rate: float, blocks: int) -> dict[str, Any]:
        """The keys of a proposal's study: what is in force is the baseline."""
        state, keys = self._in_force(), deepcopy(self._keys)
        settings = {**keys.pop("settings", {}), **state["knobs"]}
        design: dict[str, Any] = {"looks": "watched", "alpha": 2 * rate, "sentinels": None}
        design |= {"replicates": blocks, "seed": proposal.number}
        if rotation := self._file.study.design.rotation:
            design["rotation"] = rotation.model_dump(mode="json", exclude_unset=True)
        if proposal.knobs:
            factors = {name: [self._today(name), level] for name, level in proposal.knobs.items()}
            factors = {name: levels for name, levels in factors.items() if levels[0] != levels[1]}
            if len(factors) > 1:
                changed = {name: levels[1] for name, levels in factors.items()}
                design |= {"kind": "configurations", "configurations": {"in-force": {}, CANDIDATE: changed}}
            settings = {name: level for name, level in settings.items() if name not in factors}
        else:
            factors = {FACTOR if proposal.command else BUILD: [BASE, HEAD]}
        if "command" in keys:
            now = state.get("command", keys["command"]["run"])
            keys["command"]["run"] = now
            if proposal.command:
                keys["command"] |= {"run": f"{{{FACTOR}}}", "levels": {FACTOR: {BASE: now, HEAD: proposal.command}}}
        elif state.get("stack") or proposal.stack:
            own = of_stack_files(self._own(), read_stack(Path(proposal.stack))) if proposal.stack else self._own()
            keys["stack"] = {**keys["stack"], "own": own.model_dump(mode="json", exclude_unset=True)}
        named = {"study": f"{self.name}-{proposal.number}"[:60], "question": f"Is proposal {proposal.number} better?"}
        return {**keys, **named, "factors": factors, "settings": settings, "design": design}

    def _judge(self, proposal: Proposal, stopped: str) -> None:
        assert proposal.study is not None
        record = self.place.store.load(proposal.study, evidence=False)
        plan, left = record.plan, [trial.planned.block for trial in record.trials if trial.is_left]
        ran = record.observations()
        blocks = schedule(plan, "watched")
        seen = max((observation.block for observation in ran), default=-1) + 1
        number = min(due(plan, left, blocks), sum(end <= seen for end in blocks))
        proposal.blocks, proposal.reason = seen, stopped
        if not number:
            proposal.verdict = UNDECIDED if left else _WORDS[State.BEYOND]
            return
        level, margin = 1 - 2 * proposal.rate, 100 * self._file.study.equivalence
        ran = [observation for observation in ran if observation.block < blocks[number - 1]]
        end = look(plan, ran, self._responses[0], blocks, number, level, margin, watch=True)
        (settling,) = end.settlings
        proposal.percent = settling.percent
        proposal.low, proposal.high = _ends(settling.interval)
        failed = settling.interval is None and any(row.failure and row.treatment != plan.baseline for row in ran)
        if failed:
            proposal.verdict = FAILED
            return
        state = settling.state
        proposal.verdict = _WORDS[State.BEYOND] if state is State.OPEN and not left else _WORDS[state]

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_private(self._path, json.dumps(self.history(), indent=1))


def _ends(interval: Any) -> tuple[float | None, float | None]:
    return (None, None) if interval is None or not math.isfinite(interval.low) else (interval.low, interval.high)


def _read(path: Path) -> list[Proposal]:
    if not path.exists():
        return []
    try:
        return TypeAdapter(list[Proposal]).validate_python(from_json(read_text(path)))
    except ValueError as error:
        raise UsageError(f"{path}: no session can be read from it: {error}") from None
