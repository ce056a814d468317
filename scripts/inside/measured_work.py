"""The frame of workloads that do one thing again and again: on CUDA, on HIP, on the processor.

A workload says what it does (``act``), how large its error is as a share of what is allowed (``error``), and
how much work one piece is (``amount``). The first piece is timed apart: it loads, compiles and plans.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent / "probes"))

from cuda_calls import (
    Api,
    CallFailed,
    Driver,
    conclude,
    finish,
    guarded,
    load_first,
    new_report,
    options_parser,
    path_of,
    read_options,
    settle,
    timed,
)
from cuda_libraries import REFUSALS, files
from hip_calls import Cpu, Hip


class CudaApi(Api):
    """A CUDA library; what it does not support is not what fails."""

    def __init__(self, library: Any, name: str) -> None:
        """Wrap a loaded library."""
        super().__init__(library)
        self.refusals = REFUSALS[name]

    def call(self, name: str, *arguments: object) -> None:
        """Call a function that must succeed.

        Raises:
            CallFailed: it did not.
        """
        try:
            super().call(name, *arguments)
        except CallFailed as error:
            if int(str(error).rsplit(" ", 1)[1]) in self.refusals:
                error.outcome = "refused"
            raise


class CudaDevice(Driver):
    """The CUDA device, and the libraries that work on it."""

    def library(self, stem: str) -> Any:
        """Load a library, as old or new as the driver."""
        library, name = load_first(files(stem, self.driver_version // 1000))
        self.files[stem] = path_of(library, name)
        return CudaApi(library, stem)


DEVICES: Dict[str, Callable[[], Any]] = {"cuda": CudaDevice, "hip": Hip, "cpu": Cpu}
Make = Callable[[Any, argparse.Namespace], "Work"]


class Work:
    """One thing that is done again and again; what comes out may be as far from ``exact`` as ``allowed``."""

    library = ""
    amount: float
    exact: Any
    allowed: Any

    def act(self) -> None:
        """Do it; it may still run when this returns."""
        raise NotImplementedError

    def result(self) -> Any:
        """Return what came out."""
        raise NotImplementedError

    def error(self) -> float:
        """Return the largest error as a share of what is allowed; NaN and infinity give infinity."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            ratio = np.abs(self.result() - self.exact) / self.allowed
        return float(np.where(np.isfinite(ratio), ratio, np.inf).max())

    def close(self) -> None:
        """Give back what is held."""


def measure(report: Dict[str, Any], make: Make, options: argparse.Namespace) -> None:
    """Do it once for the answer, then again for the clock; the last answer must be right as well."""
    device = DEVICES[options.backend]()
    report["device"] = device.device
    try:
        work = make(device, options)
    finally:
        report["libraries"].update(device.files)
    report["library"] = work.library

    def rate() -> Dict[str, float]:
        return {report["metric"]: work.amount / timed(device.wait, work.act, options.slowdown) / 1e9}

    report["first"] = rate()
    errors = [work.error()]
    settle(device.wait, work.act)
    report["iterations"] = [rate() for _ in range(options.iterations)]
    errors.append(work.error())
    largest = max(errors)
    report["error_over_tolerance"] = largest if np.isfinite(largest) else None
    right = largest <= 1
    conclude(report, "pass" if right else "incorrect", "" if right else "%.3g of the tolerance" % largest)
    if right:
        report[report["metric"]] = float(np.median([row[report["metric"]] for row in report["iterations"]]))
    work.close()
    device.close()


def run(
    name: str,
    text: str,
    make: Make,
    *,
    metric: str,
    size: int,
    backends: Sequence[str],
    argv: Optional[Sequence[str]] = None,
) -> int:
    """Read the command line, measure, tell; return the exit code."""
    parser = options_parser(name, text, size=size, iterations=9)
    parser.add_argument("--backend", choices=backends, default="cuda")
    options = read_options(parser, argv)
    label = name if options.backend == "cuda" else "%s-%s" % (name, options.backend)
    report = {**new_report(label, options), "metric": metric}
    guarded(report, lambda: measure(report, make, options))
    line = ""
    if report["outcome"] == "pass":
        words = ("right", report[metric], metric, report["first"][metric], report["device"])
        line = "%s, %.4g %s (first time %.4g), on %s" % words
    return finish(report, line)
