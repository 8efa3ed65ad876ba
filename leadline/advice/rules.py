"""Rules of the layers, each of which looks at a trial and may advise: of JVM and kernel, then of database, server and
the application with its driver.
"""

from __future__ import annotations

from leadline.advice.facts import (
    FULL,
    Collection,
    Look,
    Pool,
    Rule,
    Sign,
    Statements,
    Threads,
    TrialFacts,
    busy_note,
    number,
    percent,
    round_up,
    whole,
)
from leadline.model.units import format_size

SWAPPED = 10.0  # pages a second
RECLAIMS = 1.0  # a second
STALLED_BY_STORAGE = 0.2  # share of the time that some task waited for storage
OVERFLOWS = 0.1  # connections a second
STEAL = 0.05


def others(trial: TrialFacts) -> list[Look]:
    """Programs that are none of the study's on the same CPUs: what a trial shows may be theirs."""
    share, sign = trial.host.others, None
    if share is None:
        return []
    if trial.disturbed:
        says = f"programs other than the study's used {percent(share)} of the CPUs"
        remedy = "stop them or take a quiet machine, then run the study again: no setting is judged by these trials"
        sign = Sign(says, {"other programs": (100 * share, "% of CPU")}, share, remedy=remedy)
    return [Look("kernel.others", "host", None, None, sign)]


def swap(trial: TrialFacts) -> list[Look]:
    """Pages of programs going to swap and back."""
    knob, pages = "vm.swappiness", trial.host.swapped_per_s
    if pages is None:
        return []
    now, sign = whole(trial, knob), None
    if pages >= SWAPPED:
        says = f"{number(pages)} pages a second were swapped in or out"
        figures = {"swapped": (pages, "pages/s")}
        if now is not None and now <= 1:
            sign = Sign(says, figures, pages, remedy="a smaller heap or smaller caches: memory is short")
        else:
            reason = "the page cache goes before the memory of programs; a heap that is swapped slows each collection"
            sign = Sign(says, figures, pages, 1, reason)
    return [Look("kernel.swap", "host", knob, now, sign)]


def reclaim(trial: TrialFacts) -> list[Look]:
    """Tasks that had to free memory themselves before they got some."""
    knob, often = "vm.min_free_kbytes", trial.host.direct_reclaims_per_s
    if often is None:
        return []
    now, sign = whole(trial, knob), None
    if often >= RECLAIMS:
        says = f"{number(often)} times a second a task had to reclaim memory itself"
        figures = {"direct reclaims": (often, "1/s")}
        total = trial.host.memory_total
        if now is None or (total is not None and 2 * now * 1024 > 0.05 * total):
            sign = Sign(says, figures, often, remedy="less memory in use: a smaller heap or smaller caches")
        else:
            sign = Sign(says, figures, often, 2 * now, "the kernel begins to reclaim earlier, beside the tasks")
    return [Look("kernel.reclaim", "host", knob, now, sign)]


def storage(trial: TrialFacts) -> list[Look]:
    """Tasks that wait for a disk while much is written."""
    knob, stalled = "vm.dirty_background_ratio", trial.host.io_stalled
    if stalled is None or trial.host.iowait is None:
        return []
    now, sign = whole(trial, knob), None
    if stalled >= STALLED_BY_STORAGE and trial.host.iowait >= 0.05:
        says = (
            f"some task waited for storage in {percent(stalled)} of the time, and the CPUs idled "
            f"{percent(trial.host.iowait)} of theirs for it"
        )
        figures = {"stalled": (100 * stalled, "% of time"), "iowait": (100 * trial.host.iowait, "% of CPU")}
        if now is not None and now >= 2:
            reason = "writing back begins earlier and in smaller portions"
            sign = Sign(says, figures, stalled, max(1, now // 2), reason)
        else:
            sign = Sign(says, figures, stalled, remedy="faster storage, or fewer forced writes (database.commit_delay)")
    return [Look("kernel.storage", "host", knob, now, sign)]


def backlog(trial: TrialFacts) -> list[Look]:
    """Connections lost because a listening socket's queue was full."""
    knob, lost = "net.core.somaxconn", trial.host.listen_overflows_per_s
    if lost is None:
        return []
    sign, now = None, whole(trial, knob)
    if lost >= OVERFLOWS:
        says = f"{number(lost)} connections a second found the queue of a listening socket full"
        figures = {"overflows": (lost, "connections/s")}
        remedy = f"raise the server's own backlog, and {knob} where it is below it; a client tries again after a second"
        sign = Sign(says, figures, lost, remedy=remedy)
    return [Look("kernel.backlog", "host", knob, now, sign)]


def steal(trial: TrialFacts) -> list[Look]:
    """CPU time that the hypervisor gave to others."""
    stolen = trial.host.steal
    if stolen is None:
        return []
    sign = None
    if stolen >= STEAL:
        says = f"the hypervisor gave {percent(stolen)} of the CPU time to others"
        remedy = "measure on a host that is not shared, or at another time; no setting mends this"
        sign = Sign(says, {"steal": (100 * stolen, "% of CPU")}, stolen, remedy=remedy)
    return [Look("kernel.steal", "host", None, None, sign)]


KERNEL_RULES = (
    Rule("kernel.others", "kernel", "other programs use the CPUs", others, majority=False),
    Rule("kernel.swap", "kernel", "the host swaps", swap),
    Rule("kernel.reclaim", "kernel", "memory is reclaimed too late", reclaim),
    Rule("kernel.storage", "kernel", "storage holds tasks up", storage),
    Rule("kernel.backlog", "kernel", "connections are lost", backlog),
    Rule("kernel.steal", "kernel", "the host is shared", steal),
)


SHARE = 0.05  # of the time in pauses
STALLED = 0.01
AIM = 0.02  # share of the time in pauses that a larger heap should come to
LARGEST = 8  # times the heap
LONG_MS = 200.0
SLOWER = 2.0  # p99 of seconds with a pause against those without
HEAP, COLLECTOR = "jvm.heap", "jvm.collector"
_MIB = 1 << 20
_NAMES = {"Serial": "serial", "Parallel": "parallel", "G1": "g1", "Z": "zgc", "Shenandoah": "shenandoah"}
_NEXT = {"serial": "g1", "parallel": "g1", "g1": "zgc"}
_CONCURRENT = ("g1", "zgc", "shenandoah")


def heap(trial: TrialFacts) -> list[Look]:
    """Too much of the time in collection, threads that wait for memory, or collections of last resort."""
    collection = trial.collection
    if collection is None or collection.heap_max is None or collection.share is None or collection.span_s <= 0:
        return []
    now = whole(trial, HEAP)
    return [Look("jvm.heap", "heap", HEAP, collection.heap_max if now is None else now, _small(collection, trial))]


def _small(found: Collection, trial: TrialFacts) -> Sign | None:
    share = found.share or 0.0
    last_resort = found.degenerated + (found.full if _NAMES.get(found.collector) in _CONCURRENT else 0)
    if share < SHARE and found.stall_share < STALLED and last_resort < 2:
        return None
    heap_max = found.heap_max or 0
    parts = [f"{percent(share)} of the time went into {found.pauses} pauses of {number(found.mean_ms)} ms on average"]
    figures = {"in pauses": (100 * share, "% of time"), "pauses": (float(found.pauses), "")}
    figures["heap"] = (heap_max / _MIB, "MiB")
    if found.interval_s is not None:
        parts.append(f"one every {number(found.interval_s)} s")
        figures["interval"] = (found.interval_s, "s")
    if found.stall_share >= STALLED:
        parts.append(f"threads waited {percent(found.stall_share)} of the time for memory")
        figures["stalls"] = (100 * found.stall_share, "% of time")
    if last_resort:
        parts.append(f"{last_resort} collection{'s were' if last_resort > 1 else ' was'} full or degenerated")
        figures["last resort"] = (float(last_resort), "collections")
    if found.live is not None:
        parts.append(f"{number(found.live / _MIB)} of {number(heap_max / _MIB)} MiB were live")
        figures["live"] = (found.live / _MIB, "MiB")
    says = ", ".join(parts)
    times, expected = _times(found)
    room = trial.host.memory_available
    while times > 1 and room is not None and (times - 1) * heap_max > 0.5 * room:
        times //= 2
    if times == 1:
        free = number((room or 0) / _MIB)
        return Sign(says, figures, share, remedy=f"a larger {HEAP} does not fit: {free} MiB of memory are available")
    then = heap_max * times
    reason = f"{format_size(then)}: {expected}" if expected else "twice the heap: how much is live is not known"
    return Sign(says, figures, share, then, reason)


def _times(found: Collection) -> tuple[int, str]:
    """How many times the heap, and what the share comes to: at the same allocation the interval between collections
    grows with what the live set leaves of the heap, and a pause costs what it did.
    """
    heap_max, live, interval = found.heap_max or 0, found.live, found.interval_s
    if live is None or interval is None or not 0 < live < heap_max:
        return 2, ""
    pause = found.mean_ms / 1e3
    times, share, longer = 1, 1.0, interval
    while times < LARGEST and share > AIM:
        times *= 2
        longer = interval * (times * heap_max - live) / (heap_max - live)
        share = pause / (longer + pause)
    return times, f"the interval would grow to about {number(longer)} s and the share fall to {percent(share)}"


def pauses(trial: TrialFacts) -> list[Look]:
    """Single pauses so long that the seconds that hold one are much slower."""
    collection = trial.collection
    if collection is None or collection.p99_with_ms is None or not collection.p99_without_ms:
        return []
    now = _NAMES.get(collection.collector)
    slower = collection.p99_with_ms / collection.p99_without_ms
    sign = None
    if collection.max_ms >= LONG_MS and slower >= SLOWER:
        says = (
            f"the longest pause was {number(collection.max_ms)} ms; p99 was {number(collection.p99_with_ms)} ms in "
            "the median "
            f"second with a pause and {number(collection.p99_without_ms)} ms without"
        )
        figures = {"longest pause": (collection.max_ms, "ms"), "slower": (slower, "times")}
        then = _NEXT.get(now or "")
        if then is None:
            sign = Sign(says, figures, slower, remedy="a larger heap, or less allocation in the application")
        else:
            reason = f"{then} does more of its work beside the application, at the price of more CPU"
            sign = Sign(says, figures, slower, then, reason)
    return [Look("jvm.pauses", "collector", COLLECTOR, now, sign)]


JVM_RULES = (
    Rule("jvm.heap", "jvm", "heap too small", heap, ("throughput", "p50", "p99", "gc_share", "cpu_per_transaction")),
    Rule("jvm.pauses", "jvm", "long collection pauses", pauses, ("p99", "p999", "max")),
)


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
    if not pool.starved:
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


SERVER_RULES = (
    Rule("server.pool", "server", "connection pool too small", pools),
    Rule("server.threads", "server", "too few threads", threads),
    Rule("server.executor", "server", "requests wait for threads that the server has not started", threads),
    Rule("server.statements", "server", "statements prepared again", statements, counted=True),
    Rule("server.churn", "server", "connections of the pool opened again and again", churn, counted=True),
    Rule("server.keep-alive", "server", "kept-alive connections end early", keep_alive, counted=True),
)


MISSED = 0.02  # share of blocks that were not in the database's cache
READS = 200.0  # blocks a second from which misses matter
SPILLED = 1 << 20  # bytes a second
TABLES = 1.0  # a second
DEADLOCKS = 0.05  # a second
CHECKPOINTS = 0.05  # a second: one every 20 s or more often
_MEMORY = ("throughput", "p50", "p99", "database_cpu_per_transaction")


def cache(trial: TrialFacts) -> list[Look]:
    """Blocks that were not in the database's own cache: PostgreSQL's shared_buffers, InnoDB's buffer pool."""
    knob, read, hit = "database.shared_buffers", trial.database.get("blks_read"), trial.database.get("blks_hit")
    if read is None or hit is None:
        knob, read = "database.innodb_buffer_pool_size", trial.database.get("Innodb_buffer_pool_reads")
        requests = trial.database.get("Innodb_buffer_pool_read_requests")  # hits and misses
        hit = None if read is None or requests is None else max(0.0, requests - read)
    if read is None or hit is None:
        return []
    now, sign, missed = whole(trial, knob), None, read / max(read + hit, 1e-9)
    if read >= READS and missed >= MISSED:
        says = f"{number(read)} blocks a second, {percent(missed)} of all, were not in the database's cache"
        figures = {"read": (read, "blocks/s"), "missed": (100 * missed, "% of blocks")}
        sign = _doubled(says, figures, missed, knob, now, trial)
    return [Look("database.cache", "database", knob, now, sign)]


def _doubled(
    says: str, figures: dict[str, tuple[float, str]], size: float, knob: str, now: int | None, trial: TrialFacts
) -> Sign:
    if now is None:
        return Sign(says, figures, size, remedy=f"raise {knob}")
    total = trial.host.memory_total
    if total is not None and 2 * now > 0.4 * total:
        return Sign(says, figures, size, remedy=f"{knob} is {format_size(now)} already; the host needs more memory")
    return Sign(says, figures, size, 2 * now, "doubled, to see whether the misses fall")


def spills(trial: TrialFacts) -> list[Look]:
    """Sorts and hashes that went to disk."""
    knob, spilled = "database.work_mem", trial.database.get("temp_bytes")
    if spilled is None:
        return []
    now, sign = whole(trial, knob), None
    if spilled >= SPILLED:
        says = f"sorts and hashes wrote {number(spilled / SPILLED)} MiB a second to temporary files"
        figures = {"spilled": (spilled / SPILLED, "MiB/s")}
        if now is None:
            sign = Sign(says, figures, spilled, remedy=f"raise {knob}")
        else:
            reason = "four times, as what does not fit spills whole; it counts for every sort of every connection"
            sign = Sign(says, figures, spilled, 4 * now, reason)
    return [Look("database.spills", "database", knob, now, sign)]


def temporary_tables(trial: TrialFacts) -> list[Look]:
    """MariaDB's temporary tables that went to disk."""
    knob, often = "database.tmp_table_size", trial.database.get("Created_tmp_disk_tables")
    if often is None:
        return []
    now, sign = whole(trial, knob), None
    if often >= TABLES:
        says = f"{number(often)} temporary tables a second went to disk"
        figures = {"tables": (often, "1/s")}
        reason = "four times, up to database.max_heap_table_size; tables with large columns go to disk whatever is set"
        sign = Sign(says, figures, often, remedy=f"raise {knob}")
        if now:
            sign = Sign(says, figures, often, 4 * now, reason)
    return [Look("database.tables", "database", knob, now, sign)]


def checkpoints(trial: TrialFacts) -> list[Look]:
    """Checkpoints forced by the log's size."""
    knob, often = "database.max_wal_size", trial.database.get("checkpoints")
    if often is None:
        return []
    now, sign = whole(trial, knob), None
    if often >= CHECKPOINTS:
        says = f"a checkpoint every {number(1 / often)} s"
        figures = {"checkpoints": (often, "1/s")}
        reason = "more log between two checkpoints; recovery after a crash takes longer"
        sign = (
            Sign(says, figures, often, 4 * now, reason) if now else Sign(says, figures, often, remedy=f"raise {knob}")
        )
    return [Look("database.checkpoints", "database", knob, now, sign)]


def deadlocks(trial: TrialFacts) -> list[Look]:
    """Transactions that waited for each other."""
    often = trial.database.get("deadlocks", trial.database.get("Innodb_deadlocks"))
    if often is None:
        return []
    sign = None
    if often >= DEADLOCKS:
        says = f"{number(often)} deadlocks a second"
        remedy = "let all transactions take their locks in one order; no setting mends this"
        sign = Sign(says, {"deadlocks": (often, "1/s")}, often, remedy=remedy)
    return [Look("database.deadlocks", "database", None, None, sign)]


DATABASE_RULES = (
    Rule("database.cache", "database", "cache too small", cache, _MEMORY),
    Rule("database.spills", "database", "sorts spill to disk", spills, _MEMORY),
    Rule("database.tables", "database", "temporary tables on disk", temporary_tables, _MEMORY),
    Rule("database.checkpoints", "database", "checkpoints too often", checkpoints),
    Rule("database.deadlocks", "database", "deadlocks", deadlocks),
)


def limit(trial: TrialFacts) -> list[Look]:
    """The driver, not the system, bounded the load: its figures are of itself."""
    load = trial.load
    if load.limit is None:
        return []
    sign = None
    if load.limit or load.dropped:
        figures = {} if load.cpu_share is None else {"driver": (100 * load.cpu_share, "% of one CPU")}
        why = load.evidence or (f"{load.dropped} arrivals were dropped" if load.dropped else "")
        busy = f"it used {percent(load.cpu_share)} of a CPU" if load.cpu_share is not None else ""
        says = "the driver bounded the load" + "".join(f"; {part}" for part in (why, busy) if part)
        remedy = "give the driver CPUs of its own (placement.driver_cpus), several drivers (drivers) or a smaller load"
        sign = Sign(says, figures, load.cpu_share or 1.0, remedy=remedy)
    return [Look("driver.limit", "driver", None, None, sign)]


DRIVER_RULES = (Rule("driver.limit", "driver", "the driver is the limit", limit),)


def leak(trial: TrialFacts) -> list[Look]:
    """A live set that grows to the end of the log."""
    collection = trial.collection
    if collection is None or collection.leak == "undetermined":
        return []
    sign = None
    if collection.leak in ("leak", "full"):
        figures = {} if collection.live is None else {"live": (collection.live / (1 << 20), "MiB")}
        remedy = "compare two heap dumps of the application (jcmd PID GC.heap_dump); a larger heap only puts it off"
        sign = Sign(collection.leak_sentence, figures, 1.0, remedy=remedy)
    return [Look("application.leak", "application", None, None, sign)]


def errors(trial: TrialFacts) -> list[Look]:
    """More errors than the study allows."""
    share, allowed = trial.load.errors, trial.limits.errors
    if share is None or allowed is None:
        return []
    sign = None
    if share > allowed:
        says = f"{percent(share)} of the transactions failed; the study allows {percent(allowed)}"
        remedy = "see the driver's error samples and the server's log of these trials"
        sign = Sign(says, {"errors": (100 * share, "%")}, share, remedy=remedy)
    return [Look("application.errors", "application", None, None, sign)]


def late(trial: TrialFacts) -> list[Look]:
    """Response times beyond the study's limits."""
    looks = []
    for name, value, allowed in (
        ("p90", trial.load.p90_s, trial.limits.p90),
        ("p99", trial.load.p99_s, trial.limits.p99),
    ):
        if value is None or allowed is None:
            continue
        sign = None
        if value > allowed:
            says = f"{name} of the response time was {number(value)} s; the limit is {number(allowed)} s"
            remedy = "the findings of the layers beneath, if any, say why; else less load or a faster application"
            sign = Sign(says, {name: (value, "s")}, value / allowed, remedy=remedy)
        looks.append(Look("application.late", name, None, None, sign))
    return looks


APPLICATION_RULES = (
    Rule("application.leak", "application", "memory leak", leak),
    Rule("application.errors", "application", "errors", errors),
    Rule("application.late", "application", "responses come too late", late),
)
