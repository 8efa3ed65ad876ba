"""The panel of sizes: diminishing returns and the heap table of a study whose truth is planted."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from report_fixture import T0

from leadline.design.make import make_plan
from leadline.experiments.results import analysis_of
from leadline.model.plan import Factor
from leadline.model.record import Phases, StudyRecord, TrialRecord
from leadline.model.study import Study
from leadline.report import page, view
from leadline.report.sizes import Sizes, sizes

MIB = 1 << 20
LIVE, ALLOCATED = 24.0, 200.0  # MiB, MiB/s
PAUSE_MS = 10.0
STEADY = 30.0
TRUTH = {64: 0.85, 128: 0.93, 256: 0.995, 512: 1.0}  # throughput by MiB of heap
COST = {"parallel": 1.0, "serial": 0.9}


def log(heap: int) -> str:
    """A collection whenever what is allocated fills what the live set leaves of the heap."""
    rows, at, number = [], 0.0, 0
    interval = (heap - LIVE) / ALLOCATED

    def line(seconds: float, tag: str, text: str) -> str:
        wall = datetime.fromtimestamp(T0 - 5 + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        return f"[{seconds:.3f}s][{wall}+0000][info][{tag}] {text}"

    rows.append(line(0.001, "gc", "Using Parallel"))
    rows.append(line(0.002, "gc,init", f"Heap Max Capacity: {heap}M"))
    while at < STEADY + 10:
        at += interval + PAUSE_MS / 1000
        sizes_text = f"{heap}M->{LIVE:.0f}M({heap}M)"
        rows.append(line(at, "gc", f"GC({number}) Pause Full (Ergonomics) {sizes_text} {PAUSE_MS:.3f}ms"))
        number += 1
    return "\n".join(rows) + "\n"


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> StudyRecord:
    lab = tmp_path_factory.mktemp("lab")
    rng = np.random.default_rng(11)
    study = Study.model_validate(
        {
            "study": "heap",
            "question": "How large a heap pays?",
            "workload": {"users": 40},
            "factors": {"jvm.heap": ["128m", "64m", "256m", "512m"], "jvm.collector": ["parallel", "serial"]},
            "design": {"kind": "full-factorial", "replicates": 4, "sentinels": None},
            "responses": ["throughput", "p99"],
        }
    )
    heaps = tuple(size * MIB for size in (128, 64, 256, 512))
    factors = [Factor("jvm.heap", heaps, heaps[0]), Factor("jvm.collector", tuple(COST), "parallel")]
    plan = make_plan(factors, study.design)
    trials = []
    for planned in plan.trials:
        heap = int(planned.treatment["jvm.heap"]) // MIB
        directory = lab / "trials" / str(planned.position)
        (directory / "raw").mkdir(parents=True)
        (directory / "raw" / "gc.log").write_text(log(heap))
        ratio = TRUTH[heap] * COST[str(planned.treatment["jvm.collector"])]
        responses = {
            "throughput": 500 * ratio * float(rng.normal(1, 0.003)),
            "p99": 20 / ratio * float(rng.normal(1, 0.003)),
        }
        phases = Phases(T0, T0, T0 + STEADY, T0 + STEADY)
        trials.append(
            TrialRecord(
                planned.position + 1,
                planned,
                "done",
                1,
                T0 + 100 * planned.position,
                T0 + 100 * planned.position + 60,
                responses=responses,
                phases=phases,
                directory=directory,
            )
        )
    return StudyRecord(1, study, "", plan, T0, {}, tuple(trials))


@pytest.fixture(scope="module")
def content(record: StudyRecord) -> view.View:
    return view.gather(record, analysis_of(record), figures=False)


def panel(content: view.View) -> Sizes:
    assert content.sizes is not None
    return content.sizes


def test_the_point_of_diminishing_returns_is_found(content: view.View) -> None:
    found = {one.response: one for one in panel(content).returns if not one.under}
    assert len(panel(content).returns) == 6, "averaged, and under each of two collectors"
    assert set(found) == {"throughput", "p99"}, "words have no order: the collector has no panel"
    for one in found.values():
        assert one.best == 512 * MIB
        assert one.smallest == 256 * MIB
        assert "256m is the smallest level shown to be no more than 2 % worse than the best, 512m" in one.sentence


def test_the_heap_table_is_what_was_planted(content: view.View) -> None:
    heaps = panel(content).heaps
    assert heaps is not None
    assert [(row.heap, row.trials) for row in heaps.rows[:4]] == [("64m", 4), ("128m", 4), ("256m", 4), ("512m", 4)]
    assert {row.others for row in heaps.rows} == {"jvm.collector = parallel", "jvm.collector = serial"}
    for row, heap in zip(heaps.rows[:4], TRUTH, strict=True):
        interval = (heap - LIVE) / ALLOCATED
        assert row.interval_s == pytest.approx(interval, rel=0.02)
        assert row.pause_ms == pytest.approx(PAUSE_MS)
        assert row.share_cycle == pytest.approx(0.01 / (0.01 + interval), rel=0.02)
        assert row.live == pytest.approx(LIVE * MIB)


def test_the_line_through_the_sizes_gives_live_set_and_allocation_back(content: view.View) -> None:
    heaps = panel(content).heaps
    assert heaps is not None
    assert len(heaps.lines) == 2
    _, line = heaps.lines[0]
    assert line.live == pytest.approx(LIVE * MIB, rel=0.02)
    assert line.allocation == pytest.approx(ALLOCATED * MIB, rel=0.02)
    assert "heap = 24" in heaps.sentences()[0]


def test_the_page_shows_both(content: view.View) -> None:
    text = page.render(content)
    assert '<h2 id="sizes">' in text
    assert "smallest that is" in text
    assert "The collector at each heap" in text
    assert 'href="#sizes"' in text


def test_advice_on_the_small_heap_goes_with_the_same_law(content: view.View) -> None:
    """At 64 MiB 0.2 s of allocation lie between pauses of 10 ms: 4.8 %, below the rule; half of that heap is not."""
    assert not [one for one in content.advice.findings if one.rule == "jvm.heap"]


def test_a_study_of_several_looks_has_no_panel(record: StudyRecord) -> None:
    design = record.study.design.model_copy(update={"looks": 2})
    looked = replace(record, study=record.study.model_copy(update={"design": design}))
    assert sizes(looked, ()) is None


def test_a_study_without_sizes_has_no_panel(record: StudyRecord, tmp_path: Path) -> None:
    plan = replace(record.plan, factors=record.plan.factors[1:])
    assert sizes(replace(record, plan=plan), ()) is None
