"""What of HIP is really there behind a stack: its libraries, and their kernels for one GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

#: The HIP libraries that a translation layer stands on.
LIBRARIES: Final = ("amdhip64", "rocblas", "hipblaslt", "rocsparse", "miopen")
#: Where libraries keep kernels as files; the others carry them inside, or compile them.
_KERNELS: Final[Mapping[str, tuple[str, ...]]] = {
    "rocblas": ("bin/rocblas/library", "lib/rocblas/library"),
    "hipblaslt": ("bin/hipblaslt/library", "lib/hipblaslt/library"),
}
MAX_FILES: Final = 20_000


def from_root(libraries: Iterable[str]) -> dict[str, bool | None]:
    """Say which back-ends a HIP root holds, by the names that were found in it."""
    there = {name.lower() for name in libraries}
    return {name: name in there for name in LIBRARIES}


def from_files(files: Iterable[str]) -> dict[str, bool | None]:
    """Say which back-ends a stack that brings its own HIP holds, by its files' names."""
    names = [name.rpartition("/")[2].lower() for name in files]
    starts = {name: (name, f"lib{name}") for name in LIBRARIES}
    return {
        name: any(file.startswith(start) and (".dll" in file or ".so" in file) for file in names)
        for name, start in starts.items()
    }


def kernels(root: Path, gfx: str) -> dict[str, bool | None]:
    """Say which back-ends hold kernels for a GPU; ``None`` where a root does not show it.

    hipBLASLt and rocBLAS name the architecture in their kernel files (or in a folder of that name).
    """
    found: dict[str, bool | None] = {}
    for library, places in _KERNELS.items():
        folder = next((root / place for place in places if (root / place).is_dir()), None)
        found[library] = None if folder is None or not gfx else _holds(folder, gfx)
    return found


def _holds(folder: Path, gfx: str) -> bool | None:
    """Whether a folder has a file for an architecture; ``None`` where nobody could list it."""
    try:
        for number, path in enumerate(folder.iterdir()):
            if gfx in path.name:
                return True
            if number > MAX_FILES:
                return None
    except OSError:
        return None
    return False
