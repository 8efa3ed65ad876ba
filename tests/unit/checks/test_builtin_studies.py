"""The built-in studies of server settings: each can be planned, and costs what its text says."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from leadline.api.studies import Study
from leadline.checks.files.study import builtin_studies, parse_study
from leadline.checks.plan import cost, plan_study
from leadline.checks.subject import study_catalogue
from leadline.host.base import Host
from leadline.host.files import LocalFiles
from leadline.host.local import LocalHost
from leadline.load.knobs import load_knobs
from leadline.model.errors import UsageError
from leadline.model.knob import Knob, Level, Machine
from leadline.model.units import parse_size
from leadline.stack.registry import stack_catalogue
from leadline.stack.servers import large_pages

DEALERSHIP = ("dealership-calls", "dealership-load", "servers")
STUDIES = (
    "by-reference",
    "collectors",
    "heap",
    "keep-alive",
    "large-pages",
    "message-stores",
    "messaging",
    "monitoring",
    "pools",
    "response-cache",
    "statement-cache",
    "web-server-place",
)
PAGE = (Path(__file__).parents[3] / "docs" / "evidence" / "study-b.md").read_text()


class FakeHost:
    """This host's knobs, all of which may be set."""

    name = "fake"

    def cpus(self) -> Sequence[int]:
        return range(4)

    def knobs(self) -> Sequence[Knob]:
        return LocalHost(state=Path("/nonexistent")).knobs()

    def machine(self) -> Machine:
        return Machine(memory=8 << 30)

    def writable(self, name: str) -> str:
        del name
        return ""


@pytest.mark.parametrize("name", [*STUDIES, *DEALERSHIP])
def test_a_study_is_planned_and_says_what_it_costs(name: str) -> None:
    text = builtin_studies()[name]
    said = re.search(r"(\d+) trials,\s+(?:# )?about (\d+)\s+(?:# )?minutes", text)
    assert said, "the head of the file tells trials and minutes"
    file = parse_study(text, name)
    planned = plan_study(file, cast(Host, FakeHost()), study_catalogue(file))
    assert len(planned.plan.trials) == int(said[1])
    assert cost(file.study, planned.plan) / 60 == pytest.approx(int(said[2]), rel=0.1)
    assert not planned.skipped
    if name in DEALERSHIP:
        return
    row = re.search(rf"^\|[^|]+\| `{name}`[^|]*\|[^|]+\| (\d+), (\d+) \|", PAGE, re.MULTILINE)
    assert row, "a row of docs/evidence/study-b.md"
    assert row.groups() == said.groups()


@pytest.mark.parametrize("name", [*STUDIES, *DEALERSHIP])
def test_the_question_is_one_line_of_the_list(name: str) -> None:
    study = parse_study(builtin_studies()[name], name).study
    assert study.question.endswith("?")
    assert len(f"{name}: {study.question}") <= 110
    assert study.study == name


def test_reserved_pages_are_as_many_as_the_check_before_the_start_asks_for(tmp_path: Path) -> None:
    settings = parse_study(builtin_studies()["large-pages"], "large-pages").study.settings
    meminfo = tmp_path / "proc/meminfo"
    meminfo.parent.mkdir()
    meminfo.write_text("HugePages_Total: 0\nHugePages_Free: 0\nHugepagesize: 2048 kB\n")
    levels: dict[str, Level] = {"jvm.heap": parse_size(str(settings["jvm.heap"])), "jvm.large_pages": "explicit"}
    asked = int(large_pages.shortage(LocalFiles(tmp_path), levels).rpartition(" ")[2])
    assert asked <= int(str(settings["vm.nr_hugepages"])) <= 2 * asked


def test_data_for_less_than_the_injection_rate_are_refused() -> None:
    text = builtin_studies()["dealership-load"].replace("load_units: 320", "load_units: 60")
    file = parse_study(text, "dealership-load")
    knobs = [*stack_catalogue(file.study.stack), *load_knobs(file.study.workload)]
    with pytest.raises(UsageError, match=r"load\.injection_rate: .*: units is 60: at least 120 is needed here"):
        plan_study(file, cast(Host, FakeHost()), knobs)


@pytest.mark.parametrize("servers", ["--set stack.server=liberty", "--factor stack.server=wildfly,tomee"])
def test_a_factor_that_its_servers_lack_is_left_out_of_a_built_in_study_and_told(servers: str) -> None:
    option, value = servers.split()
    given = {"overrides" if option == "--set" else "factors": [value]}
    file = Study.read("dealership-calls", **given).file
    planned = plan_study(file, LocalHost(), study_catalogue(file))
    assert {factor.name for factor in planned.plan.factors} >= {"app.agents", "app.calls"}
    lacking = "liberty" if option == "--set" else "tomee"
    assert planned.skipped == (
        f"server.calls.by_reference is left out: {lacking} has no knob server.calls.by_reference; wildfly has it",
    )


def test_a_configuration_of_nothing_else_is_left_out_with_it() -> None:
    file = Study.read("by-reference", ["stack.server=liberty"]).file
    assert list(file.study.design.configurations) == ["remote-by-value", "local"]
    assert file.left_out[-1] == "configuration remote-by-reference is left out: it is of nothing else"


def test_a_factor_that_an_option_gave_is_refused_where_the_server_lacks_it() -> None:
    file = Study.read("dealership-calls", ["stack.server=tomee"], ["server.calls.by_reference=off,on"]).file
    with pytest.raises(UsageError, match=r"^--factor server\.calls\.by_reference=off,on: tomee has no knob"):
        plan_study(file, LocalHost(), study_catalogue(file))
