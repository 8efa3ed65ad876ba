"""Duets: plans, what is refused, the life of a pair on a fake host and system, and where its figures come from."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab_fakes import HEAP, POOL, STATEMENTS, FakeHost, FakeSystem, failing
from test_lab_rotation import run as run_study

from leadline.analysis import analyse
from leadline.design import check_plan, plan_from_json, plan_to_json
from leadline.design.rotation import blocks_of
from leadline.host.affinity import confine, halves
from leadline.lab.machine import few_cpus
from leadline.lab.planning import plan_study
from leadline.lab.rotation import HALF
from leadline.lab.studyfile import parse_study
from leadline.model.errors import FailureClass, UsageError
from leadline.model.plan import Plan, stretches
from leadline.simulate import parse_truth, simulate_observations

STUDY = """\
study: pair
question: does it?
workload: { users: 5, ramp_up: 9s, steady: 41s }
factors:
  server.pool: [10, 2]
settings: { jvm.heap: 256m }
design: { replicates: 4, duet: { slot: 5s, wash_out: 2s } }
responses: [throughput]
"""
THREE = STUDY.replace("[10, 2]", "[10, 2, 4]")
LIVE = STUDY.replace("server.pool: [10, 2]", "server.statements: [10, 0]")
BOTH = STUDY.replace("[10, 2]", "[10, 2]\n  server.statements: [10, 0]")
KNOBS = [POOL, HEAP, STATEMENTS]


def plan_of(text: str = STUDY) -> Plan:
    return plan_study(parse_study(text, "pair.yaml"), FakeHost(), KNOBS).plan


@pytest.mark.parametrize(("text", "pairs", "slots"), [(STUDY, 4, 0), (THREE, 8, 0), (LIVE, 2, 8), (BOTH, 4, 8)])
def test_pairs_have_load_at_the_same_time_on_different_halves_and_change_them(
    text: str, pairs: int, slots: int
) -> None:
    plan = plan_of(text)
    check_plan(plan)
    assert plan_from_json(plan_to_json(plan)) == plan
    assert plan.duet
    assert len(blocks_of(plan)) == pairs
    for one, other in blocks_of(plan):
        assert [(turn.begin, turn.seconds) for turn in one.turns] == [
            (turn.begin, turn.seconds) for turn in other.turns
        ]
        assert [1 - half for half in one.halves] == list(other.halves)
        assert set(Counter(one.halves).values()) == {len(one.halves) // 2}
        assert stretches(one.turns) == [(0.0, 49.0)]
        assert len(one.slots) == len(other.slots) == slots
        for mine, theirs in zip(one.slots, other.slots, strict=True):
            assert mine.treatment["server.statements"] != theirs.treatment["server.statements"]
        met = Counter((slot.treatment.key, half) for slot, half in zip(one.slots, one.halves, strict=False))
        assert len(set(met.values())) <= 1  # each level as often on each half
    assert f"Duet: {pairs} pairs of instances" in plan.notes[0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("replicates: 4", "replicates: 1", "pair.yaml:7: design.duet: one instance of a treatment cannot be told"),
        ("slot: 5s", "slot: 4500ms", "pair.yaml:7: design.duet.slot is 4.5s, but responses are kept for whole"),
        ("wash_out: 2s", "wash_out: 5s", "wash_out 5s leaves no whole second of a slot of 5s; say 4s or less"),
        ("steady: 41s", "steady: 5s", "pair.yaml:3: workload.steady of 5s is too short for 2 slots, as many on each"),
        ("users: 5", "profile: '0s:1,9s:5'", "workload.profile: the load of design.duet comes in slots"),
        ("4, duet", "4, rotation: {}, duet", "design.rotation and design.duet are two layouts; keep one"),
        ("4, duet", "4, switchback: { slot: 5s }, duet", "design.duet and design.switchback are two layouts"),
        ("4, duet", "4, blocks: incomplete, block_size: 3, duet", "block_size is 3, but the machine has two halves"),
        ("server.pool: [10, 2]", "vm.fake_live: [10, 20]", "pair.yaml:5: vm.fake_live is of the whole host: its"),
        ("256m", "4g", "pair.yaml:7: 2 instances at once need about 9g of memory"),
        ("design:", "reset: { database: keep }\ndesign:", "instances side by side have data of their own"),
        ("design:", "placement: { server_cpus: '0' }\ndesign:", "design.duet gives each instance half of the CPUs"),
        ("design:", "drivers: [local]\ndesign:", "instances side by side have a driver each: leave drivers out"),
    ],
)
def test_what_cannot_be_a_duet_is_refused_with_file_and_line(old: str, new: str, words: str) -> None:
    assert old in STUDY
    with pytest.raises(UsageError) as error:
        plan_of(STUDY.replace(old, new))
    assert words in str(error.value)


def test_an_odd_number_of_instances_that_are_alike_makes_no_pairs() -> None:
    with pytest.raises(UsageError, match="an even number of replicates"):
        plan_of(LIVE.replace("replicates: 4", "replicates: 3"))


def test_few_cpus_are_said_and_what_to_take_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    assert few_cpus(4) == ""
    assert "Few CPUs" not in "".join(plan_of().notes)
    monkeypatch.setattr(FakeHost, "cpus", lambda _: range(2))
    assert "Few CPUs: this machine has 2 CPUs, a duet wants 4 or more" in plan_of().notes[-1]
    monkeypatch.setattr(FakeHost, "cpus", lambda _: range(1))
    with pytest.raises(UsageError, match=r"pair\.yaml:7: this machine has 1 CPU, .*take design\.rotation"):
        plan_of()


def test_instances_take_their_halves_when_the_load_begins_and_change_them_half_way(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), effect=lambda s, _h: 100.0 + int(s["server.statements"]))
    result, store = run_study(tmp_path, system, BOTH)
    record = store.load(result.study_id)
    assert result.complete
    for trial in record.trials:
        assert trial.state == "done", trial.failure_message
        first = trial.planned.halves[0]
        told = [step.detail for step in trial.steps if step.name == HALF]
        assert [detail.partition(",")[0] for detail in told] == [f"CPUs {2 * half}" for half in (first, 1 - first)]
        assert not any(audit.name == "idle-instances" for audit in trial.audits)
        for slot in trial.slots:
            assert slot.found == {"server.statements": slot.treatment["server.statements"]}
            assert slot.responses["throughput"] == 100.0 + int(slot.treatment["server.statements"])


def test_an_instance_that_cannot_be_moved_voids_its_pair(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), fail=failing("half 1", FailureClass.INFRASTRUCTURE))
    result, _ = run_study(tmp_path, system, STUDY)
    assert "failed as infrastructure" in result.stopped


def test_whoever_was_left_alone_does_not_count() -> None:
    plan = plan_of(THREE)
    text = "truth: { effects: [{ when: { server.pool: 2 }, percent: { throughput: 10% } }] }"
    workload = parse_study(THREE, "pair.yaml").study.workload
    seen = simulate_observations(plan, parse_truth(text, "truth"), workload)
    gone = next(one for one in seen if one.treatment["server.pool"] == 2)
    partner = next(one for one in seen if one.block == gone.block and one is not gone)
    failed = replace(gone, failure=FailureClass.WORKLOAD, responses={})
    strange = replace(partner, responses={"throughput": 1e6})
    changed = {gone.trial: failed, partner.trial: strange}
    found = analyse(plan, [changed.get(one.trial, one) for one in seen], ["throughput"])
    effects = {effect.level: effect.percent for effect in found.responses[0].effects}
    assert effects[2] == pytest.approx(10, abs=12)
    assert abs(effects[4]) < 12


@pytest.mark.parametrize(
    ("usable", "siblings", "packages", "wanted"),
    [
        (range(8), lambda cpu: cpu % 4, lambda _: 0, ((0, 1, 4, 5), (2, 3, 6, 7))),
        (range(8), lambda cpu: cpu, lambda cpu: cpu % 2, ((0, 2, 4, 6), (1, 3, 5, 7))),
        (range(5), lambda cpu: cpu, lambda _: 0, ((0, 1), (2, 3))),
        ((0, 4), lambda _: 0, lambda _: 0, ((0,), (4,))),
        ((3,), lambda cpu: cpu, lambda _: 0, ((), ())),
    ],
)
def test_halves_keep_cores_and_sockets_whole(
    usable: Any, siblings: Callable[[int], int], packages: Callable[[int], int], wanted: Any
) -> None:
    class FakeFiles:
        def read(self, path: str | Path) -> str:
            cpu = int(Path(path).parts[-3].removeprefix("cpu"))
            return f"{(packages if 'package' in str(path) else siblings)(cpu)}\n"

    assert halves(list(usable), FakeFiles()) == wanted  # type: ignore[arg-type]


def test_every_thread_of_a_process_is_moved() -> None:
    code = """if True:
        import threading, time
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        print(1, flush=True)
        time.sleep(60)
    """
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        cpu = max(os.sched_getaffinity(0))
        confine(lambda: [child.pid], [cpu])
        threads = [int(entry.name) for entry in Path(f"/proc/{child.pid}/task").iterdir()]
        assert len(threads) == 2
        assert all(os.sched_getaffinity(thread) == {cpu} for thread in threads)
    finally:
        child.kill()
        child.wait()
