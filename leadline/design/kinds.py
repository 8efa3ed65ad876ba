"""The table of designs, by the name a study file gives them; forks take their treatments of one."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import get_args

from leadline.design.kind import DesignError, DesignKind
from leadline.model.design import Design, DesignName
from leadline.model.guest import FORKS

_ENUMERATED = {kind.name: kind for kind in import_module("leadline.design.enumerated").KINDS}
KINDS: Mapping[str, DesignKind] = {
    name: _ENUMERATED.get(name) or import_module(f"leadline.design.{name.replace('-', '_')}").KIND
    for name in get_args(DesignName)
    if name != FORKS
}


def check_options(kind: DesignKind, design: Design) -> None:
    """Raises DesignError for a key that the kind would silently ignore."""
    options = {
        "resolution": "resolution" in design.model_fields_set,
        "foldover": design.foldover,
        "runs": design.runs is not None,
        "model": "model" in design.model_fields_set,
        "each": design.each is not None,
        "configurations": bool(design.configurations),
    }
    for option, is_given in options.items():
        if is_given and option not in kind.options:
            takers = " and ".join(other.name for other in KINDS.values() if option in other.options)
            raise DesignError(
                f"design: {kind.name} has no {option}; {takers} {'have' if ' and ' in takers else 'has'} it",
                ("design", option),
            )
    if design.block_size is not None and design.blocks != "incomplete":
        raise DesignError(
            f"design: block_size is of incomplete blocks, but blocks is {design.blocks}; set blocks to incomplete, or "
            "leave block_size out",
            ("design", "block_size"),
        )
