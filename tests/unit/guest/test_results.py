"""What a guest sends, whole and damaged, and what its console tells."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from leadline.guest.results import kernel_failure, read_sent, write
from leadline.model.errors import FailureClass, TrialFailure

CONTENT = bytes(range(256)) * 40 + b"put fake 3 x\n"


def put(name: str, content: bytes = CONTENT, digest: str | None = None) -> bytes:
    return f"put {name} {len(content)} {digest or hashlib.sha256(content).hexdigest()}\n".encode() + content


def test_facts_files_and_the_end_are_read(tmp_path: Path) -> None:
    sent = read_sent(
        b"say guest.began 3.25\nsay kernel Linux 6.1 x\n"
        + put("a/b.txt")
        + put("c", b"")
        + b"say guest.ended 4.75\nfinish\n"
    )
    assert sent.finished
    assert (sent.facts["guest.began"], sent.facts["guest.ended"]) == ("3.25", "4.75")
    assert sent.facts["kernel"] == "Linux 6.1 x"
    files = write(sent, tmp_path)
    assert (files / "a/b.txt").read_bytes() == CONTENT
    assert (files / "c").read_bytes() == b""
    assert json.loads((tmp_path / "facts.json").read_text()) == sent.facts


def test_an_end_in_the_middle_is_not_finished() -> None:
    sent = read_sent(b"say a b\nsave warm\n")
    assert (sent.finished, sent.saved, sent.facts) == (False, "warm", {"a": "b"})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (put("a", digest="0" * 64), "file a arrived damaged"),
        (put("a")[:-1], "file a arrived damaged"),
        (put("../a"), r"file \.\./a arrived damaged"),
        (b"say a b\n\xff\xfe\n", "damaged at"),
        (b"put a many 0\n", "damaged at"),
    ],
)
def test_damage_is_a_failure_of_the_infrastructure(raw: bytes, message: str) -> None:
    with pytest.raises(TrialFailure, match=message) as raised:
        read_sent(raw)
    assert raised.value.failure_class is FailureClass.INFRASTRUCTURE


@pytest.mark.parametrize(("given", "kind"), [("workload", FailureClass.WORKLOAD), ("odd", FailureClass.CONFIGURATION)])
def test_a_failure_keeps_its_class(given: str, kind: FailureClass) -> None:
    failed = read_sent(f"fail {given} the server is not there\n".encode()).failed
    assert failed is not None
    assert (failed.failure_class, failed.message) == (kind, "the server is not there")


@pytest.mark.parametrize(
    ("console", "message"),
    [
        ("[ 9.1] Out of memory: Killed process 71 (java) total-vm:1kB", r"its kernel killed java \(process 71\)"),
        ("[ 9.1] Memory cgroup out of memory: Killed process 8 (postgres: writer) x", "killed postgres: writer"),
        ("[ 9.1] Kernel panic - not syncing: Attempted to kill init!\r\n", "panicked: Attempted to kill init!"),
    ],
)
def test_the_console_names_what_the_kernel_ended(console: str, message: str) -> None:
    failure = kernel_failure(f"before\n{console}\nafter")
    assert failure is not None
    assert failure.failure_class is FailureClass.CONFIGURATION
    assert re.search(message, failure.message)
    assert "after" in failure.evidence


def test_a_console_without_such_words_is_no_failure() -> None:
    assert kernel_failure("leadline: all is well\nreboot: Power down") is None
