"""``leadline power`` and the forecast of a dry run: given, assumed and measured noise; what is refused."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from lab_fakes import CACHE, POOL, FakeHost, FakeSystem
from typer.testing import CliRunner

from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.cli.main import app
from leadline.experiments.pilot import noise_for, overhead_for
from leadline.model.errors import UsageError
from leadline.model.record import Phases
from leadline.model.result import SteadyState
from leadline.planning.forecast import setup_of
from leadline.planning.wording import advice_of, figure, noise_lines
from leadline.store.lab import Store
from leadline.trial.progress import SilentWatcher
from leadline.trial.run import StudyRun

STUDY = """\
study: piloted
question: How noisy is it?
workload: { users: 5, steady: 60s }
factors:
  server.pool: [10, 2]
design: { replicates: 8, sentinels: null }
responses: [throughput]
"""
COLUMNS = (
    "time_ns,second,transaction,phase,ok,failed,response_mean_ms,response_p50_ms,response_p99_ms,"
    "service_mean_ms,in_flight,skipped"
)


def invoke(*arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, "--lab", "no-such-lab"])
    if done.exception is not None:
        raise done.exception
    return done.output


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lab with one study: trials differ by 3 %, their seconds by 10 %, without autocorrelation."""
    directory = tmp_path_factory.mktemp("lab")
    rng = np.random.default_rng(6)
    levels = iter(100 * np.exp(rng.normal(0, 0.03, 16)))
    host = FakeHost()
    system = FakeSystem(host, effect=lambda _s, _h: float(next(levels)))
    file = parse_study(STUDY, "piloted.yaml")
    planned = plan_study(file, host, [POOL, CACHE])
    store = Store(directory)
    run = StudyRun(file, planned, store, host, system, SilentWatcher(), lambda _: nullcontext()).execute()
    for trial in store.load(run.study_id).trials:
        assert trial.directory is not None
        mean = trial.responses["throughput"]
        figures = mean * (1 + rng.normal(0, 0.1, 60))
        rows = [f"{k}000000000,{k},all,steady,{round(value)},0,5,5,9,5,3,0" for k, value in enumerate(figures)]
        (trial.directory / "driver" / "seconds.csv").write_text("\n".join([COLUMNS, *rows]) + "\n")
        store.set_steady(trial.id, SteadyState("steady", 0.0, ""), Phases(1000.0, 1000.0, 1060.0, 1062.0))
    return directory


def test_noise_of_an_earlier_study_of_the_same_stack_and_load(lab: Path) -> None:
    study = parse_study(STUDY.replace("piloted", "next"), "next.yaml").study
    noise = noise_for(study, lab)
    assert not noise.assumed
    assert noise.source == "piloted@1"
    assert noise.trials == 16
    assert noise.trial is not None
    assert noise.trial.cv_interval.contains(3.0)
    assert noise.autocorrelation is not None
    assert noise.autocorrelation.time == pytest.approx(1.0, abs=0.3)
    assert noise.second == pytest.approx(0.01, rel=0.3)
    text = "\n".join(noise_lines(noise))
    assert "from 16 trials of piloted@1" in text
    assert "autocorrelation time" in text
    assert overhead_for(study, noise) >= 1.0
    advice = advice_of(noise, setup_of(study.design, study.workload, 22.0))
    assert advice is not None
    assert "Repeat server starts: with a steady state of 23s instead of 1m" in advice.sentence


@pytest.mark.parametrize(
    ("old", "new"), [("users: 5", "users: 6"), ("workload:", "stack: { server: tomcat }\nworkload:")]
)
def test_studies_of_another_stack_or_load_are_not_taken(lab: Path, old: str, new: str) -> None:
    noise = noise_for(parse_study(STUDY.replace(old, new), "other.yaml").study, lab)
    assert noise.assumed
    assert "no finished study of this stack and load" in noise.source
    assert noise_for(parse_study(STUDY.replace(old, new), "other.yaml").study, lab, source="piloted").trials == 16


def test_what_is_assumed_of_a_response_says_where_it_is_from(tmp_path: Path) -> None:
    """The noise of p99 was that of the published study's throughput."""
    study = parse_study(STUDY, "next.yaml").study
    throughput, p99 = (noise_for(study, tmp_path, response=name) for name in ("throughput", "p99"))
    assert throughput.source.endswith("the noise is that of the published study")
    assert p99.source.endswith("that of throughput in the published study, 1.8 times as in study B")
    assert p99.sigma2 == pytest.approx(1.8**2 * throughput.sigma2, rel=0.01)


def test_a_study_in_slots_learns_from_the_seconds_of_whole_trials(lab: Path) -> None:
    text = STUDY.replace("replicates: 8", "replicates: 8, switchback: { slot: 10s, wash_out: 2s }")
    noise = noise_for(parse_study(text, "slots.yaml").study, lab)
    assert noise.slot(10, 2) == pytest.approx(0.01 / 8, rel=0.35)


def test_a_series_that_is_not_there_leaves_the_rest(lab: Path, tmp_path: Path) -> None:
    lab = shutil.copytree(lab, tmp_path / "lab")
    for path in lab.glob("trials/*/attempt-1/driver/seconds.csv"):
        path.unlink()
    noise = noise_for(parse_study(STUDY, "next.yaml").study, lab)
    assert noise.trial is not None
    assert noise.autocorrelation is None
    assert noise.beyond is None


@pytest.mark.parametrize(
    ("source", "response", "words"),
    [("nothing", None, "no study 'nothing'"), ("piloted", "gc_share", "no repeated trials with figures for gc_share")],
)
def test_an_unknown_source_is_refused(lab: Path, source: str, response: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        noise_for(parse_study(STUDY, "next.yaml").study, lab, source=source, response=response)


def test_power_of_a_built_in_study() -> None:
    text = invoke("power", "aa", "--effect", "5%", "--cv", "4.3%")
    assert "noise of throughput: 4.3 % between trials (given)" in text
    assert "smallest effect it finds: " in text
    assert "an effect of 5 % is found with probability 0." in text
    assert "one-at-a-time: " in text
    assert "full-factorial: " in text


def test_power_on_several_hosts() -> None:
    options = ("--cv", "4.3%", "--hosts", "8", "--differ", "3%", "--set", "design.replicates=16")
    text = invoke("power", "aa", *options)
    assert "on 8 hosts: smallest effect " in text
    assert "where an effect differs by 3 % from host to host (given)" in text
    hosts = json.loads(invoke("power", "aa", *options, "--json"))["hosts"]
    assert hosts["hosts"] == {"count": 8, "differ": 3.0, "source": "given"}
    assert 0 < hosts["smallest"]["0.8"] < hosts["smallest"]["0.9"]


def test_power_as_json_has_the_same_figures() -> None:
    document = json.loads(invoke("power", "aa", "--effect", "5", "--cv", "4.3", "--json"))
    assert document["noise"]["assumed"] is True
    assert document["cv"] == pytest.approx(4.3)
    assert 0 < document["smallest"]["0.8"] < document["smallest"]["0.9"]
    assert 0 < document["chance"] < 1
    assert document["need"]["trials"] > document["trials"]


def test_a_dry_run_says_what_the_plan_will_find_and_that_the_noise_is_assumed() -> None:
    text = invoke("run", "aa", "--dry-run", "--set", "design.looks=2")
    assert "assumed: no-such-lab holds no study" in text
    assert "smallest effect it finds: " in text
    assert "to halve that: " in text
    assert "it may end early: 2 interim analyses, after block 2 and at the end" in text
    document = json.loads(invoke("run", "aa", "--dry-run", "--json"))
    assert document["looks"] == [4]
    assert document["forecast"]["smallest"]["0.8"] > 0


def test_plans_write_levels_with_their_units() -> None:
    for text in (invoke("run", "heap", "--dry-run"), CliRunner().invoke(app, ["plan", "heap"]).output):
        assert "jvm.heap=512m" in text
        assert "=536870912" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--effect", "little"], "--effect: 'little' is not a percentage such as 5%"),
        (["--effect", "0"], "--effect: '0' is not between 0.01% and 1000%"),
        (["--cv", "1e-300"], "--cv: '1e-300' is not between 0.01% and 200%"),
        (["--cv", "1_0%"], "--cv: '1_0%' is not a percentage such as 5%"),
        (["--effect", "nan"], "--effect: 'nan' is not a percentage"),
        (["--cv", "-1%"], "--cv: '-1%' is not between 0.01% and 200%"),
        (["--power", "20%"], "--power: '20%' is not between 50% and 99.9%"),
        (["--response", "speed"], "--response: unknown response 'speed'"),
        (["--from", "quickstart"], "no-such-lab is no lab"),
        (["--set", "design.looks=9"], "9 interim analyses need 9 blocks, and this plan has 4; set looks to 4"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments: list[str], words: str) -> None:
    with pytest.raises(UsageError) as error:
        invoke("power", "aa", *arguments)
    assert words in str(error.value)


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (4.321, "4.32"), (123.4, "123"), (1e9, "more than 1000")])
def test_figures_are_short(value: float, text: str) -> None:
    assert figure(value) == text


def test_a_switchback_study_can_be_told_the_noise_of_its_slots() -> None:
    options = ["--set", "design.switchback.slot=5s", "--set", "workload.steady=60s"]
    assert "noise of slots is not known" in invoke("power", "aa", *options)
    text = invoke("power", "aa", "--cv", "2%", *options)
    assert "2 % between slots of a trial (given)" in text
    assert "smallest effect it finds" in text


def test_power_and_the_dry_run_compare_the_layouts() -> None:
    for command in (["power", "collectors"], ["run", "collectors", "--dry-run"]):
        found = json.loads(invoke(*command, "--json"))["layouts"]
        rows = {row["name"]: row for row in found["layouts"]}
        assert list(rows) == ["plain", "switchback", "rotation"]
        assert rows["rotation"]["own"]
        assert "needs a factor that can be changed" in rows["switchback"]["reason"]
        assert rows["plain"]["seconds"] == pytest.approx(found["seconds"], rel=0.15)
        assert found["best"] in rows
        text = invoke(*command)
        assert f"best: {found['best']}, " in text
        assert "(assumed)" in text


def test_another_kind_of_host_is_of_studies_and_refused_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"--host ssh:nowhere: .*cannot be reached: .*; name an alias of"):
        invoke("run", "aa", "--host", "ssh:nowhere", "--dry-run")
    with pytest.raises(UsageError, match="--host works on studies only; daytrader is a tuning"):
        invoke("run", "daytrader", "--host", "vm", "--dry-run")
    assert not list(tmp_path.iterdir())
