"""``record`` and ``scenario``: a scenario from what a browser does, or from what other tools saved."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Timer
from typing import Annotated

import typer

from leadline.cli.options import file_option
from leadline.cli.output import end_with, errors, say
from leadline.load.convert.formats import of_file
from leadline.load.convert.write import Draft
from leadline.load.record import of_recording, recorder
from leadline.model.errors import UsageError
from leadline.model.units import parse_duration

scenarios = typer.Typer(
    help="Make a first scenario from a recording, an access log, copied requests or an OpenAPI description.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@scenarios.callback()
def _group() -> None:
    """Keep ``from`` a command of its own."""


@scenarios.command(
    "from", epilog="Example: leadline scenario from tour.har -o tour.yaml --replay http://127.0.0.1:8080"
)
def from_(
    file: Annotated[Path, typer.Argument(help="The file to convert; what it is, its content tells.")],
    out: Annotated[Path | None, file_option("Write it to a file instead of printing it.", "--out", "-o")] = None,
    resources: Annotated[bool, typer.Option(help="Keep images, styles and scripts.")] = False,
    replay: Annotated[
        str | None, typer.Option(metavar="<url>", help="Try every request at once against this server.")
    ] = None,
) -> None:
    """HAR, OpenAPI, curl commands, Postman, .http, an access log: a first scenario."""
    write(of_file(file, resources), out, replay)


def write(draft: Draft, out: Path | None, url: str | None) -> None:
    """The scenario to a file or the terminal, replayed before where there is a ``url``; then failures end with 1."""
    failures = None
    if url is not None:
        from leadline.load.record import SESSIONS, replay

        result = replay(draft, url)
        failures = result.failures
        draft = result.noted(draft)
    if out is None:
        typer.echo(draft.text(), nl=False)
    else:
        out.write_text(draft.text(), encoding="utf-8")
        if draft.times:
            times = out.with_suffix(".times")
            times.write_text("".join(f"{seconds:.6f}\n" for seconds in draft.times), encoding="utf-8")
            say(f"arrivals: --arrivals replay --replay {times}", to=errors)
    if failures is not None:
        lines = [f"failed: {line}" for line in failures]
        say(*(lines or [f"replayed: {result.requests} requests in {SESSIONS} sessions, none failed"]), to=errors)
        end_with(int(bool(failures)))


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline record http://127.0.0.1:8080 -o shop.scenario.yaml --for 2m")(record)
    app.add_typer(scenarios, name="scenario")


def record(
    url: Annotated[
        str, typer.Argument(help="The server, and where the application begins: http://127.0.0.1:8080/shop")
    ],
    out: Annotated[Path, file_option("The scenario file to write.", "--out", "-o")] = Path("recorded.scenario.yaml"),
    for_: Annotated[
        str | None, typer.Option("--for", metavar="<time>", help="End by itself after this time: 5m")
    ] = None,
    har: Annotated[Path | None, file_option("Write the recording itself, too, as an HTTP archive.", "--har")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The proxy's port; a free one if 0.")] = 0,
    resources: Annotated[bool, typer.Option(help="Keep images, styles and scripts.")] = False,
    replay: Annotated[bool, typer.Option(help="Try every request at once against the server.")] = False,
    mine: Annotated[bool, typer.Option("--mine", help="A server that is not on the loopback is yours to ask.")] = False,
) -> None:
    """Write a scenario from what a browser does: a proxy on the loopback records it until Ctrl-C."""
    try:
        seconds = None if for_ is None else parse_duration(for_)
    except ValueError as error:
        raise UsageError(f"--for {for_}: {error}") from None
    server = recorder(url, port, mine=mine)
    until = "Ctrl-C ends the recording" if seconds is None else f"the recording ends after {for_}, or by Ctrl-C"
    say(f"{server.address}{server.root}/", f"Open this address in a browser and use the application; {until}.")
    timer = None if seconds is None else Timer(seconds, server.shutdown)
    try:
        if timer is not None:
            timer.daemon = True
            timer.start()
        server.serve_forever(0.1)
    except KeyboardInterrupt:
        pass
    finally:
        if timer is not None:
            timer.cancel()
        server.server_close()
    if har is not None:
        har.write_text(json.dumps(server.archive(), indent=1), encoding="utf-8")
    draft = of_recording(server, out.name.partition(".")[0], resources)
    say(f"{server.requests} requests, written to {out}")
    write(draft, out, server.origin + server.root if replay else None)
