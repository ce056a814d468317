"""Figure: how fast the CPU reference multiplies, beside NumPy's OpenBLAS in one thread.

Run it by itself, it needs a quiet machine and shows no verdict: ``python tools/figures/gemm.py [--json]``.
Rounds are interleaved, so that a busy moment meets both sides; medians and spreads of the rounds are shown.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SIZES = (128, 512, 1024, 2048)
#: NumPy reads these when it starts; the first keeps it to one thread, the others may slow it down.
CLEAN = {"OPENBLAS_NUM_THREADS": "1", "OPENBLAS_CORETYPE": None, "OPENBLAS_L2_SIZE": None}


def figure(sizes: tuple[int, ...] = SIZES, rounds: int = 7) -> list[dict[str, Any]]:
    """Return one row for each type and size; call it in a process where ``CLEAN`` holds."""
    sys.path.insert(0, str(ROOT))
    import numpy as np  # noqa: PLC0415 - after the environment is clean

    from tests.native_cpu import blas_handle, library, pointer  # noqa: PLC0415 - as above

    rows = []
    for dtype, letter, real in ((np.float32, "S", ctypes.c_float), (np.float64, "D", ctypes.c_double)):
        multiply = getattr(library("cublas12"), f"cublas{letter}gemm_v2")
        one, zero = real(1), real(0)
        for n in sizes:
            rng = np.random.default_rng(n)
            a, b = rng.uniform(-1, 1, (2, n, n)).astype(dtype)
            c, out = np.full((n, n), np.nan, dtype), np.empty((n, n), dtype)
            with blas_handle() as handle:
                arguments = [handle, 0, 0, n, n, n, ctypes.byref(one), pointer(b), n, pointer(a), n]
                arguments += [ctypes.byref(zero), pointer(c), n]
                sides: dict[str, Callable[[], object]] = {
                    "cpu-reference": lambda f=multiply, args=arguments: f(*args),
                    "openblas": lambda x=a, y=b, z=out: np.matmul(x, y, out=z),
                }
                seconds = interleaved(sides, rounds)
            assert np.allclose(c, out, atol=1e-3), "the two sides disagree"
            rows.append(row(np.dtype(dtype).name, n, seconds))
    return rows


def interleaved(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Time each side once a round, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for count in range(rounds + 1):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            if count:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def row(dtype: str, n: int, seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Turn times into GFLOP/s: the median and the slowest and fastest round."""
    work = 2 * n**3 / 1e9
    result: dict[str, Any] = {"dtype": dtype, "size": n, "rounds": len(seconds["openblas"])}
    for name, times in seconds.items():
        result[name] = work / statistics.median(times)
        result[f"{name} spread"] = [work / max(times), work / min(times)]
    result["percent"] = 100 * result["cpu-reference"] / result["openblas"]
    return result


def main() -> int:
    """Clean the environment, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in CLEAN.items()):
        env = {**os.environ, **{k: v for k, v in CLEAN.items() if v}}
        env = {k: v for k, v in env.items() if CLEAN.get(k, "") is not None}
        return subprocess.run([sys.executable, *sys.argv], env=env, check=False).returncode
    rows = figure()
    if options.json:
        print(json.dumps(rows))
        return 0
    print("GFLOP/s, median (slowest to fastest round)")
    for each in rows:
        sides = "   ".join(
            "{} {:6.1f} ({:.1f} to {:.1f})".format(name, each[name], *each[f"{name} spread"])
            for name in ("cpu-reference", "openblas")
        )
        print(f"{each['dtype']} {each['size']:>5}   {sides}   {each['percent']:.0f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
