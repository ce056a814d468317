"""Which of a program's device code a stack cannot use. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from scripts.model import StackKind
from scripts.preflight.coverage import StackFacts
from scripts.preflight.facts import Code
from scripts.preflight.kernels import KernelTally
from scripts.preflight.missing_kernels import FileKernels, kernel_reasons
from scripts.preflight.needs import Closure
from scripts.preflight.reasons import UNREACHED, Reason, Verdict, count_of


def unusable(closure: Closure, stack: StackFacts, kernels: Sequence[FileKernels] = ()) -> Iterator[Reason]:
    """Say which kernels cannot be used. Relocatable code is only for linking while running.

    It is hopeless where all code that the program surely reaches is machine code for NVIDIA, or has no kernel
    that the stack compiles.
    """
    loaded = [(v, c) for v in closure.visited for c in v.facts.code if not c.relocatable]
    modules = sum(c.modules for _, c in loaded)
    if stack.kind is StackKind.CONTROL or not modules:
        return
    reached = [(v, c) for v, c in loaded if v.how != "package" and c.modules]
    tallies = {file.path: file.tally for file in kernels}
    lost = bool(reached) and not any(_some_use(c, tallies.get(v.path)) for v, c in reached)
    for visited, code in loaded:
        unreached = visited.how == "package"
        judged = visited.path in tallies
        for reason in _code(visited.path.name, code, hopeless=lost and not unreached, judged=judged):
            yield replace(reason, weight=reason.weight - UNREACHED * unreached)
    for reason in kernel_reasons(kernels, stack, lost):
        below = any(f.how == "package" for f in kernels if f.path.name == reason.file)
        yield replace(reason, weight=reason.weight - UNREACHED * below)
    if stack.kind is not StackKind.REFERENCE and not stack.ptx and any(c.ptx for _, c in loaded):
        text = f"which kernels {stack.id} compiles is unknown: there is no PTX table for it"
        yield Reason(effect=Verdict.UNKNOWN, weight=37, text=text)


def _some_use(code: Code, tally: KernelTally | None) -> bool:
    """Whether a section has code that the stack can use, or may be able to."""
    if tally is not None and tally.total and not tally.linking and not code.unknown:
        return len(tally.missing) < tally.total
    return code.sass_only < code.modules


def _code(name: str, code: Code, *, hopeless: bool, judged: bool) -> Iterator[Reason]:
    """Say what is wrong with the device code of one file's section."""
    if code.sass_only:
        kernels = f" (at most {count_of(code.kernels_lost, 'kernel')})" if code.kernels_lost else ""
        kernels = f" (kernels not counted: {code.uncounted})" if code.uncounted else kernels
        text = (
            f"{code.sass_only} of {code.modules} modules in {name}{kernels} hold NVIDIA machine code alone "
            f"({_sms(code.sass)}) and no PTX that could be translated: NO_BINARY_FOR_GPU"
        )
        effect = Verdict.REFUSES if hopeless else Verdict.PARTIAL
        then = "ask the program's authors for a build with PTX or for Radeon"
        yield Reason(effect=effect, weight=87, text=text, file=name, count=code.sass_only, then=then)
    if code.stubs:
        text = (
            f"{name} has {count_of(code.stubs, 'module')} with PTX only for far older GPUs than their "
            "machine code: such fallbacks may be stubs with wrong results"
        )
        yield Reason(effect=Verdict.PARTIAL, weight=72, text=text, file=name, count=code.stubs)
    if code.special and not judged:
        targets = " ".join(sorted({f"sm_{sm}{letter}" for sm, letter, _, _ in code.ptx if letter}))
        text = (
            f"{name} has {count_of(code.special, 'module')} with PTX for {targets} alone, which may use what "
            "only these GPUs have; whether it can be translated is unknown"
        )
        yield Reason(effect=Verdict.UNKNOWN, weight=38, text=text, file=name, count=code.special)
    if code.unknown:
        text = (
            f"{code.unknown} of {code.modules} modules in {name} hold code that cannot be judged: {code.why}"
        )
        yield Reason(effect=Verdict.UNKNOWN, weight=41, text=text, file=name, count=code.unknown)
    if not code.complete:
        text = f"not all device code in {name} was read: {code.limit or 'it is damaged'}"
        yield Reason(effect=Verdict.UNKNOWN, weight=40, text=text, file=name)


def _sms(sass: Sequence[tuple[int, str, int]]) -> str:
    """Name the processors."""
    return " ".join(f"sm_{sm}{letter}" for sm, letter, _ in sass)
