"""What a command writes: a place where nothing can be written is refused before any work, in one line, with code 2."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.table import Table
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.cli.options import output_directory, output_file
from leadline.cli.output import console, errors
from leadline.model.errors import UsageError

READ = {
    "--against",
    "--check",
    "--groups-file",
    "--import-json",
    "--lab",
    "--scenario",
    "--simulate",
    "--stack",
    "--to",
    "--token-file",
    "--truth",
    "--with-lab",
}  # the lab has a check of its own
FILES = (
    ("init", "--server", "tomcat", "--question", "pool", "--out"),
    ("report", "none", "--out"),
    ("plan", "none", "--out"),
    ("confirm", "none", "--out"),
    ("advise", "none", "--write"),
    ("capacity", "none", "--out"),
    ("command", "true", "--export-json"),
    ("gate", "false", "true", "--md"),
    ("gate", "false", "true", "--junit"),
    ("gc", "none.log", "--html"),
    ("record", "http://127.0.0.1:9", "--out"),
    ("record", "http://127.0.0.1:9", "--har"),
    ("scenario", "from", "none", "--out"),
    ("stack", "init", "none", "--out"),
    ("soak", "none", "--for", "1m", "--out"),
    ("explain", "none", "--", "none", "--folded"),
    ("explain", "none", "--", "none", "--pprof"),
)
LOAD = ("load", "none", "--url", "http://127.0.0.1:9")
FILES += ((*LOAD, "--html"),)
DIRECTORIES = (
    ("demo", "--no-page", "--out"),
    ("export", "none", "--out"),
    ("figures", "none", "--out"),
    (*LOAD, "--out"),
    (*LOAD, "--drivers", "local,local", "--out"),
    (*LOAD, "--generator", "wrk", "--out"),
)


def options(command: Any, parent: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Every option of every command that takes a path: command, option, who reads it."""
    context = command.make_context(path, [], parent=parent, resilient_parsing=True)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else []:
        yield from options(command.get_command(context, name), context, f"{path} {name}")
    for parameter in getattr(command, "params", []):
        described = getattr(parameter, "type_descriptor", None)
        if described is not None and described.annotation is Path and parameter.opts[0].startswith("--"):
            yield path.strip(), parameter.opts[0], described.parameter_info.parser


def test_every_option_of_a_path_that_is_written_is_checked() -> None:
    found = list(options(typer.main.get_command(app), None))
    written = {(command, option): reader for command, option, reader in found if option not in READ}
    assert set(written.values()) == {output_file, output_directory}
    tried = {
        (words[0] if words[0] not in ("scenario", "stack") else " ".join(words[:2]), words[-1])
        for words in (*FILES, *DIRECTORIES)
    }
    assert set(written) == tried - {("load", "--out")}  # whose options are the driver's


@pytest.mark.parametrize("words", [*FILES, *DIRECTORIES], ids=" ".join)
def test_an_impossible_place_is_refused_before_any_work(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study, scenario or file is not there either, so any work would tell of it first."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    places = ["file/x", "/proc/x", "loop", "x" * 300, "a\0b", ""]
    places += [".", "none/x"] if words in FILES else ["file"]
    for place in places:
        result = CliRunner().invoke(app, [*words, place])
        assert isinstance(result.exception, UsageError), (place, result.output)
        message = str(result.exception)
        assert place[:1] + place[1:20].rstrip("\0b") in message
        assert "\n" not in message
        assert result.exception.exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "loop"]


def test_a_place_that_can_be_written_is_left_as_it_is(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("old")
    os.utime(old, (1, 1))
    link = tmp_path / "link"
    link.symlink_to("new")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (old, link, pipe, tmp_path / "other", Path("/dev/null")):
        assert output_file(path) == path
    assert output_directory(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert (old.read_text(), old.stat().st_mtime) == ("old", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "old", "pipe"]


@pytest.mark.skipif(os.getuid() != 0, reason="host: another user is needed, which only root can become")
def test_what_belongs_to_others_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if folder.stat().st_mode & 0o001 == 0:
            folder.chmod(folder.stat().st_mode | 0o001)
    (tmp_path / "file").write_text("root's")
    code = (
        "import os, sys\nfrom leadline.cli.options import *\nfrom leadline.model.errors import UsageError\n"
        "import tempfile; os.setgid(65534); os.setuid(65534)\n"
        "for read, place in ((output_file, 'file'), (output_file, 'new'), (output_directory, 'new/deep')):\n"
        "    try: read(sys.argv[1] + '/' + place)\n"
        "    except UsageError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert [line.rpartition(": ")[2] for line in done.stdout.splitlines()] == ["Permission denied"] * 3


def test_names_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither brackets nor colons in what a user has named mean anything to the terminal."""
    table = Table("where")
    table.add_row("host[/x]:fire:x")
    for one in (console, errors):
        one.print("study[red]:fire:3", table)
    said = "".join(capsys.readouterr())
    assert said.count("study[red]:fire:3") == 2
    assert said.count("host[/x]:fire:x") == 2
