"""Probes of cuFFT: complex and real transforms in one, two and three dimensions, batches and strides."""

from __future__ import annotations

import ctypes
from typing import Any, Optional, Tuple

import numpy as np
from cuda_libraries import CudaLibrary
from kit import ProbeSession, u

C2C, R2C, C2R, Z2Z, D2Z, Z2D = 0x29, 0x2A, 0x2C, 0x69, 0x6A, 0x6C
FORWARD, BACKWARD = -1, 1
PLANS = {1: "cufftPlan1d", 2: "cufftPlan2d", 3: "cufftPlan3d"}


def allowed(data: Any, length: int, dtype: Any) -> float:
    """8 u log2(n) times the 2-norm of the input: what every fast transform's rounding stays below."""
    return float(8 * u(dtype) * np.log2(max(length, 2)) * np.linalg.norm(np.asarray(data).ravel()))


def make(fft: CudaLibrary, shape: Tuple[int, ...], kind: int, batch: int = 1) -> ctypes.c_int:
    """Make a plan for a shape; several transforms only in one dimension."""
    plan = ctypes.c_int()
    last = (batch,) if len(shape) == 1 else ()
    fft.call(PLANS[len(shape)], ctypes.byref(plan), *shape, kind, *last)
    return plan


def transform(
    s: ProbeSession,
    fft: CudaLibrary,
    name: str,
    plan: ctypes.c_int,
    data: Any,
    out: Tuple[Any, Tuple[int, ...]],
    way: Optional[int],
) -> Any:
    """Run a plan on a copy of the data and return what it wrote."""
    source, target = s.cuda.given(data), s.cuda.empty(out[0], *out[1])
    direction = () if way is None else (way,)
    fft.call("cufftExec" + name, plan, source.at, target.at, *direction)
    s.cuda.call("cuCtxSynchronize")
    fft.call("cufftDestroy", plan)
    return target.get(out[0], *out[1])


SHAPES = {
    1: ((1024,), (1000,), (97,), (7 * 11 * 13,), (1 << 16,)),
    2: ((64, 48), (33, 100)),
    3: ((16, 20, 12), (9, 32, 15)),
}


def dimension(s: ProbeSession, rank: int) -> None:
    """Forward and backward, complex and real, single and double; powers of two, other factors, a prime."""
    fft = CudaLibrary(s, "cufft")
    axes = tuple(range(-rank, 0))
    for shape in SHAPES[rank]:
        label, length = "x".join(map(str, shape)), int(np.prod(shape))
        half = (*shape[:-1], shape[-1] // 2 + 1)
        for name, kind, complex_ in (("C2C", C2C, np.complex64), ("Z2Z", Z2Z, np.complex128)):
            data = s.floats(*shape, dtype=complex_)
            got = transform(s, fft, name, make(fft, shape, kind), data, (complex_, shape), FORWARD)
            wide = data.astype(np.complex128)
            s.near(
                "%s %s" % (name, label), got, np.fft.fftn(wide, axes=axes), allowed(data, length, complex_)
            )
            got = transform(s, fft, name, make(fft, shape, kind), data, (complex_, shape), BACKWARD)
            s.near(
                "%s %s back" % (name, label),
                got,
                np.fft.ifftn(wide, axes=axes) * length,
                allowed(data, length, complex_),
            )
        for names, kinds, real, complex_ in (
            (("R2C", "C2R"), (R2C, C2R), np.float32, np.complex64), (("D2Z", "Z2D"), (D2Z, Z2D), np.float64, np.complex128),
        ):  # fmt: skip
            data = s.floats(*shape, dtype=real)
            got = transform(s, fft, names[0], make(fft, shape, kinds[0]), data, (complex_, half), None)
            exact = np.fft.rfftn(data.astype(np.float64), axes=axes)
            s.near("%s %s" % (names[0], label), got, exact, allowed(data, length, real))
            spectrum = exact.astype(complex_)
            back = transform(s, fft, names[1], make(fft, shape, kinds[1]), spectrum, (real, shape), None)
            want = np.fft.irfftn(spectrum.astype(np.complex128), s=shape, axes=axes) * length
            s.near("%s %s" % (names[1], label), back, want, 2 * allowed(spectrum, length, real))


def many(s: ProbeSession) -> None:
    """Several transforms at once, their elements apart and their rows padded; what is between is kept."""
    fft, plan, length, batch, step, distance = CudaLibrary(s, "cufft"), ctypes.c_int(), 120, 5, 3, 400
    data = s.floats(batch, distance, dtype=np.complex64)
    n, inner = (ctypes.c_int * 1)(length), (ctypes.c_int * 1)(length)
    fft.call(
        "cufftPlanMany", ctypes.byref(plan), 1, n, inner, step, distance, inner, step, distance, C2C, batch
    )
    target, source = s.cuda.empty(np.complex64, batch, distance), s.cuda.given(data)
    fft.call("cufftExecC2C", plan, source.at, target.at, FORWARD)
    got = target.get(np.complex64, batch, distance)
    rows = data[:, : length * step : step]
    want = np.fft.fft(rows.astype(np.complex128), axis=1)
    s.near("with gaps", got[:, : length * step : step], want, allowed(rows[0], length, np.complex64) * 2)
    between = np.ones(distance, bool)
    between[: length * step : step] = False
    s.need("what is between is kept", np.isnan(got[:, between].real).all(), "it was written")
    fft.call("cufftDestroy", plan)
    lines = s.floats(64, 100, dtype=np.complex64)
    got = transform(s, fft, "C2C", make(fft, (100,), C2C, 64), lines, (np.complex64, (64, 100)), FORWARD)
    s.near(
        "64 lines",
        got,
        np.fft.fft(lines.astype(np.complex128), axis=1),
        allowed(lines[0], 100, np.complex64) * 2,
    )
    place = s.cuda.given(lines)
    plan = make(fft, (100,), C2C, 64)
    fft.call("cufftExecC2C", plan, place.at, place.at, FORWARD)
    s.equal("in place is the same", place.get(np.complex64, 64, 100), got)
    fft.call("cufftDestroy", plan)


def refusals(s: ProbeSession) -> None:
    """A length of zero, a type that does not exist, and a plan that was destroyed are refused."""
    fft, plan = CudaLibrary(s, "cufft"), ctypes.c_int()
    s.refuses("a length of zero", fft.code("cufftPlan1d", ctypes.byref(plan), 0, C2C, 1))
    s.refuses("a type that does not exist", fft.code("cufftPlan1d", ctypes.byref(plan), 64, 0x77, 1))
    made = make(fft, (64,), C2C)
    fft.call("cufftDestroy", made)
    place = s.cuda.given(s.floats(64, dtype=np.complex64))
    s.refuses("a plan that was destroyed", fft.code("cufftExecC2C", made, place.at, place.at, FORWARD))
    s.equal("then the right one", fft.code("cufftPlan1d", ctypes.byref(plan), 64, C2C, 1), 0)


PROBES = {
    "cufft-1d": lambda s: dimension(s, 1),
    "cufft-2d": lambda s: dimension(s, 2),
    "cufft-3d": lambda s: dimension(s, 3),
    "cufft-many": many,
    "cufft-refusals": refusals,
}
