"""Files by the hash of their content, in a shared directory or in a bucket of an S3-compatible server.

A content is kept once, however many trials left it, at ``PLACE/sha256/ab/abcd...``; ``PLACE/lab.json`` names the one
lab whose files they are. Credentials come from the environment (``AWS_ACCESS_KEY_ID``), never from a file of the lab.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import resource
import sys
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from leadline.host import here
from leadline.model.errors import LeadlineError, shortened
from leadline.model.received import ReceivedError, from_json, typed
from leadline.store.labfile import ArtefactPlace

if TYPE_CHECKING:
    from obstore import BytesStream
    from obstore.store import ObjectStore

_AT_ONCE = 8  # requests
_RETRIES, _FEW = 9, 2  # of it, and where somebody waits for the answer
_CONTENTS, _OWNER = "sha256", "lab.json"
_MOST_CONTENTS = 10_000_000
_MOST_BYTES = 1 << 16  # of a document
_DIGEST = re.compile("[0-9a-f]{64}")
_METADATA = ("169.254.169.254", "169.254.170.2", "latest/api/token", "latest/meta-data")  # who is asked for a role
OF_ANOTHER = "{place} has the files of another lab: name another directory, or another prefix"
_WITHIN = 4 * 3600.0  # seconds that a call may take, with all its files
_MEMORY = 2 << 30  # bytes of addresses that it may take
_Item = TypeVar("_Item")
_Given = ParamSpec("_Given")


@dataclass(frozen=True)
class _Owner:
    lab: str


@dataclass(frozen=True)
class Patience:
    """Seconds: for a request that the server did not answer, without a byte, for a list of all contents."""

    request: float = 20.0
    silence: float = 30.0
    listing: float = 600.0


PATIENCE = Patience()


def _apart(method: Callable[_Given, _Item]) -> Callable[_Given, _Item]:
    """The method, for a bucket in a process of its own: the library takes the memory that a server announces, which can
    end the process, and nothing catches that.
    """

    @wraps(method)
    def call(*given: _Given.args, **named: _Given.kwargs) -> _Item:
        place: Artefacts = given[0]  # type: ignore[assignment]
        return place._called(method.__name__, given[1:]) if place.apart else method(*given, **named)

    return call


class Artefacts:
    """Every method raises LeadlineError, of one line, where the place cannot be used."""

    def __init__(self, place: ArtefactPlace, retries: int = _RETRIES, patience: Patience | None = None) -> None:
        self.place = place
        self.apart = bool(place.bucket)
        self._retries, self._patience = retries, patience or PATIENCE

    def _called(self, method: str, given: tuple[Any, ...]) -> Any:
        call = pickle.dumps((self.place, self._retries, self._patience, method, given))
        try:
            done = here.exchange([sys.executable, "-m", __name__], call, timeout=_WITHIN)
            answer = from_json(done.stdout.decode(), most=len(done.stdout))
        except (OSError, ValueError):
            raise LeadlineError(f"{self.place}: an answer of the server ended the process that read it") from None
        if "error" in answer:
            raise LeadlineError(answer["error"])
        return set(answer["value"]) if method == "missing" else answer["value"]

    @cached_property
    def _store(self) -> ObjectStore:
        from obstore.store import LocalStore, S3Store  # takes long to import

        place = self.place
        if not place.bucket:
            return LocalStore(place.folder, mkdir=True)
        options = {"endpoint": place.endpoint, "region": place.region}
        return S3Store(
            place.bucket,
            prefix=place.prefix or None,
            config={name: value for name, value in options.items() if value},  # type: ignore[arg-type]
            retry_config={"max_retries": self._retries, "retry_timeout": timedelta(seconds=self._patience.request)},
            client_options={
                "allow_http": not place.endpoint.startswith("https://"),  # nothing but the user's URL says so
                "connect_timeout": timedelta(seconds=5),
                "read_timeout": timedelta(seconds=self._patience.silence),
            },
        )

    @_apart
    def probe(self) -> None:
        """Write something there, read it back, remove it. Waits for no server that is away."""
        import obstore

        quick, name = Artefacts(self.place, _FEW, self._patience), f"probe-{uuid.uuid4().hex}"
        with self._told():
            obstore.put(quick._store, name, name.encode())
            read = quick._document(name)
            obstore.delete(quick._store, name)
        if read != name.encode():
            raise LeadlineError(f"{self.place}: what was written there is read as something else")

    @_apart
    def owner(self) -> str:
        """The lab whose files are there, empty for none yet."""
        try:
            return typed(_Owner, from_json(self._document(_OWNER)), _OWNER).lab
        except FileNotFoundError:
            return ""
        except (ValueError, ReceivedError):
            raise LeadlineError(f"{self.place}: {_OWNER} is damaged: name another place") from None

    def _document(self, name: str) -> bytes:
        """Raises FileNotFoundError, LeadlineError, also where it is long."""
        import obstore

        async def read() -> bytes:
            document = b""
            async for part in (await obstore.get_async(self._store, name)).stream(min_chunk_size=1):
                document += bytes(part)
                if len(document) > _MOST_BYTES:
                    raise LeadlineError(f"{self.place}: {name} has more than {_MOST_BYTES:,} bytes")
            return document

        with self._told():
            return here.finished(read(), self._patience.listing)

    @_apart
    def belong_to(self, lab: str) -> None:
        """From now on the place is that lab's. Raises LeadlineError where it is another's."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        if not (owner := self.owner()):
            with suppress(AlreadyExistsError), self._told():
                obstore.put(self._store, _OWNER, json.dumps({"lab": lab}).encode(), mode="create")
            owner = self.owner()
        if owner != lab:
            raise LeadlineError(OF_ANOTHER.format(place=self.place))

    @_apart
    def missing(self, digests: Collection[str]) -> set[str]:
        """Those that are not there."""
        import obstore

        def absent(digest: str) -> bool:
            try:
                with self._told():
                    obstore.head(self._store, _path(digest))
                return False
            except FileNotFoundError:
                return True

        return {digest for digest, gone in zip(digests, _each(absent, digests), strict=True) if gone}

    @_apart
    def put(self, files: Mapping[str, Path]) -> int:
        """Files by their digests; those that are there already are not sent. How many were sent."""
        import obstore

        def send(digest: str) -> None:
            with self._told():
                obstore.put(self._store, _path(digest), files[digest])

        lacking = self.missing(files)
        _each(send, lacking)
        return len(lacking)

    @_apart
    def get(self, files: Collection[tuple[str, int, Path]]) -> None:
        """Write contents, by their digests and bytes, to new files. Raises LeadlineError for one that is not there, or
        not as its digest says.
        """

        def fetch(wanted: tuple[str, int, Path]) -> None:
            self._fetch(*wanted)

        _each(fetch, files)

    def _fetch(self, digest: str, size: int, target: Path) -> None:
        import obstore

        target.parent.mkdir(parents=True, exist_ok=True)
        read = hashlib.sha256()
        try:
            with self._told():
                parts = iter(obstore.get(self._store, _path(digest)).stream())
        except FileNotFoundError:
            raise LeadlineError(f"{self.place} lacks the content {digest} of {target.name}") from None
        with target.open("wb") as file:
            while file.tell() <= size and (part := self._next(parts)):
                read.update(part)
                file.write(part)
        if read.hexdigest() != digest:
            target.unlink()
            raise LeadlineError(f"{self.place}: the content {digest} of {target.name} is damaged there")

    def _next(self, parts: BytesStream) -> bytes:
        """The next part of a content, empty at its end."""
        with self._told():
            return bytes(next(parts, b""))

    @_apart
    def sizes(self) -> dict[str, int]:
        """Bytes of everything that is there, by digest."""
        import obstore

        sizes: dict[str, int] = {}

        async def read() -> None:
            async for page in obstore.list(self._store, prefix=_CONTENTS):  # asks for page after page, without an end
                for meta in page:
                    digest = meta["path"].rpartition("/")[2]
                    if _DIGEST.fullmatch(digest) and meta["path"] == _path(digest):  # else it is not leadline's
                        sizes[digest] = meta["size"]
                if len(sizes) > _MOST_CONTENTS:
                    raise TimeoutError

        with self._told():
            try:
                here.finished(read(), self._patience.listing)
            except TimeoutError:
                raise LeadlineError(f"{self.place}: the list of what is there does not end") from None
        return sizes

    @_apart
    def remove(self, digests: Collection[str]) -> None:
        """Those that are not there are passed over."""
        import obstore

        if self.place.bucket:
            with self._told():
                obstore.delete(self._store, [_path(digest) for digest in digests])
            return
        for digest in digests:
            with suppress(FileNotFoundError), self._told():
                obstore.delete(self._store, _path(digest))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What the library raises as one line, but FileNotFoundError and AlreadyExistsError."""
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            yield
        except AlreadyExistsError:
            raise
        except FileNotFoundError as error:
            code = _code(error)
            if code and code[0] != "NoSuchKey":
                raise LeadlineError(f"{self.place}: {self._reason(error)}") from None
            raise
        except (BaseError, OSError, ValueError) as error:
            raise LeadlineError(f"{self.place}: {self._reason(error)}") from error

    def _reason(self, error: Exception) -> str:
        from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

        text, server = str(error), self.place.endpoint or "the server"
        code = _code(error)
        if "NoSuchBucket" in text:
            return f"there is no bucket {self.place.bucket}; who may, makes it"
        if self.place.bucket and any(word in text for word in _METADATA):
            return (
                "no credentials were found: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, a web"
                " identity, or the role of this machine"
            )
        if self.place.bucket and (isinstance(error, (PermissionDeniedError, UnauthenticatedError)) or " 403 " in text):
            why = f" ({code[0]})" if code else ""
            return f"{server} refuses these credentials{why}: they need to list, read, write and delete there"
        if "kind: Connect" in text or "kind: Timeout" in text:
            return f"{server} cannot be reached"
        if "kind: PermissionDenied" in text or isinstance(error, PermissionError):
            return "permission denied"
        if code:
            return f"{server} refuses the request: {': '.join(code)}"
        return shortened(" ".join(text.partition("\n")[0].split()), 200)


def _code(error: Exception) -> tuple[str, str] | None:
    """Of the server's reply, and its message."""
    match = re.search("<Code>([^<]*)</Code>(?:.*?<Message>([^<]*)</Message>)?", str(error), re.DOTALL)
    return (match.group(1), match.group(2) or "") if match else None


def _path(digest: str) -> str:
    return f"{_CONTENTS}/{digest[:2]}/{digest}"


def _each(work: Callable[[_Item], object], items: Collection[_Item]) -> list[object]:
    """Some at once, results in order."""
    if not items:
        return []
    with ThreadPoolExecutor(min(_AT_ONCE, len(items)), thread_name_prefix="artefacts") as pool:
        return list(pool.map(work, items))


def _main() -> None:
    """A method for who started this process: what it is on standard input, its value or error on standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    place, retries, patience, method, given = pickle.loads(sys.stdin.buffer.read())
    artefacts = Artefacts(place, retries, patience)
    artefacts.apart = False
    try:
        value = getattr(artefacts, method)(*given)
        print(json.dumps({"value": value}, default=list))
    except LeadlineError as error:
        print(json.dumps({"error": str(error)}))
    sys.stdout.flush()
    os._exit(0)  # the library's threads may still read


if __name__ == "__main__":
    _main()
