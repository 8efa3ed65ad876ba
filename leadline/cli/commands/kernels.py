"""``kernels``, ``kernels show``, ``kernels fetch``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import typer
from rich.table import Table

from leadline.cli.options import JsonOption
from leadline.cli.output import errors, print_json, print_table, say
from leadline.model.errors import UsageError
from leadline.places.guest import kernels
from leadline.places.guest.debian import differences
from leadline.places.guest.debian import traits as traits_of
from leadline.places.guest.kernels import Kernel, Listed

_NAME = "LINE-FLAVOUR (6.1-cloud), a release, or the path of a bzImage, a package or a build directory."
_Name = Annotated[str, typer.Argument(help=_NAME)]

app = typer.Typer(
    help="List the kernels that guests can have: line and flavour, version, suite, whether it is here, size.",
    epilog="Example: leadline kernels show 6.12-cloud --against 6.1-cloud",
    rich_markup_mode=None,
)


def register(parent: typer.Typer) -> None:
    """Add this module's commands."""
    parent.add_typer(app, name="kernels")


@app.callback(invoke_without_command=True)
def kernels_(
    context: typer.Context,
    refresh: Annotated[bool, typer.Option(help="Read Debian's lists anew, instead of those of the last day.")] = False,
    json: JsonOption = False,
) -> None:
    """List the kernels that guests can have: line and flavour, version, suite, whether it is here, size."""
    if below := context.invoked_subcommand:
        if json or refresh:
            raise UsageError(
                f"{'--json' if json else '--refresh'} is of the list; write it behind `{below}` if it has it"
            )
        return
    listed = kernels.kernels(_told(json), refresh)
    if json:
        print_json({"kernels": [_listed(kernel) for kernel in listed]})
        return
    table = Table("kernel", "version", "suite", "state", "to fetch", show_edge=False)
    for kernel in listed:
        size = f"{kernel.size / 1e6:.0f} MB" if kernel.packages else ""
        table.add_row(kernel.name, kernel.version, kernel.suite, _state(kernel), size)
    print_table(table)


@app.command(epilog="Example: leadline kernels fetch 6.1-cloud 6.12-rt")
def fetch(
    names: Annotated[list[str], typer.Argument(help=_NAME)],
    json: JsonOption = False,
) -> None:
    """Fetch the newest version of kernels into the cache; what is there already is verified."""
    kernels_fetched = _fetched(names, _told(json), renew=True)
    if json:
        print_json({"kernels": [_kernel(kernel) for kernel in kernels_fetched]})
        return
    say(*(f"{kernel.name}: {kernel.release}, sha256 {kernel.digest[:16]}" for kernel in kernels_fetched))


@app.command(epilog="Example: leadline kernels show 6.1-rt --against 6.1-cloud")
def show(
    name: _Name,
    against: Annotated[str, typer.Option(help="Another kernel: print what differs.")] = "",
    json: JsonOption = False,
) -> None:
    """Print how a kernel is built where that changes how a service runs; fetch it first where it is not here."""
    kernels_fetched = _fetched([name, against] if against else [name], _told(json))
    if against:
        first, second = kernels_fetched
        _difference(first, second, json)
        return
    (kernel,) = kernels_fetched
    traits = traits_of(kernel.config)
    if json:
        print_json({"kernel": _kernel(kernel), "traits": traits, "options": kernel.config})
        return
    say(f"{kernel.name}: {kernel.release}, version {kernel.version}", f"image {kernel.image}")
    _table({trait: (word,) for trait, word in traits.items()}, kernel.name)
    if not traits:
        say("its configuration is not known: it lies in no file beside it")


def _fetched(names: Sequence[str], progress: Callable[[str], None], renew: bool = False) -> list[Kernel]:
    """These kernels, in the cache and verified; with ``renew`` their newest versions. Raises UsageError for an unknown
    one before anything is fetched, LeadlineError.
    """
    for name in names:
        kernels.require_known(name, progress)
    return [kernels.provision(name, progress, renew) for name in names]


def _difference(first: Kernel, second: Kernel, json: bool) -> None:
    """Print traits and options that differ. Raises UsageError where a configuration is not known."""
    for kernel in (first, second):
        if not kernel.config:
            raise UsageError(f"the configuration of kernel {kernel.name} is not known: it lies in no file beside it")
    traits, others = traits_of(first.config), traits_of(second.config)
    differing = {trait: (traits[trait], others[trait]) for trait in traits if traits[trait] != others[trait]}
    options = differences(first.config, second.config)
    if json:
        print_json({"kernel": _kernel(first), "against": _kernel(second), "traits": differing, "options": options})
        return
    if differing:
        _table(differing, first.name, second.name)
    say(f"{len(options)} options of the configuration differ (--json has them)")


def _table(rows: Any, *names: str) -> None:
    table = Table("", show_edge=False)
    for name in names:
        table.add_column(name.rpartition("/")[2], overflow="fold")
    for trait, levels in rows.items():
        table.add_row(trait, *levels)
    if rows:
        print_table(table)


def _told(json: bool) -> Callable[[str], None]:
    return (lambda _text: None) if json else partial(say, to=errors)


def _state(kernel: Listed) -> str:
    if not kernel.cached:
        return "available"
    return "cached" if kernel.cached == kernel.version else f"cached {kernel.cached}"


def _listed(kernel: Listed) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "release": kernel.release,
        "version": kernel.version,
        "flavour": kernel.flavour,
        "suite": kernel.suite,
        "cached": kernel.cached or None,
        "size": kernel.size,
    }


def _kernel(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "release": kernel.release,
        "version": kernel.version,
        "flavour": kernel.flavour,
        "image": str(kernel.image),
        "modules": str(kernel.modules),
        "digest": kernel.digest,
    }
