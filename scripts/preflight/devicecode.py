"""Device code in one file: PTX can be translated, machine code for NVIDIA's processors cannot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from scripts.binary.fatbin import (
    Container,
    Entry,
    kernels_in,
    read_container,
    read_containers,
    read_cubin,
    read_ptx,
)
from scripts.binary.image import Section
from scripts.binary.source import FileBytes

#: Sections the runtime loads from, and those of separate compilation, which only linking can use.
LOADED: Final = (".nv_fatb",)
RELOCATABLE: Final = ("__nv_rel",)
#: PTX this far below the machine code beside it is a stand-in for old GPUs, often with other results.
STUB_DISTANCE: Final = 20
#: So many containers outside their sections are read.
MAX_STRAYS: Final = 4096


@dataclass(frozen=True, kw_only=True)
class Code:
    """The device code of one section.

    Attributes:
        ptx: (sm, ISA version, count), sorted.
        sass: (sm, count), sorted.
        modules: containers that hold code: one for each source file that nvcc compiled.
        sass_only: those without PTX.
        kernels_lost: kernels in them as far as they are stored openly (an upper bound), else ``None``.
        stubs: those whose only PTX lies far below their machine code.
        complete: false where damage or a limit ended the reading.
    """

    section: str
    relocatable: bool = False
    ptx: tuple[tuple[int, str, int], ...] = ()
    sass: tuple[tuple[int, int], ...] = ()
    modules: int = 0
    sass_only: int = 0
    kernels_lost: int | None = 0
    stubs: int = 0
    complete: bool = True


def is_device_section(name: str) -> bool:
    """Whether a section holds containers."""
    return name.startswith((*LOADED, *RELOCATABLE))


def code_of(
    source: FileBytes, sections: Iterable[Section], strays: Sequence[int], texts: Sequence[int]
) -> tuple[Code, ...]:
    """Read the device code of a program or library.

    Args:
        source: the file.
        sections: all of them; those of device code are walked.
        strays: where a container's first bytes lie in other data.
        texts: where PTX text names its target in other data.
    """
    found = []
    for section in sections:
        if is_device_section(section.name) and section.size:
            read = read_containers(source, section.offset, section.size)
            code = _summary(source, section.name, read.found, complete=read.complete)
            found.append(code)
    if strays:
        found.append(_strays(source, strays))
    if texts:
        found.append(_texts(source, texts))
    return tuple(code for code in found if code.modules or not code.complete)


def bare_code(source: FileBytes) -> tuple[Code, ...]:
    """Read a file that is nothing but device code: a fat binary, a cubin or PTX text."""
    cubin = read_cubin(source)
    if cubin is not None:
        return (_summary(source, "", (Container(0, (cubin,), ""),)),)
    text = read_ptx(source.read(0, 1 << 16))
    if text is not None:
        return (_summary(source, "", (Container(0, (text,), ""),)),)
    read = read_containers(source, 0, source.size)
    code = _summary(source, "", read.found, complete=read.complete)
    return (code,) if code.modules or not code.complete else ()


def _strays(source: FileBytes, places: Sequence[int]) -> Code:
    """Read containers that lie in other data: programs hand them to the driver themselves."""
    read = [read_container(source, place) for place in places[:MAX_STRAYS]]
    found = [c for c in read if c is not None and c.entries and not c.fault]
    return _summary(source, "data", found, complete=len(places) <= MAX_STRAYS)


def _texts(source: FileBytes, places: Sequence[int]) -> Code:
    """Read the heads of PTX texts that lie in other data."""
    found = []
    for place in places:
        start = max(0, place - 256)
        head = source.read(start, place - start + 32)
        version = head.rfind(b".version")
        entry = read_ptx(head[version:], start + version) if version >= 0 else None
        if entry is not None:
            found.append(Container(start, (entry,), ""))
    return _summary(source, "text", tuple(found))


def _summary(
    source: FileBytes, section: str, containers: Sequence[Container], *, complete: bool = True
) -> Code:
    """Count entries, and the modules that a translation layer cannot use."""
    ptx: Counter[tuple[int, str]] = Counter()
    sass: Counter[int] = Counter()
    modules = sass_only = stubs = 0
    lost: int | None = 0
    for container in containers:
        texts = [e for e in container.entries if e.kind == "ptx"]
        machine = [e for e in container.entries if e.kind == "sass"]
        ptx.update((e.sm, e.isa) for e in texts)
        sass.update(e.sm for e in machine)
        if not texts and machine:
            kernels = _kernels(source, machine)
            if kernels == 0:  # what nvcc adds when it links: no code of its own
                continue
            sass_only += 1
            lost = None if lost is None or kernels is None else lost + kernels
        elif texts and machine and max(e.sm for e in texts) + STUB_DISTANCE <= max(e.sm for e in machine):
            stubs += 1
        modules += bool(texts or machine)
    return Code(
        section=section,
        relocatable=section.startswith(RELOCATABLE),
        ptx=tuple(sorted((sm, isa, n) for (sm, isa), n in ptx.items())),
        sass=tuple(sorted(sass.items())),
        modules=modules,
        sass_only=sass_only,
        kernels_lost=lost,
        stubs=stubs,
        complete=complete,
    )


def _kernels(source: FileBytes, entries: Sequence[Entry]) -> int | None:
    """Count the kernels of one module: those for its newest processor."""
    newest = max(entries, key=lambda e: e.sm)
    return kernels_in(source, newest)
