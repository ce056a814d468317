"""cuBLAS of the CPU reference: every product equals NumPy's in float64, and bad arguments are refused."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.native_cpu import blas_handle, library, pointer, pointers

pytestmark = pytest.mark.proof

INVALID, NOT_INITIALIZED, NOT_SUPPORTED = 7, 1, 15
R32, R64, R16, RB16, C32 = 0, 1, 2, 14, 4
COMPUTE_16F, COMPUTE_32F, COMPUTE_64F = 64, 68, 70
REAL: dict[Any, Any] = {np.float32: ctypes.c_float, np.float64: ctypes.c_double}
NAME: dict[Any, str] = {np.float32: "S", np.float64: "D"}
SCALARS = st.sampled_from([0.0, 1.0, -1.0, 0.5, -2.25])
SIZES = st.one_of(st.integers(0, 40), st.sampled_from([6, 16, 17, 191, 192, 193, 255, 256, 257, 300]))


@dataclass(frozen=True)
class Case:
    """One product. ``pads`` are added to the leading dimensions, ``batch`` matrices lie one after another."""

    shape: tuple[int, int, int]
    ops: tuple[int, int]
    pads: tuple[int, int, int]
    alpha: float
    beta: float
    batch: int = 1


CASES = st.builds(
    Case,
    shape=st.tuples(SIZES, SIZES, SIZES),
    ops=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    pads=st.tuples(*[st.integers(0, 5)] * 3),
    alpha=SCALARS,
    beta=SCALARS,
    batch=st.integers(1, 3),
)


def stored(rng: np.random.Generator, dtype: Any, shape: tuple[int, int], pad: int, batch: int) -> np.ndarray:
    """Column-major matrices as an array [batch, column, row]; padding rows and gaps are NaN."""
    rows, columns = shape
    whole = np.full((batch, columns + (batch > 1), max(rows, 1) + pad), np.nan, dtype)
    whole[:, :columns, :rows] = rng.uniform(-1, 1, (batch, columns, rows))
    return whole


def view(whole: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Row-column view of each matrix of a batch, in float64."""
    return whole[:, :columns, :rows].transpose(0, 2, 1).astype(np.float64)


def inputs(case: Case, dtype: Any, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    m, n, k = case.shape
    a = stored(rng, dtype, (k, m) if case.ops[0] else (m, k), case.pads[0], case.batch)
    b = stored(rng, dtype, (n, k) if case.ops[1] else (k, n), case.pads[1], case.batch)
    c = stored(rng, dtype, (m, n), case.pads[2], case.batch)
    if case.beta == 0:
        c[:] = np.nan
    return a, b, c


def expected(case: Case, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The exact product and the size of what was summed."""
    m, n, k = case.shape
    x = view(a, k, m).transpose(0, 2, 1) if case.ops[0] else view(a, m, k)
    y = view(b, n, k).transpose(0, 2, 1) if case.ops[1] else view(b, k, n)
    exact, size = np.zeros((case.batch, m, n)), np.zeros((case.batch, m, n))
    if case.alpha and k:
        exact, size = case.alpha * (x @ y), abs(case.alpha) * (abs(x) @ abs(y))
    if case.beta:
        exact, size = exact + case.beta * view(c, m, n), size + abs(case.beta * view(c, m, n))
    return exact, size


def ld(whole: np.ndarray) -> int:
    return whole.shape[2]


def stride(whole: np.ndarray) -> ctypes.c_longlong:
    return ctypes.c_longlong(whole.shape[1] * whole.shape[2])


def strided(case: Case, dtype: Any, places: tuple[Any, Any, Any], sources: tuple[np.ndarray, ...]) -> int:
    """Call the strided batch on the addresses of A, B and C, whose layouts ``sources`` tell."""
    blas = library("cublas12")
    function = getattr(blas, f"cublas{NAME[dtype]}gemmStridedBatched")
    alpha, beta = REAL[dtype](case.alpha), REAL[dtype](case.beta)
    (a, b, c), (x, y, z) = places, sources
    with blas_handle() as handle:
        status = function(
            handle, *case.ops, *case.shape, ctypes.byref(alpha), a, ld(x), stride(x), b, ld(y), stride(y),
            ctypes.byref(beta), c, ld(z), stride(z), case.batch,
        )  # fmt: skip
    return int(status)


def close(got: np.ndarray, exact: np.ndarray, size: np.ndarray, k: int, dtype: Any) -> bool:
    """Whether no element is further off than any order of summation allows."""
    allowed = (k + 4) * float(np.finfo(dtype).eps) * size
    return bool((np.abs(got - exact) <= allowed).all())


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@given(case=CASES, seed=st.integers(0, 2**32 - 1))
@example(case=Case((193, 2050, 257), (0, 1), (1, 0, 2), 1.0, 0.5), seed=1)
@example(case=Case((1, 1, 1), (0, 0), (0, 0, 0), 1.0, 0.0, batch=3), seed=1)
@settings(max_examples=60)
def test_every_product_equals_numpys(dtype: Any, case: Case, seed: int) -> None:
    a, b, c = inputs(case, dtype, seed)
    exact, size = expected(case, a, b, c)
    before = c.copy()
    assert strided(case, dtype, (pointer(a), pointer(b), pointer(c)), (a, b, c)) == 0
    m, n, k = case.shape
    assert close(view(c, m, n), exact, size, k, dtype)
    c[:, :n, :m] = before[:, :n, :m] = 0
    assert np.array_equal(c, before, equal_nan=True), "something outside of C was written"


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@given(
    n=st.integers(1, 70), shift=st.integers(-80, 80), alias=st.sampled_from("abc"), seed=st.integers(0, 99)
)
@settings(max_examples=40)
def test_overlapping_matrices_are_read_before_they_are_written(
    dtype: Any, n: int, shift: int, alias: str, seed: int
) -> None:
    """C lies ``shift`` elements from A or B (or A is B): the answer is that of separate matrices."""
    rng = np.random.default_rng(seed)
    memory = rng.uniform(-1, 1, n * n + 200).astype(dtype)
    other = rng.uniform(-1, 1, (1, n, n)).astype(dtype)
    at, to = 100, 100 + shift
    x = memory[at : at + n * n].reshape(1, n, n)
    z = memory[to : to + n * n].reshape(1, n, n) if alias != "c" else np.zeros((1, n, n), dtype)
    case = Case((n, n, n), (0, 1), (0, 0, 0), 1.5, 0.5)
    operands = {"a": (x, other), "b": (other, x), "c": (x, x)}[alias]
    exact, size = expected(case, *(o.copy() for o in operands), z.copy())
    layouts = (other, other, other)
    assert strided(case, dtype, (pointer(operands[0]), pointer(operands[1]), pointer(z)), layouts) == 0
    assert close(view(z, n, n), exact, size, n, dtype)


@pytest.mark.parametrize("beta", [0.0, 1.0, -0.5])
@pytest.mark.parametrize(("alpha", "k"), [(0.0, 5), (1.0, 0)], ids=["alpha is 0", "k is 0"])
def test_a_and_b_are_not_read_when_they_do_not_matter(alpha: float, k: int, beta: float) -> None:
    case = Case((3, 4, k), (0, 0), (0, 0, 0), alpha, beta)
    a, b, c = inputs(case, np.float32, 1)
    exact, _ = expected(case, a, b, c)
    assert strided(case, np.float32, (None, None, pointer(c)), (a, b, c)) == 0
    assert np.array_equal(view(c, 3, 4), exact.astype(np.float32))


def bf16(values: np.ndarray) -> np.ndarray:
    """Round to bfloat16, to nearest even, as 16-bit patterns."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def narrow(values: np.ndarray, kind: int) -> np.ndarray:
    return {R16: lambda v: v.astype(np.float16).view(np.uint16), RB16: bf16}.get(
        kind, lambda v: v.astype({R32: np.float32, R64: np.float64}[kind])
    )(values)


def wide(values: np.ndarray, kind: int) -> np.ndarray:
    if kind == R16:
        return values.view(np.float16).astype(np.float64)
    if kind == RB16:
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return values.astype(np.float64)


#: input type, output type, compute type, relative rounding of the output
MIXED = [
    pytest.param(R32, R32, COMPUTE_32F, 2e-7, id="f32"),
    pytest.param(R32, R32, 77, 2e-7, id="f32 fast-tf32"),
    pytest.param(R64, R64, COMPUTE_64F, 1e-15, id="f64"),
    pytest.param(R16, R16, COMPUTE_32F, 2**-11, id="f16"),
    pytest.param(R16, R32, COMPUTE_32F, 2e-7, id="f16 to f32"),
    pytest.param(R16, R16, COMPUTE_16F, 2**-11, id="f16 alone"),
    pytest.param(RB16, RB16, COMPUTE_32F, 2**-8, id="bf16"),
    pytest.param(RB16, R32, COMPUTE_32F, 2e-7, id="bf16 to f32"),
]


def extended(case: Case, kinds: tuple[int, int, int], compute: int, matrices: tuple[np.ndarray, ...]) -> int:
    scale: Any = {COMPUTE_64F: np.float64, COMPUTE_16F: np.float16}.get(compute, np.float32)
    alpha, beta = np.array(case.alpha, scale), np.array(case.beta, scale)
    a, b, c = matrices
    m, n, k = case.shape
    with blas_handle() as handle:
        status = library("cublas12").cublasGemmEx(
            handle, *case.ops, m, n, k, pointer(alpha), pointer(a), kinds[0], ld(a), pointer(b), kinds[1],
            ld(b), pointer(beta), pointer(c), kinds[2], ld(c), compute, -1,
        )  # fmt: skip
    return int(status)


@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize(("kind", "out", "compute", "rounding"), MIXED)
def test_mixed_types_are_summed_wide_and_rounded_once(
    kind: int, out: int, compute: int, rounding: float, beta: float
) -> None:
    case = Case((21, 13, 300), (0, 1), (2, 1, 3), -0.75, beta)
    x, y, z = inputs(case, np.float32, 3)
    a, b, c = narrow(x, kind), narrow(y, kind), narrow(z, out)
    exact, size = expected(case, wide(a, kind), wide(b, kind), wide(c, out))
    assert extended(case, (kind, kind, out), compute, (a, b, c)) == 0
    got = view(wide(c, out), 21, 13)
    assert (
        np.abs(got - exact) <= rounding * np.abs(exact) + 304 * (1e-15 if kind == R64 else 6e-8) * size
    ).all()


def test_every_half_survives_the_way_through_float() -> None:
    """alpha = 1, k = 1, B = 1: C is A converted there and back, for all 65,536 patterns."""
    a = np.arange(65536, dtype=np.uint16).reshape(1, 1, -1)
    for kind, one in ((R16, 0x3C00), (RB16, 0x3F80)):
        c = np.zeros_like(a)
        b = np.full((1, 1, 1), one, np.uint16)
        case = Case((65536, 1, 1), (0, 0), (0, 0, 0), 1.0, 0.0)
        assert extended(case, (kind, kind, kind), COMPUTE_32F, (a, b, c)) == 0
        want, got = wide(a, kind), wide(c, kind)
        assert np.array_equal(got, want, equal_nan=True)


def test_floats_become_halves_as_numpy_rounds_them() -> None:
    """Sums of two halves are floats between halves: ties, the range's edges, subnormals."""
    rng = np.random.default_rng(5)
    edge = np.array([65504, 65488, 6.1e-5, 5.96e-8, 1, 0, -0.0], np.float16)
    high = np.concatenate([edge, -edge, (rng.uniform(-1, 1, 4000) * 2.0 ** rng.integers(-26, 16, 4000))])
    high = high.astype(np.float16)
    parts = [high * np.float16(factor) for factor in (2**-11, 2**-12, -(2**-11), 0.3)]
    low = np.concatenate([*parts, np.full(high.size, 16, np.float16)])
    high = np.tile(high, 5)
    with np.errstate(over="ignore"):
        want = (high.astype(np.float32) + low.astype(np.float32)).astype(np.float16)
    a = np.stack([high, low]).view(np.uint16).reshape(1, 2, -1).copy()
    ones = np.full((1, 1, 2), 0x3C00, np.uint16)
    c = np.zeros((1, 1, high.size), np.uint16)
    case = Case((high.size, 1, 2), (0, 0), (0, 0, 0), 1.0, 0.0)
    assert extended(case, (R16, R16, R16), COMPUTE_32F, (a, ones, c)) == 0
    assert np.isinf(want).any()
    assert np.array_equal(c.ravel().view(np.float16), want)


@pytest.mark.parametrize("name", ["cublasSgemmBatched", "cublasSgemmBatched_64"])
def test_arrays_of_pointers_give_each_matrix_its_own_product(name: str) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.uniform(-1, 1, (2, 4, 5, 5)).astype(np.float32)
    c = np.full((4, 5, 5), np.nan, np.float32)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    five = ctypes.c_int64(5) if name.endswith("64") else 5
    with blas_handle() as handle:
        status = getattr(library("cublas12"), name)(
            handle, 0, 0, five, five, five, ctypes.byref(one), pointers(list(b)), five,
            pointers(list(a)), five, ctypes.byref(zero), pointers(list(c)), five, type(five)(4),
        )  # fmt: skip
    assert status == 0
    assert np.allclose(c, a @ b, rtol=1e-5, atol=1e-6)


def sgemm(**change: Any) -> int:
    """A valid product with one argument changed."""
    data = np.zeros(64, np.float32)
    one = ctypes.c_float(1)
    with blas_handle() as handle:
        arguments = {
            "handle": handle, "op_a": 0, "op_b": 0, "m": 4, "n": 3, "k": 2, "alpha": ctypes.byref(one),
            "a": pointer(data), "lda": 4, "b": pointer(data), "ldb": 2, "beta": ctypes.byref(one),
            "c": pointer(data), "ldc": 4,
        } | change  # fmt: skip
        return int(library("cublas12").cublasSgemm_v2(*arguments.values()))


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, 0),
        ({"handle": None}, NOT_INITIALIZED),
        ({"handle": ctypes.c_void_p(16)}, NOT_INITIALIZED),
        ({"op_a": 3}, INVALID),
        ({"op_b": -1}, INVALID),
        ({"m": -1}, INVALID),
        ({"n": -1}, INVALID),
        ({"k": -1}, INVALID),
        ({"lda": 3}, INVALID),
        ({"op_a": 1, "lda": 1}, INVALID),
        ({"op_a": 1, "lda": 2}, 0),
        ({"ldb": 1}, INVALID),
        ({"op_b": 1, "ldb": 2}, INVALID),
        ({"op_b": 2, "ldb": 3}, 0),
        ({"ldc": 3}, INVALID),
        ({"m": 0, "lda": 0}, INVALID),
        ({"m": 0, "a": None, "b": None, "c": None}, 0),
        ({"alpha": None}, INVALID),
        ({"beta": None}, INVALID),
        ({"a": None}, INVALID),
        ({"b": None}, INVALID),
        ({"c": None}, INVALID),
    ],
    ids=str,
)
def test_arguments_are_checked_as_cublas_documents(change: dict[str, Any], status: int) -> None:
    assert sgemm(**change) == status


@pytest.mark.parametrize(
    ("kinds", "compute"),
    [
        ((R32, R64, R32), COMPUTE_32F),
        ((C32, C32, C32), COMPUTE_32F),
        ((R32, R32, R32), 72),
        ((R16, R16, R64), 68),
    ],
    ids=["two types", "complex", "integers", "f16 to f64"],
)
def test_types_that_are_not_computed_are_refused(kinds: tuple[int, int, int], compute: int) -> None:
    case = Case((4, 4, 4), (0, 0), (0, 0, 0), 1.0, 0.0)
    data = np.full((1, 4, 4), 7, np.float64)
    assert extended(case, kinds, compute, (data, data, data)) == NOT_SUPPORTED
    assert (data == 7).all()


def test_a_destroyed_handle_is_not_used_again() -> None:
    blas = library("cublas12")
    with blas_handle() as handle:
        pass
    assert blas.cublasDestroy_v2(handle) == NOT_INITIALIZED
    assert blas.cublasSetStream_v2(handle, None) == NOT_INITIALIZED
    assert blas.cublasCreate_v2(None) == INVALID
