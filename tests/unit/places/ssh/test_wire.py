"""Values, errors and frames between leadline and its agent."""

import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import leadline.places.ssh
from leadline.host.base import Ability
from leadline.model.errors import FailureClass, LeadlineError, NotInPlay, RestoreError, TrialFailure, UsageError
from leadline.model.knob import Machine
from leadline.model.study import Placement, StackChoice
from leadline.places.ssh import wire
from leadline.places.ssh.agent import Agent
from leadline.places.ssh.connection import bundle
from leadline.stack import provision
from leadline.stack.base import AuditResult, Endpoint
from leadline.stack.provision import TOMCAT


@pytest.fixture(autouse=True)
def fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent fetches nothing by itself; the tests after these do."""
    monkeypatch.setattr(provision, "elsewhere", provision.elsewhere)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1,
        0.5,
        "ä\n",
        [1, "2", [None]],
        {"a": {"b": [1.5]}, "c d": True},
        Path("/x/y"),
        Ability.SWAP_OFF,
        Machine(memory=1 << 34, cpus=2),
        Endpoint("10.0.0.1", 5432, "d", "u", "p"),
        AuditResult("rows", passed=False, detail="3 of 4", counted=True),
        Placement(server_cpus="0", server_memory=1 << 30),
        StackChoice(server="tomcat", database="mariadb"),
        TOMCAT,
    ],
)
def test_a_value_arrives_as_it_was(value: object) -> None:
    sent = io.BytesIO(wire.frame({"value": wire.packed(value)}))
    message = wire.read_frame(sent.read)
    assert message is not None
    assert wire.unpacked(message["value"]) == value
    assert wire.read_frame(sent.read) is None


def test_what_does_not_travel_is_refused() -> None:
    with pytest.raises(TypeError, match="a set does not travel"):
        wire.packed({1, 2})
    with pytest.raises(ValueError, match="no value of a kind 'Popen' is known"):
        wire.unpacked({"is a": "Popen", "value": {"args": ["true"]}})


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TrialFailure(FailureClass.CONFIGURATION, "no", "words"), "no"),
        (UsageError("bad"), "bad"),
        (RestoreError("left"), "ssh:a: left"),
        (LookupError("gone"), "gone"),
        (NotInPlay("left out"), "left out"),
        (LeadlineError("x"), "ssh:a: x"),
    ],
)
def test_an_error_arrives_as_it_was(error: Exception, text: str) -> None:
    found = wire.unpacked_error(wire.packed_error(error), "ssh:a")
    assert type(found) is type(error)
    assert str(found) == text
    if isinstance(error, TrialFailure):
        assert isinstance(found, TrialFailure)
        assert (found.failure_class, found.evidence) == (error.failure_class, error.evidence)


def test_other_errors_name_the_host() -> None:
    found = wire.unpacked_error(wire.packed_error(OSError(28, "No space left on device")), "ssh:a")
    assert isinstance(found, OSError)
    assert (found.errno, found.strerror) == (28, "ssh:a: No space left on device")
    unknown = wire.unpacked_error(wire.packed_error(ValueError("odd")), "ssh:a")
    assert type(unknown) is LeadlineError
    assert str(unknown) == "ssh:a: ValueError: odd"
    absent = wire.unpacked_error(wire.packed_error(wire.Absent(TOMCAT)), "ssh:a")
    assert isinstance(absent, wire.Absent)
    assert absent.artefact == TOMCAT


def test_a_frame_that_is_cut_off_or_too_long() -> None:
    whole = wire.frame({"id": 1})
    assert wire.read_frame(io.BytesIO(whole[:-1]).read) is None
    with pytest.raises(ValueError, match="was announced"):
        wire.read_frame(io.BytesIO(b"\xff" * 8).read)


ASKED = re.compile(r"""\.ask\(\s*"([\w.]+)\"""")


def test_the_agent_knows_all_that_is_asked() -> None:
    sources = [path.read_text(encoding="utf-8") for path in Path(leadline.places.ssh.__file__).parent.glob("*.py")]
    asked = {name for text in sources for name in ASKED.findall(text)}
    assert len(asked) > 20
    assert asked <= Agent(print).table().keys()


def test_the_agent_starts_from_what_is_sent_and_ends_with_its_input(tmp_path: Path) -> None:
    sent = bundle()
    assert sent.digest == bundle().digest
    with tarfile.open(fileobj=io.BytesIO(sent.packed)) as archive:
        archive.extractall(tmp_path, filter="data")
    loader = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from leadline.places.ssh.agent import main; main()"
    pipe = subprocess.PIPE
    environment = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", "-c", loader, "0"], stdin=pipe, stdout=pipe, env=environment
    ) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        for number, (do, given) in enumerate([("about", []), ("host.read_back", ["no.knob"]), ("reboot", [])]):
            agent.stdin.write(wire.frame({}) + wire.frame({"id": number, "do": do, "with": given}))
        agent.stdin.flush()
        about, unknown, refused = (wire.read_frame(agent.stdout.read) for _ in range(3))
        agent.stdin.close()
        assert agent.wait(30) == 0
    assert about is not None
    assert wire.unpacked(about["value"])["cache"] == str(tmp_path / "home" / ".cache" / "leadline")
    assert unknown is not None
    assert "no.knob" in str(unknown["error"])
    assert refused is not None
    assert "the agent knows no 'reboot'" in str(refused["error"])
