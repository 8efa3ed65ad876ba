"""The program with which a guest pauses itself, the same instruction in every run: ``pause RESOURCE``.

Busybox's ``devmem`` can write pvpanic's register, too, but QEMU counts the instructions of a slice when its processor
thread leaves the slice, and its main thread may read the clock before. So the write has to be of an instruction that
also reads the clock: ``insb`` from port 0x61, whose value tells the state of the interval timer, to pvpanic's register.
Its lowest bit is the timer's gate, set before: the "panicked" of pvpanic.

After the pause the main thread may take the processor for an idle one and move the clock to the next timer before it
stops the machine. No timer ends then: a QEMU that records ends timers in the processor's thread, which waits for the
main one. So the program leaves the time of the pause in a register, and :func:`settle` puts the saved clock back to it.

Sources: QEMU 7.2, softmmu/icount.c (icount_start_warp_timer), hw/audio/pcspk.c, docs/specs/pvpanic.txt; Intel SDM 2A
(INS); elf(5).
"""

from __future__ import annotations

import struct
from pathlib import Path

_MARK = 0x6C6561646C696E65  # in r13, beside the time in r12: a saved processor's registers follow each other
_SINCE = 16  # ns from that time to the pause: eight instructions
_CLOCK = b"\x0ctimer/icount"  # the clock's part of a saved state: version, offset (ns), instructions
_CODE = bytes.fromhex(
    "488b7c2410"  # mov rdi, [rsp+16]        argument 1: the resource file of the PCI device
    "6a025e6a02580f05"  # open(rdi, O_RDWR)  push 2; pop rsi; push 2; pop rax; syscall
    "85c07857"  # test eax, eax; js fail
    "4189c031ff"  # mov r8d, eax; xor edi, edi
    "be00100000"  # mov esi, 4096
    "6a035a6a01415a4531c9"  # push 3; pop rdx; push 1; pop r10; xor r9d, r9d
    "6a09580f05"  # mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
    "4889c3483d00f0ffff7733"  # mov rbx, rax; cmp rax, -4096; ja fail
    "6a035fb8ac0000000f05"  # iopl(3)
    "85c07525"  # test eax, eax; jne fail
    "e4610c01e661"  # in al, 0x61; or al, 1; out 0x61, al
    "0f3148c1e2204809c24989d4"  # rdtsc; shl rdx, 32; or rdx, rax; mov r12, rdx
    f"49bd{_MARK.to_bytes(8, 'little').hex()}"  # mov r13, mark
    "4889df6a615a6c"  # mov rdi, rbx; push 0x61; pop rdx; insb: the machine pauses here
    "31c0"  # xor eax, eax
    "f7d889c76a3c580f05"  # fail: exit(-eax)
)
_BASE = 0x400000
_HEADERS = 64 + 56


def program() -> bytes:
    """An ELF executable of one segment for x86-64."""
    size = _HEADERS + len(_CODE)
    #                                  type, machine, version, entry, program headers, sections, flags,
    #                                  sizes and counts of headers
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    #         loaded, readable and executable, offset, addresses, sizes, alignment
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + segment + _CODE


def settle(state: Path, shift: int) -> None:
    """Put the clock of a guest that was saved in virtual time (2**shift ns an instruction) back to when it paused.

    Raises ValueError where the state has no such clock or no such pause.
    """
    with state.open("r+b") as file:
        content = file.read()
        mark, clock = content.find(_MARK.to_bytes(8, "big")), content.find(_CLOCK)
        if mark < 8 or clock < 0:
            raise ValueError("the saved state tells no time of its pause")
        paused = int.from_bytes(content[mark - 8 : mark], "big") + _SINCE
        at = clock + len(_CLOCK) + 4
        offset, instructions = struct.unpack(">qq", content[at : at + 16])
        settled = paused - (instructions << shift)
        if settled > offset:
            raise ValueError("the saved state's clock is before its pause")
        file.seek(at)
        file.write(struct.pack(">q", settled))
