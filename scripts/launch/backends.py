"""HIP libraries that must exist before a program starts: a missing one opens a box that nobody may see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.errors import HostError
from scripts.model import Runtime

#: HIP library to the file names that answer for it on Windows (vosen/ZLUDA@87531d3, ``zluda_windows``).
FILES: Final[dict[str, tuple[str, ...]]] = {
    "amdhip64": ("amdhip64_7.dll", "amdhip64_6.dll"),
    "rocblas": ("rocblas.dll",),
    "hipblaslt": ("hipblaslt.dll", "libhipblaslt.dll"),
    "rocsparse": ("rocsparse.dll",),
    "miopen": ("MIOpen.dll",),
}
#: Without these nothing works; the others are missed only by programs that use what needs them.
ESSENTIAL: Final = frozenset({"amdhip64"})


@dataclass(frozen=True, kw_only=True)
class MissingBackend:
    """One HIP library that is nowhere, and the CUDA libraries that will fail without it."""

    library: str
    files: tuple[str, ...]
    provides: tuple[str, ...]


def missing_backends(
    runtime: Runtime,
    folders: Sequence[Path],
    *,
    exists: Callable[[Path], bool],
) -> tuple[MissingBackend, ...]:
    """Return the HIP libraries that a runtime needs and that none of ``folders`` holds."""
    wanted: dict[str, list[str]] = {}
    for file in runtime.files:
        for need in file.needs if file.provides else ():
            wanted.setdefault(need, []).append(file.provides or "")
    missing = []
    for library, provides in sorted(wanted.items()):
        names = FILES.get(library, (f"{library}.dll",))
        if not any(exists(folder / name) for folder in folders for name in names):
            missing.append(
                MissingBackend(library=library, files=names, provides=tuple(sorted(set(provides))))
            )
    return tuple(missing)


def refuse_or_note(missing: Sequence[MissingBackend]) -> tuple[str, ...]:
    """Refuse when nothing could work; otherwise return one sentence for each library that is missing.

    Raises:
        HostError: ``hip-library-missing``.
    """
    for item in missing:
        if item.library in ESSENTIAL:
            msg = f"the HIP runtime has no {' or '.join(item.files)}: no CUDA program can start"
            hint = "install AMD's driver and the HIP SDK this stack needs, then `invoke scan`"
            raise HostError("hip-library-missing", msg, hint=hint)
    return tuple(
        f"{item.files[0]} is not installed: {', '.join(item.provides)} will fail, and may show a box"
        for item in missing
    )
