"""Libraries of NVIDIA's that were not found: whether the active stack brings them, and how it is used."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.app.context import Workspace, lock_of, newest
from scripts.app.stack_facts import stack_facts
from scripts.doctor.machine import Line, Status
from scripts.lock.resolve import find_stack
from scripts.model import Host
from scripts.preflight.cuda_providers import missing_cuda_library
from scripts.staging.generations import read_history

_LOOKED_AT = "the files of the active stack"


def library_lines(ws: Workspace, names: Iterable[str], host: Host) -> tuple[Line, ...]:
    """Say of each library of NVIDIA's that was not found what brings it; nothing about others."""
    names = [name for name in dict.fromkeys(names) if missing_cuda_library(name, stack="", provided=())]
    if not names:
        return ()
    now = read_history(ws.stage).active
    stack, provided = "", frozenset[str]()
    if now is not None:
        lock = lock_of(ws)
        facts = stack_facts(lock, find_stack(lock, now.stack), host, newest(ws, now.stack))
        stack, provided = now.stack, frozenset(facts.providers)
    found = (missing_cuda_library(name, stack=stack, provided=provided) for name in names)
    return tuple(
        Line(status=Status.FAIL, topic="program", text=one.outside, looked_at=_LOOKED_AT)
        for one in found
        if one is not None
    )
