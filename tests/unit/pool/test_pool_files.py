"""How a pool is named: every mistake with its place and the nearest valid choice."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.model.errors import UsageError
from leadline.pool.files import Partition, SshHosts, read_pool


def test_slurm_with_and_without_a_partition() -> None:
    assert read_pool("slurm") == Partition()
    assert read_pool("slurm:fast") == Partition(partition="fast")


def test_a_file_for_slurm(tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text("partition: fast\nleadline: /opt/leadline\noptions: [--time=60]\n")
    assert read_pool(f"slurm:{file}") == Partition(partition="fast", leadline="/opt/leadline", options=("--time=60",))


def test_hosts_over_ssh(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text("hosts: [a, root@b:2222, 'ssh+sudo:c']\n")
    found = read_pool(f"ssh:{file}")
    assert isinstance(found, SshHosts)
    assert [(each.words, each.sudo) for each in found.machines] == [
        (["a"], False),
        (["-p", "2222", "root@b"], False),
        (["c"], True),
    ]


@pytest.mark.parametrize(
    ("word", "text", "message"),
    [
        ("slrum", "", "--pool 'slrum': there is no such kind of pool; did you mean slurm?"),
        ("k8s", "", "--pool 'k8s': there is no such kind of pool; write slurm, slurm:PARTITION, "),
        ("slurm:", "", "names no partition; write slurm for the usual one"),
        ("ssh", "", "names no file of hosts; write ssh:hosts.yaml"),
        ("ssh:{file}", "hosts: []\n", "{file}:1: hosts: it is empty"),
        ("ssh:{file}", "hosts:\n  - a\n  - b c\n", "{file}:3: 'ssh:b c': 'b c' is no host; write an alias"),
        ("ssh:{file}", "hosts:\n  - a\n  - a\n", "{file}:3: 'a' is there twice: a host runs one block at a time"),
        ("ssh:{file}", "hosts: [a]\nleadlin: x\n", "{file}:2: unknown key 'leadlin'; did you mean leadline?"),
        ("slurm:{file}", "partition: 7\n", "{file}:1: partition: a text is wanted"),
        (
            "slurm:{file}",
            "kernels: {6.1.0: a}\noptions:\n  - -Cb\n",
            "{file}:3: '-Cb' and `kernels` are two constraints",
        ),
        ("ssh:{file}", "- a\n", "{file}:1: no hosts file"),
    ],
)
def test_what_is_no_pool(tmp_path: Path, word: str, text: str, message: str) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_pool(word.format(file=file))
    assert message.format(file=file) in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.yaml"):
        read_pool(f"ssh:{tmp_path / 'absent.yaml'}")
