"""leadline's reader over folders of sample logs: each is read, refused with a sentence, or a fault.

    python bench/gc/samples.py FOLDER... [--peers]

A silent zero is a log without a pause that is not said to tell nothing of pauses. ``--peers`` names the logs of which
GCViewer or GCToolkit counts more pauses than leadline, most of them to be looked at by eye: they count concurrent
phases and lines twice. Exits with 1 where a log crashes the reader or is a silent zero.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from run import read, readers

from leadline.gcanalysis.summary import summary
from leadline.model.errors import UsageError
from leadline.observe.gclog import logs_of, parse, parse_files

_LOST = 0.98  # of a peer's pauses


def outcome(path: Path) -> tuple[str, int, str]:
    """What became of a file, its pauses, and why where there are none; of an archive the first log in it."""
    try:
        packed = path.suffix in (".zip", ".tgz", ".tar")
        figures = summary(parse_files(logs_of([path])[0]) if packed else parse(path))
    except UsageError as error:
        return "refused", 0, str(error)
    except Exception as error:  # this is what is looked for
        return "crash", 0, repr(error)
    count = figures.pauses.count
    if count:
        return "read", count, "; ".join(figures.warnings)
    return ("no pauses, with the reason" if figures.reasons.get("pauses") else "silent zero"), 0, str(figures.reasons)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folders", type=Path, nargs="+")
    options.add_argument("--peers", action="store_true")
    chosen = options.parse_args()
    peers = {name: command for name, command in readers().items() if name != "leadline"} if chosen.peers else {}
    counts: Counter[str] = Counter()
    pauses = 0
    for path in sorted(path for folder in chosen.folders for path in folder.rglob("*") if path.is_file()):
        kind, count, why = outcome(path)
        counts[kind] += 1
        pauses += count
        if kind != "read":
            print(f"{kind}: {path}: {why}", flush=True)
        for peer, command in peers.items():
            theirs = read(command, path).pauses.get("count", 0)
            if count < _LOST * theirs:
                print(f"{peer} has {theirs:.0f}, leadline {count}: {path}: {why}", flush=True)
    print(f"{counts.total()} files, {pauses} pauses: {', '.join(f'{count} {kind}' for kind, count in counts.items())}")
    sys.exit(1 if counts["crash"] or counts["silent zero"] else 0)


if __name__ == "__main__":
    main()
