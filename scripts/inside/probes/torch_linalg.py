"""Probes of PyTorch's linear algebra, judged by what the answers must satisfy."""

from __future__ import annotations

from typing import Any, Iterator, Tuple

import numpy as np
from kit import ProbeSession
from torch_kit import Torch

#: A backward-stable method's residual is a small multiple of n u |A|: this one is allowed.
FACTOR = 20


def cases(
    s: ProbeSession, *shape: int, definite: bool = False, symmetric: bool = False
) -> Iterator[Tuple[Torch, str, Any, Any, float]]:
    """Yield for two types and a batch: the device's matrices, the same in double precision, and the slack."""
    t = Torch(s)
    for name in ("float32", "float64"):
        a = s.floats(3, *shape, dtype=np.float64)
        if definite:
            a = a @ a.transpose(0, 2, 1) / shape[0] + np.eye(shape[0])
        if symmetric:
            a = (a + a.transpose(0, 2, 1)) / 2
        x = t.up(a, getattr(t.torch, name))
        wide = t.down(x)
        yield (
            t,
            name,
            x,
            wide,
            FACTOR * max(shape) * t.u(x.dtype) * np.linalg.norm(wide, 2, axis=(1, 2)).max(),
        )


def flip(a: Any) -> Any:
    """Transpose each matrix."""
    return a.transpose(0, 2, 1)


def solve(s: ProbeSession) -> None:
    """A x = b; a singular matrix is refused."""
    for t, name, x, a, slack in cases(s, 77, 77):
        b = s.floats(3, 77, 4, dtype=np.float64)
        right = t.up(b, x.dtype)
        got = t.down(t.torch.linalg.solve(x, right))
        s.near(name, a @ got, t.down(right), slack * (np.abs(got).max() + 1))
        try:
            t.torch.linalg.solve(t.torch.zeros(5, 5, device=t.device, dtype=x.dtype), right[0, :5])
            t.torch.cuda.synchronize() if t.on_gpu else None
        except RuntimeError:
            s.need(name + ": a singular matrix", right=True)
        else:
            s.need(name + ": a singular matrix", right=False, detail="it was not refused")


def cholesky(s: ProbeSession) -> None:
    """L L^T = A; a matrix that is not positive definite is refused."""
    for t, name, x, a, slack in cases(s, 61, 61, definite=True):
        low = t.down(t.torch.linalg.cholesky(x))
        s.near(name, low @ flip(low), a, slack)
        s.equal(name + ": a triangle", np.triu(low, 1), np.zeros_like(low))
        try:
            t.torch.linalg.cholesky(-x)
        except RuntimeError:
            s.need(name + ": a negative matrix", right=True)
        else:
            s.need(name + ": a negative matrix", right=False, detail="it was not refused")


def qr(s: ProbeSession) -> None:
    """Q R = A, Q^T Q = 1."""
    for t, name, x, a, slack in cases(s, 80, 51):
        q, r = (t.down(part) for part in t.torch.linalg.qr(x))
        s.near(name, q @ r, a, slack)
        s.near(name + ": orthogonal", flip(q) @ q, np.broadcast_to(np.eye(51), (3, 51, 51)), slack)


def inverse(s: ProbeSession) -> None:
    """A A^-1 = 1."""
    for t, name, x, a, slack in cases(s, 64, 64, definite=True):
        got = t.down(t.torch.linalg.inv(x))
        s.near(name, a @ got, np.broadcast_to(np.eye(64), a.shape), slack * 4)


def least_squares(s: ProbeSession) -> None:
    """The residual is orthogonal to the columns, and the answer is the reference's."""
    for t, name, x, a, slack in cases(s, 90, 30):
        b = s.floats(3, 90, 2, dtype=np.float64)
        right = t.up(b, x.dtype)
        got = t.down(t.torch.linalg.lstsq(x, right).solution)
        want = np.stack([np.linalg.lstsq(m, v, rcond=None)[0] for m, v in zip(a, t.down(right))])
        s.near(name, got, want, slack * 4)
        s.near(name + ": orthogonal", flip(a) @ (a @ got - t.down(right)), np.zeros_like(got), slack * 40)


def svd(s: ProbeSession) -> None:
    """U S V = A; the values are the reference's."""
    for t, name, x, a, slack in cases(s, 60, 43):
        left, values, right = (t.down(part) for part in t.torch.linalg.svd(x, full_matrices=False))
        s.near(name + ": values", values, np.linalg.svd(a, compute_uv=False), slack)
        s.near(name, left * values[:, None, :] @ right, a, slack)
        s.near(name + ": orthogonal", flip(left) @ left, np.broadcast_to(np.eye(43), (3, 43, 43)), slack)


def pinv(s: ProbeSession) -> None:
    """A A+ A = A."""
    for t, name, x, a, slack in cases(s, 50, 30):
        got = t.down(t.torch.linalg.pinv(x))
        s.near(name, a @ got @ a, a, slack * 8)
        s.near(name + ": as the reference", got, np.linalg.pinv(a), slack * 4)


def eigh(s: ProbeSession) -> None:
    """A V = V W; the values are the reference's."""
    for t, name, x, a, slack in cases(s, 58, 58, symmetric=True):
        values, vectors = (t.down(part) for part in t.torch.linalg.eigh(x))
        s.near(name + ": values", values, np.linalg.eigvalsh(a), slack)
        s.near(name, a @ vectors, vectors * values[:, None, :], slack)


def eigvalsh(s: ProbeSession) -> None:
    """The values alone."""
    for t, name, x, a, slack in cases(s, 66, 66, symmetric=True):
        s.near(name, t.down(t.torch.linalg.eigvalsh(x)), np.linalg.eigvalsh(a), slack)


def determinant(s: ProbeSession) -> None:
    """The logarithm of the determinant, and its sign."""
    for t, name, x, a, slack in cases(s, 40, 40):
        sign, size = t.torch.linalg.slogdet(x)
        want = np.linalg.slogdet(a)
        s.equal(name + ": sign", t.down(sign), want[0])
        s.near(name, t.down(size), want[1], slack * 20)


PROBES = {
    "torch-linalg-solve": solve,
    "torch-linalg-cholesky": cholesky,
    "torch-linalg-qr": qr,
    "torch-linalg-inv": inverse,
    "torch-linalg-lstsq": least_squares,
    "torch-linalg-svd": svd,
    "torch-linalg-pinv": pinv,
    "torch-linalg-eigh": eigh,
    "torch-linalg-eigvalsh": eigvalsh,
    "torch-linalg-slogdet": determinant,
}
