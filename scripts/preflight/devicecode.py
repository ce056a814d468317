"""Device code in one file: PTX can be translated, machine code for NVIDIA's processors cannot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from scripts.binary.fatbin import MAX_ENTRIES, Container, Entry, Packing, read_container, read_containers
from scripts.binary.image import Section
from scripts.binary.payload import Opener, Unopened, read_cubin, read_ptx
from scripts.binary.ptx_text import outside, text_entry
from scripts.binary.source import FileBytes
from scripts.preflight.facts import Code

#: Sections the runtime loads from, and those of separate compilation, which only linking can use.
LOADED: Final = (".nv_fatb",)
RELOCATABLE: Final = ("__nv_rel",)
#: PTX this far below the machine code beside it is a stand-in for old GPUs, often with other results.
STUB_DISTANCE: Final = 20
#: So many containers outside their sections are read.
MAX_STRAYS: Final = 1 << 20


class DeviceCode(NamedTuple):
    """The device code of one file: what it comes to by section, and the containers that can be loaded."""

    code: tuple[Code, ...] = ()
    loadable: tuple[Container, ...] = ()


def is_device_section(name: str) -> bool:
    """Whether a section holds containers."""
    return name.startswith((*LOADED, *RELOCATABLE))


def code_of(source: FileBytes, sections: Iterable[Section], hits: Mapping[str, Sequence[int]]) -> DeviceCode:
    """Read the device code of a program or library.

    Args:
        source: the file.
        sections: all of them; those of device code are walked.
        hits: where in other data the first bytes lie of a container (``fatbin``) or an ELF file (``cubin``),
            and where PTX text names its target (``ptx``).
    """
    found: list[Code] = []
    loadable: list[Container] = []
    for section in sections:
        if is_device_section(section.name) and section.size:
            read = read_containers(source, section.offset, section.size)
            code = _summary(source, section.name, read.found, complete=read.complete)
            found.append(code)
            loadable += () if code.relocatable else read.found
    stray, limit = _strays(source, hits["fatbin"])
    # What lies in a container in the same data is that container's.
    stray += _cubins(source, outside(hits["cubin"], stray))
    if stray or limit:
        found.append(_summary(source, "data", stray, complete=not limit, limit=limit))
        loadable += stray
    loose = _texts(source, outside(hits["ptx"], stray)) if not limit else []
    if loose:
        found.append(_summary(source, "text", loose))
        loadable += loose
    return DeviceCode(tuple(code for code in found if code.modules or not code.complete), tuple(loadable))


def bare_code(source: FileBytes) -> DeviceCode:
    """Read a file that is nothing but device code: a fat binary, a cubin or PTX text."""
    cubin = read_cubin(source, source.size)
    if cubin is not None:
        return DeviceCode((_summary(source, "", (Container(0, (cubin,), ""),)),))
    head = read_ptx(source.read(0, 1 << 16))
    if head is not None:
        text = Container(0, (head._replace(size=source.size),), "")
        return DeviceCode((_summary(source, "", (text,)),), (text,))
    read = read_containers(source, 0, source.size)
    code = _summary(source, "", read.found, complete=read.complete)
    return DeviceCode((code,), read.found) if code.modules or not code.complete else DeviceCode()


def _strays(source: FileBytes, places: Sequence[int]) -> tuple[list[Container], str]:
    """Read containers that lie in other data: programs hand them to the driver themselves.

    The second value says how many were read where a limit ended it, else it is empty.
    """
    found: list[Container] = []
    left = MAX_ENTRIES
    for number, place in enumerate(places):
        if number >= MAX_STRAYS or left <= 0:
            return found, f"read {number:,} of {len(places):,} containers in its data"
        container = read_container(source, place, left)
        left -= len(container.entries) if container is not None else 0
        if container is not None and container.entries and not container.fault:
            found.append(container)
    return found, ""


def _cubins(source: FileBytes, places: Sequence[int]) -> list[Container]:
    """Read machine code that lies in other data without a container."""
    found = []
    for place in places:
        entry = read_cubin(source, source.size - place, place)
        if entry is not None:
            found.append(Container(place, (entry,), ""))
    return found


def _texts(source: FileBytes, places: Sequence[int]) -> list[Container]:
    """Read PTX texts that lie in other data; debug information spells its lines apart, and is none."""
    found = []
    for place in places:
        start = max(0, place - 256)
        data = source.read(start, place - start + 32)
        version = data.rfind(b".version")
        head = read_ptx(data[version:], start + version) if version >= 0 else None
        if head is not None and b"\0" not in data[version : place - start]:
            found.append(Container(start, (text_entry(source, start + version, head),), ""))
    return found


class _Tally(Struct):
    """What the modules of one section come to."""

    sass_only: int = 0
    stubs: int = 0
    special: int = 0
    modules: int = 0
    unknown: int = 0
    why: str = ""
    lost: int = 0
    uncounted: str = ""

    def unseen(self, why: str) -> None:
        """Count a module that cannot be judged."""
        self.modules += 1
        self.unknown += 1
        self.why = self.why or why

    def add(self, opener: Opener, texts: Sequence[Entry], machine: Sequence[Entry]) -> None:
        """Count a module by its entries; one without code of its own (nvcc adds it when it links) is none."""
        if any(e.packing is not Packing.UNKNOWN for e in texts):
            self.modules += 1
            self.special += all(e.letter for e in texts)
            newest = max((e.sm for e in machine), default=0)
            self.stubs += max(e.sm for e in texts) + STUB_DISTANCE <= newest
        elif texts:
            self.unseen("its PTX is packed in a way that is not known")
        elif machine:
            kernels = opener.kernels(max(machine, key=lambda e: e.sm))
            if isinstance(kernels, Unopened) and kernels.damaged:
                self.unseen(kernels.reason)
            elif kernels != 0:
                self.modules += 1
                self.sass_only += 1
                if isinstance(kernels, Unopened):
                    self.uncounted = self.uncounted or kernels.reason
                else:
                    self.lost += kernels


def _summary(
    source: FileBytes,
    section: str,
    containers: Sequence[Container],
    *,
    complete: bool = True,
    limit: str = "",
) -> Code:
    """Count entries, and the modules that a translation layer cannot use."""
    ptx: Counter[tuple[int, str, str]] = Counter()
    sass: Counter[tuple[int, str]] = Counter()
    tally, opener = _Tally(), Opener(source)
    for container in containers:
        kinds: dict[str, list[Entry]] = {"ptx": [], "sass": [], "lto": [], "unknown": []}
        for entry in container.entries:
            known = opener.told(entry) if entry.kind == "unknown" else entry
            kinds[known.kind].append(known)
        ptx.update((e.sm, e.letter, e.isa) for e in kinds["ptx"])
        sass.update((e.sm, e.letter) for e in kinds["sass"])
        if kinds["ptx"] or kinds["sass"]:
            tally.add(opener, kinds["ptx"], kinds["sass"])
        elif kinds["unknown"]:
            tally.unseen("it is of a kind that is not known")
        elif kinds["lto"]:
            tally.unseen("it is meant for linking while the program runs")
    return Code(
        section=section,
        relocatable=section.startswith(RELOCATABLE),
        ptx=tuple(sorted((*target, n) for target, n in ptx.items())),
        sass=tuple(sorted((*target, n) for target, n in sass.items())),
        modules=tally.modules,
        sass_only=tally.sass_only,
        kernels_lost=None if tally.uncounted else tally.lost,
        uncounted=tally.uncounted,
        stubs=tally.stubs,
        special=tally.special,
        unknown=tally.unknown,
        why=tally.why,
        complete=complete,
        limit=limit,
    )
