"""What the samples of profiles say of a difference, by frame; and of a study."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.model.knob import Level
from leadline.model.result import Interval

ALPHA = 0.05
LEVEL = 0.95
_JDK = ("java", "javax", "jdk", "sun")


@dataclass(frozen=True)
class FrameEffect:
    """The change of one frame's samples per transaction. ``path``: its callers and itself; of a method itself alone.

    ``interval`` holds for this frame by itself (``LEVEL``), ``p_value`` is adjusted for all frames that were judged;
    both are None for one pair of recordings. ``named``: distinguishable from no change.
    """

    path: tuple[str, ...]
    baseline: float
    change: float
    interval: Interval | None
    p_value: float | None
    own: bool = False  # a method's own samples, on all paths

    @property
    def name(self) -> str:
        return self.path[-1] if self.path else "all samples"

    @property
    def named(self) -> bool:
        return self.p_value is not None and self.p_value <= ALPHA


@dataclass(frozen=True)
class FrameEffects:
    """``methods`` and ``paths`` that were judged, the largest change first; ``rest``: the change of smaller methods.

    ``carriers``: the paths that carry the change, without one that another contains: those that are named, of one pair
    of recordings the largest. ``judged``: frames of the family, those that never differ taken as one.
    """

    total: FrameEffect
    methods: tuple[FrameEffect, ...]
    paths: tuple[FrameEffect, ...]
    carriers: tuple[FrameEffect, ...]
    rest: float
    judged: int
    recordings: tuple[int, int]  # of the first kind, of the second
    blocks: int  # 0 where they are not compared in blocks

    @property
    def pair(self) -> bool:
        """Whether there is one recording of each kind, so that nothing is known of the noise."""
        return self.total.interval is None

    @property
    def named(self) -> tuple[FrameEffect, ...]:
        """Paths and methods, without the total."""
        return tuple(effect for effect in (*self.paths, *self.methods) if effect.named)


def is_jdk(method: str) -> bool:
    parts = method.replace("/", ".").split(".")
    return parts[0] in _JDK or parts[:2] == ["com", "sun"]


APPLICATION, AGENT, DRIVER, JDK, SERVER = "application", "leadline's agent", "JDBC driver", "JDK", "server"
JVM = "JVM code"  # its runtime, where no stack is walked
LAYERS = (APPLICATION, AGENT, DRIVER, JDK, JVM, SERVER)  # of the server's stacks
NO_STACK = "(no stack)"
MEASURED = ("(database)", "(web server)", "(garbage collector)", "(JIT compiler)", "(other threads of the JVM)")


def is_measured(frame: str) -> bool:
    """Whether a frame is a part of the system whose CPU was measured and not sampled."""
    return frame in MEASURED


# Parts of a response time.
DRIVING, THREAD_WAIT, CONNECTION_WAIT = "in the load driver", "waiting for a thread", "waiting for a connection"
DATABASE_WAIT, LOCK_WAIT, SLEEP = "waiting for the database", "waiting for a lock", "asleep or parked"
OTHER_WAIT, PAUSED, DELAYED = "waiting for another service", "paused at a safepoint", "runnable without a CPU"
CODE, OUTSIDE = "server code", "network and what is not recorded"
PARTS = (
    *(CODE, DELAYED, PAUSED, CONNECTION_WAIT, DATABASE_WAIT, LOCK_WAIT, SLEEP, OTHER_WAIT),
    *(THREAD_WAIT, DRIVING, OUTSIDE),
)


STATEMENT_TIME = "statement_time"  # the response of StudyWaits whose parts are statements


def is_layer(frame: str) -> bool:
    return frame in LAYERS or frame in PARTS or is_measured(frame)


@dataclass(frozen=True)
class LevelProfile:
    """Where a level's change of CPU per transaction lies, against its factor's baseline level. ``ms``: of CPU that a
    sample stands for. Paths begin with a layer.
    """

    factor: str
    level: Level
    ms: float
    effects: FrameEffects
    sentence: str


@dataclass(frozen=True)
class LevelWaits:
    """Of what parts a level's change of a response time consists (``mean``, ``p50``, ``p99``), in ms. Paths are a part,
    then the code that waited; of ``STATEMENT_TIME`` the wait for the database, then its statement.
    """

    factor: str
    level: Level
    name: str  # of the level
    response: str
    effects: FrameEffects
    sentence: str


@dataclass(frozen=True)
class StudyWaits:
    """``slow``: of each setting, what the slowest requests of a kind wait for that the median ones do not."""

    levels: tuple[LevelWaits, ...]
    slow: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class StudyProfile:
    """``cost``: change of CPU per transaction by the profiles themselves, percent; None where it cannot be told.
    ``compiled``: the JIT compiler's CPU is in all figures.
    """

    levels: tuple[LevelProfile, ...]
    cost: float | None
    interval: Interval | None
    notes: tuple[str, ...]
    compiled: bool = True
