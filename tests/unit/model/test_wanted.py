"""What a wrong value should be is said in the words of the file, not in Python's."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import leadline
from leadline.experiments.command_files import compared_files
from leadline.model.errors import UsageError, wanted


class Inner(BaseModel):
    name: str


@dataclass
class Row:
    number: int


VALUES: list[Any] = [None, 1.5, "word", [1], {"key": {"key": 1}}, True]
KINDS = (Inner, Row, str, int, float, bool, list[int], dict[str, int], tuple[int, int])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_no_type_of_python_is_named(kind: Any) -> None:
    for value in VALUES:
        try:
            TypeAdapter(kind).validate_python(value)
        except ValidationError as error:
            for problem in error.errors():
                assert not re.search(r"dict|instance|tuple|Inner|Row|input|None|\{'", wanted(problem)), wanted(problem)


def test_every_reader_takes_these_words() -> None:
    package = Path(leadline.__file__).parent
    readers = [file for file in package.rglob("*.py") if re.search(r"""\[["']msg["']\]""", file.read_text("utf-8"))]
    assert [file.name for file in readers] == ["errors.py"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"results": [1]}', r"results\[0\] is 1: write keys with values"),
        ('{"results": [{"command": "a", "times": "x"}]}', r"results\[0\].times is 'x': write a list"),
        ('{"results": [{"command": null, "times": [1]}]}', r"results\[0\].command is null: a text is wanted"),
    ],
)
def test_an_import_says_what_is_wanted(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=said):
        compared_files([file], 2.0)
