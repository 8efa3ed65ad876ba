"""Blocks of code become system calls by kind and instructions by symbol and file."""

import json
from pathlib import Path

import pytest

from leadline.places.guest.results import Outcome
from leadline.places.virtual import instructions
from leadline.places.virtual.instructions import Mapped, Symbols, counted

# Lines of /proc/kallsyms of Debian's cloud kernels, addresses and order as there.
KALLSYMS = {
    "5.10": """\
ffffffffb1c00000 T _stext
ffffffffb1c00000 T _text
ffffffffb1c99de0 t __do_sys_getpid
ffffffffb1c99de0 T __ia32_sys_getpid
ffffffffb1c99de0 T __x64_sys_getpid
ffffffffb1e515a0 T copy_page_range
ffffffffb1ec7eb0 T __x64_sys_read
ffffffffb1f5fd40 t proc_tid_io_accounting
ffffffffb23d59c0 t snmp_seq_show
ffffffffb28025f2 T _etext
ffffffffc00e30b0 t port_fops_write	[virtio_console]
""",
    "6.1": """\
0000000000000000 A fixed_percpu_data
ffffffff8d200000 T _stext
ffffffff8d200000 T _text
ffffffff8d2b0f40 t __do_sys_getpid
ffffffff8d2b0f40 T __ia32_sys_getpid
ffffffff8d2b0f40 T __x64_sys_getpid
ffffffff8d4c03b0 T copy_page_range
ffffffff8d54d8b0 T __x64_sys_read
ffffffff8d5ecbd0 t proc_tid_io_accounting
ffffffff8dab96b0 t snmp_seq_show_tcp_udp.constprop.0.isra.0
ffffffff8dab9a00 t snmp_seq_show
ffffffff8dbc695c t x86_pmu_commit_txn.cold
ffffffff8e213f40 D init_task
ffffffffc0003000 t port_fops_write\t[virtio_console]
""",
    "6.12": """\
ffffffffae400000 T _stext
ffffffffae400000 T _text
ffffffffae4dd880 T __pfx___x64_sys_getpid
ffffffffae4dd890 t __do_sys_getpid
ffffffffae4dd890 T __ia32_sys_getpid
ffffffffae4dd890 T __x64_sys_getpid
ffffffffae775380 T __pfx_copy_page_range
ffffffffae775390 T copy_page_range
ffffffffae836400 T __x64_sys_read
ffffffffae8f0b80 t proc_tid_io_accounting
ffffffffaece8360 t port_fops_write
ffffffffaef3d250 t snmp_seq_show
ffffffffaf400000 T _etext
""",
}
MAPS = """\
/proc/50/maps:55d000000000-55d000001000 r-xp 00000000 00:02 7                          /opt/jdk/bin/java
/proc/50/maps:7f0000000000-7f0000270000 rwxp 00000000 00:00 0
/proc/50/maps:7f1000000000-7f1000200000 r-xp 00000000 00:02 9                          /opt/jdk/lib/server/libjvm.so
/proc/60/maps:00401000-00500000 r-xp 00001000 00:02 1                                  /bin/busybox
/proc/61/maps:00401000-00500000 r-xp 00001000 00:02 1                                  /bin/busybox (deleted)
/proc/62/maps:564000000000-564000100000 r-xp 00001000 00:02 1                          /usr/sbin/cron
"""
PARTS = {50: "server", 61: "web"}


@pytest.mark.parametrize("release", KALLSYMS)
def test_system_calls_and_functions_of_each_kernel(release: str) -> None:
    symbols = Symbols.of(KALLSYMS[release])
    at = dict(zip(symbols.names, symbols.addresses, strict=True))
    assert list(symbols.addresses) == sorted(symbols.addresses)
    for name in ("read", "getpid"):  # the second has other names at its address
        assert symbols.call(at[f"__x64_sys_{name}"]) == name
        assert symbols.name(at[f"__x64_sys_{name}"] + 9) == f"__x64_sys_{name}"
        assert symbols.call(at[f"__x64_sys_{name}"] + 9) is None
    assert symbols.call(at["copy_page_range"]) is None
    assert symbols.marks() == [at["proc_tid_io_accounting"], at["snmp_seq_show"]]


def test_parts_and_copies_of_a_function_have_its_name() -> None:
    symbols = Symbols.of(KALLSYMS["6.1"])
    assert symbols.name(0xFFFFFFFF8DAB96B0 + 4) == "snmp_seq_show_tcp_udp"
    assert symbols.name(0xFFFFFFFF8DBC695C) == "x86_pmu_commit_txn"
    assert symbols.name(0xFFFFFFFFC0003000 + 0xFFFF) == "port_fops_write"
    assert symbols.name(0xFFFFFFFFC0003000 + 0x10000) == "unknown"
    assert symbols.name(0xFFFFFFFF80000000) == "unknown"


def test_a_kernel_that_hides_its_addresses_has_no_marks() -> None:
    hidden = Symbols.of("0000000000000000 T snmp_seq_show\n0000000000000000 t proc_tid_io_accounting\n")
    assert (list(hidden.addresses), hidden.marks()) == ([], [])
    assert Symbols.of("ffffffff8dab9a00 t snmp_seq_show\n").marks() == []


def test_code_of_services_by_file_and_of_others_together() -> None:
    mapped = Mapped(MAPS, PARTS)
    assert mapped.name(0x7F1000000010) == "server.libjvm.so"
    assert mapped.name(0x7F000026FFFF) == "server.JIT-compiled code"
    assert mapped.name(0x7F0000270000) == "other"  # the end is not within
    assert mapped.name(0x401000) == "other+web.busybox"  # at one address in both
    assert mapped.name(0x564000000000) == "other"
    assert mapped.name(0x10) == "other"
    assert Mapped("", {}).name(0x401000) == "other"


def test_blocks_are_added_up_by_name_largest_first() -> None:
    blocks = [
        "401002 7 10",
        "7f1000000010 5 3",
        "ffffffff8d2b0f40 6 20",
        "ffffffff8d2b0f47 2 100",
        "ffffffff8d54d8b0 4 9",
        "ffffffff8d54d8b0 2 1",  # a shorter block of the same call: time was over in it
    ]
    found = counted(blocks, Symbols.of(KALLSYMS["6.1"]), Mapped(MAPS, PARTS))
    assert list(found.items()) == [
        ("instructions.kernel.__x64_sys_getpid", 320),
        ("instructions.other+web.busybox", 70),
        ("instructions.kernel.__x64_sys_read", 38),
        ("syscalls.getpid", 20),
        ("instructions.server.libjvm.so", 15),
        ("syscalls.read", 10),
    ]


def test_what_a_fork_executed_lies_beside_its_files(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    thread = "/proc/{0}/task/{0}/status:Uid:\t{1}\t{1}\n/proc/{0}/task/{0}/schedstat:1 2 3\n"
    (files / "figures-after").write_text(thread.format(50, 1002) + thread.format(60, 0))
    (files / "maps").write_text(MAPS)
    (tmp_path / "blocks").write_text("7f1000000010 5 3\n401002 7 10\n")
    instructions.tell(Outcome(files, {}, tmp_path / "console.txt", 1.0), Symbols.of(KALLSYMS["6.1"]))
    told = json.loads((files / "instructions.json").read_text())
    assert told == {"instructions.other": 70, "instructions.server.libjvm.so": 15}
    assert not (tmp_path / "blocks").exists()
