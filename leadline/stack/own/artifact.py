"""What a jar tells of itself: framework, main class, port, probe; and a first stack file from it."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leadline.host import java
from leadline.model.errors import UsageError

_MAGIC = b"\xca\xfe\xba\xbe"
_FIRST = 44  # version of class files of Java 1.0; one more with each release
_WITHIN = {"spring-boot": "BOOT-INF/classes/", "war": "WEB-INF/classes/"}


def too_new(artifact: Path, home: Path) -> str:
    """Why the JVM of ``home`` cannot load an artifact; empty where it can, or where neither tells. Raises UsageError
    where ``home`` is none.
    """
    needed, home_ = java_of(artifact), java.java_home(home)
    if needed is None or needed <= home_.major:
        return ""
    newer = [f"{home.path} ({home.version})" for home in java.java_homes() if home.major >= needed]
    where = f"this host has {', '.join(newer)}" if newer else "this host has none"
    return (
        f"{artifact.name} needs Java {needed} (class file version {needed + _FIRST}), and {home_.path} is Java "
        f"{home_.major}: name the home of a newer one by `java`; {where}"
    )


def java_of(artifact: Path) -> int | None:
    """The newest Java that one of its own classes asks for; None where it has none that can be read."""
    with suppress(UsageError, OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return max(_versions(artifact), default=None)
    return None


def _versions(artifact: Path) -> Iterator[int]:
    artifact_ = read_artifact(artifact)
    if artifact_.framework == "quarkus":
        for jar in sorted((artifact_.file.parent / "app").glob("*.jar")):
            with zipfile.ZipFile(jar) as archive:
                yield from _in(archive, "")
        return
    with zipfile.ZipFile(artifact_.file) as archive:
        if within := _WITHIN.get(artifact_.framework):
            yield from _in(archive, within)
        else:  # others in it may be of libraries that are never loaded
            yield from _in(archive, f"{artifact_.main_class.replace('.', '/')}.class")


def _in(archive: zipfile.ZipFile, within: str) -> Iterator[int]:
    for name in archive.namelist():
        if name.startswith(within) and name.endswith(".class") and "META-INF/" not in name:
            with archive.open(name) as stream:
                head = stream.read(8)
            if head[:4] == _MAGIC and len(head) == 8:
                yield int.from_bytes(head[6:8]) - _FIRST


RUN_JAR = "quarkus-run.jar"  # starts a fast-jar; what it loads lies in folders beside it
_MANIFEST = "META-INF/MANIFEST.MF"
_LONGEST_MANIFEST = 1 << 20
_QUARKUS = "io.quarkus.bootstrap.runner.QuarkusEntryPoint"


@dataclass(frozen=True)
class Artifact:
    """``libraries``: file names of the jars it brings; ``version``: of the framework, empty where it has none."""

    file: Path
    framework: str  # "spring-boot", "quarkus", "java", "war"
    version: str
    main_class: str
    libraries: tuple[str, ...]
    data_source: str = ""  # of a WAR: the JNDI name that its persistence unit or its descriptor asks for

    def has(self, library: str) -> bool:
        """Whether it brings a library: ``spring-boot-actuator``."""
        return any(re.match(rf"(.*\.)?{re.escape(library)}-\d", name) for name in self.libraries)


def read_artifact(file: Path) -> Artifact:
    """Raises UsageError for what is no jar that ``java -jar`` starts, and no archive for a server."""
    if file.is_dir() and (file / RUN_JAR).is_file():
        file = file / RUN_JAR
    try:
        with zipfile.ZipFile(file) as jar:
            names = jar.namelist()
            if file.suffix.lower() in (".war", ".ear"):
                return _archive(file, jar, names)
            with jar.open(_MANIFEST) as stream:
                manifest = _manifest(stream.read(_LONGEST_MANIFEST).decode("utf-8", "replace"))
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}; build it first") from None
    except (zipfile.BadZipFile, IsADirectoryError):
        raise UsageError(f"{file} is no jar") from None
    except KeyError:
        raise UsageError(f"{file} has no {_MANIFEST}, so it is no jar that java -jar starts") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
    if "Main-Class" not in manifest:
        raise UsageError(
            f"{file} names no Main-Class, so java -jar does not start it; give the one that is made to run"
        )
    if "Spring-Boot-Version" in manifest:
        inside = tuple(name.rpartition("/")[2] for name in names if name.startswith("BOOT-INF/lib/"))
        main = manifest.get("Start-Class", manifest["Main-Class"])
        return Artifact(file, "spring-boot", manifest["Spring-Boot-Version"], main, inside)
    if manifest["Main-Class"] == _QUARKUS:
        beside = tuple(path.name for path in sorted((file.parent / "lib").rglob("*.jar")))
        core = next((match[1] for name in beside if (match := re.fullmatch(r".*quarkus-core-(\d.*)\.jar", name))), "")
        return Artifact(file, "quarkus", core, manifest["Main-Class"], beside)
    return Artifact(file, "java", "", manifest["Main-Class"], ())


def _archive(file: Path, archive: zipfile.ZipFile, names: list[str]) -> Artifact:
    """A WAR or an EAR."""
    libraries = tuple(name.rpartition("/")[2] for name in names if name.endswith(".jar"))
    source = ""
    for name in names:
        if name.endswith(("META-INF/persistence.xml", "WEB-INF/web.xml")):
            with archive.open(name) as stream:
                text = stream.read(_LONGEST_MANIFEST).decode("utf-8", "replace")
            match = re.search(r"<(?:jta-data-source|res-ref-name)>\s*([^<\s]+)", text)
            source = source or (match[1] if match else "")
    source = re.sub(r"^java:(comp/env/|app/|global/|/)?", "", source)
    return Artifact(file, "war", "", "", libraries, source)


def _manifest(text: str) -> dict[str, str]:
    """Entries of the main section; long lines go on after a space."""
    main = re.sub(r"\r?\n ", "", re.split(r"\r?\n\r?\n", text, maxsplit=1)[0])
    return {name.strip(): value.strip() for line in main.splitlines() for name, _, value in [line.partition(":")]}
