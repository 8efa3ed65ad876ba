"""Another kernel on a host over SSH: chosen for the next boot only, so that a hang comes back to the usual one.

Of GRUB: ``grub-reboot`` writes ``next_entry``, which the menu clears when it has read it. A menu that does not ask for
it would ignore the choice, and is refused.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError, did_you_mean
from leadline.model.hosts import release_knob
from leadline.model.knob import Knob

_FEWEST = 2  # kernels that are a choice
CONFIGURATION = ("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg")
BOOTS = 600.0  # seconds that a host may take to come back
_DOWN = 5.0  # seconds between two tries to reach it
_MENU = re.compile(
    r"""^\s*(submenu|menuentry)\s+(?:'([^']*)'|"([^"]*)").*?(?:\$menuentry_id_option\s+'([^']*)')?\s*\{"""
)
_LINUX = re.compile(r"^\s*linux(?:16|efi)?\s+\S*?vmlinuz-(\S+)")


class Machine(Protocol):
    """What is asked of a host to boot it."""

    def run(self, command: Sequence[str]) -> str:
        """Standard output, as root. Raises LeadlineError for another exit code than 0."""

    def text(self, path: str) -> str:
        """A file; empty where there is none."""

    def boot_id(self) -> str:
        """Of the present boot. Raises LeadlineError where it cannot be reached."""


@dataclass(frozen=True)
class BootEntry:
    """A kernel in GRUB's menu: ``place`` as ``grub-reboot`` takes it."""

    release: str
    place: str
    recovery: bool = False


def entries(text: str) -> list[BootEntry]:
    """The kernels in a ``grub.cfg``, in its order. Identifiers stand in place of titles where there are any."""
    entries: list[BootEntry] = []
    above: list[tuple[str, int]] = []  # open menus with their depth of braces
    depth, title = 0, ""
    for line in text.splitlines():
        if menu := _MENU.match(line):
            name = menu[4] or menu[2] or menu[3] or ""
            if menu[1] == "submenu":
                above.append((name, depth))
            else:
                title = name
        elif (kernel := _LINUX.match(line)) and title:
            place = ">".join([*(name for name, _ in above), title])
            entries.append(BootEntry(kernel[1], place, "recovery" in title))
            title = ""
        depth += _braces(line)
        while above and depth <= above[-1][1]:
            above.pop()
    return entries


def kernel_knob(machine: Machine) -> Knob | None:
    """The kernel of a host as a factor; None where its boot loader offers no two."""
    releases = list(dict.fromkeys(entry.release for entry in entries(_menu(machine)) if not entry.recovery))
    if len(releases) < _FEWEST:
        return None
    text = "The kernel of the host, as uname -r says it: booted once, the usual one is what boots next"
    return release_knob(releases, text, "grub-reboot(8)")


def _menu(machine: Machine) -> str:
    return next((text for path in CONFIGURATION if (text := machine.text(path))), "")


def _braces(line: str) -> int:
    """Blocks that a line opens, less those that it closes; ``${variable}`` is none."""
    bare = re.sub(r"\$\{[^}]*\}|'[^']*'|\"[^\"]*\"", "", line.partition("#")[0])
    return bare.count("{") - bare.count("}")


def boot(
    machine: Machine,
    title: str,
    release: str,
    seconds: float = BOOTS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Have a host run the kernel ``release`` (as ``uname -r`` says it), by one reboot where it runs another one.

    Raises UsageError for a kernel that is not installed there and a boot loader that cannot choose once, TrialFailure
    (infrastructure) for a host that does not come back in time, or comes back with another kernel.
    """
    if machine.run(["uname", "-r"]).strip() == release:
        return
    place = _chosen(machine, title, release)
    before = machine.boot_id()
    machine.run(["grub-reboot", place])
    machine.run(["sync"])
    with suppress(LeadlineError):  # the connection ends with it
        machine.run(["systemctl", "reboot"])
    _wait_for_another_boot(machine, title, before, seconds, clock, sleep)
    runs = machine.run(["uname", "-r"]).strip()
    if runs != release:
        raise TrialFailure(
            FailureClass.INFRASTRUCTURE,
            f"{title} came back with kernel {runs}, not with {release}, which was chosen for one boot: that kernel did"
            " not start there, or the boot loader did not heed the choice",
        )


def _chosen(machine: Machine, title: str, release: str) -> str:
    menu = _menu(machine)
    if not menu:
        raise UsageError(f"{title}: there is no {CONFIGURATION[0]}; only kernels that GRUB boots can be chosen")
    places = {entry.release: entry.place for entry in reversed(entries(menu)) if not entry.recovery}
    if release not in places:
        hint = did_you_mean(release, list(places)) or f"it has {', '.join(places) or 'none'}"
        raise UsageError(f"{title}: no kernel {release} is installed there; {hint}")
    if "save_env next_entry" not in menu:
        raise UsageError(
            f"{title}: its GRUB does not heed a choice for one boot; write GRUB_DEFAULT=saved in /etc/default/grub"
            " there and run update-grub"
        )
    return places[release]


def _wait_for_another_boot(
    machine: Machine,
    title: str,
    before: str,
    seconds: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    deadline = clock() + seconds
    while True:
        try:
            if machine.boot_id() != before:
                return
        except LeadlineError:
            pass  # it is on its way
        if clock() > deadline:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"{title} did not come back within {seconds:.0f} s of its reboot; its usual kernel is what boots next",
            )
        sleep(_DOWN)
