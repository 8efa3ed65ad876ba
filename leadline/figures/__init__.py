"""Study A's figures of any table of results, systems x settings x repeats. Pure: values in, values out.

``table_of(plan, observations, response)`` makes the table of a study, ``read_rows(rows)`` that of foreign results;
``figures_of(table)`` makes the figures. docs/concepts/study-a.md explains them.
"""

from __future__ import annotations

from leadline.figures.everything import StudyFigures, figures_of, figures_of_gains
from leadline.figures.extremes import Extremes, ExtremesTable, extremes_table
from leadline.figures.foreign import read_gains, read_rows
from leadline.figures.grouping import parse_groups
from leadline.figures.study import system_factor, table_of
from leadline.figures.table import Parameter, ResultTable, Run, Setting

__all__ = [
    "Extremes",
    "ExtremesTable",
    "Parameter",
    "ResultTable",
    "Run",
    "Setting",
    "StudyFigures",
    "extremes_table",
    "figures_of",
    "figures_of_gains",
    "parse_groups",
    "read_gains",
    "read_rows",
    "system_factor",
    "table_of",
]
