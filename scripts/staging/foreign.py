"""Which stack another machine uses, of which only the system and the GPU are known. Pure."""

from __future__ import annotations

import re
from typing import Final

from scripts.errors import HostError, UsageError
from scripts.host.support import no_stack_possible, release_for, sdk_notes
from scripts.lock.proposals import fits, proposed_for
from scripts.lock.reader import find_stack
from scripts.model import HipSource, Lock, Stack, StackKind
from scripts.staging.select import Selection, Worth, newest_first, only_when_named

SYSTEMS: Final = ("windows", "linux")
_GFX: Final = re.compile(r"gfx[0-9a-f]{3,4}")


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
    if os not in SYSTEMS:
        raise UsageError("bad-system", f"--for={os} is no system", hint=f"use one of: {', '.join(SYSTEMS)}")
    if not _GFX.fullmatch(gfx) and (gfx or not want):
        msg = f"--for={os} needs the architecture of the other machine's GPU"
        raise UsageError("bad-architecture", msg, hint=f"write for example --for={os} --gpu=gfx1100")
    if want:
        stack = find_stack(lock, want)
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
    proposal = proposed_for(gfx, os)
    if proposal is not None and fits(proposal, lock):
        return f"run `invoke pins.update --gpu={gfx} --for={os} --write`, which completes {proposal.stack}"
    return f"run `invoke native --gpu={gfx}`"
