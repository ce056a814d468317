"""Which checkouts share the store: one line each in the user's state folder, as an index only.

Pruning asks every checkout that is still there what it may go back to; one that was deleted is forgotten.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from scripts.system.files import write_atomic

NAME: Final = "workspaces.json"


def known_stages(state_root: Path) -> tuple[Path, ...]:
    """Return the stages of all checkouts that still exist; an unreadable index knows none."""
    try:
        names = json.loads((state_root / NAME).read_text(encoding="utf-8"))["stages"]
        return tuple(path for path in map(Path, names) if path.is_dir())
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ()


def remember_stage(state_root: Path, stage: Path) -> None:
    """Add a checkout to the index; already known is nothing to do."""
    if stage in known_stages(state_root):
        return
    state_root.mkdir(parents=True, exist_ok=True)
    with _changing(state_root):
        stages = sorted({str(stage), *map(str, known_stages(state_root))})
        write_atomic(state_root / NAME, (json.dumps({"stages": stages}, indent=1) + "\n").encode())


def forget_stage(state_root: Path, stage: Path) -> None:
    """Take a checkout out of the index."""
    if not (state_root / NAME).exists():
        return
    with _changing(state_root):
        stages = sorted(str(s) for s in known_stages(state_root) if s != stage)
        write_atomic(state_root / NAME, (json.dumps({"stages": stages}, indent=1) + "\n").encode())


def _changing(state_root: Path) -> AbstractContextManager[object]:
    """Keep other processes from changing the index meanwhile."""
    from filelock import FileLock  # noqa: PLC0415 - slow to import, and most runs only read

    return FileLock(state_root / f".{NAME}.lock", timeout=60)
