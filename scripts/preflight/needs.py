"""What was read of each file, and which of NVIDIA's libraries a program asks for through all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from scripts.binary.imports import search_path
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
RANKS: Final = {"import": 0, "delay": 1, "string": 2, "package": 3}
MAX_VISITED: Final = 4000

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


class _Walk(Struct):
    """The state of one walk."""

    look: Look
    listing: Listing
    program: Path
    visited: dict[Path, Visited] = field(default_factory=dict)
    needs: dict[tuple[Path, str], Need] = field(default_factory=dict)
    queue: list[tuple[int, int, int, Path, tuple[str, ...], str]] = field(default_factory=list)
    serial: int = 0

    def push(self, path: Path, how: str, chain: tuple[str, ...], rank: int) -> None:
        """Remember a file to be read; surer and shorter ways come first."""
        self.serial += 1
        path = path.resolve() if path.is_symlink() else path  # one file under two names is read once
        heapq.heappush(self.queue, (rank, len(chain), self.serial, path, chain, how))


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
    walk = _Walk(look=look, listing=listing, program=program)
    walk.push(program, "import", (program.name,), 0)
    for origin, path in others:
        chain: tuple[str, ...] = (origin, path.name) if origin else (path.name,)
        walk.push(path, "package", chain, RANKS["package"])
    while walk.queue and len(walk.visited) < MAX_VISITED:
        rank, _length, _serial, path, chain, how = heapq.heappop(walk.queue)
        if path not in walk.visited:
            _visit(walk, path, chain, how, rank)
    return Closure(
        visited=tuple(walk.visited.values()), needs=tuple(walk.needs.values()), complete=not walk.queue
    )


def _visit(walk: _Walk, path: Path, chain: tuple[str, ...], how: str, rank: int) -> None:
    """Read one file and go on to what it asks for."""
    facts = walk.look(path)
    if rank == RANKS["package"] and not facts.format and not facts.code:
        return  # a file that only looked like a library
    here = Visited(path=path, how=how, chain=chain, facts=facts)
    walk.visited[path] = here
    own = named(path.name)
    for ask in facts.asks:
        lower = ask.library.lower()
        if lower == path.name.lower():
            continue
        meant = named(ask.library)
        step = max(rank, RANKS[ask.how])
        copies = tuple(resolve(walk.listing, walk.program, path, facts, ask.library))
        if meant is not None:
            if own is not None and own.library.part is Part.RUNTIME and meant.library.id == "nvcuda":
                continue  # the runtime asks the driver for everything: see the derived need
            _need(walk, here, ask, meant, copies, rank=step)
        if copies and (meant is None or meant.library.part is not Part.PLAIN):
            walk.push(copies[0], _how(ask, step), (*chain, copies[0].name), step)


def _how(ask: Ask, rank: int) -> str:
    """Say how a library is asked for; below a file that nothing names, everything is the package's."""
    return ask.how if rank < RANKS["package"] else "package"


def _need(walk: _Walk, here: Visited, ask: Ask, meant: Named, copies: tuple[Path, ...], *, rank: int) -> None:
    """Note a need; the CUDA runtime's calls become a need of the driver's."""
    facts = here.facts
    linked = tuple(f for f in facts.undefined if library_of(f) is meant.library)
    need = Need(
        named=meant,
        file=ask.library,
        how=_how(ask, rank),
        chain=here.chain,
        asker=here.path,
        functions=linked or ask.functions,
        calls_known=ask.how != "string",
        spelled=ask.how == "string" and not linked,
        at_start=rank == 0,
        copies=copies,
    )
    key = (here.path, meant.key)
    known = walk.needs.get(key)
    if known is None or RANKS[ask.how] < RANKS[known.how]:
        walk.needs[key] = need
    if meant.library.part is Part.RUNTIME and ask.how != "string":
        walk.needs.setdefault((here.path, "nvcuda by runtime"), _driver_need(need, ask, here))


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
            path = folder / PurePosixPath(name).name
            if path.is_file():
                yield path
    copies = listing.by_name.get(PurePosixPath(name.replace("\\", "/")).name.lower(), ())
    near = [p for p in copies if p.parent == program.parent], [p for p in copies if p.parent == asker.parent]
    yield from dict.fromkeys((*near[0], *near[1], *copies))
