"""Workload: fill the device's memory, find every number again, be refused more, and give everything back.

What is free after the first round must be free after the last one, but for what libraries may keep.
``--size`` is how many MiB are taken, at most nine tenths of what is free. A kernel of ours writes to every
place a number that depends on the place and the piece; another one counts the places that hold something
else. Exit codes and the result line are those of ``gemm.py``.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent / "probes"))

from assembly import entry
from cuda_calls import (
    MAY_GO,
    CallFailed,
    Driver,
    NotFound,
    conclude,
    finish,
    guarded,
    linger,
    new_report,
    options_parser,
    read_options,
)

MEBIBYTE = 1 << 20
PIECE = 256 * MEBIBYTE
THREADS, BLOCKS = 256, 4096
OUT_OF_MEMORY = 2
MIX = "mul.lo.u32 %r1, %r0, 0x9E3779B1; xor.b32 %r1, %r1, %mark;"
FILL = """
    mov.u32 %r0, %i;
again:
    setp.ge.u32 %p0, %r0, %n; @%p0 ret;
    MIX mad.wide.u32 %d0, %r0, 4, %a; st.global.u32 [%d0], %r1; add.u32 %r0, %r0, STRIDE; bra again;
"""
COUNT = """
    mov.u32 %r0, %i; mov.u32 %r3, 0;
again:
    setp.ge.u32 %p0, %r0, %n; @%p0 bra enough;
    MIX mad.wide.u32 %d0, %r0, 4, %a; ld.global.u32 %r2, [%d0]; setp.ne.u32 %p1, %r1, %r2;
    @%p1 add.u32 %r3, %r3, 1; add.u32 %r0, %r0, STRIDE; bra again;
enough:
    setp.eq.u32 %p2, %r3, 0; @%p2 ret; red.global.add.u32 [%out], %r3;
"""
PARAMETERS = {"fill": "u64 a, u32 mark, u32 n", "count": "u64 a, u64 out, u32 mark, u32 n"}


def module() -> bytes:
    """Return both kernels."""
    texts = [
        entry(
            name,
            PARAMETERS[name],
            body.replace("MIX", MIX).replace("STRIDE", str(THREADS * BLOCKS)),
            guard=False,
        )
        for name, body in (("fill", FILL), ("count", COUNT))
    ]
    return (".version 6.3\n.target sm_75\n.address_size 64\n" + "\n".join(texts)).encode()


class FilledMemory:
    """The device's memory, piece by piece."""

    def __init__(self, machine: Driver, size: int) -> None:
        """Let the driver compile the kernels; see how much is free."""
        self.machine = machine
        self.held: List[Tuple[ctypes.c_uint64, int]] = []
        self.module = ctypes.c_void_p()
        self.functions: Dict[str, ctypes.c_void_p] = {}
        machine.driver.call("cuModuleLoadData", ctypes.byref(self.module), module())
        for name in PARAMETERS:
            self.functions[name] = ctypes.c_void_p()
            found = (ctypes.byref(self.functions[name]), self.module, name.encode())
            machine.driver.call("cuModuleGetFunction", *found)
        self.wrong = machine.upload(np.zeros(1, np.uint32))
        self.free, self.total = self.look()
        self.wanted = min(size, self.free * 9 // 10) // MEBIBYTE * MEBIBYTE

    def look(self) -> Tuple[int, int]:
        """Return how many bytes are free, and how many there are."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.machine.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def run(self, name: str, *arguments: Any) -> None:
        """Start a kernel."""
        where = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        size = (BLOCKS, 1, 1, THREADS, 1, 1)
        self.machine.driver.call("cuLaunchKernel", self.functions[name], *size, 0, None, where, None)

    def take(self) -> None:
        """Take everything that is wanted."""
        left = self.wanted
        while left > 0:
            pointer, size = ctypes.c_uint64(), min(PIECE, left)
            self.machine.driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
            self.held.append((pointer, size))
            left -= size

    def each(self, name: str, *more: Any) -> None:
        """Run a kernel on every piece."""
        for number, (pointer, size) in enumerate(self.held):
            self.run(name, pointer, *more, ctypes.c_uint32(number * 7919), ctypes.c_uint32(size // 4))
        self.machine.wait()

    def mistakes(self) -> int:
        """Return how many places held something else than was written."""
        found = np.zeros(1, np.uint32)
        self.machine.read(found, self.wrong)
        return int(found[0])

    def refused(self) -> bool:
        """Whether more than there is at all is refused as it should be."""
        pointer = ctypes.c_uint64()
        try:
            self.machine.driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(2 * self.total))
        except CallFailed as error:
            return str(error).endswith(" %d" % OUT_OF_MEMORY)
        self.machine.free([pointer])
        return False

    def give(self) -> None:
        """Give every piece back."""
        self.machine.free([pointer for pointer, _size in self.held])
        self.held = []


def one(memory: FilledMemory, slowdown: float) -> Dict[str, float]:
    """Take, fill, count, give back: seconds and rates of each."""
    marks = [time.perf_counter()]
    steps = (
        memory.take,
        lambda: memory.each("fill"),
        lambda: memory.each("count", memory.wrong),
        memory.give,
    )
    seconds: List[float] = []
    for step in steps:
        step()
        memory.machine.wait()
        seconds.append(linger(marks[-1], slowdown))
        marks.append(time.perf_counter())
    names = ("fill_gbps", "check_gbps")
    rates = {name: memory.wanted / spent / 1e9 for name, spent in zip(names, seconds[1:3])}
    return {**rates, "take_ms": seconds[0] * 1e3, "give_ms": seconds[3] * 1e3}


def measure(report: Dict[str, Any], options: argparse.Namespace) -> None:
    """Fill it again and again; then everything must be as it was."""
    machine = Driver()
    report["device"] = machine.device
    report["libraries"].update(machine.files)
    memory = FilledMemory(machine, options.size * MEBIBYTE)
    report["taken_mib"], report["free_mib"] = memory.wanted // MEBIBYTE, memory.free // MEBIBYTE
    if not memory.wanted:
        raise NotFound("less than 2 MiB of the device's memory are free")
    report["first"] = one(memory, options.slowdown)
    before = memory.look()[0]
    report["iterations"] = [one(memory, options.slowdown) for _ in range(options.iterations)]
    problems = []
    mistakes, refused, gone = memory.mistakes(), memory.refused(), before - memory.look()[0]
    if mistakes:
        problems.append("%d numbers are not what was written" % mistakes)
    if not refused:
        problems.append("twice the device's memory was not refused as out of memory")
    if gone > MAY_GO:
        problems.append("%d MiB did not come back" % (gone // MEBIBYTE))
    conclude(report, "incorrect" if problems else "pass", "; ".join(problems))
    machine.free([memory.wrong])
    machine.close()


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the workload and return its exit code."""
    text, meaning = "the device's memory, filled", "MiB to take, at most nine tenths of what is free"
    parser = options_parser("memory_pressure.py", text, size=2048, iterations=3, seed=False, meaning=meaning)
    options = read_options(parser, argv)
    report = new_report("memory-pressure", options)
    guarded(report, lambda: measure(report, options))
    line = ""
    if report["outcome"] == "pass":
        fill = np.median([row["fill_gbps"] for row in report["iterations"]])
        line = "right, %d MiB taken, filled at %.3g GB/s, on %s" % (
            report["taken_mib"],
            fill,
            report["device"],
        )
    return finish(report, line)


if __name__ == "__main__":
    sys.exit(main())
