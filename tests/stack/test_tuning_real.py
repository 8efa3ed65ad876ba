"""A tuning on a real server: what does not start is told in the server's own words."""

import json
from pathlib import Path

import pytest
from conftest import leadline
from witnesses import matrix

pytestmark = pytest.mark.stack

TUNING = """\
tuning: tiny
question: Does a heap of two megabytes do?
stack: { server: tomcat }
modes: [direct]
workload: { users: 4, variables: { think: 20ms }, ramp_up: 1s, steady: 3s, ramp_down: 0s }
steps:
  - { name: heap, levels: { jvm.heap: [256m, 2m] } }
blocks: { step: 2, confirm: 0, compare: 2 }
responses: [throughput, p99]
observe: false
"""


@matrix("a tuning of a real server")
def test_a_real_tuning_keeps_nothing_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("LEADLINE_LAB", str(tmp_path / """a "läb", it's 50%"""))  # no server takes such a path
    (tmp_path / "tiny.yaml").write_text(TUNING)
    done = leadline("run", "tiny.yaml", "--json", cwd=tmp_path)
    assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
    told = json.loads(done.stdout)
    assert told["run"]["complete"]
    assert told["kept"] == {"direct": {}}
    (decision,) = told["decisions"]
    assert decision["reason"] == "2 of its 2 trials failed (configuration)"
    assert decision["tried"][0]["verdict"] == "failed"
    assert [one["trials"] for one in told["failures"]] == [2]
    assert "Tomcat ended with exit code 1" in told["failures"][0]["failure"]
    assert [one["study"] for one in told["studies"]] == ["tiny-heap"]
    assert Path(told["run"]["report"]).stat().st_size > 100_000
    shown = leadline("show", "tiny-heap", "--json", cwd=tmp_path)
    trials = json.loads(shown.stdout)["trials"]
    assert [trial["state"] for trial in trials].count("done") == 2
    assert all(trial["responses"]["throughput"] > 10 for trial in trials if trial["state"] == "done")
