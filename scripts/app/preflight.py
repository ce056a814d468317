"""``preflight``: what a program needs, and what a stack has of that, read from files; nothing is run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from scripts.app.context import Staged, Workspace, active, host_of, lock_of, newest
from scripts.app.known_facts import program_facts, stack_facts
from scripts.app.wrap_plan import named_program
from scripts.app.wrap_result import Inspected
from scripts.errors import ExitCode, LaunchError, UsageError
from scripts.guards import guarded
from scripts.host.gpu import AMD
from scripts.launch.injection import ViaFacts
from scripts.launch.profiles import recognised
from scripts.lock.reader import find_stack
from scripts.model import Host, Lock, Stack, StackKind
from scripts.preflight.coverage import Covered, Reason, StackFacts, Verdict, grouped
from scripts.preflight.examine import Examined, examine
from scripts.preflight.kernels import KernelStore, demangled, differences, ptx_source
from scripts.preflight.libraries import Alternative, alternatives
from scripts.preflight.packaging import is_python, roots_of
from scripts.preflight.verdict import (
    BUILD_SHARED,
    SYSTEMS,
    Better,
    ComparedStack,
    Judged,
    better_stacks,
    compared,
    held_against,
    static_runtime_refusal,
)
from scripts.serialize import pick, plain
from scripts.staging.runtimes import read_history

if TYPE_CHECKING:
    from scripts.host.support import NativeWay
    from scripts.preflight.kernel_advice import Avoidance
    from scripts.preflight.needs import Code
    from scripts.preflight.unusable import FileKernels
    from scripts.probing.known_failures import ProbeWarning

CACHE_FOLDER: Final = "preflight-v1"
KERNELS_FOLDER: Final = "kernels-v1"
#: So many reasons are shown before a program is started.
WARNINGS: Final = 3


class PreflightResult(Struct, frozen=True, kw_only=True):
    """What the files predict.

    Attributes:
        stack: what was asked about.
        covered: every need, and what the stack does about it.
        judged: the word and its reasons, the heaviest first.
        alternatives: what serves on a Radeon without translation.
        level: what committed documents show for this stack on this GPU; ``None`` without any.
        system: this machine's: ``windows`` or ``linux``.
        strict: as asked for; it changes nothing here, ``wrap --strict`` stops where this ends with 3.
        kernels: what the stack's release makes of the kernels of each file.
        avoid: how the program can do without kernels that are missing.
        compared: other stacks for the same system beside this one, where that was asked for.
        staged: the stack has a runtime here; ``active``: it is what `wrap` takes when none is named.
        warnings: probes that the stack failed on this GPU, as far as they concern the program.
        details, listed: show everything; show every kernel.
    """

    program: Path
    stack: StackFacts
    examined: Examined
    covered: tuple[Covered, ...]
    judged: Judged
    better: tuple[Better, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    native: tuple[NativeWay, ...] = ()
    level: str | None = None
    system: str = ""
    strict: bool = False
    kernels: tuple[FileKernels, ...] = ()
    avoid: tuple[Avoidance, ...] = ()
    compared: tuple[ComparedStack, ...] = ()
    staged: bool = False
    active: bool = False
    warnings: tuple[ProbeWarning, ...] = ()
    details: bool = False
    listed: bool = False

    @property
    def exit_code(self) -> int:
        """3 where the stack refuses the program, else 0: ``partial`` and ``unknown`` may well do."""
        return int(ExitCode.NEGATIVE if self.judged.verdict is Verdict.REFUSES else ExitCode.OK)

    def to_json(self) -> dict[str, object]:
        """Return plain data; paths are not redacted."""
        from scripts.preflight.coverage import versions_json, wanted_versions  # noqa: PLC0415 - as below

        closure = self.examined.closure
        head = "program machine=examined.closure.program.facts.machine stack=stack.id gfx=stack.gfx?"
        end = "evidence=level failed_probes=warnings reasons=judged.reasons better_stacks=better native"
        return {
            **pick(self, head),
            **pick(self, "needs=covered"),
            "device_code": [_code_json(v.path, code) for v in closure.visited for code in v.facts.code],
            "kernels": self._kernels_json(),
            "versions": versions_json(wanted_versions(closure), self.stack.reported),
            **pick(self, "kinds=examined.kinds"),
            "packages": [pick(package, "name version") for package in self.examined.packages],
            **pick(self, "verdict=judged.verdict"),
            "rests_on": "static reading",
            **pick(self, end),
            **pick(self, "avoid"),
            "alternatives": [pick(other, "id what source") for other in self.alternatives],
            **pick(self, "stacks=compared"),
            "files_read": len(closure.visited),
        }

    def _kernels_json(self) -> dict[str, object]:
        """Return the kernels as plain data: the missing ones by name, with ``listed`` all."""
        from scripts.preflight.unusable import BASIS  # noqa: PLC0415 - `wrap` prints none

        table = ptx_source(self.stack.ptx) if self.stack.ptx else None
        meant = differences(self.stack.ptx) if self.stack.ptx else {}
        return {
            "table": self.stack.ptx or None,
            "source": table,
            "assumed": self.stack.ptx_assumed,
            "basis": BASIS,
            "total": sum(file.tally.total for file in self.kernels),
            "missing": sum(len(file.tally.missing) for file in self.kernels),
            "differences": {rule: why for rule, (why, _) in meant.items()},
            "files": [_file_json(file, listed=self.listed) for file in self.kernels],
        }


def _file_json(file: FileKernels, *, listed: bool) -> dict[str, object]:
    one = file.tally
    named = [*one.missing, *(one.fine if listed else ())]
    mentioned = file.mentioned
    return {
        "file": str(file.path),
        "total": one.total,
        "missing": len(one.missing),
        **pick(one, "for_linking=linking causes differs instructions refused_instructions=refused"),
        "operand_types_checked": False,
        **pick(one, "operand_types_unchecked=types_unchecked unread"),
        "mentioned": len(mentioned),
        "kernels": [
            {**plain(fate), "demangled": demangled(fate.name), "mentioned": fate.name in mentioned}
            for fate in named
        ],
    }


def _code_json(path: Path, code: Code) -> dict[str, object]:
    return {
        "file": str(path),
        "section": code.section,
        "ptx": [
            {"sm": sm, "target": f"sm_{sm}{letter}", "isa": isa, "count": n}
            for sm, letter, isa, n in code.ptx
        ],
        "sass": [{"sm": sm, "target": f"sm_{sm}{letter}", "count": n} for sm, letter, n in code.sass],
        **pick(code, "relocatable modules sass_only stubs special unknown kernels_lost"),
        "why": code.why or code.uncounted or None,
        **pick(code, "complete limit?"),
    }


def preflight(
    ws: Workspace,
    *,
    exe: str = "",
    stack: str = "",
    strict: bool = False,
    details: bool = False,
    kernels: bool = False,
    all_stacks: bool = False,
) -> PreflightResult:
    """Read a program's files and predict how it fares under a stack. Nothing is started or changed.

    ``details`` shows everything, ``kernels`` every kernel; ``all_stacks`` compares the pinned stacks for its
    system.

    Raises:
        UsageError: no program was named, or the stack is unknown or none is active.
        WorkspaceError: the program is not there, or the lock is wrong.
    """
    if not exe:
        msg = "which program?"
        raise UsageError("exe-needed", msg, hint="name it: invoke preflight --exe=PATH")
    from scripts.app.evidence_lookup import worth_here  # noqa: PLC0415 - `wrap` comes here as well, without use for it
    from scripts.app.probe_findings import probe_warnings  # noqa: PLC0415 - as above
    from scripts.preflight.kernel_advice import avoidances  # noqa: PLC0415 - as above
    from scripts.staging.select import only_when_named  # noqa: PLC0415 - as above

    lock = lock_of(ws)
    wanted = find_stack(lock, stack or active(ws).stack)  # it need not be staged
    program = named_program(ws, exe)
    host = host_of(ws)
    runtime = newest(ws, wanted.id)
    facts = stack_facts(lock, wanted, host, runtime, ws.environ)
    store = kernel_store(ws)
    examined = examine(program, cache=ws.state_root / CACHE_FOLDER, kernels=store)
    here = held_against(examined, facts, store, chosen=True)
    system = SYSTEMS.get(examined.closure.program.facts.format, "")
    others = tuple(
        held_against(examined, other, store, fits=fits)
        for other, fits in _others(ws, lock, wanted, host, system)
    )
    level = worth_here(ws)(wanted.id, facts.gfx) if facts.gfx else None
    return PreflightResult(
        program=program,
        stack=facts,
        examined=examined,
        covered=here.covered,
        judged=here.judged,
        kernels=here.kernels,
        avoid=avoidances(here.kernels),
        better=better_stacks(here, [o for o in others if not only_when_named(lock.stacks[o.stack.id], lock)]),
        compared=tuple(compared(one) for one in (here, *others)) if all_stacks else (),
        alternatives=_alternatives(examined) if here.judged.verdict is not Verdict.RUNS else (),
        native=_native(program, host),
        level=level.value if level is not None else None,
        system=host.os,
        strict=strict,
        staged=runtime is not None or wanted.kind is StackKind.CONTROL,
        active=_is_active(ws, wanted),
        warnings=probe_warnings(ws, wanted.id, facts.gfx, examined),
        details=details,
        listed=kernels,
    )


def inspect_program(ws: Workspace, staged: Staged, program: Path, facts: ViaFacts) -> Inspected:
    """Look into a program before it is started: how it loads CUDA, and what it will miss.

    ``wrap`` is given it as ``partial(inspect_program, ws)``.

    Raises:
        TargetError: ``anti-cheat``; a control stack puts no libraries in and so is not refused.
        LaunchError: ``static-runtime``: NVIDIA's CUDA runtime is linked in, and this is the reference stack.
    """
    store = kernel_store(ws)
    examined = examine(program, cache=ws.state_root / CACHE_FOLDER, kernels=store)
    if examined.guard is not None and staged.stack.kind is not StackKind.CONTROL:
        raise guarded(examined.guard)
    _refuse_static_runtime(staged.stack, examined)
    about = stack_facts(staged.lock, staged.stack, staged.host, staged.runtime, ws.environ)
    here = held_against(examined, about, store, chosen=True)
    judged = here.judged
    heavy = [reason for reason in judged.reasons if reason.effect is judged.verdict]
    inspected = _loading(program, examined, about, facts)
    if judged.verdict is Verdict.REFUSES:
        return replace(inspected, notes=_notes(heavy[1:]), refusal=f"preflight: {heavy[0].text}")
    lost = [f for f in here.kernels if f.how != "package" and f.tally.missing]
    if lost and judged.verdict is Verdict.PARTIAL:
        from scripts.preflight.unusable import missing_sentence  # noqa: PLC0415 - most programs hold no kernels

        # What a program surely reaches and would not get is worth a stop to who asked for strictness.
        text = missing_sentence(lost[0].tally, mentioned=len(lost[0].mentioned))
        others = [reason for reason in heavy if reason.text != text]
        return replace(inspected, notes=_notes(others), refusal=f"preflight: {text}")
    return replace(inspected, notes=_notes(heavy) if judged.verdict is Verdict.PARTIAL else ())


def _loading(program: Path, examined: Examined, about: StackFacts, facts: ViaFacts) -> Inspected:
    """Say how the program loads CUDA, and where it looks for what the stack has, if it asks for any."""
    kinds = tuple(recognised.kind.id for recognised in examined.kinds)
    if not examined.closure.needs:
        return Inspected(facts=facts, kinds=kinds)
    from scripts.preflight.loading import Places, loading_of, places_of  # noqa: PLC0415 - most programs ask for none

    hidden = any(kind.kind.effect == "unknown" for kind in examined.kinds)
    seen = loading_of(examined.closure, about.providers, hidden=hidden)
    known = replace(facts, **asdict(seen))
    found, unserved = places_of(examined.closure, about.providers, python=is_python(program))
    places = Places(
        found=found,
        unserved=unserved,
        complete=examined.closure.complete and not hidden,
        absent=frozenset(name for name, there in about.backends.items() if there is False),
        roots=roots_of(program),
    )
    return Inspected(facts=known, kinds=kinds, places=places)


def warn_about(ws: Workspace, staged: Staged, program: Path, facts: ViaFacts) -> Inspected:
    """Look into a program as ``inspect_program`` does, for who cannot choose another way in: ``shim``.

    Raises:
        TargetError: ``anti-cheat``, as there.
    """
    return replace(inspect_program(ws, staged, program, facts), facts=facts)


def _refuse_static_runtime(stack: Stack, examined: Examined) -> None:
    """Refuse a program that would crash in NVIDIA's runtime: our own driver does not serve it."""
    program = examined.closure.program
    if stack.kind is StackKind.REFERENCE and program.facts.static_runtime:
        msg = static_runtime_refusal(program.path.name)
        raise LaunchError("static-runtime", msg, hint=BUILD_SHARED)


def _notes(reasons: list[Reason]) -> tuple[str, ...]:
    """Say the heaviest reasons, and how many more there are."""
    groups = grouped(reasons)
    lines = [f"preflight: {group.text}" for group in groups[:WARNINGS]]
    more = len(groups) - WARNINGS
    if more > 0:
        lines.append(f"preflight: and {more} more; `invoke preflight` lists them")
    return tuple(lines)


def kernel_store(ws: Workspace) -> KernelStore:
    """Return where this user's reports on kernels lie."""
    return KernelStore(ws.state_root / KERNELS_FOLDER)


def _is_active(ws: Workspace, stack: Stack) -> bool:
    """Whether ``wrap`` takes this stack when none is named."""
    now = read_history(ws.stage).active
    return now is not None and now.stack == stack.id


def _others(
    ws: Workspace, lock: Lock, wanted: Stack, host: Host, system: str
) -> Iterator[tuple[StackFacts, bool]]:
    """Yield the other pinned stacks for a system, each with whether it is for this GPU."""
    for other in lock.stacks.values():
        if other.id == wanted.id or other.kind is not StackKind.TRANSLATION or other.requires.os != system:
            continue
        facts = stack_facts(lock, other, host, newest(ws, other.id), ws.environ)
        yield facts, not (facts.gfx and other.requires.gfx and facts.gfx not in other.requires.gfx)


def _native(program: Path, host: Host) -> tuple[NativeWay, ...]:
    """Name the program's own ways without translation, for a Radeon that is in this machine."""
    gpu = host.selected_gpu
    if gpu is None or gpu.vendor != AMD:
        return ()
    programs = recognised(program_facts(program))
    from scripts.host.support import native_ways  # noqa: PLC0415 - `wrap` comes here and shows none

    ways = native_ways(gfx=gpu.gfx or "", os=host.os, programs=programs)
    return tuple(way for way in ways if way.own)


def _alternatives(examined: Examined) -> tuple[Alternative, ...]:
    """Find what serves its users without translation, by packages and file names."""
    packages = {package.name for package in examined.packages}
    files = {visited.path.name.lower() for visited in examined.closure.visited}
    return tuple(a for a in alternatives() if packages & set(a.packages) or files & set(a.files))
