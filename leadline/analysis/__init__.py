"""Statistics of a study: effects, intervals, luck, drift, steady state. Pure: values in, values out.

``analyse(plan, observations, responses)`` judges a study, ``steady_state(values)`` one trial's per-second series,
``gain_of_luck(...)`` a table of best gains.
docs/concepts/statistics.md explains them.
"""
