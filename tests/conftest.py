"""What many tests share: one small real study, and a headless Chromium."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings

from leadline.host.paths import cache_dir
from leadline.host.process import one_blas_thread
from leadline.model.errors import TrialFailure

one_blas_thread()  # before any test imports numpy
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, whose children would ignore it too
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run; `make test HYPOTHESIS=default` searches anew.
hypothesis_settings.register_profile("same", derandomize=True)

STUDY = """\
study: mini
question: Does a pool of one connection hurt?
stack: { server: tomcat, mode: direct }
workload: { users: 30, variables: { think: 100ms }, ramp_up: 2s, steady: 4s, ramp_down: 1s }
factors:
  server.datasource.max_connections: [40, 1]
# commits that take 100 ms, whatever the machine is doing: what a pool of one then queues for
settings: { jvm.heap: 256m, database.commit_delay: 100000, database.commit_siblings: 0 }
design: { replicates: 3, sentinels: null, seed: 3 }
responses: [throughput, p50, p99, cpu_per_transaction, gc_share, startup]
"""

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")

# Tests that take the host's lease or change its settings run one after the other, beside the others.
HOLD_THE_HOST = {
    "test_application_browser",
    "test_commands",
    "test_docs",
    "test_far_host",
    "test_live_restart",
    "test_host_kernel",
    "test_host_large_pages",
    "test_host_ram_disk",
    "test_own_application",
    "test_own_attached",
    "test_own_compose_real",
    "test_places_real",
    "test_published",
    "test_rotation_real",
    "test_secrets_real",
    "test_try_real",
    "test_tutorial",
    "test_switchback",
}

# Unit tests that take seconds of CPU each: `make test` runs them, `make check` does not.
SLOW = {
    "test_api",
    "test_bisect",
    "test_callbacks",
    "test_capacity_command",
    "test_capacity_fit",
    "test_capacity_network",
    "test_ci_example",
    "test_compare_cli",
    "test_extending",
    "test_figures_cli",
    "test_fuzz",
    "test_knee",
    "test_lab_interruption",
    "test_lab_kill",
    "test_layouts",
    "test_load_alternate",
    "test_loads",
    "test_neighbour",
    "test_own_try",
    "test_planning_cli",
    "test_planning_looks",
    "test_pool_run",
    "test_profile",
    "test_report",
    "test_report_ci",
    "test_report_files",
    "test_report_flames",
    "test_simulate_forks",
    "test_simulate_hosts",
    "test_simulate_run",
    "test_simulate_soak",
    "test_stacks",
    "test_tutorials",
    "test_verdicts_agree",
}

# In CI too: what only `make matrix` runs, and what the host itself cannot do. Want of a program is neither.
SKIPS_IN_CI = re.compile(r"^Skipped: host: |LEADLINE_MATRIX=1")

# Tests wait for the host that another test, or another checkout's, has just now.
os.environ.setdefault("LEADLINE_WAIT", "900")

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def leadline(*arguments: str | Path, cwd: Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it."""
    argv = [sys.executable, "-m", "leadline.cli", *map(str, arguments)]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)


@dataclass(frozen=True)
class RealStudy:
    """``document`` is what ``run --json`` printed; ``directory`` holds the lab and the study file."""

    directory: Path
    document: dict[str, Any]
    messages: str

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return leadline(*arguments, cwd=self.directory)

    def json(self, *arguments: str | Path) -> Any:
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def trials(self, level: int) -> Sequence[dict[str, Any]]:
        found = self.document["trials"]
        return [trial for trial in found if trial["planned"]["levels"]["server.datasource.max_connections"] == level]


@pytest.fixture(autouse=True)
def own_temporary_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A ``TMPDIR`` for each test: ``restore`` sweeps, and tells, what a killed leadline left there, of any test's."""
    place = Path(tempfile.mkdtemp(prefix="leadline-test-", dir="/tmp"))
    place.chmod(0o711)
    monkeypatch.setenv("TMPDIR", str(place))
    yield
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def real_study(tmp_path_factory: pytest.TempPathFactory) -> RealStudy:
    directory = tmp_path_factory.mktemp("study")
    os.environ["LEADLINE_STATE"] = str(directory / "state")
    (directory / "mini.yaml").write_text(STUDY)
    done = leadline("run", "mini.yaml", "--json", cwd=directory, timeout=580)
    assert done.returncode == 0, done.stderr
    return RealStudy(directory, json.loads(done.stdout), done.stderr)


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Snapshots of its own beside the distributions that are there."""
    dist = cache_dir() / "dist"
    dist.mkdir(parents=True, exist_ok=True)
    own = tmp_path_factory.mktemp("cache")
    (own / "dist").symlink_to(dist)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEADLINE_CACHE", str(own))
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--lab-database", metavar="URL", help="labs of the fixture `place` are in this PostgreSQL database"
    )


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], Path]]:
    """The directory of a lab of this name, whose rows are in it or in the database of ``--lab-database``."""
    from leadline.store import database, labfile

    url = request.config.getoption("--lab-database")
    known: set[str] = set()

    def lab(name: str) -> Path:
        if url is not None and name not in known:
            (tmp_path / name).mkdir()
            labfile.write(tmp_path / name, f"{url}?schema=lab_{uuid.uuid4().hex}")
            known.add(name)
        return tmp_path / name

    yield lab
    for engine in database._engines.values():
        engine.dispose()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A ``playwright`` browser; needs Chromium on the path."""
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"none of {', '.join(CHROMIUM)} is on the path")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        opened = started.chromium.launch(executable_path=path, headless=True, args=arguments)
        yield opened
        opened.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a test that is skipped for want of a program fails. A failed trial shows its evidence."""
    report = yield
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    if report.skipped and os.environ.get("CI") == "true" and not SKIPS_IN_CI.search(reason):
        report.outcome, report.longrepr = "failed", f"skipped in CI, where .ci/run installs what is needed: {reason}"
    if report.failed and call.excinfo is not None and isinstance(call.excinfo.value, TrialFailure):
        report.sections.append(("evidence of the failed trial", call.excinfo.value.evidence))
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests as ``host`` or ``slow``."""
    for item in items:
        stem = item.path.stem
        if stem in SLOW or {"golden", "statistics"} & set(item.path.parts):
            item.add_marker(pytest.mark.slow)
        if stem in HOLD_THE_HOST:
            item.add_marker(pytest.mark.host)
    items.sort(key=lambda item: item.path.stem not in HOLD_THE_HOST)
