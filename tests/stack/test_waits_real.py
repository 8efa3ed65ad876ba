"""What transactions wait for, planted in the brokerage: each is named as the right part, in the code that waits."""

import json
from pathlib import Path

import pytest
from conftest import leadline
from witnesses import matrix

from leadline.host.java import find_java, java_home, java_homes
from leadline.model.frames import CONNECTION_WAIT, DATABASE_WAIT, LOCK_WAIT, SLEEP, STATEMENT_TIME

pytestmark = pytest.mark.stack

STUDY = """\
study: planted-waits
question: Where does what was planted show?
stack: { server: tomcat, mode: direct, java: JAVA }
workload: { users: 12, variables: { think: 100ms }, ramp_up: 3s, steady: STEADY, ramp_down: 1s }
factors: { FACTORS }
settings: { jvm.heap: 256m, database.commit_siblings: 0 }
profile: full
design: { replicates: 1, seed: 5, switchback: { slot: SLOT, wash_out: 2s } }
responses: [mean, p50, p99, connection_wait, statement_time]
"""
PLANTED = {  # the part, the code that waits, the least that a transaction then waits more, ms
    "app.extra_wait": (SLEEP, "ExtraCosts.pause", 18.0),
    "app.extra_lock": (LOCK_WAIT, "ExtraCosts.pay", 0.0),
    "database.commit_delay": (DATABASE_WAIT, "Transactions.run", 0.0),
    "server.datasource.max_connections": (CONNECTION_WAIT, "Transactions.run", 0.0),
}


@pytest.mark.parametrize(
    ("factors", "slot", "steady"),
    [
        ("app.extra_wait: [0, 20000], app.extra_lock: [0, 4000]", "5s", "60s"),
        pytest.param(
            "database.commit_delay: [0, 100000], server.datasource.max_connections: [12, 1]",
            "8s",
            "96s",
            marks=matrix("a pool and a database that change live take slots of 8 s"),
        ),
    ],
    ids=["sleep and lock", "commits and pool"],
)
def test_what_is_planted_is_named_as_the_right_part(tmp_path: Path, factors: str, slot: str, steady: str) -> None:
    java = next((home for home in java_homes() if home.jdk and home.major >= 25), java_home(find_java()))
    text = STUDY.replace("JAVA", str(java.path)).replace("FACTORS", factors)
    text = text.replace("STEADY", steady).replace("SLOT", slot)
    (tmp_path / "waits.yaml").write_text(text)
    done = leadline("run", "waits.yaml", "--json", cwd=tmp_path)
    assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
    document = json.loads(done.stdout)
    (trial,) = document["trials"]
    assert trial["state"] == "done", trial["failure_message"]
    measured = [slot["responses"] for slot in trial["slots"] if slot["responses"]]
    assert all("statement_time" in responses and "driver_wait" in responses for responses in measured)
    shown = leadline("show", "planted-waits", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    waits = document["analysis"]["waits"]
    levels = [level for level in waits["levels"] if level["response"] == "mean"] if waits else []
    for level in waits["levels"] if waits else ():
        if level["response"] == STATEMENT_TIME:
            print(level["answer"])
            texts = [path["path"][1] for path in level["paths"] if len(path["path"]) > 1]
            assert any("quote" in text.lower() for text in texts), texts
    if not levels:
        pytest.skip("host: a busy neighbour left too few slots of a level")
    for level in levels:
        print(level["answer"])
        part, code, least = PLANTED[level["factor"]]
        change = {tuple(path["path"]): path["change"] for path in level["paths"]}
        assert change[part,] > least, level["answer"]
        assert change[part, code] > least, level["answer"]
        parts = sum(path["change"] for path in level["paths"] if len(path["path"]) == 1)
        assert parts + level["rest"] == pytest.approx(level["total"]["change"])
