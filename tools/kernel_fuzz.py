"""Damage PTX modules and the containers around them, and check each: no crash, bounded time and memory.

python -m tools.kernel_fuzz [--modules=100000] [--seed=1] [--seconds=110] [PTX file …]

Four of five modules are texts that go to the lexer and the checker under every release; the fifth is a file
of containers that goes through the reader as well. Texts to begin with are our own, and the files named.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.preflight.kernels import KernelReport, KernelStore, tally
from scripts.preflight.look import look
from scripts.preflight.ptx_check import PtxChecker
from scripts.preflight.ptx_scan import scan_ptx
from scripts.preflight.ptx_table import ptx_tables
from tests.fatbins import PTX, container, entry, sass
from tests.ptx_texts import function, kernel, text

#: Seconds that one module may take, and bytes that its check may hold, whatever is in it.
SLOWEST: Final = 2.0
LARGEST: Final = 64 << 20
#: Pieces that matter to the lexer and to the grammar.
PIECES: Final = (
    *(
        b"{",
        b"}",
        b"(",
        b")",
        b"[",
        b"]",
        b";",
        b",",
        b".",
        b":",
        b"|",
        b"@",
        b"%",
        b"_",
        b"!",
        b'"',
        b"\\",
        b"~",
    ),
    *(b"//", b"/*", b"*/", b"\n", b"\r", b"\t", b"\0", b"\xff", b".entry ", b".func ", b".version 9.0\n"),
    *(
        b".target sm_90a\n",
        b".section .x {",
        b".loc 1 1 1\n",
        b"%clock64",
        b"%envreg1",
        b"@%p1 ",
        b"call f, ();",
    ),
    *(
        b".param .u64 ",
        b".unified",
        b"bra L;",
        b"L:",
        b"lop3.b32 ",
        b"::128B",
        b"{_, %r1}",
        b".address_size 32\n",
    ),
)
_TEXTS: Final[tuple[tuple[str, ...], ...]] = (
    (
        kernel("a", "add.s32 %r1, %r2, %r3;", "@%p1 bra L;", "L:"),
        kernel("b", "lop3.b32 %r1, %r2, %r3, %r4, 1;"),
    ),
    (
        function("f", "mov.u32 %r1, %clock64;"),
        kernel("c", "call f, ();", parameters=".param .u64 p"),
    ),
    (
        ".global .align 4 .b8 x[16] = {1, 2};",
        kernel("d", "ld.global.L2::128B.u32 %r1, [%rd1];"),
    ),
    (
        kernel(
            "e", "cp.async.ca.shared.global [%r1], [%rd1], 16, %r2;", "bar.sync 1, 64;", tail=".maxntid 32"
        ),
    ),
    (
        ".func (.param .b32 r) g(.param .b32 x)\n;\n",
        kernel("h", "call (%r1), g, (%r2);", "setp.lt.s32 %p|%q, 1, 2;"),
    ),
)
SEEDS: Final = tuple(text(*parts) for parts in _TEXTS)


class Fuzzed(Struct):
    """What a run came to."""

    modules: int = 0
    files: int = 0
    slowest: float = 0.0
    largest: int = 0
    crashes: list[str] = []


def mutated(chance: random.Random, data: bytes) -> bytes:
    """Damage bytes a few times: flip, cut, repeat, insert, move."""
    for _ in range(chance.randint(1, 6)):
        at, size = chance.randrange(len(data) + 1), chance.choice((1, 2, 8, 64, 512))
        piece = data[at : at + size]
        kind = chance.randrange(6)
        if kind == 0:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + data[at + size :]
        elif kind == 2:
            data = data[:at] + piece * chance.choice((2, 3, 50)) + data[at:]
        elif kind == 3:
            data = data[:at] + chance.choice(PIECES) + data[at:]
        elif kind == 4:
            other = chance.randrange(len(data) + 1)
            data = data[:other] + piece + data[other:]
        else:
            data = data[:at] if chance.random() < 0.2 else data.replace(piece, chance.choice(PIECES), 3)
        data = data[: 1 << 18] or b"."
    return data


class _Memory(KernelStore):
    """Reports that are not written: flushing them would take longer than making them."""

    def put(self, device: str, report: KernelReport) -> None:
        """Keep a report for this object's life."""
        self._seen[device] = report


def check_text(data: bytes) -> None:
    """Take a text through the lexer and every release's checker."""
    checker = PtxChecker(scan_ptx(data))
    for table in ptx_tables():
        checker.verdict(table)


def check_file(path: Path, data: bytes) -> None:
    """Take a file of containers through the reader as well."""
    path.write_bytes(data)
    store = _Memory(path.parent)
    report = store.get(look(path, store).device)
    if report is not None:
        for table in ptx_tables():
            tally(path.name, report, table.name)


def modules(chance: random.Random, seeds: Sequence[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield damaged modules without end, each with whether it is a file of containers."""
    while True:
        for number, seed in enumerate(seeds):
            if number % 5 < 4:
                yield mutated(chance, seed), False
                continue
            way = chance.choice(("", "lz4", "zstd"))
            inner = mutated(chance, seed) if chance.random() < 0.5 else seed
            packed = container(entry(PTX, 86, inner, way=way), sass(90), entry(PTX, 90, seed, way=way))
            yield mutated(chance, packed) if chance.random() < 0.7 else packed, True


def fuzz(count: int, seed: int, seeds: Sequence[bytes] = SEEDS, *, seconds: float = 1e9) -> Fuzzed:
    """Check damaged modules; a crash is kept with what shows it again."""
    found, chance, start = Fuzzed(), random.Random(seed), time.monotonic()  # noqa: S311 - damage, no secret
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.fatbin"
        for data, is_file in modules(chance, seeds):
            if found.modules >= count or time.monotonic() - start > seconds:
                return found
            began = time.process_time()
            try:
                check_file(path, data) if is_file else check_text(data)
            except Exception as error:  # noqa: BLE001 - any is a finding
                found.crashes.append(f"{type(error).__name__}: {error}: {data[:2000]!r}")
            found.modules += 1
            found.files += is_file
            found.slowest = max(found.slowest, time.process_time() - began)
    return found


def _peak(count: int, seed: int, seeds: Sequence[bytes]) -> int:
    """Return how many bytes checking damaged modules holds at most."""
    tracemalloc.start()
    try:
        fuzz(count, seed, seeds)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def main() -> int:
    """Run, print, and fail where a bound was missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--modules", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--seconds", type=float, default=110.0)
    options.add_argument("files", nargs="*", type=Path)
    asked = options.parse_args()
    seeds = (*SEEDS, *(path.read_bytes() for path in asked.files))
    found = fuzz(asked.modules, asked.seed, seeds, seconds=asked.seconds)
    found.largest = _peak(min(asked.modules, 200), asked.seed + 1, seeds)
    print(f"{found.modules:,} modules, {found.files:,} of them files; {len(found.crashes)} crashes")
    print(f"slowest {found.slowest:.3f} s of processor time; at most {found.largest / 1e6:.1f} MB held")
    for crash in found.crashes[:5]:
        print(crash)
    return int(bool(found.crashes) or found.slowest > SLOWEST or found.largest > LARGEST)


if __name__ == "__main__":
    sys.exit(main())
