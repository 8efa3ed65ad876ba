"""The network stack as a server on this host meets it: /proc/sys/net.

Source: Linux Documentation/admin-guide/sysctl/net.rst and networking/ip-sysctl.rst.
"""

from __future__ import annotations

from pathlib import Path

from leadline.host.knobs.files import FileKnobs, setting, sysctl_path, vector
from leadline.model.knob import Knob, Risk

_CORE = "Linux Documentation/admin-guide/sysctl/net.rst"
_IP = "Linux Documentation/networking/ip-sysctl.rst"
_INT = 2**31 - 1


def _knobs() -> list[Knob]:
    return [
        setting(
            "net.core.somaxconn",
            "Upper limit of every listening socket's queue of connections (read when a service starts to listen)",
            4096,
            (1, _INT),
            "connections",
            source=_IP,
        ),
        setting(
            "net.core.netdev_max_backlog",
            "Packets queued for a CPU before they are dropped; loopback passes here too",
            1000,
            (1, _INT),
            "packets",
            source=_CORE,
        ),
        setting(
            "net.ipv4.tcp_max_syn_backlog",
            "Half-open connections remembered for a listening socket",
            None,
            (1, _INT),
            "connections",
            source=_IP,
        ),
        setting(
            "net.ipv4.tcp_tw_reuse",
            "Whether ports in TIME-WAIT serve new outgoing connections: 0 no, 1 yes, 2 on loopback",
            2,
            (0, 2),
            source=_IP,
        ),
        setting(
            "net.ipv4.tcp_fin_timeout",
            "How long an orphaned closing connection is kept",
            60,
            (1, _INT),
            "s",
            source=_IP,
        ),
        setting(
            "net.ipv4.tcp_slow_start_after_idle",
            "Whether a connection that was idle starts slowly again",
            1,
            (0, 1),
            source=_IP,
        ),
        setting(
            "net.ipv4.tcp_autocorking", "Whether small writes are gathered while a packet waits", 1, (0, 1), source=_IP
        ),
        setting(
            "net.ipv4.tcp_notsent_lowat",
            "Unsent bytes in a socket above which it does not count as writable",
            2**32 - 1,
            (0, 2**32 - 1),
            "bytes",
            source=_IP,
        ),
        vector(
            "net.ipv4.ip_local_port_range",
            "Ports of outgoing connections, first and last",
            "32768 60999",
            _IP,
            Risk.CAUTION,
        ),
    ]


class NetKnobs(FileKnobs):
    """``net.*``"""

    def __init__(self, root: Path) -> None:
        super().__init__(root, ((knob, sysctl_path(knob.name)) for knob in _knobs()))


FAMILY = NetKnobs
