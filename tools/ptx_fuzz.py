"""Random PTX programs with branches, loops, calls, shared memory and shuffles, and what each thread computes.

``python -m tools.ptx_fuzz --seed 1 --count 1000`` compares the engine with the plain reference.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import msgspec
import numpy as np

from tools.ptx_cases import Form, bits_of, edges, every_form

#: How many registers of each size a program has; predicates are ``%q``.
FILES: Final = {16: ("%h", 5), 32: ("%w", 8), 64: ("%l", 5), 1: ("%q", 4)}
SHARED_WORDS: Final = 96
TARGET: Final = 90
MASK: Final = 0xFFFFFFFF
Values = dict[str, list[int | None]]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One statement: an instruction, or a block with statements inside."""

    kind: str  # op, if, loop, shuffle, ballot, exchange, local, call, select-exit
    form: Form | None = None
    names: tuple[str, ...] = ()
    number: int = 0
    inner: tuple[Step, ...] = ()
    other: tuple[Step, ...] = ()


class Program(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    threads: int
    steps: tuple[Step, ...]
    inputs: dict[str, list[int]]


def registers() -> Iterator[tuple[str, int]]:
    for bits, (prefix, count) in FILES.items():
        yield from ((f"{prefix}{k}", bits) for k in range(count))


@cache
def usable() -> list[Form]:
    """Forms of one instruction with an exact result in 16, 32 or 64 bits, for the target of ``text_of``."""
    return [
        form
        for form in every_form()
        if not form.error
        and form.least <= TARGET
        and ".reg" not in form.text
        and ";" not in form.text
        and all(bits_of(kind) in (16, 32, 64) for kind in (form.out, *form.sources))
    ]


def guardable(form: Form) -> bool:
    """Whether ptxas respects a guard: CUDA 13's changes the destination of testp, and of set with a float, all the same."""
    return not form.text.startswith("testp") and not (
        form.text.startswith("set.") and form.out.startswith("f")
    )


class Writer:
    """Makes one program from a seed."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def register(self, kind: str) -> str:
        bits = 1 if kind == "p" else bits_of(kind)
        prefix, count = FILES[bits]
        return f"{prefix}{self.rng.randrange(count)}"

    def step(self, depth: int, *, together: bool) -> Step:
        roll = self.rng.random()
        if depth < 3 and roll < 0.10:
            return Step(
                kind="if", names=(self.register("p"),), number=self.rng.randrange(3),
                inner=self.block(depth + 1), other=self.block(depth + 1),
            )  # fmt: skip
        if depth < 2 and roll < 0.14:
            return Step(
                kind="loop", names=(self.register("u32"),), number=len(self.loops), inner=self.loop(depth)
            )
        if roll < 0.18:
            return Step(
                kind="local", names=(self.register("u32"), self.register("u32")), number=self.rng.randrange(8)
            )
        if roll < 0.21:
            return Step(kind="call", names=(self.register("u32"), self.register("u32"), self.register("u32")))
        if together and roll < 0.26:
            mode = self.rng.randrange(4)
            return Step(
                kind="shuffle",
                names=(self.register("u32"), self.register("u32")),
                number=mode << 8 | self.rng.randrange(32),
            )
        if together and roll < 0.29:
            return Step(kind="ballot", names=(self.register("u32"), self.register("p")))
        if together and roll < 0.33:
            return Step(
                kind="exchange",
                names=(self.register("u32"), self.register("u32")),
                number=self.rng.randrange(1, 8),
            )
        form = self.rng.choice(usable())
        names = (self.register(form.out), *self.sources(form))
        guard = self.rng.randrange(0 if guardable(form) else 2, 12)
        return Step(kind="op", form=form, names=names, number=guard)

    def sources(self, form: Form) -> list[str]:
        """Choose source registers; ptxas takes the minimum of one register with itself for a copy, even of a NaN."""
        names = [self.register(kind) for kind in form.sources]
        while form.text.startswith(("min", "max")) and len(set(names)) < len(names):
            names = [self.register(kind) for kind in form.sources]
        return names

    loops: list[int]

    def loop(self, depth: int) -> tuple[Step, ...]:
        self.loops.append(depth)
        return self.block(depth + 1)

    def block(self, depth: int) -> tuple[Step, ...]:
        return tuple(self.step(depth, together=False) for _ in range(self.rng.randrange(1, 5)))

    def program(self, name: str) -> Program:
        self.loops = []
        threads = (
            self.rng.choice((1, 4, 7, 8, 33, 40, 64, 70, 96))
            if self.rng.random() < 0.2
            else self.rng.randrange(2, 9)
        )
        steps = tuple(self.step(0, together=True) for _ in range(self.rng.randrange(6, 20)))
        inputs = {}
        for register, bits in registers():
            kind = "p" if bits == 1 else self.rng.choice((f"u{bits}", f"f{bits}"))
            pool = edges(kind)
            inputs[register] = [
                self.rng.choice(pool) if self.rng.random() < 0.6 else self.rng.getrandbits(bits)
                for _ in range(threads)
            ]
        return Program(name=name, threads=threads, steps=steps, inputs=inputs)


# ---- the text ----


class Text:
    """Writes a program's instructions."""

    def __init__(self, program: Program) -> None:
        self.lines: list[str] = []
        self.labels = 0
        self.program = program

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            getattr(self, "write_" + step.kind)(step)

    def write_op(self, step: Step) -> None:
        assert step.form
        names = dict(zip("dabce", step.names, strict=False))
        guard = {0: "@%q0 ", 1: "@!%q1 "}.get(step.number, "")
        self.lines.append(guard + step.form.text.format(**names) + ";")

    def write_if(self, step: Step) -> None:
        yes, no, end = self.label(), self.label(), self.label()
        order = [(no, step.other, yes, step.inner)] if step.number else [(yes, step.inner, no, step.other)]
        first, first_steps, second, second_steps = order[0]
        self.lines.append(f"@{'!' if not step.number else ''}{step.names[0]} bra {second};")
        self.lines.append(f"{first}:")
        self.steps(first_steps)
        self.lines += [f"bra{'.uni' if False else ''} {end};", f"{second}:"]
        self.steps(second_steps)
        self.lines.append(f"{end}:")

    def write_loop(self, step: Step) -> None:
        again = self.label()
        self.lines.append(f"and.b32 %n{step.number}, {step.names[0]}, 3; {again}:")
        self.steps(step.inner)
        self.lines.append(
            f"sub.u32 %n{step.number}, %n{step.number}, 1; setp.ge.s32 %again, %n{step.number}, 0; @%again bra {again};"
        )

    def write_local(self, step: Step) -> None:
        to, source = step.names
        self.lines.append(
            f"st.local.u32 [box+{4 * step.number}], {source}; ld.local.u32 {to}, [box+{4 * (7 - step.number)}];"
        )

    def write_call(self, step: Step) -> None:
        to, a, b = step.names
        self.lines.append(
            f"{{ .param .b32 x; .param .b32 y; .param .b32 z; st.param.b32 [x], {a}; st.param.b32 [y], {b}; call (z), mix, (x, y); ld.param.b32 {to}, [z]; }}"
        )

    def write_shuffle(self, step: Step) -> None:
        mode = ("up", "down", "bfly", "idx")[step.number >> 8]
        clamp = 0 if mode == "up" else 31
        self.lines.append(
            f"shfl.sync.{mode}.b32 {step.names[0]}, {step.names[1]}, {step.number & 31}, {clamp}, -1;"
        )

    def write_ballot(self, step: Step) -> None:
        self.lines.append(f"vote.sync.ballot.b32 {step.names[0]}, {step.names[1]}, -1;")

    def write_exchange(self, step: Step) -> None:
        to, source = step.names
        self.lines.append(
            f"bar.sync 0; st.shared.u32 [%own], {source}; bar.sync 0; add.u32 %tmp, %index, {step.number}; rem.u32 %tmp, %tmp, %size;"
            f" shl.b32 %tmp, %tmp, 2; add.u32 %tmp, %tmp, %base; ld.shared.u32 {to}, [%tmp];"
        )


MIX: Final = """.func (.param .b32 z) mix(.param .b32 x, .param .b32 y)
{ .reg .b32 %a, %b; .reg .pred %p; ld.param.b32 %a, [x]; ld.param.b32 %b, [y]; setp.lt.u32 %p, %a, %b; @%p bra LESS;
xor.b32 %a, %a, %b; st.param.b32 [z], %a; ret; LESS: mad.lo.u32 %a, %a, 3, %b; st.param.b32 [z], %a; ret; }
"""


def text_of(programs: Sequence[Program]) -> str:
    """Return a module with a kernel for each program."""
    return f".version 8.8\n.target sm_{TARGET}\n.address_size 64\n" + MIX + "".join(map(kernel_of, programs))


def kernel_of(program: Program) -> str:
    text = Text(program)
    text.steps(program.steps)
    names = list(registers())
    slots = 8 * len(names)
    head = [
        f".visible .entry {program.name}(.param .u64 in, .param .u64 out) {{",
        ".reg .pred %q<4>, %again; .reg .b16 %h<5>; .reg .b32 %w<8>, %n<40>, %index, %size, %own, %base, %tmp; .reg .b64 %l<5>, %in, %out, %at;",
        f".local .align 8 .b8 box[32]; .shared .align 4 .b8 cells[{4 * SHARED_WORDS}];",
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %index, %tid.x; mov.u32 %size, %ntid.x; mov.u32 %base, cells;",
        f"mad.lo.u32 %own, %index, 4, %base; mul.wide.u32 %at, %index, {slots}; add.u64 %in, %in, %at; add.u64 %out, %out, %at;",
        *(f"st.local.u32 [box+{4 * k}], {k};" for k in range(8)),
    ]
    tail = []
    for k, (name, bits) in enumerate(names):
        head.append(
            f"ld.global.u32 %tmp, [%in+{8 * k}]; setp.ne.u32 {name}, %tmp, 0;"
            if bits == 1
            else f"ld.global.b{bits} {name}, [%in+{8 * k}];"
        )
        tail.append(
            f"selp.u32 %tmp, 1, 0, {name}; st.global.u32 [%out+{8 * k}], %tmp;"
            if bits == 1
            else f"st.global.b{bits} [%out+{8 * k}], {name};"
        )
    return "\n".join([*head, *text.lines, *tail, "ret;", "}", ""])


# ---- what it computes ----


class UnknownBranchError(Exception):
    """The way a thread takes depends on a value that the manual leaves open."""


class Run:
    """Executes a program, a statement for all its threads at a time."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.values: Values = {name: list(values) for name, values in program.inputs.items()}
        self.boxes: list[list[int | None]] = [list(range(8)) for _ in range(program.threads)]

    def run(self) -> Values:
        self.steps(self.program.steps, list(range(self.program.threads)))
        return self.values

    def steps(self, steps: Sequence[Step], threads: list[int]) -> None:
        for step in steps:
            if threads:
                getattr(self, "run_" + step.kind)(step, threads)

    def truth(self, name: str, thread: int) -> bool:
        value = self.values[name][thread]
        if value is None:
            raise UnknownBranchError
        return bool(value)

    def run_op(self, step: Step, threads: list[int]) -> None:
        assert step.form
        to, *sources = step.names
        for t in threads:
            if (step.number == 0 and not self.truth("%q0", t)) or (step.number == 1 and self.truth("%q1", t)):
                continue
            inputs = [self.values[name][t] for name in sources]
            self.values[to][t] = None if None in inputs else step.form.compute(*inputs)

    def run_if(self, step: Step, threads: list[int]) -> None:
        yes = [t for t in threads if self.truth(step.names[0], t)]
        no = [t for t in threads if t not in yes]
        self.steps(step.inner, yes)
        self.steps(step.other, no)

    def run_loop(self, step: Step, threads: list[int]) -> None:
        counts = {}
        for t in threads:
            value = self.values[step.names[0]][t]
            if value is None:
                raise UnknownBranchError
            counts[t] = value & 3
        while threads:
            self.steps(step.inner, threads)
            for t in threads:
                counts[t] -= 1
            threads = [t for t in threads if counts[t] >= 0]

    def run_local(self, step: Step, threads: list[int]) -> None:
        to, source = step.names
        for t in threads:
            self.boxes[t][step.number] = self.values[source][t]
            self.values[to][t] = self.boxes[t][7 - step.number]

    def run_call(self, step: Step, threads: list[int]) -> None:
        to, x, y = step.names
        for t in threads:
            a, b = self.values[x][t], self.values[y][t]
            self.values[to][t] = None if a is None or b is None else (a * 3 + b & MASK if a < b else a ^ b)

    def run_shuffle(self, step: Step, threads: list[int]) -> None:
        to, source = step.names
        mode, by, old = step.number >> 8, step.number & 31, list(self.values[source])
        for t in threads:
            lane, warp = t % 32, t // 32 * 32
            other = (lane - by, lane + by, lane ^ by, by)[mode]
            inside = 0 <= other < 32
            if inside and warp + other >= self.program.threads:
                self.values[to][t] = None  # that lane does not exist
            else:
                self.values[to][t] = old[warp + other] if inside else old[t]

    def run_ballot(self, step: Step, threads: list[int]) -> None:
        to, p = step.names
        bits = {t: self.truth(p, t) for t in threads}
        for t in threads:
            warp = t // 32 * 32
            self.values[to][t] = sum(
                1 << u - warp for u in range(warp, min(warp + 32, self.program.threads)) if bits[u]
            )

    def run_exchange(self, step: Step, threads: list[int]) -> None:
        to, source = step.names
        old = list(self.values[source])
        for t in threads:
            self.values[to][t] = old[(t + step.number) % self.program.threads]


# ---- comparing ----


def batch(seed: int, count: int) -> list[Program]:
    return [Writer(random.Random(f"{seed} {k}")).program(f"k{k}") for k in range(count)]


def memory_of(program: Program) -> np.ndarray:
    names = [name for name, _ in registers()]
    return np.array([[program.inputs[name][t] for name in names] for t in range(program.threads)], np.uint64)


def difference(program: Program, got: np.ndarray, want: Values) -> str:
    for k, (name, bits) in enumerate(registers()):
        for t in range(program.threads):
            expected = want[name][t]
            if expected is not None and int(got[t, k]) & ((1 << max(bits, 8)) - 1) != expected:
                return f"{name} of thread {t}: {int(got[t, k]):#x} instead of {expected:#x}"
    return ""


def compare(seed: int, count: int) -> tuple[int, list[str]]:
    """Run a batch on the engine; return how many were compared, and what differed."""
    from tests.native_ptx import Module, PtxError

    programs = batch(seed, count)
    compared, differences = 0, []
    with Module(text_of(programs)) as module:
        for program in programs:
            try:
                want = Run(program).run()
            except UnknownBranchError:
                continue
            data = memory_of(program)
            out = np.zeros_like(data)
            try:
                module.launch(program.name, [data, out], block=(program.threads, 1, 1))
            except PtxError as error:
                differences.append(f"seed {seed} {program.name}: {error}")
                continue
            compared += 1
            found = difference(program, out, want)
            if found:
                differences.append(f"seed {seed} {program.name}: {found}")
    return compared, differences


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    chosen = parser.parse_args()
    begin, total, seed = time.monotonic(), 0, chosen.seed
    differences: list[str] = []
    while total < chosen.count:
        compared, more = compare(seed, 50)
        total += compared
        differences += more
        seed += 1
        if len(differences) > 20:
            break
    print("\n".join(differences[:20]))
    print(f"{total} programs compared, {len(differences)} differ, {time.monotonic() - begin:.0f} s")
    return bool(differences)


if __name__ == "__main__":
    sys.exit(main())
