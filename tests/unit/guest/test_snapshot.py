"""The image that a guest's devices are saved into."""

from __future__ import annotations

import struct

from leadline.guest import snapshot


def test_it_has_a_header_and_counts_its_own_clusters() -> None:
    content = snapshot.empty_image()
    cluster = 1 << struct.unpack_from(">I", content, 20)[0]
    assert content[:8] == b"QFI\xfb\0\0\0\3"
    (table,) = struct.unpack_from(">Q", content, 48)
    (counts,) = struct.unpack_from(">Q", content, table)
    used = struct.unpack_from(">5H", content, counts)
    assert used == (1, 1, 1, 1, 0)
    assert len(content) == 4 * cluster
