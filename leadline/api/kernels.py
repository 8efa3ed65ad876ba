"""Kernels for guests: which there are, fetching them, how they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from leadline.model.errors import UsageError
from leadline.places.guest import kernels
from leadline.places.guest.configuration import differences, traits
from leadline.places.guest.kernels import Kernel, Listed

__all__ = ["Kernel", "KernelComparison", "Listed", "compare", "fetch", "listed", "traits"]

Progress = Callable[[str], None]


@dataclass(frozen=True)
class KernelComparison:
    """How two kernels differ: ``traits`` in words, ``options`` all of the configuration, levels of first and second."""

    first: Kernel
    second: Kernel
    traits: Mapping[str, tuple[str, str]]
    options: Mapping[str, tuple[str, str]]


def listed(progress: Progress, refresh: bool = False) -> list[Listed]:
    """Kernels that this machine can have, oldest line first. Raises LeadlineError."""
    return kernels.kernels(progress, refresh)


def fetch(names: Sequence[str], progress: Progress, renew: bool = False) -> list[Kernel]:
    """These kernels, in the cache and verified; with ``renew`` their newest versions.

    Raises UsageError for an unknown one before anything is fetched, LeadlineError.
    """
    for name in names:
        kernels.require_known(name, progress)
    return [kernels.provision(name, progress, renew) for name in names]


def compare(first: Kernel, second: Kernel) -> KernelComparison:
    """Raises UsageError where a configuration is not known."""
    for kernel in (first, second):
        if not kernel.config:
            raise UsageError(f"the configuration of kernel {kernel.name} is not known: it lies in no file beside it")
    first_traits, other = traits(first.config), traits(second.config)
    told = {trait: (first_traits[trait], other[trait]) for trait in first_traits if first_traits[trait] != other[trait]}
    return KernelComparison(first, second, told, differences(first.config, second.config))
