"""A page as PDF, printed by the Chromium on the path."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from leadline.model.errors import LeadlineError, UsageError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_TIMEOUT = 300.0  # seconds; it takes two on an idle machine


def find_browser() -> str:
    """Raises UsageError where there is none."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise UsageError(
            f"--format pdf needs a browser on the path, one of {', '.join(BROWSERS)}: install one, "
            "or print report.html from yours"
        )
    return browser


def print_pdf(page: Path, out: Path) -> Path:
    """Print a page of leadline's, which loads nothing, as it is opened. Raises UsageError without a browser,
    LeadlineError where it prints nothing.
    """
    browser = find_browser()
    with tempfile.TemporaryDirectory(prefix="leadline-print-") as folder:
        pdf = Path(folder) / "page.pdf"
        argv = [
            *(browser, "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
            *(f"--user-data-dir={folder}/profile", "--host-resolver-rules=MAP * ~NOTFOUND"),
            *("--no-pdf-header-footer", f"--print-to-pdf={pdf}"),
            *(["--no-sandbox"] if os.geteuid() == 0 else []),  # it refuses root with its sandbox
            page.absolute().as_uri(),
        ]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LeadlineError(f"{browser} printed nothing: {error}") from None
        if not pdf.is_file():
            raise LeadlineError(f"{browser} printed nothing: {done.stderr.strip()[-400:]}")
        shutil.copyfile(pdf, out)
    return out
