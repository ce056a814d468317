"""Workload: how long it takes to start a kernel, and whether every start happened exactly once.

The kernel is a few lines of PTX of ours that add one to a counter. Launches of one stream run one after
the other, so the counter must end at the number of launches. It needs Python 3.8 and NumPy, and
``cuda_calls.py`` beside it; the result line and the exit codes are those of ``gemm.py``. A driver that
runs no kernels (the CPU reference) answers "not supported", which is ``refused``.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from typing import Any, Dict, Optional, Sequence

import numpy as np
from cuda_calls import (  # type: ignore[import-not-found]  # its sibling: this file runs as a program
    Driver,
    conclude,
    finish,
    guarded,
    new_report,
    options_parser,
    read_options,
    timed,
)

#: PTX 6.3 for the oldest GPUs that current drivers serve; the driver compiles it for the device at hand.
KERNEL = b"""
.version 6.3
.target sm_75
.address_size 64
.visible .entry add_one(.param .u64 counter)
{
    .reg .u64 %address, %place;
    .reg .u32 %value;
    ld.param.u64 %address, [counter];
    cvta.to.global.u64 %place, %address;
    ld.global.u32 %value, [%place];
    add.u32 %value, %value, 1;
    st.global.u32 [%place], %value;
    ret;
}
"""


class Kernel:
    """The loaded kernel with its counter, which starts at zero."""

    def __init__(self, machine: Driver) -> None:
        """Let the driver compile the kernel."""
        self.machine, self.launches = machine, 0
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        machine.driver.call("cuModuleLoadData", ctypes.byref(module), KERNEL)
        machine.driver.call("cuModuleGetFunction", ctypes.byref(self.function), module, b"add_one")
        self.counter = machine.upload(np.zeros(1, np.uint32))
        self.arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self.counter))

    def launch(self) -> None:
        """Start one thread in one block; returns before it has run."""
        self.machine.driver.call("cuLaunchKernel", self.function, *(1,) * 6, 0, None, self.arguments, None)
        self.launches += 1

    def count(self) -> int:
        """Return how many launches the device has done."""
        found = np.empty(1, np.uint32)
        self.machine.wait()
        self.machine.read(found, self.counter)
        return int(found[0])


def iteration(kernel: Kernel, batch: int, slowdown: float) -> Dict[str, float]:
    """Time ``batch`` launches waited for one by one, and as many sent without waiting; microseconds each."""

    def one_by_one() -> None:
        for _ in range(batch):
            kernel.launch()
            kernel.machine.wait()

    def at_once() -> None:
        for _ in range(batch):
            kernel.launch()

    ways = {"roundtrip_us": one_by_one, "stream_us": at_once}
    return {name: timed(kernel.machine.wait, way, slowdown) / batch * 1e6 for name, way in ways.items()}


def measure(report: Dict[str, Any], options: argparse.Namespace) -> None:
    """Keep the first iteration apart from the others, then count what was done."""
    machine = Driver()
    report["device"] = machine.device
    report["libraries"].update(machine.files)
    report["conditions"]["driver"] = machine.driver_version
    kernel = Kernel(machine)
    every = [iteration(kernel, options.size, options.slowdown) for _ in range(options.iterations + 1)]
    report["first"], rows = every[0], every[1:]
    report["iterations"] = rows
    found = kernel.count()
    right = found == kernel.launches
    wrong = "" if right else "%d launches, the counter says %d" % (kernel.launches, found)
    conclude(report, "pass" if right else "incorrect", wrong)
    report["launches"] = kernel.launches
    for name in rows[0]:
        report[name] = float(np.median([row[name] for row in rows]))
    machine.free([kernel.counter])
    machine.close()


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the workload and return its exit code."""
    text, meaning = "kernel starts through the driver", "launches an iteration, of each kind"
    parser = options_parser("launch_latency.py", text, size=500, iterations=9, seed=False, meaning=meaning)
    options = read_options(parser, argv)
    report = new_report("launch-latency", options)
    guarded(report, lambda: measure(report, options))
    line = ""
    if report["outcome"] == "pass":
        words = (report["roundtrip_us"], report["stream_us"], report["device"])
        line = "right, %.2f us there and back, %.2f us in a stream, on %s" % words
    return int(finish(report, line))


if __name__ == "__main__":
    sys.exit(main())
