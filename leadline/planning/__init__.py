"""Planning: noise, power, where to repeat, looks before the end. Pure: values in, values out.

``forecast(plan, noise, setup)`` tells what a plan will find, ``advise(...)`` where to repeat, ``look(...)`` whether a
study may end early. docs/concepts/planning.md explains them.
"""
