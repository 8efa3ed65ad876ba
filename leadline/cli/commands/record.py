"""``record``: a scenario from what a browser does."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Timer
from typing import Annotated

import typer

from leadline.cli.commands.scenario import write
from leadline.cli.options import file_option
from leadline.cli.output import say
from leadline.load.record import of_recording, recorder
from leadline.model.errors import UsageError
from leadline.model.units import parse_duration


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline record http://127.0.0.1:8080 -o shop.scenario.yaml --for 2m")(record)


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
