"""From what is covered and what is not to one word, with reasons; and which stack would serve better. Pure.

* ``refuses``: it cannot work: it will not start, or none of its device code can be used.
* ``partial``: something it asks for is not there; it may never use it.
* ``unknown``: static reading ends before an answer; also where nothing of CUDA was found.
* ``runs``: everything that was found is there, and nothing is hidden. It is a prediction, not a result.

A known failure outweighs what is unknown, and what is unknown outweighs what is good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from scripts.model import StackKind
from scripts.osal.text import count_of, listed
from scripts.preflight.coverage import UNREACHED, Covered, Reason, StackFacts, Verdict, cover, version_reasons
from scripts.preflight.examine import Examined
from scripts.preflight.kernels import KernelStore
from scripts.preflight.libraries import Part
from scripts.preflight.needs import Closure, Visited
from scripts.preflight.packaging import Recognised
from scripts.serialize import JsonRecord

if TYPE_CHECKING:
    from scripts.preflight.unusable import FileKernels

#: How many names a sentence lists.
SHOWN: Final = 5
#: The system that a file's format belongs to.
SYSTEMS: Final = {"pe": "windows", "elf": "linux"}
#: What to do about a program with NVIDIA's runtime inside.
BUILD_SHARED: Final = "build it with `nvcc -cudart shared`"
_ORDER: Final = {Verdict.REFUSES: 0, Verdict.PARTIAL: 1, Verdict.UNKNOWN: 2, Verdict.RUNS: 3}


class Judged(Struct, frozen=True, kw_only=True):
    """The word and why."""

    verdict: Verdict
    reasons: tuple[Reason, ...]


def judge(
    closure: Closure,
    covered: Sequence[Covered],
    kinds: Sequence[Recognised],
    stack: StackFacts,
    kernels: Sequence[FileKernels] = (),
) -> Judged:
    """Judge a program against a stack; ``kernels`` is what its release makes of those in the files."""
    found = [
        *_machine(closure.program, stack),
        *_kinds(kinds),
        *(reason for item in covered for reason in _lighter(_library(item, stack), item)),
        *_built_for(closure, stack, kernels),
        *_static_runtime(closure, stack),
        *_limits(closure),
    ]
    program = closure.program.facts
    if not covered and program.format and not any(r.effect is Verdict.REFUSES for r in found):
        text = "none of the files that were read names a CUDA library"
        found.append(Reason(effect=Verdict.UNKNOWN, weight=5, text=text, file=closure.program.path.name))
    said_once = {(reason.effect, reason.text): reason for reason in found}.values()
    reasons = sorted(said_once, key=lambda r: (_ORDER[r.effect], -r.weight, -r.count, r.text))
    verdict = next((r.effect for r in reasons if r.effect is not Verdict.RUNS), Verdict.RUNS)
    return Judged(verdict=verdict, reasons=tuple(reasons))


def _built_for(closure: Closure, stack: StackFacts, kernels: Sequence[FileKernels]) -> Iterator[Reason]:
    """Yield what of the program's device code cannot be used, and for which newer CUDA it was built."""
    code = any(visited.facts.code for visited in closure.visited)
    if not code and not closure.needs:
        return

    yield from version_reasons(closure, stack.id, stack.reported)
    if code:
        from scripts.preflight.unusable import unusable  # noqa: PLC0415 - as above

        yield from unusable(closure, stack, kernels)


def _machine(program: Visited, stack: StackFacts) -> Iterator[Reason]:
    """Hold the program's own form against what the stack serves."""
    facts, name = program.facts, program.path.name
    os = SYSTEMS.get(facts.format, "")
    if not os:
        why = facts.faults[0] if facts.faults else "it is device code" if facts.code else "it holds nothing"
        text = (
            f"{name} is no program" + ("" if facts.code else ", and nothing can be read from it") + f": {why}"
        )
        yield Reason(effect=Verdict.UNKNOWN, weight=90, text=text, file=name, then=facts.then)
    elif stack.os and os != stack.os:
        text = f"{name} is a program for {os.title()}, and {stack.id} is for {stack.os.title()}"
        then = f"name a stack for {os.title()}: `invoke stacks` lists them"
        yield Reason(effect=Verdict.REFUSES, weight=100, text=text, file=name, then=then)
    elif (facts.machine, os) == ("x86", "windows"):
        yield _thirty_two_bits(name, stack)
    elif facts.machine and facts.machine not in stack.machines:
        text = f"{name} is made for {facts.machine}, which {stack.id} does not serve"
        then = f"look for a build of it for {' or '.join(sorted(stack.machines))}"
        yield Reason(effect=Verdict.REFUSES, weight=100, text=text, file=name, then=then)
    if "force-integrity" in facts.flags:
        text = f"{name} demands signed libraries; Windows will not load the stack's"
        yield Reason(effect=Verdict.PARTIAL, weight=60, text=text, file=name)
    if "admin" in facts.flags or "ui-access" in facts.flags:
        text = f"{name} asks for administrator rights, so it starts only from an elevated prompt (error 740)"
        yield Reason(effect=Verdict.UNKNOWN, weight=15, text=text, file=name)


def _thirty_two_bits(name: str, stack: StackFacts) -> Reason:
    if "x86" in stack.machines:
        text = (
            f"{name} is a 32-bit program: the stack's half for those has the driver and NVAPI alone, "
            "which is what PhysX needs"
        )
        return Reason(effect=Verdict.PARTIAL, weight=20, text=text, file=name)
    text, then = no_half(name, stack.id)
    return Reason(effect=Verdict.REFUSES, weight=100, text=text, file=name, then=then)


def no_half(name: str, stack: str) -> tuple[str, str]:
    """Say that a stack serves no 32-bit programs, and what serves them."""
    text = f"{name} is a 32-bit program, and {stack} has no half for those"
    return text, "use its 64-bit version, or a stack of ZLUDA v7: `invoke stacks` lists them"


def _kinds(kinds: Sequence[Recognised]) -> Iterator[Reason]:
    effects = {"unknown": (Verdict.UNKNOWN, 50), "refuses": (Verdict.REFUSES, 95), "note": (Verdict.RUNS, 0)}
    for found in kinds:
        effect, weight = effects[found.kind.effect]
        then = "run it without this workspace" if effect is Verdict.REFUSES else ""
        yield Reason(effect=effect, weight=weight, text=found.sentence, then=then)


def _library(item: Covered, stack: StackFacts) -> Iterator[Reason]:
    if not item.need.spelled:
        yield from _calls(item, stack)
    yield from _backends(item, stack)
    need = item.need
    if item.provided_by is None:
        yield from _unprovided(item, stack)
    elif not need.calls_known and need.named.library.part is Part.PLAIN:
        lost = (*item.aborts, *item.missing) if need.spelled else ()
        text = f"{need.asker.name} loads {need.file} by name while it runs; {_spelled(item)}"
        yield _reason(Verdict.UNKNOWN, 31 if lost else 30, text, need.asker.name, lost)


def _spelled(item: Covered) -> str:
    """Say what the names in a file's data tell of calls that cannot be seen: never enough for a verdict."""
    if not item.need.spelled or not item.need.functions:
        return "what it calls is hidden"
    text = f"its data has the names of {count_of(len(item.need.functions), 'function')}"
    if item.missing:
        text += (
            f", of which {len(item.missing)} would always get NOT_SUPPORTED ({listed(item.missing, SHOWN)})"
        )
    if item.aborts:
        text += f", and {len(item.aborts)} would end the process ({listed(item.aborts, SHOWN)})"
    return f"{text}; whether it calls them, or others, is hidden"


def _calls(item: Covered, stack: StackFacts) -> Iterator[Reason]:
    """Say which functions are not what the program expects."""
    need, asker = item.need, item.need.asker.name
    if item.not_exported and item.provided_by:
        yield _not_exported(item)
    if item.aborts:
        text = f"{asker} calls {listed(item.aborts, SHOWN)}, which end the process ({item.provided_by})"
        yield _reason(Verdict.PARTIAL, 70, text, asker, item.aborts)
    if item.missing:
        weight = 60 if need.how == "import" else 40
        yield _reason(Verdict.PARTIAL, weight, _missing_sentence(item), asker, item.missing)
    if item.unknown:
        why = "its calls were not read" if stack.api is None else "they are not in its call table"
        count = count_of(len(item.unknown), "function")
        text = f"{count} of {need.named.title} unknown for {stack.id}: {why}"
        yield _reason(Verdict.UNKNOWN, 20, text, asker, item.unknown)
    if need.unknown:
        text = f"what the CUDA runtime asks of the driver for {listed(need.unknown, SHOWN)} is unknown"
        yield _reason(Verdict.UNKNOWN, 20, text, asker, need.unknown)


def _backends(item: Covered, stack: StackFacts) -> Iterator[Reason]:
    """Say what of HIP is missing behind the stack's file."""
    title, asker = item.need.named.title, item.need.asker.name
    if item.absent:
        driver = item.need.named.library.id == "nvcuda"
        hip = stack.hip or "HIP"
        text = f"{title}: {listed(item.absent, SHOWN)}, which {item.provided_by} needs, is not in {hip}"
        refuses = Verdict.REFUSES if driver else Verdict.PARTIAL
        then = "install what is missing: `invoke doctor` says how"
        yield replace(_reason(refuses, 80 if driver else 55, text, asker), then=then)
    if item.kernelless:
        text = f"{title}: {listed(item.kernelless, SHOWN)} has no kernels for {stack.gfx}"
        yield _reason(Verdict.PARTIAL, 75, text, asker)
    if item.unsure:
        text = f"whether {listed(item.unsure, SHOWN)} is there is unknown here; {title} needs it"
        yield _reason(Verdict.UNKNOWN, 10, text, asker)


def _not_exported(item: Covered) -> Reason:
    """A name that is not there stops a Windows file that imports it before its first line."""
    need = item.need
    what = f"{listed(item.not_exported, SHOWN)} of {need.named.title} is not in {item.provided_by}"
    if need.at_start and need.how == "import" and need.file.lower().endswith(".dll"):
        text = f"{need.asker.name} does not load (0xC0000139): {what}"
        return _reason(Verdict.REFUSES, 90, text, need.asker.name, item.not_exported)
    text = f"{need.asker.name} asks for what is not there: {what}"
    return _reason(Verdict.PARTIAL, 65, text, need.asker.name, item.not_exported)


def _missing_sentence(item: Covered) -> str:
    """Say what is not supported, and whether that is all of a library."""
    need, count = item.need, len(item.missing)
    via = f", by way of {need.chain[-1]}," if need.chain[-1] != need.asker.name else ""
    total = f"{count_of(len(need.functions), 'function')} of {need.named.title}"
    if count == len(need.functions):
        what = f"{total} and would always get NOT_SUPPORTED"
    else:
        what = f"{total}, and for {count} of them would always get NOT_SUPPORTED"
    return f"{need.asker.name}{via} asks for {what}: {listed(item.missing, SHOWN)}"


def _unprovided(item: Covered, stack: StackFacts) -> Iterator[Reason]:
    """Say what becomes of a library that the stack has no file for."""
    need, library = item.need, item.need.named.library
    asker, title = need.asker.name, need.named.title
    if library.part in {Part.HARMLESS, Part.RUNTIME} or stack.kind is StackKind.CONTROL:
        if need.at_start and need.own is None and library.part is Part.RUNTIME:
            text = f"{need.file} is not beside {asker}; it must come from an installed CUDA toolkit"
            yield _reason(Verdict.UNKNOWN, 35, text, asker)
        return
    if library.part is Part.COMPILER and stack.kind is StackKind.REFERENCE:
        return  # the program's own NVRTC is asked for PTX (native/cpu/nvrtc.c)
    if library.part is Part.COMPILER:
        effect = Verdict.UNKNOWN if stack.launcher else Verdict.PARTIAL
        more = "which cannot be seen" if stack.launcher else f"{stack.id} has no launcher to redirect it"
        text = f"{asker} compiles source by {title} while it runs; {more}"
        yield _reason(effect, 30 if stack.launcher else 60, text, asker)
        return
    if library.part is Part.CLIENT and need.own is not None:
        text = f"{title} has no provider: {library.gap}; the program's own {need.own.name} runs on the driver"
        yield _reason(Verdict.PARTIAL, 45, text, asker)
        return
    gap = library.gap or f"{stack.id} has no file for it"
    starts = need.at_start and need.own is None
    text = f"{title} has no provider: {gap}" + (
        f"; {asker} does not start without {need.file}" if starts else ""
    )
    yield _reason(Verdict.REFUSES if starts else Verdict.PARTIAL, 85 if starts else 50, text, asker)


def static_runtime_refusal(name: str) -> str:
    """Say why a program with NVIDIA's runtime inside does not run on the reference stack."""
    return f"{name} has NVIDIA's CUDA runtime linked in, which runs on NVIDIA's driver only"


def _static_runtime(closure: Closure, stack: StackFacts) -> Iterator[Reason]:
    """The runtime inside a file hides which driver calls are used; our own driver does not serve it."""
    for visited in closure.visited:
        if not visited.facts.static_runtime:
            continue
        name = visited.path.name
        if stack.kind is StackKind.REFERENCE:
            text = static_runtime_refusal(name)
            program = visited is closure.program
            effect = Verdict.REFUSES if program else Verdict.PARTIAL
            then = BUILD_SHARED if program else ""
            yield Reason(effect=effect, weight=96 if program else 65, text=text, file=name, then=then)
            continue
        text = f"{name} has the CUDA runtime linked in: which driver calls it makes cannot be seen"
        yield Reason(effect=Verdict.UNKNOWN, weight=32, text=text, file=name)


def _limits(closure: Closure) -> Iterator[Reason]:
    """Say where the reading ended early."""
    if not closure.complete:
        text = f"the program has more files than were read ({len(closure.visited)})"
        yield Reason(effect=Verdict.UNKNOWN, weight=45, text=text)
    for visited in closure.visited[1:]:
        if visited.facts.format and visited.facts.faults:
            name = visited.path.name
            text = f"{name} was not read in full: {visited.facts.faults[0]}"
            yield Reason(effect=Verdict.UNKNOWN, weight=12, text=text, file=name)


def _lighter(reasons: Iterator[Reason], item: Covered) -> Iterator[Reason]:
    """What a file asks for that nothing names weighs less."""
    for reason in reasons:
        yield replace(reason, weight=reason.weight - UNREACHED * (item.need.how == "package"))


def _reason(effect: Verdict, weight: int, text: str, file: str, functions: tuple[str, ...] = ()) -> Reason:
    """Make a reason that counts its functions."""
    return Reason(
        effect=effect, weight=weight, text=text, file=file, functions=functions, count=len(functions)
    )


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
    kernels: tuple[FileKernels, ...] = ()
    if facts.ptx and any(visited.facts.device for visited in examined.closure.visited):
        from scripts.preflight.unusable import kernels_of  # noqa: PLC0415 - as above

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
