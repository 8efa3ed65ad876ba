"""Writes the golden set anew: ``python tests/golden/record.py``, only where a change of figures is meant."""

import tempfile
from pathlib import Path

from golden_cases import analyse, cases, write

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as lab:
        write(cases(analyse, Path(lab)))
