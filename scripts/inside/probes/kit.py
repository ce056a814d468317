"""What every probe uses: random numbers, cases, judged numbers, device buffers with guards, kernels.

Python 3.8 and NumPy. ``probe.py`` is started by path; this file lies beside it, ``cuda_calls.py`` one folder up.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from cuda_calls import (
    EXIT,
    MARK,
    WINDOWS,
    Api,
    Array,
    CallFailed,
    Driver,
    NotFound,
    load_first,
    path_of,
)

__all__ = ["EXIT", "MARK", "WINDOWS", "Api", "CallFailed", "Driver", "NotFound", "load_first", "path_of"]

INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED = 1, 500, 801
#: Bytes before and behind every buffer that must keep their value, and what outputs hold before: NaN.
GUARD, FENCE, POISON = 512, 0xA5, 0xFF

SIZE = ctypes.c_size_t
U64 = ctypes.c_uint64
HANDLE = ctypes.c_void_p


class Refused(Exception):  # noqa: N818 - says what happened
    """What was asked for is not supported here, and the library or device says so."""

    outcome = "refused"


class Unavailable(Exception):  # noqa: N818 - says what happened
    """Something that the probe needs is not on this machine."""

    outcome = "unavailable"


class ProbeSession:
    """One probe's run: its random numbers, its cases, its device."""

    def __init__(self, *, seed: int, device: str, seconds: float) -> None:
        """Keep what the command line says; nothing is loaded yet."""
        self.rng = np.random.default_rng(seed)
        self.seed, self.device_wanted, self.seconds = seed, device, seconds
        self.cases: List[Dict[str, Any]] = []
        self.files: Dict[str, str] = {}
        self.device = ""
        self._cuda: Optional[Cuda] = None

    @property
    def cuda(self) -> "Cuda":
        """The driver with a context, started at the first use."""
        if self._cuda is None:
            self._cuda = Cuda()
            self.files.update(self._cuda.files)
            self.device = self._cuda.device
        return self._cuda

    def close(self) -> None:
        """Look at the guards of every buffer, then end as a program that behaves well does."""
        if self._cuda is not None:
            broken = self._cuda.broken_guards()
            if broken:
                self.say("guards", "incorrect", "; ".join(broken))
            self._cuda.close()

    def say(self, case: str, outcome: str, detail: str = "", **figures: Any) -> None:
        """Add one case."""
        self.cases.append({"case": case, "outcome": outcome, "detail": detail, **figures})

    def need(self, case: str, right: Any, detail: object = "") -> bool:
        """Add a case that is right or wrong."""
        self.say(case, "pass" if right else "incorrect", "" if right else "%s: %s" % (case, detail))
        return bool(right)

    def equal(self, case: str, got: Any, want: Any) -> bool:
        """Add a case whose numbers must be the same to the last bit."""
        got, want = np.asarray(got), np.asarray(want)
        if got.shape != want.shape:
            return self.need(case, right=False, detail="shape %s instead of %s" % (got.shape, want.shape))
        wrong = np.flatnonzero(~(got == want).ravel())
        if not wrong.size:
            return self.need(case, right=True)
        first = wrong[0]
        text = "%d of %d values are wrong, the first at %d: %s instead of %s"
        return self.need(case, False, text % (wrong.size, got.size, first, got.flat[first], want.flat[first]))

    def near(self, case: str, got: Any, want: Any, allowed: Any) -> bool:
        """Add a case whose numbers may differ from the reference by ``allowed``, element by element.

        NaN and infinity never pass, wherever they stand.
        """
        got, want = np.asarray(got), np.asarray(want)
        if got.shape != want.shape:
            return self.need(case, right=False, detail="shape %s instead of %s" % (got.shape, want.shape))
        wide = np.complex128 if np.iscomplexobj(got) or np.iscomplexobj(want) else np.float64
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            ratio = np.abs(got.astype(wide) - want.astype(wide)) / np.broadcast_to(allowed, got.shape)
        ratio = np.where((got == want) & np.isfinite(got), 0.0, ratio)
        bad = np.where(np.isfinite(got) & np.isfinite(ratio), ratio, np.inf)
        largest = float(bad.max()) if bad.size else 0.0
        nans = int((~np.isfinite(got)).sum())
        if largest <= 1.0:
            self.say(case, "pass", error_over_tolerance=largest)
            return True
        words = "%d of %d values are not finite" % (nans, got.size) if nans else ""
        words = words or "an error of %.3g times the tolerance" % largest
        self.say(case, "incorrect", "%s: %s" % (case, words))
        return False

    def refuses(self, case: str, code: int, *wanted: int) -> bool:
        """Add a case that must be refused; ``wanted`` are the codes that say so, none: any but success."""
        right = code in wanted if wanted else code != 0
        words = "it returned %d" % code + (" instead of %s" % " or ".join(map(str, wanted)) if wanted else "")
        return self.need(case, right, words)

    def floats(self, *shape: int, dtype: Any = np.float32) -> Array:
        """Draw numbers in [-1, 1) of a type; complex ones in both parts."""
        kind = np.dtype(dtype)
        numbers = self.rng.uniform(-1, 1, shape)
        if kind.kind == "c":
            return (numbers + 1j * self.rng.uniform(-1, 1, shape)).astype(kind)
        return numbers.astype(kind)


class Buffer:
    """Device memory between two guards; what an output holds before it is written is NaN."""

    def __init__(self, cuda: "Cuda", size: int) -> None:
        """Take the memory, fence it, poison it."""
        self.cuda, self.size = cuda, size
        self.base = U64()
        cuda.driver.call("cuMemAlloc_v2", ctypes.byref(self.base), SIZE(size + 2 * GUARD))
        self.fill(bytes([FENCE]) * GUARD + bytes([POISON]) * size + bytes([FENCE]) * GUARD, -GUARD)

    @property
    def at(self) -> ctypes.c_uint64:
        """Its address."""
        return U64(self.base.value + GUARD)

    def past(self, offset: int) -> ctypes.c_uint64:
        """An address inside of it."""
        return U64(self.base.value + GUARD + offset)

    def fill(self, data: bytes, offset: int = 0) -> None:
        """Copy bytes into it, and wait: other streams may read it next, and the copy itself need not wait."""
        self.cuda.driver.call("cuMemcpyHtoD_v2", self.past(offset), data, SIZE(len(data)))
        self.cuda.driver.call("cuStreamSynchronize", None)

    def put(self, array: Array) -> "Buffer":
        """Copy an array into it."""
        self.fill(np.ascontiguousarray(array).tobytes())
        return self

    def bytes(self, size: int = -1, offset: int = 0) -> bytes:
        """Copy bytes out of it."""
        size = self.size if size < 0 else size
        data = ctypes.create_string_buffer(max(size, 1))
        self.cuda.driver.call("cuMemcpyDtoH_v2", data, self.past(offset), SIZE(size))
        return data.raw[:size]

    def get(self, dtype: Any, *shape: int) -> Array:
        """Copy an array out of it; without a shape, all of it."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape)) if shape else self.size // kind.itemsize
        flat = np.frombuffer(self.bytes(count * kind.itemsize), kind)
        return flat.reshape(shape) if shape else flat

    def intact(self) -> bool:
        """Whether both guards are as they were."""
        fence = bytes([FENCE]) * GUARD
        return self.bytes(GUARD, -GUARD) == fence and self.bytes(GUARD, self.size) == fence

    def free(self) -> None:
        """Give it back; its guards are not looked at any more."""
        self.cuda.buffers.remove(self)
        self.cuda.driver.call("cuMemFree_v2", self.base)


class Cuda(Driver):
    """The driver with a context on device 0, its buffers and kernels."""

    def __init__(self) -> None:
        """Start the driver."""
        super().__init__()
        self.buffers: List[Buffer] = []
        self.lost = False

    def code(self, name: str, *arguments: Any) -> int:
        """Call a function of the driver and return its code.

        Raises:
            NotFound: the driver has no such function.
        """
        try:
            self.driver.call(name, *arguments)
        except CallFailed as error:
            return int(str(error).rsplit(" ", 1)[1])
        return 0

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver that must succeed."""
        self.driver.call(name, *arguments)

    def ask(self, name: str, *arguments: Any, kind: Any = ctypes.c_int) -> Any:
        """Call a function that stores one value at its first argument, and return that."""
        value = kind()
        self.driver.call(name, ctypes.byref(value), *arguments)
        return value.value

    def attribute(self, number: int) -> int:
        """Ask for one attribute of the device."""
        return int(self.ask("cuDeviceGetAttribute", number, self.number))

    def buffer(self, size: int) -> Buffer:
        """Take poisoned memory."""
        buffer = Buffer(self, size)
        self.buffers.append(buffer)
        return buffer

    def given(self, array: Array) -> Buffer:
        """Take memory that holds an array."""
        return self.buffer(array.nbytes).put(array)

    def empty(self, dtype: Any, *shape: int) -> Buffer:
        """Take poisoned memory for an array."""
        return self.buffer(int(np.prod(shape)) * np.dtype(dtype).itemsize)

    def broken_guards(self) -> List[str]:
        """Say which buffers were written around."""
        if self.lost:
            return []
        return [
            "memory around buffer %d was written" % i for i, b in enumerate(self.buffers) if not b.intact()
        ]

    def stream(self, flags: int = 1) -> HANDLE:
        """Make a stream that does not wait for the default one."""
        stream = HANDLE()
        self.call("cuStreamCreate", ctypes.byref(stream), flags)
        return stream

    def event(self, flags: int = 0) -> HANDLE:
        """Make an event."""
        event = HANDLE()
        self.call("cuEventCreate", ctypes.byref(event), flags)
        return event

    def module(self, text: str) -> HANDLE:
        """Load PTX."""
        module = HANDLE()
        self.call("cuModuleLoadData", ctypes.byref(module), ptx(text))
        return module

    def function(self, module: HANDLE, name: str) -> HANDLE:
        """Find a kernel."""
        function = HANDLE()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def kernel(self, text: str, name: str) -> HANDLE:
        """Load PTX and find one kernel."""
        return self.function(self.module(text), name)

    def launch(
        self,
        function: HANDLE,
        grid: Any,
        block: Any,
        *arguments: Any,
        shared: int = 0,
        stream: Optional[HANDLE] = None,
    ) -> None:
        """Start a kernel; it may still run when this returns."""
        code = self.launch_code(function, grid, block, *arguments, shared=shared, stream=stream)
        if code:
            raise CallFailed("cuLaunchKernel", code)

    def launch_code(
        self,
        function: HANDLE,
        grid: Any,
        block: Any,
        *arguments: Any,
        shared: int = 0,
        stream: Optional[HANDLE] = None,
    ) -> int:
        """Start a kernel and return the code."""
        array, _keep = packed(arguments)
        sizes = (*three(grid), *three(block))
        return self.code("cuLaunchKernel", function, *sizes, shared, stream, array, None)


def three(size: Any) -> Tuple[int, int, int]:
    """Fill a grid's or block's size up."""
    sizes = (size,) if isinstance(size, int) else tuple(size)
    return (*sizes, 1, 1)[:3]


def packed(arguments: Sequence[Any]) -> Tuple[Any, List[Any]]:
    """Return the array of pointers to a kernel's arguments, and what must live as long."""
    values = [a.at if isinstance(a, Buffer) else a for a in arguments]
    array = (HANDLE * max(len(values), 1))(*(ctypes.addressof(value) for value in values))
    return array, values


def ptx(body: str, *, version: str = "7.0", target: str = "sm_75") -> bytes:
    """Put the head before kernels, unless they have one."""
    head = "" if body.lstrip().startswith(".version") else ".version %s\n.target %s\n.address_size 64\n"
    return ((head % (version, target) if head else "") + body.strip() + "\n").encode() + b"\0"


def u(dtype: Any) -> float:
    """The unit roundoff of a type."""
    kind = np.dtype(dtype)
    if kind.kind == "c":
        kind = np.dtype("f%d" % (kind.itemsize // 2))
    return float(np.finfo(kind).eps) / 2


def growth(count: int) -> float:
    """How much rounding errors of ``count`` operations add up to, in unit roundoffs: min(n, 8 sqrt(n)) + 4."""
    return min(count, 8 * float(np.sqrt(count))) + 4


def to_bf16(array: Array) -> Array:
    """Round float32 to bfloat16, kept as 16-bit patterns; to nearest, ties to even."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: Array) -> Array:
    """Read bfloat16 patterns as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
