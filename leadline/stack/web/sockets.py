"""Connections as the kernel lists them, since not every web server tells them."""

from __future__ import annotations

from pathlib import Path

_ESTABLISHED = "01"  # proc_pid_net(5)
_CONNECTED = "03"  # SS_CONNECTED in /proc/net/unix


def established(port: int, net: Path = Path("/proc/net")) -> int:
    """TCP connections established with local ``port``: on this host's loopback, those that its listener accepted."""
    suffix, count = f":{port:04X}", 0
    for table in ("tcp", "tcp6"):
        try:
            lines = (net / table).read_text().splitlines()[1:]
        except FileNotFoundError:
            continue
        for line in lines:
            fields = line.split(maxsplit=4)
            count += fields[1].endswith(suffix) and fields[3] == _ESTABLISHED
    return count


def connected(socket: Path, net: Path = Path("/proc/net")) -> int:
    """Connections accepted on a Unix socket: those ends carry its path."""
    count = 0
    for line in (net / "unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        count += len(fields) == 8 and fields[7] == str(socket) and fields[5] == _CONNECTED
    return count
