"""One look at one file: what it asks for, which device code it holds, and signs of what it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from scripts.binary.fatbin import MAGIC
from scripts.binary.image import Format, Image, Section, Unreadable
from scripts.binary.ptx_text import ptx_groups
from scripts.binary.read import read_image
from scripts.binary.source import FileBytes
from scripts.binary.strings import MAX_NAMES, Swept, sweep, words
from scripts.preflight.devicecode import DeviceCode, bare_code, code_of, is_device_section
from scripts.preflight.facts import STATIC_RUNTIME, Ask, FileFacts
from scripts.preflight.kernels import KernelStore
from scripts.preflight.libraries import DRIVER, Part, heads, library_of, named
from scripts.preflight.packaging_detection import byte_signs, tail_signs
from scripts.preflight.ptx_images import read_kernels

#: Functions that say how a program loads libraries later.
LOADERS: Final = frozenset(
    {
        "LoadLibraryA",
        "LoadLibraryW",
        "LoadLibraryExA",
        "LoadLibraryExW",
        "SetDefaultDllDirectories",
        "AddDllDirectory",
        "SetDllDirectoryA",
        "SetDllDirectoryW",
    }
)
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
    """Put together what the readers found."""
    faults = image.faults
    if not swept.complete:
        faults = (*faults, swept.limit)
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
        faults=faults,
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
