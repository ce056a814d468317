"""Our own workloads: which program each one is, what it measures, and which metric decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from scripts.bench.trials import HIGHER, LOWER, Metric
from scripts.errors import UsageError


class Workload(Struct, frozen=True, kw_only=True):
    """A program in ``scripts/inside`` that prints one marked result line with its iterations.

    Attributes:
        name: what ``--workload`` calls it.
        script: the program.
        shows: the capability a right answer stands for.
        size: the default of ``--size``, counted in ``unit``; ``largest`` is the most it may be.
        metrics: what each iteration holds; the first one decides.
        arguments: further arguments of the program.
        dtype: the type a native product would be measured in; empty where there is none to put beside.
    """

    name: str
    script: str
    shows: str
    size: int
    metrics: tuple[Metric, ...]
    largest: int = 16384
    unit: str = ""
    arguments: tuple[str, ...] = ()
    dtype: str = ""


def _gemm(name: str, dtype: str) -> Workload:
    """Describe the matrix product in one type."""
    return Workload(
        name=name,
        script="gemm.py",
        shows="cublas gemm",
        size=1024,
        unit="rows and columns",
        metrics=(Metric(name=f"gflops_{dtype}", better=HIGHER, unit="GFLOP/s"),),
        arguments=("--dtype", dtype),
        dtype=dtype,
    )


_COPIES: Final = tuple(
    Metric(name=name, better=HIGHER, unit="GB/s") for name in ("h2d_gbps", "d2h_gbps", "d2d_gbps")
)
_STARTS: Final = tuple(Metric(name=name, better=LOWER, unit="µs") for name in ("roundtrip_us", "stream_us"))

WORKLOADS: Final[Mapping[str, Workload]] = {
    workload.name: workload
    for workload in (
        _gemm("gemm", "float32"),
        _gemm("gemm-float64", "float64"),
        Workload(
            name="copy",
            script="memory_copy.py",
            shows="cuda copies",
            size=64,
            largest=4096,
            unit="MiB",
            metrics=_COPIES,
        ),
        Workload(
            name="launch-latency",
            script="launch_latency.py",
            shows="cuda kernels",
            size=500,
            largest=100_000,
            unit="launches",
            metrics=_STARTS,
        ),
    )
}


def find_workload(name: str) -> Workload:
    """Return a workload of ours.

    Raises:
        UsageError: there is none of that name.
    """
    known = WORKLOADS.get(name or "gemm")
    if known is None:
        msg = f"there is no workload {name!r}"
        hint = f"one of: {', '.join(WORKLOADS)}; or a file of your own, ending in .toml"
        raise UsageError("no-such-workload", msg, hint=hint)
    return known


def read_size(text: str, workload: Workload) -> int:
    """Read ``--size``.

    Raises:
        UsageError: it is no whole number from 1 to the largest.
    """
    if text and not (text.isdecimal() and 1 <= int(text) <= workload.largest):
        raise UsageError("bad-size", f"--size={text}: a whole number from 1 to {workload.largest}")
    return int(text or workload.size)
