"""Results of other tools: read in their own form, compared as a study's, refused with the place."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.figures.tools import results_of
from leadline.model.errors import UsageError

RANDOM = np.random.default_rng(3)


def _analyse(*arguments: str | Path, code: int = 0) -> Any:
    done = CliRunner().invoke(app, ["analyse", *map(str, arguments), "--json"])
    assert done.exit_code == code, f"{done.output}{done.exception}"
    return json.loads(done.output)


def _hyperfine(**means: float) -> dict[str, Any]:
    results = [
        {"command": name, "times": RANDOM.normal(mean, 0.01 * mean, 9).tolist(), "exit_codes": [0] * 9}
        for name, mean in means.items()
    ]
    return {"results": results}


def _k6(p95: float) -> dict[str, Any]:
    duration = {"avg": 10.0, "med": 9.0, "p(95)": p95}
    return {"metrics": {"http_req_duration": duration, "http_reqs": {"rate": 500.0}, "http_req_failed": {"value": 0.2}}}


def _written(folder: Path, **documents: object) -> list[Path]:
    for name, document in documents.items():
        text = document if isinstance(document, str) else json.dumps(document)
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in documents]


def test_levels_of_a_file_are_compared_with_the_first(tmp_path: Path) -> None:
    (file,) = _written(tmp_path, h=_hyperfine(old=1.0, new=1.1))
    (row,) = _analyse(file)["responses"][0]["levels"]
    assert (row["level"], row["verdict"]) == ("new", "worse")
    assert row["interval"][0] < 10 < row["interval"][1]
    assert _analyse(file, "--baseline", "new")["responses"][0]["levels"][0]["verdict"] == "better"
    assert _analyse(file, "--fail", "wall>5%", code=1)["conditions"][0]["state"] == "broken"


def test_failed_runs_are_no_times(tmp_path: Path) -> None:
    document = _hyperfine(old=1.0, new=1.0)
    document["results"][1] |= {"times": [1.0] * 7 + [0.01] * 2, "exit_codes": [0] * 7 + [1, None]}
    (file,) = _written(tmp_path, h=document)
    analysed = _analyse(file)
    assert analysed["runs"] == {"old": 9, "new": 7}
    assert "2 of 9 runs of new failed (exit code 1)." in analysed["notes"]
    assert abs(analysed["responses"][0]["levels"][0]["percent"]) < 2


def test_a_run_without_a_number_has_failed(tmp_path: Path) -> None:
    rows = [(kind, f"{ms}", f"{ms / 2}", "") for ms in (10.0, 10.1, 10.2, 9.9) for kind in ("old", "new")]
    rows += [("new", "nan", "", ""), ("old", "0.1", "0.1", "timeout"), ("new", "9.8", "", "")]
    text = "\n".join(",".join(row) for row in [("kind", "ms", "cpu", "failure"), *rows])
    analysed = _analyse(*_written(tmp_path, t=text))
    assert analysed["runs"] == {"old": 4, "new": 5}
    assert {"1 of 6 runs of new failed (no ms, cpu in line 10).", "1 of 5 runs of old failed (timeout)."} <= set(
        analysed["notes"]
    )
    assert any(note.endswith("t: no cpu in line 12.") for note in analysed["notes"])
    assert [response["response"] for response in analysed["responses"]] == ["ms", "cpu"]


def test_an_outlier_is_told_with_what_ranks_say(tmp_path: Path) -> None:
    document = _hyperfine(old=1.0, new=1.1)
    document["results"][0]["times"][0] = 15.0
    (file,) = _written(tmp_path, h=document)
    analysed = _analyse(file)
    assert analysed["responses"][0]["levels"][0]["verdict"] == "undetermined"
    assert any("wall: far from the others: 1 of old (15); by ranks" in note for note in analysed["notes"])


def test_a_file_of_a_load_generator_is_a_run(tmp_path: Path) -> None:
    before = _written(tmp_path, **{f"a{at}": _k6(100 + at) for at in range(4)})
    after = _written(tmp_path, **{f"b{at}": _k6(80 + at) for at in range(4)})
    analysed = _analyse(*before, "--", *after)
    assert [one["response"] for one in analysed["responses"]] == ["p95"]
    assert analysed["responses"][0]["levels"][0]["verdict"] == "better"
    assert _analyse(before[0], "--", after[0], code=4)["responses"][0]["levels"][0]["interval"] is None


def test_the_rate_of_a_load_counts_what_succeeded() -> None:
    (run,) = results_of(json.dumps(_k6(1.0)), "k6").runs
    assert run.responses == pytest.approx({"mean": 10, "p50": 9, "p95": 1, "errors": 0.2, "throughput": 400})
    good = {"http_req_duration{expected_response:true}": {"avg": 12.0}}
    (run,) = results_of(json.dumps({"metrics": _k6(1.0)["metrics"] | good}), "k6").runs
    assert run.responses == pytest.approx({"mean": 12, "errors": 0.2, "throughput": 400})
    oha = {"summary": {"average": 0.01, "successRate": 0.5, "requestsPerSec": 10}, "latencyPercentiles": {"p99": 0.2}}
    (run,) = results_of(json.dumps(oha | {"statusCodeDistribution": {"200": 4, "503": 1}}), "oha").runs
    assert run.responses == pytest.approx({"mean": 10, "p99": 200, "errors": 0.6, "throughput": 4})
    wrk = "  100 requests in 10.0s, 1MB read\n  Socket errors: connect 0, read 0, write 0, timeout 25\n"
    (run,) = results_of(f"{wrk}  Non-2xx or 3xx responses: 20\nRequests/sec:  10.0\n", "wrk").runs
    assert run.responses == pytest.approx({"errors": 1 - 80 / 125, "throughput": 8.0})
    jmeter = "timeStamp,elapsed,label,success\n1000,100,a,true\n1500,500,a,false\n2900,100,a,true\n"
    (run,) = results_of(jmeter, "jtl").runs
    assert (run.responses["p50"], run.responses["throughput"]) == (100, 1.0)
    (run,) = results_of("timeStamp,elapsed,label,success\n1000,100,a,false\n", "jtl").runs
    assert (run.failure, run.responses) == ("no sample succeeded", {})


def test_no_benchmark_of_fewer_forks_is_lost(tmp_path: Path) -> None:
    def jmh(score: float) -> object:
        forks = {"a": 4, "b": 2}
        return [
            {
                "benchmark": f"org.x.P.{name}",
                "mode": "avgt",
                "primaryMetric": {"scoreUnit": "us/op", "rawData": RANDOM.normal(score, 0.1, (number, 3)).tolist()},
            }
            for name, number in forks.items()
        ]

    before, after = _written(tmp_path, a=jmh(10), b=jmh(12))
    assert [one["response"] for one in _analyse(before, "--", after)["responses"]] == ["P.a", "P.b"]


def test_the_order_of_a_file_of_ours_is_kept(tmp_path: Path) -> None:
    rows = [(block, at, 1 + block + 0.1 * at) for block in range(6) for at in range(2)]
    runs = [{"command": at, "block": block, "started": block, "figures": {"wall": wall}} for block, at, wall in rows]
    results = [{"command": name, "times": [1.0]} for name in ("a", "b")]
    (file,) = _written(tmp_path, x={"results": results, "leadline": {"order": "random", "seed": 1, "runs": runs}})
    analysed = _analyse(file)
    assert not any("order" in note for note in analysed["notes"])
    assert analysed["responses"][0]["levels"][0]["verdict"] == "worse"


def test_other_forms_are_read() -> None:
    wrk = "  Latency   1.50ms  2ms 10ms 90%\n     50.000%  900us\n     99%    1.20s\nRequests/sec:  123.4\n"
    (run,) = results_of(wrk, "wrk").runs
    assert run.responses == pytest.approx({"p50": 0.9, "p99": 1200, "mean": 1.5}), "no rate without the requests"
    gatling = {"meanResponseTime": {"ok": 5}, "percentiles4": {"ok": "-"}, "meanNumberOfRequestsPerSecond": {"ok": 9}}
    (run,) = results_of(json.dumps({"stats": {**gatling, "numberOfRequests": {"total": 10, "ko": 1}}}), "g").runs
    assert run.responses == pytest.approx({"mean": 5, "throughput": 9, "errors": 0.1})
    metric = {"scoreUnit": "ops/ms", "rawData": [[4.0, 6.0], [5.0]]}
    jmh = [{"benchmark": "org.x.Parser.parse", "mode": "thrpt", "primaryMetric": metric}]
    assert [run.responses["Parser.parse"] for run in results_of(json.dumps(jmh), "jmh").runs] == pytest.approx(
        [2e-4] * 2
    )


def test_a_drift_goes_with_the_blocks_of_a_table(tmp_path: Path) -> None:
    drift = [(at, kind, 100 - 5 * at - 2 * (kind == "new") + noise) for at, kind, noise in (
        (at, kind, RANDOM.normal(0, 0.2)) for at in range(9) for kind in ("old", "new")
    )]  # fmt: skip
    frame = pl.DataFrame({name: [row[at] for row in drift] for at, name in enumerate(("block", "build", "throughput"))})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    for file in ("t.csv", "t.parquet"):
        analysed = _analyse(tmp_path / file)
        (row,) = analysed["responses"][0]["levels"]
        assert -4 < row["interval"][0] < row["interval"][1] < -1.5
        assert any("throughput by build, within block" in note for note in analysed["notes"])


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("[1, 2]", [], "unknown JSON format"),
        ("{", [], "not JSON"),
        ("[[]]", [], "unknown JSON format"),
        ('{"results": [{"command": "a", "times": [0.0]}]}', [], "is 0 s, not more than 0"),
        ('{"results": [{}]}', [], "results[0].command is missing"),
        ('{"metrics": 5}', [], "unknown JSON format"),
        ('{"metrics": {"http_req_duration": 5}}', [], "as a result of k6 it lacks"),
        ('[{"primaryMetric": {}}]', [], "as a result of JMH it lacks"),
        ("a,b\n1,2,3\n", [], "line 2: 3 cells where the head has 2"),
        ("kind,ms\na,1\nb,x\n", ["--response", "ms"], "line 3: ms is 'x', not a number"),
        ("kind,ms\na,1\nb,2\n", ["--by", "kinds"], "no column 'kinds'; did you mean kind?"),
        ("kind,ms\na,1\na,2\n", [], "all runs are alike ('a')"),
        ("kind,ms\na,1\nb,2\n", ["--baseline", "c"], "no such level"),
        ("kind,ms\na,1\nb,2\nb,3\n", ["--paired"], "make no pairs"),
        ("", [], "no column of numbers"),
        ("kind,ms\na,1\nb,2 ms\nb,3\n", [], "no column of numbers: ms is '2 ms' in line 3"),
    ],
)
def test_what_cannot_be_compared_is_refused(content: str, options: list[str], message: str, tmp_path: Path) -> None:
    (file,) = _written(tmp_path, x=content)
    done = CliRunner().invoke(app, ["analyse", str(file), *options])
    assert isinstance(done.exception, UsageError), done.output
    assert message in str(done.exception)


def test_files_of_two_tools_and_one_file_twice_are_refused(tmp_path: Path) -> None:
    files = _written(tmp_path, a=_hyperfine(x=1.0), b=_k6(1.0), c=_hyperfine(x=1.0, y=2.0))
    for arguments, message in (
        ([files[0], "--", files[1]], "results of one tool are compared; these are of hyperfine, k6"),
        ([files[0], "--", files[0]], "is given twice"),
        ([files[0], "--", files[2]], "holds 2 levels"),
    ):
        done = CliRunner().invoke(app, ["analyse", *map(str, arguments)])
        assert message in str(done.exception)
