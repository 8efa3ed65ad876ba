"""WildFly's configuration written by its own command line, offline, once for each script; trials only copy it."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from leadline.host import here
from leadline.host.jvm import java_environment
from leadline.host.paths import cache_dir, exclusive
from leadline.model.errors import LeadlineError
from leadline.stack.base import Progress

_TIMEOUT = 300.0


def prepared(
    home: Path,
    java: Path,
    profile: str,
    operations: Sequence[str],
    progress: Progress,
    source: Path | None = None,
) -> Path:
    """A configuration directory with ``profile`` of ``source`` (a configuration directory of the user's; the
    distribution's if None) after ``operations``.

    Made by an embedded server in admin-only mode (WildFly Admin Guide, "Offline mode"), all operations or none; kept in
    the cache under the hash of all that decides it. ``java`` is the home of a JDK. Raises LeadlineError with WildFly's
    own words.
    """
    lines = [line for line in operations if line.strip() and not line.startswith("#")]
    text = "\n".join([f"embed-server --server-config={profile} --std-out=discard", "batch", *lines, "run-batch"])
    script = f"{text}\nstop-embedded-server\n"
    hashed = hashlib.sha256(f"{home.parent.name}\n{script}".encode())
    for path in sorted(source.iterdir()) if source is not None else ():
        hashed.update(path.name.encode() + path.read_bytes() if path.is_file() else b"")
    digest = hashed.hexdigest()[:16]
    place = cache_dir() / "dist"
    target = place / f"{home.name}-configuration-{digest}"
    if not target.exists():
        with exclusive(
            place / f".{digest}.lock", lambda: progress("waiting for another process that prepares WildFly")
        ):
            if not target.exists():
                progress("preparing WildFly's configuration")
                _prepare(home, java, profile, script, target, source)
    return target


def _prepare(home: Path, java: Path, profile: str, script: str, target: Path, own: Path | None) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    try:
        source, configuration = own or home / "standalone" / "configuration", work / "base" / "configuration"
        configuration.mkdir(parents=True)
        names = {profile, *(path.name for path in source.glob("*.properties"))}
        for name in names if own is None else [path.name for path in own.iterdir() if path.is_file()]:
            shutil.copyfile(source / name, configuration / name)
        (work / "script.cli").write_text(script)
        output = _run(home, java, work)
        written = configuration / profile
        if output or written.read_bytes() == (source / profile).read_bytes():
            raise LeadlineError(
                f"WildFly refused the configuration that leadline wants:\n{output or '(it said nothing)'}"
            )
        for unused in ("standalone_xml_history", *(["logging.properties"] if own is None else [])):
            path = configuration / unused
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        (work / "script.cli").rename(configuration / "script.cli")
        for path in configuration.iterdir():
            path.chmod(0o644)
        configuration.chmod(0o755)
        configuration.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(home: Path, java: Path, work: Path) -> str:
    """Run the script; empty when every operation was done, else the last words."""
    command = [
        str(java / "bin" / "java"),
        f"-Djboss.cli.config={home / 'bin' / 'jboss-cli.xml'}",
        f"-Djboss.server.base.dir={work / 'base'}",
        f"-Dlogging.configuration={(home / 'bin' / 'jboss-cli-logging.properties').as_uri()}",
        "-jar",
        str(home / "jboss-modules.jar"),
        "-mp",
        str(home / "modules"),
        "org.jboss.as.cli",
        f"--file={work / 'script.cli'}",
    ]
    environment = java_environment(JBOSS_HOME=str(home))
    try:
        done = here.alone(command, [home, java], [work], home=work, cwd=work, env=environment, timeout=_TIMEOUT)
    except TimeoutError:
        return f"no end after {_TIMEOUT:g} s"
    if done.returncode == 0:
        return ""
    return "\n".join(f"  {line}" for line in (done.stdout + done.stderr).strip().splitlines()[-20:])
