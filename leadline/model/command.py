"""A program timed as a whole process, as the load of a study."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from leadline.model import places
from leadline.model.bounds import DAY, FilePath, Label, Strict, count, duration
from leadline.model.errors import KeyedError, nearest
from leadline.model.knob import ApplyCost, Kind, Knob, Owner

CACHE, PLACE, MOUNT = "command.cache", places.COMMAND, places.COMMAND_MOUNT
WARM, COLD = "warm", "cold"
_NAMED = re.compile(r"\{([A-Za-z_][\w.-]*)\}")
_GIVEN = ("files", "java")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
Text = Annotated[str, Field(max_length=10_000)]


class CommandLoad(Strict):
    """``{NAME}`` in its texts stands for what the level of the factor NAME puts there (``levels``), ``{files}`` for the
    directory of its files and ``{java}`` for a Java home.
    """

    run: Annotated[Text, Field(min_length=1)] = Field(description="the program that is timed, without a shell")
    levels: dict[Label, dict[Label, Text]] = Field(
        default_factory=dict, max_length=100, description="factor: level: what stands for {factor} in the texts"
    )
    java: Annotated[int, count(99, least=8)] | None = Field(
        default=None, description="{java} is a JDK of this version or newer, copied to the place of the files"
    )
    files: list[FilePath] = Field(default_factory=list, max_length=100, description="copied to the place of the files")
    setup: Text = Field(default="", description="run by sh -c once at each place, in the directory of the files")
    prepare: Text = Field(default="", description="run by sh -c before each run, not timed")
    runs: Annotated[int, count(1_000)] = Field(default=3, description="of a trial; their medians are its responses")
    warmup: Annotated[int, count(1_000, least=0)] = Field(
        default=1, description="runs before them, not measured; none with a cold page cache"
    )
    seconds: Annotated[float, duration(1e-3, DAY)] = Field(
        default=1.0, description="a run takes about so long, for the plan's cost"
    )
    timeout: Annotated[float, duration(0.1, DAY)] = Field(default=600.0, description="a run is ended after it")

    @model_validator(mode="after")
    def _named(self) -> CommandLoad:
        for name in self.levels:
            if not _NAME.fullmatch(name) or name in _GIVEN:
                allowed = "letters, digits, _ and -, and not files or java"
                raise KeyedError(("levels", name), f"levels: {name!r} is no name of a factor of a command: {allowed}")
        for key in ("run", "setup", "prepare"):
            for name in _NAMED.findall(getattr(self, key)):
                self._check_known(key, name)
        for name in self.levels:
            if not any(f"{{{name}}}" in text for text in (self.run, self.setup, self.prepare)):
                raise KeyedError(("levels", name), f"levels: no text has {{{name}}}, so {name} changes nothing")
        return self

    def _check_known(self, key: str, name: str) -> None:
        names = [*self.levels, "files", *(["java"] if self.java is not None else [])]
        if name == "java" and self.java is None:
            raise KeyedError((key,), f"{key}: for {{java}} say which: `java: 17` is a JDK 17 or newer")
        if name not in names:
            near = nearest(name, names)
            hint = f"did you mean {{{near}}}?" if near else f"known: {', '.join(f'{{{name}}}' for name in names)}"
            raise KeyedError((key,), f"{key}: nothing stands for {{{name}}}; {hint}")

    def knobs(self) -> list[Knob]:
        """A knob for each name in ``levels``, the page cache, and the place of the files."""
        knobs = [
            Knob(
                name,
                Kind.CHOICE,
                ApplyCost.RESTART,
                f"{{{name}}} of the command",
                default=next(iter(texts), None),
                choices=tuple(texts),
                owner=Owner.APPLICATION,
            )
            for name, texts in self.levels.items()
        ]
        return [*knobs, *COMMON]

    def filled(self, text: str, values: Mapping[str, str]) -> str:
        """A text with what stands for its names; several times over, as levels may name files."""
        for _ in range(3):
            text = _NAMED.sub(lambda found: values.get(found[1], found[0]), text)
        return text

    def workload(self) -> dict[str, Any]:
        """What a plan takes for the load of a trial."""
        return {"ramp_up": 0.0, "steady": max(1.0, (self.runs + self.warmup) * self.seconds), "ramp_down": 0.0}


COMMON = (
    Knob(
        CACHE,
        Kind.CHOICE,
        ApplyCost.RESTART,
        "page cache before each run: warm (after runs that are not measured) or cold (dropped, on the whole host)",
        default=WARM,
        choices=(WARM, COLD),
        owner=Owner.APPLICATION,
    ),
    Knob(
        PLACE,
        Kind.CHOICE,
        ApplyCost.RESTART,
        "where the files of the command lie: the lab's disk, memory, a file system of its own on that disk, an overlay",
        default="disk",
        choices=places.CHOICES,
        owner=Owner.APPLICATION,
    ),
    Knob(
        MOUNT,
        Kind.TEXT,
        ApplyCost.REMOUNT,
        "options of mount(8) of a file system of its own: noatime,data=writeback",
        default=places.DEFAULTS,
        owner=Owner.APPLICATION,
    ),
)
