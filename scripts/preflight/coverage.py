"""What a stack has of what a program needs, library by library and version by version, with the words. Pure.

A driver serves every runtime of its own major CUDA version and of older ones; a runtime of a newer major
version gets error 35 (cudaErrorInsufficientDriver) from every call. Capabilities count only where a program
compares them itself: a translation layer takes PTX for any processor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from scripts.model import StackKind
from scripts.osal.text import count_of
from scripts.preflight.libraries import ApiTable, CallSupport, Part
from scripts.preflight.needs import RANKS, Closure, Code, Need
from scripts.serialize import JsonRecord

#: How much lighter a reason is whose file is shipped, but named by nothing.
UNREACHED: Final = 30


class Verdict(StrEnum):
    """The four words, best first."""

    RUNS = "runs"
    PARTIAL = "partial"
    UNKNOWN = "unknown"
    REFUSES = "refuses"


class Reason(JsonRecord, frozen=True, kw_only=True):
    """One reason: what it leads to, how heavy it is, the file and the functions it is about.

    ``then`` says what to do about it; empty where nothing can be done here.
    """

    effect: Verdict
    weight: int
    text: str
    file: str = ""
    functions: tuple[str, ...] = ()
    count: int = 0
    then: str = ""

    JSON = "effect text file? functions count then?"


class GroupedReason(Struct, frozen=True, kw_only=True):
    """One reason, and how many other files have one like it."""

    reason: Reason
    others: int = 0

    @property
    def text(self) -> str:
        """The sentence, with the number of the others."""
        more = f" (and {count_of(self.others, 'file')} alike)" if self.others else ""
        return self.reason.text + more


def grouped(reasons: Sequence[Reason]) -> tuple[GroupedReason, ...]:
    """Put together reasons that differ in file, functions and numbers alone, for people; order is kept."""
    groups: dict[tuple[Verdict, str], list[Reason]] = {}
    for reason in reasons:
        words = reason.text.replace(reason.file, "*") if reason.file else reason.text
        shape = re.sub(r"(?:sm_\d+[af]?|\d+)\s?(?:(?:kernel|module)s?)?|: .*", "#", words)
        groups.setdefault((reason.effect, re.sub("#+", "#", shape)), []).append(reason)
    return tuple(
        GroupedReason(reason=group[0], others=len({r.file for r in group}) - 1) for group in groups.values()
    )


_BY_VERSION = "cuGetProcAddress"


class Provider(Struct, frozen=True, kw_only=True):
    """A file of a stack that answers for a library, and the HIP libraries behind it."""

    file: str
    needs: tuple[str, ...] = ()


class ReportedVersions(Struct, frozen=True, kw_only=True):
    """What a stack's driver reports; ``source`` says how that is known."""

    cuda: str
    capability: str
    source: str


class StackFacts(Struct, frozen=True, kw_only=True):
    """What preflight knows of a stack.

    Attributes:
        os: ``windows`` or ``linux``; empty where the stack is for both.
        providers: by the name that pins.lock uses (``cublas12``).
        api: its call table, ``None`` where its sources were not read.
        ptx: the name of the table of the PTX that it compiles, empty where its sources were not read.
        ptx_assumed: that table is the nearest release's.
        exports: for libraries without a table: what the staged file really exports.
        backends: HIP library to "is it there"; ``None`` where that is unknown.
        kernels: HIP library to "has it kernels for this GPU"; ``None`` where that is unknown.
        machines: processors whose programs it can serve.
        gfx: the GPU it would run on, empty where unknown.
        hip: how the HIP runtime is called, for sentences.
        launcher: it injects its libraries, which NVRTC needs.
        reported: the CUDA version and capability that its driver reports; ``None`` where that is unknown.
    """

    id: str
    kind: StackKind
    os: str = ""
    providers: Mapping[str, Provider] = field(default_factory=dict)
    api: ApiTable | None = None
    ptx: str = ""
    ptx_assumed: bool = False
    exports: Mapping[str, frozenset[str]] = field(default_factory=dict)
    backends: Mapping[str, bool | None] = field(default_factory=dict)
    kernels: Mapping[str, bool | None] = field(default_factory=dict)
    machines: frozenset[str] = frozenset({"x86_64"})
    gfx: str = ""
    hip: str = ""
    launcher: bool = False
    reported: ReportedVersions | None = None


class Covered(JsonRecord, frozen=True, kw_only=True):
    """One need, and what a stack does about it.

    Attributes:
        provided_by: the stack's file; ``None`` where it has none.
        missing: functions that only say NOT_SUPPORTED.
        aborts: functions that end the process.
        not_exported: functions that are not there: a program that imports them does not start.
        unknown: functions of which nothing is known.
        absent: HIP libraries that are needed behind it and not there.
        kernelless: HIP libraries without kernels for this GPU.
        unsure: HIP libraries of which nothing is known.
        own_serves: the program's own copy does its work under this stack, on the driver.
    """

    need: Need
    provided_by: str | None = None
    own_serves: bool = False
    missing: tuple[str, ...] = ()
    aborts: tuple[str, ...] = ()
    not_exported: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    kernelless: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()

    JSON = (
        "library=need.named.key file=need.file how=need.how from=need.chain functions=need.functions "
        "provided_by missing aborts not_exported unknown=all_unknown calls_known=need.calls_known "
        "functions_from cuda=need.named.cuda? own_copy=need.own backend_missing status"
    )

    @property
    def working(self) -> int:
        """How many of the functions have code in the stack; the runtime's own are not counted."""
        if self.provided_by is None:
            return 0
        lost = (self.missing, self.aborts, self.not_exported, self.unknown)
        return len(self.need.functions) - sum(map(len, lost))

    @property
    def status(self) -> str:
        """``ok``, ``fail`` or ``unknown``, for one line of the tree."""
        part = self.need.named.library.part
        lacking = self.missing or self.aborts or self.not_exported
        if (lacking and not self.need.spelled) or self.absent or self.kernelless:
            return "fail"
        if part is Part.HARMLESS or (part is Part.RUNTIME and not self.need.unknown):
            return "ok"
        if self.provided_by is None and self.own_serves:
            return "ok"
        if self.provided_by is None:
            own = part is Part.CLIENT and self.need.own is not None
            return "unknown" if own or part in {Part.COMPILER, Part.RUNTIME} else "fail"
        return "unknown" if self.unknown or self.unsure or not self.need.calls_known else "ok"

    @property
    def all_unknown(self) -> tuple[str, ...]:
        """Functions of which nothing is known, those of the CUDA runtime too."""
        return (*self.unknown, *self.need.unknown)

    @property
    def functions_from(self) -> str:
        """Where its functions were read."""
        return "names in its data" if self.need.spelled and self.need.functions else "tables"

    @property
    def backend_missing(self) -> tuple[str, ...]:
        """HIP libraries that do not serve it here."""
        return (*self.absent, *self.kernelless)


def cover(needs: Sequence[Need], stack: StackFacts) -> tuple[Covered, ...]:
    """Hold every need against a stack."""
    return tuple(_cover(need, stack) for need in needs)


def _cover(need: Need, stack: StackFacts) -> Covered:
    provider = stack.providers.get(need.named.key) or _without_number(need, stack)
    if need.spelled:
        need = replace(need, functions=_known(need, stack))
    if provider is None:
        driver = "the NVIDIA driver" if _by_driver(need, stack) else None
        own = stack.kind is StackKind.CONTROL and need.own is not None
        return Covered(need=need, provided_by=driver, own_serves=own)
    calls: dict[CallSupport, list[str]] = {call: [] for call in CallSupport}
    for function in need.functions:
        calls[_call(need, function, stack)].append(function)
    states = {backend: stack.backends.get(backend) for backend in provider.needs}
    return Covered(
        need=need,
        provided_by=provider.file,
        missing=tuple(calls[CallSupport.NOT_SUPPORTED]),
        aborts=tuple(calls[CallSupport.ABORTS]),
        not_exported=tuple(calls[CallSupport.NOT_EXPORTED]),
        unknown=tuple(calls[CallSupport.UNKNOWN]),
        absent=tuple(name for name, there in states.items() if there is False),
        kernelless=tuple(
            n for n, there in states.items() if there is not False and stack.kernels.get(n) is False
        ),
        unsure=tuple(name for name, there in states.items() if there is None),
    )


def _without_number(need: Need, stack: StackFacts) -> Provider | None:
    """Return who answers for ``libcublas.so``: stacks have it beside the file with a number."""
    library = need.named.library
    if need.named.number or not library.numbered or not need.file.endswith(".so"):
        return None
    numbers = [key.removeprefix(library.id) for key in stack.providers if key.startswith(library.id)]
    newest = max((int(number) for number in numbers if number.isdigit()), default=None)
    return None if newest is None else stack.providers[f"{library.id}{newest}"]


def _known(need: Need, stack: StackFacts) -> tuple[str, ...]:
    """Keep of names that only lie in data those which the call table has: the others may be anything."""
    if stack.api is None:
        return ()
    unheard = {CallSupport.NOT_EXPORTED, CallSupport.UNKNOWN}
    return tuple(f for f in need.functions if stack.api.lookup(need.named.api, f) not in unheard)


def _call(need: Need, function: str, stack: StackFacts) -> CallSupport:
    """Ask the table; without one, what the staged file exports."""
    if stack.api is not None:
        call = stack.api.lookup(need.named.api, function)
        newer = call is CallSupport.NOT_SUPPORTED and _by_version(need, function, stack)
        return CallSupport.IMPLEMENTED if newer else call
    exports = stack.exports.get(need.named.key)
    if exports and not function.startswith("#") and function not in exports:
        return CallSupport.NOT_EXPORTED
    return CallSupport.UNKNOWN


def _by_version(need: Need, function: str, stack: StackFacts) -> bool:
    """Whether a name means a newer form that works: cuGetProcAddress is asked for names without a version."""
    if not need.spelled or stack.api is None or not any(f.startswith(_BY_VERSION) for f in need.functions):
        return False
    forms = (f"{function}_v{number}" for number in range(2, 5))
    return any(stack.api.lookup(need.named.api, form) is CallSupport.IMPLEMENTED for form in forms)


def _by_driver(need: Need, stack: StackFacts) -> bool:
    """Whether NVIDIA's own driver answers: for the control stack."""
    parts = {"nvcuda", "nvml", "nvapi", "optix", "nvvideo"}
    return stack.kind is StackKind.CONTROL and need.named.library.id in parts


class WantedVersions(Struct, frozen=True, kw_only=True):
    """What a program was built for.

    Attributes:
        cuda: the newest major version among the CUDA runtimes that its files use; empty where none tells.
        runtime: the runtime's file, as asked for.
        targets: by file, the lowest processor that it has device code for.
    """

    cuda: str = ""
    runtime: str = ""
    targets: Mapping[str, int] = {}

    @property
    def lowest(self) -> int | None:
        """The oldest processor that any of its files has device code for."""
        return min(self.targets.values(), default=None)


def wanted_versions(closure: Closure) -> WantedVersions:
    """Return what the files of a program tell of what it was built for."""
    runtimes = [need for need in closure.needs if _runtime(need)]
    newest = max(runtimes, key=lambda need: int(need.named.cuda), default=None)
    targets = {
        visited.path.name: lowest
        for visited in closure.visited
        if (lowest := _lowest(visited.facts.code)) is not None
    }
    return WantedVersions(
        cuda=newest.named.cuda if newest is not None else "",
        runtime=newest.file if newest is not None else "",
        targets=targets,
    )


def version_reasons(closure: Closure, stack: str, reported: ReportedVersions | None) -> Iterator[Reason]:
    """Say where a program was built for more than a stack reports."""
    if reported is None:
        return
    major, capability = int(reported.cuda.split(".")[0]), _number(reported.capability)
    for need in closure.needs:
        if _runtime(need) and int(need.named.cuda) > major:
            name = need.asker.name
            text = (
                f"{name} uses the runtime of CUDA {need.named.cuda}, and {stack} reports "
                f"CUDA {reported.cuda}: every call of that runtime fails (error 35)"
            )
            sure = RANKS[need.how] <= RANKS["delay"]
            yield Reason(
                effect=Verdict.REFUSES if sure else Verdict.PARTIAL,
                weight=84,
                text=text,
                file=name,
                then=f"look for a build for CUDA {major}",
            )
    for name, lowest in wanted_versions(closure).targets.items():
        if lowest > capability:
            text = (
                f"{name} has device code for sm_{lowest} and newer alone, and {stack} reports capability "
                f"{reported.capability}: a program that compares the two may turn the GPU down"
            )
            yield Reason(effect=Verdict.UNKNOWN, weight=36, text=text, file=name)


def versions_sentence(wanted: WantedVersions, reported: ReportedVersions | None, stack: str) -> str:
    """Put both in one line; empty where the program tells nothing."""
    words = [f"CUDA {wanted.cuda} ({wanted.runtime})"] if wanted.cuda else []
    words += [f"sm_{wanted.lowest} and newer"] if wanted.lowest is not None else []
    if not words:
        return ""
    says = f"what {stack} reports is unknown"
    if reported is not None:
        says = f"{stack} reports CUDA {reported.cuda} and capability {reported.capability}"
    return f"Built for {', '.join(words)}; {says}"


def versions_json(wanted: WantedVersions, reported: ReportedVersions | None) -> dict[str, object]:
    """Return both as plain data."""
    lowest = wanted.lowest
    return {
        "wanted": {
            "cuda": wanted.cuda or None,
            "runtime": wanted.runtime or None,
            "capability": f"{lowest // 10}.{lowest % 10}" if lowest is not None else None,
        },
        "reported": None
        if reported is None
        else {"cuda": reported.cuda, "capability": reported.capability, "source": reported.source},
    }


def _runtime(need: Need) -> bool:
    """Whether a need is a CUDA runtime of a known version."""
    return need.named.library.part is Part.RUNTIME and need.named.cuda.isdigit()


def _lowest(code: Sequence[Code]) -> int | None:
    """Return the lowest processor that a file's loadable code is for."""
    loaded = [one for one in code if not one.relocatable]
    numbers = [
        *(sm for one in loaded for sm, _, _, _ in one.ptx),
        *(sm for one in loaded for sm, _, _ in one.sass),
    ]
    return min(numbers, default=None)


def _number(capability: str) -> int:
    """Turn 8.6 into 86."""
    major, _, minor = capability.partition(".")
    return int(major) * 10 + int(minor)
