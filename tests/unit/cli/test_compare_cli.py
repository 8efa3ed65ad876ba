"""``compare`` and ``history`` on runs of known truth."""

from pathlib import Path

import pytest
from command_line import Command

import leadline
from leadline.model.judgement import NO_ANSWER_CODE

KEYS = {
    "study": "heap",
    "question": "q",
    "factors": {"jvm.heap": ["256m", "512m"]},
    "workload": {"users": 40, "ramp_up": "1s", "steady": "8s", "ramp_down": "0s"},
    "responses": ["throughput", "p50"],
    "design": {"replicates": 4},
}
COMMAND = Command()
RUNS = 9
CHANGED = 6  # the first run with more demand and a better setting


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    for number in range(1, RUNS + 1):
        demand, gain = (3.6, 12) if number >= CHANGED else (3, 4)
        (place / "truth.yaml").write_text(
            f"truth: {{ seed: {number}, server: {{ demand: {demand}ms, think: 10ms }}, "
            "noise: { trials: 0.4%, latency_trials: 0.4%, seconds: 1% }, "
            f"effects: [ {{ when: {{ jvm.heap: 512m }}, percent: {{ throughput: {gain}% }} }} ] }}\n"
        )
        leadline.run(leadline.Study.of(KEYS), place / "lab", truth=place / "truth.yaml", fresh=True)
    return place / "lab" / "simulated"


def test_what_moved_between_two_runs(place: Path) -> None:
    output = COMMAND("compare", "heap@1", 8, "--lab", place)
    assert "Differs: version.simulated" in output
    first = output.splitlines()[0]
    assert first.startswith("SIMULATED: From heap@1 to heap@8: ")
    assert "jvm.heap=512m on throughput +" in first
    assert "the baseline's p50 +" in first


def test_two_runs_of_one_truth_differ_in_nothing(place: Path) -> None:
    found = COMMAND.document("compare", 1, 2, "--lab", place)
    rows = found["moved"]
    assert {row["verdict"] for row in rows} <= {"undetermined", "equivalent"}
    assert {(row["response"], row["what"]) for row in rows} == {
        (response, what) for response in ("throughput", "p50") for what in ("baseline", "jvm.heap=512m")
    }


@pytest.mark.parametrize(
    ("runs", "condition", "code", "state"),
    [
        ((1, 8), "p50>5%", 1, "broken"),
        ((1, 8), "p50>500%", 0, "kept"),
        ((1, 2), "throughput<-50%", 0, "kept"),
        ((1, 2), "p50>0%", 4, "undecided"),
    ],
)
def test_conditions_are_held_against_what_moved(
    place: Path, runs: tuple[int, int], condition: str, code: int, state: str
) -> None:
    words = ("compare", *runs, "--lab", place, "--fail", condition)
    assert f"--fail {condition}: {state}: baseline: " in COMMAND(*words, code=code)
    if code == NO_ANSWER_CODE:
        COMMAND(*words, "--undecided", "pass")


@pytest.mark.parametrize(("condition", "state"), [("throughput<-5%", "kept"), ("p50>0%", "undecided")])
def test_conditions_are_held_against_a_confirmation(place: Path, condition: str, state: str) -> None:
    truth = place.parent.parent / "truth.yaml"
    words = ("confirm", "heap@8", "--setting", "jvm.heap=512m", "--simulate", truth, "--lab", place.parent, "--new")
    code = 0 if state == "kept" else NO_ANSWER_CODE
    assert f"--fail {condition}: {state}: jvm.heap=512m: " in COMMAND(*words, "--fail", condition, code=code)


@pytest.mark.parametrize("words", [(), ("--response", "p50"), ("--level", "jvm.heap=512m")], ids=" ".join)
def test_a_history_shows_where_it_changed(place: Path, words: tuple[str, ...]) -> None:
    found = COMMAND.document("history", "heap", *words, "--lab", place)
    points, changes = found["points"], found["changes"]
    assert isinstance(points, list)
    assert isinstance(changes, list)
    assert [point["run"] for point in points] == [f"heap@{number}" for number in range(1, RUNS + 1)]
    assert len(changes) == 1
    assert changes[0]["from_"] <= CHANGED - 1 <= changes[0]["until"]
    assert "changed from" in str(found["answer"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compare", "heap@1", "heap@1"), "compared with itself"),
        (("compare", "heap@1", "heap@77"), "no study 'heap@77'"),
        (("history", "heep"), "studies there: heap"),
        (("history", "heap", "--response", "p98"), "has the responses throughput, p50"),
        (("history", "heap", "--level", "jvm.heap"), "write factor=level"),
        (("history", "heap", "--level", "jvm.heap=1g"), "the levels jvm.heap=512m"),
    ],
)
def test_bad_input(place: Path, words: tuple[str, ...], message: str) -> None:
    assert message in COMMAND.refused(*words, "--lab", place)
