"""What other hosts and programs made is read within bounds."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline.host import here, received
from leadline.host.received import Bounds, below, packed, unpack
from leadline.model.received import MOST_DEPTH, ReceivedError, json_as, json_value, table

Change = Callable[[tarfile.TarInfo], None]


def archive(*members: tuple[str, Mapping[str, object], bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=format) as tar:
        for name, fields, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for key, value in fields.items():
                setattr(member, key, value)
            tar.addfile(member, io.BytesIO(content))
    return target.getvalue()


def taken(data: bytes, into: Path, bounds: Bounds = received.BOUNDS) -> dict[str, bytes]:
    unpack(io.BytesIO(data), into, "what n1 sent", bounds)
    return {str(path.relative_to(into)): path.read_bytes() for path in into.rglob("*") if path.is_file()}


LONG = "/".join(["d" * 200] * 4)  # longer than the 100 bytes of a header
LINK = {"type": tarfile.SYMTYPE, "linkname": ".."}


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_files_come_as_they_were_sent(tmp_path: Path, format: int) -> None:
    sent = {"a": b"", "b/c.txt": b"x" * 5000, f"{LONG}/e": b"long", "é/ü": b"1"}
    folder: tuple[str, Mapping[str, object], bytes] = ("b", {"type": tarfile.DIRTYPE}, b"")
    data = archive(folder, *((f"./{name}", {"mtime": 1.5}, content) for name, content in sent.items()), format=format)
    assert taken(data, tmp_path / "in") == sent
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "in").rglob("*")} == {0}, "nobody else's to read"


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([("../evil", {}, b"x")], "no path below"),
        ([("/tmp/evil", {}, b"x")], "no path below"),
        ([("a/../../evil", {}, b"x")], "no path below"),
        ([("a\nb", {}, b"x")], "no path below"),
        ([("a\x1b[2J", {}, b"x")], "no path below"),
        ([("out", LINK, b""), ("out/evil", {}, b"x")], "a link or a device"),
        ([("a", {}, b"secret"), ("b", {"type": tarfile.LNKTYPE, "linkname": "a"}, b"")], "a link or a device"),
        ([("pipe", {"type": tarfile.FIFOTYPE}, b"")], "a link or a device"),
        ([("disk", {"type": tarfile.BLKTYPE, "devmajor": 8}, b"")], "a link or a device"),
        ([("a", {}, b"1"), ("a", {}, b"2")], "there twice"),
        ([("a", {}, b"1"), ("a/b", {}, b"2")], "there twice"),
        ([("/".join("d" * 20), {}, b"x")], "too long"),
        ([("n" * 300, {}, b"x")], "too long"),
        ([(f"{number}", {}, b"") for number in range(12)], "more than 10 files"),
        ([("a", {}, b"x" * 2000)], "more than 1,500 bytes"),
    ],
)
def test_what_leads_out_or_is_too_much_is_refused(
    tmp_path: Path, members: list[tuple[str, Mapping[str, object], bytes]], why: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(ReceivedError, match=f"what n1 sent is damaged: .*{why}"):
        taken(archive(*members), tmp_path / "in", Bounds(files=10, bytes=1500))
    assert not list(tmp_path.rglob("evil*"))


def test_the_way_round_the_filter_of_python_3_11_leads_nowhere(tmp_path: Path) -> None:
    """Links one after the other whose target is longer than a path may be: ``filter="data"`` takes them for inside."""
    step, members, path = "d" * 247, list[tuple[str, Mapping[str, object], bytes]](), ""
    for letter in "abcdefghijklmnop":
        members.append((f"{path}{step}", {"type": tarfile.DIRTYPE}, b""))
        members.append((f"{path}{letter}", {"type": tarfile.SYMTYPE, "linkname": step}, b""))
        path += f"{step}/"
    short = "/".join("abcdefghijklmnop")
    members.append((f"{short}/{'l' * 254}", {"type": tarfile.SYMTYPE, "linkname": "../" * 16}, b""))
    members.append(("escape", {"type": tarfile.SYMTYPE, "linkname": f"{short}/{'l' * 254}/.."}, b""))
    members.append(("escape/evil", {}, b"x"))
    with pytest.raises(ReceivedError):
        taken(archive(*members), tmp_path / "in")
    unpack(io.BytesIO(archive(*members[-2:])), tmp_path / "two", "what n1 sent", passes_over=True)
    assert not (tmp_path / "evil").exists()
    assert (tmp_path / "two" / "escape" / "evil").read_bytes() == b"x", "below the directory, the link left out"


def test_a_link_that_appears_in_the_directory_meanwhile_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "out").symlink_to(tmp_path)
    with pytest.raises(ReceivedError, match="there twice"):
        taken(archive(("out/evil", {}, b"x")), tmp_path / "in")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("cut", [1, 600, 1500, 2100])
def test_an_archive_that_ends_early_is_refused(tmp_path: Path, cut: int) -> None:
    data = archive(("a", {}, b"x" * 1000), ("b", {}, b"y"))
    with pytest.raises(ReceivedError, match="ends early"):
        taken(data[:cut], tmp_path / "in")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff" * 1024, "no number where one belongs"),
        (b"x" * 512, "no number where one belongs"),
        (archive(("n" * 200, {}, b""), format=tarfile.GNU_FORMAT)[:1024] * 9, "too many headers"),
        (archive(("a", {}, b"")) + bytes(2 << 20), "does not end after its end"),
        (archive(("a", {"pax_headers": {"GNU.sparse.major": "1"}}, b"")), "a sparse file"),
        (archive(("a", {"pax_headers": {"size": "9" * 15}}, b"")), "ends early|more than"),
        (archive(("a", {"pax_headers": {"path": "../evil"}}, b"")), "no path below"),
        (archive(("a", {"pax_headers": {"comment": "c" * 100_000}}, b"")), "a header has 10"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(ReceivedError, match=why):
        taken(data, tmp_path / "in")


def test_a_program_that_says_too_much_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = here.run(["sh", "-c", "cat; echo said >&2; exit 3"], b"x" * 1_000_000, timeout=60)
    assert (done.returncode, len(done.stdout), done.stderr) == (3, 1_000_000, "said\n")
    monkeypatch.setattr(here, "MOST_SAID", 100_000)
    for stream in ("", ">&2"):
        with pytest.raises(OSError, match="it said more than 100,000 bytes"):
            here.run(["sh", "-c", f"yes {stream}"], timeout=60)
    with pytest.raises(ReceivedError):
        here.unpacked(["yes"], tmp_path / "in", "what n1 sent", 60.0)


def test_a_program_that_fails_is_not_blamed_for_its_archive(tmp_path: Path) -> None:
    done = here.unpacked(["sh", "-c", "printf half; echo lost >&2; exit 255"], tmp_path / "in", "what n1 sent", 60.0)
    assert (done.returncode, done.stderr) == (255, b"lost\n")


# files and values --------------------------------------------------------------------------------------------------


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", ".", "n" * 300):
        with pytest.raises(ReceivedError):
            received.read(tmp_path / name)
    with pytest.raises(ReceivedError, match="more than 3 bytes"):
        received.read(tmp_path / "file", 3)
    with pytest.raises(FileNotFoundError):
        received.read(tmp_path / "none")


@dataclass(frozen=True)
class Told:
    name: str
    count: int
    share: float = 0.0


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "{", '{"a": NaN}', '{"a": Infinity}', "-Infinity", "1e999", "9" * 30, "9" * 5000, "-" + "9" * 25),
        *("[" * 100_000, '{"a":' * 100_000, "[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1), "\0", '{"a": 1} x'),
    ],
)
def test_a_document_out_of_bounds_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ReceivedError) as refused:
        json_value(text, "x.json")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) <= 500


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"name": "a", "count": "1"}', "count"),
        ('{"name": 1, "count": 1}', "name"),
        ('{"name": "a"}', "count"),
        ('{"name": "a", "count": true}', "count"),
        ('{"name": "a", "count": 1.5}', "count"),
        ('{"name": "a", "count": 1, "more": 2}', "more"),
        ("[]", "the document"),
    ],
)
def test_a_value_has_the_types_that_it_says(text: str, why: str) -> None:
    assert json_as(Told, '{"name": "a", "count": 1}', "x.json") == Told("a", 1)
    with pytest.raises(ReceivedError, match=why):
        json_as(Told, text, "x.json")


def test_rows_of_a_table_end_where_it_was_cut_off() -> None:
    assert list(table(["a,b\n", "1,2\n", "3"], "x.csv", ("a",))) == [{"a": "1", "b": "2"}]
    for lines in (["a,b\n"], ["c" * 2_000_000], []):
        with pytest.raises(ReceivedError):
            list(table(lines, "x.csv", ("c",)))
    with pytest.raises(ReceivedError, match="more than 1 rows"):
        list(table(["a\n", "1\n", "2\n"], "x.csv", most=1))


def test_links_of_a_directory_are_packed_where_they_are_asked_for(tmp_path: Path) -> None:
    """A database's libraries are found by them (``libicuuc.so.60``)."""
    made, sent = tmp_path / "made", tmp_path / "sent"
    (made / "lib").mkdir(parents=True)
    sent.mkdir()
    (made / "lib" / "icu.so.60.2").write_bytes(b"x")
    (made / "lib" / "icu.so.60").symlink_to("icu.so.60.2")
    assert set(below(made)) == {"lib", "lib/icu.so.60.2"}
    subprocess.run(["tar", "-xpf", "-", "-C", sent], input=packed(below(made, links=True)), check=True)
    assert (sent / "lib" / "icu.so.60").readlink() == Path("icu.so.60.2")
