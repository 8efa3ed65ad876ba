"""Designs: pure functions from factors and a budget to a seeded, ordered plan.

``make_plan(factors, design)`` gives a :class:`~leadline.model.plan.Plan`; ``plan_to_json`` and ``plan_from_json``
save it and read it back; ``describe_design`` tells what it can estimate.
docs/concepts/designs.md explains the choices.
A new kind of design is one module with its runs, their number and its notes, and its name in ``study.DesignName``.
"""
