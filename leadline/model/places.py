"""Where files of a program, a server or a database may lie, and what has to be said of a place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leadline.model.knob import Level

DISK, TMPFS, RAMDISK, BRD, OVERLAY = "disk", "tmpfs", "ramdisk", "brd", "overlay"
FILE_SYSTEMS = ("ext4", "xfs", "btrfs")  # each in a file on the lab's disk
MOUNTED = (*FILE_SYSTEMS, OVERLAY)  # those that take options of mount(8)
CHOICES = (DISK, TMPFS, RAMDISK, *MOUNTED, BRD)
DEFAULTS = "defaults"  # options of mount(8)
SCHEDULER = "database.io_scheduler"
NO_SCHEDULER = "none"
SCHEDULERS = (NO_SCHEDULER, "mq-deadline", "bfq", "kyber")
DATA, LOG, DATABASE_TEMPORARY = "database.data_place", "database.log_place", "database.temporary_place"
INSTALLATION, TEMPORARY = "server.installation_place", "server.temporary_place"
STORE, TRANSACTIONS = "server.messaging.store_place", "server.transactions.log_place"
DATABASE_MOUNT, SERVER_MOUNT, COMMAND_MOUNT = "database.mount_options", "server.mount_options", "command.mount"
COMMAND = "command.place"
# knob of options -> the places that they are of
OPTIONS_OF: Mapping[str, tuple[str, ...]] = {
    DATABASE_MOUNT: (DATA, LOG, DATABASE_TEMPORARY),
    SERVER_MOUNT: (INSTALLATION, TEMPORARY, STORE, TRANSACTIONS),
    COMMAND_MOUNT: (COMMAND,),
}
PLACES = tuple(name for names in OPTIONS_OF.values() for name in names)
_KEPT = (DATA, LOG, STORE, TRANSACTIONS)  # what a program relies on finding again
IN_MEMORY = {
    TMPFS: "it takes memory from everything else and can be swapped out",
    RAMDISK: "it takes memory from everything else",
    BRD: "it takes memory from everything else, which the kernel cannot swap out",
}


def warnings(levels: Mapping[str, Sequence[Level]]) -> list[str]:
    """What is lost and what is taken where levels lie in memory: a sentence for each place that does."""
    lines = []
    for name in PLACES:
        for level in dict.fromkeys(levels.get(name, ())):
            if (sentence := IN_MEMORY.get(str(level))) is None:
                continue
            lost = "all that was committed since the start" if name in _KEPT else "what lies there"
            lines.append(f"{name} = {level}: {lost} is lost at power-off; {sentence}.")
    return lines


def mount_mistakes(levels: Mapping[str, Sequence[Level]]) -> list[tuple[str, str]]:
    """Options of mount(8) that are of no place: the knob of the options, and what is wrong."""
    mistakes = []
    for knob in (DATABASE_MOUNT, SERVER_MOUNT):
        used = {str(level) for name in OPTIONS_OF[knob] for level in levels.get(name, ())}
        if set(levels.get(knob, ())) - {DEFAULTS} and not used & set(MOUNTED):
            names, some = ", ".join(OPTIONS_OF[knob]), ", ".join(MOUNTED)
            mistakes.append((knob, f"{knob} is of file systems of their own: one of {names} must be of {some}"))
    places_used = {str(level) for name in OPTIONS_OF[DATABASE_MOUNT] for level in levels.get(name, ())}
    if levels.get(SCHEDULER) and not places_used & set(FILE_SYSTEMS):
        some = f"one of {', '.join(OPTIONS_OF[DATABASE_MOUNT])} must be of {', '.join(FILE_SYSTEMS)}"
        mistakes.append((SCHEDULER, f"{SCHEDULER} is of file systems of their own: {some}"))
    return mistakes
