"""In which folder a library must lie so that the file that asks for it finds it. Pure but for ``exists``.

Windows, for a library that is imported or loaded by its bare name: the folder of the file that asks, and the
program's, because a host may load its plugins either way; Python looks into the first alone. Linux: where
RPATH and RUNPATH say; a name that is only spelled in the file may be joined with the file's own folder. A
copy of the program's own shows where the loader looks, wherever it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path, PurePosixPath

from msgspec import Struct

from scripts.binary.imports import search_path
from scripts.preflight.libraries import Part
from scripts.preflight.needs import Closure, Need, Visited


class Place(Struct, frozen=True, kw_only=True):
    """One library in one folder.

    Attributes:
        library: as pins.lock calls it in ``provides``.
        name: the file name that is asked for.
        folder: absolute.
        asker: name of the file that asks.
    """

    library: str
    name: str
    folder: Path
    asker: str


class Places(Struct, frozen=True, kw_only=True):
    """Where a program's files look for the libraries that a stack has.

    Attributes:
        found: every folder and name.
        unserved: one sentence for each library that no folder brings to the file that asks.
        complete: whether these are all; if not, the program may ask for others in its own folder.
        absent: HIP libraries that are known to be missing; what needs them is better not placed.
        roots: folders that hold the program, the nearest first; nothing outside them belongs to it.
    """

    found: tuple[Place, ...] = ()
    unserved: tuple[str, ...] = ()
    complete: bool = True
    absent: frozenset[str] = frozenset()
    roots: tuple[Path, ...] = ()


def places_of(
    closure: Closure,
    provided: Collection[str],
    *,
    python: bool,
    exists: Callable[[Path], bool] = Path.exists,
) -> tuple[tuple[Place, ...], tuple[str, ...]]:
    """Return the places of everything a stack provides, and what no place serves.

    Args:
        closure: what was read.
        provided: the libraries the stack has, as pins.lock names them.
        python: the program is an interpreter: its extensions look into their own folders first.
        exists: whether a file or folder is there.
    """
    by_path = {visited.path: visited for visited in closure.visited}
    found: dict[tuple[str, Path], Place] = {}
    unserved: dict[str, str] = {}
    for need in closure.needs:
        asker = by_path.get(need.asker)
        if need.named.library.part is not Part.PLAIN or need.named.key not in provided or asker is None:
            continue
        name = PurePosixPath(need.file.replace("\\", "/")).name
        why = _system_only(need, asker)
        folders = () if why else tuple(_folders(need, name, asker, closure, python=python, exists=exists))
        for folder in folders:
            place = Place(library=need.named.key, name=name, folder=folder, asker=asker.path.name)
            found.setdefault((name.casefold(), folder), place)
        if not folders:
            unserved.setdefault(
                name, f"{name} is not placed for {why or asker.path.name}: {_BECAUSE[bool(why)]}"
            )
    served = {place.name for place in found.values()}
    return tuple(found.values()), tuple(text for name, text in unserved.items() if name not in served)


_BECAUSE = {
    True: "it asks the system folder alone",
    False: "it looks into no folder of the program's for it, and `wrap` puts the stack in its search path",
}


def _system_only(need: Need, asker: Visited) -> str:
    """Name who asks the system folder alone on behalf of this need; empty where none does."""
    if asker.facts.format == "elf" or need.named.library.id != "nvcuda":
        return ""
    if need.chain[-1] != asker.path.name:
        return need.chain[-1]  # the CUDA runtime
    strict = "system-only" in asker.facts.flags or (need.how == "string" and asker.facts.static_runtime)
    return asker.path.name if strict else ""


def _folders(
    need: Need, name: str, asker: Visited, closure: Closure, *, python: bool, exists: Callable[[Path], bool]
) -> Iterator[Path]:
    """Yield the folders in which this file's loader meets the name before any other."""
    if asker.facts.format == "elf":
        spelled = [asker.path.parent] if need.how == "string" else []
        yield from list(_linux(name, asker, closure, exists)) or spelled
        return
    home = closure.program.path.parent
    near = dict.fromkeys((asker.path.parent, home) if not python else (asker.path.parent,))
    own = dict.fromkeys(copy.parent for copy in need.copies)
    reached = [folder for folder in (*near, home) if folder in own]
    yield from dict.fromkeys(reached) or own or near


def _linux(name: str, asker: Visited, closure: Closure, exists: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield the folder of the copy that RPATH or RUNPATH finds, else the first one where it would look."""
    facts, program = asker.facts, closure.program
    inherited = program.facts.rpath if not program.facts.runpath else ()
    folders = (
        *search_path(asker.path, (*facts.rpath, *facts.runpath)),
        *search_path(program.path, inherited),
    )
    there = [folder for folder in folders if exists(folder)]
    yield from ([folder for folder in there if exists(folder / name)] or there)[:1]
