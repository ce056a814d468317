"""In what one stack would serve a program better than another. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.preflight.coverage import Covered, StackFacts


def gain(now: Sequence[Covered], then: Sequence[Covered], other: StackFacts) -> str:
    """Say what another stack has that this one lacks; empty where it is not better.

    A stack that lacks something else instead is not better, and neither is one whose calls nobody has
    read. What is unknown of its HIP never counts for it, but is said.
    """
    if other.api is None and any(item.need.functions for item in then):
        return ""
    functions = _lost(now) - _lost(then)
    before, after = _absent(now), _absent(then)
    found = sorted(name for name in before if other.backends.get(name))
    if functions < 0 or after - before or not (functions or found):
        return ""
    said = [f"{functions} more of what it asks for"] if functions else []
    said += [f"{', '.join(found)} of HIP"] if found else []
    unsure = any(item.unsure for item in then)
    return f"it has {' and '.join(said)}" + ("; whether its HIP is here is not known" if unsure else "")


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
