"""Reports and figures of a study: the page, the terminal's table, files."""

from leadline.report.export import export
from leadline.report.page import build

__all__ = ["build", "export"]
