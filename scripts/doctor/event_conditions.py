"""What a row of the doctor's table may ask of an event: each answers with the lines that show it. Pure.

A condition that does not hold answers ``None``; one that holds and that no line shows answers with no lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from scripts.doctor.event import ENDINGS, Event

Lines = tuple[int, ...]


def listed(wanted: object) -> Sequence[str]:
    """Return what a condition asks for as words."""
    return [str(item) for item in wanted] if isinstance(wanted, list) else [str(wanted)]


def _status(wanted: object, event: Event) -> Lines | None:
    """A code of one of these classes; ``enumeration:class`` for one of one enumeration only."""
    forms = set(listed(wanted))
    lines = [
        seen.line
        for seen in event.statuses
        if forms & {seen.code.kind, seen.code.name, f"{seen.code.enumeration}:{seen.code.kind}"}
        or f"{seen.code.enumeration}:*" in forms
    ]
    return tuple(lines) or None


def _call(wanted: object, event: Event) -> Lines | None:
    lines = [seen.line for seen in event.statuses if re.match(str(wanted), seen.call)]
    return tuple(lines) or None


def _object(wanted: object, event: Event, state: str) -> Lines | None:
    groups = set(listed(wanted))
    lines = [seen.line for seen in event.objects if seen.state == state and seen.owner.group in groups]
    return tuple(lines) or None


def _kind(wanted: object, event: Event) -> Lines | None:
    lines = [seen.line for seen in event.objects if seen.kind in listed(wanted)]
    return tuple(lines) or None


def _flag(wanted: object, *, known: bool) -> Lines | None:
    return () if known is wanted else None


def _system(wanted: object, event: Event) -> Lines | None:
    context = event.context
    there = {context.system} | ({"wsl"} if context.wsl else set())
    there |= {"container"} if context.container else set()
    return () if there & set(listed(wanted)) else None


def _torch(wanted: object, event: Event) -> Lines | None:
    flavours = set(event.context.torch) or {"unknown"}
    return () if flavours & set(listed(wanted)) else None


def _only_ending(wanted: object, event: Event) -> Lines | None:
    """Whether nothing is known but how a process ended."""
    endings = [seen.line for seen in event.statuses if seen.code.enumeration in ENDINGS]
    only = bool(endings) and len(endings) == len(event.statuses) and not event.objects
    return tuple(endings) if only is wanted else None


CONDITIONS_OF_EVENTS: Final[Mapping[str, Callable[[object, Event], Lines | None]]] = {
    "status": _status,
    "call": _call,
    "missing": lambda wanted, event: _object(wanted, event, "missing"),
    "refused": lambda wanted, event: _object(wanted, event, "refused"),
    "kind": _kind,
    "layer": lambda wanted, event: _flag(wanted, known=event.context.layer),
    "native": lambda wanted, event: _flag(wanted, known=event.native),
    "amd": lambda wanted, event: _flag(wanted, known=event.context.amd),
    "nvidia": lambda wanted, event: _flag(wanted, known=event.context.nvidia),
    "versions_differ": lambda wanted, event: _flag(wanted, known=event.context.versions_differ),
    "system": _system,
    "torch": _torch,
    "only_ending": _only_ending,
}
#: Conditions that show lines; a row without phrases needs one of them.
SHOWING: Final = frozenset({"status", "call", "missing", "refused", "kind", "only_ending"})
