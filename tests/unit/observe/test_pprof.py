"""pprof's profiles: what is written is read, what others write is read, damage is named."""

import gzip
import random
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.model.errors import UsageError
from leadline.model.received import ReceivedError
from leadline.observe.stacks import Kind, decode, encode, stacks_of


def _message(number: int, body: bytes) -> bytes:
    return bytes([number << 3 | 2, len(body)]) + body


STRINGS = (b"", b"samples", b"count", b"cpu", b"nanoseconds", b"in", b"of", b"main")
FIELDS = (  # as Go writes one: two types of values, a function in line, packed and single numbers, fields left unread
    *(_message(1, bytes(kind)) for kind in ((8, 1, 16, 2), (8, 3, 16, 4))),
    _message(2, bytes([8, 1, 8, 2, 16, 7, 16, 0x80, 0x87, 0xA7, 0x0E]) + _message(3, b"\x08\x01")),
    _message(2, bytes([10, 1, 2, 18, 5, 3, 0x80, 0x9B, 0xEE, 0x02])),
    b"\x49" + bytes(8),  # a fixed number
    _message(4, bytes([8, 1, 24, 9]) + _message(4, b"\x08\x01") + _message(4, b"\x08\x02\x10\x05")),
    _message(4, bytes([8, 2]) + _message(4, b"\x08\x03")),
    *(_message(5, bytes([8, number, 16, 4 + number])) for number in (1, 2, 3)),
    *(_message(6, name) for name in STRINGS),
    _message(11, bytes([8, 3, 16, 4])),
    b"\x60\x80\xad\xe2\x04",  # a period of 10 ms
)
GO = gzip.compress(b"".join(FIELDS))


def test_a_profile_as_go_writes_one_is_read(tmp_path: Path) -> None:
    assert decode(GO, ("samples", "cpu"), "go") == ("samples/count", 10_000_000, {"main;of;in": 7, "main": 3})
    file = tmp_path / "go.pb.gz"
    file.write_bytes(GO)
    (stacks,) = stacks_of([file], Kind.CPU)
    assert (stacks.event, stacks.ns, stacks.samples) == ("samples/count", 10_000_000, {"main;of;in": 7, "main": 3})
    with pytest.raises(
        UsageError, match=r"go\.pb\.gz cannot be read as a profile of pprof: .*alloc_space, alloc is needed"
    ):
        stacks_of([file], Kind.ALLOCATION)


def test_what_is_written_is_read() -> None:
    values = {"main;a.B.c;main": (3, 5, 2), "(no stack)": (7, 1, -6), "main;ü": (1 << 40, 0, -(1 << 40))}
    packed = encode(values, [("before", "count"), ("after", "count"), ("change", "count")])
    for at, name in enumerate(("before", "after", "change")):
        assert decode(packed, (name,), "x") == (f"{name}/count", 0, {stack: row[at] for stack, row in values.items()})


def test_damage_is_an_error_that_names_the_file() -> None:
    plain = b"".join(FIELDS)
    for bad in (GO[:-20], gzip.compress(plain[:-3]), gzip.compress(b"\x0b"), gzip.compress(b"\x08" + b"\xff" * 12)):
        with pytest.raises(ReceivedError, match="go is damaged: "):
            decode(bad, ("samples",), "go")
    rng = random.Random(4)
    for _ in range(300):
        damaged = bytearray(plain)
        damaged[rng.randrange(len(plain))] = rng.randrange(256)
        with suppress(ReceivedError):
            decode(gzip.compress(bytes(damaged), 1), ("samples", "cpu"), "go")


def test_profiles_are_compared_and_the_difference_is_written(tmp_path: Path) -> None:
    for name, count in (("a1", 100), ("a2", 103), ("b1", 150), ("b2", 148)):
        rows = {"main;Orders.price": (count,), "main;Other.work": (900,)}
        (tmp_path / f"{name}.pb.gz").write_bytes(encode(rows, [("samples", "count")]))
    files = [str(tmp_path / f"{name}.pb.gz") for name in ("a1", "a2", "b1", "b2")]
    out = tmp_path / "change.pb.gz"
    arguments = ["explain", *files[:2], "--", *files[2:], "--count", "1000", "--pprof", str(out)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("CPU per request: +4.74 %")
    changes = decode(out.read_bytes(), ("change",), "out")[2]
    assert changes == {"main;Orders.price": 95, "main;Other.work": 0}
