"""GC logs as bad as they come: every one gives figures with warnings or one clear message."""

import gzip
import json
import random
import re
from pathlib import Path

import pytest
from test_gc_files import jvm
from test_gc_older import BESIDE, CMS, G1, JDK8, OPENJ9, SCAVENGED
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.gcanalysis.summary import summary
from leadline.model.errors import UsageError
from leadline.observe.gc import tabulate
from leadline.observe.gclog.files import parse
from leadline.observe.gclog.report import as_mapping, render, report

UNIFIED = jvm("G1", 12)
LOGS = [UNIFIED, *(text.splitlines(keepends=True) * 2 for text in (JDK8, G1, CMS, BESIDE, SCAVENGED, OPENJ9))]
MARKS = '[](){}:.,->0129KMG% \n\t"<>=/sm-E\ufffd\u0660\0'
ODD = ("NaN", "inf", "1e999", "\r", "-", "9" * 400)


def mutated(chance: random.Random) -> str:
    """A log, now and then with a part of another, with up to 30 faults."""
    lines = list(chance.choice(LOGS))
    if chance.random() < 0.3:
        lines += chance.choice(LOGS)
    for _ in range(chance.randint(1, 30)):
        at = chance.randrange(len(lines))
        text = lines[at]
        place = chance.randint(0, len(text))
        lines[at] = chance.choice(
            (
                text[:place],
                text[:place] + chance.choice(MARKS) + text[place + 1 :],
                text[:place] + chance.choice(ODD) + text[place:],
                text[:place] + chance.choice(lines) + text[place:],
                re.sub(r"\d+", lambda found: chance.choice(("0", "", found[0] * 3, found[0])), text, count=4),
                chance.choice(lines),
                text.rstrip("\n"),
            )
        )
    return "".join(lines)


def test_no_fault_in_a_log_raises_anything_else(tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    read = 0
    for seed in range(400):
        path.write_text(mutated(random.Random(seed)))
        try:
            log = parse(path)
        except UsageError:
            continue
        read += 1
        figures = summary(log)
        assert render(figures), seed
        json.dumps(as_mapping(figures), allow_nan=False)
        tabulate(log, 1.7e9)
    assert read > 300


def test_a_compressed_log_that_is_cut_or_damaged_tells(tmp_path: Path) -> None:
    path = tmp_path / "gc.log.gz"
    whole = gzip.compress("".join(jvm("G1", 2000)).encode())
    path.write_bytes(whole[: len(whole) // 2])
    assert "gc.log.gz: the compressed file is cut; what comes before was read" in parse(path).warnings
    path.write_bytes(whole[:-8] + bytes(8))  # the checksum
    log = parse(path)
    assert len(log.pauses) == 2000
    assert log.warnings[0].startswith("gc.log.gz: the compressed file is damaged (CRC check failed")
    path.write_bytes(whole[:10] + bytes(100))
    with pytest.raises(UsageError, match=r"gc\.log\.gz: damaged gzip file"):
        parse(path)


@pytest.mark.parametrize(("first", "second"), [("unified", "8"), ("8", "unified"), ("j9", "8"), ("unified", "j9")])
def test_a_pause_in_another_format_is_loud(first: str, second: str, tmp_path: Path) -> None:
    texts = {"unified": "".join(jvm("G1", 450)), "8": JDK8, "j9": OPENJ9}
    path = tmp_path / "gc.log"
    path.write_text(texts[first])
    alone = len(parse(path).pauses)
    path.write_text(texts[first] + texts[second])
    log = parse(path)
    if (first, second) == ("8", "unified"):
        assert len(log.unknown) == 450
    else:
        assert len(log.unknown) == 2
    assert len(log.pauses) == alone
    assert "not known" in log.warnings[0]


def test_text_in_two_bytes_and_with_carriage_returns(tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    for data in ("".join(UNIFIED).encode("utf-16"), "".join(UNIFIED).replace("\n", "\r\n").encode()):
        path.write_bytes(data)
        assert len(parse(path).pauses) == 12


def test_decimal_commas_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    for text in (JDK8, G1, CMS, BESIDE):
        found = []
        for written in (text, re.sub(r"(\d)\.(\d)", r"\1,\2", text)):
            path.write_text(written)
            log = parse(path)
            found.append((log.pauses, log.cpu, log.safepoints))
        assert found[0] == found[1]


def test_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    path.write_text("".join(UNIFIED))
    for data in (path.read_bytes(), gzip.compress(path.read_bytes())):
        shown = CliRunner().invoke(app, ["gc", "-", "--json"], input=data)
        assert json.loads(shown.stdout)["pauses"] == report([path])["pauses"]
    with pytest.raises(UsageError, match="named twice"):
        report([Path("-"), Path("-")])


def test_a_device_without_a_line() -> None:
    assert "the log is empty" in report([Path("/dev/null")])["warnings"][0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "dangling.log").symlink_to("nowhere")
    (tmp_path / "binary.log").write_bytes(random.Random(1).randbytes(50_000))
    (tmp_path / "text.log").write_text("x" * 1_000_000)
    said = {
        "dangling": "No such file",
        "missing": "No such file",
        "binary": "no GC log",
        "text": "older formats",
    }
    for name, words in said.items():
        with pytest.raises(UsageError, match=words):
            report([tmp_path / f"{name}.log"])
    with pytest.raises(UsageError, match="no GC log is in it"):
        report([tmp_path])
