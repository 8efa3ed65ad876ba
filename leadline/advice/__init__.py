"""What a run suggests to try next. Pure: facts of trials in, findings with evidence, knob and level out.

``advise(facts)`` gives the findings, ``checked(finding, study, results)`` what later trials said of one. A finding is
a suggestion until a trial has checked it. docs/guides/advise.md explains the rules.
"""

from leadline.advice.check import Check, checked
from leadline.advice.facts import TrialFacts
from leadline.advice.findings import Finding, advise

__all__ = ["Check", "Finding", "TrialFacts", "advise", "checked"]
