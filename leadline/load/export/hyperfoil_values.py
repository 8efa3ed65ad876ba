"""Templates of a scenario as Hyperfoil's patterns, and the steps that draw what they hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any
from urllib.parse import quote_plus

from ruamel.yaml.comments import CommentedSeq, TaggedScalar
from ruamel.yaml.scalarstring import SingleQuotedScalarString
from ruamel.yaml.tag import Tag

from leadline.load.export.source import Call, Name, Path_, Source, Template, Text, constant
from leadline.model.errors import UsageError

TOOL = "Hyperfoil"
INNER = "leadline."  # begins the names of variables that are none of the scenario's: those have no dot
_INTEGERS = range(-(2**31), 2**31)
_HEX_DIGITS, _DIGITS = 7, 9  # as many as an integer holds

Step = str | dict[str, Any]


class Values:
    """Notes what it leaves out, and which of ``user``, ``session`` and ``seed`` are ``used``.

    ``kept``: the sessions are those of the scenario, not one for each transaction.
    """

    def __init__(self, source: Source, kept: bool) -> None:
        self._source, self._kept = source, kept
        self._numbers = count(1)
        self.notes: list[str] = []
        self.used: set[str] = set()

    def refuse(self, where: Path_, construct: str, why: str) -> UsageError:
        return self._source.refuse(where, construct, TOOL, why)

    def pattern(
        self, template: Template, where: Path_, form: bool = False, in_json: bool = False
    ) -> tuple[list[Step], str]:
        """Steps, and the pattern for a value of a form, for a JSON body, or as it is."""
        encode = form_text if form else _json_text if in_json else _as_it_is
        steps: list[Step] = []
        pattern = ""
        for part in template:
            if isinstance(part, Text):
                # of a JSON body the texts are escaped already
                pattern += (form_text(part.text) if form else part.text).replace("${", "$${")
                continue
            if pattern.endswith("$"):
                raise self.refuse(where, "a `$` before an expression", "its patterns read the two as one text")
            more, word = self._value(part, where, form, encode)
            steps += more
            pattern += word
        return steps, pattern

    def _value(
        self, part: Text | Name | Call, where: Path_, form: bool, encode: Callable[[str], str]
    ) -> tuple[list[Step], str]:
        if isinstance(part, Text):
            return [], encode(part.text)
        if isinstance(part, Name):
            if part.builtin:
                return self._builtin(part.name, where)
            if encode is _json_text:
                self.notes.append(
                    f"left out: escaping of `{part.name}` in the JSON body of line {self._source.line(where)}"
                )
            return [], "${" + ("urlencode:" if form else "") + part.name + "}"
        if part.function in ("number", "json") and len(part.arguments[0]) == 1 and not form:
            return self._value(part.arguments[0][0], where, form, encode if part.function == "json" else _as_it_is)
        return self._call(part, where, form, encode)

    def _builtin(self, name: str, where: Path_) -> tuple[list[Step], str]:
        if name != "seed" and not self._kept:
            raise self.refuse(where, "`${" + name + "}` with arrivals of transactions", "its sessions are not kept")
        if name == "seq":  # the next one each time it is written
            drawn = self._drawn()
            counted = {"addToInt": {"var": f"{INNER}seq", "value": 1, "orElseSetTo": 1}}
            return [counted, {"setInt": {"var": drawn, "fromVar": f"{INNER}seq"}}], _variable(drawn)
        self.used.add(name)
        return [], _variable(INNER + name)

    def _call(self, call: Call, where: Path_, form: bool, encode: Callable[[str], str]) -> tuple[list[Step], str]:
        fixed = [_fixed(argument) for argument in call.arguments]
        if call.function == "zpad" and fixed[0] is not None and len(call.arguments[1]) == 1:
            inner = call.arguments[1][0]
            whole = (isinstance(inner, Call) and inner.function == "random") or (
                isinstance(inner, Name) and inner.builtin
            )
            if whole:
                steps, word = self._value(inner, where, form, encode)
                return steps, word.replace("${", "${%0" + fixed[0] + "d:") if int(fixed[0]) > 0 else word
        if (
            call.function == "url"
            and len(call.arguments[0]) == 1
            and isinstance(call.arguments[0][0], Name)
            and not form
        ):
            return self._value(call.arguments[0][0], where, True, form_text)
        words = [word for word in fixed if word is not None]
        if len(words) == len(fixed):
            if call.function == "random" and all(int(word) in _INTEGERS for word in words):
                low, high = sorted(int(word) for word in words)
                return self._integer(low, high, "")
            if call.function == "digits":
                return self._digits(int(words[0]), 10, _DIGITS, "d")
            if call.function == "hex":
                return self._digits(int(words[0]), 16, _HEX_DIGITS, "x")
            if call.function == "choice":
                drawn = self._drawn()
                items = [encode(word) for word in words]
                return [{"randomItem": {"list": items, "toVar": drawn}}], _variable(drawn)
        why = "its patterns hold variables, random whole numbers (padded or not), digits and one of several texts"
        raise self.refuse(where, f"the expression `{call.function}`", why)

    def _integer(self, low: int, high: int, form: str) -> tuple[list[Step], str]:
        drawn = self._drawn()
        return [{"randomInt": f"{drawn} <- {low} .. {high}"}], "${" + form + drawn + "}"

    def _digits(self, length: int, base: int, most: int, letter: str) -> tuple[list[Step], str]:
        steps: list[Step] = []
        pattern = ""
        for at in range(0, length, most):
            part = min(most, length - at)
            more, word = self._integer(0, base**part - 1, f"%0{part}{letter}:")
            steps += more
            pattern += word
        return steps, pattern

    def _drawn(self) -> str:
        return f"{INNER}r{next(self._numbers)}"


def parameter(text: str) -> TaggedScalar:
    """A name and its default value."""
    tagged_scalar = TaggedScalar(value=text)
    tagged_scalar.yaml_set_ctag(Tag(suffix="!param"))
    return tagged_scalar


def below(path: str) -> object:
    """The path below that of the application; a link on a page stays as it is."""
    if not path.startswith("/"):
        return path
    commented_seq = CommentedSeq(
        [parameter('BASE ""'), SingleQuotedScalarString(path)]
    )  # Hyperfoil's reader stops at a bare ?
    commented_seq.yaml_set_ctag(Tag(suffix="!concat"))
    commented_seq.fa.set_flow_style()
    return commented_seq


def form_text(text: str) -> str:
    """``application/x-www-form-urlencoded`` (WHATWG URL, section 5.2)."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def _json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _as_it_is(text: str) -> str:
    return text


def _variable(name: str) -> str:
    return "${" + name + "}"


def _fixed(template: Sequence[Text | Name | Call]) -> str | None:
    values = [constant(part) for part in template]
    return None if None in values else "".join(value or "" for value in values)
