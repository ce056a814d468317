"""Probes of cuRAND: distributions, and what a seed fixes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from cuda_libraries import CudaLibrary
from kit import HANDLE, ProbeSession

COUNT = 1 << 18
KINDS = (("XORWOW", 101), ("Philox", 161), ("MRG32k3a", 121))


def generator(library: CudaLibrary, kind: int, seed: int) -> HANDLE:
    """Make a generator with a seed."""
    made = HANDLE()
    library.call("curandCreateGenerator", ctypes.byref(made), kind)
    library.call("curandSetPseudoRandomGeneratorSeed", made, ctypes.c_ulonglong(seed))
    return made


def uniform(s: ProbeSession, library: CudaLibrary, kind: int, seed: int) -> Any:
    """Draw numbers between 0 and 1."""
    out, made = s.cuda.empty(np.float32, COUNT), generator(library, kind, seed)
    library.call("curandGenerateUniform", made, out.at, ctypes.c_size_t(COUNT))
    s.cuda.call("cuCtxSynchronize")
    library.call("curandDestroyGenerator", made)
    return out.get(np.float32).astype(np.float64)


def distributions(s: ProbeSession) -> None:
    """Uniform and normal numbers have their mean, variance and shares, within six standard deviations."""
    library = CudaLibrary(s, "curand")
    for name, kind in KINDS:
        drawn = uniform(s, library, kind, 11)
        s.need(name + ": in (0, 1]", (drawn > 0).all() and (drawn <= 1).all(), (drawn.min(), drawn.max()))
        s.near(name + ": mean", drawn.mean(), 0.5, 6 * np.sqrt(1 / 12 / COUNT))
        s.near(name + ": variance", drawn.var(), 1 / 12, 6 * np.sqrt(1 / 180 / COUNT))
        shares = np.bincount(np.minimum((drawn * 64).astype(int), 63), minlength=64)
        chi = float(((shares - COUNT / 64) ** 2 / (COUNT / 64)).sum())
        s.need(name + ": 64 equal shares", 10 < chi < 63 + 6 * np.sqrt(126), chi)
        pairs = np.corrcoef(drawn[:-1], drawn[1:])[0, 1]
        s.near(name + ": neighbours are independent", pairs, 0.0, 6 / np.sqrt(COUNT))
        normal, made = s.cuda.empty(np.float32, COUNT), generator(library, kind, 11)
        size = (ctypes.c_size_t(COUNT), ctypes.c_float(3.0), ctypes.c_float(2.0))
        library.call("curandGenerateNormal", made, normal.at, *size)
        s.cuda.call("cuCtxSynchronize")
        library.call("curandDestroyGenerator", made)
        found = (normal.get(np.float32).astype(np.float64) - 3) / 2
        s.near(name + ": normal mean", found.mean(), 0.0, 6 / np.sqrt(COUNT))
        s.near(name + ": normal variance", found.var(), 1.0, 6 * np.sqrt(2 / COUNT))
        s.near(
            name + ": within one deviation", (np.abs(found) < 1).mean(), 0.682689, 6 * np.sqrt(0.2166 / COUNT)
        )


def seeds(s: ProbeSession) -> None:
    """The same seed gives the same numbers, another seed others; a generator that does not exist is refused."""
    library = CudaLibrary(s, "curand")
    for name, kind in KINDS:
        first = uniform(s, library, kind, 5)
        s.equal(name + ": the same seed", uniform(s, library, kind, 5), first)
        same = (uniform(s, library, kind, 6) == first).mean()
        s.need(name + ": another seed", same < 0.001, same)
    made = HANDLE()
    s.refuses(
        "a generator that does not exist", library.code("curandCreateGenerator", ctypes.byref(made), 9999)
    )


PROBES = {"curand-distributions": distributions, "curand-seeds": seeds}
