"""Other generators: their own recorded output read into leadline-load's files, and what cannot be run."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import test_load_presets
from hdrh.histogram import HdrHistogram
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.load.generators import gatling, httperf, jmeter, k6, lines, oha, run, wrk
from leadline.load.generators.base import Findings, Job, Meaning, Sample, Totals, results_of
from leadline.load.generators.lab import GeneratorRun
from leadline.load.generators.run import (
    GENERATORS,
    Plan,
    Ran,
    find_generator,
    latency_of,
    plan_from,
    plan_text,
    run_generator,
    write_files,
)
from leadline.load.generators.run import main as run_as_a_process
from leadline.load.result import NOTHING, read_summary
from leadline.load.series import by_transaction, responses_between, steady_series
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.workload import Generator, Workload

DATA = Path(__file__).parents[2] / "data" / "generators"  # printed and written by the tools themselves
MEANING = Meaning("send", "open", "what it means")


def job(raw: Path, *options: str, script: str | None = None) -> Job:
    return Job("http://h:81/app", raw, 9.0, 7, script, options)


def taken(samples: Sequence[Sample], name: str) -> list[Sample]:
    return [sample for sample in samples if sample.name == name]


def test_httperf_as_it_prints(tmp_path: Path) -> None:
    (tmp_path / "printed.txt").write_text((DATA / "httperf.txt").read_text())
    found = httperf.GENERATOR.read(job(tmp_path, "--rate=20"))
    assert found.totals is not None
    assert (found.totals.ok, dict(found.totals.errors), found.totals.seconds) == (0, {"status_4xx": 40}, 1.008)
    assert found.totals.latency == NOTHING  # of replies that all failed
    assert "failed ones too" in found.totals.reason
    assert (found.meaning.model, found.meaning.measured_from) == ("open", "send")
    assert httperf.GENERATOR.read(job(tmp_path)).meaning.model == "closed"
    (tmp_path / "printed.txt").write_text((DATA / "httperf.txt").read_text().replace("2xx=0", "2xx=3"))
    some = httperf.GENERATOR.read(job(tmp_path)).totals
    assert some is not None
    assert (some.ok, some.latency.p99) == (3, None)
    assert some.latency.mean is not None
    (tmp_path / "printed.txt").write_text("httperf: no such host\n")
    with pytest.raises(LeadlineError, match="httperf left no results"):
        httperf.GENERATOR.read(job(tmp_path))


def test_wrk_by_its_own_summary(tmp_path: Path) -> None:
    (tmp_path / "wrk.json").write_text((DATA / "wrk.json").read_text())
    found = wrk.GENERATOR.read(job(tmp_path))
    assert found.totals is not None
    assert (found.totals.ok, found.totals.errors) == (88, {})
    assert (found.totals.latency.p50, found.totals.latency.p999) == (44.682, 86.47)
    assert found.totals.seconds == pytest.approx(2.013, abs=1e-3)
    assert "closed" in found.meaning.sentence

    def totals(**changed: int) -> Totals:
        broken = json.loads((DATA / "wrk.json").read_text()) | changed
        (tmp_path / "wrk.json").write_text(json.dumps(broken))
        again = wrk.GENERATOR.read(job(tmp_path)).totals
        assert again is not None
        return again

    again = totals(status=8, timeout=2, read=1)  # wrk counts what came too late as a request
    assert (again.ok, again.errors) == (78, {"status_bad": 8, "timeout": 2, "closed": 1})
    assert again.latency.p50 == 44.682
    assert "failed ones too" in again.reason
    for changed in ({"timeout": 88}, {"status": 88}, {"status": 50, "timeout": 60}):
        none = totals(**changed)
        assert (none.ok, sum(none.errors.values()), none.latency) == (0, 88, NOTHING)


def test_k6_row_by_row(tmp_path: Path) -> None:
    samples, dropped = k6.read_csv(DATA / "k6.csv")
    assert (len(samples), sum(not sample.error for sample in samples), dropped) == (16, 11, 0)
    assert {sample.error for sample in samples} == {"", "status_4xx"}
    assert all(sample.error == "" for sample in taken(samples, "good"))
    header, first, *_ = (DATA / "k6.csv").read_text().splitlines()
    row = dict(zip(header.split(","), first.split(","), strict=True))

    def kind(**changed: str) -> str:
        cells = {**row, "metric_name": "http_req_duration", "expected_response": "false", **changed}
        dropped = {**row, "metric_name": "dropped_iterations", "metric_value": "3"}
        text = "\n".join([header, *(",".join(one[name] for name in header.split(",")) for one in (cells, dropped))])
        (tmp_path / "k6.csv").write_text(text + "\n")
        read, lost = k6.read_csv(tmp_path / "k6.csv")
        assert lost == 3
        return read[0].error

    assert kind(status="0", error_code="1050") == "timeout"
    assert kind(status="0", error_code="1212") == "connect"
    assert kind(status="503", error_code="1503") == "status_5xx"
    assert kind(status="200", error_code="") == "check"
    unjudged = {"expected_response": ""}  # after setResponseCallback(null)
    assert kind(status="200", error_code="", **unjudged) == ""
    assert kind(status="500", error_code="1500", **unjudged) == "status_5xx"
    assert kind(status="0", error_code="1050", **unjudged) == "timeout"


def fake_inspect(place: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """A k6 whose only command is `inspect`."""
    (place / "k6").write_text("\n".join(["#!/bin/sh", *lines, ""]))
    (place / "k6").chmod(0o755)
    monkeypatch.setenv("PATH", str(place), prepend=os.pathsep)


def test_k6_is_asked_for_its_model_as_it_was_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scenario is open at a rate that the options give, for as long as the environment says."""
    lines = (
        'case "$*" in',
        '"inspect --execution-requirements --include-system-env-vars -e RATE=50 --config=c.json "*)',
        'test "$LEADLINE_URL $LEADLINE_SECONDS $LEADLINE_SEED" = "http://h:81/app 9 7" &&',
        """echo '{"scenarios": {"s": {"executor": "constant-arrival-rate"}}}';;""",
        """*) echo '{"scenarios": {"s": {"executor": "shared-iterations"}}}';;""",
        "esac",
    )
    fake_inspect(tmp_path, monkeypatch, *lines)
    rows = (DATA / "k6.csv").read_text().splitlines()
    dropped = dict.fromkeys(rows[0].split(","), "") | {"metric_name": "dropped_iterations", "metric_value": "3"}
    (tmp_path / "k6.csv").write_text("\n".join([*rows, ",".join(dropped.values()), ""]))
    script = tmp_path / "s.js"
    script.write_text("")

    def read(*options: str) -> tuple[str, int]:
        found = k6.GENERATOR.read(job(tmp_path, *options, script=str(script)))
        return found.meaning.model, found.dropped

    assert read("--tag", "x=y", "-e", "RATE=50", "--config=c.json") == ("open", 3)
    assert read() == ("closed", 0)  # iterations it had no time for are no arrivals
    assert read("-e", "RATE=50", "--config=c.json", "--duration", "3s") == ("closed", 0)
    fake_inspect(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(k6, "_INSPECT", 0.1)
    assert read() == ("unknown", 3)


def test_gatling_log_and_printed_totals(tmp_path: Path) -> None:
    version, samples = gatling.read_log(DATA / "gatling-3.11.log")
    assert version == "gatling 3.11.5"
    assert (len(taken(samples, "good")), len(taken(samples, "bad"))) == (16, 16)
    assert {sample.error for sample in taken(samples, "bad")} == {"status_4xx"}
    assert all(sample.response_ms >= 0 for sample in samples)
    totals = gatling.read_printed((DATA / "gatling-3.13.txt").read_text())
    assert (totals.ok, totals.errors, totals.seconds) == (16, {"failed": 16}, 2.0)
    assert (totals.latency.mean, totals.latency.p50, totals.latency.p99, totals.latency.max) == (51, 9, 333, 333)
    folder = tmp_path / "gatling" / "small-1"
    folder.mkdir(parents=True)
    (folder / "simulation.log").write_bytes(b"\0\0\0\0\0063.13.5")
    (tmp_path / "printed.txt").write_text("nothing\n")
    with pytest.raises(LeadlineError, match=r"what gatling left in .* is damaged: no block"):
        results_of(gatling.GENERATOR, job(tmp_path))


def test_jmeter_row_by_row(tmp_path: Path) -> None:
    samples = jmeter.read_jtl(DATA / "jmeter.jtl")
    assert (len(taken(samples, "good")), len(taken(samples, "bad"))) == (6, 6)
    assert {sample.error for sample in taken(samples, "bad")} == {"status_4xx"}
    assert {sample.error for sample in taken(samples, "good")} == {""}
    assert {sample.error for sample in taken(samples, "refused")} == {"connect"}


def test_oha_by_its_database_and_report(tmp_path: Path) -> None:
    """The file as oha 1.x creates it."""
    with sqlite3.connect(tmp_path / "oha.sqlite") as connection:
        connection.execute(
            "CREATE TABLE oha (url TEXT, start REAL, start_latency_correction REAL, end REAL, duration REAL,"
            " status INTEGER, len_bytes INTEGER, run INTEGER)"
        )
        rows = [("u", 0.5, 0.1, 0.7, 0.6, 200, 2, 1), ("u", 1.0, None, 1.25, 0.25, 500, 2, 1)]
        connection.executemany("INSERT INTO oha VALUES (?,?,?,?,?,?,?,?)", rows)
    connection.close()
    errors = {"aborted due to deadline": 3, "operation timed out": 2}
    (tmp_path / "oha.json").write_text(json.dumps({"summary": {"total": 2.0}, "errorDistribution": errors}))
    (tmp_path / "started").touch()
    started = (tmp_path / "started").stat().st_mtime
    found = oha.GENERATOR.read(job(tmp_path, "-q", "5", "--latency-correction"))
    assert (found.meaning.measured_from, found.meaning.model) == ("intended start", "open")
    first, second, *rest = found.samples
    assert (first.end - started, first.response_ms, first.service_ms) == pytest.approx((0.7, 600, 200))
    assert (second.response_ms, second.error) == (250, "status_5xx")
    assert [sample.error for sample in rest] == ["timeout", "timeout"]
    assert [sample.end - started for sample in rest] == pytest.approx([0.875, 1.625])  # even, from 0.5 s to 2 s
    assert "2 are counted as spread evenly" in found.missing
    assert oha.GENERATOR.read(job(tmp_path, "-q5")).meaning.measured_from == "send"
    assert oha.GENERATOR.read(job(tmp_path, "-c", "5")).meaning.model == "closed"


def test_oha_failures_are_in_the_steady_phase(tmp_path: Path) -> None:
    """10 good requests a second for 10 s, and 50 without an answer and a time; the ramp-down is not counted."""
    raw = tmp_path / "raw"
    raw.mkdir()
    with sqlite3.connect(raw / "oha.sqlite") as connection:
        connection.execute('CREATE TABLE oha (start REAL, "end" REAL, duration REAL, status INTEGER)')
        rows = [(n / 10, n / 10 + 0.05, 0.05, 200) for n in range(100)]
        connection.executemany("INSERT INTO oha VALUES (?,?,?,?)", rows)
    connection.close()
    (raw / "oha.json").write_text(json.dumps({"summary": {"total": 10.0}, "errorDistribution": {"timeout": 50}}))
    (raw / "started").touch()
    found = oha.GENERATOR.read(job(raw))
    write_files(tmp_path, job(raw), Ran("oha", 0.0, 10.0, 0, 0, 2, ramp_up=1.0, steady=7.0), found)
    result = read_summary(tmp_path)
    assert (result.all.ok, result.all.failed) == (70, 35)
    assert result.generator is not None
    assert "is not known" in result.generator.missing
    assert responses_between(tmp_path, 1, 8).errors == pytest.approx(1 / 3)
    assert result.littles_law.relative_error == pytest.approx(0, abs=0.02)


def test_oha_without_one_answer(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "oha.sqlite") as connection:
        connection.execute('CREATE TABLE oha (start REAL, "end" REAL, duration REAL, status INTEGER)')
    connection.close()
    errors = {"Connection refused (os error 111)": 40}
    (tmp_path / "oha.json").write_text(json.dumps({"summary": {"total": 4.0}, "errorDistribution": errors}))
    (tmp_path / "started").touch()
    write_files(tmp_path, job(tmp_path), Ran("oha", 0, 4, 0, 0, 2, 1.0, 2.0), oha.GENERATOR.read(job(tmp_path)))
    result = read_summary(tmp_path)
    assert (result.all.ok, result.all.failed) == (0, 20)
    assert result.errors == {"connect": 40}


def steady_load() -> list[Sample]:
    """10 requests a second for 6 s, each 100 ms from its send and 150 ms from when it was due; one in ten fails."""
    ends = [1000.1, *(1000.15 + n / 10 for n in range(1, 60))]
    kinds = ["timeout" if n % 10 == 0 else "" for n in range(60)]
    names = ["a b" if n % 2 else "c" for n in range(60)]
    return [Sample(name, end, 150.0, 100.0, kind) for name, end, kind in zip(names, ends, kinds, strict=True)]


def test_samples_become_the_files_of_the_driver(tmp_path: Path) -> None:
    ran = Ran("tool", 999.0, 1007.0, 0.5, 0.3, 2, ramp_up=2.0, steady=3.0)
    write_files(tmp_path, job(tmp_path), ran, Findings("tool 1", MEANING, steady_load(), dropped=1))
    result = read_summary(tmp_path)
    assert result.generator is not None
    assert (result.generator.sentence, result.generator.per_second) == ("what it means", True)
    assert result.phases.steady == (2.0, 5.0)
    assert result.started_unix_ns == 999_950_000_000
    assert (result.total["a_b"].ok, result.total["c"].failed) == (30, 6)
    assert result.errors == {"timeout": 6}
    assert (result.arrivals_planned, result.arrivals_actual, result.dropped) == (61, 60, 1)
    assert result.all.ok == 27
    assert result.all.per_second == pytest.approx(9)
    assert result.all.response_ms.p50 == pytest.approx(150)
    assert result.driver.cpu_share == pytest.approx(0.05)
    assert not result.driver.limit
    assert result.littles_law.concurrency_observed == pytest.approx(1.0, abs=0.04)
    assert result.littles_law.relative_error == pytest.approx(0, abs=0.04)
    window = responses_between(tmp_path, 2, 5)
    assert (window.ok, window.throughput) == (result.all.ok, pytest.approx(result.all.per_second))
    assert window.p99 == pytest.approx(150, rel=2e-3)
    assert window.errors == pytest.approx(0.1)
    assert set(by_transaction(tmp_path, 2, 5)) == {"a_b", "c"}
    rows = steady_series(tmp_path)
    assert [row.phase for row in rows[:5]] == ["ramp_up", "ramp_up", "steady", "steady", "steady"]
    assert sum(row.ok_per_s for row in rows[2:5]) == result.all.ok
    assert all(row.in_flight == 1 for row in rows[:5])


def test_a_million_requests_are_not_a_million_histograms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(run, "HdrHistogram", lambda *words: made.append(words) or HdrHistogram(*words))
    write_files(tmp_path, job(tmp_path), Ran("t", 999.0, 1007.0, 0, 0, 1), Findings("1", MEANING, steady_load()))
    assert len(made) == 2 * 2 * 6  # for each log, name and second


def test_names_are_the_same_in_all_files(tmp_path: Path) -> None:
    """A run of which every other request fails, by names as JMeter's labels and k6's URLs are."""
    names = ["HTTP Request", "a,\tb", "caf\u00e9", "all", "plain"]
    samples = [
        Sample(name, 1000 + n / 10, 50.0, 50.0, "timeout" if n % 2 else "") for name in names for n in range(1, 41)
    ]
    write_files(tmp_path, job(tmp_path), Ran("t", 1000, 1005, 0, 0, 1), Findings("1", MEANING, samples))
    result, window = read_summary(tmp_path), by_transaction(tmp_path, 0, 3)
    assert set(result.transactions) == set(result.total) == set(window)
    assert set(window) == {"HTTP_Request", "a__b", "caf\\xe9", "all_", "plain"}
    for name, part in window.items():
        assert (part.ok > 10, part.errors) == (True, pytest.approx(0.5, abs=0.02)), name
    assert responses_between(tmp_path, 0, 3).ok == sum(part.ok for part in window.values())


def test_a_busy_generator_or_one_that_drops_is_the_limit(tmp_path: Path) -> None:
    busy = Ran("tool", 999.0, 1007.0, 14.0, 1.0, 2)
    write_files(tmp_path, job(tmp_path), busy, Findings("tool 1", MEANING, steady_load(), dropped=9))
    evidence = read_summary(tmp_path).driver.evidence
    assert read_summary(tmp_path).driver.limit
    assert "94% of the 2 CPUs" in evidence[0]
    assert "dropped 9 of 69" in evidence[1]
    unknown = Meaning("send", "unknown", "what it means")
    write_files(tmp_path, job(tmp_path), busy, Findings("tool 1", unknown, steady_load(), dropped=9))
    assert "dropped 9 of 69" in read_summary(tmp_path).driver.evidence[1]


def test_a_run_that_is_too_short_or_empty_is_refused(tmp_path: Path) -> None:
    long = Ran("tool", 999.0, 1007.0, 0, 0, 2, 2.0, 10.0)
    with pytest.raises(LeadlineError, match=r"sent requests for 6\.\d s, but ramp-up and steady phase last 12 s"):
        write_files(tmp_path, job(tmp_path), long, Findings("1", MEANING, steady_load()))
    with pytest.raises(LeadlineError, match="tool made no request"):
        write_files(tmp_path, job(tmp_path), Ran("tool", 0, 1, 0, 0, 1), Findings("1", MEANING))
    totals = Totals("request", 2.0, 5, {"timeout": 1}, latency_of([]), "only totals")
    with pytest.raises(LeadlineError, match="only totals; a steady phase cannot be cut out"):
        write_files(tmp_path, job(tmp_path), Ran("t", 0, 1, 0, 0, 1, 1.0, 1.0), Findings("1", MEANING, totals=totals))
    with pytest.raises(LeadlineError, match="only totals; a ramp-up cannot be cut out"):
        write_files(tmp_path, job(tmp_path), Ran("t", 0, 1, 0, 0, 1, 1.0), Findings("1", MEANING, totals=totals))
    assert not (tmp_path / "summary.json").exists()
    write_files(tmp_path, job(tmp_path), Ran("t", 0, 1, 0, 0, 1), Findings("1", MEANING, totals=totals))
    result = read_summary(tmp_path)
    assert (result.all.per_second, result.all.failed, result.all.response_ms.p99) == (2.5, 1, None)
    assert result.generator is not None
    assert result.generator.missing == "only totals"


@pytest.fixture
def fake_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of these names that do nothing."""
    folder = tmp_path / "fake-tools"
    folder.mkdir()
    for name in (*GENERATORS, "gatling.sh"):
        (folder / name).write_text("#!/bin/sh\nexit 3\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.usefixtures("fake_tools")
def test_command_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "s.x"
    script.write_text("")
    argv = list(wrk.GENERATOR.command(job(tmp_path, "-c5", "--", "x", script=str(script))).argv)
    assert argv[1:4] == ["-d", "9s", "-c5"]
    assert argv[-3:] == ["http://h:81/app", "--", "x"]
    assert list(wrk.GENERATOR.command(job(tmp_path, "-d3s", "${url}/x")).argv)[1:3] == ["-d3s", "http://h:81/app/x"]
    argv = list(httperf.GENERATOR.command(job(tmp_path, "--rate", "5")).argv)
    assert argv[1:] == ["--rate", "5", "--server", "h", "--port", "81", "--uri", "/app"]
    argv = list(oha.GENERATOR.command(job(tmp_path, "-c", "4")).argv)
    assert argv[-5:] == ["-z", "9s", "-c", "4", "http://h:81/app"]
    assert "-z" not in oha.GENERATOR.command(job(tmp_path, "-n", "4")).argv
    command = k6.GENERATOR.command(job(tmp_path, "--vus", "2", script=str(script)))
    assert list(command.argv)[-3:] == ["--vus", "2", str(script)]
    argv = list(jmeter.GENERATOR.command(job(tmp_path, "-Jx=${seconds}", script=str(script))).argv)
    assert {"-Jleadline.host=h", "-Jleadline.port=81", "-Jx=9"} <= set(argv)
    command = gatling.GENERATOR.command(job(tmp_path, script="a.B"))
    assert list(command.argv)[1:3] == ["-s", "a.B"]
    monkeypatch.setenv("JAVA_OPTS", "-Xmx1g -Dx=y")
    theirs = gatling.GENERATOR.command(job(tmp_path, script="a.B")).env["JAVA_OPTS"]
    assert theirs.startswith("-Xmx1g -Dx=y -Dleadline.url=http://h:81/app ")


def test_placeholders_are_filled_in_or_refused(tmp_path: Path) -> None:
    known = job(tmp_path, "${scheme}://${host}:${port}${path}", "${url}", "-t${seconds}", "s${seed}", "a $${b} $c")
    assert known.words == ["http://h:81/app", "http://h:81/app", "-t9", "s7", "a ${b} $c"]
    assert known.names_server
    bare = Job("https://h", tmp_path, 1.0, 1, None, ("${port}", "${path}"))
    assert (bare.words, bare.names_server) == (["443", "/"], False)
    inside = Job("http://h/${seed}", tmp_path, 1.0, 1, None, ("${url}",))
    assert inside.words == ["http://h/${seed}"]  # what is filled in is not read again
    for word, hint in (
        ("-Jport=${prot}", r"unknown placeholder \$\{prot\}; did you mean \$\{port\}\?"),
        ("${xyzzy}", r"there are \$\{url\}, \$\{scheme\}"),
        ("${}", r"unknown placeholder \$\{\}"),
        ("${port", r"unknown placeholder \$\{port"),
    ):
        with pytest.raises(UsageError, match=hint):
            _ = job(tmp_path, word).words


def test_options_that_look_like_ours_go_to_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool, got = tmp_path / "jmeter", tmp_path / "out/raw/got"  # stands for the tool, which runs as a user of its own
    tool.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {got}\nexit 3\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    words = ["load", __file__, "--generator", "jmeter", "--url", "http://h", "--out", str(tmp_path / "out")]
    for option in ("-Jhost=127.0.0.1", "-h", "--json"):
        done = CliRunner().invoke(app, [*words, "--options", option, "--replace"])
        assert "ended with code 3" in str(done.exception), done.output
        assert got.read_text().split()[-len(option.split()) :] == option.split()
    done = CliRunner().invoke(app, ["load", "brokerage-json", "--url", "http://h", "--options", "-x"])
    assert "--options belongs to --generator" in str(done.exception)
    done = CliRunner().invoke(app, ["load", "brokerage-json", "--url", "http://h", "--find-knee"])
    assert "--find-knee is gone: leadline knee searches" in str(done.exception)


def test_a_run_in_which_nothing_succeeded_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {"requests": 8, "duration_us": 1e6, "connect": 0, "read": 0, "write": 0, "status": 8, "timeout": 0}
    figures |= dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "p999", "max"), 1000)
    tool = tmp_path / "wrk"  # stands for the tool

    def place(status: int) -> None:
        result = json.dumps(figures | {"status": status})
        tool.write_text(f"#!/bin/sh\necho '{result}' > $LEADLINE_WRK_RESULT\n")
        tool.chmod(0o755)

    place(8)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    words = ["load", "--generator", "wrk", "--url", "http://h", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert done.stdout.startswith("failed: no transaction succeeded: all 8 failed (status_bad 8)")
    verdict = read_summary(tmp_path / "out").verdict
    assert verdict is not None
    assert not verdict.passed
    place(1)
    assert CliRunner().invoke(app, [*words, "--replace"]).exit_code == 1  # one of eight
    done = CliRunner().invoke(app, [*words, "--replace", "--limit-errors", "20%"])
    assert (done.exit_code, done.stdout.split(":")[0]) == (0, "passed")
    plan = tmp_path / "plan.json"
    place(8)
    run = Plan("wrk", Job("http://h", tmp_path / "trial" / "raw", 1.0), tmp_path / "trial")
    plan.write_text(plan_text(run))
    monkeypatch.setattr("sys.argv", ["run", str(plan)])
    assert run_as_a_process() == 1


def test_a_program_that_prints_lines(tmp_path: Path) -> None:
    script = tmp_path / "load.py"
    script.write_text(
        "import json, os, sys, time\nprint('a word', file=sys.stderr)\nprint()\nnow = time.time()\n"
        "for at in range(30):\n"
        "    row = {'start': now + at / 10, 'duration': 0.02, 'type': 'publish', 'due': now + at / 10 - 0.01}\n"
        "    print(json.dumps(row | ({'outcome': 'refused'} if at == 7 else {})))\n"
        "print(json.dumps({'start': now, 'duration': 0.5, 'type': sys.argv[1]}))\n"
    )
    options = ("port-${port}",)
    plan = Plan(
        "lines", replace(job(tmp_path / "raw"), options=options, script=str(script), program="python3"), tmp_path
    )
    file = tmp_path / "plan.json"
    file.write_text(plan_text(plan))
    run_generator(plan_from(file.read_text()))
    summary = read_summary(tmp_path)
    assert {name: (total.ok, total.failed) for name, total in summary.total.items()} == {
        "publish": (29, 1),
        "port-81": (1, 0),
    }
    assert summary.errors == {"refused": 1}
    steady = json.loads((tmp_path / "summary.json").read_text())["steady"]
    assert steady["transactions"]["publish"]["response_ms"]["p50"] == pytest.approx(30, rel=0.02)


@pytest.mark.parametrize(
    ("dues", "measured_from"),
    [((None, None), "send"), ((4e9 + 0.1, 4e9 + 0.2), "intended start"), ((4e9, None), "send")],
)
def test_lines_are_measured_from_their_due_times_where_all_say_them(
    tmp_path: Path, dues: tuple[float | None, float | None], measured_from: str
) -> None:
    (tmp_path / "started").touch()
    rows = [
        {"start": 4e9 + 0.1 * at, "duration": 0.1 * at} | ({"due": due} if due else {})
        for at, due in enumerate(dues, 1)
    ]
    (tmp_path / "lines.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    findings = results_of(lines.GENERATOR, job(tmp_path))
    assert findings.meaning.measured_from == measured_from
    if None in dues[:1]:
        assert [sample.response_ms for sample in findings.samples] == [sample.service_ms for sample in findings.samples]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("no JSON", ":2"),
        ("[1]", "not an object"),
        ('{"start": 1.5, "duration": 1}', ":2 is damaged: start is 1.5, not between"),
        ('{"start": 4e9}', "'duration' is not there"),
        ('{"start": 4e9, "duration": "fast"}', "duration is 'fast'"),
        ('{"start": 4e9, "duration": 1, "outcom": "ok"}', "did you mean outcome"),
        ('{"start": 4e9, "duration": 1, "due": 5e9}', "due is"),
        ('{"start": 4e9, "duration": 1, "outcome": true}', "outcome is true, not a word"),
    ],
)
def test_a_wrong_line_is_told_with_its_number(tmp_path: Path, line: str, problem: str) -> None:
    (tmp_path / "started").touch()
    (tmp_path / "lines.jsonl").write_text(f'{{"start": 4e9, "duration": 1}}\n{line}\n')
    with pytest.raises(LeadlineError) as caught:
        results_of(lines.GENERATOR, job(tmp_path))
    assert problem in str(caught.value)


@pytest.mark.usefixtures("fake_tools")
@pytest.mark.parametrize(
    ("name", "script", "options", "message"),
    [
        ("k6", None, (), "k6 runs a script of its own"),
        ("k6", "no-such.js", (), "no file no-such.js"),
        ("wrk", None, ("-s", "x.lua"), "name the Lua script as the script"),
        ("httperf", "x", (), "httperf has no script"),
        ("oha", "x", (), "oha has no script"),
        ("lines", None, (), "name by `program`"),
        ("gatling", None, (), "name its class"),
        ("gatling", "A", ("-rf", "x"), "-rf is taken"),
        ("jmeter", __file__, ("-l", "x"), "-l is taken"),
        ("k6", __file__, ("--out", "x"), "--out is taken"),
    ],
)
def test_what_cannot_be_run_is_named(name: str, script: str, options: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_generator(name).check(Job("http://h", Path(), 1.0, 1, script, options))


def test_names_and_missing_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="did you mean gatling"):
        find_generator("gatlin")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LeadlineError, match="oha is not on the PATH; cargo install oha"):
        oha.GENERATOR.check(job(tmp_path))


@pytest.mark.usefixtures("fake_tools")
@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ("generator: k7", "s.yaml:5: workload.generator.name is 'k7', not one of wrk"),
        ("generator: wrk", "s.yaml:5: wrk keeps no time of single requests"),
        ("generator: { name: k6, script: none.js }", "s.yaml:5: no file none.js"),
        ("generator: { name: k6, scrip: none.js }", "s.yaml:5: unknown key 'scrip'; did you mean script?"),
    ],
)
def test_the_study_file_names_the_line(workload: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        test_load_presets.planned(workload)
    assert message in str(raised.value)


@pytest.mark.usefixtures("fake_tools")
def test_a_trial_starts_the_tool_through_a_parent(tmp_path: Path) -> None:
    script = tmp_path / "s.js"
    script.write_text("")
    load = test_load_presets.planned(f"generator: {{ name: k6, script: {script}, options: --vus 3 }}")
    assert load.generator == Generator(name="k6", script=str(script), options=["--vus", "3"])
    assert Workload.model_validate(load.model_dump()) == load
    run = GeneratorRun(load.generator, load, "http://h", 5, tmp_path / "out")
    spec = run.spec(tmp_path / "log")
    plan = plan_from(Path(spec.argv[-1]).read_text())
    assert (plan.generator, plan.ramp_up, plan.steady) == ("k6", 10.0, 30.0)
    assert (plan.job.seconds, plan.job.seed, list(plan.job.options)) == (42.0, 5, ["--vus", "3"])
    assert plan.job.raw == tmp_path / "out" / "raw"


@pytest.mark.usefixtures("fake_tools")
def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    def said(*words: str) -> str:
        done = CliRunner().invoke(app, ["load", *words])
        return str(done.exception) if done.exception else done.output

    out = ["--out", str(tmp_path / "out")]
    assert "--url is missing" in said("--generator", "wrk", *out)
    assert "did you mean --options" in said("--generator", "wrk", "--option", "x", *out)
    for tool, script in (("httperf", None), ("jmeter", __file__)):
        start = [*([script] if script else []), "--generator", tool, *out, "--url"]
        assert "--url http://h:99999: Port out of range" in said(*start, "http://h:99999")
        assert "--url http://[::1: Invalid IPv6 URL" in said(*start, "http://[::1")
    a_file = tmp_path / "file"
    a_file.write_text("mine")
    words = ("--generator", "wrk", "--url", "http://h", "--out")
    assert f"{a_file} is no directory" in said(*words, str(a_file))
    assert f"{a_file} is no directory" in said(*words, str(a_file), "--replace")
    assert "File name too long" in said(*words, str(tmp_path / ("o" * 300)))
    assert a_file.read_text() == "mine"
    assert "another tool runs here and alone" in said("--generator", "wrk", "--drivers", "local", "--url", "http://h")
    for tool in ("wrk", "httperf"):
        words = ("--generator", tool, "--url", "http://h", *out)
        assert f"{tool} keeps no time of single requests" in said(*words, "--ramp-up", "5s")
        assert "ended with code 3" in said(*words, "--ramp-up", "0s")
    assert "--replace takes no value" in said("--generator", "wrk", "--replace=x", *out)
    for _ in range(2):  # what measured nothing is not in the way
        assert "wrk ended with code 3: it printed nothing" in said("--generator", "wrk", "--url", "http://h", *out)


def test_jmeter_says_what_a_plan_with_jsr223_needs(tmp_path: Path) -> None:
    plan, program = tmp_path / "plan.jmx", tmp_path / "jmeter" / "bin" / "jmeter"
    plan.write_text('<jmeterTestPlan><JSR223Sampler testclass="JSR223Sampler"/></jmeterTestPlan>')
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    extensions = tmp_path / "jmeter" / "lib" / "ext"
    extensions.mkdir(parents=True)
    (extensions.parent / "groovy-3.0.20.jar").touch()
    asked = replace(job(tmp_path, script=str(plan)), program=str(program))
    with pytest.raises(UsageError, match="lacks ApacheJMeter_java in lib/ext, groovy-jsr223 in lib: take the whole"):
        jmeter.GENERATOR.check(asked)
    (extensions / "ApacheJMeter_java.jar").touch()
    (extensions.parent / "groovy-jsr223-3.0.20.jar").touch()
    assert jmeter.GENERATOR.check(asked) == str(program)
