"""What travels between leadline and its agent on another host: frames of JSON, and the few kinds of value they hold.

A frame is its length (four bytes, big-endian) and so many bytes of JSON. A request is ``{"id", "do", "with"}``, its
answer ``{"id", "value"}`` or ``{"id", "error"}``; before it ``{"id", "told"}`` may come, a line of progress. ``{}`` is
a sign of life. Nothing is ever executed because of what a frame holds, but the requests of a fixed table.
"""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from leadline.host.base import Ability
from leadline.host.checks import HostFinding
from leadline.model.errors import FailureClass, LeadlineError, NotInPlay, RestoreError, TrialFailure, UsageError
from leadline.model.knob import Machine
from leadline.model.received import adapter, from_json
from leadline.model.study import Placement, StackChoice
from leadline.stack.base import AuditResult, Endpoint
from leadline.stack.provision import Artefact, Wheel

MOST_BYTES = 64 << 20  # of a frame
_LENGTH = struct.Struct(">I")
_TYPES: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        *(Ability, Artefact, AuditResult, Endpoint, FailureClass, HostFinding, Machine, Placement, StackChoice),
        Wheel,
    )
}
_KIND = "is a"


class ConnectionLost(TrialFailure):
    """The host cannot be reached any more."""

    def __init__(self, title: str, why: str, evidence: str = "") -> None:
        super().__init__(FailureClass.INFRASTRUCTURE, f"{title}: {why}", evidence)


class Absent(LeadlineError):
    """A distribution that the far cache does not hold yet."""

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(f"{artefact.coordinate} is not there")
        self.artefact = artefact


def packed(value: object) -> Any:
    """A value as JSON types. Raises TypeError for a kind that does not travel."""
    if value is None or isinstance(value, bool | int | float) or type(value) is str:
        return value
    if isinstance(value, Enum):
        return {_KIND: type(value).__name__, "value": value.value}
    if isinstance(value, Path):
        return {_KIND: "Path", "value": str(value)}
    if isinstance(value, BaseModel):
        return {_KIND: type(value).__name__, "value": value.model_dump(mode="json")}
    if is_dataclass(value) and not isinstance(value, type):
        fields_ = {field.name: packed(getattr(value, field.name)) for field in fields(value)}
        return {_KIND: type(value).__name__, "value": fields_}
    if isinstance(value, Mapping):
        return {_KIND: "map", "value": [[packed(name), packed(item)] for name, item in value.items()]}
    if isinstance(value, list | tuple | Sequence) and not isinstance(value, str | bytes):
        return [packed(item) for item in value]
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"a {type(value).__name__} does not travel")


def unpacked(found: Any) -> Any:
    """The value again; sequences are lists. Raises ValueError for what ``packed`` does not make."""
    if isinstance(found, list):
        return [unpacked(item) for item in found]
    if not isinstance(found, dict):
        return found
    kind, payload = found.get(_KIND), found.get("value")
    if kind == "map":
        return {unpacked(name): unpacked(item) for name, item in payload or ()}
    if kind == "Path":
        return Path(str(payload))
    type_ = _TYPES.get(str(kind))
    if type_ is None:
        raise ValueError(f"no value of a kind {kind!r} is known")
    if issubclass(type_, BaseModel):
        return type_.model_validate(payload)
    if issubclass(type_, Enum):
        return type_(payload)
    if not isinstance(payload, dict):
        raise ValueError(f"a {kind} without its fields")
    return adapter(cast(Hashable, type_)).validate_python({name: unpacked(item) for name, item in payload.items()})


def unpacked_as(kind: Any, found: Any) -> Any:
    """The value again, of this type. Raises ValueError for another."""
    return adapter(kind).validate_python(unpacked(found))


def packed_error(error: BaseException) -> dict[str, Any]:
    """An exception as JSON types."""
    match error:
        case Absent():
            return {_KIND: "Absent", "artefact": packed(error.artefact)}
        case TrialFailure():
            return {_KIND: "TrialFailure", "class": error.failure_class.value, "said": [error.message, error.evidence]}
        case OSError():
            return {_KIND: "OSError", "code": error.errno or errno.EIO, "said": [str(error.strerror or error)]}
    kinds = (NotInPlay, LookupError, RestoreError, UsageError, LeadlineError)
    kind = next((error_kind.__name__ for error_kind in kinds if isinstance(error, error_kind)), "")
    text = str(error.args[0]) if kind == "LookupError" and error.args else str(error)  # a KeyError quotes itself
    return {_KIND: kind, "said": [text if kind else f"{type(error).__name__}: {error}"]}


def unpacked_error(found: Mapping[str, Any], title: str) -> Exception:
    """The exception again; one that leadline does not know is a LeadlineError that names the host, ``title``."""
    words = [str(word) for word in found.get("said", ())] or [""]
    match found.get(_KIND):
        case "Absent":
            artefact = unpacked(found["artefact"])
            return Absent(artefact) if isinstance(artefact, Artefact) else LeadlineError(f"{title}: no artefact named")
        case "TrialFailure":
            return TrialFailure(FailureClass(found["class"]), *words[:2])
        case "OSError":
            return OSError(int(found["code"]), f"{title}: {words[0]}")
        case "NotInPlay":
            return NotInPlay(words[0])
        case "LookupError":
            return LookupError(words[0])
        case "RestoreError":
            return RestoreError(f"{title}: {words[0]}")
        case "UsageError":
            return UsageError(words[0])
    return LeadlineError(f"{title}: {words[0]}")


def frame(message: Mapping[str, Any]) -> bytes:
    """A message as it is sent. Raises ValueError where it is too long."""
    text = json.dumps(message, separators=(",", ":")).encode()
    if len(text) > MOST_BYTES:
        raise ValueError(f"a message of {len(text)} bytes; the most is {MOST_BYTES}")
    return _LENGTH.pack(len(text)) + text


def read_frame(read: Callable[[int], bytes]) -> dict[str, Any] | None:
    """The next message; None at the end of the stream. ``read`` as of a buffered file. Raises ValueError."""
    head = read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > MOST_BYTES:
        raise ValueError(f"a message of {length} bytes was announced; the most is {MOST_BYTES}")
    text = read(length)
    if len(text) < length:
        return None
    message = from_json(text, finite=False)
    if not isinstance(message, dict):
        raise ValueError("a message that is no object")
    return message
