"""``leadline figures``: foreign tables and stored studies in; text, CSV, charts and JSON out; bad input refused."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import Command
from report_fixture import fake_study

from leadline.design.make import make_plan
from leadline.figures.foreign import read_rows, rows_of_csv, rows_of_json
from leadline.figures.table import table_of
from leadline.model.design import Design
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan, Role, Treatment
from leadline.model.result import RESPONSES, Observation
from leadline.model.study import Study
from leadline.report.figures.charts import section
from leadline.report.page import build
from leadline.store.lab import Store

THROUGHPUT = RESPONSES["throughput"]
FACTORS = (
    Factor("host.kernel", ("5.10", "6.1"), "5.10", apply_cost=ApplyCost.KERNEL),
    Factor("vm.swappiness", (60, 0, 100), 60),
    Factor("vm.dirty_ratio", (20, 5), 20),
    Factor("jvm.heap", (512, 256), 512),
)
leadline = Command("figures")
refused = leadline.refused


def results_csv(path: Path, systems: int = 4) -> Path:
    """Four parameters of three levels; b=2 is worse by 20 % everywhere, c=3 fails on k1."""
    rng = np.random.default_rng(6)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["kernel", "parameter", "value", "repeat", "mean", "failure", "remark"])
        for system in range(systems):
            for repeat in range(3):
                writer.writerow([f"k{system}", "baseline", "", repeat, 500 + 8 * rng.standard_normal(), "", ""])
                for parameter in "abcd":
                    for level in "123":
                        failed = system == 1 and parameter + level == "c3"
                        value = 500 * (0.8 if parameter + level == "b2" else 1) + 8 * rng.standard_normal()
                        cells = ["", "configuration"] if failed else [value, ""]
                        writer.writerow([f"k{system}", parameter, level, repeat, *cells, "x"])
    return path


def test_a_foreign_table_gives_every_figure_as_text_files_and_json(tmp_path: Path) -> None:
    source = results_csv(tmp_path / "results.csv")
    groups = ["--groups", "red=a,b", "--groups", "blue=c,d"]
    output = leadline(source, "--out", tmp_path / "out", "--response", "mean", *groups)
    for word in ("b=2", "Best gain and worst loss", "configuration 3", "Kendall's W", "negative", "red", "luck alone"):
        assert word in output
    names = {path.name for path in (tmp_path / "out").iterdir()}
    tables = {"throughput", "gains", "failures", "sensitivity", "sensitivity_map", "ranking", "ranks", "groups"}
    assert {f"{name}.csv" for name in tables} <= names
    charts = ("throughput", "gains", "failures", "sensitivity", "map", "ranks", "model", "groups")
    for name in charts:
        assert (tmp_path / "out" / f"study-a-{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (tmp_path / "out" / f"study-a-{name}.svg").read_text().startswith("<svg")
    with (tmp_path / "out" / "ranking.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[-1]["setting"] == "b=2"
    assert (rows[-1]["by_rank"], rows[-1]["by_model"]) == ("negative", "negative")
    with (tmp_path / "out" / "sensitivity.csv").open() as file:
        first = next(csv.DictReader(file))
    assert (first["parameter"], first["told"]) == ("b", "True")
    assert float(first["interval_low"]) < 4 * 500 * np.std([0, 0.2, 0], ddof=1) < float(first["interval_high"])

    document = leadline.document(source, *groups)
    assert document["format"] == "leadline-figures/1"
    assert document["failures"]["classes"] == {"configuration": 3}
    assert document["grouping"]["exact"] is True
    assert len(document["sentences"]) == 6


def test_a_table_of_gains(tmp_path: Path) -> None:
    source = tmp_path / "gains.csv"
    source.write_text("kernel,gain,loss\nold,3,-4\nnew,5,-2\n")
    output = leadline(source, "--settings", 33, "--replicates", 3, "--cv", 2, "--out", tmp_path / "out")
    assert "gains 4.00 %" in output
    assert "2.40" in output  # luck of 33 settings, three runs, 2 %
    assert "sensitivity, ranking, grouping: the table has best gains and worst losses only" in output
    assert (tmp_path / "out" / "study-a-gains.svg").exists()


def stored(lab: Path) -> Plan:
    """A one-at-a-time study of two kernels: swappiness 100 costs a fifth, the small heap fails on 6.1."""
    plans = [make_plan(FACTORS[1:], Design(replicates=2, seed=seed)) for seed in (1, 2)]
    trials = []
    for kernel, plan in zip(("5.10", "6.1"), plans, strict=True):
        for one in plan.trials:
            levels = Treatment.of({"host.kernel": kernel, **one.treatment.as_dict()})
            position = len(trials)
            trials.append(one.__class__(position, one.block, one.replicate, one.role, levels, one.seed))
    plan = Plan("one-at-a-time", 1, FACTORS, tuple(trials))
    study = Study.model_validate(
        {
            "study": "kernels",
            "question": "Which setting?",
            "factors": {factor.name: list(factor.levels) for factor in FACTORS},
            "responses": ["throughput", "p90"],
        }
    )
    store = Store(lab)
    number = store.add_study(study, "study: kernels", plan, {}, [])
    rng = np.random.default_rng(2)
    for trial in store.load(number).trials:
        attempt, _ = store.begin_attempt(trial.id, trial.planned.block)
        levels = trial.planned.treatment.as_dict()
        if levels["jvm.heap"] == 256 and levels["host.kernel"] == "6.1":
            store.finish(trial.id, attempt, TrialFailure(FailureClass.CONFIGURATION, "the JVM did not start"))
            continue
        value = 400 * (0.8 if levels["vm.swappiness"] == 100 else 1.0) * (1 + 0.01 * rng.standard_normal())
        store.add_responses(trial.id, attempt, {"throughput": value, "p90": 4000 / value})
        store.finish(trial.id, attempt)
    return plan


def test_a_stored_study_whose_kernel_is_the_system(tmp_path: Path) -> None:
    stored(tmp_path / "lab")
    lab = ("kernels", "--lab", tmp_path / "lab")
    document = leadline.document(*lab)
    assert document["systems"] == ["5.10", "6.1"]
    assert "vm.swappiness=100" in document["settings"]
    assert "vm.swappiness=60" not in document["settings"]
    assert document["sensitivity"]["rows"][0]["parameter"] == "vm.swappiness"
    last = document["ranking"]["rows"][-1]
    assert (last["setting"], last["by_model"], last["failed_on"]) == ("vm.swappiness=100", "negative", 0)
    assert document["failures"]["settings"] == {"jvm.heap=256": 2}
    worst = {row["system"]: row["worst_setting"] for row in document["extremes"]["rows"]}
    assert worst == {"5.10": "vm.swappiness=100", "6.1": "vm.swappiness=100"}
    slow = leadline.document(*lab, "--response", "p90")
    assert slow["higher_is_better"] is False
    assert {row["worst_setting"] for row in slow["extremes"]["rows"]} == {"vm.swappiness=100"}
    assert "did you mean throughput" in refused(*lab, "--response", "thruput")
    assert "did you mean host.kernel" in refused(*lab, "--system", "host.kernl")


def observed(plan: Plan, means: dict[tuple[str, object], float]) -> list[Observation]:
    rng = np.random.default_rng(5)
    found = []
    for trial in plan.trials:
        share = sum(means.get(pair, 0.0) for pair in trial.treatment.levels)
        value = 100.0 * (1 + share) + 0.2 * rng.standard_normal()
        found.append(
            Observation(
                *(trial.position, trial.position, trial.block, trial.replicate, Role.TREATMENT, trial.treatment, 0.0),
                responses={"throughput": value},
            )
        )
    return found


def test_crossed_designs_give_main_effects(tmp_path: Path) -> None:
    from leadline.figures.everything import figures_of

    plan = make_plan(FACTORS[1:], Design(kind="full-factorial", replicates=2, sentinels=None))
    table = table_of(plan, observed(plan, {("vm.swappiness", 100): -0.2, ("vm.dirty_ratio", 5): 0.1}), "throughput")
    assert table.systems == ("this system",)
    found = figures_of(table)
    assert found.extremes is not None
    row = found.extremes.rows[0]
    assert (row.best_setting, row.worst_setting) == ("vm.dirty_ratio=5", "vm.swappiness=100")
    assert row.best == pytest.approx(10, abs=0.5)
    assert row.worst == pytest.approx(-20, abs=0.5)
    assert any("interactions" in note for note in found.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows"),
        ("kernel,parameter,value,mean\n", "no rows"),
        ("kernel,parameter,value\nk,a,1\n", "no column for the results"),
        ("kernel,parameter,value,mean\nk,a,1\n", "line 2: 3 cells where the head has 4"),
        ("kernel,parameter,value,mean\nk,a,1,fast\n", "line 2: response is 'fast', not a number"),
        ("kernel,parameter,value,mean\nk,a,1,nan\n", "not a number"),
        ("kernel,parameter,value,mean\nk,a,,5\n", "line 2: a has no level"),
        ("kernel,parameter,value,mean,failure\nk,a,1,,\n", "neither a response nor a failure"),
        ("kernel,parameter,value,mean\nk,baseline,,5\n", "no parameter has a level"),
        ("kernel,parameter,value,mean,failure\nk,a,1,,workload\n", "all 1 runs failed"),
        ("kernel,system,parameter,value,mean\nk,k,a,1,5\n", "two columns mean the system"),
        ("kernel,gain\nk,1\n", "no loss"),
        ("kernel,gain,loss\nk,1,2\nk,1,2\n", "k is there twice"),
    ],
)
def test_a_bad_table_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    source = tmp_path / "table.csv"
    source.write_text(text)
    assert message in refused(str(source))


def test_bad_options_are_refused(tmp_path: Path) -> None:
    source = str(results_csv(tmp_path / "results.csv", systems=2))
    assert "two groups" in refused(source, "--groups", "red=a")
    assert "did you mean" in refused(str(source), "--groups", "red=aa,b", "--groups", "blue=c")
    assert "in group red too" in refused(source, "--groups", "red=a", "--groups", "blue=a,b")
    assert "not NAME=PARAMETER" in refused(source, "--groups", "red")
    assert "given twice" in refused(source, "--groups", "red=a", "--groups", "red=b")
    assert "no column 'thruput'" in refused(source, "--response", "thruput")
    assert "No such file" in refused(str(tmp_path / "none.csv"))
    assert "a table ends in" in refused(str(Path(__file__)))
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused(source, "--out", str(tmp_path / "file" / "out"))
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert "not JSON" in refused(str(broken))
    broken.write_text('{"rows": [1, 2]}')
    assert "no list of objects" in refused(str(broken))


def test_groups_from_a_file_and_rows_of_json(tmp_path: Path) -> None:
    source = results_csv(tmp_path / "results.csv")
    with source.open() as file:
        rows = list(csv.DictReader(file))
    as_json = tmp_path / "results.json"
    as_json.write_text(json.dumps({"study": {"runs": rows}}))
    groups = tmp_path / "groups.txt"
    groups.write_text("# expected to matter\nred=a,b\nblue=c,d\n")
    one = leadline.document(source, "--groups-file", groups)
    other = leadline.document(as_json, "--groups-file", groups)
    assert one == other
    assert one["grouping"]["ways"] == 6


def test_a_ragged_table_is_ranked_where_it_is_whole() -> None:
    text = "kernel,parameter,value,mean\n" + "".join(
        f"k{k},{p},{level},{100 + k + level}\n"
        for k in range(3)
        for p in "ab"
        for level in (1, 2)
        if (k, p, level) != (2, "b", 2)
    )
    table = read_rows(rows_of_csv(text, "t"), THROUGHPUT)
    assert "b=2 on k2" in table.notes[0]
    from leadline.figures.everything import figures_of

    found = figures_of(table)
    assert found.ranking is not None
    assert found.ranking.left_out == ("b=2",)


def test_a_byte_order_mark_and_odd_heads_are_read() -> None:
    rows = rows_of_csv("\ufeffKernel, Parameter ,Value,BBops\nk,a,1,5\nk,a,2,6\n", "t", "BBops")
    table = read_rows(rows, THROUGHPUT)
    assert [run.value for run in table.runs] == [5.0, 6.0]
    assert rows_of_json('[{"kernel": "k", "parameter": "a", "value": true, "mean": 1}]', "j")[0].cells["level"] == "on"


def test_the_report_of_four_factors_has_a_section_and_fewer_have_none(tmp_path: Path) -> None:
    record, analysis = fake_study(tmp_path / "lab")
    assert len(record.plan.factors) == 4
    text = build(record, analysis, tmp_path / "four.html").read_text()
    assert 'id="study-a"' in text
    assert 'href="#study-a"' in text
    for name in ("gains", "sensitivity", "ranks", "model"):
        assert f'data-figure="study-a-{name}"' in text
        assert f'"study-a-{name}":{{' in text  # the interactive figure's specification
    found = section(record)
    assert found is not None
    assert found.response == "throughput"
    pool = record.plan.factors[0]
    assert any(f"{pool.name} (" in sentence and "matter" in sentence for sentence in found.sentences)
    few = replace(record, plan=replace(record.plan, factors=record.plan.factors[:3]))
    assert section(few) is None
    failed = [replace(trial, state="failed", failure=FailureClass.WORKLOAD) for trial in record.trials]
    assert section(replace(record, trials=tuple(failed))) is None


def tidy(head: str, rows: str) -> str:
    return f"{head}\n" + "".join(f"{row}\n" for row in rows.split())


PAIRS = "old,1,100 old,2,102 old,3,101 new,1,97 new,2,99 new,3,98"


def test_a_column_for_each_factor_is_read_as_one_with_factor_and_level(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(tidy("build,run,throughput", PAIRS))
    ours = PAIRS.replace("old,", ",,").replace("new,", "build,new,")
    ours = " ".join(",".join(word for at, word in enumerate(row.split(",")) if at != 2) for row in ours.split())
    (tmp_path / "b.csv").write_text(tidy("factor,level,throughput", ours))
    told, same = leadline.document(tmp_path / "a.csv"), leadline.document(tmp_path / "b.csv")
    assert told["extremes"] == same["extremes"]
    assert "The column build was taken for a factor, 'old' for its baseline." in leadline(tmp_path / "a.csv")


def test_a_column_that_differs_from_row_to_row_is_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(tidy("build,seen,p99", "old,8:01,5 old,8:02,6 new,8:03,4 new,8:04,5"))
    told = leadline(tmp_path / "a.csv")
    assert "The column seen was left out: it differs from row to row." in told
    assert leadline.document(tmp_path / "a.csv")["higher_is_better"] is False


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", tidy("build,p50,p99", "a,1,2 b,1,2"), "the results are in one of p50, p99: --response p50"),
        ("a.csv", tidy("build,time", "a,1 b,2"), "one of the results (--response NAME says which)"),
    ],
)
def test_what_a_table_lacks_is_named(name: str, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert said in refused(str(tmp_path / name))
