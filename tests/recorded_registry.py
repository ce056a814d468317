"""A registry made of plain data, put in the place of the real one before a command is typed.

Everything else of the command is the real thing. Names are compared without regard to case, as Windows does.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

#: The variable that names the file with the data.
VARIABLE = "RECORDED_REGISTRY"
#: How many bytes every volume says are free; unset: what it really has.
FREE = "RECORDED_FREE"
_DISK_USAGE = shutil.disk_usage


class Recorded:
    """The keys and values of a file."""

    def __init__(self, data: dict[str, dict[str, object]]) -> None:
        self.data = data

    def keys(self, path: str) -> tuple[str, ...]:
        start = f"{path}\\".lower()
        below = [name[len(start) :] for name in self.data if name.lower().startswith(start)]
        return tuple(sorted({name.partition("\\")[0] for name in below}))

    def values(self, path: str) -> dict[str, object] | None:
        return next((values for name, values in self.data.items() if name.lower() == path.lower()), None)


def _usage(free: int, at: str) -> object:
    """Say what a volume has, with that much of it free."""
    return _DISK_USAGE(at)._replace(free=free)


def prepare(environ: Mapping[str, str]) -> None:
    """Let this process read the recorded registry, and have as much free space as is said."""
    from scripts.host.windows_registry import WinRegistry  # noqa: PLC0415 - it exists on Windows only

    free = environ.get(FREE)
    setattr(shutil, "disk_usage", _DISK_USAGE if free is None else partial(_usage, int(free)))  # noqa: B010 - typed otherwise
    recorded = Recorded(json.loads(Path(environ[VARIABLE]).read_text(encoding="utf-8")))
    for name in ("keys", "values"):
        setattr(WinRegistry, name, staticmethod(getattr(recorded, name)))
