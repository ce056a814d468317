"""Processes told apart: a process id alone is used again, id and start together are not."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def process_start_time(pid: int) -> str | None:
    """Return a token that no later process with this id shares, or ``None`` if there is none.

    On Linux it is the kernel's own tick count since boot and the boot's identity, because a start
    *time* moves when the clock is set; on Windows the creation time, which is fixed.
    """
    if sys.platform == "linux":
        return _ticks(pid)
    import psutil  # noqa: PLC0415 - Windows only, and not small

    try:
        return f"{psutil.Process(pid).create_time() * 1_000_000:.0f}"
    except psutil.NoSuchProcess:
        return None


def own_identity() -> tuple[int, str]:
    """Return this process's id and start token."""
    return os.getpid(), process_start_time(os.getpid()) or "0"


def _ticks(pid: int) -> str | None:
    """Read field 22 of ``/proc/PID/stat``; the name before it may hold spaces and brackets."""
    try:
        fields = (Path("/proc") / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        return None
    if fields[0] in {b"Z", b"X"}:
        return None
    return f"{boot[:8]}{fields[19].decode()}"
