"""Planning: noise, power, where to repeat, looks before the end, racing. Pure: values in, values out.

``forecast(plan, noise, setup)`` tells what a plan will find, ``advise(...)`` where to repeat, ``look(...)`` whether a
study may end early, ``race(...)`` which levels are still worth a trial. docs/concepts/planning.md explains them.
"""
