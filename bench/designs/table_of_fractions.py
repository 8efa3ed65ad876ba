"""Writes the table in leadline/design/fractional_factorial.py: columns of least aberration for 8 to 128 runs.

python bench/designs/table_of_fractions.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from leadline.design.fractional_factorial import search  # noqa: E402

STARTS = {3: 12, 4: 60, 5: 60, 6: 60, 7: 40}  # by q
MOST = 40
TARGET = ROOT / "leadline" / "design" / "fractions.py"


def main() -> None:
    lines = []
    for q, starts in STARTS.items():
        for factors in range(q + 1, min(MOST, 2**q - 1) + 1):
            columns = search(q, factors, starts)
            lines.append(" ".join([str(q), str(factors), *(f"{column:x}" for column in columns)]))
            print(lines[-1], file=sys.stderr, flush=True)
    table = "\n".join(lines)
    text = TARGET.read_text(encoding="utf-8")
    TARGET.write_text(re.sub(r'(?<=_TABLE = """\n).*?(?=\n""")', table, text, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
