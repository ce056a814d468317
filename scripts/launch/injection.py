"""Which way CUDA's libraries get into a program, and why: a fact about the program, not a taste."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from scripts.errors import LaunchError
from scripts.model import StackKind


class Via(StrEnum):
    """How a program comes to load our libraries, gentlest first."""

    ENV = "env"
    LAUNCHER = "launcher"
    BESIDE = "beside"


class ViaFacts(Struct, frozen=True, kw_only=True):
    """What decides; ``None`` is unknown (no preflight).

    Attributes:
        platform: ``sys.platform`` of the machine.
        kind: what the stack is for.
        launcher: whether the runtime holds a launcher that fits the program (64- or 32-bit).
        at_start: the start-up import closure names the driver library.
        bare_load: the driver library is loaded later by its bare name, with the default search.
        system_only: modules that ask the system folder alone (the CUDA runtime does), so that no
            copy of ours can answer them.
        nvrtc: the program compiles at run time through NVRTC, which only a launcher redirects.
        own_copies: CUDA libraries of the program's own that would be found before ours, because of
            its folder or an RPATH.
    """

    platform: str
    kind: StackKind
    launcher: bool = False
    at_start: bool | None = None
    bare_load: bool | None = None
    system_only: tuple[str, ...] = ()
    nvrtc: bool | None = None
    own_copies: tuple[str, ...] = ()


class ViaChoice(Struct, frozen=True, kw_only=True):
    """The chosen way and the sentence that says why."""

    via: Via
    reason: str


def choose_via(facts: ViaFacts) -> ViaChoice:
    """Choose the gentlest way that serves.

    Raises:
        LaunchError: ``no-way-in``, naming the module that none of the ways reaches.
    """
    if facts.kind is StackKind.CONTROL:
        return ViaChoice(
            via=Via.ENV, reason="this stack adds no files: the program finds the system's own CUDA"
        )
    if facts.platform != "win32":
        if facts.own_copies:
            first = facts.own_copies[0]
            return ViaChoice(via=Via.BESIDE, reason=f"the program would load its own {first} before ours")
        return ViaChoice(
            via=Via.ENV,
            reason="the stack's folders come first in its search path; nothing is written",
        )
    if facts.launcher:
        reason = "the CUDA runtime asks Windows' system folder only, which injection alone redirects"
        return ViaChoice(via=Via.LAUNCHER, reason=reason)
    unseen = facts.at_start is None and not facts.system_only and not facts.own_copies
    if facts.kind is StackKind.REFERENCE and unseen:
        return ViaChoice(
            via=Via.ENV, reason="this stack has no launcher; its folders come first in the search path"
        )
    return _beside_or_refuse(facts)


def _beside_or_refuse(facts: ViaFacts) -> ViaChoice:
    """Copies beside the program are right only where the program's own loading finds them.

    Copies of its own in the same places do not change that: the driver is what must be found.
    """
    reason = _not_beside(facts)
    if reason:
        known = facts.system_only or facts.nvrtc
        or_beside = "" if known else ", or add --via=beside if you know that it serves"
        hint = f"choose a stack with a launcher: see `invoke stacks`{or_beside}"
        raise LaunchError("no-way-in", f"{reason}, and this stack has no launcher", hint=hint)
    how = (
        "imports the driver library when it starts" if facts.at_start else "loads the driver library by name"
    )
    return ViaChoice(via=Via.BESIDE, reason=f"the program {how}, so copies in its folder are found")


def not_applicable_reason(via: Via, facts: ViaFacts) -> str:
    """Say why a way in does not apply to this program and stack; empty where it does."""
    windows = facts.platform == "win32"
    if via is Via.ENV:
        injected = windows and facts.kind is StackKind.TRANSLATION
        folder = "the CUDA runtime asks Windows' system folder, which a search path does not change"
        return folder if injected else ""
    if facts.kind is StackKind.CONTROL:
        return "this stack adds no files"
    if via is Via.LAUNCHER:
        absent = "this stack has no launcher" if windows else "the launcher is Windows' own"
        return "" if facts.launcher else absent
    return _not_beside(facts) if windows and facts.kind is StackKind.TRANSLATION else ""


def _not_beside(facts: ViaFacts) -> str:
    """Say why a Windows program would not find copies beside it."""
    if facts.system_only:
        return f"{facts.system_only[0]} loads CUDA from the system folder only"
    if facts.nvrtc:
        return "the program uses NVRTC, which only a launcher redirects"
    found = facts.at_start or facts.bare_load
    return "" if found else "nothing shows that this program would find copies beside it"
