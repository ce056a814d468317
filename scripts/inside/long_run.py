"""Workload: matrix products for a long time; each window's last one is the very first one, bit for bit.

``--size`` is how many seconds it lasts, in ten windows. What a machine does only once it is warm shows
here: clocks that fall, memory that goes away, numbers that change. Exit codes and the result line are those
of ``gemm.py``.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
from cuda_calls import (
    MAY_GO,
    Machine,
    conclude,
    finish,
    guarded,
    linger,
    new_report,
    options_parser,
    read_options,
)
from gemm import Problem

EDGE, AT_ONCE, WINDOWS = 512, 8, 10


class Products:
    """One product, whose operands stay on the device."""

    def __init__(self, machine: Machine, seed: int) -> None:
        """Draw the operands and poison the product."""
        self.machine = machine
        self.problem = Problem(np.random.default_rng(seed), "float32", (EDGE, EDGE, EDGE))
        parts = (self.problem.a, self.problem.b, self.problem.c)
        self.held = [machine.upload(np.asfortranarray(part)) for part in parts]
        self.one, self.zero = ctypes.c_float(1), ctypes.c_float(0)

    def run(self) -> None:
        """Multiply a few times and wait."""
        one, zero, (a, b, c) = ctypes.byref(self.one), ctypes.byref(self.zero), self.held
        for _ in range(AT_ONCE):
            call = (self.machine.handle, 0, 0, EDGE, EDGE, EDGE, one, a, EDGE, b, EDGE, zero, c, EDGE)
            self.machine.blas.call("cublasSgemm_v2", *call)
        self.machine.wait()

    def result(self) -> Any:
        """Return the product."""
        found = np.empty((EDGE, EDGE), np.float32, order="F")
        self.machine.read(found, self.held[2])
        return found


def window(products: Products, seconds: float, slowdown: float) -> Dict[str, float]:
    """Multiply for so many seconds."""
    start, done = time.perf_counter(), 0
    while done == 0 or time.perf_counter() - start < seconds:
        products.run()
        done += AT_ONCE
    return {"products_per_second": done / linger(start, slowdown)}


def free_memory(machine: Machine) -> int:
    """Return how many bytes are free."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    machine.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value


def measure(report: Dict[str, Any], options: argparse.Namespace) -> None:
    """Judge the first product by double precision, all others by the first."""
    machine = Machine()
    report["device"] = machine.device
    report["libraries"].update(machine.files)
    products, problems = Products(machine, options.seed), []
    report["first"] = window(products, 0, options.slowdown)
    right, free = products.result(), free_memory(machine)
    error = products.problem.judge(right)
    if not error <= 1:
        problems.append("the first product has an error %.3g times the tolerance" % error)
    rows: List[Dict[str, float]] = []
    for number in range(1, WINDOWS + 1):
        rows.append(window(products, options.size / WINDOWS, options.slowdown))
        if not np.array_equal(products.result(), right):
            problems.append("in window %d the product is not the first one" % number)
    report["iterations"], gone = rows, free - free_memory(machine)
    if gone > MAY_GO:
        problems.append("%d MiB of memory went away" % (gone >> 20))
    conclude(report, "incorrect" if problems else "pass", "; ".join(problems))
    rates = [row["products_per_second"] for row in rows]
    report["last_over_first_window"] = rates[-1] / rates[0]
    machine.free(products.held)
    machine.close()


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the workload and return its exit code."""
    parser = options_parser("long_run.py", "matrix products for a long time", size=60, meaning="seconds")
    options = read_options(parser, argv)
    report = new_report("long-run", options)
    guarded(report, lambda: measure(report, options))
    line = ""
    if report["outcome"] == "pass":
        rate = np.median([row["products_per_second"] for row in report["iterations"]])
        words = (rate, report["size"], report["last_over_first_window"], report["device"])
        line = "right, %.4g products/s for %d s, the last window %.3f times the first, on %s" % words
    return finish(report, line)


if __name__ == "__main__":
    sys.exit(main())
