"""``doctor``, ``restore``; ``pool hosts``, ``pool job``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from leadline.cli.live import PlainWatcher
from leadline.cli.options import HostOption, JsonOption
from leadline.cli.output import console, errors, print_json, say
from leadline.host.checks import HostFinding
from leadline.model.errors import UsageError
from leadline.places.hosts import doctor as host_findings
from leadline.places.hosts import restore as restore_host
from leadline.places.pool.base import HostState
from leadline.places.pool.job import EndKind
from leadline.places.pool.testbed import hosts, job, look


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline doctor")(doctor)
    app.command(epilog="Example: leadline restore")(restore)
    pools = typer.Typer(
        help="Pools of hosts: their state, and what runs there.", no_args_is_help=True, rich_markup_mode=None
    )
    pools.command("hosts", epilog="Example: leadline pool hosts ssh:hosts.yaml")(hosts_)
    pools.command("job", epilog="Example: leadline pool job job.json")(job_)
    app.add_typer(pools, name="pool")


def doctor(host: HostOption = "here", json: JsonOption = False) -> None:
    """What a machine can do and how noisy it is, each finding with the command that mends it."""
    findings = host_findings(host, _tell)
    if json:
        print_json({"findings": [_finding(finding) for finding in findings]})
    else:
        table = Table("", "check", "finding", "to mend it", show_edge=False)
        styles = {"ok": "green", "warn": "yellow", "bad": "red"}
        for finding in findings:
            table.add_row(
                Text(finding.level, style=styles[finding.level]), finding.name, finding.sentence, finding.mend
            )
        console.print(table)
    if any(finding.level == "bad" for finding in findings):
        raise typer.Exit(1)


def _tell(line: str) -> None:
    say(line, to=errors)


def _finding(finding: HostFinding) -> dict[str, str]:
    return {"name": finding.name, "level": finding.level, "sentence": finding.sentence, "mend": finding.mend}


def restore(
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="Another host than this one: ssh:NAME; again for more of them, each is tried.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Put a host back after any crash: undo every open entry of the journal, end what was started."""
    lines = restore_host(host or ["here"], _tell)
    if json:
        print_json({"restored": lines})
        return
    say(*lines)
    if not lines:
        console.print("nothing to put back")


_STYLES = {HostState.FREE: "green", HostState.BUSY: "", HostState.DRAINED: "yellow", HostState.DOWN: "red"}


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
