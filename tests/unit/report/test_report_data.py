"""What the report reads and computes from a trial's files."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hdrh.histogram import HdrHistogram
from report_fixture import MIX, POOL, T0, fake_study

from leadline.model.record import Phases, StudyRecord, TrialRecord
from leadline.model.result import Interval, StudyAnalysis
from leadline.report import files, latency, observed, series, words
from leadline.report.charts import effects


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyRecord, StudyAnalysis]:
    return fake_study(tmp_path_factory.mktemp("lab"), replicates=1)


@pytest.fixture(scope="module")
def trial(study: tuple[StudyRecord, StudyAnalysis]) -> TrialRecord:
    return next(
        t for t in study[0].trials if t.state == "done" and t.planned.position not in (5, 7) and t.phases is not None
    )


def write_log(path: Path, lines: list[tuple[float, str, list[int]]], base: float) -> None:
    text = [f"#[StartTime: {base} (seconds since epoch)]", f"#[BaseTime: {base} (seconds since epoch)]"]
    for at, tag, values in lines:
        histogram = HdrHistogram(1, 3_600_000_000_000, 3)
        for value in values:
            histogram.record_value(value)
        text.append(f"Tag={tag},{at},1.0,1.0,{histogram.encode().decode()}")
    path.write_text("\n".join(text) + "\n")


def test_histograms_agree_with_the_values_recorded(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    values = (rng.lognormal(15, 1.2, 4000)).astype(int)
    write_log(tmp_path / "r.hlog", [(0.0, "a", values[:2500].tolist()), (1.0, "a", values[2500:].tolist())], T0)
    found = latency.read_histograms(tmp_path / "r.hlog")["a"]
    assert found.total == 4000
    for q in (0.0, 0.5, 0.9, 0.99, 0.999, 1.0):
        exact = np.sort(values)[max(0, int(np.ceil(q * 4000)) - 1)] / 1e6
        assert found.quantile(q) == pytest.approx(exact, rel=2e-3)


def test_only_the_intervals_of_the_steady_state_count(tmp_path: Path) -> None:
    lines = [(float(second), "a", [1_000_000 * (second + 1)]) for second in range(10)]
    write_log(tmp_path / "r.hlog", lines, T0)
    found = latency.read_histograms(tmp_path / "r.hlog", T0 + 3, T0 + 7)["a"]
    assert found.total == 4
    assert found.values[0] == pytest.approx(4, rel=2e-3)
    assert found.values[-1] == pytest.approx(7, rel=2e-3)


def test_merging_counts_and_never_averages(tmp_path: Path) -> None:
    write_log(tmp_path / "a.hlog", [(0.0, "x", [1_000_000] * 99)], T0)
    write_log(tmp_path / "b.hlog", [(0.0, "x", [1_000_000_000])], T0)
    parts = [latency.read_histograms(tmp_path / name)["x"] for name in ("a.hlog", "b.hlog")]
    whole = latency.merge(parts)
    assert whole.total == 100
    assert whole.quantile(0.99) == pytest.approx(1, rel=2e-3)  # an average of the two 99th percentiles says 500
    assert whole.quantile(1.0) == pytest.approx(1000, rel=2e-3)
    assert latency.merge([]).quantile(0.5) is None


def test_latency_rows_carry_the_range_of_the_trials(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    done = [files.read(t) for t in study[0].trials if t.state == "done" and t.planned.position != 5][:3]
    found = latency.collect({"some": done})
    assert set(found.transactions()) == set(MIX)
    for row in found.rows:
        assert row.merged
        for name, one in row.figures.items():
            assert one.low <= one.high, name
    whole = found.find("some")
    assert whole is not None
    assert whole.count == sum(row.count for row in found.rows if row.kind == "response" and row is not whole)


def test_without_histograms_the_median_trial_stands_in(tmp_path: Path) -> None:
    trials = []
    for index, p99 in enumerate((10.0, 30.0, 20.0)):
        folder = tmp_path / str(index) / "driver"
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(
            f'{{"steady": {{"all": {{"ok": 5, "response_ms": {{"p99": {p99}}}}}, "transactions": {{}}}}}}'
        )
        trials.append(files.TrialFiles(trial=_bare(folder.parent), summary=files.read(_bare(folder.parent)).summary))
    row = latency.collect({"t": trials}).find("t")
    assert row is not None
    assert not row.merged
    assert row.figures["p99"] == latency.Figure(20.0, 10.0, 30.0)


def _bare(directory: Path) -> TrialRecord:
    from leadline.model.plan import PlannedTrial, Role, Treatment

    return TrialRecord(1, PlannedTrial(0, 0, 0, Role.BASELINE, Treatment.of({}), 1), "done", directory=directory)


def test_the_drivers_own_row_over_all_transactions_is_not_counted_twice(tmp_path: Path) -> None:
    (tmp_path / "driver").mkdir()
    head = "time_ns,second,phase,transaction,ok,failed,response_mean_ms,in_flight"
    rows = [
        f"{int(T0 * 1e9)},0,steady,{name},{ok},0,{ms},9" for name, ok, ms in (("a", 3, 1), ("b", 1, 5), ("all", 4, 2))
    ]
    (tmp_path / "driver" / "seconds.csv").write_text("\n".join([head, *rows]) + "\n")
    with_all = files.read(_bare(tmp_path))
    assert series._driver(with_all, "ok")["value"].to_list() == [4.0]  # type: ignore[index]
    (tmp_path / "driver" / "seconds.csv").write_text("\n".join([head, *rows[:2]]) + "\n")
    without = files.read(_bare(tmp_path))
    assert series._driver(without, "ok")["value"].to_list() == [4.0]  # type: ignore[index]
    assert series._driver(without, "response_mean_ms")["value"].to_list() == [2.0]  # type: ignore[index]
    assert series._driver(without, "in_flight")["value"].to_list() == [9.0]  # type: ignore[index]
    assert without.phases == Phases(T0, T0, T0 + 1, T0 + 1)


def test_compact_series_know_phases_and_panels(trial: TrialRecord) -> None:
    found = series.compact(files.read(trial))
    assert [row["phase"] for row in found["phases"]] == ["ramp-up", "warm-up cut", "steady", "ramp-down"]
    assert [(row["from"], row["to"]) for row in found["phases"]] == [(0, 8), (8, 12), (12, 38), (38, 40)]
    assert found["span"] == 40
    in_use, limit = found["panels"]["pool"]["tracks"][0][0], found["panels"]["pool"]["tracks"][0][-1]
    assert in_use["s"] == "jdbc/brokerage in use"
    assert set(limit["v"]) == {trial.planned.treatment[POOL]}
    assert all(-2 <= t <= 42 for t in in_use["t"])
    assert "paging" not in found["panels"]


def test_the_series_of_many_trials_together_stay_small(trial: TrialRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    found = files.read(trial)
    whole = series.of_trials([found])[trial.id]
    assert whole == series.compact(found)
    size = len(json.dumps(whole))
    monkeypatch.setattr(series, "BYTES", size // 2)
    small = series.of_trials([found])[trial.id]
    assert small["panels"].keys() == whole["panels"].keys()
    assert len(json.dumps(small)) < 0.7 * size


def test_long_series_are_thinned_and_peaks_survive() -> None:
    times, values = np.arange(1000.0), np.zeros(1000)
    values[637] = 90.0
    values[212] = -4.0
    _, mean = series.thin(times, values, "mean")
    short, most = series.thin(times, values, "most")
    assert len(short) == len(most) <= series.POINTS
    assert max(most) == 90
    assert sum(mean) / len(mean) == pytest.approx(0.086, rel=0.1)
    at, both = series.thin(times, values, "extremes")
    assert len(at) <= series.POINTS
    assert dict(zip(at, both, strict=True)) | {212.0: -4.0, 637.0: 90.0} == dict(zip(at, both, strict=True))


def test_a_pool_without_a_maximum_is_in_use_plus_free(tmp_path: Path) -> None:
    rows = [(int((T0 + s) * 1e9), m, "p", v) for s in range(4) for m, v in (("pool.in_use", 2.0), ("pool.free", 3.0))]
    frame = pl.DataFrame(rows, schema=["time_ns", "metric", "subject", "value"], orient="row")
    found = files.TrialFiles(_bare(tmp_path), series={"pools": frame})
    (use,) = observed.pools(found)
    assert use.limit == 5
    assert use.full_share == 0
    assert not use.starved
    assert "waiting callers were not recorded" in observed.pool_sentence(use)


def recorded(observer: str, rates: dict[str, float], where: Path) -> files.TrialFiles:
    subject = "host" if observer == "host" else "database"
    rows = [(int((T0 + s) * 1e9), metric, subject, value) for s in range(4) for metric, value in rates.items()]
    frame = pl.DataFrame(rows, schema=["time_ns", "metric", "subject", "value"], orient="row")
    return files.TrialFiles(_bare(where), series={observer: frame}, phases=Phases(T0 - 1, T0 - 1, T0 + 5, T0 + 5))


@pytest.mark.parametrize(
    ("commits", "reads"), [("xact_commit", "blks_read"), ("Com_commit", "Innodb_buffer_pool_reads")]
)
def test_the_database_has_a_panel_whichever_it_is(commits: str, reads: str, tmp_path: Path) -> None:
    found = recorded("database", {f"{commits}.per_s": 400.0, f"{reads}.per_s": 12.0, commits: 9e6}, tmp_path)
    tracks = series.compact(found)["panels"]["database"]["tracks"]
    assert [[line["s"] for line in lines] for lines in tracks] == [["commits"], ["read into its cache"], [], []]
    assert set(tracks[0][0]["v"]) == {400}
    said = observed.sentences(found)["database"]
    assert said == "Steady state: 400 commits a second, 12 blocks a second read into its cache."


def test_time_of_processes_of_low_priority_is_not_lost(tmp_path: Path) -> None:
    shares = {
        "cpu.user": 0.2,
        "cpu.nice": 0.45,
        "cpu.system": 0.3,
        "cpu.iowait": 0.0,
        "cpu.steal": 0.0,
        "cpu.idle": 0.05,
    }
    said = observed.sentences(recorded("host", shares, tmp_path))["cpu"]
    assert said == "Steady state: user 20 %, nice 45 %, system 30 %, iowait 0 %, idle 5 %."


def test_services_of_a_stack_file_have_columns_and_lines_of_their_own(tmp_path: Path) -> None:
    cpu = {"leadline": 0.1, "server": 0.5, "broker": 0.25, "driver": 0.4}
    rows = [(int((T0 + s) * 1e9), "cpu", role, used) for s in range(4) for role, used in cpu.items()]
    frame = pl.DataFrame(rows, schema=["time_ns", "metric", "subject", "value"], orient="row")
    phases = Phases(T0 - 1, T0 - 1, T0 + 5, T0 + 5)
    own = files.TrialFiles(_bare(tmp_path), series={"processes": frame}, phases=phases)
    columns = observed.columns([own])
    texts = {name: cell.text for (name, _), cell in zip(columns, observed.cells([own], columns), strict=True)}
    assert list(texts)[:4] == ["server CPU", "database CPU", "broker CPU", "driver CPU"]
    assert [texts[f"{role} CPU"] for role in ("server", "broker", "driver")] == ["0.50", "0.25", "0.40"]
    assert "broker 0.25" in observed.sentences(own)["processes"]
    (lines,) = series.compact(own)["panels"]["processes"]["tracks"]
    assert [line["s"] for line in lines] == ["server", "broker", "driver"]


def test_a_driver_that_is_not_sampled_counts_its_own_cpu(tmp_path: Path) -> None:
    own = files.TrialFiles(_bare(tmp_path), summary={"driver": {"cpu_share": 0.05}})
    assert [cell.text for cell in observed.cells([own])[:3]] == ["not recorded", "not recorded", "0.05"]


def test_a_wide_band_does_not_flatten_the_trials() -> None:
    values = [400.0, 500.0, 600.0]
    assert effects._domain(values, Interval(24.0, 8900.0, 0.95)) == [350.0, 650.0]
    assert effects._domain([1.0, 90.0], Interval(0.001, 9000.0, 0.95)) == [0.5, 112.25]
    narrow = Interval(450.0, 560.0, 0.95)
    assert effects._domain(values, narrow) is effects._domain([], narrow) is effects._domain(values, None)


def test_nothing_recorded_is_said_in_every_cell(tmp_path: Path) -> None:
    cells = observed.cells([files.TrialFiles(_bare(tmp_path))])
    assert len(cells) == len(observed.COLUMNS)
    assert {cell.text for cell in cells} == {"not recorded"}
    assert observed.sentences(files.TrialFiles(_bare(tmp_path))) == {}


def test_latencies_that_hang_on_unanswered_transactions_are_bounds(
    study: tuple[StudyRecord, StudyAnalysis], tmp_path: Path
) -> None:
    (tmp_path / "driver").mkdir()
    rows = [
        f"{int((T0 + second) * 1e9)},{second},steady,{name},50,5,1000" for second in range(3) for name in ("a", "all")
    ]
    head = "time_ns,second,phase,transaction,ok,failed,unanswered_from_ms"
    (tmp_path / "driver" / "seconds.csv").write_text("\n".join([head, *rows, ""]))
    values = [5_000_000] * 50 + [1_000_000_000] * 5
    write_log(tmp_path / "driver" / "response.hlog", [(float(second), "a", values) for second in range(3)], T0)
    trial = replace(study[0].trials[0], directory=tmp_path, phases=Phases(T0, T0, T0 + 3, T0 + 3))
    for row in latency.collect({"baseline": [files.TrialFiles(trial, phases=trial.phases)]}).rows:
        assert words.number(row.figures["p50"].value) == "5.00"
        assert words.number(row.figures["p99"].value).startswith(">= 1,0")
        assert words.number(row.figures["p99"].low).startswith(">= 1,0")
