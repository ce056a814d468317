"""Workload: how fast bytes travel to the device, inside it and back, and whether they arrive unchanged.

It needs Python 3.8 and NumPy, and ``cuda_calls.py`` beside it. One JSON line marked ``@@cuda-amd-result`` on
stderr says everything; exit codes are those of ``gemm.py``. Bandwidth is bytes moved by wall clock,
synchronised before and after; a copy inside the device reads and writes, and its bytes count once.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from cuda_calls import (  # type: ignore[import-not-found]  # its sibling: this file runs as a program
    CallFailed,
    Driver,
    NotFound,
    conclude,
    finish,
    guarded,
    new_report,
    options_parser,
    read_options,
    timed,
)

MEBIBYTE = 1024 * 1024


class Ways:
    """Two device buffers and two host buffers of one size, and the three ways between them."""

    def __init__(self, machine: Driver, size: int, seed: int) -> None:
        """Fill one host buffer with random bytes, the other one with their complement."""
        self.machine, self.size = machine, size
        self.memory, (self.source, self.arrived) = host_buffers(machine, size)
        self.source[...] = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
        self.arrived[...] = ~self.source
        # What must be overwritten is what must not come back: a copy that does nothing is seen.
        self.first, self.second = machine.upload(self.arrived), machine.upload(self.arrived)

    def to_device(self) -> None:
        """Host to device."""
        where = ctypes.c_void_p(self.source.ctypes.data)
        self.machine.driver.call("cuMemcpyHtoD_v2", self.first, where, ctypes.c_size_t(self.size))

    def inside(self) -> None:
        """Device to device; the call may return before the copy is done."""
        self.machine.driver.call("cuMemcpyDtoD_v2", self.second, self.first, ctypes.c_size_t(self.size))

    def to_host(self) -> None:
        """Device to host, from the second buffer: what arrives has made all three ways."""
        self.machine.read(self.arrived, self.second)

    def intact(self) -> bool:
        """Whether every byte made the whole way."""
        return bool(np.array_equal(self.source, self.arrived))


def host_buffers(machine: Driver, size: int) -> Tuple[str, List[np.ndarray]]:
    """Return two buffers in page-locked memory, or in ordinary memory where the driver gives none."""
    arrays = []
    for _ in range(2):
        pointer = ctypes.c_void_p()
        try:
            machine.driver.call("cuMemAllocHost_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        except (CallFailed, NotFound):
            return "pageable", [np.empty(size, np.uint8) for _ in range(2)]
        arrays.append(np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(pointer.value or 0)))
    return "page-locked", arrays


def measure(report: Dict[str, Any], options: argparse.Namespace) -> None:
    """Make the whole way once and compare, then again and again, and compare again."""
    machine, size = Driver(), options.size * MEBIBYTE
    report["device"] = machine.device
    report["libraries"].update(machine.files)
    report["conditions"]["driver"] = machine.driver_version
    ways = Ways(machine, size, options.seed)
    report["conditions"]["host_memory"] = ways.memory
    every = (("h2d_gbps", ways.to_device), ("d2d_gbps", ways.inside), ("d2h_gbps", ways.to_host))

    def once() -> Dict[str, float]:
        pieces = {name: timed(machine.wait, way, options.slowdown) for name, way in every}
        return {name: size / seconds / 1e9 for name, seconds in pieces.items()}

    report["first"], intact = once(), ways.intact()
    report["iterations"] = [once() for _ in range(options.iterations if intact else 0)]
    intact = intact and ways.intact()
    conclude(report, "pass" if intact else "incorrect", "" if intact else "bytes came back changed")
    if intact:
        for name, _way in every:
            report[name] = float(np.median([row[name] for row in report["iterations"]]))
    machine.free([ways.first, ways.second])
    machine.close()


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the workload and return its exit code."""
    text = "copies through the CUDA driver"
    parser = options_parser("memory_copy.py", text, size=64, iterations=9, meaning="MiB a copy")
    options = read_options(parser, argv)
    report = new_report("copy", options)
    guarded(report, lambda: measure(report, options))
    line = ""
    if report["outcome"] == "pass":
        figures = ", ".join("%s %.2f GB/s" % (n[:3], report[n]) for n in sorted(report) if n.endswith("gbps"))
        line = "right, %d MiB, %s on %s" % (report["size"], figures, report["device"])
    return int(finish(report, line))


if __name__ == "__main__":
    sys.exit(main())
