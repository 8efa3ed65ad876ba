"""Explicit large pages of a real JVM: reserved in the kernel, seen in the JVM's mappings, put back."""

from pathlib import Path

import pytest
from test_jvm_knobs import MIB, RESERVED, classes, running

from leadline.host.local import LocalHost
from leadline.model.knob import Level
from leadline.stack.servers import large_pages

__all__ = ["classes"]

_probe = LocalHost(state=Path("/nonexistent/never-written"))
pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(
        bool(_probe.writable(RESERVED)), reason=f"host: kernel settings cannot be set: {_probe.writable(RESERVED)}"
    ),
]


@pytest.mark.parametrize("collector", ["parallel", "g1"])
def test_reserved_pages_are_behind_the_heap(classes: Path, tmp_path: Path, collector: str) -> None:
    host = LocalHost(state=tmp_path / "state")
    before = host.read_back(RESERVED)
    levels: dict[str, Level] = {"jvm.heap": 64 * MIB, "jvm.collector": collector, "jvm.large_pages": "explicit"}
    try:
        host.set_knob(RESERVED, 0)
        assert "0 huge pages of 2m are free, the heap of 64m needs 32;" in large_pages.shortage(host.files, levels)
        host.set_knob(RESERVED, 48)
        if host.read_back(RESERVED) != 48:
            pytest.skip("host: this host's memory is too fragmented for 48 huge pages")
        assert large_pages.shortage(host.files, levels) == ""
        with running(classes, levels, tmp_path) as found:
            assert found.level("jvm.large_pages") == "explicit"
    finally:
        host.restore()
    assert host.read_back(RESERVED) == before
