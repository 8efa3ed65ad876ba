"""A kernel that a pool was asked for is checked on the host, never changed there."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from leadline.model.errors import FailureClass, TrialFailure
from leadline.pool.kernels import BootedHost


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BootedHost:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path))
    return BootedHost([platform.release(), "1.0-never"])


def test_the_kernel_that_runs_is_read_back(host: BootedHost) -> None:
    host.apply({"kernel.release": platform.release()})
    assert host.read_back("kernel.release") == platform.release()
    assert host.writable("kernel.release") == ""


def test_another_kernel_is_a_failure_of_the_host(host: BootedHost) -> None:
    with pytest.raises(TrialFailure, match=r"runs kernel .*, the job asked its pool for 1\.0-never") as failed:
        host.apply({"kernel.release": "1.0-never"})
    assert failed.value.failure_class is FailureClass.INFRASTRUCTURE
    assert host.read_back("kernel.release") == platform.release()
