"""Which CUDA libraries a program was seen to load while it ran, and whose they were."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from scripts.app.context import Staged
from scripts.app.wrap.wrap_types import WrapPlacement
from scripts.model import StackKind
from scripts.osal.fs import hash_file
from scripts.osal.mapped_files import MappedFiles
from scripts.preflight.libraries import DRIVER, Part, named

#: How ``provides`` names the driver library.
DRIVERS = frozenset({DRIVER, "cuda"})
#: Looks after which it is worth saying that nothing was seen: about a third of a second.
ENOUGH = 5


class LoadedLibrary(Struct, frozen=True, kw_only=True):
    """One library: NVIDIA's name for it, where it lay, and its hash (empty where it could not be read)."""

    library: str
    path: str
    sha256: str = ""


class LoadedLibraries(Struct, frozen=True, kw_only=True):
    """What was seen, in so many looks.

    Attributes:
        looks: how often the processes were looked at; a library that came and went between two is missed.
        from_stack: libraries of the stack.
        from_elsewhere: libraries of the same names that are not the stack's.
        driver_expected: whether the stack has a driver library, without which its other libraries do nothing.
    """

    looks: int = 0
    from_stack: list[LoadedLibrary] = field(default_factory=list)
    from_elsewhere: list[LoadedLibrary] = field(default_factory=list)
    driver_expected: bool = False

    @property
    def sentences(self) -> tuple[str, ...]:
        """Say what was seen; nothing where nothing is known."""
        said = []
        if self.from_stack or self.from_elsewhere:
            ours = ", ".join(Path(one.path).name for one in self.from_stack) or "none"
            others = ", ".join(one.path for one in self.from_elsewhere) or "none"
            said.append(
                f"CUDA libraries that were seen loaded: from the stack {ours}; from elsewhere {others}"
            )
        driver = any(one.library in DRIVERS for one in self.from_stack)
        if self.driver_expected and not driver and self.looks >= ENOUGH:
            said.append(f"the stack's driver library was not seen loaded in {self.looks} looks")
        return tuple(said)


def is_cuda(name: str) -> bool:
    """Whether a file name is one of NVIDIA's libraries that a stack may replace."""
    found = named(name)
    return found is not None and found.library.part is not Part.RUNTIME


def loaded_libraries(
    mapped: MappedFiles, staged: Staged, placement: WrapPlacement, *, hashes: bool
) -> LoadedLibraries:
    """Tell the stack's libraries from others.

    Args:
        mapped: what was seen.
        staged: the stack that ran.
        placement: what lay beside the program meanwhile.
        hashes: whether files from elsewhere are read for their hashes, which takes time.
    """
    runtime = staged.runtime
    known = {}
    if runtime.path is not None:
        known = {_real(runtime.path / file.name): file.sha256 for file in runtime.files}
    if placement.target is not None:
        known |= {_real(placement.target / path): digest for path, digest in placement.hashes.items()}
    ours, others = [], []
    for path in sorted(mapped.paths):
        found = named(os.path.basename(path))  # noqa: PTH119 - a path of another process, as text
        library = found.key if found is not None else ""
        real = _real(path)
        if real in known:
            ours.append(LoadedLibrary(library=library, path=path, sha256=known[real]))
        else:
            digest = _hash(path) if hashes else ""
            others.append(LoadedLibrary(library=library, path=path, sha256=digest))
    return LoadedLibraries(
        looks=mapped.looks,
        from_stack=ours,
        from_elsewhere=others,
        driver_expected=staged.stack.kind is not StackKind.CONTROL and _has_driver(staged),
    )


def _has_driver(staged: Staged) -> bool:
    """Whether the stack answers for the driver library."""
    return any(file.provides in DRIVERS for file in staged.runtime.files)


def _real(path: Path | str) -> str:
    """Return the form in which two names of one file are equal."""
    return os.path.normcase(os.path.realpath(path))


def _hash(path: str) -> str:
    """Hash a file that may be gone by now."""
    with suppress(OSError):
        return hash_file(Path(path))
    return ""
