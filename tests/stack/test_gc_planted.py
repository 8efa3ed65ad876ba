"""Causes planted in real JVMs are named, and nothing else, with every collector."""

import importlib.util
import sys
from pathlib import Path

import pytest

from leadline.host.java import JavaHome

pytestmark = pytest.mark.stack

_SPEC = importlib.util.spec_from_file_location("planted", Path(__file__).parents[2] / "bench" / "gc" / "planted.py")
assert _SPEC is not None
assert _SPEC.loader is not None
_PLANTED = importlib.util.module_from_spec(_SPEC)
sys.modules["planted"] = _PLANTED
_SPEC.loader.exec_module(_PLANTED)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted")


@pytest.fixture(scope="module")
def jdks(folder: Path) -> list[JavaHome]:
    homes: list[JavaHome] = _PLANTED.jdks(folder)
    assert homes
    return homes


@pytest.mark.parametrize("collector", _PLANTED.ALL)
def test_a_heap_that_leaks_to_the_end_is_exhausted(collector: str, folder: Path, jdks: list[JavaHome]) -> None:
    for jdk in jdks:
        figures = _PLANTED.run(_PLANTED.CAUSES["heap"], jdk, collector, folder)
        if figures is not None:
            assert figures.leak.verdict in ("leak", "full"), (jdk, figures.leak)
            assert _PLANTED.wrong(_PLANTED.CAUSES["heap"], figures) == (False, []), figures.findings


@pytest.mark.parametrize(
    ("cause", "collector"),
    [("metaspace", "Serial"), ("direct", "G1"), ("explicit", "Shenandoah"), ("dumps", "G1"), ("humongous", "G1")],
)
def test_what_is_planted_is_named(cause: str, collector: str, folder: Path, jdks: list[JavaHome]) -> None:
    figures = _PLANTED.run(_PLANTED.CAUSES[cause], jdks[-1], collector, folder)
    assert figures is not None
    assert _PLANTED.wrong(_PLANTED.CAUSES[cause], figures) == (False, []), figures.findings
