"""What was read of one file. Kept between runs, so that nothing here knows how files are read."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from scripts.preflight.libraries import named

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
