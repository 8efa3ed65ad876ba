"""The generators by name. A new one is a module here and a line below."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.load.generators import gatling, httperf, jmeter, k6, oha, wrk
from leadline.load.generators.base import Generator
from leadline.model.errors import UsageError, nearest

GENERATORS: Mapping[str, Generator] = {
    one.name: one
    for one in (wrk.GENERATOR, httperf.GENERATOR, oha.GENERATOR, k6.GENERATOR, jmeter.GENERATOR, gatling.GENERATOR)
}


def find_generator(name: str) -> Generator:
    """Raises UsageError naming the nearest one."""
    if name in GENERATORS:
        return GENERATORS[name]
    close = nearest(name, list(GENERATORS))
    hint = f"did you mean {close}?" if close else f"generators: {', '.join(GENERATORS)}"
    raise UsageError(f"no generator {name!r}; {hint}")
