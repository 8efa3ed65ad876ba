"""JMeter and Gatling from the Maven repositories, as their distributions have them."""

import subprocess
import zipfile
from pathlib import Path

import pytest

JVM_GENERATORS = Path(__file__).parent / "generators"
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy-dependencies"


def jars(place: Path, profile: str, *words: str) -> Path:
    """The folder of a generator's archives."""
    pom = JVM_GENERATORS / "pom.xml"
    argv = ["mvn", "-B", "-q", "-f", str(pom), "-P", profile, _PLUGIN, f"-DoutputDirectory={place}", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(f"{profile} is not in the Maven repositories that are reached: {done.stdout[-300:]}")
    return place


def program(path: Path, *argv: str) -> str:
    """A program such as a distribution has; arguments follow."""
    path.write_text(f'#!/bin/sh\nexec {" ".join(argv)} "$@"\n')
    path.chmod(0o755)
    return str(path)


def jmeter(home: Path) -> str:
    """The program of JMeter, put together in ``home``."""
    for jar in list(jars(home / "lib", "jmeter").iterdir()):
        if jar.name.startswith("ApacheJMeter_config"):
            with zipfile.ZipFile(jar) as files:
                files.extractall(home)
        if jar.name.startswith("ApacheJMeter-"):
            jar.rename(home / "bin.jar")
        elif jar.name.startswith("ApacheJMeter_"):
            (home / "lib" / "ext").mkdir(exist_ok=True)
            jar.rename(home / "lib" / "ext" / jar.name)
    (home / "bin.jar").rename(home / "bin" / "ApacheJMeter.jar")
    archive = str(home / "bin" / "ApacheJMeter.jar")
    return program(home / "bin" / "jmeter", "java", "-XX:TieredStopAtLevel=1", "-jar", archive)
