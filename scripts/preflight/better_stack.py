"""In what one stack would serve a program better than another. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.preflight.coverage import Covered, StackFacts
from scripts.preflight.reasons import count_of


def better_stack(
    now: Sequence[Covered],
    then: Sequence[Covered],
    other: StackFacts,
    kernels_now: int | None = None,
    kernels_then: int | None = None,
) -> str:
    """Say what another stack has that this one lacks; empty where it is not better.

    A stack that lacks something else instead is not better, and neither is one whose calls were not read.
    What is unknown of its HIP never counts for it, but is said. The last two are kernels that would be
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
