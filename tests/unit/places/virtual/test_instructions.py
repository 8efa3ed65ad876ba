"""Blocks of code become system calls by kind and instructions by symbol and file."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from leadline.host.java import find_java, java_environment
from leadline.load.driver import find_binary
from leadline.places.guest.machine import Outcome
from leadline.places.virtual import instructions
from leadline.places.virtual.instructions import Compiled, Mapped, Symbols, counted

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
# As JDK 17 and 25 write them, with the file's path before.
PERFMAP = """\
/tmp/perf-50.map:0x00007f0000260000 0x0000000000000040 long leadline.common.ExtraCosts.burn(long, long)
/tmp/perf-50.map:0x00007f0000250000 0x0000000000000100 Interpreter
/tmp/perf-50.map:0x00007f0000240000 0x0000000000000010 void a.Shop$$Lambda/0x00007f3c01000a00.run()
/tmp/perf-62.map:0x00007f0000260000 0x0000000000000040 void other.Program.run()
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


def test_compiled_code_has_the_name_of_its_method() -> None:
    compiled = Compiled(PERFMAP, PARTS)
    assert compiled.name(0x7F0000260000) == "server.leadline.common.ExtraCosts.burn"
    assert compiled.name(0x7F0000260040) is None, "behind its end"
    assert compiled.name(0x7F0000250010) == "server.Interpreter"
    assert compiled.name(0x7F0000240000) == "server.a.Shop$$Lambda.run"
    assert compiled.name(0x10) is None
    assert Compiled("", PARTS).name(0x7F0000260000) is None
    assert Compiled(PERFMAP, {}).name(0x7F0000260000) is None, "of no service"


def test_blocks_are_added_up_by_name_largest_first() -> None:
    blocks = [
        "401002 7 10",
        "7f1000000010 5 3",
        "ffffffff8d2b0f40 6 20",
        "ffffffff8d2b0f47 2 100",
        "ffffffff8d54d8b0 4 9",
        "ffffffff8d54d8b0 2 1",  # a shorter block of the same call: time was over in it
    ]
    found = counted(blocks, Symbols.of(KALLSYMS["6.1"]), Mapped(MAPS, PARTS), Compiled("", PARTS))
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
    (files / "compiled").write_text(PERFMAP)
    (tmp_path / "blocks").write_text("7f1000000010 5 3\n401002 7 10\n7f0000260008 3 2\n7f0000260100 1 1\n")
    instructions.tell(Outcome(files, {}, tmp_path / "console.txt", 1.0), Symbols.of(KALLSYMS["6.1"]))
    told = json.loads((files / "instructions.json").read_text())
    assert told == {
        "instructions.other": 70,
        "instructions.server.libjvm.so": 15,
        "instructions.server.leadline.common.ExtraCosts.burn": 6,
        "instructions.server.JIT-compiled code": 1,
    }
    assert not (tmp_path / "blocks").exists()


WORK = """\
public class Work {
    public static void main(String[] arguments) throws Exception {
        for (long x = 1; ; x = twice(x)) Thread.sleep(1);
    }
    static long twice(long x) { for (int i = 0; i < 20_000; i++) x = x * 31 + i; return x; }
}
"""


def test_a_real_jvm_tells_the_driver_what_it_compiled(tmp_path: Path) -> None:
    (tmp_path / "Work.java").write_text(WORK)
    java = [find_java() / "bin" / "java", "-XX:+UseSerialGC", "Work.java"]
    with subprocess.Popen(java, cwd=tmp_path, env=java_environment()) as jvm:
        file = Path(f"/tmp/perf-{jvm.pid}.map")
        try:
            names: set[str] = set()
            end = time.monotonic() + 120
            while "server.Work.twice" not in names and time.monotonic() < end:
                time.sleep(0.5)
                subprocess.run([find_binary(), "perfmap", str(jvm.pid)], check=True, timeout=120)
                lines = "".join(f"{file}:{line}\n" for line in file.read_text().splitlines())
                begins = [int(line.partition(":0x")[2][:16], 16) for line in lines.splitlines()]
                compiled = Compiled(lines, {jvm.pid: "server"})
                names = {compiled.name(address) or "" for address in begins}
            assert {"server.Work.twice", "server.Interpreter"} <= names
        finally:
            jvm.kill()
            file.unlink(missing_ok=True)


def test_what_is_no_jvm_is_not_asked() -> None:
    done = subprocess.run([find_binary(), "perfmap", str(os.getpid())], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, f"leadline-load: process {os.getpid()}: it is no JVM\n")
