"""Where a study's change of CPU lies: layers of stacks, blocks, closure, what profiling costs."""

from dataclasses import replace

import numpy as np
import pytest

from leadline.conclude.explanation import ProfiledPart, explain, layered, profiling_cost
from leadline.model.frames import StudyProfile
from leadline.model.naming import plain_level
from leadline.model.plan import Factor, Plan, Role, Treatment
from leadline.model.result import Observation

LOOP = "java.lang.Thread.run;org.apache.tomcat.util.net.Endpoint.run"
QUERY, PREPARE = "org.postgresql.jdbc.PgStatement.execute", "org.postgresql.jdbc.PgConnection.prepare"
STACKS = {
    f"{LOOP};app.Orders.buy;app.Dao.save;{QUERY};java.net.Socket.write": 30.0,
    f"{LOOP};app.Orders.list;app.Dao.find;{QUERY};java.net.Socket.write": 30.0,
    f"{LOOP};app.Orders.list;java.util.HashMap.get": 20.0,
    LOOP: 20.0,
}
FACTOR = Factor("cache", (60, 0), 60)


@pytest.mark.parametrize(
    ("stack", "by_layer"),
    [
        (f"{LOOP};app.A.b;{QUERY};java.util.Map.get", f"JDBC driver;{QUERY};java.util.Map.get"),
        (f"{LOOP};app.A.b;java.util.Map.get", "application;app.A.b;java.util.Map.get"),
        (f"{LOOP};app.A.b;org.apache.tomcat.dbcp.Pool.take", "server;org.apache.tomcat.dbcp.Pool.take"),
        ("java.lang.Thread.run;java.util.Timer.run", "JDK;java.lang.Thread.run;java.util.Timer.run"),
        ("(no stack)", "JVM code"),
    ],
)
def test_a_stack_begins_with_its_last_layer(stack: str, by_layer: str) -> None:
    assert layered(stack) == by_layer


def _observation(trial: int, level: int, cpu: dict[str, float], slot: int | None = None) -> Observation:
    return Observation(
        trial=trial,
        position=trial,
        block=trial // 2 if slot is None else 0,
        replicate=trial,
        role=Role.TREATMENT,
        treatment=Treatment.of({"cache": level}),
        started=0.0,
        responses={"throughput": 100.0, **{f"{name}cpu_per_transaction": ms for name, ms in cpu.items()}},
        slot=slot,
        seconds=4.0,
    )


def _study(slots: int, trials: int = 6, more: float = 0.0) -> tuple[list[Observation], dict]:  # type: ignore[type-arg]
    """Slots of every second trial, or trials, alternate in level; the second level prepares statements for ``more`` ms
    and has its database parse for 0.2 ms where it does.
    """
    rng, observations, profiles = np.random.default_rng(4), [], {}
    for trial in range(trials):
        for slot in range(slots) if slots else (None,):
            treated = bool((trial if slot is None else slot) % 2)
            extra, noise = more * treated, float(rng.normal(1, 0.01))
            cpu = {"application_": (2 + extra) * noise, "collector_": 0.2, "compiler_": 0.1}
            cpu["server_"] = sum(cpu.values()) + 0.05
            cpu["database_"] = 1 + 0.2 * (extra > 0)
            observations.append(
                _observation(trial, 0 if treated else 60, cpu | {"": cpu["server_"] + cpu["database_"]}, slot)
            )
            stacks = {stack: float(rng.poisson(10 * samples)) for stack, samples in STACKS.items()}
            stacks[f"{LOOP};app.Orders.buy;app.Dao.save;{PREPARE}"] = float(rng.poisson(1000 * extra / 2))
            profiles[trial, slot] = stacks
    return observations, profiles


def _explained(slots: int, **options: float) -> StudyProfile:
    observations, profiles = _study(slots, **options)  # type: ignore[arg-type]
    profile = explain(Plan("one-at-a-time", 1, (FACTOR,), ()), observations, profiles, plain_level)
    assert profile is not None
    return profile


@pytest.mark.parametrize(("slots", "blocks"), [(4, 6), (0, 3)], ids=["within instances", "within blocks"])
def test_a_planted_cost_is_named_with_its_layer_and_all_changes_sum_to_the_totals(slots: int, blocks: int) -> None:
    profile = _explained(slots, more=0.6)
    (level,) = profile.levels
    assert profile.compiled == (not slots), "compilation is in the total of whole trials"
    assert level.effects.blocks == blocks
    assert level.effects.total.change * level.ms == pytest.approx(0.8, abs=0.06)
    assert level.sentence.startswith("cache=0: +0.")
    assert "% in PgConnection.prepare and below (JDBC driver)" in level.sentence
    assert "% in the database" in level.sentence
    layers = [effect for effect in level.effects.paths if len(effect.path) == 1]
    assert sum(layer.change for layer in layers) == pytest.approx(level.effects.total.change)
    own = sum(method.change for method in level.effects.methods) + level.effects.rest
    assert own == pytest.approx(level.effects.total.change)


def test_what_a_warm_up_left_to_compile_widens_no_interval_of_a_live_level() -> None:
    observations, profiles = _study(4, more=0.6)
    busy = []
    for one, more in zip(observations, np.random.default_rng(1).exponential(1.0, len(observations)), strict=True):
        kinds = ("compiler_cpu_per_transaction", "server_cpu_per_transaction", "cpu_per_transaction")
        busy.append(replace(one, responses=one.responses | {kind: one.responses[kind] + more for kind in kinds}))
    plan = Plan("one-at-a-time", 1, (FACTOR,), ())
    quiet, noisy = (explain(plan, rows, profiles, plain_level) for rows in (observations, busy))
    assert quiet is not None
    assert noisy is not None
    changes = [profile.levels[0].effects.total for profile in (quiet, noisy)]
    assert changes[1].interval.low == pytest.approx(changes[0].interval.low)
    assert "the JIT compiler's CPU is left out" in noisy.notes[-1]


def test_one_instance_is_compared_by_its_slots() -> None:
    (level,) = _explained(8, trials=1, more=0.6).levels
    assert level.effects.recordings == (4, 4)
    assert "PgConnection.prepare" in level.sentence


def test_nothing_is_named_where_nothing_changes() -> None:
    (level,) = _explained(4).levels
    assert level.effects.named == ()


def test_a_study_without_samples_has_no_profile() -> None:
    observations, _ = _study(4)
    assert explain(Plan("one-at-a-time", 1, (FACTOR,), ()), observations, {}, plain_level) is None


def test_what_profiles_cost_is_told_whatever_levels_do() -> None:
    observations, profiles = _study(4, trials=8, more=1.0)
    chosen = frozenset(place for place in profiles if (place[0] + place[1] // 2) % 2)
    dearer = []
    for one in observations:
        cost = 1.02 if (one.trial, one.slot) in chosen else 1.0
        cpu = cost * one.responses["cpu_per_transaction"]
        dearer.append(_observation(one.trial, int(one.treatment["cache"]), {"": cpu}, one.slot))
    found = profiling_cost(dearer, chosen)
    assert found is not None
    percent, interval = found
    assert interval.low < 2.0 < interval.high
    assert percent == pytest.approx(2.0, abs=0.7)
    assert profiling_cost(observations, frozenset(profiles)) is None, "none was without"


def test_of_trials_with_a_profile_in_their_middle_the_cost_is_that_of_the_middle_against_the_rest() -> None:
    observations, profiles = _study(0, trials=6, more=0.6)
    plan = Plan("one-at-a-time", 1, (FACTOR,), ())
    whole = explain(plan, observations, profiles, plain_level)
    costs = np.random.default_rng(2).normal(0.02, 0.005, len(profiles))
    parts = {place: ProfiledPart(2.0, cost) for place, cost in zip(profiles, costs, strict=True)}
    halved = {place: {stack: n / 2 for stack, n in stacks.items()} for place, stacks in profiles.items()}
    profile = explain(plan, observations, halved, plain_level, parts=parts)
    assert whole is not None
    assert profile is not None
    assert profile.levels[0].ms == pytest.approx(whole.levels[0].ms), "of CPU between two samples"
    assert profile.levels[0].effects.total.change == pytest.approx(whole.levels[0].effects.total.change)
    assert profile.cost == pytest.approx(2.0, abs=0.5)
    assert profile.interval is not None
    assert profile.interval.low < 2.0 < profile.interval.high
    assert "the middle half of every trial" in profile.notes[0]
    unknown = explain(plan, observations, halved, plain_level, parts={place: ProfiledPart(4.0) for place in profiles})
    assert unknown is not None
    assert unknown.cost is None
    assert "is not known here" in unknown.notes[0]


def test_missing_samples_are_told() -> None:
    observations, profiles = _study(4)
    plan = Plan("one-at-a-time", 1, (FACTOR,), ())
    sparse, dense = (explain(plan, observations, profiles, plain_level, asked) for asked in (0.01, 1000.0))
    assert sparse is not None
    assert dense is not None
    assert "ms of CPU, 0.01 were asked for" in sparse.notes[-1]
    assert len(dense.notes) == 2


def test_the_databases_cpu_is_shared_out_over_its_statements() -> None:
    observations, profiles = _study(4, more=0.6)
    select, update = "SELECT a.b FROM a WHERE c = ?", "UPDATE a SET b = ?"
    statements = {}
    for one in observations:
        parsed = one.responses["database_cpu_per_transaction"] - 1
        statements[one.trial, one.slot] = {select: (100.0, 50.0 + 100 * parsed), update: (100.0, 50.0)}
    plan = Plan("one-at-a-time", 1, (FACTOR,), ())
    profile = explain(plan, observations, profiles, plain_level, statements=statements)
    assert profile is not None
    (level,) = profile.levels
    assert f"% in the database in {select}" in level.sentence
    paths = {effect.path: effect for effect in level.effects.paths}
    whole = paths["(database)",]
    assert whole.change == pytest.approx(sum(paths["(database)", text].change for text in (select, update)))
    assert whole.change * level.ms == pytest.approx(0.2)
    assert any("shared out over its statements" in note for note in profile.notes)
    shared = {place: {select: (100.0, 50.0), update: (100.0, 40.0)} for place in statements}
    together = explain(plan, observations, profiles, plain_level, statements=shared)
    assert together is not None
    assert f"% in the database (most in {select})" in together.levels[0].sentence
    few = dict(list(statements.items())[:3])
    assert explain(plan, observations, profiles, plain_level, statements=few) == explain(
        plan, observations, profiles, plain_level
    )
    late = dict(list(statements.items())[1:])
    without = {place: profiles[place] for place in late}
    some = explain(plan, observations, profiles, plain_level, statements=late)
    alone = explain(plan, observations, without, plain_level, statements=late)
    assert some is not None
    assert alone is not None
    assert some.levels == alone.levels, "a slot without statements is left out"
