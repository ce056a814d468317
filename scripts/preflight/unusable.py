"""Which of a program's device code and kernels a stack cannot use. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from scripts.model import StackKind
from scripts.osal.text import count_of, listed
from scripts.preflight.coverage import UNREACHED, Reason, StackFacts, Verdict
from scripts.preflight.kernels import (
    KernelFate,
    KernelReport,
    KernelStore,
    KernelTally,
    demangled,
    differences,
    fates,
)
from scripts.preflight.needs import Closure, Code

#: So many causes and characters of a name are shown in a sentence.
SHOWN: Final = 3
_WIDTH: Final = 60
_WHOLE: Final = {
    "text": "their PTX cannot be read",
    "module": "their modules fail to load as a whole",
    "ends": "loading their modules ends the process",
}
_LINKING: Final = "linking while the program runs, which fails here (error 801)"
#: What every answer rests on.
BASIS: Final = "by reading the release's source, not seen on a GPU"


class FileKernels(Struct, frozen=True, kw_only=True):
    """One file's kernels under a stack's release.

    Attributes:
        how: the way in which the file is reached.
        mentioned: the missing kernels that another file of the program mentions; they come first.
    """

    path: Path
    how: str
    tally: KernelTally
    mentioned: frozenset[str] = frozenset()


def kernels_of(closure: Closure, store: KernelStore | None, stack: StackFacts) -> tuple[FileKernels, ...]:
    """Return what a stack makes of the kernels of every file that was read and has PTX."""
    found = []
    for visited in closure.visited if store is not None and stack.ptx else ():
        device = visited.facts.device
        counted = store.tally(visited.path.name, device, stack.ptx) if store is not None and device else None
        if counted is not None:
            found.append(FileKernels(path=visited.path, how=visited.how, tally=counted))
    return tuple(found)


def kernel_reasons(files: Sequence[FileKernels], stack: StackFacts, hopeless: bool) -> Iterator[Reason]:  # noqa: FBT001 - one flag
    """Yield what is wrong with the kernels of each file."""
    meant = differences(stack.ptx) if files else {}
    for file in files:
        one, name = file.tally, file.path.name
        if one.missing:
            unreached = file.how == "package"
            effect = Verdict.REFUSES if hopeless and not unreached else Verdict.PARTIAL
            yield Reason(
                effect=effect,
                weight=86,
                text=missing_sentence(one, mentioned=len(file.mentioned)),
                file=name,
                count=len(one.missing),
            )
        for rule, number in one.differs.items():
            why, wrong = meant[rule]
            text = f"{count_of(number, 'kernel')} in {name} may compute something else without a word: {why}"
            effect, weight = (Verdict.PARTIAL, 71) if wrong else (Verdict.RUNS, 3)
            yield Reason(effect=effect, weight=weight, text=text, file=name, count=number)
        if one.linking:
            kernels = count_of(one.linking, "kernel")
            text = f"{kernels} in {name} are made for {_LINKING}"
            yield Reason(effect=Verdict.UNKNOWN, weight=39, text=text, file=name, count=one.linking)
        for why in one.unread:
            text = f"some PTX in {name} was not checked: {why}"
            yield Reason(effect=Verdict.UNKNOWN, weight=42, text=text, file=name)


def missing_sentence(one: KernelTally, *, mentioned: int = 0) -> str:
    """Say how many kernels a file would miss, one by name, and why.

    ``mentioned`` is how many of them, the first ones, other files of the program mention.
    """
    first, more = short_name(one.missing[0].name), len(one.missing) - 1
    names = f"`{first}`" + (f" and {more:,} more" if more else "")
    names += f"; other files mention {mentioned:,} of them" if mentioned else ""
    count = f"{len(one.missing):,} of {one.total:,} kernels in {one.file}"
    return f"{count} would be missing: {names}; {_causes(one)}"


def _causes(one: KernelTally) -> str:
    """Say what costs the kernels: instructions, or what costs the whole of their modules."""
    said = []
    states: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for fate in one.missing:
        states[fate.state][fate.cause] += 1
    for state, causes in sorted(states.items(), key=lambda pair: -pair[1].total()):
        order = sorted(causes, key=lambda cause: (-causes[cause], cause))
        text = listed([f"`{cause}`" if state == "dropped" else cause for cause in order], SHOWN)
        said.append(f"they use {text}" if state == "dropped" else f"{_WHOLE[state]} ({text})")
    return "; ".join(said)


def short_name(name: str) -> str:
    """Return a kernel's name for a sentence: without namespaces, parameters and template arguments."""
    short = re.sub(r"\0+", "<…>", _flat_name(name)) or name
    return short if len(short) <= _WIDTH else f"{short[: _WIDTH - 1]}…"


def plain_name(name: str) -> str:
    """Return the bare word that a function was given in its source."""
    return _flat_name(name).replace("\0", "") or name


def _flat_name(name: str) -> str:
    """Return a readable name without namespaces and parameters; template arguments are NULs."""
    text = re.sub(r"\([^()]*\)(?:::)?", "", demangled(name).replace("operator()", "operator"))
    while (flat := re.sub(r"<[^<>]*>", "\0", text)) != text:
        text = flat
    return re.split(r"[(\s]", text.removeprefix("void "), maxsplit=1)[0].rpartition("::")[2]


class FoundFate(Struct, frozen=True, kw_only=True):
    """What became of one kernel that a program asked for, and in which file it is."""

    file: str
    fate: KernelFate

    @property
    def sentence(self) -> str:
        """Say it."""
        name = short_name(self.fate.name)
        if not self.fate.missing:
            return f"`{name}` in {self.file} is compiled, {BASIS}"
        if self.fate.state == "dropped":
            place = f", line {self.fate.line} of its PTX" if self.fate.line else ""
            cause = (
                f"of `{self.fate.cause}` ({self.fate.why}{place})"
                if self.fate.why
                else f"of {self.fate.cause}"
            )
            return f"`{name}` in {self.file} was dropped because {cause}, {BASIS}"
        if self.fate.state == "linking":
            return f"`{name}` in {self.file} is made for {_LINKING}"
        return f"`{name}` in {self.file} is lost with its module ({self.fate.cause}), {BASIS}"


def kernel_fate(
    kernel: str, files: Sequence[tuple[str, KernelReport]], stack: StackFacts
) -> FoundFate | None:
    """Say what a stack's release makes of a kernel, by its mangled or written name. Pure.

    Args:
        kernel: as an error message has it; a written name may come without parameters.
        files: name and report of each file of the program.
        stack: its ``ptx`` names the table.

    Returns:
        A loss rather than a kernel of that name which is fine; ``None`` where no file has the kernel, or the
        stack has no table.
    """
    fine: FoundFate | None = None
    for file, report in files if stack.ptx else ():
        for fate in fates(report, stack.ptx):
            if fate.name == kernel or _same(kernel, fate.name):
                found = FoundFate(file=file, fate=fate)
                if fate.missing:
                    return found
                fine = fine or found
    return fine


def _same(asked: str, name: str) -> bool:
    """Whether a name as it was written in the source means a mangled one."""
    base = re.split(r"[<(]", asked, maxsplit=1)[0].rpartition("::")[2].strip()
    if asked.startswith("_Z") or base not in name:
        return False
    written = demangled(name).removeprefix("void ")
    return written == asked or written.startswith((f"{asked}(", f"{asked}<"))


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
        sms = " ".join(f"sm_{sm}{letter}" for sm, letter, _ in code.sass)
        text = (
            f"{code.sass_only} of {code.modules} modules in {name}{kernels} hold NVIDIA machine code alone "
            f"({sms}) and no PTX that could be translated: NO_BINARY_FOR_GPU"
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
