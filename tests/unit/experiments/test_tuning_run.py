"""A tuning's whole life on the simulated host: its studies, its record, going on after it was cut off, its pages."""

import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from known_knobs import service_catalogue
from typer.testing import CliRunner

from leadline.checks.files.study import TuningFile, builtin_tunings, parse_tuning
from leadline.cli.main import app
from leadline.experiments.tuning import TuningResult, TuningRun, steps_left_out
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.model.tuning import MODE
from leadline.places.simulated import SimulatedTestbed, Truth, parse_truth
from leadline.places.simulated.system import SimulatedSystem
from leadline.report.tuning.export import document, export, lines
from leadline.report.tuning.page import render
from leadline.report.tuning.view import TuningView, gather, spread_text
from leadline.stack.registry import knob_of_others
from leadline.store.lab import Store
from leadline.store.tunings import TuningRecords

KNOBS = [
    Knob(MODE, Kind.CHOICE, ApplyCost.RESTART, "mode", choices=("direct", "session", "orm")),
    Knob("server.pool", Kind.INTEGER, ApplyCost.RESTART, "pool"),
    Knob("server.cache", Kind.INTEGER, ApplyCost.RESTART, "cache"),
]
TUNING = """\
tuning: small
question: q
stack: { server: tomcat }
modes: [orm, direct]
workload: { users: 40, variables: { think: 100ms }, ramp_up: 2s, steady: 6s, ramp_down: 1s }
steps:
  - { name: pool, levels: { server.pool: [10, 70] } }
  - { name: cache, levels: { server.cache: [0, 60] } }
blocks: { step: 2, confirm: 2, compare: 2 }
responses: [throughput, p99]
published: { source: somebody, bars: { orm: { untuned: 1, gain: 50% }, direct: { untuned: 2, gain: 60% } } }
"""
TRUTH = """\
truth:
  noise: { trials: 0.5%, seconds: 1%, latency_trials: 1% }
  effects:
    - { when: { app.mode: direct }, percent: { throughput: 80% } }
    - { when: { server.pool: 70 }, percent: { throughput: 40% } }
"""


def small(*overrides: str) -> TuningFile:
    return parse_tuning(TUNING, "small.yaml", overrides)


@dataclass(frozen=True)
class Done:
    result: TuningResult
    store: Store


def run(file: TuningFile, lab: Path, truth: str = TRUTH, fresh: bool = False) -> Done:
    place = SimulatedTestbed(parse_truth(truth, "truth.yaml"), lab, service_knobs=KNOBS, host=[])
    result = TuningRun(file, steps_left_out(file, place), place).execute(fresh)
    return Done(result, place.store)


def view_of(done: Done) -> TuningView:
    return gather(done.store, TuningRecords(done.store).load(done.result.tuning_id))


def figures(store: Store) -> list[dict[str, float]]:
    return [dict(trial.responses) for number in reversed(store.ids()) for trial in store.load(number).trials]


def test_a_tuning_is_ordinary_studies_and_their_record(tmp_path: Path) -> None:
    file = small("factorial.of=all", "modes=[orm]")
    done = run(file, tmp_path)
    assert done.result.complete
    found = view_of(done)
    names = ["small-pool", "small-pool-confirm", "small-cache", "small-compare", "small-factorial-orm"]
    assert [name for name, _ in found.studies] == names
    assert found.progress.kept == {"orm": {"pool": 1}}
    assert found.progress.comparison is not None
    gain = found.progress.comparison.gains["orm"]
    assert gain.simultaneous is not None
    assert gain.simultaneous.contains(40)
    assert found.answer.startswith("SIMULATED: orm tuned by pool against untuned: throughput +")
    assert "]; not distinguishable from noise: p99 " in found.answer
    untuned, tuned = found.measured
    assert (untuned.configuration, tuned.configuration) == ("orm untuned", "orm tuned")
    assert tuned.responses["throughput"].mean / untuned.responses["throughput"].mean == pytest.approx(1.4, abs=0.06)
    assert untuned.responses["throughput"].low < untuned.responses["throughput"].mean
    told = json.loads(json.dumps(document(found), allow_nan=False))
    assert told["format"] == "leadline-tuning/1"
    assert [one["kept"] for one in told["decisions"]] == [True, False]
    assert "orm: the steps as factors" in "\n".join(lines(found))
    page = render(found)
    assert spread_text("throughput", tuned.responses["throughput"]) in page
    for name in ("bars", "bars-published", "waterfall-orm", "interactions-orm"):
        assert f'data-figure="{name}"' in page
    records = TuningRecords(done.store)
    assert records.unfinished(file.tuning) is None  # a finished one is not gone on with
    assert records.find("small") == records.find("small@1") == 1
    assert records.find("large") is None


def test_the_answer_covers_every_response_and_is_the_same_everywhere(tmp_path: Path) -> None:
    worse = (
        TRUTH
        + """\
    - { when: { server.pool: 70 }, percent: { p99: 60% } }
    - { when: { server.cache: 60 }, percent: { p99: 80% } }
"""
    )
    found = view_of(run(small("modes=[orm]", "blocks.step=4", "blocks.compare=4"), tmp_path, worse))
    assert found.progress.kept == {"orm": {"pool": 1}}
    kept, tried = found.answer.removeprefix("SIMULATED: ").split(". Not kept: ")
    assert re.match(
        r"orm tuned by pool against untuned: throughput \+\d+ % \[.*\]; at the cost of p99 \+\d\d % \[", kept
    )
    assert re.match(r"server\.cache=60 hurts: p99 \+\d\d % \[\+\d+, \+\d+\]\.$", tried)
    p99 = found.gains["p99"]["orm"]
    assert p99.simultaneous is not None
    assert p99.simultaneous.contains(60)
    assert lines(found)[0] == found.answer == document(found)["answer"]
    assert f'id="answer">{found.answer}</p>' in render(found)
    export(found, tmp_path / "files", ["csv"])
    rows = csv.DictReader((tmp_path / "files" / "comparison.csv").read_text().splitlines())
    gains = {row["response"]: float(row["percent"]) for row in rows if row["against"] == "orm untuned"}
    assert gains == {name: pytest.approx(found.gains[name]["orm"].percent) for name in ("throughput", "p99")}


def test_where_no_step_is_kept_the_answer_says_what_the_steps_did(tmp_path: Path) -> None:
    effect = "{ when: { server.cache: 60 }, percent: { p99: 60% } }"
    worse = f"truth:\n  noise: {{ trials: 0.5%, seconds: 1% }}\n  effects: [{effect}]\n"
    found = view_of(run(small("modes=[orm]", "blocks.step=4"), tmp_path, worse))
    said = "SIMULATED: No step was kept, so there is nothing to compare. Not kept: server.cache=60 hurts: p99 +"
    assert found.answer.startswith(said)


def test_a_tuning_that_is_cut_off_goes_on_and_measures_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = 0
    real = SimulatedSystem.load

    def dies(self: SimulatedSystem, *arguments: object) -> object:
        nonlocal started
        started += 1
        if started in (3, 8):  # in a step and in its confirmation
            raise KeyboardInterrupt
        return real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SimulatedSystem, "load", dies)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run(small("modes=[orm]"), tmp_path / "cut")
    end = run(small("modes=[orm]", "budget=1h"), tmp_path / "cut")  # another budget is no other question
    assert end.result.complete
    assert end.result.tuning_id == 1
    found = view_of(end)
    assert [name for name, _ in found.studies] == ["small-pool", "small-pool-confirm", "small-cache", "small-compare"]
    attempts = [trial.attempt for number in end.store.ids() for trial in end.store.load(number).trials]
    assert sorted(attempts)[-3:] == [1, 2, 2], attempts
    assert found.progress.kept == {"orm": {"pool": 1}}


def test_a_budget_ends_a_part_and_goes_to_the_comparison_before_more_steps(tmp_path: Path) -> None:
    begun = run(small("budget=2m"), tmp_path)
    assert begun.result.stopped.startswith("the budget is used up with 5 trials left")
    first = run(small("budget=12m"), tmp_path)  # a trial takes 31 s; 13 are left of step and confirmation
    assert not first.result.complete
    found = view_of(first)
    assert first.result.stopped == "no time was left for cache; run again to try them"
    assert found.progress.comparison is not None
    assert [name for name, _ in found.studies] == ["small-pool", "small-pool-confirm", "small-compare"]
    assert any("the budget is left to the comparison" in note for note in found.notes)
    second = run(small(), tmp_path)
    assert second.result.complete
    assert second.result.tuning_id == first.result.tuning_id == begun.result.tuning_id
    names = [name for name, _ in view_of(second).studies]
    assert names == ["small-pool", "small-pool-confirm", "small-cache", "small-compare"]
    assert len(second.store.ids()) == 4  # the same configurations were compared before: not again
    assert all(trial.attempt == 1 for number in second.store.ids() for trial in second.store.load(number).trials)


def test_failing_candidates_are_told_with_their_class(tmp_path: Path) -> None:
    truth = (
        TRUTH + "  failures: [{ class: configuration, probability: 100%, when: { server.pool: 70 }, message: no }]\n"
    )
    done = run(small("skip=[cache]"), tmp_path, truth)
    assert done.result.complete
    found = view_of(done)
    assert found.progress.kept == {"orm": {}, "direct": {}}
    assert found.failures == (("configuration: no", 4, "small-pool@1"),)
    assert [one.reason for one in found.progress.decisions[:2]] == ["2 of its 2 trials failed (configuration)"] * 2


def test_steps_of_knobs_that_are_not_there() -> None:
    def left_out(file: TuningFile, *knobs: Knob) -> dict[str, str]:
        return steps_left_out(file, SimulatedTestbed(Truth(), Path(), service_knobs=knobs, host=[]))

    assert left_out(small("skip=[cache]"), *KNOBS) == {"cache": "by `skip`"}
    with pytest.raises(UsageError, match=r"small\.yaml:7: .*unknown knob 'server\.pool'; did you mean server\.pol"):
        left_out(small(), Knob("server.pol", Kind.INTEGER, ApplyCost.RESTART, "x"), KNOBS[0], KNOBS[2])
    of_liberty = service_catalogue("liberty", "postgres")
    only = next(knob for knob in of_liberty if knob_of_others(knob.name, "tomcat", "postgres"))
    lacks = parse_tuning(TUNING.replace("server.pool", only.name), "s.yaml")
    assert f"tomcat has no knob {only.name}; " in left_out(lacks, *KNOBS)["pool"]
    with pytest.raises(UsageError, match=r"small\.yaml:4: modes\.1 is 'orn', not one of"):
        parse_tuning(TUNING.replace("[orm, direct]", "[direct, orn]"), "small.yaml")
    with pytest.raises(UsageError, match=r"small\.yaml:9: unknown key 'blocs'; did you mean blocks"):
        parse_tuning(TUNING.replace("blocks:", "blocs:"), "small.yaml")
    with pytest.raises(UsageError, match="skip names cash, which is no step; did you mean cache"):
        small("skip=[cash]")


def test_a_full_disk_ends_the_run_with_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise TrialFailure(FailureClass.INFRASTRUCTURE, "the lab cannot be written")

    monkeypatch.setattr(TuningRecords, "link", full)
    file = small("skip=[cache]", "modes=[orm]")
    ended = run(file, tmp_path).result
    assert (ended.complete, ended.stopped) == (False, "the lab cannot be written")


def test_the_command_runs_shows_and_reports(tmp_path: Path) -> None:
    truth = tmp_path / "truth.yaml"
    truth.write_text(
        "truth:\n  noise: { trials: 0.5% }\n  effects: [{ when: { jvm.heap: 512m }, percent: { throughput: 30% } }]\n"
    )
    file = tmp_path / "heap.yaml"
    file.write_text(
        "tuning: heaps\nquestion: q\nstack: { server: tomcat }\nmodes: [direct]\n"
        "workload: { users: 20, ramp_up: 1s, steady: 6s }\nresponses: [throughput]\n"
        "steps: [{ name: heap, levels: { jvm.heap: [128m, 512m] } }]\nblocks: { step: 3, confirm: 0, compare: 2 }\n"
    )
    lab = str(tmp_path / "lab")
    words = ["run", str(file), "--simulate", str(truth), "--lab", lab]
    planned = CliRunner().invoke(app, [*words, "--dry-run", "--json"])
    assert planned.exit_code == 0, planned.output
    told = json.loads(planned.output)
    assert told["trials"] == {"least": 6, "most": 10}
    assert not (tmp_path / "lab").exists()
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "SIMULATED" in done.output
    assert "SIMULATED: direct tuned by heap against untuned: " in done.output
    page = tmp_path / "lab" / "simulated" / "reports" / "heaps@1" / "report.html"
    assert page.is_file()
    simulated = str(tmp_path / "lab" / "simulated")
    shown = CliRunner().invoke(app, ["show", "heaps@1", "--lab", simulated, "--json"])
    assert json.loads(shown.output)["kept"] == {"direct": {"heap": 1}}
    part = CliRunner().invoke(app, ["show", "heaps-compare", "--lab", simulated])
    assert part.exit_code == 0, part.output
    assert "jvm.heap = 512m" in part.output
    files = CliRunner().invoke(
        app,
        [
            "export",
            "heaps",
            "--lab",
            simulated,
            "--out",
            str(tmp_path / "files"),
            "--format",
            "csv",
            "--format",
            "svg,json",
        ],
    )
    assert files.exit_code == 0, files.output
    written = {path.name for path in (tmp_path / "files").iterdir()}
    assert written == {"steps.csv", "comparison.csv", "tuning.json", "bars.svg", "waterfall-direct.svg"}
    rows = (tmp_path / "files" / "comparison.csv").read_text().splitlines()
    assert len({row.count(",") for row in rows}) == 1
    cells = [row.split(",") for row in rows[1:]]
    assert [(row[1], row[3]) for row in cells] == [
        ("direct tuned", "direct untuned"),
        ("direct tuned", "the one before"),
    ]
    refused = CliRunner().invoke(app, ["plan", "daytrader"])
    assert "daytrader is a tuning" in str(refused.exception)
    again = CliRunner().invoke(app, ["report", "heaps", "--lab", simulated, "--out", str(tmp_path / "again.html")])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again.html").read_text() == page.read_text()
    listed = CliRunner().invoke(app, ["studies"])
    assert all(f"{name} (tuning): " in listed.output for name in builtin_tunings())


def test_a_dry_run_tells_what_trials_risk() -> None:
    outlined = ["run", "daytrader", "--dry-run", "--json"]
    plain = CliRunner().invoke(app, outlined)
    assert json.loads(plain.output)["warnings"] == []
    starved = CliRunner().invoke(
        app, [*outlined, "--set", "skip=[threads]", "--set", "settings={server.threads.max: 50}"]
    )
    warnings = json.loads(starved.output)["warnings"]
    assert [told[:50] for told in warnings] == ["Warning: server.threads.max 50 with app.calls remo"]
