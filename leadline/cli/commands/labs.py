"""``lab init``, ``list``, ``du``, ``rm``, ``prune``, ``copy``, ``merge``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from leadline.cli.options import JsonOption, LabOption
from leadline.cli.output import console, errors, print_json, say
from leadline.model.errors import UsageError

if TYPE_CHECKING:
    from leadline.api.results import Lab
    from leadline.store.removal import Held

YesOption = Annotated[bool, typer.Option("--yes", help="Remove without a question.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    labs = typer.Typer(
        help="Make a lab, list it, show its disk use; remove and copy studies.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    labs.command("init", epilog="Example: leadline lab init /srv/labs/team --database postgresql://anna@db/team")(init)
    labs.command("list", epilog="Example: leadline lab list")(list_)
    labs.command("du", epilog="Example: leadline lab du")(du)
    labs.command("rm", epilog="Example: leadline lab rm pools@12 --yes")(rm)
    labs.command("prune", epilog="Example: leadline lab prune --older-than 30d --yes")(prune)
    labs.command("copy", epilog="Example: leadline lab copy pools@12 --to /srv/labs/team")(copy_)
    labs.command("merge", epilog="Example: leadline lab merge /srv/labs/of-anna --lab /srv/labs/team")(merge)
    app.add_typer(labs, name="lab")


def init(
    directory: Annotated[Path, typer.Argument(help="Directory of the lab, made where it is absent.")],
    url: Annotated[
        str | None,
        typer.Option("--database", help="PostgreSQL database of its rows: postgresql://USER@HOST:PORT/NAME."),
    ] = None,
    artefacts: Annotated[
        str | None,
        typer.Option("--artefacts", help="Where the files of its trials are kept: a directory, or s3://BUCKET/PREFIX."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Make a lab, or check the one that is there: for a team, with its rows in a PostgreSQL database."""
    from leadline.api.results import init_lab

    store = init_lab(directory, url, artefacts).store
    studies, place = len(store.ids()), store.artefacts and str(store.artefacts.place)
    if json:
        print_json({"lab": str(directory), "database": store.database, "artefacts": place, "studies": studies})
    else:
        files = f"files in {place}, " if place else ""
        say(f"lab {directory}: rows in {store.database}, {files}{studies} studies")


def list_(lab: LabOption = Path("lab"), json: JsonOption = False) -> None:
    """List the studies of a lab."""
    from leadline.api.results import load_lab

    home = load_lab(lab)
    studies = home.counts()
    tunings = [tuning.record for tuning in home.tunings()]
    if json:
        rows = [
            {"id": row.id, "tuning": row.tuning.tuning, "created": row.created, "studies": len(row.parts)}
            | {"finished": row.finished}
            for row in tunings
        ]
        print_json({"lab": str(lab), "studies": [asdict(row) for row in studies], "tunings": rows})
        return
    table = Table("study", "started", "trials", "done", "failed")
    for study in studies:
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(study.created))
        table.add_row(f"{study.study}@{study.id}", started, str(study.trials), str(study.done), str(study.failed))
    console.print(table)
    for tuning in tunings:
        state = "finished" if tuning.finished else "not finished"
        say(f"tuning {tuning.tuning.tuning}@{tuning.id}: {len(tuning.parts)} studies, {state}")


def du(lab: LabOption = Path("lab"), json: JsonOption = False) -> None:
    """Print the disk use of a lab by study; a tuning counts with its studies."""
    from leadline.api.results import load_lab
    from leadline.store.removal import usage

    store = load_lab(lab).store
    usage_ = usage(store)
    if json:
        rows = [_document(item) for item in usage_.held]
        rest = {"services": usage_.services, "database": usage_.database, "other": usage_.other, "total": usage_.total}
        rest |= {"kept": usage_.kept} if store.artefacts else {}
        print_json({"lab": str(lab), "studies": rows, **rest})
        return
    columns = ["files kept"] if store.artefacts else []
    table = Table("study", "last run", "trials", "state", *columns, "copies here" if columns else "size")
    for item in usage_.held:
        sizes = [_size(item.kept)] if columns else []
        table.add_row(item.name, _day(item.last), str(item.trials), _state(item), *sizes, _size(item.size))
    console.print(table)
    if store.artefacts:
        say(f"files kept in {store.artefacts.place}: {_size(usage_.kept)}, what several studies have once")
    say(f"services (servers and databases, made again when needed): {_size(usage_.services)}")
    where = f", in {store.address}" if store.address else ""
    say(f"database: {_size(usage_.database)}{where}", f"other: {_size(usage_.other)}", f"all: {_size(usage_.total)}")


def rm(
    studies: Annotated[
        list[str], typer.Argument(help="Studies or tunings in the lab: a name (the newest), a number, name@number.")
    ],
    lab: LabOption = Path("lab"),
    yes: YesOption = False,
) -> None:
    """Remove studies or tunings from a lab: trials, results and reports. A study that runs is refused."""
    from leadline.api.results import load_lab
    from leadline.store.removal import find as find_held

    home = load_lab(lab)
    chosen = list({item.name: item for item in (find_held(home.store, study) for study in studies)}.values())
    for item in chosen:
        if item.running:
            raise UsageError(f"{item.name} is running: end it first; nothing was removed")
    _remove(home, chosen, yes)


def prune(
    lab: LabOption = Path("lab"),
    older_than: Annotated[
        str | None, typer.Option(help="Finished studies without activity for this long: 30d, 12h.")
    ] = None,
    to_size: Annotated[
        str | None, typer.Option(help="Oldest finished studies first, until what is left takes this much: 20g.")
    ] = None,
    copies: Annotated[
        bool, typer.Option("--copies", help="Only this machine's copies of files that the lab keeps elsewhere.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Remove finished studies and tunings by age or size. Running and unfinished ones stay."""
    from leadline.api.results import load_lab
    from leadline.store.files import sweep
    from leadline.store.removal import taken, to_prune, usage

    if older_than is None and to_size is None:
        raise UsageError("lab prune needs --older-than (30d) or --to-size (20g): nothing was removed")
    before = None if older_than is None else time.time() - _age(older_than)
    most = None if to_size is None else _bytes(to_size)
    store = load_lab(lab)
    if copies and store.store.artefacts is None:
        raise UsageError(f"--copies: {lab} keeps its files nowhere else (leadline lab init {lab} --artefacts PLACE)")
    items = usage(store.store).held
    chosen = to_prune(items, before, most, copies)
    kept_names = [item.name for item in items if item.running or not item.finished]
    if kept_names:
        say(f"running or unfinished, so kept: {', '.join(kept_names)}")
    if chosen:
        _remove(store, chosen, yes, copies)
    else:
        say("nothing to remove")
    if yes and not copies and (freed := sweep(store.store)):
        say(f"freed of files that no study has: {_size(freed)}")
    bytes_left = taken([item for item in items if item not in chosen], copies)
    if most is not None and bytes_left > most:
        say(f"what is left takes {_size(bytes_left)}, more than {to_size}: no other finished study is there")


def copy_(
    studies: Annotated[
        list[str], typer.Argument(help="Studies or tunings in the lab: a name (the newest), a number, name@number.")
    ],
    to: Annotated[Path, typer.Option("--to", help="The lab to copy to; made where it is absent.")],
    lab: LabOption = Path("lab"),
    json: JsonOption = False,
) -> None:
    """Copy studies or tunings into another lab, with all their trials. What is there already is not copied."""
    from leadline.api.results import load_lab
    from leadline.store.removal import find as find_held

    home = load_lab(lab)
    chosen = list({item.name: item for item in (find_held(home.store, study) for study in studies)}.values())
    _copy(home, chosen, to, json)


def merge(
    other: Annotated[Path, typer.Argument(help="Lab whose studies and tunings are taken in; it stays as it is.")],
    lab: LabOption = Path("lab"),
    json: JsonOption = False,
) -> None:
    """Copy everything of another lab into a lab. What is there already is not copied, so it can be repeated."""
    from leadline.api.results import load_lab
    from leadline.store.removal import usage

    source = load_lab(other)
    _copy(source, usage(source.store).held, lab, json)


def _copy(source: Lab, chosen: Sequence[Held], target: Path, json: bool) -> None:
    from leadline.api.results import copy

    if target.resolve() == source.directory:
        raise UsageError(f"{target} is the lab that they come from; name another one")
    done = list(zip((item.name for item in chosen), copy(source, chosen, target), strict=True))
    if json:
        print_json({"lab": str(target), "studies": [{"from": a, "to": b, "copied": new} for a, (b, new) in done]})
        return
    for here, (there, new) in done:
        say(f"{here}: {'copied as' if new else 'is there as'} {there}")


def _remove(lab: Lab, chosen: Sequence[Held], yes: bool, copies: bool = False) -> None:
    """Tells what goes; asks on a terminal unless ``yes``. Raises UsageError where nobody can be asked."""
    from leadline.store.removal import remove, remove_copies, taken

    for item in chosen:
        size = _size(item.size if copies or not item.contents else item.kept)
        what = ", copies only" if copies else ""
        say(f"{item.name}, {item.trials} trials, {_state(item)}, last run {_day(item.last)}: {size}{what}")
    if not yes:
        if not console.is_terminal:
            raise UsageError("nothing was removed: add --yes to remove what is listed")
        if not typer.confirm(f"Remove {_size(taken(chosen, copies))}{' of copies' if copies else ' for good'}?"):
            errors.print("nothing was removed")
            raise typer.Exit(1)
    freed = 0
    for item in chosen:
        freed += (remove_copies if copies else remove)(lab.store, item)
        say(f"removed {'the copies of ' if copies else ''}{item.name}")
    say(f"freed: {_size(freed)}")


def _document(held: Held) -> dict[str, object]:
    return {
        "name": held.name,
        "studies": list(held.studies),
        "tuning": held.tuning,
        "last": held.last,
        "trials": held.trials,
        "state": _state(held),
        "bytes": held.size,
        **({"kept": held.kept} if held.contents else {}),
    }


def _state(held: Held) -> str:
    return "running" if held.running else "finished" if held.finished else "unfinished"


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def _size(size: int) -> str:
    value, units = float(size), iter(("B", "KiB", "MiB", "GiB"))
    for unit in units:
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def _age(text: str) -> float:
    from leadline.model.units import parse_duration

    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--older-than: {error}") from None
    return duration


def _bytes(text: str) -> int:
    from leadline.model.units import parse_size

    try:
        size = parse_size(text)
    except ValueError as error:
        raise UsageError(f"--to-size: {error}") from None
    return size
