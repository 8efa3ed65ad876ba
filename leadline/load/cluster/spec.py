"""``--drivers``: the hosts of a run as a file or a word on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from ruamel.yaml.comments import CommentedSeq

from leadline.host.textfile import is_file, read_text
from leadline.model.drivers import DriverHost, Drivers
from leadline.model.errors import UsageError, nearest, quoted, wanted
from leadline.model.yamltext import load_yaml


def read_drivers(text: str) -> list[DriverHost]:
    """A YAML file with a list (or with the key ``drivers``, such as a study file), or commands separated by commas.

    Raises UsageError with file and line.
    """
    path = Path(text)
    if is_file(path):
        return _from_file(path)
    if path.suffix in (".yaml", ".yml"):
        raise UsageError(f"--drivers {text}: no such file")
    words = [word.strip() for word in text.split(",")]
    return _checked(words, "--drivers")


def _from_file(path: Path) -> list[DriverHost]:
    tree = load_yaml(read_text(path), str(path))
    drivers = tree.get("drivers") if isinstance(tree, dict) else tree
    if not isinstance(drivers, CommentedSeq) or not drivers:
        raise UsageError(f"{path}:1: write a list of drivers, or the key drivers with one")

    def place(index: int) -> str:
        return f"{path}:{drivers.lc.item(index)[0] + 1}"

    return _checked(drivers, str(path), place)


def _checked(found: list[Any], source: str, place: Any = None) -> list[DriverHost]:
    adapter: TypeAdapter[list[DriverHost]] = TypeAdapter(Drivers)
    try:
        return adapter.validate_python(found)
    except ValidationError as error:
        problem = error.errors()[0]
        where = problem["loc"]
        here = place(where[0]) if place and where and isinstance(where[0], int) else source
        if problem["type"] == "extra_forbidden":
            key = str(where[-1])
            keys = list(DriverHost.model_fields)
            near = nearest(key, keys)
            hint = f"did you mean {near}?" if near else f"keys here: {', '.join(keys)}"
            raise UsageError(f"{here}: unknown key {key!r}; {hint}") from error
        name = f"{where[-1]}: " if len(where) > 1 else ""
        raise UsageError(f"{here}: {name}{wanted(problem)} (found {quoted(problem['input'])})") from error
