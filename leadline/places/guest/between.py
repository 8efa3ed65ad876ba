"""Debian's kernels that lie between two of them: lines of one flavour, or releases of it."""

from __future__ import annotations

import re

from leadline.model.errors import UsageError
from leadline.places.guest import kernels
from leadline.places.guest.debian import Progress
from leadline.places.guest.kernels import Listed
from leadline.places.guest.local_kernel import is_path

_NAME = re.compile(r"\d+\.\d+.*-")


def is_name(text: str) -> bool:
    """Whether a text looks like the name of a kernel of Debian."""
    return not is_path(text) and _NAME.match(text) is not None


def between(first: str, last: str, progress: Progress) -> list[str]:
    """From ``first`` to ``last``, both among them and in this direction: two lines (``6.1-cloud``), or two releases.

    Of a release that is built for several Debians one build counts. Raises UsageError for a name that is no kernel's,
    for two flavours, and for a line with a release; LeadlineError where no list can be had.
    """
    for name in (first, last):
        kernels.require_known(name, progress)
    lines = {kernel.name: kernel for kernel in kernels.kernels(progress)}
    if (first in lines) != (last in lines):
        line, release = (first, last) if first in lines else (last, first)
        raise UsageError(f"{line} is a line of kernels and {release} one release: name two lines or two releases")
    available = lines if first in lines else {release.release: release for release in kernels.releases(progress)}
    ends = (available[first], available[last])
    if ends[0].flavour != ends[1].flavour:
        raise UsageError(f"{first} and {last} are two flavours, which have no order: name two of one flavour")
    low, high = sorted(map(_number, ends))
    inside = {  # of builds with one number the last counts: that of its own Debian
        _number(kernel): name
        for name, kernel in sorted(available.items(), key=lambda item: (_number(item[1]), "~" not in item[1].version))
        if kernel.flavour == ends[0].flavour and low < _number(kernel) < high
    }
    names = list(inside.values())
    return [first, *(names if _number(ends[0]) == low else names[::-1]), last]


def _number(kernel: Listed) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", kernel.version.partition("~")[0])))
