"""Bisections on the simulated host: the guide's examples, going on, candidates that fail, bad input."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import Command, write_files

from leadline.experiments.bisect import run as probing
from leadline.store.lab import Store

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "bisect.md").read_text(encoding="utf-8")
FILES = ("sizes.yaml", "truth.yaml", "fast.yaml", "slow.yaml")  # the guide's, in its order
COMMANDS = re.findall(r"^\$ leadline bisect (.*)$", GUIDE, re.MULTILINE)
CACHE = "server.datasource.statement_cache"
QUIET = "noise: { trials: 0, seconds: 0, latency_trials: 0, latency_seconds: 0, cpu_trials: 0 }"


leadline = Command("bisect")
document, refused = leadline.document, leadline.refused


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the guide."""
    write_files(GUIDE, FILES, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def without_figures(text: str) -> set[str]:
    """Lines without the figures of the simulated noise; levels are kept, as in ``from 10 to 20``."""
    return {re.sub(r"(?<!from )(?<!to )[+−]?\b\d+(\.\d+)?(?!\d* to )", "#", line).strip() for line in text.splitlines()}


def test_the_examples_of_the_guide_end_as_it_says(guide: Path) -> None:
    commands = [command for command in COMMANDS if not command.startswith("kernels")]
    shown = re.findall(r"^```text\n(.*?)^```", GUIDE.partition("## Kernels")[0], re.MULTILINE | re.DOTALL)
    assert (len(commands), len(shown)) == (4, 2)
    outputs = [leadline(*command.split()) for command in commands]
    runs = [output for command, output in zip(commands, outputs, strict=True) if "--simulate" in command]
    for text, output in zip(shown, runs, strict=True):
        assert without_figures(text) <= without_figures(output)
    assert f"{CACHE} from 10 to 20\n" in outputs[0]
    assert "4 ordered levels, 3 changes" in outputs[2]
    assert not (guide / "lab" / "lab.sqlite").exists(), "a dry run changes nothing"


def test_a_bisection_goes_on_where_its_budget_ended_and_is_not_run_twice(guide: Path) -> None:
    whole = document("sizes.yaml", "--simulate", "truth.yaml", "--lab", "whole")
    cut = document("sizes.yaml", "--simulate", "truth.yaml", "--budget", "3m", code=4)
    assert (cut["complete"], cut["found"]) == (False, "open")
    assert "budget" in cut["stopped"]
    assert 0 < cut["probes"] < whole["probes"]
    rest = document("sizes.yaml", "--simulate", "truth.yaml")
    figures = ("found", "places", "changes", "treatments", "effect", "trials", "bisection", "answer")
    assert {key: rest[key] for key in figures} == {key: whole[key] for key in figures}
    assert rest["places"] == [f"{CACHE} from 10 to 20"]
    store = Store(guide / "lab" / "simulated", create=False)
    studies = store.ids()
    assert document("sizes.yaml", "--simulate", "truth.yaml")["trials"] == rest["trials"]
    assert store.ids() == studies
    again = document("sizes.yaml", "--simulate", "truth.yaml", "--new")
    assert again["bisection"] == rest["bisection"].removesuffix("1") + "2"
    assert len(store.ids()) > len(studies)


def test_a_level_that_cannot_be_run_widens_the_answer(guide: Path) -> None:
    text = (guide / "truth.yaml").read_text()
    failing = f"  failures: [{{ class: configuration, probability: 100%, when: {{ {CACHE}: 10 }} }}]\n"
    (guide / "truth.yaml").write_text(text + failing)
    found = document("sizes.yaml", "--simulate", "truth.yaml")
    assert (found["found"], found["places"]) == ("one", [f"{CACHE} from 5 to 20"])
    assert list(found["failed"]) == [f"{CACHE}=10"]
    (guide / "truth.yaml").write_text(text + failing.replace(": 10 }", ": 60 }"))
    assert "60, one of the ends, cannot be run" in refused("sizes.yaml", "--simulate", "truth.yaml", "--new")


def test_exact_probes_need_one_each(guide: Path) -> None:
    (guide / "truth.yaml").write_text((guide / "truth.yaml").read_text().replace("12%", "0.3%") + f"  {QUIET}\n")
    found = document("sizes.yaml", "--simulate", "truth.yaml", "--exact")
    assert (found["found"], found["places"]) == ("one", [f"{CACHE} from 10 to 20"])
    assert found["probes"] <= 4  # the ends, and log2 of five changes
    assert found["effect"]["percent"] == pytest.approx(0.3, abs=0.01)
    (guide / "truth.yaml").write_text(f"truth:\n  {QUIET}\n")
    assert document("sizes.yaml", "--simulate", "truth.yaml", "--exact", "--new")["found"] == "none"


def test_two_settings_are_told_as_two(guide: Path) -> None:
    (guide / "truth.yaml").write_text(
        "truth:\n  seed: 4\n  effects:\n"
        f"    - {{ when: {{ {CACHE}: 60 }}, percent: {{ throughput: 12% }} }}\n"
        "    - { when: { vm.swappiness: 10 }, percent: { throughput: -15% } }\n"
    )
    found = document("sizes.yaml", "--from", "slow.yaml", "--to", "fast.yaml", "--simulate", "truth.yaml")
    assert found["found"] == "two"
    assert sorted(found["places"]) == [f"{CACHE} from 0 to 60", "vm.swappiness from 60 to 10"]


KERNELS = ["6.1-cloud", "6.12-cloud", "6.16-cloud", "6.17-cloud", "6.18-cloud"]
WORLDS = """\
study: pages
question: Which kernel makes pages dearer?
stack: { server: tomcat, host: virtual-time }
guest: { memory: 1536m, kernel: 6.1-cloud }
workload: { users: 8, ramp_up: 4s, steady: 4s, ramp_down: 1s }
factors: { vm.swappiness: [60, 10] }
design: { kind: forks, worlds: 3 }
equivalence: 0.1%
"""


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a study in virtual time; 6.16 makes pages dearer, on every world a little differently."""

    def between(first: str, last: str, _progress: object) -> Sequence[str]:
        at, until = KERNELS.index(first), KERNELS.index(last)
        return KERNELS[at : until + 1] if at < until else KERNELS[until : at + 1][::-1]

    monkeypatch.setattr(probing, "between", between)
    (tmp_path / "pages.yaml").write_text(WORLDS)
    effects = "".join(
        f"    - {{ when: {{ guest.kernel: {kernel} }}, percent: {{ throughput: -3% }} }}\n" for kernel in KERNELS[2:]
    )
    (tmp_path / "truth.yaml").write_text(f"truth:\n  seed: 3\n  effects:\n{effects}  {QUIET}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_kernels_between_two_are_probed_in_the_worlds_of_the_study(worlds: Path) -> None:
    words = ("pages.yaml", "--from", "6.1-cloud", "--to", "6.18-cloud", "--simulate", "truth.yaml")
    planned = document(*words, "--dry-run")
    assert (planned["ordered"], planned["exact"], len(planned["changes"])) == (True, True, 4)
    assert planned["expected"][0]["trials"] == pytest.approx(6 * planned["expected"][0]["probes"])
    found = document(*words)
    assert (found["found"], found["places"]) == ("one", ["guest.kernel from 6.12-cloud to 6.16-cloud"])
    assert found["effect"]["percent"] == pytest.approx(-3, abs=0.1)
    assert found["worlds"] == [pytest.approx(-3, abs=0.5)] * 3
    store = Store(worlds / "lab" / "simulated", create=False)
    probes = [store.load(number) for number in found["studies"]]
    assert {(len(one.trials), one.plan.blocks) for one in probes} == {(6, "worlds")}
    assert probes[0].study.guest is not None
    assert probes[0].study.guest.kernel is None
    assert "vm.swappiness" in probes[0].study.settings
    back = document("pages.yaml", "--from", "6.18-cloud", "--to", "6.1-cloud", "--simulate", "truth.yaml")
    assert back["places"] == ["guest.kernel from 6.16-cloud to 6.12-cloud"]


def test_the_guides_commands_between_kernels_are_understood(worlds: Path) -> None:
    """Without guests: with `--simulate`, and kernels that are always listed."""
    line, releases = (command.split() for command in COMMANDS if command.startswith("kernels"))
    assert len(document(*line, "--simulate", "truth.yaml")["changes"]) == len(KERNELS) - 1
    words = [
        {"6.1.0-48-cloud-amd64": KERNELS[0], "6.1.0-56-cloud-amd64": KERNELS[1]}.get(word, word) for word in releases
    ]
    assert document(*words, "--simulate", "truth.yaml", "--dry-run")["changes"] == [
        "guest.kernel from 6.1-cloud to 6.12-cloud"
    ]


def test_kernels_in_an_order_of_ones_own_are_not_looked_up(worlds: Path) -> None:
    (worlds / "pages.yaml").write_text(WORLDS.replace(", kernel: 6.1-cloud", ""))
    own = ("--factor", "guest.kernel", "--levels", "6.1-cloud,6.18-cloud")
    found = document("pages.yaml", *own, "--from", "6.1-cloud", "--to", "6.18-cloud", "--simulate", "truth.yaml")
    assert found["places"] == ["guest.kernel from 6.1-cloud to 6.18-cloud"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--factor", "server.datasource.statement_cach"), f"did you mean {CACHE}?"),
        (("--from", "7"), "--from 7: server.datasource.statement_cache has no such level; its levels are 0, 5"),
        (("--from", "5", "--to", "5"), "that is where it begins"),
        (("--response", "p5"), "did you mean p50?"),
        (("--levels", "1,2"), "--levels belongs to --factor"),
        (("--factor", CACHE, "--levels", "0,many"), CACHE),
        (("--from", "slow.yaml", "--to", "slow.yaml"), "every setting has the level that it has in"),
        (
            ("--from", "slow.yaml", "--to", "lone.yaml"),
            "lone.yaml: server.datasource.statement_cache is in slow.yaml only",
        ),
        (("--from", "slow.yaml", "--to", "empty.yaml"), "empty.yaml:1: no settings"),
    ],
)
def test_what_cannot_be_bisected_is_refused(guide: Path, words: tuple[str, ...], said: str) -> None:
    (guide / "lone.yaml").write_text("settings: { vm.swappiness: 10 }\n")
    (guide / "empty.yaml").write_text("[]\n")
    assert said in refused("sizes.yaml", *words, "--simulate", "truth.yaml")
