"""``pool hosts``, ``pool job``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from leadline.cli.live import PlainWatcher
from leadline.cli.options import JsonOption
from leadline.cli.output import console, errors, print_json, say
from leadline.model.errors import UsageError
from leadline.places.pool.base import HostState
from leadline.places.pool.job import EndKind
from leadline.places.pool.testbed import hosts, job, look

_STYLES = {HostState.FREE: "green", HostState.BUSY: "", HostState.DRAINED: "yellow", HostState.DOWN: "red"}


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    pools = typer.Typer(
        help="Pools of hosts: their state, and what runs there.", no_args_is_help=True, rich_markup_mode=None
    )
    pools.command("hosts", epilog="Example: leadline pool hosts ssh:hosts.yaml")(hosts_)
    pools.command("job", epilog="Example: leadline pool job job.json")(job_)
    app.add_typer(pools, name="pool")


def hosts_(
    pool: Annotated[
        str, typer.Argument(metavar="POOL", help="slurm, slurm:PARTITION, slurm:FILE.yaml or ssh:FILE.yaml.")
    ],
    json: JsonOption = False,
) -> None:
    """List the hosts of a pool: free, busy, drained or down, and why. Over SSH each is put back first, if need be."""
    pool_hosts = hosts(pool)
    if json:
        print_json(
            {"pool": pool, "hosts": [{"name": h.name, "state": h.state.value, "why": h.why} for h in pool_hosts]}
        )
    else:
        table = Table("host", "state", "why")
        for host in pool_hosts:
            table.add_row(host.name, Text(host.state.value, style=_STYLES[host.state]), host.why)
        console.print(table)
    if all(host.state in (HostState.DRAINED, HostState.DOWN) for host in pool_hosts):
        raise typer.Exit(1)


def job_(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A job's file; - is standard input.")],
    host: Annotated[
        str,
        typer.Option(
            "--as", help="Names of the job's hosts in the pool, commas between, this one first; its own if absent."
        ),
    ] = "",
    look_: Annotated[
        bool, typer.Option("--look", help="Say only whether it could run here now; with - as the file.")
    ] = False,
) -> None:
    """Run one block of a study on this host, for a leadline elsewhere: what `run --pool` starts on each host."""
    if look_ and source != "-":
        raise UsageError(f"--look reads the job from standard input: write - in place of {source}")
    if look_:
        outlook = look(host, PlainWatcher(errors))
        say(outlook.said)
        raise typer.Exit({EndKind.READY: 0, EndKind.BUSY: 1}.get(outlook.how, 2))
    ending = job(source, host, PlainWatcher(errors))
    errors.print(f"{ending.how}: {ending.said}" if ending.said else ending.how.value, soft_wrap=True)
