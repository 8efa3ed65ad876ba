"""Files of servers: configuration as text, the log that says why a server is not ready, and the in-process agent: its
jar, built where it is missing or old, its answers and the MBeans in them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from leadline.host.base import Host
from leadline.host.java import AGENT_NAME, agent_jar, load_agent
from leadline.host.textfile import write_private
from leadline.model.received import from_json
from leadline.stack.base import Deployment, Progress
from leadline.stack.provision import build


def beans(answer: Mapping[str, Any], part: str) -> list[Mapping[str, Any]]:
    """Attributes of the MBeans whose object name contains ``part``; KeyError if there is none."""
    attributes_found = [attributes for name, attributes in answer["beans"].items() if part in name]
    if not attributes_found:
        raise KeyError(f"MBean {part}")
    return attributes_found


ANSWER = "read-back.json"  # the JVM writes it
_WORKLOADS = Path(__file__).resolve().parents[3] / "workloads"


def ensure_agent(progress: Progress) -> Path:
    """The agent's jar. Raises LeadlineError with Maven's own words when it cannot be built."""
    sources = _WORKLOADS / "agent" / "src" / "main"
    if not sources.exists():  # installed from a wheel, which carries the jar
        return agent_jar()
    jar = _WORKLOADS / "agent" / "target" / AGENT_NAME
    build("the agent", _WORKLOADS, ["agent"], sources.rglob("*"), [jar], progress)
    return jar


def ask(
    host: Host, java_home: Path | None, pid: int, directory: Path, question: Mapping[str, str]
) -> Mapping[str, Any]:
    """What the agent in a running JVM answers; its files are written below ``directory``.

    Raises AttachError, OSError, ValueError.
    """
    output, options = directory / ANSWER, directory / "read-back.properties"
    write_private(output, "")
    host.give(output, pid)
    options.write_text(properties_text({"answer": str(output), **question}))
    options.chmod(0o644)
    load_agent(host, java_home, pid, options)
    answer: dict[str, Any] = from_json(output.read_text())
    output.unlink()
    return answer


# Liberty marks errors with a code that ends in E, Tomcat with SEVERE, WildFly and the frameworks with ERROR, the JVM
# with fixed phrases.
_ERROR = re.compile(
    r"\b[A-Z]{4,5}\d{4}E\b|\bCWWKZ0012I\b|\[ERROR|\bSEVERE\b|\bERROR (?:\[|\d+ ---)|\bFATAL \[|^Error: "
    r"|Address already in use|Port \d+ (?:was already|seems to be) in use"
    r"|Error occurred during initialization"
    r"|Could not (?:create|reserve|allocate)|OutOfMemoryError|Unrecognized VM option|Unrecognized option"
    r"|Invalid (?:maximum|initial|minimum) heap|[Tt]oo small|Conflicting collector|is larger than|not supported"
    r"|must be less than|outside the allowed range|Improperly specified VM option"
    r"|FATAL:|fatal error has been detected|Exception in thread|Initial heap size set to a larger value"
    r"|exceeds the maximum|There is insufficient memory"
)
_NOISE = re.compile(r"^Error: (?:Could not create the Java Virtual Machine|A fatal exception has occurred)")
# The next line has the reason.
_HEADING = re.compile(
    r"Error occurred during initialization of (?:VM|boot layer)\s*$|insufficient memory for the Java Runtime"
)
_PORT_TAKEN = re.compile(
    r"Address already in use|\bCWWKO0221E\b|port might already be in use|Port \d+ (?:was already|seems to be) in use"
)
_MEMORY = re.compile(r"\bOutOfMemoryError\b|insufficient memory for the Java Runtime")
_WIDTH = 400
_LONGEST = 1 << 16  # characters that are looked at as one line


def out_of_memory(directory: Path) -> str:
    """The first line in the logs of a trial's services by which a JVM says that its memory is not enough, after the
    name of its log; empty where none does.
    """
    for log in sorted(directory.rglob("*.log")):
        if log.is_file() and not log.name.startswith("driver"):
            with log.open(errors="replace") as stream:
                lines = iter(partial(stream.readline, _LONGEST), "")
                line = next((line for line in lines if _MEMORY.search(line)), "")
            if line:
                return f"{log.name}: {line.strip()[:_WIDTH]}"
    return ""


@dataclass(frozen=True)
class LogEvidence:
    """``errors`` are the server's own error lines in order, without repeats; ``tail`` the last lines of the log."""

    errors: Sequence[str]
    tail: Sequence[str]

    @property
    def headline(self) -> str:
        """The first line that says something, shortened; empty if there is none."""
        return self.errors[0] if self.errors else ""

    @property
    def port_taken(self) -> bool:
        return any(_PORT_TAKEN.search(line) for line in self.errors)

    @property
    def out_of_memory(self) -> bool:
        """Whether the JVM itself says that its memory is not enough."""
        return any(_MEMORY.search(line) for line in (*self.errors, *self.tail))

    def text(self) -> str:
        """Errors first, then the end of the log."""
        head = "\n".join(self.errors)
        tail = "\n".join(self.tail)
        return f"{head}\n--- end of the log ---\n{tail}" if head else tail


def gather_evidence(text: str, lines: int = 40) -> LogEvidence:
    """Evidence from a log's text. A line of the JVM that only announces the next line is joined with it."""
    errors: list[str] = []
    rows = text.splitlines()
    for row, following in zip(rows, rows[1:] + [""] * bool(rows), strict=True):
        if not _ERROR.search(row) or _NOISE.search(row):
            continue
        line = row.strip(" #")
        if _HEADING.search(line) and following.strip(" #"):
            line = f"{line.rstrip('.')}: {following.strip(' #')}"
        line = line[:_WIDTH]
        if not any(line in earlier or _message(line) == _message(earlier) for earlier in errors):
            errors.append(line)
    return LogEvidence(errors[:20], [row.rstrip()[:_WIDTH] for row in rows[-lines:]])


def _message(line: str) -> str:
    """The line without its time stamp and thread, so that repeats are seen as such."""
    return re.sub(r"^\[?\d[^A-Z]*|\[[^\]]*\]\s*", "", line)


_TEMPLATES = Path(__file__).parent / "templates"


def template(name: str, deployment: Deployment | None = None) -> str:
    """A configuration file shipped with leadline, with the names of the application for ``@name@``, ``@jndi@`` (of its
    data source) and ``@pool@`` (the last part of that).
    """
    text = (_TEMPLATES / name).read_text()
    if deployment is not None:
        source = deployment.data_source
        for mark, text_ in (("@name@", deployment.name), ("@jndi@", source.jndi), ("@pool@", source.name)):
            text = text.replace(mark, text_)
    return text


def properties_text(values: Mapping[str, str]) -> str:
    """A Java properties file in ASCII, which readers of UTF-8 and of ISO 8859-1 take alike (java.util.Properties)."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in values.items())


def _escaped(value: str) -> str:
    plain = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    if plain.startswith((" ", "\t", "\f")):
        plain = f"\\{plain}"
    units = plain.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)
