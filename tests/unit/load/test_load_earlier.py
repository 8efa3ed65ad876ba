"""Results of an earlier run are neither lost nor mixed with those of a new one."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.load import result
from leadline.load.cluster import hosts
from leadline.load.cluster import run as cluster_command
from leadline.load.result import read_summary
from leadline.model.errors import UsageError
from leadline.model.hosts import DriverHost

HERE = DriverHost(name="here", via="local")
# A tool that measures: it leaves what wrk's hook would.
TOOL = """#!/bin/sh
cat > "$LEADLINE_WRK_RESULT" <<END
{"requests": NUMBER, "duration_us": 1000000, "connect": 0, "timeout": 0, "read": 0, "write": 0, "status": 0,
 "mean": 1, "p50": 1, "p90": 1, "p95": 1, "p99": 1, "p999": 1, "max": 1}
END
"""


# A driver that refuses a mistyped option, waits for its start where it is told to, and fails when it starts.
DRIVER = """#!/bin/sh
die() { echo "leadline-load: $*" >&2; exit 2; }
if [ "$1" = host ]; then
  echo '{"version": "1", "cpus": 1, "open_files": 9, "name": "fake"}'
  while read -r line; do date +%s%N; done
  exit
fi
case " $* " in *" --tiemout "*) die "unknown option \\`--tiemout\\`";; esac
case " $* " in *" --start-at "*)
  echo '{"ready":true}'
  while read -r line; do
    case "$line" in stop) exit 130;; "start "*) break;; esac
  done;;
esac
die "WORDS"
"""


def fake_driver(place: Path, words: str) -> Path:
    """Its path; once started it ends with these words."""
    driver = place / "driver"
    driver.write_text(DRIVER.replace("WORDS", words))
    driver.chmod(0o755)
    return driver


def together(out: Path, *options: str) -> None:
    cluster_command.run_drivers("brokerage-json", ["--out", str(out), *options], [HERE], lambda _: None)


def generator(out: Path, *options: str) -> None:
    words = ["load", "--generator", "wrk", "--url", "http://h", "--out", str(out), *options]
    done = CliRunner().invoke(app, words)
    if done.exception is not None:
        raise done.exception


@pytest.fixture
def fake_wrk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Puts a wrk on the path that made so many requests."""
    tool = tmp_path / "bin" / "wrk"
    tool.parent.mkdir()
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")

    def place(requests: int) -> None:
        tool.write_text(TOOL.replace("NUMBER", str(requests)))
        tool.chmod(0o755)

    place(7)
    return place


def everything(out: Path) -> dict[str, str]:
    return {str(path.relative_to(out)): path.read_text() for path in out.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("fake_wrk")
@pytest.mark.parametrize("start", [together, generator])
@pytest.mark.parametrize(
    "file",
    [
        "summary.json",
        "response.hlog",
        "drivers/far/blocked.hlog",
        "raw/started",
    ],
)
def test_any_result_is_in_the_way(tmp_path: Path, start: Callable[..., None], file: str) -> None:
    out = tmp_path / "out"
    (out / file).parent.mkdir(parents=True)
    (out / file).write_text("measured")
    with pytest.raises(UsageError, match=f"--out {out}: {file} of an earlier run is there: .*--replace"):
        start(out)
    assert everything(out) == {file: "measured"}


def test_other_files_are_not_in_the_way_and_stay(tmp_path: Path) -> None:
    mine = ("notes.txt", "step-by-step/notes.txt", "raw/data.csv", "drivers/far/notes.txt", "logs/keeper.log")
    for file in (*mine, "drivers/far/summary.json", "drivers/near/steady.hlog"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    with pytest.raises(UsageError, match=r"drivers/far/summary\.json"):
        result.refuse(tmp_path)
    result.remove(tmp_path)
    assert sorted(everything(tmp_path)) == sorted(mine)
    assert not (tmp_path / "drivers/near").exists()
    result.refuse(tmp_path)
    result.refuse(tmp_path / "no such directory")


def test_a_generators_results_are_replaced_when_asked(tmp_path: Path, fake_wrk: Callable[[int], None]) -> None:
    out = tmp_path / "out"
    generator(out)
    assert read_summary(out).requests.count == 7
    before = everything(out)
    fake_wrk(9)
    with pytest.raises(UsageError, match=r"summary\.json of an earlier run"):
        generator(out)
    assert everything(out) == before
    (out / "raw/left.csv").write_text("of the first run")
    with pytest.raises(UsageError, match="name the Lua script"):
        generator(out, "--replace", "--options", "-s x.lua")
    assert everything(out) == {**before, "raw/left.csv": "of the first run"}, "not by a run that cannot start"
    generator(out, "--replace")
    assert read_summary(out).requests.count == 9
    assert not (out / "raw/left.csv").exists()


def test_drivers_that_start_together_begin_anew_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(hosts, "find_binary", lambda: fake_driver(tmp_path, "nobody runs here"))
    out = tmp_path / "out"
    for file in ("summary.json", "drivers/here/summary.json", "drivers/far/summary.json"):
        (out / file).parent.mkdir(parents=True, exist_ok=True)
        (out / file).write_text("measured")
    before = everything(out)
    with pytest.raises(UsageError, match=r"^unknown option `--tiemout`$"):
        together(out, "--replace", "--tiemout", "1s")
    after = everything(out)
    assert {file: after[file] for file in after if not file.startswith("logs/")} == before
    with pytest.raises(UsageError, match=r"^nobody runs here$"):
        together(out, "--replace")
    assert [file for file in everything(out) if file.endswith("summary.json")] == []
    assert (out / "drivers/here").is_dir(), "where the driver is about to write"
    assert not (out / "drivers/far").exists()


def test_the_drivers_own_list_of_its_files_is_the_same() -> None:
    source = (Path(__file__).parents[3] / "driver/src/measure/earlier.rs").read_text()
    listed = re.search(r"FILES: \[&str; \d+\] = \[(.*?)\];", source, re.S)
    assert listed
    assert [*re.findall(r'"([^"]+)"', listed[1]), "host.json"] == list(result.FILES)
