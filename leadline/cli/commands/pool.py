"""``run --pool``; ``pool list``, ``resume``, and ``work``, which a pool's jobs run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from leadline.api.pooling import DrainedHosts, at_work, open_pool, plan_pooled, pool_lab, run_pooled
from leadline.api.pooling import work as work_on
from leadline.api.studies import Study
from leadline.cli.commands.dry_run import print_plan
from leadline.cli.commands.execute import present
from leadline.cli.live import watcher
from leadline.cli.options import JsonOption, LabOption
from leadline.cli.output import console, errors, print_json, say
from leadline.model.errors import UsageError

PoolArgument = Annotated[str, typer.Argument(metavar="POOL", help="slurm, slurm:PARTITION or ssh:FILE.")]
TruthOption = Annotated[bool, typer.Option("--simulated", help="The lab's simulated studies.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    pools = typer.Typer(help="Hosts that run blocks of studies.", no_args_is_help=True, rich_markup_mode=None)
    pools.command("list", epilog="Example: leadline pool list slurm:lab")(list_)
    pools.command("resume", epilog="Example: leadline pool resume slurm:lab n3")(resume)
    pools.command("work", hidden=True)(work)
    app.add_typer(pools, name="pool")


def execute_pooled(
    study: Study,
    word: str,
    lab: Path,
    truth: Path | None,
    *,
    hosts: int | None,
    dry_run: bool,
    new: bool,
    disposable: bool,
    json: bool,
) -> None:
    """As ``execute``, on a pool."""
    pool = open_pool(word, hosts)
    if dry_run:
        print_plan(study.file, plan_pooled(study, pool, lab, truth, disposable), json, pool_lab(lab, truth))
        gone = DrainedHosts(pool_lab(lab, truth), pool.name).all()
        able = [host.name for host in pool.hosts() if not host.drained and host.name not in gone]
        say(f"pool {pool.name}: {len(able)} hosts get blocks: {', '.join(able)}", to=errors if json else console)
        return
    output = errors if json else console
    if truth is not None:
        say(f"SIMULATED on {truth}: no server runs, every figure below is made up", to=output)
    with watcher(output) as watching:
        ended = run_pooled(study, pool, lab, truth=truth, fresh=new, disposable=disposable, watcher=watching)
    present(ended, json=json)


def list_(
    pool: PoolArgument, lab: LabOption = Path("lab"), simulated: TruthOption = False, json: JsonOption = False
) -> None:
    """List the hosts of a pool, their state, and why some get no blocks; blocks of the lab that are at work."""
    place = pool_lab(lab, Path() if simulated else None)
    found = open_pool(pool)
    gone = DrainedHosts(place, found.name).all()
    rows = [
        {"host": one.name, "state": one.state, "drained": gone[one.name].why if one.name in gone else one.drained}
        for one in found.hosts()
    ]
    working = at_work(place) if (place / "lab.sqlite").exists() else []
    if json:
        print_json({"pool": found.name, "hosts": rows, "studies": working})
        return
    table = Table("host", "state", "gets no blocks because")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console.print(table)
    say(*working)


def resume(
    pool: PoolArgument,
    host: Annotated[str, typer.Argument(help="A host that leadline drained.")],
    lab: LabOption = Path("lab"),
    simulated: TruthOption = False,
) -> None:
    """Take a host back that leadline drained. What Slurm drained, `scontrol update` takes back."""
    DrainedHosts(pool_lab(lab, Path() if simulated else None), open_pool(pool).name).take_back(host)
    say(f"{host} gets blocks again")


def work(directory: Annotated[Path, typer.Argument(metavar="DIRECTORY")]) -> None:
    """Carry out an order of a pool's run on this host."""
    if not directory.is_dir():
        raise UsageError(f"{directory} is no order of a pool")
    with watcher(console) as watching:
        ended = work_on(directory, watching)
    say(*filter(None, (ended.stopped, ended.unfit)))
