"""Results in lines and files, as the commands print and write them."""

from __future__ import annotations

from leadline.report.advice_text import lines as advice_lines
from leadline.report.advising import Advice
from leadline.report.ci import HTML
from leadline.report.figures.files import document as figures_document
from leadline.report.figures.files import write as write_figures
from leadline.report.figures.text import lines as figures_lines
from leadline.report.text import one_line

__all__ = ["HTML", "Advice", "advice_lines", "figures_document", "figures_lines", "one_line", "write_figures"]
