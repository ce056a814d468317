"""The libraries of a HIP runtime that translation layers call: their files, their kernels, what needs them.

The table is ``[[library]]`` in ``data/hip.toml``. Names are compared without regard to case.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from scripts.serialize import data_table

TABLE: Final = "hip.toml"
#: The HIP runtime itself, which every other library and every CUDA program needs.
RUNTIME: Final = "amdhip64"
#: Where libraries and kernels lie in a HIP root, on Windows and on Linux.
TOPS: Final = ("bin", "lib")
MAX_FILES: Final = 20_000
_GENERATION: Final = re.compile(rf"{RUNTIME}(?:_(\d+))?\.dll", re.IGNORECASE)


class HipLibrary(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One library.

    Attributes:
        name: what the lock's ``needs`` calls it.
        label: how its project writes it.
        files: patterns of its file names in a HIP root, lower case.
        asked: the names a translation layer loads it by on Windows, preferred first; empty if none does.
        whole: a HIP root without it is incomplete.
        newer: only newer layers call it.
        kernels: the folder of its kernel files below ``bin`` or ``lib``; empty where it has none.
        cuda: the CUDA library that fails without it.
        failing: the start of the call that fails without it; empty where no call tells.
        statuses: what that call returns then.
    """

    name: str
    label: str
    files: tuple[str, ...]
    asked: tuple[str, ...] = ()
    whole: bool = False
    newer: bool = False
    kernels: str = ""
    cuda: str = ""
    failing: str = ""
    statuses: tuple[int, ...] = ()

    @property
    def essential(self) -> bool:
        """Whether no CUDA program can start without it."""
        return self.name == RUNTIME


@cache
def hip_libraries() -> dict[str, HipLibrary]:
    """Return every library of the table by name, in its order."""
    rows = msgspec.convert(data_table(TABLE)["library"], tuple[HipLibrary, ...])
    return {library.name: library for library in rows}


def layer_libraries() -> tuple[HipLibrary, ...]:
    """Return the libraries that a translation layer loads."""
    return tuple(library for library in hip_libraries().values() if library.asked)


def asked_names(name: str) -> tuple[str, ...]:
    """Return the file names a translation layer loads a library by on Windows, preferred first."""
    library = hip_libraries().get(name)
    return library.asked if library is not None and library.asked else (f"{name}.dll",)


def generation(file: str) -> str | None:
    """Return the number in the file name of a HIP runtime for Windows; empty before it had one.

    ``None``: the file is no HIP runtime.
    """
    match = _GENERATION.fullmatch(file)
    return None if match is None else match[1] or ""


def libraries_named(files: Iterable[str]) -> tuple[str, ...]:
    """Name the libraries that some files are, the runtime also by its generation.

    ``amdhip64_7.dll`` gives ``amdhip64`` and ``amdhip64_7``; ``libhipblaslt.dll`` gives ``hipblaslt``.
    """
    names = [name.lower() for name in files]
    found = {
        library.name
        for library in hip_libraries().values()
        if any(fnmatch.filter(names, pattern) for pattern in library.files)
    }
    found |= {f"{RUNTIME}_{number}" for name in names if (number := generation(name))}
    return tuple(sorted(found))


def runtime_marks() -> tuple[str, ...]:
    """Return patterns of paths that lie below the root of a HIP runtime or of its kernels for one GPU.

    Lower case, POSIX. Source: ROCm/TheRock@89553ce.
    """
    known = hip_libraries().values()
    patterns = [pattern for library in known for pattern in library.files]
    files = (f"{'bin' if pattern.endswith('.dll') else 'lib'}/{pattern}" for pattern in patterns)
    kernel_files = (f"{top}/{library.kernels}/*" for library in known if library.kernels for top in TOPS)
    return (*files, *kernel_files, ".kpack/*.kpack")


def unversioned(name: str) -> str:
    """Return the name without a version of one of these libraries for Linux; empty where it is none.

    ``libamdhip64.so.7`` gives ``libamdhip64.so``, by which layers ask for it whatever its version is
    (vosen/ZLUDA@ee2f25a, xtask). AMD's Python packages hold the file under the first name alone.
    """
    stem, mark, version = name.partition(".so.")
    patterns = [pattern for library in hip_libraries().values() for pattern in library.files]
    known = any(fnmatch.fnmatchcase(name.lower(), p) for p in patterns if p.endswith(".so*"))
    return f"{stem}.so" if mark and version and known else ""


def backends_in_root(libraries: Iterable[str]) -> dict[str, bool | None]:
    """Say which back-ends a HIP root holds, by the names that were found in it."""
    there = {name.lower() for name in libraries}
    return {library.name: library.name in there for library in layer_libraries()}


def backends_in_files(files: Iterable[str]) -> dict[str, bool | None]:
    """Say which back-ends a stack that brings its own HIP holds, by its files' names."""
    return backends_in_root(libraries_named(name.rpartition("/")[2] for name in files))


def kernels_for(root: Path, gfx: str) -> dict[str, bool | None]:
    """Say which back-ends hold kernels for a GPU; ``None`` where a root does not show it.

    hipBLASLt and rocBLAS name the architecture in their kernel files (or in a folder of that name).
    """
    found: dict[str, bool | None] = {}
    for library in hip_libraries().values():
        if library.kernels:
            places = (root / "bin" / library.kernels, root / "lib" / library.kernels)
            folder = next((place for place in places if place.is_dir()), None)
            found[library.name] = None if folder is None or not gfx else _holds(folder, gfx)
    return found


def _holds(folder: Path, gfx: str) -> bool | None:
    """Whether a folder has a file for an architecture; ``None`` where it cannot be listed."""
    try:
        for number, path in enumerate(folder.iterdir()):
            if gfx in path.name:
                return True
            if number > MAX_FILES:
                return None
    except OSError:
        return None
    return False


def library_behind(call: str, status: int) -> HipLibrary | None:
    """Return the library whose absence makes a CUDA library's first call fail with this status.

    Source: vosen/ZLUDA@87531d3 zluda_windows: the layer reports a missing back-end by these numbers.
    """
    known = hip_libraries().values()
    return next((one for one in known if one.failing == call and status in one.statuses), None)
