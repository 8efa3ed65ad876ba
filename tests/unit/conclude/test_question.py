"""The first sentence of an answer: plain words for the question that factors and design ask, on planted studies."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from planted_study import CACHE, COLLECTOR, HEAP, NOISY, POOL, QUIET, VERSION, planted

from leadline.conclude.question import Asked, Question, plain_names, question_of, ranking
from leadline.model.knob import Level
from leadline.model.plan import Factor
from leadline.model.result import Verdict


@pytest.mark.parametrize(
    ("name", "levels", "question"),
    [
        (POOL, (10, 5, 20), Question.HOW_LARGE),
        (HEAP, (2**28, 2**29, 2**30), Question.HOW_LARGE),
        (COLLECTOR, ("g1", "serial", "zgc"), Question.WHICH_OF),
        (POOL, (10, 20), Question.DOES_IT_MATTER),
        ("jvm.compressed_oops", (True, False), Question.DOES_IT_MATTER),
        (VERSION, ("2.0", "2.1"), Question.DID_IT_CHANGE),
        ("host", ("before", "after"), Question.DID_IT_CHANGE),
        ("load.users", (10, 20, 40), Question.HOW_FAR),
    ],
)
def test_the_question_follows_from_name_and_levels(name: str, levels: tuple[Level, ...], question: Question) -> None:
    assert question_of(Factor(name, levels, levels[0])) is question


@pytest.mark.parametrize(
    ("names", "plain"),
    [
        (["server.threads.max", "jvm.heap"], ["threads", "heap"]),
        (["server.threads.max", "server.threads.min"], ["max threads", "min threads"]),
        (["server.threads.max", "load.threads"], ["max threads", "threads"]),
        (
            ["server.datasource.max_connections", "web.max_connections"],
            ["server.datasource.max_connections", "web.max_connections"],
        ),
    ],
)
def test_a_factor_is_called_by_its_shortest_name_that_is_no_other_ones(names: list[str], plain: list[str]) -> None:
    assert list(plain_names([Factor(name, (1, 2), 1) for name in names]).values()) == plain


@pytest.mark.parametrize(
    ("factor", "effects", "noise", "head"),
    [
        (
            *(POOL, "5: throughput -12%, p99 30%", QUIET),
            "10 connections are enough: fewer hurt throughput (5: −12 %), more gain nothing (throughput and the p99 "
            "response time within 2 %).",
        ),
        (
            *(POOL, "5: throughput -12%; 70: p99 40%", QUIET),
            "10 connections are enough: fewer hurt throughput (5: −12 %), more gain nothing (throughput and the p99 "
            "response time within 2 %), and hurt the p99 response time (70: +41 %).",
        ),
        (
            *(POOL, "5: throughput -12%, p99 30%", "trials: 2%, latency_trials: 5%"),
            "5 connections are too few: they hurt throughput (5: −12 %); which of 10, 20 and 70 is enough is not "
            "known: 10 lose at most 6.6 % of throughput.",
        ),
        (POOL, "", QUIET, "5 connections are enough: fewer were not tried, more gain nothing (throughput within 2 %)."),
        (POOL, "", NOISY, "Not known: how many connections are enough."),
        (
            *(POOL, "5: throughput -10%; 20: throughput 8%; 70: throughput 14%", QUIET),
            "70 connections are the best of those tried: fewer hurt throughput (5: −21 %, 10: −12 %, 20: −5.1 %), and "
            "more may gain yet.",
        ),
        (
            *(HEAP, "256m: throughput -10%", QUIET),
            "A heap of 512m is enough: less hurts throughput (256m: −9.7 %), more gains nothing (throughput within "
            "2 %).",
        ),
        (
            *(COLLECTOR, "serial: throughput -12%; zgc: throughput -8%, p99 -40%", QUIET),
            "No collector is best for everything: throughput is best with g1 or parallel and the p99 response time is "
            "best with zgc.",
        ),
        (
            *(COLLECTOR, "parallel: throughput -6%; serial: throughput -12%; zgc: throughput -8%", QUIET),
            "The best collector is g1: the others hurt throughput (parallel: −5.8 %, serial: −12 %, zgc: −8.0 %).",
        ),
        (COLLECTOR, "", NOISY, "Not known: which collector is best."),
        (
            *(CACHE, "0: p50 46%", QUIET),
            "Statement cache 0 instead of 60 hurts: the median response time is 46 % longer (8.22 instead of 5.63 ms).",
        ),
        (CACHE, "", QUIET, "Statement cache 0 instead of 60 makes no difference (within 2 %)."),
        (CACHE, "", NOISY, "Not known: whether statement cache 0 instead of 60 matters."),
        (
            *(VERSION, "'2.1': throughput -9%", QUIET),
            "Version 2.1 is worse than 2.0: throughput is 8.9 % lower (333 instead of 366 transactions/s).",
        ),
        (VERSION, "", NOISY, "Not known: whether version 2.1 differs from 2.0."),
    ],
)
def test_the_first_sentence_answers_in_plain_words(factor: str, effects: str, noise: str, head: str) -> None:
    _, found = planted(factor, effects, noise)
    assert found.headline == head
    assert found.answer.startswith(head)


def test_the_best_level_may_have_none() -> None:
    """A pool of one: so few transactions that nothing was collected."""
    record, found = planted(POOL, "5: throughput 12%", QUIET)
    factor = next(factor for factor in record.plan.factors if factor.name == POOL)
    (response, *_) = found.responses
    effects = [
        replace(effect, percent=-100.0, verdict=Verdict.BETTER) if effect.level == 5 else effect
        for effect in response.effects
    ]
    order = ranking(replace(response, effects=effects), factor, None, lambda _: True)
    assert (order.best, order.short) == (5, {factor.baseline: math.inf})
    asked = Asked(factor, "connections", (order,), lambda _, level: str(level))
    assert asked.costs([factor.baseline]) == "hurt throughput (10: up from none)"


def test_of_a_study_looked_at_more_than_once_only_its_own_intervals_count() -> None:
    design = "replicates: 6, looks: 2, sentinels: null, seed: 3"
    _, found = planted(POOL, "5: throughput -12%", QUIET, design)
    assert "5 connections are too few" in found.headline or "10 connections are enough" in found.headline
    assert found.responses[0].effects[-1].level == 5
