"""``leadline scenario export``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from leadline.host import here
from leadline.load.driver import find_binary
from leadline.load.export.hyperfoil import to_hyperfoil
from leadline.load.export.k6 import to_k6
from leadline.load.export.source import Source
from leadline.load.scenario import find_scenario
from leadline.model.errors import UsageError, nearest

FORMATS: Mapping[str, Callable[[Source], str]] = {"k6": to_k6, "hyperfoil": to_hyperfoil}


def export_scenario(scenario: str, to: str) -> str:
    """The script as text. Raises UsageError for a scenario that is not valid or cannot be expressed, LeadlineError
    without the driver, which checks it first.
    """
    if to not in FORMATS:
        close = nearest(to, list(FORMATS))
        raise UsageError(
            f"no export to {to!r}; " + (f"did you mean {close}?" if close else f"formats: {', '.join(FORMATS)}")
        )
    path = find_scenario(scenario)
    checked = here.run([str(find_binary()), "check", str(path)])
    if checked.returncode:
        raise UsageError(checked.stderr.strip().removeprefix("leadline-load: "))
    source = Source(path)
    if source.tree.get("populations"):
        raise source.refuse(("populations",), "`populations`", to, "its sessions are of one kind")
    return FORMATS[to](source)
