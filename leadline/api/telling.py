"""Results in lines and files, as the commands print and write them."""

from __future__ import annotations

from leadline.report.advising import Advice
from leadline.report.advising import lines as advice_lines
from leadline.report.figures.pages import document as pages_document
from leadline.report.figures.pages import lines as pages_lines
from leadline.report.figures.pages import over_time as pages_over_time
from leadline.report.figures.pages import table_of_study as pages_table
from leadline.report.figures.pages import write as write_pages
from leadline.report.figures.tables import document as figures_document
from leadline.report.figures.tables import write as write_figures
from leadline.report.figures.text import lines as figures_lines
from leadline.report.text import one_line

__all__ = [
    "Advice",
    "advice_lines",
    "figures_document",
    "figures_lines",
    "one_line",
    "pages_document",
    "pages_lines",
    "pages_over_time",
    "pages_table",
    "write_figures",
    "write_pages",
]
