"""The A/A twin of a study: its plan, load and stack, with nothing changed between trials or slots.

What the procedure finds in the twin it found in noise (Kohavi, Longbotham, Sommerfield and Henne 2009, "Controlled
experiments on the web", section 3.3: A/A tests).
"""

from __future__ import annotations

from io import StringIO

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from leadline.checks.files.study import StudyFile, parse_study
from leadline.checks.plan import Planned
from leadline.model.knob import ApplyCost

PREFIX = "same."  # so that no table of a twin can be taken for one of the study


def aa_twin(file: StudyFile, planned: Planned) -> StudyFile:
    """The study file whose factors are pseudo-factors named ``same.KNOB``, each knob held at its baseline level.

    Factors that the host cannot set, and that ``planned`` therefore leaves out, are left out here too. A pseudo-factor
    keeps the apply cost of its knob, so that whole plots, trials and slots fall as they do in the study.
    """
    tree = CommentedMap(file.study.model_dump(mode="json", exclude_defaults=True))
    labels: dict[str, list[str]] = {}
    baseline: dict[str, str] = {}
    costs: dict[str, str] = {}
    settings = dict(tree.get("settings", {}))
    for factor in planned.plan.factors:
        knob = planned.knobs.get(factor.name)
        write = knob.format if knob else str
        name = PREFIX + factor.name if knob else factor.name
        labels[name] = [write(level) for level in factor.levels]
        baseline[name] = write(factor.baseline)
        if factor.apply_cost is not ApplyCost.LIVE:
            costs[name] = factor.apply_cost.value
        if knob:
            settings[factor.name] = write(factor.baseline)
    for key in ("factors", "pseudo_factors", "pseudo_apply_costs"):
        tree.pop(key, None)
    tree["study"] = f"{file.study.study}-aa"
    tree["question"] = "What does the procedure find where nothing differs?"
    tree["settings"] = settings
    tree["pseudo_factors"] = labels
    tree["baseline"] = baseline
    if costs:
        tree["pseudo_apply_costs"] = costs
    stream = StringIO()
    YAML().dump(dict(tree), stream)
    return parse_study(stream.getvalue(), f"A/A twin of {file.source}")
