"""A built-in study on other servers than those it was written for."""

from __future__ import annotations

import copy
from dataclasses import replace

from leadline.checks.files.study import StudyFile, validated
from leadline.checks.files.yamltree import Places
from leadline.model.study import Study
from leadline.stack.registry import SERVER_KNOB, knob_of_others


def on_its_servers(file: StudyFile) -> StudyFile:
    """Without the factors of the file that its servers lack and others have, nor the configurations that are of nothing
    else; ``left_out`` tells of them. A factor that an option gave stays, and is refused. Raises UsageError.
    """
    study = file.study
    servers = [str(name) for name in study.factors.get(SERVER_KNOB.name, [study.stack.server])]
    lacking = {}
    for factor in study.factors:
        whys = (knob_of_others(factor, server, study.stack.database) for server in servers)
        if ("factors", factor) not in file.places.given and (why := next(filter(None, whys), "")):
            lacking[factor] = why
    if not lacking:
        return file
    tree = copy.deepcopy(file.places.tree)
    notes = [f"{factor} is left out: {why}" for factor, why in lacking.items()]
    for factor in lacking:
        del tree["factors"][factor]
        tree.get("baseline", {}).pop(factor, None)
    named = tree.get("design", {}).get("configurations", {})
    for name, levels in list(named.items()):
        if levels and lacking.keys() >= levels.keys():
            del named[name]
            notes.append(f"configuration {name} is left out: it is of nothing else")
        for factor in lacking.keys() & levels.keys():
            del levels[factor]
    places = Places(file.source, tree, file.places.given)
    return replace(file, study=validated(Study, places), places=places, left_out=tuple(notes))
