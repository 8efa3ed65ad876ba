"""``lab.yaml``: which database a lab's rows are in, and every mistake with its line."""

from pathlib import Path

import pytest

from leadline.model.errors import UsageError
from leadline.store.lab import Store
from leadline.store.labfile import Address, address_of, is_lab, parse_url

TEAM = "postgresql://anna@db.example:6432/team"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (TEAM, Address("anna", "db.example", 6432, "team")),
        ("postgres://anna@db/team", Address("anna", "db", 5432, "team")),
        ("postgresql://a%40b:p%2Fw@[::1]:5/x%20y", Address("a@b", "::1", 5, "x y", "p/w")),
        (
            f"{TEAM}?sslmode=verify-full&schema=of_anna",
            Address(*("anna", "db.example", 6432, "team"), tls="verify-full", schema="of_anna"),
        ),
    ],
)
def test_a_url_is_read(url: str, address: Address) -> None:
    assert parse_url(url, "here") == address


def test_no_password_is_shown() -> None:
    address = parse_url("postgresql://anna:secret@db/team?schema=one", "here")
    assert str(address) == "postgresql://anna@db:5432/team?schema=one"
    assert "secret" not in repr(address)
    assert address.secret() == "secret"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1: names no database; write `database: postgresql://"),
        ("[1]", "1: names no database"),
        ("# ours\ndatabse: x\n", "2: unknown key 'databse'; did you mean database?"),
        ("database: postgresql://db/x\nhost: y\n", "2: unknown key 'host'; the keys are database and artefacts"),
        ("database: 7\n", "1: database is 7, not a URL such as postgresql://"),
        ("\ndatabase: mysql://secret@db/x\n", "2: the database's URL begins with 'mysql', not with postgresql://"),
        ("database: team\n", "1: the database's URL begins with nothing, not with"),
        ("database: postgresql://a:secret@db/\n", "1: the database's URL has no name of one database"),
        ("database: postgresql:///x\n", "1: the database's URL has no host"),
        ("database: postgresql://a:secret@db:port/x\n", "1: the database's URL cannot be read: Port could not be cast"),
        ("database: postgresql://a@db/x?sslmod=off\n", "1: .*the option 'sslmod': did you mean sslmode?"),
        ("database: postgresql://a@db/x?sslmode=off\n", "1: sslmode is 'off', not one of prefer, disable, require"),
        ("database: postgresql://a@db/x?schema=A-B\n", "1: schema is 'A-B', not at most 50 small letters"),
        ("database: [\n", "2: .*"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(text)
    with pytest.raises(UsageError, match=rf"lab\.yaml:{said}") as refused:
        Store(tmp_path, create=False)
    assert "secret" not in str(refused.value)


def test_labs_inside_a_lab_are_in_its_database(tmp_path: Path) -> None:
    assert not is_lab(tmp_path)
    (tmp_path / "lab.yaml").write_text(f"database: {TEAM}\n")
    assert is_lab(tmp_path)
    assert not is_lab(tmp_path / "simulated"), "nothing was simulated yet"
    inner = address_of(tmp_path / "simulated")
    assert inner is not None
    assert str(inner) == f"{TEAM}?schema=simulated"
    assert address_of(tmp_path / "other") is None


def test_a_lab_with_both_is_refused(tmp_path: Path) -> None:
    Store(tmp_path)
    (tmp_path / "lab.yaml").write_text(f"database: {TEAM}\n")
    with pytest.raises(UsageError, match=r"has lab\.sqlite, and its lab\.yaml names a database"):
        Store(tmp_path)


def test_a_password_file_is_read_as_psql_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pgpass"
    monkeypatch.setenv("PGPASSFILE", str(file))
    monkeypatch.delenv("PGPASSWORD", raising=False)
    address = parse_url(TEAM, "here")
    assert address.secret() is None
    file.write_text("# ours\ndb.example:6432:team:bert:b\ndb.example:*:te\\am:anna:a\\:\\\\b\n*:*:*:*:last\n")
    file.chmod(0o600)
    assert address.secret() == "a:\\b"
    assert parse_url("postgresql://x@y/z", "here").secret() == "last"
    monkeypatch.setenv("PGPASSWORD", "first")
    assert address.secret() == "first"
