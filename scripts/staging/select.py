"""Which stack a machine uses when the user names none. Pure: host × lock × evidence → stack.

Of another machine only the system and the GPU are known: see ``select_for``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NoReturn

from msgspec import Struct

from scripts.errors import HostError, UsageError
from scripts.host.gpu import AMD, NO_DRIVER, NVIDIA, without_gpu
from scripts.host.hip import fitting_root, lacking
from scripts.host.support import (
    SupportLevel,
    native_ways,
    no_stack_possible,
    release_for,
    sdk_notes,
    support,
    where_to_get,
)
from scripts.lock.proposals import Proposal, fits, proposed_for
from scripts.lock.reader import find_stack
from scripts.model import ArtifactFormat, Gpu, HipRoot, HipSource, Host, Level, Lock, Stack, StackKind

#: The level committed evidence gives a stack on a gfx; ``None`` where there is no evidence.
Worth = Callable[[str, str], Level | None]

NAME_OF_OS: Final = {"windows": "Windows", "linux": "Linux"}


class Selection(Struct, frozen=True, kw_only=True):
    """The stack to use and why. ``unproven``: no committed evidence for it on this gfx.

    ``warnings`` must be shown loudly: each is one sentence.
    """

    stack_id: str
    reason: str
    warnings: tuple[str, ...] = ()
    unproven: bool = False


def select_stack(
    host: Host, lock: Lock, worth: Worth, *, want: str = "", only_proven: bool = False, force: bool = False
) -> Selection:
    """Choose the stack for the selected GPU, or check the one the user wants.

    ``force`` lets a stack that was named run on an architecture it does not cover, and warns; everything
    else that it requires must be there all the same.

    Raises:
        UsageError: ``want`` is not in the lock.
        HostError: nothing fits; the context says for each stack what this machine lacks.
    """
    if want:
        return _wanted(host, lock, worth, want, only_proven=only_proven, force=force)
    gpu = host.selected_gpu
    if gpu is None:
        return _without_gpu(host, lock, only_proven=only_proven)
    kind = StackKind.CONTROL if gpu.vendor == NVIDIA else StackKind.TRANSLATION
    candidates = [s for s in lock.stacks.values() if s.kind is kind and not only_when_named(s, lock)]
    fitting = [stack for stack in candidates if not unmet(stack, host, gpu)]
    if not fitting:
        _refuse(host, lock, gpu, candidates)
    return _judged(host, lock, worth, gpu, fitting, only_proven=only_proven)


def unmet(stack: Stack, host: Host, gpu: Gpu | None, *, forced: bool = False) -> tuple[str, ...]:
    """Say what this machine lacks for a stack, one clause each; empty if nothing.

    ``forced``: a known architecture that the stack does not cover is no obstacle.
    """
    if stack.kind is StackKind.REFERENCE:
        return tuple(_unmet_os(stack, host))
    vendor = NVIDIA if stack.kind is StackKind.CONTROL else AMD
    if gpu is None or gpu.vendor != vendor:
        found = f"the selected GPU is {gpu.name}" if gpu else "no GPU was found"
        lacking = "an NVIDIA GPU" if vendor == NVIDIA else "an AMD GPU"
        return (*_unmet_os(stack, host), f"needs {lacking}; {found}")
    return (*_unmet_os(stack, host), *_unmet_gpu(stack, gpu, forced=forced), *_unmet_hip(stack, host))


def _judged(
    host: Host, lock: Lock, worth: Worth, gpu: Gpu, fitting: list[Stack], *, only_proven: bool
) -> Selection:
    """Choose among stacks that fit: proven before unproven, then the newest."""
    newest = newest_first(fitting, lock)
    if newest[0].kind is StackKind.CONTROL:
        reason = f"{gpu.name} answers: its own driver runs CUDA, nothing is translated."
        return Selection(stack_id=newest[0].id, reason=reason)
    gfx = gpu.gfx or ""
    levels = {stack.id: worth(stack.id, gfx) for stack in newest}
    proven = [stack for stack in newest if levels[stack.id] is not None]
    if proven:
        level = levels[proven[0].id]
        reason = f"It is the newest stack that fits and has evidence on {gfx}: {level}."
        return Selection(stack_id=proven[0].id, reason=reason, warnings=_warnings(proven[0], host, gfx))
    if only_proven:
        msg = f"no stack that fits this machine has evidence on {gfx} yet"
        raise HostError(
            "stack-unproven",
            msg,
            context=tuple(f"{stack.id}: fits, unproven" for stack in newest),
            hint="leave out --only-proven to try the newest, or commit evidence from `invoke validate`",
        )
    loud = f"{newest[0].id} is unproven on {gfx}: no evidence yet."
    return Selection(
        stack_id=newest[0].id,
        reason=f"It is the newest stack that fits this machine; none has evidence on {gfx}.",
        warnings=(loud, *_warnings(newest[0], host, gfx)),
        unproven=True,
    )


def _wanted(host: Host, lock: Lock, worth: Worth, want: str, *, only_proven: bool, force: bool) -> Selection:
    """Check the stack the user named against this machine."""
    stack = find_stack(lock, want, os=host.os)
    gpu = host.selected_gpu
    loud = _foreign_gpu(stack, gpu) if force and gpu is not None else ()
    if lacking := unmet(stack, host, gpu, forced=bool(loud)):
        msg = f"this machine lacks something that {want} requires"
        hint = _hint([stack], lock, host, gpu)
        raise HostError(
            "stack-unmet", msg, context=tuple(f"{want} {clause}" for clause in lacking), hint=hint
        )
    if gpu is None or stack.kind is StackKind.REFERENCE:
        return _reference(want, "You named it.")
    judged = _judged(host, lock, worth, gpu, [stack], only_proven=only_proven)
    return Selection(
        stack_id=want, reason="You named it.", warnings=(*loud, *judged.warnings), unproven=judged.unproven
    )


def _foreign_gpu(stack: Stack, gpu: Gpu) -> tuple[str, ...]:
    """Warn where a known architecture is not one that the stack covers."""
    if gpu.gfx is None or gpu.gfx in stack.requires.gfx:
        return ()
    covered = ", ".join(stack.requires.gfx)
    never = no_stack_possible(gpu.gfx)
    if not covered and not never:
        return ()
    whose = f"{stack.id} covers {covered}" if covered else f"{stack.id} cannot be expected to work"
    return (f"{whose}; you forced it onto {gpu.gfx}, where no evidence shows that it works.",)


def _without_gpu(host: Host, lock: Lock, *, only_proven: bool) -> Selection:
    """Fall back to the CPU reference, which proves nothing about a GPU."""
    references = [stack for stack in lock.stacks.values() if stack.kind is StackKind.REFERENCE]
    if only_proven or not references:
        msg = "no GPU was found on this machine"
        hint = "run `invoke doctor` to see where it was looked for, or leave out --only-proven to use the CPU"
        raise HostError("gpu-missing", msg, context=(without_gpu(host.os),), hint=hint)
    return _reference(references[0].id, f"No GPU was found on this machine; {without_gpu(host.os)}.")


def _reference(stack_id: str, reason: str) -> Selection:
    loud = f"{stack_id} computes on the CPU: this proves the pipeline, not a GPU."
    return Selection(stack_id=stack_id, reason=reason, warnings=(loud,))


def _refuse(host: Host, lock: Lock, gpu: Gpu, candidates: list[Stack]) -> NoReturn:
    """Say what is missing, nearest stack first: a machine with a GPU never falls back to the CPU."""
    ordered = newest_first(candidates, lock)
    near = [s for s in ordered if not [*_unmet_os(s, host), *_unmet_gpu(s, gpu)]]
    never = no_stack_possible(gpu.gfx or "") if gpu.vendor == AMD else ""
    if gpu.driver == NO_DRIVER and not never:
        reference, msg = "driver-missing", f"No driver that can compute runs {gpu.name}."
    elif gpu.vendor == AMD and gpu.gfx is None:
        reference, msg = "gfx-unknown", f"The architecture of {gpu.name} is not known."
    elif near:
        reference, msg = "hip-missing", f"No HIP runtime here fits a stack for {gpu.gfx}."
    else:
        reference, msg = (
            "gpu-unsupported",
            f"No stack covers {gpu.name} ({gpu.gfx or gpu.vendor}) on {_os(host.os)}.",
        )
    here = near or [s for s in ordered if not _unmet_os(s, host)] or ordered
    if never:
        here = []  # one reason for all of them, below
    # Of a stack for other GPUs only that matters; of a near one everything that is missing.
    lines = [f"{s.id} {clause}" for s in here for clause in unmet(s, host, gpu)[: None if near else 1]]
    proposed = _proposal_hint(lock, host, gpu) if reference == "hip-missing" else ""
    context = (
        *lines,
        *([f"with AMD's packages instead: {proposed}"] if proposed else []),
        *_without_translation(host, gpu),
    )
    raise HostError(reference, msg, context=context, hint=_hint(here, lock, host, gpu))


def _without_translation(host: Host, gpu: Gpu) -> tuple[str, ...]:
    """End a refusal with what runs all the same."""
    if gpu.vendor != AMD or not gpu.gfx:
        return ()
    refusal = no_stack_possible(gpu.gfx)
    ways = native_ways(gfx=gpu.gfx, os=host.os, programs=("pytorch", "llama-cpp"))
    commands = (f"without translation: {way.what}: {way.commands[0]}" for way in ways if way.own)
    more = f"for a program: invoke native --exe=PROGRAM --gpu={gpu.gfx}"
    return (*((refusal,) if refusal else ()), *commands, more)


def _proposal_hint(lock: Lock, host: Host, gpu: Gpu | None) -> str:
    """Say how a stack for this GPU becomes pinned, where one is proposed."""
    proposal = _proposed(lock, os=host.os, gfx=gpu.gfx or "") if gpu is not None else None
    if proposal is None:
        return ""
    return (
        f"Run `invoke pins.update --gpu={proposal.gfx} --write`, which completes {proposal.stack} by AMD's "
        f"own digest, then `invoke setup --stack={proposal.stack}`."
    )


def _proposed(lock: Lock, *, os: str, gfx: str) -> Proposal | None:
    """Return the proposal that would complete a lock for a GPU."""
    proposal = proposed_for(gfx, os)
    return proposal if proposal is not None and fits(proposal, lock) else None


def _hint(stacks: list[Stack], lock: Lock, host: Host, gpu: Gpu | None) -> str:
    """Say what to install, or which other GPU would do."""
    useful = [
        s for s in lock.stacks.values() if s.kind is not StackKind.REFERENCE and not only_when_named(s, lock)
    ]
    for other in host.gpus:
        if other != gpu and any(not unmet(stack, host, other) for stack in useful):
            return f"GPU {other.index} ({other.name}) would do: give --gpu={other.index}."
    if gpu is None:
        return f"Look for the GPU: {without_gpu(host.os)}."
    if gpu.vendor == AMD and no_stack_possible(gpu.gfx or ""):
        return f"Run `invoke native --gpu={gpu.gfx}`, which names what runs on it all the same."
    if gpu.driver == NO_DRIVER:
        maker = "NVIDIA" if gpu.vendor == NVIDIA else "AMD"
        return f"Install {maker}'s own driver for {gpu.name}, restart, and run `invoke scan`."
    if gpu.vendor == AMD and gpu.gfx is None:
        return "Run hipInfo and give its output to `invoke scan --from-hipinfo=FILE`, and report the PCI id."
    missing = [s for s in stacks if not [*_unmet_os(s, host), *_unmet_gpu(s, gpu)]]
    own = next((what for stack in missing if (what := _install(stack))), "")
    return own or _proposal_hint(lock, host, gpu) or "Run `invoke stacks` to see what each stack is for."


def _install(stack: Stack) -> str:
    """Say which HIP a stack needs that a person installs; empty where it brings its own."""
    if stack.hip.source is HipSource.SDK:
        return f"{where_to_get(stack.hip.range)}, then run this again."
    if stack.hip.source is HipSource.SYSTEM:
        return f"Install ROCm {stack.hip.range} from your distribution or AMD, then run this again."
    return ""


def _warnings(stack: Stack, host: Host, gfx: str) -> tuple[str, ...]:
    """Tell what AMD does not support although the versions fit."""
    root = fitting_root(stack, host)
    if stack.hip.source is not HipSource.SDK or root is None:
        return ()
    known = support(gfx, root.version or "")
    unsupported = () if known.verdict is SupportLevel.RUNTIME_AND_LIBRARIES else (known.sentence,)
    return (*unsupported, *sdk_notes(gfx, root.version or ""))


def _unmet_os(stack: Stack, host: Host) -> list[str]:
    wrong = stack.requires.os and stack.requires.os != host.os
    return [f"is for {_os(stack.requires.os)}"] if wrong else []


def _unmet_gpu(stack: Stack, gpu: Gpu, *, forced: bool = False) -> list[str]:
    clauses = []
    if gpu.driver == NO_DRIVER:
        clauses.append(f"needs a driver: {gpu.why_unknown.get('driver', 'none is installed')}")
    if stack.kind is StackKind.TRANSLATION and gpu.gfx is None:
        clauses.append(f"needs a known architecture: {gpu.why_unknown.get('gfx', 'it is not known')}")
    elif forced:
        pass
    elif stack.kind is StackKind.TRANSLATION and (never := no_stack_possible(gpu.gfx or "")):
        clauses.append(f"cannot serve {gpu.gfx}: {never}")
    elif stack.requires.gfx and gpu.gfx not in stack.requires.gfx:
        known = _unsupported(stack, gpu.gfx or "")
        clauses.append(f"covers {', '.join(stack.requires.gfx)}, not {gpu.gfx or gpu.name}{known}")
    return clauses


def _unsupported(stack: Stack, gfx: str) -> str:
    """Add what AMD says of the HIP SDK a stack uses, where that is why it does not cover a GPU."""
    sdk = release_for(stack.hip.range) if stack.hip.source is HipSource.SDK and stack.hip.range else None
    known = support(gfx, sdk.version) if sdk is not None and gfx else None
    if known is None or known.verdict not in {SupportLevel.NONE, SupportLevel.RUNTIME}:
        return ""
    return f" ({known.sentence.rstrip('.')})"


def _unmet_hip(stack: Stack, host: Host) -> list[str]:
    """Compare HIP runtimes; a root of unknown version meets no range."""
    if stack.hip.source not in {HipSource.SDK, HipSource.SYSTEM} or fitting_root(stack, host):
        return []
    what = "HIP SDK" if stack.hip.source is HipSource.SDK else "ROCm"
    found = [f"{root.version or 'unknown version'} in {root.path}{_without(root)}" for root in host.hip_roots]
    return [f"needs {what} {stack.hip.range}".rstrip() + f"; found {', '.join(found) or 'none'}"]


def _without(root: HipRoot) -> str:
    """Say what a root lacks, for a list of roots."""
    absent = lacking(root)
    return f" (without {' and '.join(absent)})" if absent else ""


def only_when_named(stack: Stack, lock: Lock) -> bool:
    """Whether no machine is given it unasked: a person must bring its files, or a part is a nightly build."""
    supplied = any(lock.artifacts[part].format is ArtifactFormat.SUPPLIED for part in stack.parts)
    return supplied or any(_NIGHTLY.search(part) for part in stack.parts)


def _os(name: str) -> str:
    """Spell an operating system for people."""
    return NAME_OF_OS.get(name, name or "any system")


_LAYER_VERSION = re.compile(r"(?:^|-)v(\d+)(?:(?:-preview\.|p)(\d+))?(?=-|$)")
_NUMBERS = re.compile(r"\d+")
#: A version of AMD's packages that was made on one day: 10.1.0a20260822.
_NIGHTLY = re.compile(r"\d\.\d+a\d{8}(?!\d)")
_NO_PREVIEW: Final = 10**9


def newest_first(stacks: Iterable[Stack], lock: Lock) -> list[Stack]:
    """Order stacks by their translation layer's version, then by the HIP version they start at."""
    return sorted(stacks, key=lambda stack: _age(stack, lock), reverse=True)


def _age(stack: Stack, lock: Lock) -> tuple[tuple[int, int], tuple[int, ...], tuple[int, ...], str]:
    """Return a key that grows with the layer's version; a release is newer than its previews."""
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - slow to import, seldom asked

    names = [part for part in stack.parts if part in lock.artifacts] or [stack.id]
    versions = [_layer_version(name) for name in (*names, stack.id)]
    floor = [s.version for s in SpecifierSet(stack.hip.range) if s.operator in {">=", "==", "~="}]
    hip = tuple(int(n) for n in _NUMBERS.findall(floor[0])) if floor else ()
    natural = tuple(int(n) for n in _NUMBERS.findall(stack.id))
    return (next((v for v in versions if v != (0, 0)), (0, 0)), hip, natural, stack.id)


def _layer_version(name: str) -> tuple[int, int]:
    """Read ``v7-preview.10``, ``v7p10`` or ``v6`` out of an id; (0, 0) without one."""
    match = _LAYER_VERSION.search(name)
    return (int(match[1]), int(match[2]) if match[2] else _NO_PREVIEW) if match else (0, 0)


SYSTEMS: Final = ("windows", "linux")
_GFX: Final = re.compile(r"gfx[0-9a-f]{3,4}")


def check_system(os: str) -> None:
    """Refuse a ``--for`` that names no system.

    Raises:
        UsageError: ``bad-system``.
    """
    if os not in SYSTEMS:
        raise UsageError("bad-system", f"--for={os} is no system", hint=f"use one of: {', '.join(SYSTEMS)}")


def select_for(lock: Lock, worth: Worth, *, os: str, gfx: str, want: str = "") -> Selection:
    """Choose the stack for a machine that is not this one: what its HIP SDK and driver are is not known.

    Args:
        lock: the lock.
        worth: what evidence says.
        os: ``windows`` or ``linux``.
        gfx: its GPU's architecture; may be empty with ``want``.
        want: a stack by its id.

    Raises:
        UsageError: ``bad-system``, ``bad-architecture``, or ``want`` is not in the lock.
        HostError: ``stack-unmet``: ``want`` is for others; ``gpu-unsupported``: there is none.
    """
    check_system(os)
    if not _GFX.fullmatch(gfx) and (gfx or not want):
        msg = f"--for={os} needs the architecture of the other machine's GPU"
        raise UsageError("bad-architecture", msg, hint=f"write for example --for={os} --gpu=gfx1100")
    if want:
        stack = find_stack(lock, want, os=os)
        if not _serves(stack, os=os, gfx=gfx):
            msg = f"{want} is not for {gfx or 'such a GPU'} on {os}"
            raise HostError("stack-unmet", msg, hint=f"run `invoke stacks --for-gpu={gfx or 'GFX'}`")
        return _selection(stack, worth, gfx, reason="you named it")
    fitting = [
        stack
        for stack in lock.stacks.values()
        if stack.kind is StackKind.TRANSLATION
        and _serves(stack, os=os, gfx=gfx)
        and not only_when_named(stack, lock)
    ]
    if not fitting or no_stack_possible(gfx):
        raise HostError(
            "gpu-unsupported",
            f"no stack covers {gfx} on {os}",
            context=tuple(filter(None, (no_stack_possible(gfx),))),
            hint=_way_out(lock, os=os, gfx=gfx),
        )
    newest = newest_first(fitting, lock)
    proven = [stack for stack in newest if worth(stack.id, gfx) is not None]
    reason = f"it is the newest that covers {gfx} on {os}{' and has evidence' if proven else ''}"
    return _selection((proven or newest)[0], worth, gfx, reason=reason)


def _selection(stack: Stack, worth: Worth, gfx: str, *, reason: str) -> Selection:
    """Say what the other machine still has to have."""
    needs = {
        HipSource.SDK: f"the other machine needs HIP SDK {stack.hip.range}, which is not among the files",
        HipSource.SYSTEM: f"the other machine needs ROCm {stack.hip.range}".rstrip(),
    }
    need = needs.get(stack.hip.source)
    sdk = release_for(stack.hip.range) if stack.hip.source is HipSource.SDK else None
    reported = sdk_notes(gfx, sdk.version) if sdk is not None else ()
    return Selection(
        stack_id=stack.id,
        reason=reason,
        warnings=(*((need,) if need else ()), *reported),
        unproven=worth(stack.id, gfx) is None,
    )


def _serves(stack: Stack, *, os: str, gfx: str) -> bool:
    return stack.requires.os in {"", os} and (not gfx or not stack.requires.gfx or gfx in stack.requires.gfx)


def _way_out(lock: Lock, *, os: str, gfx: str) -> str:
    proposal = _proposed(lock, os=os, gfx=gfx)
    if proposal is not None:
        return f"run `invoke pins.update --gpu={gfx} --for={os} --write`, which completes {proposal.stack}"
    return f"run `invoke native --gpu={gfx}`"
