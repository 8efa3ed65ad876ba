"""Every command as a user runs it, on a real study: exit codes, JSON, messages."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from conftest import STUDY, RealStudy, leadline

from leadline.store.lab import Store
from leadline.trial.lifecycle import STEPS

pytestmark = pytest.mark.stack

POOL = "server.datasource.max_connections"


def test_run_prints_one_document_with_everything(real_study: RealStudy) -> None:
    found = real_study.document
    assert found["format"] == "leadline-study/1"
    assert found["run"]["complete"] is True
    assert Path(found["run"]["report"]).stat().st_size > 100_000
    assert {"version.tomcat", "version.postgres", "version.brokerage", "host.kernel.release"} <= set(
        found["environment"]
    )
    for trial in found["trials"]:
        assert trial["state"] == "done", trial["failure_message"]
        assert tuple(step["name"] for step in trial["steps"]) == STEPS
        assert all(audit["passed"] for audit in trial["audits"])
        assert len(trial["audits"]) >= 8
        assert all(reading["matches"] for reading in trial["readings"])
        assert set(found["study"]["responses"]) <= set(trial["responses"])


def test_no_file_stays_a_services(real_study: RealStudy) -> None:
    places = [path for place in ("lab", "state") for path in (real_study.directory / place).rglob("*")]
    assert len(places) > 100
    assert [str(path) for path in places if path.lstat().st_uid != os.geteuid()] == []


def test_a_pool_of_one_is_found_with_its_cause(real_study: RealStudy) -> None:
    effects = {
        one["response"]: next(e for e in one["effects"] if e["level"] == 1)
        for one in real_study.document["analysis"]["responses"]
    }
    assert effects["throughput"]["verdict"] == "worse", effects["throughput"]  # a neighbour may drown p50
    assert effects["throughput"]["simultaneous"]["high"] < 0
    assert effects["p50"]["verdict"] in ("worse", "undetermined"), effects["p50"]
    waiting = {level: _pool(real_study, level, "pool.waiting") for level in (1, 40)}
    in_use = {level: _pool(real_study, level, "pool.in_use") for level in (1, 40)}
    assert in_use[1] <= 1
    assert waiting[1] > 5 * max(waiting[40], 0.5), "with one connection requests queue for it"
    page = Path(real_study.document["run"]["report"]).read_text()
    assert "was starved: the only connection was in use in" in page


def test_the_pool_of_one_is_advised_against_and_the_study_confirms_it(real_study: RealStudy) -> None:
    found = real_study.json("advise", "mini", "--finding", "server.pool", "--write", "pool.yaml")
    (one,) = found["findings"]
    assert (one["knob"], one["now"], one["seen"], one["trials"]) == (POOL, 1, 3, 3)
    assert one["then"] > 1
    figures = {each["name"]: each["median"] for each in one["evidence"]}
    assert figures["full"] > 50
    assert figures["waiting"] > 2
    assert one["status"] == "confirmed", one["checks"]
    assert one["checks"][0]["level"] == 40
    plan = real_study.json("run", "pool.yaml", "--dry-run")
    assert {trial["levels"][POOL] for trial in plan["trials"]} == {1, one["then"]}
    text = real_study.run("advise", "mini").stdout
    assert "Confirmed by mini@1: server.datasource.max_connections 40 instead of 1 changes" in text
    assert "the only connection was in use in" in text.lower()
    statements = next(
        each for each in real_study.json("advise", "mini")["findings"] if str(each["knob"]).endswith("_cache")
    )
    assert (statements["now"], statements["seen"]) == (0, statements["trials"]), (
        "Tomcat keeps no statements unless told"
    )


def _pool(study: RealStudy, level: int, metric: str) -> float:
    values = []
    for trial in study.trials(level):
        table = pl.read_parquet(Path(trial["directory"]) / "series" / "pools.parquet")
        begin, end = (int(trial["phases"][key] * 1e9) for key in ("steady_from", "steady_until"))
        rows = table.filter((pl.col("metric") == metric) & pl.col("time_ns").is_between(begin, end))
        values.append(rows["value"].to_numpy().mean())
    return float(sum(values) / len(values))


def test_series_of_every_layer_are_stored(real_study: RealStudy) -> None:
    for trial in real_study.document["trials"]:
        series = Path(trial["directory"]) / "series"
        for name, metric in (
            ("host", "cpu.user"),
            ("host", "memory.dirty"),
            ("host", "tcp.retransmits"),
            ("processes", "cpu.seconds"),
            ("gc", "gc.pause"),
            ("pools", "pool.in_use"),
            ("database", "xact_commit"),
        ):
            table = pl.read_parquet(series / f"{name}.parquet")
            assert table.columns == ["time_ns", "metric", "subject", "value"]
            assert table.filter(pl.col("metric") == metric).height > 0, f"{name} has no {metric}"


def test_a_finished_study_is_shown_again(real_study: RealStudy) -> None:
    shown = real_study.json("show", "mini")
    assert shown["analysis"] == real_study.document["analysis"]
    text = real_study.run("show", "mini")
    assert "Does a pool of one connection hurt?" in text.stdout
    assert f"{POOL} = 1" in text.stdout


def test_report_and_export_write_files(real_study: RealStudy) -> None:
    page = real_study.json("report", "mini", "--out", "page.html")
    assert page["bytes"] == (real_study.directory / "page.html").stat().st_size
    files = [
        real_study.directory / name for name in real_study.json("export", "mini", "--format", "csv,png,json")["files"]
    ]
    assert {path.suffix for path in files} == {".csv", ".png", ".json"}
    assert all(path.stat().st_size for path in files)
    for path in files:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")


def test_lists(real_study: RealStudy) -> None:
    assert [row["study"] for row in real_study.json("lab", "list")["studies"]] == ["mini"]
    assert "quickstart" in real_study.json("studies")
    assert real_study.json("studies", "--schema")["title"] == "leadline study"
    knobs = {knob["name"]: knob for knob in real_study.json("knobs")["knobs"]}
    assert knobs["vm.dirty_expire_centisecs"]["today"] == int(Path("/proc/sys/vm/dirty_expire_centisecs").read_text())
    assert {"liberty", "tomcat", "wildfly"} <= set(knobs[POOL]["names"])
    vm = real_study.json("knobs", "vm")["knobs"]
    assert all(knob["name"].startswith("vm.") for knob in vm)
    names = {finding["name"] for finding in real_study.json("doctor")["findings"]}
    assert {"root", "java", "maven", "noise", "undo journal"} <= names


def test_gc_reads_a_trials_log(real_study: RealStudy) -> None:
    log = Path(real_study.document["trials"][0]["directory"]) / "raw" / "gc.log"
    found = real_study.json("gc", log)
    assert found["pauses"]["count"] > 0
    assert found["pauses"]["sum_ms"] >= found["pauses"]["max_ms"] > 0
    assert found["unknown"] == []
    assert "pauses" in real_study.run("gc", log).stdout


def test_a_plan_is_printed_and_nothing_is_changed(real_study: RealStudy) -> None:
    plan = real_study.json("run", "mini.yaml", "--dry-run", "--lab", "elsewhere")
    assert len(plan["trials"]) == len(real_study.document["trials"])
    assert plan["seconds"] > 0
    assert not (real_study.directory / "elsewhere").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "quikstart"], "did you mean quickstart?"),
        (["run", "mini.yaml", "--set", "workload.user=3", "--dry-run"], "unknown key 'user'; did you mean users?"),
        (["run", "mini.yaml", "--factor", "jvm.hepa=1g,2g", "--dry-run"], "did you mean jvm.heap?"),
        (
            ["run", "mini.yaml", "--factor", "vm.min_free_kbytes=1000,9999999", "--dry-run"],
            "can hang, starve or lock out a host",
        ),
        (["run", "mini.yaml", "--set", "stack.mode=orm", "--dry-run"], "tomcat cannot run brokerage in mode orm"),
        (["run", "mini.yaml", "--set", "workload.scenario=brokerage-clasic", "--dry-run"], "brokerage-classic"),
        (["show", "mni"], "no study 'mni'"),
        (["show", "mini", "--lab", "nowhere"], "is no lab"),
        (["export", "mini", "--format", "pgn"], "did you mean png?"),
        (["gc", "nothing.log"], "nothing.log: No such file"),
        (["advise", "mini", "--finding", "server.pol"], "did you mean server.pool?"),
        (["knobs", "vm.swapines"], "did you mean vm.swappiness?"),
        (["frobnicate"], "No such command"),
    ],
)
def test_bad_input_gets_one_clear_message_and_code_2(real_study: RealStudy, arguments: list[str], words: str) -> None:
    done = real_study.run(*arguments)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_jdk_it_says_so(real_study: RealStudy) -> None:
    done = real_study.run("run", "mini.yaml", "--new", "--lab", "nojdk", "--set", "stack.java=/nowhere")
    assert done.returncode in (1, 2)
    assert "/nowhere" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_second_leadline_waits_its_turn(real_study: RealStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = (
        "import sys, time; from leadline.host.local import LocalHost\n"
        "with LocalHost().lease(): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", holder], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        monkeypatch.setenv("LEADLINE_WAIT", "0.5")
        monkeypatch.setenv("LEADLINE_STATE", str(real_study.directory / "another-state"))
        done = real_study.run("run", "mini.yaml", "--new")
        process.kill()
    assert done.returncode == 1
    assert f"this host is in use by pid {process.pid}" in done.stderr


def test_a_dead_database_and_ctrl_c_cost_an_attempt_each_and_the_run_goes_on(
    real_study: RealStudy, tmp_path: Path
) -> None:
    few = STUDY.replace("replicates: 3, sentinels: null", "replicates: 1, sentinels: 6")
    (tmp_path / "cut.yaml").write_text(few.replace("study: mini", "study: cut"))
    argv = [sys.executable, "-m", "leadline.cli", "run", "cut.yaml"]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        _wait_for_load(tmp_path / "lab", trial=0)
        pid = next((tmp_path / "lab").rglob("postmaster.pid")).read_text().split()[0]
        os.kill(int(pid), signal.SIGKILL)
        _wait_for_load(tmp_path / "lab", trial=1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT, (out, err)
    assert "attempt 1 failed as infrastructure, trying again: postgres died during the trial" in out
    assert "ended by SIGINT; run the same command again to go on" in out
    store = Store(tmp_path / "lab")
    before = store.load(store.find("cut"))
    assert (before.trials[0].state, before.trials[0].attempt) == ("done", 2)
    assert before.trials[1].failure is not None
    assert before.trials[1].failure.value == "interrupted"
    assert _left_running(tmp_path) == []
    again = leadline("run", "cut.yaml", cwd=tmp_path)
    assert again.returncode in (0, 4), again.stdout + again.stderr  # one replicate may give no answer
    after = store.load(before.id)
    assert {trial.state for trial in after.trials} == {"done"}, again.stdout + again.stderr
    assert [trial.attempt for trial in after.trials] == [2, 2, *[1] * (len(after.trials) - 2)]


def _wait_for_load(lab: Path, trial: int) -> None:
    """Until a second after the load of a trial of the lab's only study began."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        if (lab / "lab.sqlite").exists():
            for record in Store(lab).studies():
                if "load" in [step.name for step in record.trials[trial].steps]:
                    time.sleep(1.0)
                    return
        time.sleep(0.2)
    pytest.fail(f"the load of trial {trial} did not begin within 180 s")


def _left_running(directory: Path) -> list[str]:
    """Command lines of processes that still work in this directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if str(directory) in line and int(process.name) != os.getpid():
            found.append(line)
    return found


def test_up_down(real_study: RealStudy, tmp_path: Path) -> None:
    import urllib.request

    up = leadline("up", "tomcat", "--json", "--set", "server.threads.max=20", cwd=tmp_path)
    assert up.returncode == 0, up.stderr
    url = json.loads(up.stdout)["url"]
    with urllib.request.urlopen(f"{url}/health", timeout=10) as answer:
        assert json.load(answer)["status"] == "up"
    refused = leadline("run", str(real_study.directory / "mini.yaml"), "--new", cwd=tmp_path)
    assert refused.returncode == 2
    assert "run leadline down first" in refused.stderr
    load = leadline(
        "load", "brokerage-json", "--url", url, "--users", "3", "--ramp-up", "1s", "--steady", "2s",
        "--ramp-down", "1s", "--out", "alone", cwd=tmp_path,
    )  # fmt: skip
    assert load.returncode == 0, load.stderr
    assert json.loads((tmp_path / "alone" / "summary.json").read_text())["steady"]["all"]["ok"] > 0
    down = leadline("down", "--json", cwd=tmp_path)
    assert down.returncode == 0, down.stderr
    assert _left_running(tmp_path) == []
    nothing = leadline("down", cwd=tmp_path)
    assert "nothing is up" in nothing.stdout
    assert "nothing to put back" in leadline("restore", cwd=tmp_path).stdout
