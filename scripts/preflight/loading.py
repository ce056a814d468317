"""How a program comes to its CUDA libraries, and where they must lie to be found. Pure but for ``exists``.

Windows, for a library that is imported or loaded by its bare name: the folder of the file that asks, and the
program's, because a host may load its plugins either way; Python looks into the first alone. Linux: where
RPATH and RUNPATH say; a name that is only spelled in the file may be joined with the file's own folder. A
copy of the program's own shows where the loader looks, wherever it lies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.binary.imports import asked_name, search_path
from scripts.preflight.libraries import Named, Part, named
from scripts.preflight.needs import Closure, Need, Visited
from scripts.serialize import JsonRecord


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
    closure: Closure, provided: Collection[str], *, python: bool
) -> tuple[tuple[Place, ...], tuple[str, ...]]:
    """Return the places of everything a stack provides, and what no place serves.

    Args:
        closure: what was read.
        provided: the libraries the stack has, as pins.lock names them.
        python: the program is an interpreter: its extensions look into their own folders first.
    """
    by_path = {visited.path: visited for visited in closure.visited}
    found: dict[tuple[str, Path], Place] = {}
    unserved: dict[str, str] = {}
    for need in closure.needs:
        asker = by_path.get(need.asker)
        if need.named.library.part is not Part.PLAIN or need.named.key not in provided or asker is None:
            continue
        name = asked_name(need.file)
        why = _system_only(need, asker)
        folders = () if why else tuple(_folders(need, name, asker, closure, python=python))
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


def _folders(need: Need, name: str, asker: Visited, closure: Closure, *, python: bool) -> Iterator[Path]:
    """Yield the folders in which this file's loader meets the name before any other."""
    if asker.facts.format == "elf":
        spelled = [asker.path.parent] if need.how == "string" else []
        yield from list(_linux(name, asker, closure)) or spelled
        return
    home = closure.program.path.parent
    near = dict.fromkeys((asker.path.parent, home) if not python else (asker.path.parent,))
    own = dict.fromkeys(copy.parent for copy in need.copies)
    reached = [folder for folder in (*near, home) if folder in own]
    yield from dict.fromkeys(reached) or own or near


def _linux(name: str, asker: Visited, closure: Closure) -> Iterator[Path]:
    """Yield the folder of the copy that RPATH or RUNPATH finds, else the first one where it would look."""
    folders = (
        *search_path(asker.path, (*asker.facts.rpath, *asker.facts.runpath)),
        *_by_rpath(closure.program),
    )
    there = [folder for folder in folders if folder.exists()]
    yield from ([folder for folder in there if (folder / name).exists()] or there)[:1]


def _by_rpath(file: Visited) -> Iterator[Path]:
    """Yield the folders of a file's RPATH, which counts for what it loads too, unless it has RUNPATH."""
    return search_path(file.path, file.facts.rpath if not file.facts.runpath else ())


_PLAIN_LOADS = frozenset({"LoadLibraryA", "LoadLibraryW"})
_OTHER_LOADS = frozenset({"LoadLibraryExA", "LoadLibraryExW", "SetDefaultDllDirectories", "AddDllDirectory"})
#: Functions that say how a program loads libraries later.
LOADERS: Final = _PLAIN_LOADS | _OTHER_LOADS | {"SetDllDirectoryA", "SetDllDirectoryW"}


class Loading(Struct, frozen=True, kw_only=True):
    """``None`` means that the files do not tell.

    Attributes:
        at_start: the chain of imports from the program names the driver.
        bare_load: the driver is loaded later by its bare name, with the default search.
        system_only: files that look for the driver in the system folder alone: the CUDA runtime, and what
            was linked with that wish. Empty where the driver is in the process before they ask.
        nvrtc: the program compiles while it runs.
        own_copies: libraries of the program's own that are found before the search path.
    """

    at_start: bool | None = None
    bare_load: bool | None = None
    system_only: tuple[str, ...] = ()
    nvrtc: bool | None = None
    own_copies: tuple[str, ...] = ()


def loading_of(closure: Closure, provided: Collection[str], *, hidden: bool) -> Loading:
    """Say how the program loads the driver.

    Args:
        closure: what was read.
        provided: the libraries the stack has, as pins.lock names them.
        hidden: the program is of a kind that hides what it uses, so that nothing seen is no proof.
    """
    if not closure.needs:
        return Loading()
    driver = [n for n in closure.needs if n.named.library.id == "nvcuda"]
    by_path = {v.path: v for v in closure.visited}
    strict = tuple(v.path.name for v in closure.visited if "system-only" in v.facts.flags)
    at_start = any(n.at_start and n.asker.name not in strict for n in driver)
    bare = any(_bare(n, by_path[n.asker]) for n in driver if n.asker in by_path)
    nvrtc = any(n.named.library.part is Part.COMPILER for n in closure.needs)
    silent = None if hidden else False
    return Loading(
        at_start=at_start or silent,
        bare_load=bare or silent,
        system_only=() if at_start else (*strict, *_runtimes(closure)),
        nvrtc=nvrtc or silent,
        own_copies=tuple(dict.fromkeys(_own_copies(closure, provided))),
    )


def _runtimes(closure: Closure) -> list[str]:
    """Name the copies of the CUDA runtime: shared ones as asked for, and files that have it linked in."""
    shared = [n.file for n in closure.needs if n.named.library.part is Part.RUNTIME]
    linked = [v.path.name for v in closure.visited if v.facts.static_runtime]
    return list(dict.fromkeys((*shared, *linked)))


def _bare(need: Need, asker: Visited) -> bool:
    """Whether a later load of the driver is proven to use the default search.

    A delay-load is. A name in a string is only where the file can load by nothing but plain LoadLibrary.
    """
    if need.how == "delay":
        return True
    loaders = set(asker.facts.loaders)
    plain = bool(loaders & _PLAIN_LOADS) and not loaders & _OTHER_LOADS
    return need.how == "string" and plain and not asker.facts.static_runtime


def _own_copies(closure: Closure, provided: Collection[str]) -> list[str]:
    """Name the program's own copies that would win over a search path."""
    by_path = {v.path: v for v in closure.visited}
    found = []
    for need in closure.needs:
        if need.named.library.part is not Part.PLAIN or need.named.key not in provided:
            continue
        asker = by_path.get(need.asker)
        if asker is None or asker.facts.format != "elf":
            found += [need.own.name] if need.own is not None else []
            continue
        # DT_RPATH beats LD_LIBRARY_PATH; the program's is inherited.
        folders = (*_by_rpath(asker), *_by_rpath(closure.program))
        found += [need.file for folder in folders if (folder / need.file).is_file()][:1]
    return found


#: From this version of CUDA on the names of packages on PyPI have no suffix for it.
_NO_SUFFIX: Final = 13


class MissingCudaLibrary(JsonRecord, frozen=True, kw_only=True):
    """One library that was not found.

    Attributes:
        name: its file name.
        title: what it is.
        stack: the stack that was asked; empty where none is active.
        served: that stack has it.
        others: the versions of it that the stack has instead.
        package: NVIDIA's package on PyPI with it; empty where that would not help or is not known.
    """

    name: str
    title: str
    stack: str = ""
    served: bool = False
    others: tuple[str, ...] = ()
    package: str = ""

    @property
    def outside(self) -> str:
        """What to do about it where the program was started without a stack."""
        if self.served:
            return (
                f"{self.name} comes with {self.stack}, whose folder is on the search path inside `wrap` "
                "alone: start the program with `invoke wrap`"
            )
        if not self.stack:
            return (
                f"{self.name} is {self.title}, which a stack may bring: set one up with `invoke setup`, "
                "then start the program with `invoke wrap`"
            )
        return self.inside

    @property
    def inside(self) -> str:
        """What provides it where the stack's folder is on the search path."""
        if self.served:
            return f"{self.name} is part of {self.stack}; check that its files are whole: `invoke verify`"
        if self.others:
            has = " and ".join(self.others)
            return (
                f"{self.stack} has {has}, not {self.name}: look for a build of the program for one of these"
            )
        if self.package:
            return (
                f"{self.stack} has no {self.name}; NVIDIA's package {self.package} has it: install that in "
                "the program's environment, and put the folder with the library on the search path"
            )
        return (
            f"{self.stack} has no {self.name}, and no package that brings it is known to work with this stack"
        )


def missing_cuda_library(name: str, *, stack: str, provided: Collection[str]) -> MissingCudaLibrary | None:
    """Say who brings a library; ``None`` where it is none of NVIDIA's.

    Args:
        name: its file name.
        stack: the id of the stack in question, empty without one.
        provided: the libraries that the stack has, as pins.lock names them.
    """
    meant = named(name)
    if meant is None:
        return None
    any_number = not meant.number and any(key.rstrip("0123456789") == meant.library.id for key in provided)
    served = meant.key in provided or any_number
    others = () if served else tuple(sorted(_others(meant, provided)))
    return MissingCudaLibrary(
        name=name,
        title=meant.title,
        stack=stack,
        served=served,
        others=others,
        package="" if served or others else package_of(meant),
    )


def package_of(meant: Named) -> str:
    """Return NVIDIA's package on PyPI for a library that stays the program's own; empty where none helps.

    Of a library that a translation layer has to answer for, NVIDIA's own copy does not run on other GPUs.
    """
    library = meant.library
    helps = library.part in {Part.RUNTIME, Part.COMPILER, Part.CLIENT}
    if not library.package or not helps or not meant.cuda.isdigit():
        return ""
    return library.package + (f"-cu{meant.cuda}" if int(meant.cuda) < _NO_SUFFIX else "")


def _others(meant: Named, provided: Collection[str]) -> list[str]:
    """Return by title which versions of a library are there."""
    library = meant.library
    numbers = [key.removeprefix(library.id) for key in provided if key.startswith(library.id)]
    return [f"{library.title} {number}" for number in numbers if number.isdigit()]
