"""What the doctor says of our own tasks when they fail."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from scripts.app.context import Workspace, host_of
from scripts.app.doctor.machine_look import facts_of
from scripts.doctor.diagnose import SURE, Finding, diagnose
from scripts.errors import WorkspaceError
from scripts.host.gpu import AMD

#: The tasks that run something under a stack or fetch it: what they print is worth explaining.
EXPLAINED: Final = frozenset({"setup", "fetch", "stage", "check", "run", "validate", "wrap", "precompile"})
#: Of a program's log so much of its end is read.
LOG_END: Final = 16 * 1024 * 1024


def best_finding(ws: Workspace, text: str | bytes) -> Finding | None:
    """Explain the output of a task of ours, or say nothing: only what is more likely than not is worth it.

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
    return found if found is not None and found.confidence > SURE else None


def words_of(failed: object, *, log: str = "") -> bytes:
    """Return what a failed task printed: an error's words, a result's output, the logs beside its document.

    ``log`` is the file that ``wrap`` wrote a program's output to.
    """
    if isinstance(failed, WorkspaceError):
        return "\n".join((failed.message, *failed.context)).encode("utf-8", "replace")
    parts: list[bytes] = []
    output, ending = getattr(failed, "output", b""), getattr(failed, "ending", ())
    if isinstance(output, bytes):
        parts.append(output)
    parts += [str(sentence).encode("utf-8", "replace") for sentence in ending]
    evidence = getattr(failed, "evidence", "")
    beside = sorted(Path(evidence).parent.glob("*.log")) if evidence else []
    parts += [_end_of(path) for path in (*beside, *([Path(log)] if log else []))]
    return b"\n".join(part for part in parts if part)


def _end_of(path: Path) -> bytes:
    """Return the end of a log; nothing where it cannot be read."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - LOG_END))
            return stream.read()
    except OSError:
        return b""
