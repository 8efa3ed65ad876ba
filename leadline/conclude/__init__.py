"""The one place that concludes: from a study's record and its series to what it says. Pure: values in, values out.

``conclude(record, series)`` analyses what has run under the study's stopping rule and makes the answer over all
responses; whatever prints a verdict prints this one.
"""

from __future__ import annotations

from leadline.conclude.study import Series, conclude
from leadline.conclude.washout import SlotSeconds

__all__ = ["Series", "SlotSeconds", "conclude"]
