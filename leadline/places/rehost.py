"""A study on another kind of host than its file says: its host replaced, its design written as that kind has it.

Forks become replicates on a host that cannot fork, and replicates become worlds in virtual time. Kernels of guests give
way to those that a host over SSH has installed. What means nothing there is left out where it changes no level, and
refused where it does.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ruamel.yaml.comments import CommentedMap

from leadline.checks.files.study import StudyFile, validated
from leadline.model.design import Design
from leadline.model.errors import UsageError, did_you_mean, quoted
from leadline.model.guest import FORKS, GUEST_KINDS
from leadline.model.guest import KERNEL as GUEST_KERNEL
from leadline.model.hosts import KERNEL, ssh_host
from leadline.model.study import StackChoice, Study
from leadline.model.units import format_size
from leadline.model.yamltext import Path_, Places

KINDS: Mapping[str, str] = {"here": "local", "local": "local", "vm": "vm", "virtual-time": "virtual-time"}
_CHOICES = "here, vm, virtual-time or ssh:NAME"
_OF_FORKS = ("worlds", "of")  # keys of a design that nothing else has
_IN_TIME = ("replicates", "blocks", "block_size", "sentinels")  # those that forks do not have


@dataclass(frozen=True)
class Chosen:
    """``notes``: a sentence for each thing that is not as the file says."""

    file: StudyFile
    notes: tuple[str, ...] = ()


def on_host(file: StudyFile, word: str) -> Chosen:
    """The study on the kind of host that ``word`` names. Raises UsageError for a kind that there is not, and with file
    and line for what the study has and that kind cannot do.
    """
    kind, option = kind_of(word), f"--host {word}"
    study = file.study
    if kind == study.stack.host and study.stack.hosts is None:
        return Chosen(file)
    if not study.under_load and ssh_host(kind) is not None:
        raise UsageError(f"{option}: {file.where(('command',))}: a program is run on this host only, not over SSH")
    _check_knobs(file, kind, option)
    tree: CommentedMap = copy.deepcopy(file.places.tree)
    place_given: dict[Path_, str] = {**file.places.given, ("stack", "host"): option}
    stack = _child(tree, "stack")
    stack["host"] = kind
    stack.pop("hosts", None)
    notes = [f"{option}, where the file says {_word(study.stack)}"]
    if kind not in GUEST_KINDS and tree.pop("guest", None) is not None:
        notes.append("guest is left out: the machine has its own memory, CPUs and kernel")
        notes += _without_swap(file, tree, place_given, option)
    if kind not in GUEST_KINDS and GUEST_KERNEL in study.factors:
        notes.append(f"{GUEST_KERNEL} is left out: the kernels are those of {KERNEL}")
        del tree["factors"][GUEST_KERNEL]
        if study.design.each == GUEST_KERNEL:
            _child(tree, "design")["each"] = KERNEL
    if kind == "virtual-time":
        notes += _as_forks(file, tree, place_given, option)
    elif study.design.kind == FORKS:
        notes += _as_replicates(study.design, tree, place_given, option)
    places = Places(file.source, tree, place_given)
    try:
        return Chosen(replace(file, study=validated(Study, places), places=places), tuple(notes))
    except UsageError as error:
        raise UsageError("\n".join(_of_option(line, option) for line in str(error).splitlines())) from None


def kind_of(word: str) -> str:
    """A kind of host as a study file names it. Raises UsageError."""
    try:
        if ssh_host(word) is not None:
            return word
    except ValueError as error:
        raise UsageError(f"--host {error}") from None
    if word not in KINDS:
        hint = did_you_mean(word, list(KINDS)) or f"write {_CHOICES}"
        raise UsageError(f"--host {quoted(word)}: there is no such kind of host; {hint}")
    return KINDS[word]


def _word(stack: StackChoice) -> str:
    if stack.hosts is not None:
        return " and ".join(dict.fromkeys(stack.hosts.named().values()))
    return "here" if stack.host == "local" else stack.host


def _of_option(line: str, option: str) -> str:
    return line if line.startswith(option) else f"{option}: {line}"


def _check_knobs(file: StudyFile, kind: str, option: str) -> None:
    """That no level of a guest is asked of a machine; kernels that a host over SSH has installed may stand for those
    of guests.
    """
    if kind in GUEST_KINDS:
        return
    far = ssh_host(kind) is not None
    for key in ("factors", "settings", "baseline"):
        for name, value in getattr(file.study, key).items():
            kernels = far and (key, name) == ("factors", GUEST_KERNEL)
            if not name.startswith("guest.") or (kernels and KERNEL in file.study.factors):
                continue
            levels = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            here = (
                f"; or add --factor {KERNEL}=A,B with kernels that are installed there (leadline knobs {KERNEL}"
                f" {option} names them)"
            )
            raise UsageError(
                f"{option}: {file.where((key, name))}: {name} ({levels}) is of virtual machines, which can be"
                f" booted so; write --host vm or --host virtual-time{here if kernels else ''}"
            )


def _without_swap(file: StudyFile, tree: CommentedMap, given: dict[Path_, str], option: str) -> Iterator[str]:
    """Limits of memory that the file has for a guest with swap. A machine may have none: there a service may keep in
    memory what it could swap out.
    """
    swap = (file.study.guest and file.study.guest.swap) or 0
    for name in ("server_memory", "database_memory", "web_memory"):
        limit, key = getattr(file.study.placement, name), ("placement", name)
        if swap and limit is not None and not {key, key[:1]} & set(given):
            _child(tree, "placement")[name] = format_size(limit + swap)
            given[key] = option
            yield f"placement.{name} is {format_size(limit + swap)}: {format_size(swap)} of it was the guest's swap"


def _as_forks(file: StudyFile, tree: CommentedMap, given: dict[Path_, str], option: str) -> Iterator[str]:
    """Each replicate becomes a world."""
    was = file.study.design
    design = _child(tree, "design")
    for key in _IN_TIME:
        design.pop(key, None)
    design.update({"kind": FORKS, "of": was.kind, "worlds": was.replicates})
    given.update({("design", key): option for key in ("kind", "of", "worlds")})
    yield f"{was.replicates} replicates are {was.replicates} worlds, each with forks of all treatments ({was.kind})"
    usual = Design()
    for key in ("blocks", "block_size"):
        if getattr(was, key) != getattr(usual, key):
            yield f"design.{key} ({getattr(was, key)}) is left out: each world is a block"


def _as_replicates(was: Design, tree: CommentedMap, given: dict[Path_, str], option: str) -> Iterator[str]:
    """Each world becomes a replicate, every trial with a boot or start of its own."""
    design = _child(tree, "design")
    for key in (*_OF_FORKS, "sentinels"):
        design.pop(key, None)
    design.update({"kind": was.treatments, "replicates": was.replicates})
    given.update({("design", key): option for key in ("kind", "replicates")})
    yield f"{was.replicates} worlds are {was.replicates} replicates ({was.treatments}), in real time"


def _child(tree: CommentedMap, key: str) -> Any:
    if not isinstance(tree.get(key), CommentedMap):
        tree[key] = CommentedMap()
    return tree[key]
