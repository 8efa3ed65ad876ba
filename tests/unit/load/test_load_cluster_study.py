"""Studies whose load comes from several drivers: what is refused before the first trial."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.host.local import LocalHost
from leadline.lab.planning import plan_study
from leadline.lab.studyfile import parse_study
from leadline.model.errors import UsageError
from leadline.stack.registry import stack_catalogue

STUDY = """\
study: two
question: Do two drivers do what one does?
workload: { users: 4 }
factors: { jvm.heap: [256m, 512m] }
drivers: [local, { via: ssh b, weight: 3 }]
"""


def plan(text: str, state: Path) -> None:
    file = parse_study(text, "two.yaml")
    stack = file.study.stack
    plan_study(file, LocalHost(state=state), stack_catalogue(stack))


def test_a_load_on_several_hosts_is_planned_like_any_other(tmp_path: Path) -> None:
    plan(STUDY, tmp_path)
    assert [driver.name for driver in parse_study(STUDY, "two.yaml").study.drivers] == ["local", "b"]


def test_another_generator_cannot_be_on_several_hosts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"two\.yaml:5: several drivers are leadline-load on every host"):
        plan(STUDY.replace("{ users: 4 }", "{ users: 4, generator: { name: k6, script: x.js } }"), tmp_path)


def test_a_feed_that_cannot_be_sent_is_refused_beforehand(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text("scenario: s\ntransactions: {}\nfeeds: { people: { csv: /etc/people.csv } }\n")
    with pytest.raises(UsageError, match=r"two\.yaml:3: .*feed people: /etc/people.csv cannot be sent"):
        plan(STUDY.replace("{ users: 4 }", f"{{ users: 4, scenario: {scenario} }}"), tmp_path)
