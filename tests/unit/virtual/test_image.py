"""What a guest's root holds."""

from pathlib import Path

import pytest

from leadline.guest.initramfs import Node
from leadline.host.base import ProcessSpec
from leadline.virtual import image
from leadline.virtual.capture import Captured, Started
from leadline.virtual.job import OVERLAYS, SETTINGS, USERS


def capture(root: Path, number: int, heap: str) -> Captured:
    """A server with a directory of its own, as it was at its start, below ``root``."""
    home = Path("/srv/stack/server")
    kept = root / f"capture-{number}"
    inside = kept / home.relative_to("/")
    (inside / "empty").mkdir(parents=True)
    (inside / "empty").chmod(0o700)
    (inside / "heap.conf").write_text(heap)
    (inside / "same.conf").write_text("same")
    (inside / "same.conf").chmod(0o600)
    (inside / "link").symlink_to("same.conf")
    library = root / "dist"
    library.mkdir(exist_ok=True)
    (library / "private.jar").write_text("jar")
    (library / "private.jar").chmod(0o600)
    if not (library / "same.jar").exists():
        (library / "same.jar").hardlink_to(library / "private.jar")
    spec = ProcessSpec("server", ["java"], root / "server.log", cwd=home, owns=[home], reads=[library])
    return Captured(Path("/srv/stack/trial"), [Started(spec, kept)], "", "", 1, {}, [library])


@pytest.fixture
def driver(tmp_path: Path) -> list[Path]:
    program = tmp_path / "leadline-load"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return [program]


def node(items: object, path: str) -> Node:
    assert isinstance(items, dict)
    found = items[path]
    assert isinstance(found, Node)
    return found


def test_files_keep_their_paths_owners_and_modes(tmp_path: Path, driver: list[Path]) -> None:
    items = image.contents([capture(tmp_path, 0, "1g")], driver, ["/proc/sys/vm/*"])
    server = USERS["server"]
    own = node(items, "/srv/stack/server/same.conf")
    assert (own.user, own.mode, own.content) == (server, 0o600, tmp_path / "capture-0/srv/stack/server/same.conf")
    empty = node(items, "/srv/stack/server/empty")
    assert (empty.directory, empty.user, empty.mode) == (True, server, 0o700)
    above = node(items, "/srv/stack")
    assert (above.user, above.mode) == (0, 0o755)
    assert node(items, "/srv/stack/server/link").link == "same.conf"
    shared = node(items, f"{tmp_path}/dist/private.jar")
    assert (shared.user, shared.mode) == (0, 0o644)
    assert node(items, f"{tmp_path}/dist/same.jar").link == f"{tmp_path}/dist/private.jar"
    assert node(items, f"{tmp_path}/leadline-load").permissions == 0o755
    assert node(items, SETTINGS).content == b"/proc/sys/vm/*\n"
    assert node(items, "/srv/stack/trial/raw").mode == 0o1777


def test_other_levels_bring_only_what_differs(tmp_path: Path, driver: list[Path]) -> None:
    captures = [capture(tmp_path, 0, "1g"), capture(tmp_path, 1, "2g")]
    items = image.contents(captures, driver, [])
    assert [path for path in items if path.startswith(OVERLAYS)] == [f"{OVERLAYS}/1/srv/stack/server/heap.conf"]
    assert node(items, f"{OVERLAYS}/1/srv/stack/server/heap.conf").user == USERS["server"]


def test_programs_bring_their_libraries(tmp_path: Path) -> None:
    items = image.contents([capture(tmp_path, 0, "1g")], [Path("/bin/sleep").resolve()], [])
    assert any(Path(path).name.startswith("libc.so") for path in items)


def test_a_home_without_jlink_is_taken_whole(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    assert image.runtime(tmp_path) == tmp_path
