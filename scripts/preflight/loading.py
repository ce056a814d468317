"""How a program comes to its CUDA driver: the facts that decide how a stack's libraries get in. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from msgspec import Struct

from scripts.binary.imports import search_path
from scripts.preflight.libraries import Part
from scripts.preflight.needs import Closure, Need, Visited

_PLAIN_LOADS = frozenset({"LoadLibraryA", "LoadLibraryW"})
_OTHER_LOADS = frozenset({"LoadLibraryExA", "LoadLibraryExW", "SetDefaultDllDirectories", "AddDllDirectory"})


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


def loading_of(
    closure: Closure,
    provided: Collection[str],
    *,
    hidden: bool,
    exists: Callable[[Path], bool] = Path.is_file,
) -> Loading:
    """Say how the program loads the driver.

    Args:
        closure: what was read.
        provided: the libraries the stack has, as pins.lock names them.
        hidden: the program is of a kind that hides what it uses, so that nothing seen is no proof.
        exists: whether a file is there.
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
        own_copies=tuple(dict.fromkeys(_own_copies(closure, provided, exists))),
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


def _own_copies(closure: Closure, provided: Collection[str], exists: Callable[[Path], bool]) -> list[str]:
    """Name the program's own copies that would win over a search path."""
    by_path = {v.path: v for v in closure.visited}
    rpath = closure.program.facts.rpath if not closure.program.facts.runpath else ()
    found = []
    for need in closure.needs:
        if need.named.library.part is not Part.PLAIN or need.named.key not in provided:
            continue
        asker = by_path.get(need.asker)
        if asker is None or asker.facts.format != "elf":
            found += [need.own.name] if need.own is not None else []
            continue
        # DT_RPATH beats LD_LIBRARY_PATH, unless the file also has DT_RUNPATH; the program's is inherited.
        own = asker.facts.rpath if not asker.facts.runpath else ()
        folders = (*search_path(asker.path, own), *search_path(closure.program.path, rpath))
        found += [need.file for folder in folders if exists(folder / need.file)][:1]
    return found
