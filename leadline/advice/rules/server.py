"""Pools of connections and threads, statement caches, connections of clients."""

from __future__ import annotations

from leadline.advice.facts import Pool, Statements, Threads, TrialFacts
from leadline.advice.look import Look, Rule, Sign, busy_note, number, percent, round_up, whole

FULL = 0.5  # share of samples with all in use, and callers waiting on average, from which a pool is starved
FEWEST = 4  # samples of the steady state
DISCARDED = 0.01  # share of the uses of a statement cache
FIRST_CACHE = 60  # statements a connection, where there was no cache
RESERVE = 5  # connections of the database kept for others
REOPENED = 0.05  # connections opened for each request
CHURN = 0.02  # connections opened for each request for one

CONNECTIONS = "server.datasource.max_connections"
KEPT = "server.datasource.min_connections"
STATEMENTS = "server.datasource.statement_cache"
THREADS = "server.threads.max"
SPARE = "server.threads.min"
KEEP_ALIVE = "server.http.max_keep_alive_requests"
DATABASE = "database.max_connections"
# The same in an application of one's own, by the names of its framework's properties.
POOLS = (CONNECTIONS, "app.spring.datasource.hikari.maximum-pool-size", "app.quarkus.datasource.jdbc.max-size")
WORKERS = (THREADS, "app.server.tomcat.threads.max", "app.quarkus.thread-pool.max-threads")


def _there(trial: TrialFacts, knobs: tuple[str, ...]) -> str:
    """The one that this stack has."""
    return next((name for name in knobs if name in trial.levels), knobs[0])


def pools(trial: TrialFacts) -> list[Look]:
    """Every connection in use and callers waiting, in at least half of the samples."""
    return [
        Look("server.pool", pool.subject, _there(trial, POOLS), int(pool.limit), _starved(pool, trial))
        for pool in trial.pools
        if pool.limit and pool.waiting_mean is not None and trial.samples >= FEWEST
    ]


def _starved(pool: Pool, trial: TrialFacts) -> Sign | None:
    limit, waiting, full = int(pool.limit or 0), pool.waiting_mean or 0.0, pool.full_share or 0.0
    if full < FULL or waiting < FULL:
        return None
    every = "the only connection was" if limit == 1 else f"all {limit} connections were"
    wait = "" if pool.wait_ms is None else f" {number(pool.wait_ms)} ms"
    says = f"{every} in use in {percent(full)} of the samples and {number(waiting)} callers waited{wait} on average"
    figures = {"in use": (pool.in_use_mean, "connections"), "full": (100 * full, "% of samples")}
    figures["waiting"] = (waiting, "callers")
    if pool.wait_ms is not None:
        figures["wait"] = (pool.wait_ms, "ms")
    want = limit + waiting
    reason = f"{number(limit)} in use and {number(waiting)} waiting want {number(want)} at once"
    workers = _there(trial, WORKERS)
    most = whole(trial, workers)
    if most is not None and most < want:
        want, reason = most, f"{reason}; no more than the {most} threads that serve requests can hold one"
    then = round_up(want)
    allowed = whole(trial, DATABASE)
    if allowed is not None and then > allowed - RESERVE:
        then = allowed - RESERVE
        reason += f"; the database allows {allowed}"
    reason += busy_note(trial)
    if then <= limit:
        remedy = f"the pool cannot grow: {reason}; raise {DATABASE} or {workers} first"
        return Sign(says, figures, waiting, remedy=remedy)
    return Sign(says, figures, waiting, then, reason)


def threads(trial: TrialFacts) -> list[Look]:
    """Every thread busy and work queued; for a server that starts threads by its own choice, requests without one."""
    looks = []
    for thread in trial.threads:
        if trial.samples < FEWEST or thread.busy_share is None:
            continue
        if thread.limit and thread.queue_mean is not None:
            looks.append(
                Look(
                    "server.threads",
                    thread.subject,
                    _there(trial, WORKERS),
                    int(thread.limit),
                    _exhausted(thread, trial),
                )
            )
        elif not thread.limit and thread.size_mean and trial.load.in_flight_mean is not None:
            looks.append(Look("server.executor", thread.subject, SPARE, whole(trial, SPARE), _too_slow(thread, trial)))
    return looks


def _exhausted(one: Threads, trial: TrialFacts) -> Sign | None:
    limit, queue, busy = int(one.limit or 0), one.queue_mean or 0.0, one.busy_share or 0.0
    if busy < FULL or queue < FULL:
        return None
    says = f"all {limit} threads were busy in {percent(busy)} of the samples and {number(queue)} requests queued"
    figures = {"busy": (100 * busy, "% of samples"), "queued": (queue, "requests")}
    reason = f"{limit} served and {number(queue)} queued want {number(limit + queue)} threads at once"
    return Sign(says, figures, queue, round_up(limit + queue), reason + busy_note(trial))


def _too_slow(one: Threads, trial: TrialFacts) -> Sign | None:
    flying, size = trial.load.in_flight_mean or 0.0, one.size_mean or 0.0
    without = flying - one.active_mean
    idle = trial.host.idle
    if (one.busy_share or 0) < FULL or without < max(1.0, 0.25 * flying) or (idle is not None and idle < 0.1):
        return None
    limit = whole(trial, THREADS)
    says = (
        f"all of its {number(size)} threads were busy in {percent(one.busy_share or 0)} of the samples, and "
        f"{number(without)} of {number(flying)} transactions in flight had none"
    )
    figures = {"threads": (size, "threads"), "in flight": (flying, "transactions"), "without": (without, "requests")}
    then = round_up(flying)
    if limit is not None and then > limit:
        return Sign(says, figures, without, remedy=f"raise {THREADS}, now {limit}, to {then}")
    reason = f"a thread for each of {number(flying)} transactions in flight; the server starts them one by one"
    return Sign(says, figures, without, then, reason, start=round(size))


def statements(trial: TrialFacts) -> list[Look]:
    """Statements thrown out of a cache that is too small, or no cache at all."""
    now = whole(trial, STATEMENTS)
    if now == 0:
        requests_per_s = trial.pools[0].requests_per_s if trial.pools else None
        rate, what = (requests_per_s, "connections asked for") if requests_per_s else (trial.load.per_s, "transactions")
        return [Look("server.statements", "statement cache", STATEMENTS, 0, _no_cache(rate, what))] if rate else []
    return [
        Look("server.statements", statement.subject, STATEMENTS, now, _discards(statement, now))
        for statement in trial.statements
        if statement.discarded_per_s is not None
    ]


def _no_cache(rate: float, what: str) -> Sign:
    says = f"no statement is kept, so each is prepared anew; {what} a second: {number(rate)}"
    reason = "a cache saves preparing what was prepared before, as long as the different statements fit"
    return Sign(says, {what: (rate, "a second")}, rate, FIRST_CACHE, reason)


def _discards(one: Statements, now: int | None) -> Sign | None:
    discarded, uses = one.discarded_per_s or 0.0, one.uses_per_s
    if discarded < 1 or (uses is not None and discarded < DISCARDED * uses):
        return None
    of = "" if uses is None else f", {percent(discarded / uses)} of {number(uses)} uses a second"
    figures = {"discarded": (discarded, "statements/s")}
    if uses is not None:
        figures["used"] = (uses, "statements/s")
    says = f"{number(discarded)} statements a second were thrown out of the cache{of}"
    if now is None:
        return Sign(says, figures, discarded, remedy=f"raise {STATEMENTS} until none is thrown out")
    reason = "how many different statements there are is not known: four times the cache, the aim is no discards"
    return Sign(says, figures, discarded, round_up(4 * now), reason)


def churn(trial: TrialFacts) -> list[Look]:
    """Connections of the pool opened again and again in the steady state."""
    looks = []
    for pool in trial.pools:
        if pool.created_per_s is None or not pool.requests_per_s or not pool.limit:
            continue
        sign, now = None, whole(trial, KEPT)
        often = pool.created_per_s / pool.requests_per_s
        if often >= CHURN and pool.created_per_s >= 0.5:
            says = f"{number(pool.created_per_s)} connections a second were opened, {percent(often)} of the requests"
            figures = {"opened": (pool.created_per_s, "connections/s")}
            then = min(int(pool.limit), round_up(pool.in_use_max))
            reason = f"as many are kept as were in use at most, {number(pool.in_use_max)}"
            sign = Sign(says, figures, often, then, reason) if now is None or then > now else None
        looks.append(Look("server.churn", pool.subject, KEPT, now, sign))
    return looks


def keep_alive(trial: TrialFacts) -> list[Look]:
    """A new connection for many requests because the server ends kept ones early."""
    often, now = trial.load.connects, whole(trial, KEEP_ALIVE)
    if often is None or now is None:
        return []
    sign = None
    if often >= REOPENED and 0 < now <= 2 / often:
        says = f"{percent(often)} of the requests opened a connection"
        reason = f"the server closes a kept connection after {now} requests; -1 sets no limit"
        sign = Sign(says, {"opened": (100 * often, "% of requests")}, often, -1, reason)
    return [Look("server.keep-alive", "http", KEEP_ALIVE, now, sign)]


RULES = (
    Rule("server.pool", "server", "connection pool too small", pools),
    Rule("server.threads", "server", "too few threads", threads),
    Rule("server.executor", "server", "requests wait for threads that the server has not started", threads),
    Rule("server.statements", "server", "statements prepared again", statements, counted=True),
    Rule("server.churn", "server", "connections of the pool opened again and again", churn, counted=True),
    Rule("server.keep-alive", "server", "kept-alive connections end early", keep_alive, counted=True),
)
