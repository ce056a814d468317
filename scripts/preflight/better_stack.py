"""A program held against several stacks: in what one would serve it better than another."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from scripts.preflight.coverage import Covered, StackFacts, cover
from scripts.preflight.examine import Examined
from scripts.preflight.kernels import KernelStore
from scripts.preflight.missing_kernels import FileKernels, kernels_of
from scripts.preflight.reasons import Verdict, count_of
from scripts.preflight.verdict import Judged, judge
from scripts.serialize import JsonRecord


class Better(JsonRecord, frozen=True, kw_only=True):
    """Another pinned stack for which less is missing."""

    stack: str
    verdict: Verdict
    why: str


class ComparedStack(Struct, frozen=True, kw_only=True):
    """One stack beside others; ``None`` where its release was not read.

    ``fits`` is false where it is not for this GPU; ``assumed``: its PTX table is the nearest release's.
    """

    stack: str
    verdict: str
    fits: bool
    kernels: int | None
    kernels_missing: int | None
    functions_missing: int | None
    assumed: bool


class HeldAgainst(Struct, frozen=True, kw_only=True):
    """A program held against one stack."""

    stack: StackFacts
    covered: tuple[Covered, ...]
    judged: Judged
    kernels: tuple[FileKernels, ...]
    fits: bool = True


def held_against(
    examined: Examined, facts: StackFacts, store: KernelStore, *, fits: bool = True, chosen: bool = False
) -> HeldAgainst:
    """Hold what was read against a stack.

    ``fits`` says whether that is for this GPU; of a ``chosen`` one it is found out which missing kernels
    the program mentions.
    """
    covered = cover(examined.closure.needs, facts)
    kernels = kernels_of(examined.closure, store, facts)
    if chosen and any(file.tally.missing for file in kernels):
        from scripts.preflight.kernel_advice import with_mentioned  # noqa: PLC0415 - most programs miss none

        kernels = with_mentioned(kernels, examined.closure, store)
    judged = judge(examined.closure, covered, examined.kinds, facts, kernels)
    return HeldAgainst(stack=facts, covered=covered, judged=judged, kernels=kernels, fits=fits)


def better_stacks(now: HeldAgainst, others: Sequence[HeldAgainst]) -> tuple[Better, ...]:
    """Keep the stacks for this GPU that have more of what the program needs."""
    lost = _missing(now)
    return tuple(
        Better(stack=other.stack.id, verdict=other.judged.verdict, why=why)
        for other in others
        if other.fits
        and (why := better_stack(now.covered, other.covered, other.stack, lost, _missing(other)))
    )


def _missing(one: HeldAgainst) -> int | None:
    """Count the kernels that a program would miss; ``None`` where its release was not read."""
    return sum(len(file.tally.missing) for file in one.kernels) if one.stack.ptx else None


def compared(one: HeldAgainst) -> ComparedStack:
    """Put a stack in one line."""
    lost = sum(
        len(c.missing) + len(c.aborts) + len(c.not_exported) for c in one.covered if not c.need.spelled
    )
    return ComparedStack(
        stack=one.stack.id,
        verdict=one.judged.verdict.value,
        fits=one.fits,
        kernels=sum(file.tally.total for file in one.kernels) if one.stack.ptx else None,
        kernels_missing=_missing(one),
        functions_missing=lost if one.stack.api is not None else None,
        assumed=one.stack.ptx_assumed,
    )


def better_stack(
    now: Sequence[Covered],
    then: Sequence[Covered],
    other: StackFacts,
    kernels_now: int | None = None,
    kernels_then: int | None = None,
) -> str:
    """Say what another stack has that this one lacks; empty where it is not better.

    A stack that lacks something else instead is not better, and neither is one whose calls were not read.
    What is unknown of its HIP never counts for it, but is shown. The last two are kernels that would be
    missing, ``None`` where that is unknown.
    """
    if other.api is None and any(item.need.functions for item in then):
        return ""
    functions = _lost(now) - _lost(then)
    kernels = kernels_now - kernels_then if kernels_now is not None and kernels_then is not None else 0
    before, after = _absent(now), _absent(then)
    found = sorted(name for name in before if other.backends.get(name))
    if min(functions, kernels) < 0 or after - before or not (functions or kernels or found):
        return ""
    parts = [count_of(kernels, "more kernel")] if kernels else []
    parts += [f"{count_of(functions, 'more function')} of what it asks for"] if functions else []
    parts += [f"{', '.join(found)} of HIP"] if found else []
    unsure = any(item.unsure for item in then)
    return f"it has {' and '.join(parts)}" + ("; whether its HIP is here is not known" if unsure else "")


def _lost(covered: Sequence[Covered]) -> int:
    """Count the functions that do not work, and those of libraries that nothing answers for."""
    lost = 0
    for item in covered:
        spelled = item.need.spelled  # names in data alone are too little to choose a stack by
        lost += 0 if spelled else len(item.missing) + len(item.aborts) + len(item.not_exported)
        if item.provided_by is None and item.need.named.library.api:
            lost += 1 if spelled else max(1, len(item.need.functions))
    return lost


def _absent(covered: Sequence[Covered]) -> set[str]:
    """Name what of HIP is known not to be there."""
    return {name for item in covered for name in (*item.absent, *item.kernelless)}
