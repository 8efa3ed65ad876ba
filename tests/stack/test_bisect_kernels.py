"""A bisection over real kernels in virtual time; a web server of busybox stands for the stack.

It boots a dozen emulated guests, so it runs with LEADLINE_MATRIX=1 only; ``pytest -s`` prints what the command prints.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from page_guests import SCENARIO, FakeCaptures
from typer.testing import CliRunner
from witnesses import matrix

from leadline.api.running import open_testbed
from leadline.api.studies import Study
from leadline.cli.main import app
from leadline.experiments.bisect.run import BisectRun, probe_file, question
from leadline.model.errors import LeadlineError
from leadline.model.record import StudyRecord
from leadline.places.guest.boot import QEMU
from leadline.places.guest.kernels import kernels as listed
from leadline.places.testbed import RunOptions
from leadline.places.virtual import guests
from leadline.planning.bisection import next_block
from leadline.store.lab import Store

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(shutil.which(QEMU) is None, reason=f"{QEMU} is not installed"),
    matrix("kernels are bisected, some minutes"),
]
ENDS = ("6.1-cloud", "6.16-cloud")
STUDY = """\
study: pages
question: Since which kernel does a page cost more, or less?
stack: { app: brokerage, mode: direct, server: tomcat, database: postgres, host: virtual-time }
guest: { memory: 320m }
workload: { scenario: page.yaml, users: 4, ramp_up: 1s, steady: 1s, ramp_down: 0s }
design: { kind: forks, worlds: 1 }
responses: [server_cpu_per_transaction, throughput, p50]
"""


def command(*words: str) -> str:
    done = CliRunner().invoke(app, ["bisect", "pages.yaml", "--from", ENDS[0], "--to", ENDS[1], *words])
    assert done.exit_code in (0, 1), f"{done.output}{done.exception!r}"
    return done.stdout


def test_kernels_between_two_are_probed_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "Captures", FakeCaptures)
    (tmp_path / "pages.yaml").write_text(STUDY)
    (tmp_path / "page.yaml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    try:
        releases = {one.name: one.release for one in listed(print)}
    except LeadlineError as error:
        pytest.skip(f"no kernels can be had here: {error}")
    print(command("--dry-run"))
    print(command(), flush=True)
    found = json.loads(command("--json"))
    assert found["complete"], found["stopped"]
    assert len(found["worlds"]) == 1

    store = Store(tmp_path / "lab", create=False)
    probes = [store.load(number) for number in found["studies"]]
    ran = set()
    for trial in (trial for probe in probes for trial in probe.trials):
        assert trial.directory is not None
        kernel = str(trial.planned.treatment.as_dict()["guest.kernel"])
        facts = json.loads((trial.directory / "logs" / "guest.json").read_text())
        assert facts["guest"]["kernel.release"] == releases[kernel]
        ran.add(kernel)
    assert set(ENDS) < ran or found["found"] == "none"
    assert [one["treatment"] for one in found["treatments"]] == [
        f"guest.kernel={kernel}" for kernel in releases if kernel in ran
    ]

    asked = question(Study.read("pages.yaml").file, first=ENDS[0], last=ENDS[1])
    place = open_testbed(tmp_path / "lab-2", subject=Study.read("pages.yaml"))
    first = probe_file(asked, next_block(BisectRun(asked, place).begin()), probes[0].study.study)
    assert place.run(first, place.plan(first, idle_settings=True), RunOptions()).complete
    assert responses(place.store.load(1)) == responses(probes[0])


def responses(record: StudyRecord) -> list[Any]:
    """To the last digit."""
    return [dict(trial.responses) for trial in record.trials]
