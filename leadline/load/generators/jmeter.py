"""JMeter: a row for every sample, by its CSV results (JTL)."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from leadline.host.received import table_file
from leadline.load.generators import base
from leadline.model.errors import UsageError
from leadline.model.received import number

_SAVE = {
    "output_format": "csv",
    "print_field_names": "true",
    "timestamp_format": "ms",
    "subresults": "false",
    "label": "true",
    "response_code": "true",
    "successful": "true",
    "time": "true",
    "connect_time": "true",
}


class JMeter:
    """`jmeter -n`; the plan finds the server in the properties ``leadline.url``, ``.host``, ``.port``, ``.path``."""

    name = "jmeter"
    per_second = True

    def check(self, job: base.Job) -> str:
        if job.has("-l", "--logfile"):
            raise UsageError("jmeter: -l is taken: leadline reads its results")
        plan = job.script_file("jmeter")
        program = job.find("jmeter", "unpack Apache JMeter and name its bin/jmeter as the program")
        _check_scripting(plan, Path(program).resolve())
        return program

    def command(self, job: base.Job) -> base.Command:
        program = self.check(job)
        results = job.raw / "jmeter.jtl"
        results.unlink(missing_ok=True)
        address = job.address
        properties = {
            **{f"jmeter.save.saveservice.{key}": value for key, value in _SAVE.items()},
            "leadline.url": job.url,
            "leadline.host": address.hostname or "",
            "leadline.port": str(job.port),
            "leadline.path": address.path or "/",
            "leadline.seconds": str(job.whole_seconds),
            "leadline.seed": str(job.seed),
        }
        words = [f"-J{key}={value}" for key, value in properties.items()]
        files = ["-t", str(job.script_file("jmeter")), "-l", str(results), "-j", str(job.raw / "jmeter.log")]
        return base.Command([program, "-n", *files, *words, *job.words])

    def read(self, job: base.Job) -> base.Findings:
        return base.Findings("jmeter", base.meaning_of("jmeter", "closed"), read_jtl(job.raw / "jmeter.jtl"))


def _check_scripting(plan: Path, program: Path) -> None:
    """Raises UsageError for a plan whose JSR223 elements this JMeter cannot load: it would end with a class name."""
    if 'testclass="JSR223' not in plan.read_text(encoding="utf-8", errors="replace"):
        return
    home = program.parent.parent
    if not (home / "lib" / "ext").is_dir():
        return
    jars = {jar.name for folder in (home / "lib", home / "lib" / "ext") for jar in folder.glob("*.jar")}
    needed = {"ApacheJMeter_java": "lib/ext", "groovy": "lib", "groovy-jsr223": "lib"}
    lacking = [f"{name} in {place}" for name, place in needed.items() if not _holds(jars, name)]
    if lacking:
        raise UsageError(
            f"jmeter: {plan.name} has JSR223 elements, and {home} lacks {', '.join(lacking)}: take the whole "
            "distribution of Apache JMeter, or add these jars"
        )


def _holds(jars: Collection[str], name: str) -> bool:
    return any(jar == f"{name}.jar" or re.match(rf"{re.escape(name)}-\d", jar) for jar in jars)


def read_jtl(path: Path) -> list[base.Sample]:
    """Samples by label: ``timeStamp`` (start, unix ms) and ``elapsed`` (ms, the connection included)."""
    samples, what = [], str(path)
    for row in table_file(path, ("timeStamp", "elapsed", "success", "responseCode", "label")):
        took = number(row, "elapsed", what, most=base.LONGEST_MS)
        end = (number(row, "timeStamp", what) + took) / 1000
        error = "" if row["success"] == "true" else _kind(row["responseCode"])
        samples.append(base.Sample(row["label"], end, took, took, error))
    return samples


def _kind(code: str) -> str:
    if code.isdecimal():
        return base.status_kind(int(code[:9])) or "check"
    for part, kind in (("Timeout", "timeout"), ("ConnectException", "connect"), ("UnknownHost", "connect")):
        if part in code:
            return kind
    return "closed" if "NoHttpResponse" in code else "reset" if "SocketException" in code else "protocol"


GENERATOR: base.Generator = JMeter()
