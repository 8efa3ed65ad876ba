"""A lab is made, or checked: its database and the place of its files are tried before its ``lab.yaml`` names them."""

from __future__ import annotations

import time
from pathlib import Path

from leadline.model.errors import LeadlineError, UsageError
from leadline.store.artefacts import OF_ANOTHER, Artefacts
from leadline.store.database import identity_of, opened
from leadline.store.files import send_all
from leadline.store.lab import Store
from leadline.store.labfile import (
    SQLITE,
    ArtefactPlace,
    address_of,
    artefacts_of,
    is_lab,
    named,
    parse_artefacts,
    parse_url,
    refuse_own,
    write,
)


def init_lab(directory: Path, url: str | None = None, artefacts: str | None = None) -> Store:
    """A lab, new or there already. With ``url`` its rows are in that PostgreSQL database, with ``artefacts`` (a
    directory, ``s3://BUCKET/PREFIX``) its files are kept there; those of trials that ran before are sent. Raises
    UsageError, LeadlineError.
    """
    if url is not None:
        _check_database(directory, url)
    place = None if artefacts is None else parse_artefacts(artefacts, Path.cwd(), "--artefacts")
    if place is not None:
        _check_files(directory, url, place)
        artefacts = artefacts if place.bucket else str(place.folder)
    if url is None and place is None:
        return Store(directory)
    known_url, known_place = named(directory)
    url, artefacts = known_url if url is None else url, known_place if artefacts is None else artefacts
    try:
        _belong(directory, url, place)
        directory.mkdir(parents=True, exist_ok=True)
        write(directory, url, artefacts)
    except OSError as error:
        raise LeadlineError(f"the lab {directory} cannot be made: {error}") from error
    store = Store(directory)
    send_all(store)
    return store


def _check_database(directory: Path, url: str) -> None:
    address = parse_url(url, "--database")
    if is_lab(directory) and address_of(directory) != address:
        rows = address_of(directory) or directory / SQLITE
        raise UsageError(
            f"{directory} is a lab already, its rows are in {rows}: name another directory, then"
            f" `leadline lab merge {directory} --lab DIR` copies its studies there"
        )


def _check_files(directory: Path, url: str | None, place: ArtefactPlace) -> None:
    artefacts = artefacts_of(directory)
    if artefacts is not None and artefacts != place:
        raise UsageError(
            f"{directory} keeps its files in {artefacts} already: copy them to {place} and name it in lab.yaml, or make"
            f" another lab there, then `leadline lab merge {directory} --lab DIR`"
        )
    refuse_own(directory, place)
    there = Artefacts(place)
    there.probe()
    if url is None and not is_lab(directory) and there.owner():
        raise LeadlineError(OF_ANOTHER.format(place=place))


def _belong(directory: Path, url: str | None, place: ArtefactPlace | None) -> None:
    """The lab's tables are made or found, and the place of its files is its own."""
    if url is not None:
        with opened(parse_url(url, "--database"), time.time).begin() as connection:
            identity = identity_of(connection)
    elif place is not None:
        identity = Store(directory).identity
    if place is not None:
        Artefacts(place).belong_to(identity)
