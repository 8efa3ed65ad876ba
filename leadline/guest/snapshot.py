"""An empty qcow2 image, which holds a snapshot of a guest's devices: QEMU saves into no other file while it records.

Source: QEMU, docs/interop/qcow2.txt (version 3).
"""

from __future__ import annotations

import struct

_BITS = 20  # clusters of 1 MiB: a snapshot without memory fits into one, so what it holds is in one piece
_CLUSTER = 1 << _BITS
_COUNTS_TABLE, _COUNTS, _MAP = _CLUSTER, 2 * _CLUSTER, 3 * _CLUSTER  # offsets


def empty_image() -> bytes:
    """Of a disk of one cluster, with nothing in it."""
    #        magic, version, backing file (offset, size), cluster bits, size, encryption, entries and offset of the map
    header = struct.pack(">4sIQIIQIIQ", b"QFI\xfb", 3, 0, 0, _BITS, _CLUSTER, 0, 1, _MAP)
    #                     counts (offset, clusters), snapshots (number, offset), features (3), order, this header's size
    header += struct.pack(">QIIQQQQII", _COUNTS_TABLE, 1, 0, 0, 0, 0, 0, 4, 104)
    used = struct.pack(">4H", 1, 1, 1, 1)  # header, table, counts, map
    parts = (header, struct.pack(">Q", _COUNTS), used, b"")
    return b"".join(part.ljust(_CLUSTER, b"\0") for part in parts)
