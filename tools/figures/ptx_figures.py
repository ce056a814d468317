"""The PTX engine of the CPU reference beside NumPy: three kernels, decoding, and loading a large module.

python -m tools.figures.ptx_figures [--rounds=9]

The figures are of this processor, never of a GPU. Wall is the time a launch takes, CPU what all threads spent on it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from tests.native_ptx import HEAD, Module
from tools.figures.rows import Row, race, show

#: Milliseconds of wall time.
BARS: Final = {"saxpy 10⁶": 5.0, "matmul 512³": 150.0, "shuffle reduction 10⁶": 20.0}
DECODE_BAR, LOAD_BAR = 1.0, 1000.0
COUNT, SIDE, TILE = 1_000_000, 512, 16
INSTRUCTIONS, MODULE_BYTES = 100_000, 35_000_000

INDEX = "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, %r1, %r2;"
REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %d<20>;"
KERNELS: Final = f"""{HEAD}
.visible .entry saxpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n) {{
 {REGISTERS} {INDEX} ld.param.u32 %r4, [n]; setp.ge.u32 %p0, %r3, %r4; @%p0 bra END;
 ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y]; ld.param.f32 %f0, [a]; mul.wide.u32 %d2, %r3, 4; add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
 ld.global.f32 %f1, [%d0]; ld.global.f32 %f2, [%d1]; fma.rn.f32 %f3, %f0, %f1, %f2; st.global.f32 [%d1], %f3;
END: ret; }}
.visible .entry total(.param .u64 x, .param .u64 out, .param .u32 n) {{
 {REGISTERS} .shared .align 4 .b8 part[32]; {INDEX} ld.param.u32 %r4, [n]; ld.param.u64 %d0, [x]; mov.f32 %f0, 0f00000000;
 setp.ge.u32 %p0, %r3, %r4; mul.wide.u32 %d2, %r3, 4; add.u64 %d0, %d0, %d2; @!%p0 ld.global.f32 %f0, [%d0];
 {" ".join(f"mov.b32 %r6, %f0; shfl.sync.down.b32 %r5, %r6, {k}, 31, -1; mov.b32 %f1, %r5; add.f32 %f0, %f0, %f1;" for k in (16, 8, 4, 2, 1))}
 mov.u32 %r7, %laneid; setp.ne.u32 %p1, %r7, 0; shr.u32 %r8, %r2, 5; shl.b32 %r8, %r8, 2; mov.u32 %r9, part; add.u32 %r9, %r9, %r8;
 @!%p1 st.shared.f32 [%r9], %f0; bar.sync 0; setp.ne.u32 %p2, %r2, 0; @%p2 bra END;
 {" ".join(f"ld.shared.f32 %f{k + 2}, [part+{4 * k}];" for k in range(8))}
 mov.f32 %f0, 0f00000000; {" ".join(f"add.f32 %f0, %f0, %f{k + 2};" for k in range(8))}
 ld.param.u64 %d1, [out]; red.global.add.f32 [%d1], %f0;
END: ret; }}
.visible .entry matmul(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {{
 {REGISTERS} .shared .align 16 .b8 left[1024]; .shared .align 16 .b8 right[1024];
 ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; ld.param.u64 %d2, [c]; ld.param.u32 %r0, [n];
 mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y;
 mad.lo.u32 %r5, %r4, 16, %r2; mad.lo.u32 %r6, %r3, 16, %r1; mad.lo.u32 %r7, %r5, %r0, %r1; mad.lo.u32 %r8, %r2, %r0, %r6;
 mul.wide.u32 %d3, %r7, 4; add.u64 %d3, %d3, %d0; mul.wide.u32 %d4, %r8, 4; add.u64 %d4, %d4, %d1; mul.wide.u32 %d5, %r0, 64;
 mov.u32 %r10, left; mov.u32 %r11, right; mad.lo.u32 %r12, %r2, 64, %r10; mad.lo.u32 %r13, %r1, 4, %r12;
 mad.lo.u32 %r14, %r1, 4, %r11; mad.lo.u32 %r15, %r2, 64, %r14; mov.f32 %f0, 0f00000000; mov.u32 %r16, 0;
LOOP: ld.global.f32 %f1, [%d3]; ld.global.f32 %f2, [%d4]; st.shared.f32 [%r13], %f1; st.shared.f32 [%r15], %f2; bar.sync 0;
 {" ".join(f"ld.shared.f32 %f3, [%r12+{4 * k}]; ld.shared.f32 %f4, [%r14+{64 * k}]; fma.rn.f32 %f0, %f3, %f4, %f0;" for k in range(TILE))}
 bar.sync 0; add.u64 %d3, %d3, 64; add.u64 %d4, %d4, %d5; add.u32 %r16, %r16, 16; setp.lt.u32 %p0, %r16, %r0; @%p0 bra LOOP;
 mad.lo.u32 %r17, %r5, %r0, %r6; mul.wide.u32 %d6, %r17, 4; add.u64 %d6, %d6, %d2; st.global.f32 [%d6], %f0; ret; }}
"""


class Work:
    """Arrays, and the same work by the engine and by NumPy."""

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        self.module = Module(KERNELS)
        self.x, self.y = random.random((2, COUNT), np.float32)
        self.a, self.b = random.random((2, SIDE, SIDE), np.float32)
        self.c, self.sum = np.zeros_like(self.a), np.zeros(1, np.float32)

    def check(self) -> None:
        """End the run where the engine computes something else than NumPy: its speed would mean nothing."""
        before = self.y.copy()
        self.saxpy()
        self.matmul()
        self.total()
        assert np.allclose(self.y, 2 * self.x + before, rtol=1e-6)
        assert np.allclose(self.c, self.a @ self.b, rtol=1e-4)
        assert np.allclose(self.sum[0], self.x.sum(dtype=np.float64), rtol=1e-3)

    def saxpy(self) -> None:
        arguments = [self.x, self.y, np.float32(2), np.uint32(COUNT)]
        self.module.launch("saxpy", arguments, grid=((COUNT + 255) // 256, 1, 1), block=(256, 1, 1))

    def total(self) -> None:
        self.sum[0] = 0
        arguments = [self.x, self.sum, np.uint32(COUNT)]
        self.module.launch("total", arguments, grid=((COUNT + 255) // 256, 1, 1), block=(256, 1, 1))

    def matmul(self) -> None:
        grid = (SIDE // TILE, SIDE // TILE, 1)
        arguments = [self.a, self.b, self.c, np.uint32(SIDE)]
        self.module.launch("matmul", arguments, grid=grid, block=(TILE, TILE, 1))


def _beside(what: str, ours: Callable[[], object], numpy: Callable[[], object], rounds: int) -> Iterator[Row]:
    """Make the lines of one kernel: the engine's wall and CPU time, NumPy's."""
    cpu: dict[str, list[float]] = {"engine": [], "NumPy": []}

    def timed(who: str, run: Callable[[], object]) -> Callable[[], float]:
        def measure() -> float:
            wall, spent = time.perf_counter(), time.process_time()
            run()
            cpu[who].append((time.process_time() - spent) * 1e3)
            return time.perf_counter() - wall

        return measure

    times = race({"engine": timed("engine", ours), "NumPy": timed("NumPy", numpy)}, rounds, limit=60)
    for who, values in times.items():
        bar = BARS[what] if who == "engine" else None
        yield Row(what=what, who=f"{who}, wall", unit="ms", values=tuple(v * 1e3 for v in values), bar=bar)
        yield Row(what=what, who=f"{who}, CPU", unit="ms", values=tuple(cpu[who]))


def _kernel(name: str, instructions: int) -> str:
    lines = [f"fma.rn.f32 %f{i % 7}, %f{i % 5}, %f{i % 3}, %f{i % 11};" for i in range(instructions)]
    return f".visible .entry {name}() {{ .reg .f32 %f<11>;\n" + "\n".join(lines) + "\nret; }\n"


def _decode_and_load(rounds: int) -> Iterator[Row]:
    decoded, spent, loaded = [], [], []
    one = HEAD + _kernel("k", INSTRUCTIONS)
    body = _kernel("k", 2000).partition(" k")[2]
    many = HEAD + "".join(f".visible .entry k{i}{body}" for i in range(MODULE_BYTES // len(body) + 1))
    for _ in range(rounds):
        with Module(one) as module:
            start, cpu = time.perf_counter(), time.process_time()
            module.attributes("k")
            decoded.append((time.perf_counter() - start) * 1e6 / INSTRUCTIONS)
            spent.append((time.process_time() - cpu) * 1e6 / INSTRUCTIONS)
        raw = many.encode()
        start = time.perf_counter()
        module = Module(raw)
        loaded.append((time.perf_counter() - start) * 1e3)
        module.close()
    what = "decode 1,000 instructions"
    yield Row(what=what, who="engine, wall", unit="ms", values=tuple(decoded), bar=DECODE_BAR)
    yield Row(what=what, who="engine, CPU", unit="ms", values=tuple(spent))
    what = f"load a module of {len(many) / 1e6:.0f} MB"
    yield Row(what=what, who="engine, wall", unit="ms", values=tuple(loaded), bar=LOAD_BAR)


def figures(rounds: int) -> Iterator[Row]:
    """Check the kernels, then measure them."""
    work = Work()
    work.check()
    y, c = work.y.copy(), work.c.copy()
    yield from _beside("saxpy 10⁶", work.saxpy, lambda: np.add(y, 2 * work.x, out=y), rounds)
    yield from _beside("matmul 512³", work.matmul, lambda: np.matmul(work.a, work.b, out=c), rounds)
    yield from _beside("shuffle reduction 10⁶", work.total, work.x.sum, rounds)
    yield from _decode_and_load(min(rounds, 5))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    raise SystemExit(any(row.met is False for row in show(figures(parser.parse_args().rounds))))
