"""Secrets of a stack file are in no lab: variables become references, and what programs say of them is hidden."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from html import escape
from pathlib import Path
from urllib.parse import quote

import pytest

from leadline.checks.files.stack import read_stack
from leadline.checks.files.study import find_study
from leadline.host import textfile
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.ownstack import filled
from leadline.places.simulated import SimulatedTestbed
from leadline.places.simulated.model import Truth
from leadline.places.testbed import RunOptions
from leadline.stack.own.words import Words
from leadline.store.lab import Store

PASSWORD, TOKEN = "correct-horse-42", "s3cr3t-of-the-shell"

STACK = """\
stack: shop
command: [sh, -c, "run ${port}"]
environment:
  DB_URL: jdbc:any
  DB_PASSWORD: %s
  API_TOKEN: "${env:SHOP_TOKEN}"
  KEY_FILE: "${file:key.txt}"
"""


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textfile, "_known", set())


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOP_TOKEN", TOKEN)
    (tmp_path / "key.txt").write_text("the-key-itself\n")
    (tmp_path / "shop.stack.yaml").write_text(STACK % PASSWORD)
    return tmp_path / "shop.stack.yaml"


def test_what_is_stored_refers_to_what_is_started(stack: Path) -> None:
    own = read_stack(stack)
    assert PASSWORD not in own.model_dump_json()
    assert TOKEN not in own.model_dump_json()
    given = {name: filled(text, Words(own, {})) for name, text in own.content.environment.items()}
    assert given == {
        "DB_URL": "jdbc:any",
        "DB_PASSWORD": PASSWORD,
        "API_TOKEN": TOKEN,
        "KEY_FILE": "the-key-itself",
    }
    assert textfile.redacted(f"{PASSWORD} {TOKEN} the-key-itself jdbc:any").split() == [
        *("*" * len(word) for word in (PASSWORD, TOKEN, "the-key-itself")),
        "jdbc:any",
    ]


@pytest.mark.parametrize("secret", ['quote"and\\back', "ü-with-umlaut", "a&b<c", "white space/and=more"])
def test_a_secret_is_hidden_in_json_addresses_and_markup(tmp_path: Path, secret: str) -> None:
    textfile.hide(secret)
    forms = [secret, json.dumps(secret), json.dumps(secret, ensure_ascii=False), quote(secret, safe=""), escape(secret)]
    for form in forms:
        assert set(textfile.redacted(form).strip('"')) == {"*"}
        (tmp_path / "log").write_text(f"before {form} after")
        textfile.redact_file(tmp_path / "log")
        assert set((tmp_path / "log").read_text().removeprefix("before ").removesuffix(" after").strip('"')) == {"*"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _: os.environ.pop("SHOP_TOKEN"), r"shop.stack.yaml:6: .*the variable SHOP_TOKEN is not set"),
        (lambda stack: (stack.parent / "key.txt").unlink(), r"shop.stack.yaml:7: .*key.txt cannot be read"),
    ],
)
def test_a_reference_to_nothing_is_one_message_with_its_line(
    stack: Path, change: Callable[[Path], object], said: str
) -> None:
    change(stack)
    with pytest.raises(UsageError, match=said) as refused:
        read_stack(stack)
    assert "\n" not in str(refused.value)


def test_a_study_leaves_no_secret(stack: Path, tmp_path: Path) -> None:
    (tmp_path / "s.study.yaml").write_text(
        "study: s\nquestion: q\nstack: shop.stack.yaml\nfactors: { vm.swappiness: [1, 60] }\nresponses: [throughput]\n"
        "workload: { scenario: brokerage-json, users: 2, ramp_up: 1s, steady: 5s, ramp_down: 0s }\n"
        "design: { replicates: 2, sentinels: null }\n"
    )
    file = find_study(str(tmp_path / "s.study.yaml"))
    testbed = SimulatedTestbed(Truth(), tmp_path / "lab")
    testbed.run(file, testbed.plan(file), RunOptions())
    store = Store(tmp_path / "lab")
    said = f"cannot log in with {PASSWORD}"
    (study,) = store.studies()
    store.claims.close_trials(study.id)
    trial = store.load(store.add_study(study.study, "again", study.plan, {}, [])).trials[0]
    attempt, directory = store.begin_attempt(trial.id, 0)
    (directory / "logs" / "server.log").write_text(said * 3)
    (directory / "raw" / "x.jfr").write_bytes(b"\0" + PASSWORD.encode("utf-16-le") + TOKEN.encode())
    size = (directory / "raw" / "x.jfr").stat().st_size
    store.add_artefacts(trial.id, attempt, directory)
    store.finish(trial.id, attempt, TrialFailure(FailureClass.CONFIGURATION, said, f"{said}\n{TOKEN}"))
    assert (directory / "raw" / "x.jfr").stat().st_size == size
    for path in (tmp_path / "lab").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not [word for word in (PASSWORD, TOKEN) if word.encode() in data or word.encode("utf-16-le") in data]
