"""A real S3 server on loopback: Versity's gateway, which keeps buckets in a directory and checks signatures."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from witnesses import wait_for

ACCESS, SECRET, BUCKET = "leadline", "not-a-secret", "team"


@dataclass
class S3Server:
    """``environment``: the credentials, as a user gives them."""

    endpoint: str

    environment = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}  # noqa: RUF012

    def url(self, prefix: str, bucket: str = BUCKET) -> str:
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}"


def program() -> str:
    """Skips the test where it is not on the path."""
    if path := shutil.which("versitygw"):
        return path
    pytest.skip("no S3 server: versitygw is not on the path; .ci/run shows how Go installs it")


@contextmanager
def s3_server(home: Path) -> Iterator[S3Server]:
    """With the bucket ``BUCKET``."""
    argv = [program(), "--quiet", "--port"]
    (home / "buckets" / BUCKET).mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = {"ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(
            [*argv, f"127.0.0.1:{port}", "posix", str(home / "buckets")],
            env={**os.environ, **given},
            stdout=log,
            stderr=log,
        )
        try:
            assert wait_for(lambda: _answers(port) or server.poll() is not None, 60)
            assert server.poll() is None, (home / "log").read_text()
            yield S3Server(f"http://127.0.0.1:{port}")
        finally:
            server.terminate()
            server.wait(30)


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
