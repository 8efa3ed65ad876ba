"""What a host over SSH lacks is told when it is first reached; a script stands for OpenSSH's client."""

import os
import subprocess
from pathlib import Path

import pytest

from leadline.model.errors import UsageError
from leadline.model.hosts import SshHost
from leadline.places.ssh import connection as of_host
from leadline.places.ssh.connection import Connection

_CLIENT = """#!/bin/sh
# a fake of ssh: the command runs here, after the options
while [ "$1" != -- ]; do shift; done
export SSH_CONNECTION='192.0.2.1 40000 192.0.2.2 22'
exec sh -c "$2"
"""


def put(directory: Path, **programs: str) -> None:
    for name, text in programs.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of programs that come before the others there; its user is not root."""
    put(tmp_path, ssh=_CLIENT, id="#!/bin/sh\necho 1000\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def refused(host: SshHost) -> str:
    connection = Connection(host)
    try:
        with pytest.raises(UsageError) as found:
            connection.open()
    finally:
        connection.close()
    return str(found.value)


def test_a_sudo_that_asks_for_a_password_is_refused(there: Path) -> None:
    put(there, sudo="#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    said = refused(SshHost("app", sudo=True))
    assert said.startswith(
        "ssh+sudo:app: sudo there does not work without a password (sudo: a password is required); allow it for this"
        " user, log in as root, or write ssh:app"
    )


def test_without_sudo_such_a_user_is_no_root(there: Path) -> None:
    connection = Connection(SshHost("app"))
    try:
        connection.open()
        assert not connection.root
        assert connection.address == "192.0.2.2"
    finally:
        connection.close()


def test_another_machine_is_refused(there: Path) -> None:
    put(there, uname='#!/bin/sh\ntest "$1" = -m && echo aarch64 || echo Linux\n')
    assert "it is Linux aarch64, and leadline runs on Linux x86_64" in refused(SshHost("app"))


def test_the_first_session_ends_where_it_hears_nothing(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the network was lost: no end of its input comes."""
    monkeypatch.setattr(of_host, "_SILENCE", 1)
    monkeypatch.setattr(of_host, "_live", lambda _: None)
    connection = Connection(SshHost("app"))
    try:
        connection.open()
        assert connection._master is not None
        assert connection._master.wait(60) == 0
    finally:
        connection.close()


def test_the_first_session_is_sent_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_host, "_SILENCE", 0.6)
    session = subprocess.Popen(["head", "-c", "2"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    of_host._live(session)  # until it has had two
    assert session.wait(60) == 0
