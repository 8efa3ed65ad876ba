"""The one place that concludes: from a study's record and its series to what it says. Pure: values in, values out.

``conclude(record, series)`` analyses what has run under the study's stopping rule and makes the answer over all
responses; whatever prints a verdict prints this one.
"""
