"""What was read of each file, and which of NVIDIA's libraries a program asks for through all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from scripts.binary.imports import (
    AT_START,
    DELAYED,
    AskedName,
    ImportWalk,
    ReachedFile,
    asked_name,
    search_path,
)
from scripts.preflight.libraries import Named, Part, library_of, named, runtime_calls
from scripts.preflight.packaging import Listing

STATIC_RUNTIME: Final = "static-cudart"


class Code(Struct, frozen=True, kw_only=True):
    """The device code of one section.

    Attributes:
        ptx: (sm, letter, ISA version, count), sorted; the letter is that of ``sm_90a``, empty in most.
        sass: (sm, letter, count), sorted.
        modules: containers that hold code: one for each source file that nvcc compiled.
        sass_only: those without PTX.
        kernels_lost: kernels in them (an upper bound), ``None`` where they could not be counted.
        uncounted: the first reason why not.
        stubs: those whose only PTX lies far below their machine code.
        special: those whose PTX is for one processor or its family alone (all of it has a letter).
        unknown: those that cannot be judged; ``why`` is the first one's reason.
        complete: false where damage or a limit ended the reading; ``limit`` says the latter in numbers.
    """

    section: str
    relocatable: bool = False
    ptx: tuple[tuple[int, str, str, int], ...] = ()
    sass: tuple[tuple[int, str, int], ...] = ()
    modules: int = 0
    sass_only: int = 0
    kernels_lost: int | None = 0
    uncounted: str = ""
    stubs: int = 0
    special: int = 0
    unknown: int = 0
    why: str = ""
    complete: bool = True
    limit: str = ""


class Ask(Struct, frozen=True, kw_only=True):
    """A library asked for: ``how`` is ``import``, ``delay`` or ``string``.

    For a ``string`` the functions are texts in the file's data that begin like functions of that library.
    """

    library: str
    how: str
    functions: tuple[str, ...] = ()


class FileFacts(Struct, frozen=True, kw_only=True):
    """What was read of one file; ``format`` is empty where it is no program or library.

    Attributes:
        undefined: ELF: functions of NVIDIA's libraries that it needs, whoever brings them.
        loaders: functions by which it loads libraries later.
        sections: names of its sections.
        device: names the PTX that can be loaded by its content; empty where there is none.
        signs: which of the signs in ``data/kinds.toml`` lie in its bytes.
        flags: ``managed``, ``force-integrity``, ``system-only``, ``gui``, ``admin``, ``ui-access``.
        faults: what could not be read.
        then: what a person may name instead, where it is no program.
    """

    format: str = ""
    machine: str = ""
    library: bool = False
    asks: tuple[Ask, ...] = ()
    undefined: tuple[str, ...] = ()
    loaders: tuple[str, ...] = ()
    soname: str = ""
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    code: tuple[Code, ...] = ()
    device: str = ""
    signs: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    then: str = ""

    @property
    def static_runtime(self) -> bool:
        """Whether the CUDA runtime is linked into it: its driver calls cannot be seen then.

        The signs: it names the driver, imports no shared runtime, and holds the runtime's own table of
        errors or, where nothing names a shared one, registers device code.
        """
        meant = [(ask, n.library.id) for ask in self.asks if (n := named(ask.library)) is not None]
        ids = {library for _, library in meant}
        imported = {library for ask, library in meant if ask.how != "string"}
        if "nvcuda" not in ids or "cudart" in imported:
            return False
        embeds = any(name.startswith((".nvFatBi", ".nv_fatb")) for name in self.sections)
        return STATIC_RUNTIME in self.signs or (embeds and "cudart" not in ids)


#: From what surely happens when the program starts to what may never happen.
RANKS: Final = {"import": AT_START, "delay": DELAYED, "string": 2, "package": 3}
_HOW: Final = {rank: how for how, rank in RANKS.items()}

#: Reads one file; a cache stands behind it.
Look = Callable[[Path], FileFacts]


class Need(Struct, frozen=True, kw_only=True):
    """One of NVIDIA's libraries, asked for by one file.

    Attributes:
        named: which one.
        file: its file name as asked for.
        how: ``import``, ``delay``, ``string``, or ``package``: asked for by a file that nothing names.
        chain: file names from the program to the file that asks.
        asker: that file.
        functions: what it calls, as far as it can be seen; ``calls_known`` says whether that is all.
        spelled: its functions are no more than names in the asker's data: it may never ask for them.
        at_start: the whole chain is imports: without this library the program does not start.
        copies: the program's own copies, the one that is found first in front.
        unknown: functions of the CUDA runtime whose driver calls are not known.
    """

    named: Named
    file: str
    how: str
    chain: tuple[str, ...]
    asker: Path
    functions: tuple[str, ...] = ()
    calls_known: bool = True
    spelled: bool = False
    at_start: bool = False
    copies: tuple[Path, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def own(self) -> Path | None:
        """The program's own copy, if it ships one."""
        return self.copies[0] if self.copies else None


class Visited(Struct, frozen=True, kw_only=True):
    """A file that was read: how it is reached, and what is in it."""

    path: Path
    how: str
    chain: tuple[str, ...]
    facts: FileFacts


class Closure(Struct, frozen=True, kw_only=True):
    """Everything that was read, and every need; ``complete`` is false where a limit ended it."""

    visited: tuple[Visited, ...] = ()
    needs: tuple[Need, ...] = ()
    complete: bool = True

    @property
    def program(self) -> Visited:
        """The program itself."""
        return self.visited[0]


class _Findings(Struct):
    """What a walk has found, and what it needs for that."""

    look: Look
    listing: Listing
    program: Path
    visited: dict[Path, Visited] = field(default_factory=dict)
    needs: dict[tuple[Path, str], Need] = field(default_factory=dict)


def follow(
    program: Path, look: Look, listing: Listing, *, others: Sequence[tuple[str, Path]] = ()
) -> Closure:
    """Follow what a program asks for.

    Args:
        program: its path.
        look: reads one file.
        listing: the libraries it ships, by name.
        others: files that nothing may name (plugins, packages), each with the name of what brings it.
    """
    found = _Findings(look=look, listing=listing, program=program)
    walk = ImportWalk(lambda file: _visit(found, file))
    walk.add(program)
    for origin, path in others:
        chain = (origin, path.name) if origin else (path.name,)
        walk.add(path, chain=chain, rank=RANKS["package"])
    deque(walk, maxlen=0)  # what leads nowhere is the system's
    return Closure(
        visited=tuple(found.visited.values()), needs=tuple(found.needs.values()), complete=walk.complete
    )


def _visit(found: _Findings, file: ReachedFile) -> Iterator[AskedName]:
    """Read one file, note what it needs of NVIDIA's, and yield what else it asks for."""
    facts = found.look(file.path)
    if file.rank == RANKS["package"] and not facts.format and not facts.code:
        return  # a file that only looked like a library
    here = Visited(path=file.path, how=_HOW[file.rank], chain=file.chain, facts=facts)
    found.visited[file.path] = here
    own = named(file.path.name)
    for ask in facts.asks:
        if ask.library.lower() == file.path.name.lower():
            continue
        meant = named(ask.library)
        step = max(file.rank, RANKS[ask.how])
        copies = tuple(resolve(found.listing, found.program, file.path, facts, ask.library))
        if meant is not None:
            if own is not None and own.library.part is Part.RUNTIME and meant.library.id == "nvcuda":
                continue  # the runtime asks the driver for everything: see the derived need
            _need(found, here, ask, meant, copies, rank=step)
        if meant is None or meant.library.part is not Part.PLAIN:
            yield AskedName(name=ask.library, found=copies[0] if copies else None, rank=step)


def _need(
    found: _Findings, here: Visited, ask: Ask, meant: Named, copies: tuple[Path, ...], *, rank: int
) -> None:
    """Note a need; the CUDA runtime's calls become a need of the driver's."""
    facts = here.facts
    linked = tuple(f for f in facts.undefined if library_of(f) is meant.library)
    need = Need(
        named=meant,
        file=ask.library,
        how=ask.how if rank < RANKS["package"] else "package",
        chain=here.chain,
        asker=here.path,
        functions=linked or ask.functions,
        calls_known=ask.how != "string",
        spelled=ask.how == "string" and not linked,
        at_start=rank == 0,
        copies=copies,
    )
    key = (here.path, meant.key)
    known = found.needs.get(key)
    if known is None or RANKS[ask.how] < RANKS[known.how]:
        found.needs[key] = need
    if meant.library.part is Part.RUNTIME and ask.how != "string":
        found.needs.setdefault((here.path, "nvcuda by runtime"), _driver_need(need, ask, here))


def _driver_need(need: Need, ask: Ask, here: Visited) -> Need:
    """Return what the runtime asks of the driver on behalf of the file that uses it."""
    driver = "libcuda.so.1" if here.facts.format == "elf" else "nvcuda.dll"
    meant = named(driver)
    if meant is None:  # the table is ours; a test reads it
        msg = "the driver is missing in libraries.toml"
        raise AssertionError(msg)
    calls = runtime_calls(need.functions)
    return replace(
        need,
        named=meant,
        file=driver,
        chain=(*here.chain, ask.library),
        functions=calls.driver,
        unknown=calls.unknown,
        at_start=False,
        copies=(),
    )


def resolve(listing: Listing, program: Path, asker: Path, facts: FileFacts, name: str) -> Iterator[Path]:
    """Yield the copies of a library that the program ships, the one that would be found first.

    Windows looks beside the program, then beside the asker; Linux where RPATH and RUNPATH say. Copies
    elsewhere below the program are yielded last: a program may add their folder itself.
    """
    if facts.format == "elf":
        for folder in search_path(asker, (*facts.rpath, *facts.runpath)):
            path = folder / asked_name(name)
            if path.is_file():
                yield path
    copies = listing.by_name.get(asked_name(name).lower(), ())
    near = [p for p in copies if p.parent == program.parent], [p for p in copies if p.parent == asker.parent]
    yield from dict.fromkeys((*near[0], *near[1], *copies))
