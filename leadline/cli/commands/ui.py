"""``ui``, and ``demo``: a small lab of real runs that comes with the package, to look at before anything is run."""

from __future__ import annotations

import lzma
import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.options import LabOption, directory_option
from leadline.cli.output import say
from leadline.host import received
from leadline.model.errors import UsageError

_SHORTEST = 20  # characters of a token of one's own


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline ui")(ui)
    app.command(epilog="Example: leadline demo")(demo)


def ui(
    lab: LabOption = Path("lab"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; a free one if 0.")] = 0,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="<path>", help="Keep the token in this file, made if absent (mode 600): the same each time."
        ),
    ] = None,
) -> None:
    """A live page of the lab on this machine: what runs, all studies, two runs compared, one over time."""
    from leadline.web.server import UiServer, Watch

    token = secrets.token_urlsafe(32) if token_file is None else _kept_token(token_file)
    try:
        server = UiServer(Watch(lab), token, port)
    except OSError as error:
        raise UsageError(f"--port {port}: {error.strerror}; leave --port out to take a free one") from None
    say(f"{server.address}/?token={token}", "The address lets in whoever has it. Ctrl-C ends the page, not what runs.")
    try:
        server.serve_forever()
    finally:
        server.server_close()


def _kept_token(path: Path) -> str:
    """Raises UsageError for a file that others may read, or without a token."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as stream:
            stream.write(secrets.token_urlsafe(32) + "\n")
    except FileExistsError:
        pass
    except OSError as error:
        raise UsageError(f"--token-file {path}: {error.strerror}") from None
    try:
        if path.stat().st_mode & 0o077:
            raise UsageError(f"--token-file {path}: others may read it: chmod 600 {path}")
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {path}: {error}") from None
    if len(token) < _SHORTEST or not all(character.isalnum() or character in "-_" for character in token):
        raise UsageError(f"--token-file {path}: a token has {_SHORTEST} or more of A-Z a-z 0-9 - _; remove the file")
    return token


ARCHIVE = Path(__file__).parents[2] / "demo.tar.xz"  # written by tools/demo_lab.py
_MARK = "lab.sqlite"
COMMANDS = ("comparison  leadline compare startup@1 startup@2", "results     leadline show startup@1")


def unpack(out: Path) -> list[str]:
    """Unpack the lab into ``out`` where it is not there yet; what to look at, a line each. Raises UsageError."""
    if not (out / _MARK).exists():
        if out.exists() and any(out.iterdir()):
            raise UsageError(f"--out {out}: the directory holds other files; name a new one")
        with lzma.open(ARCHIVE) as archive:
            received.unpack(archive, out, ARCHIVE.name)
    about = (out / "about.txt").read_text(encoding="utf-8").strip()
    return [about, f"report      {out / 'report.html'}", *(f"{line} --lab {out}" for line in COMMANDS)]


def demo(
    out: Annotated[Path, directory_option("Where the lab is unpacked.")] = Path("leadline-demo"),
    page: Annotated[bool, typer.Option(help="Serve the live page until Ctrl-C.")] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; a free one if 0.")] = 0,
) -> None:
    """Look at a stored lab of two real runs: report, live page, comparison. Nothing is installed or run."""
    for line in unpack(out):
        say(line)
    if page:
        ui(lab=out, port=port)
