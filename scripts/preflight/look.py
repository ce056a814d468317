"""One look at one file: what it asks for, which device code it holds, and signs of what it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict, replace

from scripts.binary.fatbin import (
    MAGIC,
    MAX_ENTRIES,
    Container,
    Entry,
    Packing,
    read_container,
    read_containers,
)
from scripts.binary.image import FileBytes, Format, Image, Section, Unreadable, read_image
from scripts.binary.payload import Opener, Unopened, outside, ptx_groups, read_cubin, read_ptx, text_entry
from scripts.binary.strings import MAX_NAMES, Swept, sweep, words
from scripts.preflight.kernels import KernelStore
from scripts.preflight.libraries import DRIVER, Part, heads, library_of, named
from scripts.preflight.loading import LOADERS
from scripts.preflight.needs import STATIC_RUNTIME, Ask, Code, FileFacts
from scripts.preflight.packaging import byte_signs, tail_signs
from scripts.preflight.ptx_check import read_kernels

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
    left, reached = MAX_ENTRIES, 0
    for number, place in enumerate(places):
        if number >= MAX_STRAYS or left <= 0:
            return found, f"read {number:,} of {len(places):,} containers in its data"
        if place < reached:
            continue  # it lies in the code of another one; without this, lies could cost the square of a size
        container = read_container(source, place, left)
        left -= len(container.entries) if container is not None else 0
        if container is not None and container.entries and not container.fault:
            found.append(container)
            reached = max(entry.offset + entry.size for entry in container.entries)
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
    kernels_lost: int = 0
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
                    self.kernels_lost += kernels


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
    code = Code(
        section=section,
        relocatable=section.startswith(RELOCATABLE),
        ptx=tuple(sorted((*target, n) for target, n in ptx.items())),
        sass=tuple(sorted((*target, n) for target, n in sass.items())),
        complete=complete,
        limit=limit,
        **asdict(tally),
    )
    return replace(code, kernels_lost=None) if code.uncounted else code


_NO_STRINGS: Final = (
    ".rsrc",
    ".reloc",
    ".pdata",
    ".eh_frame",
    ".rela",
    ".dynsym",
    ".gnu",
    ".debug",
    ".symtab",
    ".strtab",
    ".dynstr",
)
_PTX_MARK: Final = b".target sm_"
_CUBIN_MARK: Final = b"\x7fELF\x02\x01\x01"
_CODE_MARKS: Final = ("fatbin", "cubin", "ptx")
#: A name of the runtime's table of errors that programs do not spell out.
_RUNTIME_MARK: Final = b"cudaErrorMissingConfiguration\0"
_BARE: Final = frozenset({".ptx", ".cubin", ".fatbin"})


def look(path: Path, kernels: KernelStore | None = None) -> FileFacts:
    """Read one file. Never raises: what cannot be read is a fault in the answer.

    With ``kernels`` its PTX is checked, too, and the report kept there under ``device``.
    """
    try:
        if path.suffix.lower() in _BARE:
            with FileBytes(path) as source:
                found = bare_code(source)
                device = _device(source, found, kernels)
                return FileFacts(code=found.code, device=device, then="name the program that loads it")
        image = read_image(path)
        if isinstance(image, Unreadable):
            return FileFacts(faults=(image.reason,), then=image.then)
        with FileBytes(path) as source:
            needles = {"fatbin": MAGIC, "cubin": _CUBIN_MARK, "ptx": _PTX_MARK, STATIC_RUNTIME: _RUNTIME_MARK}
            if image.format is Format.ELF or not image.library:  # a DLL's kind does not matter
                needles |= byte_signs()
            spans = _data(image)
            swept = sweep(source, spans, image.format, needles)
            own = named(path.name)
            if own is None or own.library.part is not Part.RUNTIME:
                return _with_names(_facts(image, source, swept, kernels), source, spans)
            swept.hits[STATIC_RUNTIME].clear()  # the runtime itself
            return _facts(image, source, swept, kernels)
    except OSError as error:
        return FileFacts(faults=(f"it cannot be read: {error.strerror or error}",))


def _device(source: FileBytes, found: DeviceCode, kernels: KernelStore | None) -> str:
    """Name the PTX that can be loaded, and check it where that is wanted and was not done before."""
    groups, device = ptx_groups(source, found.loadable)
    if kernels is not None and device and kernels.get(device) is None:
        kernels.put(device, read_kernels(source, groups))
    return device


def _facts(image: Image, source: FileBytes, swept: Swept, kernels: KernelStore | None) -> FileFacts:
    found = code_of(source, image.sections, swept.hits)
    signs = [name for name, hits in swept.hits.items() if hits and name not in _CODE_MARKS]
    return FileFacts(
        format=image.format.value,
        machine=image.machine,
        library=image.library,
        asks=(*_imports(image), *_strings(image, source, swept)),
        undefined=tuple(f for f in image.undefined if library_of(f) is not None),
        loaders=tuple(sorted({f for n in image.needed for f in n.functions} & LOADERS)),
        soname=image.soname,
        rpath=image.rpath,
        runpath=image.runpath,
        sections=tuple(s.name for s in image.sections),
        code=found.code,
        device=_device(source, found, kernels),
        signs=(*signs, *tail_signs(source)),
        flags=_flags(image),
        faults=(*image.faults, swept.limit) if swept.limit else image.faults,
    )


def _with_names(facts: FileFacts, source: FileBytes, spans: Sequence[Section]) -> FileFacts:
    """Add to libraries that are loaded by name the functions whose names lie in the same file.

    The CUDA runtime that is linked in names some 400 functions of the driver, whatever the program uses.
    """
    hidden = DRIVER if facts.static_runtime else ""
    loaded = {
        ask.library: found for ask in facts.asks if ask.how == "string" and (found := named(ask.library))
    }
    meant = {file: n.library for file, n in loaded.items() if n.library.api and n.library.id != hidden}
    if not meant:
        return facts
    spelled, complete = words(source, spans, "|".join(sorted({heads(library) for library in meant.values()})))
    functions: dict[str, list[str]] = {}
    for word in sorted(spelled):
        library = library_of(word)
        functions.setdefault(library.id if library else "", []).append(word)

    def filled(ask: Ask) -> Ask:
        library = meant.get(ask.library) if ask.how == "string" else None
        return ask if library is None else replace(ask, functions=tuple(functions.get(library.id, ())))

    faults = (
        facts.faults
        if complete
        else (*facts.faults, f"it names more functions than the {MAX_NAMES:,} that were kept")
    )
    return replace(facts, asks=tuple(map(filled, facts.asks)), faults=faults)


def _data(image: Image) -> list[Section]:
    """Return the sections that may hold text; code only where an image has no data of its own."""
    data = [
        s
        for s in image.sections
        if not s.code and not is_device_section(s.name) and not s.name.startswith(_NO_STRINGS)
    ]
    if image.format is Format.PE and not any(s.name in {".rdata", ".data"} for s in data):
        data += [s for s in image.sections if s.code]
    return data


def _imports(image: Image) -> list[Ask]:
    """Return what the tables ask for; functions only of NVIDIA's libraries."""
    asks = [
        Ask(
            library=need.library,
            how="delay" if need.delayed else "import",
            functions=need.functions if named(need.library) else (),
        )
        for need in image.needed
    ]
    return asks + [Ask(library=f"{name}.dll", how="import") for name in image.forwards]


def _strings(image: Image, source: FileBytes, swept: Swept) -> list[Ask]:
    """Return the library names in its data that its tables do not ask for."""
    imported = {need.library.lower() for need in image.needed} | {image.soname.lower()}
    found = swept.names | _managed(image, source)
    return [Ask(library=name, how="string") for name in sorted(found) if name.lower() not in imported]


def _managed(image: Image, source: FileBytes) -> set[str]:
    """Return NVIDIA's libraries among the names of a .NET image, which come without an ending."""
    found: set[str] = set()
    for heap in image.sections:
        if heap.name == "#Strings" and heap.size < 1 << 24:
            words = source.read(heap.offset, heap.size).split(b"\0")
            found |= {w.decode() for w in words if 3 < len(w) < 32 and w.isascii() and named(w.decode())}  # noqa: PLR2004 - lengths of file names
    return {name if name.lower().endswith(".dll") else f"{name}.dll" for name in found}


def _flags(image: Image) -> tuple[str, ...]:
    """Say what is notable about how Windows starts it."""
    manifest = image.manifest.lower().replace("'", '"').replace(" ", "")
    return tuple(
        name
        for name, on in (
            ("managed", image.managed),
            ("force-integrity", image.force_integrity),
            ("system-only", image.system_only),
            ("gui", image.gui),
            ("admin", 'level="requireadministrator"' in manifest),
            ("ui-access", 'uiaccess="true"' in manifest),
        )
        if on
    )
