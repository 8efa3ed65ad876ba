"""The database's own counters."""

from __future__ import annotations

from leadline.advice.facts import TrialFacts
from leadline.advice.look import Look, Rule, Sign, number, percent, whole
from leadline.model.units import format_size

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


RULES = (
    Rule("database.cache", "database", "cache too small", cache, _MEMORY),
    Rule("database.spills", "database", "sorts spill to disk", spills, _MEMORY),
    Rule("database.tables", "database", "temporary tables on disk", temporary_tables, _MEMORY),
    Rule("database.checkpoints", "database", "checkpoints too often", checkpoints),
    Rule("database.deadlocks", "database", "deadlocks", deadlocks),
)
