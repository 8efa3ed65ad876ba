"""What doctor says, on this host and on directories that stand for others."""

from pathlib import Path

import pytest

from leadline.host import checks, facts
from leadline.host.java import find_java, java_homes
from leadline.host.local import LocalHost
from leadline.model.errors import UsageError


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


@pytest.fixture
def host(tmp_path: Path) -> LocalHost:
    return LocalHost(state=tmp_path / "state", root=tmp_path / "root")


def fake_java_home(folder: Path, version: str, jdk: bool = True) -> Path:
    home = folder / f"java-{version}"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(mode=0o755)
    if jdk:
        (home / "bin" / "javac").touch(mode=0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def test_every_check_answers_on_this_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(facts, "probe", lambda **_: facts.Noise(1.0, 2.0, 0.0, 100))
    found = checks.findings(LocalHost(state=tmp_path / "state"))
    assert len(found) == len(checks.CHECKS) == len({finding.name for finding in found})
    assert all(finding.sentence and finding.level in ("ok", "warn", "bad") for finding in found)


@pytest.mark.parametrize(
    ("check", "files", "level", "words"),
    [
        (checks.check_governor, {}, "ok", "does not control"),
        (
            checks.check_governor,
            {"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave"},
            "warn",
            "powersave",
        ),
        (
            checks.check_governor,
            {"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance"},
            "ok",
            "held high",
        ),
        (checks.check_smt, {"sys/devices/system/cpu/smt/active": "1"}, "warn", "share cores"),
        (checks.check_smt, {"sys/devices/system/cpu/smt/active": "0"}, "ok", "core"),
        (checks.check_swap, {"proc/swaps": "Filename\n/dev/vdb partition 1 0 -2"}, "warn", "/dev/vdb"),
        (checks.check_swap, {"proc/swaps": "Filename"}, "ok", "off"),
        (checks.check_memory, {"proc/meminfo": "MemTotal: 999999 kB\nMemAvailable: 500000 kB"}, "bad", "need 1 GiB"),
        (checks.check_memory, {"proc/meminfo": "MemTotal: 9999999 kB\nMemAvailable: 5000000 kB"}, "ok", "4.8 of 9.5"),
        (checks.check_load, {"proc/loadavg": "800.00 1 1 1/2 3"}, "warn", "end other work"),
        (checks.check_load, {"proc/loadavg": "0.01 1 1 1/2 3"}, "ok", "0.01"),
        (
            checks.check_clock,
            {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"},
            "warn",
            "hpet is slow",
        ),
        (checks.check_pressure, {}, "warn", "psi=1"),
        (checks.check_ports, {"proc/sys/net/ipv4/ip_local_port_range": "60000\t60999"}, "warn", "1000 ports"),
        (checks.check_ports, {"proc/sys/net/ipv4/ip_local_port_range": "32768\t60999"}, "ok", "28232 ports"),
        (checks.check_thp, {"sys/kernel/mm/transparent_hugepage/enabled": "[always] never"}, "ok", "always"),
    ],
)
def test_what_each_check_says(
    host: LocalHost,
    check: object,
    files: dict[str, str],
    level: str,
    words: str,
) -> None:
    for path, text in files.items():
        put(host.root, path, text)
    finding = check(host)  # type: ignore[operator]
    assert finding.level == level
    assert words in f"{finding.sentence} {finding.mend}"
    assert bool(finding.mend) == (level != "ok")


def test_a_finding_without_a_command_is_refused() -> None:
    with pytest.raises(ValueError, match="'noise' has no command"):
        checks.HostFinding("noise", "warn", "loud")


def test_a_run_is_told_what_would_spoil_it(host: LocalHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    put(host.root, "proc/loadavg", "0.01 1 1 1/2 3")
    put(host.root, "proc/swaps", "Filename\n/dev/vdb partition 1 0 -2")
    put(host.root, "proc/meminfo", "MemTotal: 9999999 kB\nMemAvailable: 900000 kB")
    told = {finding.name: finding for finding in checks.spoilers(host)}
    assert told["swap"].mend == "sudo swapoff -a"
    assert told["memory"].level == "bad"
    assert not told.keys() & {"other load", "governor", "undo journal"}
    put(host.root, "proc/loadavg", "800.00 1 1 1/2 3")
    assert "other load" in {finding.name for finding in checks.spoilers(host)}


def test_left_entries_are_told_with_the_command(host: LocalHost, tmp_path: Path) -> None:
    assert checks.check_undo(host).level == "ok"
    host.private_tree(tmp_path / "scratch")
    finding = checks.check_undo(host)
    assert (finding.level, finding.mend) == ("warn", "leadline restore")
    with host.lease():
        assert checks.check_undo(host).level == "ok"


def test_noise_is_measured() -> None:
    found = facts.probe(seconds=0.1)
    assert found.rounds >= 20
    assert found.spread >= 0
    assert found.worst >= 0
    assert 0 <= found.stolen <= 100


def test_the_first_jdk_new_enough_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    named = fake_java_home(tmp_path / "named", "21.0.2")
    folder = tmp_path / "jvm"
    fake_java_home(folder, "1.8.0_402")
    fake_java_home(folder, "11.0.22")
    newer = fake_java_home(folder, "17.0.9")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert [home.major for home in java_homes(folder)] == [8, 11, 17] or {h.major for h in java_homes(folder)} == {
        8,
        11,
        17,
    }
    assert find_java(17, folder) == newer
    monkeypatch.setenv("JAVA_HOME", str(named))
    assert find_java(17, folder) == named


def test_without_a_jdk_the_message_tells_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(UsageError, match="no JDK 17 or newer: no Java found"):
        find_java(17, tmp_path / "jvm")
    fake_java_home(tmp_path / "jvm", "11.0.22")
    fake_java_home(tmp_path / "jvm", "17.0.9", jdk=False)
    with pytest.raises(UsageError, match=r"found only .*11\.0\.22.*no compiler"):
        find_java(17, tmp_path / "jvm")
