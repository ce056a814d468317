"""What the doctor says of a program that one of our tasks ran: of its output, never of our own sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scripts.app.context import Workspace, host_of
from scripts.app.doctor.machine_look import facts_of
from scripts.doctor.diagnose import Finding, diagnose
from scripts.errors import WorkspaceError
from scripts.host.gpu import AMD

#: The tasks that run something under a stack or fetch it: what they print is worth explaining.
EXPLAINED: Final = frozenset({"setup", "fetch", "stage", "check", "run", "validate", "wrap", "precompile"})
#: Of a program's log so much of its end is read.
LOG_END: Final = 16 * 1024 * 1024


def best_finding(ws: Workspace, text: str | bytes) -> Finding | None:
    """Explain what a program printed, or say nothing: only what is likely is worth it.

    Raises nothing of ours: advice must not hide what it is about.
    """
    if not text:
        return None
    try:
        host = host_of(ws)
    except WorkspaceError:
        return None
    gpu = host.selected_gpu
    # Whatever ran here ran on AMD's software where the GPU in use is AMD's.
    facts = facts_of(ws, host, amd=gpu is not None and gpu.vendor == AMD)
    found = next(iter(diagnose(text, facts)), None)
    return found if found is not None and found.confidence.sure else None


def output_of(failed: object, *, log: str = "") -> bytes:
    """Return what the program of a failed task printed, and how it ended; nothing of our own words.

    An error of ours carries its reference and says itself what to do; only a program's output that came with
    it (``output``) is worth explaining. ``log`` is the file that ``wrap`` wrote a program's output to.
    """
    parts: list[bytes] = []
    output = getattr(failed, "output", b"")
    if isinstance(output, bytes):
        parts.append(output)
    if isinstance(failed, WorkspaceError):
        return b"\n".join(parts)
    evidence = getattr(failed, "evidence", "")
    beside = sorted(Path(evidence).parent.glob("*.log")) if evidence else []
    parts += [_end_of(path) for path in (*beside, *([Path(log)] if log else []))]
    parts += [line.encode("utf-8", "replace") for line in _ending(failed)]
    return b"\n".join(part for part in parts if part)


def _ending(failed: object) -> Iterator[str]:
    """Yield how a program ended, as programs put it, and what its message boxes said."""
    ended = getattr(failed, "exit", None)
    for dialog in getattr(ended, "dialogs", ()):
        yield f"{dialog.title}: {dialog.text}"
    code = getattr(ended if ended is not None else failed, "code", None)
    if isinstance(code, int) and code and not getattr(ended, "timed_out", False):
        yield f"exit code {code}"


def _end_of(path: Path) -> bytes:
    """Return the end of a log; nothing where it cannot be read."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - LOG_END))
            return stream.read()
    except OSError:
        return b""
