"""Searches for the largest load within limits on the simulated host: the guide's example, going on, bad input."""

import math
import re
from pathlib import Path

import pytest
from command_line import Command, write_files

from leadline.checks.files.study import find_study
from leadline.experiments.knee.search import KneeLimit, KneeTrial, Range, limits, next_of, result_of, steps_at_most
from leadline.model.errors import UsageError
from leadline.store.lab import Store

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "limits.md").read_text(encoding="utf-8")
FILES = ("arrivals.yaml", "truth.yaml", "staging.yaml")  # the guide's, in its order
SHORT = ("--from", "500", "--repeats", "0", "--resolution", "20%")
LIMITED = (
    "scenario: two\nmix: { look: 1 }\ntransactions:\n  look:\n    limits: { p90: 2s }\n    requests: [{ get: /look }]\n"
)


leadline = Command("knee")
document, refused = leadline.document, leadline.refused


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the guide."""
    write_files(GUIDE, FILES, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_example_of_the_guide_ends_as_it_says(guide: Path) -> None:
    command = next(line for line in re.findall(r"^\$ leadline knee (.*)$", GUIDE, re.MULTILINE) if "truth" in line)
    shown = re.findall(r"^```text\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)[0]
    output = leadline(*command.split())
    for line in shown.splitlines():
        assert line in output
    assert not (guide / "lab" / "lab.sqlite").exists(), "simulated studies are kept apart"


def test_a_search_goes_on_where_its_budget_ended_and_is_not_run_twice(guide: Path) -> None:
    words = ("arrivals.yaml", "--simulate", "truth.yaml", *SHORT)
    whole = document(*words, "--lab", "whole")
    cut = document(*words, "--budget", "3m", code=4)
    assert cut["answer"].startswith("So far: ")
    assert not cut["complete"]
    assert "budget" in cut["stopped"]
    assert 0 < len(cut["trials"]) < len(whole["trials"])
    rest = document(*words)
    assert {key: rest[key] for key in ("search", "trials", "limits")} == {
        key: whole[key] for key in ("search", "trials", "limits")
    }
    store = Store(guide / "lab" / "simulated", create=False)
    studies = store.ids()
    assert document(*words)["studies"] == rest["studies"]
    assert store.ids() == studies
    assert all(len(store.load(study).trials) == 2 for study in studies)
    assert document(*words, "--new")["search"] == rest["search"].removesuffix("1") + "2"


def test_a_range_that_is_too_low_and_one_that_is_too_high(guide: Path) -> None:
    low = document("arrivals.yaml", "--to", "400", "--from", "300", "--simulate", "truth.yaml")
    assert low["limits"][0]["limited_by"] == "range"
    assert "at least 400" in low["answer"]
    text = (guide / "arrivals.yaml").read_text().replace("p99: 60ms", "p99: 1ms")
    (guide / "arrivals.yaml").write_text(text)
    none = document("arrivals.yaml", "--step-factor", "20", "--simulate", "truth.yaml", code=4)
    assert none["limits"][0]["highest"] is None
    assert "Not known: how much load keeps the limits" in none["answer"]


def test_a_driver_that_is_the_limit_ends_the_search(guide: Path) -> None:
    (guide / "truth.yaml").write_text((guide / "truth.yaml").read_text() + "  driver: { capacity: 500 }\n")
    found = document("arrivals.yaml", "--simulate", "truth.yaml", "--from", "400", "--resolution", "20%")
    assert found["limits"][0]["limited_by"] == "driver"
    assert "at least" in found["answer"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("arrivals.yaml", "--factor", "load.rat"), "has no parameter 'rat'; did you mean load.rate?"),
        (("arrivals.yaml", "--from", "50", "--to", "50"), "the first load is above 0 and below the highest"),
        (("arrivals.yaml", "--limits", "modern"), "brokerage-classic has none"),
        (("dealership-load", "--limits", "modem"), "did you mean modern?"),
        (("dealership-load", "--from", "2.5"), "--from 2.5: load.injection_rate takes whole numbers; the nearest is 2"),
        (("dealership-load", "--to", "340"), "units is 320: at least 340 is needed here"),
        (("arrivals.yaml", "--resolution", "0"), "--resolution"),
        (("unlimited.yaml",), "unlimited.yaml:1: nothing limits response times"),
        (("quickstart",), "--from and --to are missing: quickstart has no levels of load.users"),
    ],
)
def test_what_cannot_be_searched_is_refused(guide: Path, words: tuple[str, ...], said: str) -> None:
    text = re.sub(r"^limits:.*\n", "", (guide / "arrivals.yaml").read_text(), flags=re.MULTILINE)
    (guide / "unlimited.yaml").write_text(text)
    assert said in refused(*words, "--dry-run")


def test_a_server_that_already_runs_is_searched_by_the_guides_study(guide: Path) -> None:
    found = document("staging.yaml", "--simulate", "truth.yaml", *SHORT)
    assert found["limits"][0]["highest"] > 500
    study = find_study("staging.yaml").study
    assert (study.stack.title, study.responses[-1]) == ("the server at https://staging.example/brokerage", "p99")
    assert Command("run").document("staging.yaml", "--dry-run")["downloads"] == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("https://staging.example/brokerage", "staging.example", "write the address of a server, such as http://"),
        ("/brokerage }", "/brokerage, server: tomcat }", "url names a server that runs already"),
        ("/brokerage }", "/brokerage, host: ssh:far }", "which is loaded as it is; leave host out"),
        ("5000] }", "5000], jvm.heap: [1g, 2g] }", "leadline sets nothing of the server at stack.url"),
        ("limits:", "profile: light\nlimits:", "this study starts none"),
        ("limits:", "placement: { server_cpus: '0' }\nlimits:", "does not move or limit the server at stack.url"),
        ("limits:", "design: { rotation: {} }\nlimits:", "the server at stack.url is not started: leave rotation out"),
        (
            "scenario: brokerage-classic, ",
            "",
            "staging.yaml:4: no scenario for https://staging.example/brokerage: write",
        ),
    ],
)
def test_what_a_server_that_already_runs_cannot_be_asked(guide: Path, old: str, new: str, said: str) -> None:
    text = (guide / "staging.yaml").read_text()
    assert old in text
    (guide / "staging.yaml").write_text(text.replace(old, new))
    assert said in Command("run").refused("staging.yaml", "--dry-run")


def test_one_that_runs_already_takes_no_soak_and_is_not_started(guide: Path) -> None:
    assert "a soak needs a stack that it starts" in Command("soak").refused("staging.yaml", "--for", "1h")
    assert "runs already: leadline starts nothing" in Command("up").refused("staging.yaml")


def test_a_dry_run_says_what_it_costs_and_changes_nothing(guide: Path) -> None:
    found = document("dealership-load", "--dry-run", "--limits", "modern", "--critical")
    alone = document("dealership-load", "--dry-run")
    assert (found["load"], found["from"], found["to"]) == ("load.injection_rate", 20, 320)
    assert found["seconds"] == found["trials"] * found["seconds_per_trial"]
    assert alone["trials"] < found["trials"]
    assert not (guide / "lab").exists()


def search(
    carries: float, loads: Range, repeats: int = 0, driver_at: float = math.inf
) -> tuple[KneeLimit, list[float]]:
    """Against a server that ``carries`` so much, as if its limit were used in proportion; and the loads tried."""
    measured, (target,) = list[KneeTrial](), limits(critical=False)
    while (pair := next_of([target], measured, loads, repeats)) is not None:
        assert pair[0] != pair[1]
        for load in pair:
            measured.append(KneeTrial(load, {"p90": load / carries}, load, driver_limit=load > driver_at))
        assert len(measured) < 160, "the search does not end"
    return result_of(target, measured, loads), [trial.load for trial in measured]


@pytest.mark.parametrize(
    ("carries", "loads", "driver_at", "by", "least", "most"),
    [
        (450, Range(10, 10_000, resolution=0.02), math.inf, "server", 440, 450),
        (50, Range(800, 1000), math.inf, "server", 47, 50),
        (70.5, Range(3, 1000, resolution=0.001, whole=True), math.inf, "server", 70, 70),
        (450, Range(3, 10.5, whole=True), math.inf, "range", 10, 10),
        (54, Range(49, 60, factor=1.05, resolution=0.0), math.inf, "server", 53.9999, 54),
        (450, Range(10, 10_000), 200, "driver", 180, 200),
        (450, Range(10, 50), math.inf, "range", 50, 50),
    ],
)
def test_the_highest_load_is_found_from_either_side(
    carries: float, loads: Range, driver_at: float, by: str, least: float, most: float
) -> None:
    limit, tried = search(carries, loads, driver_at=driver_at)
    assert limit.found.limited_by == by
    assert limit.found.highest is not None
    assert least <= limit.found.highest <= most
    if by == "server":
        assert limit.found.lowest_failed == pytest.approx(limit.found.highest, rel=max(loads.resolution, 1 / 70))
    assert not loads.whole or all(load == int(load) for load in tried)
    assert loads.resolution == 0 or len(tried) <= 2 * steps_at_most(loads)


def test_a_load_that_no_server_carries_is_not_known() -> None:
    limit, _ = search(0.01, Range(10, 50))
    assert (limit.found.highest, limit.load.value) == (None, None)
    assert limit.found.reason == "no load in the range kept the limits"


def test_the_interval_holds_the_limit() -> None:
    limit, tried = search(450, Range(10, 10_000), repeats=8)
    assert limit.load.low is not None
    assert limit.load.high is not None
    assert limit.load.low <= (limit.load.value or 0) <= limit.load.high
    assert limit.load.value == pytest.approx(450, rel=0.01)
    assert len(tried) > len(search(450, Range(10, 10_000))[1])


def test_whole_loads_end_one_apart_and_failed_trials_break_every_limit() -> None:
    loads, measured = Range(1, 40, whole=True), list[KneeTrial]()
    (target,) = limits(critical=False)
    while (pair := next_of([target], measured, loads, 4)) is not None:
        assert pair[0] != pair[1]
        assert all(load == int(load) for load in pair)
        for load in pair:
            beyond = KneeTrial(load, {}, failed="all failed")
            measured.append(beyond if load > 9 else KneeTrial(load, {"p90": 0.1 * load}, load, 1.0, 1.0))
        assert len(measured) < 60, "the search does not end"
    found = result_of(target, measured, loads)
    assert (found.found.highest, found.found.lowest_failed) == (9, 10)
    assert found.found.gave_out == "errors or audits"


def test_a_load_that_one_of_two_trials_breaks_is_judged_by_both() -> None:
    loads, (target,) = Range(10, 100), limits(critical=False)
    seen = [(10, 0.5), (15, 0.6), (22.5, 1.05), (33.75, 3.0)]
    measured = [KneeTrial(load, {"p90": use}, load, 1.0, 1.0) for load, use in seen]
    assert result_of(target, measured, loads).found.lowest_failed == 22.5
    again = [*measured, KneeTrial(22.5, {"p90": 0.8}, 22.5, 1.0, 1.0)]
    assert result_of(target, again, loads).found.highest == 22.5


def test_responses_of_limits_need_limits(tmp_path: Path) -> None:
    from leadline.api.studies import Study
    from leadline.checks.load import check_load

    (tmp_path / "two.yaml").write_text(LIMITED)
    keys = {"study": "x", "question": "?", "factors": {"jvm.heap": ["256m", "512m"]}}
    responses = {"responses": ["within_limits", "limit_use"]}
    with pytest.raises(UsageError, match="within_limits is of limits of response times, and this load states none"):
        check_load(Study.of({**keys, **responses, "workload": {"users": 2}}).file)
    load = {"scenario": str(tmp_path / "two.yaml"), "users": 2}
    check_load(Study.of({**keys, **responses, "workload": load}).file)
    with pytest.raises(UsageError, match="is told of whole trials"):
        Study.of({**keys, **responses, "workload": load, "design": {"rotation": {}}})
