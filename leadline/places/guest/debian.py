"""Packages of Debian, listed and fetched by this machine's apt-get with a configuration of leadline's own; directories
that are made of them once and verified by their digest at each use; and how a packaged kernel was built: the
differences between kernels that change how a Java service runs.

Nothing is installed and root is not needed. Mirror, proxy and keys are the machine's: its own sources name the mirror,
from which the other suites are derived, and Debian's keyring signs for them (apt-secure(8)).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leadline.host import here
from leadline.host.base import Completed
from leadline.host.received import json_file, json_object_file
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.model.received import ReceivedError

Progress = Callable[[str], None]

_RELEASES = ("bullseye", "bookworm", "trixie", "forky")  # the oldest has 5.10
_UNSTABLE = "sid"
_WANTED = re.compile(r"linux-(image|base|binary|modules)-\d|busybox-static$")
_KEYRINGS = Path("/usr/share/keyrings")
_ALTERNATIVE = "or name a kernel of your own: a bzImage, a package or a build directory"
_UPDATE_LIMIT = 600.0  # seconds
_DOWNLOAD_LIMIT = 3600.0
_ROOM = 8  # bytes that a byte of a package may need, unpacked


@dataclass(frozen=True)
class Package:
    """One version of a package. ``sha256`` is that of the signed list, ``size`` the file's bytes, ``depends`` names."""

    name: str
    version: str
    suite: str
    sha256: str
    size: int
    depends: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """As apt-get calls what it downloads."""
        return f"{self.name}_{self.version.replace(':', '%3a')}_amd64.deb"


class Archive:
    """Debian as this machine reaches it; ``directory`` holds its lists and configuration. One process at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._index = directory / "packages.json"

    def packages(self, progress: Progress, age: float) -> list[Package]:
        """Kernels and busybox in every suite that the mirror has, by lists not older than ``age`` seconds.

        Where no newer list can be had the one that is there counts, and ``progress`` hears why. Raises LeadlineError
        without any, UsageError where this machine has no apt-get or no Debian mirror.
        """
        try:
            fresh = time.time() - self._index.stat().st_mtime < age
            listed = [Package(**{**row, "depends": tuple(row["depends"])}) for row in json_file(self._index)]
        except (OSError, ValueError, TypeError, LookupError, ReceivedError):
            listed, fresh = [], False
        if fresh:
            return listed
        try:
            updated = list(self._updated(progress))
        except LeadlineError as error:
            if not listed:
                raise
            progress(f"{error}; going on with the list of {time.ctime(self._index.stat().st_mtime)}")
            return listed
        half = self._index.with_suffix(".half")
        half.write_text(json.dumps([asdict(package) for package in updated]))
        half.replace(self._index)
        return updated

    def fetch(self, packages: Sequence[Package], work: Path, progress: Progress) -> list[Path]:
        """The packages' files in ``work``, which apt-get verified by the signed list. Raises LeadlineError with
        apt-get's own words, TrialFailure(infrastructure) without room.
        """
        size = sum(package.size for package in packages)
        require_room(work, _ROOM * size, packages[0].name)
        progress(f"fetching {packages[0].name} {packages[0].version} ({size / 1e6:.0f} MB) with apt-get")
        names = [f"{package.name}={package.version}" for package in packages]
        done = self._apt(["download", *names], _DOWNLOAD_LIMIT, f"fetch {packages[0].name}", progress, work)
        files = [work / package.file_name for package in packages]
        if done.returncode or not all(file.exists() for file in files):
            raise _failure(f"apt-get could not fetch {' '.join(names)}", done)
        return files

    def _updated(self, progress: Progress) -> Iterator[Package]:
        self._configure()
        progress("reading Debian's package lists with apt-get")
        done = self._apt(["update"], _UPDATE_LIMIT, "read package lists", progress)
        arguments = ["indextargets", "--format", "$(RELEASE) $(FILENAME)", "Created-By: Packages"]
        listed = self._apt(arguments, _UPDATE_LIMIT, "read package lists", progress)
        lines = [line.partition(" ") for line in listed.stdout.splitlines()]
        lists = [(suite, Path(file)) for suite, _, file in lines if Path(file).exists()]
        if not lists:
            raise _failure("apt-get could not read Debian's package lists", done)
        if late := [line for line in _words(done) if "Failed to fetch" in line]:
            progress(f"apt-get kept older lists: {late[0]}")
        for suite, file in lists:
            yield from read(file.read_text(encoding="utf-8"), suite)

    def _configure(self) -> None:
        """Write sources and configuration. Raises UsageError."""
        uris = self._apt_uris()
        keyring = next(iter(sorted(_KEYRINGS.glob("debian-archive-keyring.*"))), None)
        signed = f" signed-by={keyring}" if keyring else ""
        lines = [f"deb [arch=amd64 targets=Packages{signed}] {uri} {suite} main" for uri, suite in sources(uris)]
        place = self._directory
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (place / folder).mkdir(parents=True, exist_ok=True)
        (place / "status").touch()
        (place / "sources.list").write_text("\n".join(lines) + "\n")
        (place / "apt.conf").write_text(_CONFIGURATION.format(place=place))

    def _apt_uris(self) -> list[str]:
        """What the machine's own apt would read, of any format of its sources."""
        options = ["-o", f"Dir::State::Lists={self._directory / 'none'}"]
        (self._directory / "none").mkdir(parents=True, exist_ok=True)
        argv = [_program("apt-get"), *options, "update", "--print-uris"]
        done = here.run(argv, timeout=_UPDATE_LIMIT, env=_environment())
        if done.returncode:
            raise _failure("apt-get cannot read this machine's sources", done)
        return [line.split("'")[1] for line in done.stdout.splitlines() if line.startswith("'")]

    def _apt(
        self, arguments: Sequence[str], limit: float, purpose: str, progress: Progress, work: Path | None = None
    ) -> Completed:
        argv = [_program("apt-get"), "-q", "-c", str(self._directory / "apt.conf"), *arguments]
        report = lambda seconds: progress(f"apt-get works since {seconds:.0f} s")  # noqa: E731
        try:
            return here.run(argv, tell=report, timeout=limit, env=_environment(), cwd=work)
        except TimeoutError:
            raise LeadlineError(f"apt-get did not {purpose} within {limit:g} s") from None


_CONFIGURATION = """#clear APT::Update;
#clear DPkg::Post-Invoke;
#clear APT::Architectures;
APT::Architecture "amd64";
APT::Architectures:: "amd64";
APT::Sandbox::User "root";
Acquire::AllowReleaseInfoChange "true";
Acquire::GzipIndexes "false";
Acquire::Languages "none";
Acquire::Retries "2";
Dir::State "{place}/state";
Dir::State::status "{place}/status";
Dir::Cache "{place}/cache";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Etc::SourceList "{place}/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
"""


def sources(uris: Iterable[str]) -> list[tuple[str, str]]:
    """Address and suite of every list that may have kernels, from the addresses of the lists this machine reads.

    Others offer suites of the same names: the mirror is the one that has updates of a release, too, or whose address
    ends as Debian's do. Raises UsageError where none is.
    """
    addresses = [
        match.groups() for uri in uris if (match := re.fullmatch(r"(.+)/dists/(.+)/main/binary-[^/]+/Packages\S*", uri))
    ]
    suites = {*_RELEASES, _UNSTABLE, "stable", "oldstable", "testing", "unstable"}
    mains = [uri for uri, suite in addresses if suite in suites]
    sure = [uri for uri, suite in addresses if suite.removesuffix("-updates") in suites and suite.endswith("-updates")]
    sure += [uri for uri in mains if uri.rstrip("/").endswith("/debian")]
    if not mains:
        raise UsageError(
            "apt's sources on this machine name no Debian mirror, and kernels are taken from Debian;"
            f" add a source of Debian's main component, {_ALTERNATIVE}"
        )
    main = next((uri for uri in mains if uri in sure), mains[0])
    secure = next((uri for uri, suite in addresses if suite.endswith("-security")), None)
    if secure is None and main.endswith("/debian"):
        secure = f"{main}-security"
    rows = [(secure, f"{name}-security") if secure else (main, name) for name in _RELEASES]
    return [*rows, *((main, f"{name}-backports") for name in _RELEASES[1:]), (main, _UNSTABLE)]


def read(text: str, suite: str) -> Iterator[Package]:
    """The packages of a list (deb-control(5)) that guests are made of."""
    for stanza in text.split("\n\n"):
        name = stanza.partition("\n")[0].removeprefix("Package: ")
        if _WANTED.match(name):
            fields = dict(line.split(": ", 1) for line in stanza.splitlines() if re.match(r"[A-Z][\w-]*: ", line))
            depends = tuple(re.findall(r"(linux-(?:base|binary|modules)-\d\S*)", fields.get("Depends", "")))
            yield Package(name, fields["Version"], suite, fields["SHA256"], int(fields["Size"]), depends)


def unpack(package: Path, target: Path) -> None:
    """The files of a package below ``target``. Raises LeadlineError, TrialFailure(infrastructure) on a full disk."""
    done = here.run([_program("dpkg-deb"), "-x", str(package), str(target)], timeout=_UPDATE_LIMIT, env=_environment())
    if done.returncode:
        raise _failure(f"{package.name} cannot be unpacked", done)


def require_room(directory: Path, needed: int, what: str) -> None:
    """Raises TrialFailure(infrastructure) where the disk has less than ``needed`` bytes."""
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise TrialFailure(
            FailureClass.INFRASTRUCTURE,
            f"{what} needs about {needed // 2**20} MB of room unpacked, {directory} has {free // 2**20} MB;"
            " free some or set LEADLINE_CACHE to another disk",
        )


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        package = "dpkg" if name.startswith("dpkg") else "apt"
        raise UsageError(
            f"{name} is not on this machine, and kernels are Debian's packages: install {package}, {_ALTERNATIVE}"
        )
    return path


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def _words(done: Completed) -> list[str]:
    """Complaints of apt and dpkg."""
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return [line for line in lines if re.match(r"[EW]: |dpkg-deb: error|tar: ", line)] or lines[-3:]


def _failure(what: str, done: Completed) -> LeadlineError:
    words = "; ".join(_words(done)[:3]) or "nothing"
    if "No space left on device" in done.stdout + done.stderr:
        return TrialFailure(
            FailureClass.INFRASTRUCTURE,
            f"{what}: the disk is full; free some room or set LEADLINE_CACHE to another disk",
        )
    return LeadlineError(f"{what}; it said: {words}")


_SEAL = "sealed.json"

Facts = Mapping[str, Any]


def sealed_facts(directory: Path) -> Facts | None:
    """What was recorded when it was made, and ``digest``; None for what is not complete. Nothing is verified."""
    try:
        return json_object_file(directory / _SEAL)
    except FileNotFoundError:
        return None
    except ReceivedError:
        if not directory.is_dir():
            return None
        raise LeadlineError(f"{directory / _SEAL} is damaged; remove {directory} and fetch again") from None


def verified(directory: Path) -> Facts:
    """The same after the digest was taken again. Raises LeadlineError for files that changed."""
    facts = sealed_facts(directory)
    if facts is None:
        raise LeadlineError(f"{directory} is not complete; remove it and fetch again")
    digest = digest_of(directory)
    if digest != facts["digest"]:
        raise LeadlineError(
            f"{directory} was changed since it was made: sha256 of its files expected {facts['digest'][:16]}...,"
            f" found {digest[:16]}...; remove the directory and fetch again"
        )
    return facts


def make_sealed(target: Path, fill: Callable[[Path], Facts]) -> Facts:
    """``fill`` an empty directory, then seal it as ``target``; what is half done is thrown away.

    The caller holds the lock of ``target.parent``. Raises what ``fill`` raises, TrialFailure(infrastructure) on a full
    disk.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for half in target.parent.glob(".*.half"):  # of a process that was killed; the lock is ours
        shutil.rmtree(half, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".half", dir=target.parent))
    try:
        facts = {**fill(work), "digest": digest_of(work)}
        (work / _SEAL).write_text(json.dumps(facts, indent=2), encoding="utf-8")
        work.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        work.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise TrialFailure(
            FailureClass.INFRASTRUCTURE,
            f"the disk of {target.parent} is full; free some room or set LEADLINE_CACHE to another disk",
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return facts


def digest_of(directory: Path) -> str:
    """SHA-256 (hex) over path and SHA-256 of every file, in order of the paths."""
    total = hashlib.sha256()
    for path in sorted(path for path in directory.rglob("*") if path.is_file() and path != directory / _SEAL):
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        total.update(f"{digest}  {path.relative_to(directory)}\n".encode())
    return total.hexdigest()


Options = Mapping[str, str]  # CONFIG_ name without the prefix -> y, m, a number or text; absent: not set

_SWITCHES: Mapping[str, tuple[str, ...]] = {  # trait: what it is called, in one version or another
    "timer frequency (HZ)": ("HZ",),
    "nohz_full can be had": ("NO_HZ_FULL",),
    "memory cgroup": ("MEMCG",),
    "CPU quota of cgroups": ("CFS_BANDWIDTH",),
    "swap": ("SWAP",),
    "zram": ("ZRAM",),
    "NUMA balancing": ("NUMA_BALANCING",),
    "scheduler groups by session": ("SCHED_AUTOGROUP",),
    "memory zeroed on allocation": ("INIT_ON_ALLOC_DEFAULT_ON",),
    "locks per memory area (VMA)": ("PER_VMA_LOCK",),
    "mitigations": ("CPU_MITIGATIONS", "SPECULATION_MITIGATIONS"),
    "page table isolation": ("MITIGATION_PAGE_TABLE_ISOLATION", "PAGE_TABLE_ISOLATION"),
    "retpolines": ("MITIGATION_RETPOLINE", "RETPOLINE"),
    "return thunks": ("MITIGATION_RETHUNK", "RETHUNK"),
    "system calls can be audited": ("AUDITSYSCALL",),
    "security modules": ("LSM",),
    "scheduler statistics": ("SCHEDSTATS",),
    "function tracer": ("FUNCTION_TRACER",),
    "events for BPF": ("BPF_EVENTS",),
}
_DEFAULTS: Mapping[str, tuple[str, str, bool]] = {  # trait: built, the option of its default, what that option says
    "multi-generation LRU": ("LRU_GEN", "LRU_GEN_ENABLED", True),
    "zswap": ("ZSWAP", "ZSWAP_DEFAULT_ON", True),
    "pressure stall information": ("PSI", "PSI_DEFAULT_DISABLED", False),
}


def options_of(text: str) -> dict[str, str]:
    """Options of a ``.config`` file."""
    rows = re.findall(r"^CONFIG_(\w+)=(.*)$", text, re.MULTILINE)
    return {name: value.strip('"') for name, value in rows}


def traits(options: Options) -> dict[str, str]:
    """What matters, in words: trait -> how this kernel has it. Empty where the configuration is not known."""
    if not options:
        return {}
    traits = {
        "preemption": _preemption(options),
        "transparent huge pages": _huge_pages(options),
    }
    traits |= {trait: _default(options, *names) for trait, names in _DEFAULTS.items()}
    return traits | {trait: _switch(options, names) for trait, names in _SWITCHES.items()}


def differences(first: Options, second: Options) -> dict[str, tuple[str, str]]:
    """Every option that differs: name -> level of each, ``-`` where it is not set."""
    names = sorted(name for name in {*first, *second} if first.get(name) != second.get(name))
    return {name: (first.get(name, "-"), second.get(name, "-")) for name in names}


def _preemption(options: Options) -> str:
    built = next((name for name in ("LAZY", "VOLUNTARY", "NONE") if f"PREEMPT_{name}" in options), "FULL").lower()
    if "PREEMPT_RT" in options:
        built = "real time (PREEMPT_RT)"
    return f"{built}, preempt= changes it" if "PREEMPT_DYNAMIC" in options else built


def _huge_pages(options: Options) -> str:
    built = (name for name in ("ALWAYS", "MADVISE", "NEVER") if f"TRANSPARENT_HUGEPAGE_{name}" in options)
    return next(built, "none built").lower()


def _default(options: Options, name: str, switch: str, meaning: bool) -> str:
    if name not in options:
        return "off"
    return "on" if (switch in options) is meaning else "off by default"


def _switch(options: Options, names: tuple[str, ...]) -> str:
    value = next((options[name] for name in names if name in options), "off")
    return {"y": "on", "m": "module"}.get(value, value)
