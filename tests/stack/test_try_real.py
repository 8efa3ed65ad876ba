"""``leadline try`` on a bare archive: from no file at all to a report."""

from pathlib import Path

import pytest
from conftest import leadline
from own_examples import QSHOP, built
from witnesses import matrix

from leadline.store.lab import Store

pytestmark = [
    pytest.mark.stack,
    matrix("a screening starts eight servers"),
]


def test_a_quarkus_application_is_tried_from_its_archive_alone(tmp_path: Path) -> None:
    """It makes no tables itself: the first attempt says so, and goes on where the file names them."""
    archive = built(QSHOP, "quarkus-app/quarkus-run.jar")
    done = leadline("try", str(archive.parent), "--budget", "7m", cwd=tmp_path, timeout=1500)
    assert done.returncode == 2, done.stderr
    assert 'relation "item" does not exist (`sql` of `database` names files that make tables)' in done.stderr
    stack = tmp_path / "qshop.stack.yaml"
    stack.write_text(stack.read_text().replace("first_start: true", f"sql: [{QSHOP / 'db' / 'qshop.sql'}]"))
    (tmp_path / "qshop.scenario.yaml").unlink()
    done = leadline("try", str(archive.parent), "--budget", "7m", cwd=tmp_path, timeout=1500)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "wrote qshop.scenario.yaml from /q/openapi" in said
    store = Store(tmp_path / "lab")
    record = store.load(store.find("qshop-try"))
    assert {trial.state for trial in record.trials} == {"done"}, said
    (page,) = (tmp_path / "lab" / "reports").rglob("report.html")
    assert page.stat().st_size > 10_000
    shown = leadline("show", "qshop-try", cwd=tmp_path)
    assert shown.stdout.splitlines()[0] in done.stdout.splitlines(), "the answer of the stored study"
