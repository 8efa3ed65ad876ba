"""``leadline plan``: prints, saves, reads back and checks a plan; refusals name the line of the study file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Command

STUDY = """\
study: screen
question: which of these?
workload: { users: 5 }
pseudo_factors:
  a: [x, y]
  b: [x, y]
  c: [x, y]
  d: [x, y]
  e: [x, y, z]
design:
  kind: d-optimal
  replicates: 2
"""


run = Command("plan")
refused = run.refused


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "screen.yaml"
    path.write_text(STUDY)
    return path


def test_a_plan_is_printed_saved_and_checked(study: Path, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    printed = run(study, "--out", saved)
    assert "D-efficiency" in printed
    assert f"saved: {saved}" in printed
    assert "baseline" in printed
    checked = run("--check", saved)
    assert f"{saved}: the plan is sound" in checked
    document: dict[str, Any] = json.loads(run("--check", saved, "--json"))
    assert document["plan"] == json.loads(saved.read_text())
    again = json.loads(run(study, "--json"))
    assert again["plan"] == document["plan"]
    assert again["properties"] == document["properties"]
    assert again["properties"]["mains"][0]["name"] == "a"
    assert again["study"] == "screen"
    assert again["seconds"] > 0


def test_a_damaged_plan_is_refused_with_its_file(study: Path, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    run(study, "--out", saved)
    document = json.loads(saved.read_text())
    document["trials"][1]["seed"] = 1
    saved.write_text(json.dumps(document))
    assert refused("--check", saved) == f"{saved}: plan: the trials of block 0 do not share one seed"
    saved.write_text("[]")
    assert refused("--check", saved).startswith(f"{saved}: plan: not a saved plan")
    assert "cannot be read" in refused("--check", tmp_path / "none.json")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["design.kind=plackett-burman"],
            "--set design.kind=plackett-burman: design: plackett-burman takes two levels of every factor",
        ),
        (["design.kind=definitive-screening"], "screen.yaml:5: design: definitive-screening takes three levels"),
        (["design.runs=4"], "--set design.runs=4: design: 4 runs cannot estimate the 7 figures"),
        (["design.replicates=1", "design.sentinels=null"], "screen.yaml:10: design: one replicate without sentinels"),
        (["design.blocks=latin"], "screen.yaml:12: design: latin blocks of"),
    ],
)
def test_refusals_name_the_line_or_the_option(study: Path, options: list[str], words: str) -> None:
    flags = [flag for option in options for flag in ("--set", option)]
    told = refused(study, *flags)
    assert words in told
    assert "\n" not in told


def test_refusals_of_a_file_name_its_line(study: Path) -> None:
    text = study.read_text()
    study.write_text(text.replace("d-optimal", "plackett-burman"))
    assert refused(study).startswith(f"{study}:11: design: plackett-burman takes two levels of every factor")
    study.write_text(f"{text}  runs: 4\n")
    assert refused(study).startswith(f"{study}:13: design: 4 runs cannot estimate the 7 figures")


def test_bad_use_is_told(study: Path, tmp_path: Path) -> None:
    assert "name a study" in refused()
    assert "means nothing beside --check" in refused(study, "--check", tmp_path / "plan.json")
    assert "cannot be written" in refused(study, "--out", tmp_path / "no" / "plan.json")


TWO, THREE, DEAR = "[x, y]", "[x, y, z]", "pseudo_apply_costs: { a: reboot }\n"
PLANS = [
    ("one-at-a-time", TWO, "replicates: 3", ""),
    ("full-factorial", TWO, "replicates: 2", ""),
    ("fractional-factorial", TWO, "replicates: 2, resolution: 4", ""),
    ("plackett-burman", TWO, "replicates: 1, foldover: true, sentinels: 6", ""),
    ("definitive-screening", THREE, "replicates: 2", ""),
    ("d-optimal", THREE, "replicates: 2, runs: 14", ""),
    ("d-optimal", TWO, "replicates: 2, model: interactions", ""),
    ("confirmation", TWO, "replicates: 4", ""),
    ("one-at-a-time", TWO, "replicates: 5, blocks: latin", ""),
    ("one-at-a-time", TWO, "replicates: 10, blocks: williams", ""),
    ("confirmation", TWO, "replicates: 4, blocks: abba", ""),
    ("one-at-a-time", TWO, "replicates: 4, blocks: incomplete, block_size: 3", ""),
    ("full-factorial", TWO, "replicates: 2, blocks: incomplete, block_size: 8", ""),
    ("one-at-a-time", TWO, "replicates: 3", DEAR),
    ("fractional-factorial", TWO, "replicates: 2", DEAR),
    ("one-at-a-time", TWO, "replicates: 2, switchback: { slot: 5s }", ""),
    ("one-at-a-time", TWO, "replicates: 2, switchback: { slot: 5s, order: williams }", ""),
    ("confirmation", TWO, "replicates: 2, switchback: { slot: 5s, order: abba }", ""),
    ("plackett-burman", TWO, "replicates: 2, switchback: { slot: 5s }", ""),
    ("fractional-factorial", TWO, "replicates: 2, resolution: 3, switchback: { slot: 5s }", DEAR),
    ("definitive-screening", THREE, "replicates: 2, switchback: { slot: 5s }", ""),
    ("d-optimal", THREE, "replicates: 2, runs: 14, switchback: { slot: 5s }", ""),
]


@pytest.mark.parametrize(("kind", "levels", "keys", "more"), PLANS)
def test_every_kind_of_plan_is_printed_saved_read_back_and_checked(
    tmp_path: Path, kind: str, levels: str, keys: str, more: str
) -> None:
    path, saved = tmp_path / "one.yaml", tmp_path / "plan.json"
    factors = "".join(f"  {name}: {levels}\n" for name in "abcd")
    path.write_text(
        f"study: one\nquestion: q?\nworkload: {{ users: 5, steady: 200s }}\npseudo_factors:\n{factors}{more}"
        f"design: {{ kind: {kind}, {keys} }}\n"
    )
    printed = run(path, "--out", saved)
    assert kind in printed
    document = json.loads(saved.read_text())
    read = run("--check", saved)
    assert "the plan is sound" in read
    assert f"{len(document['trials'])} trials, {kind}" in printed
    table = [line for line in printed.splitlines() if line.startswith("│")]
    assert table == [line for line in read.splitlines() if line.startswith("│")]
    assert json.loads(run("--check", saved, "--json"))["plan"] == document
    document["trials"][-1]["levels"]["a"] = "w"
    saved.write_text(json.dumps(document))
    assert refused("--check", saved).startswith(f"{saved}: plan: ")
