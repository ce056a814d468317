r"""HIP libraries that must exist before a program starts: a missing one opens a message box, perhaps unseen.

The search is the layer's own (vosen/ZLUDA@87531d3, ``zluda_windows``): a back-end is looked for in the
layer's folder, then in ``HIP_PATH\bin``; what a back-end imports in turn, in its own folder, the program's
and the system's. PATH counts for the HIP runtime alone, which is asked for by its bare name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from scripts.binary.image import Image, Unreadable, read_image
from scripts.binary.imports import (
    AT_START,
    DELAYED,
    AskedName,
    ImportWalk,
    NameNotFound,
    ReachedFile,
    WindowsFolders,
    is_api_set,
)
from scripts.errors import HostError
from scripts.host.hip_libraries import RUNTIME, asked_names, layer_libraries
from scripts.model import Runtime
from scripts.osal.text import listed

#: So many functions are named where some are missing.
NAMED: Final = 3


class BackendPlaces(Struct, frozen=True, kw_only=True):
    """The folders that are searched; ``None`` where a run has none."""

    layer: Path
    hip: Path | None = None
    program: Path | None = None
    system: Path | None = None
    path: tuple[Path, ...] = ()


class MissingBackend(Struct, frozen=True, kw_only=True):
    """One file that is nowhere.

    Attributes:
        library: the HIP library that cannot be loaded without it.
        chain: file names from the CUDA library down to the missing one.
        searched: one clause for each place, why the file was not found there.
        provides: the CUDA libraries that will fail.
        delayed: it is asked for only when it is first used.
    """

    library: str
    chain: tuple[str, ...]
    searched: tuple[str, ...]
    provides: tuple[str, ...]
    delayed: bool = False

    @property
    def fatal(self) -> bool:
        """Whether no CUDA program can start without it."""
        return self.library == RUNTIME and not self.delayed

    @property
    def verdict(self) -> str:
        """What will fail, for a person."""
        if self.fatal:
            return f"the HIP runtime lacks {self.chain[-1]}: no CUDA program can start"
        when = " when it is used" if self.delayed else ", and may show a box"
        return f"{', '.join(self.provides)} will fail{when}"

    @property
    def sentence(self) -> str:
        """The chain and the places, for a person."""
        return f"{' → '.join(self.chain)}: {'; '.join(self.searched)}"


class _Backends(Struct):
    """The folders of one look; each is listed and each file read once."""

    places: BackendPlaces
    folders: WindowsFolders = field(default_factory=WindowsFolders)
    images: dict[Path, Image | Unreadable] = field(default_factory=dict)

    def backend(self, library: str) -> Path | None:
        """Return the file that answers for a HIP library."""
        at = self.places
        own: list[Path | None] = [at.layer, at.hip]
        bare = [at.program, at.system, *at.path] if library == RUNTIME else []
        names = asked_names(library)
        return next((found for name in names if (found := self.folders.find(name, [*own, *bare]))), None)

    def is_inside(self, file: Path) -> bool:
        """Whether a file is one of HIP's or the layer's own, which are followed."""
        return file.parent in {self.places.layer, self.places.hip}

    def searched(self, asker: Path, *, bare: bool) -> list[Path | None]:
        """Return where what a file imports is looked for.

        ``bare``: it may have been loaded by its bare name, and then PATH counts as well.
        """
        at = self.places
        return [asker.parent, at.program, at.system, *(at.path if bare else ())]

    def lacking(self, file: Path, *, bare: bool) -> Iterator[NameNotFound]:
        """Yield what one of HIP's libraries lacks, itself or further down."""
        walk = ImportWalk(lambda reached: self._asked(reached, bare=bare))
        walk.add(file)
        yield from walk

    def _asked(self, reached: ReachedFile, *, bare: bool) -> Iterator[AskedName]:
        """Yield what a file imports that is nowhere, or is one of HIP's as well."""
        if reached.path not in self.images:
            self.images[reached.path] = read_image(reached.path)
        image, folders = self.images[reached.path], self.searched(reached.path, bare=bare)
        for needed in image.needed if isinstance(image, Image) else ():
            found = self.folders.find(needed.library, folders)
            if not is_api_set(needed.library) and (found is None or self.is_inside(found)):
                rank = DELAYED if needed.delayed else AT_START
                yield AskedName(name=needed.library, found=found, rank=rank)

    def clauses(self, name: str, folders: Sequence[Path | None]) -> tuple[str, ...]:
        """Say for each place that the file is not there, or which other generation is."""
        words = {
            self.places.system: "System32",
            self.places.program: "the program's folder",
            self.places.hip: r"HIP\bin",
            self.places.layer: "the layer's folder",  # last: where the layer's own check lies, it is both
        }
        said = []
        for folder in dict.fromkeys(folders):
            if folder is None or folder not in words:
                continue
            listed = self.folders.listing(folder).items()
            others = sorted(path.name for key, path in listed if _other_generation(key, name.lower()))
            has = f"{words[folder]} has only {' and '.join(others)}"
            said.append(has if others else f"not in {words[folder]}")
        return tuple(said)


def missing_backends(runtime: Runtime, places: BackendPlaces) -> tuple[MissingBackend, ...]:
    """Walk imports and delayed imports behind every CUDA library of a stack down to what is not there.

    Libraries for 32-bit programs and for tracing are not walked. Nothing is loaded.
    """
    look = _Backends(places=places)
    found: dict[tuple[str, ...], MissingBackend] = {}
    for file in runtime.files:
        if not file.provides or PurePosixPath(file.name).parent != PurePosixPath():
            continue
        for missing in (m for need in file.needs for m in _of_need(look, file.name, file.provides, need)):
            key = (missing.library, *missing.chain[1:])
            known = found.get(key)
            found[key] = missing if known is None else _joined(known, missing)
    return tuple(found[key] for key in sorted(found))


def _of_need(look: _Backends, name: str, provides: str, need: str) -> Iterator[MissingBackend]:
    """Follow one CUDA library to one HIP library and on."""
    backend = look.backend(need)
    at = look.places
    if backend is None:
        wanted = asked_names(need)
        folders = [at.layer, at.hip, *([at.program, at.system] if need == RUNTIME else [])]
        clauses = look.clauses(wanted[0], folders)
        yield MissingBackend(
            library=need, chain=(name, " or ".join(wanted)), searched=clauses, provides=(provides,)
        )
        return
    bare = need == RUNTIME
    for lost in look.lacking(backend, bare=bare) if look.is_inside(backend) else ():
        clauses = look.clauses(lost.name, look.searched(lost.asker.path, bare=bare))
        yield MissingBackend(
            library=need,
            chain=(name, *lost.asker.chain, lost.name),
            searched=clauses,
            provides=(provides,),
            delayed=lost.rank > AT_START,
        )


def _other_generation(there: str, wanted: str) -> bool:
    """Whether a file is the HIP runtime of another generation than the wanted one."""
    return wanted.startswith(RUNTIME) and there.startswith(RUNTIME) and there.endswith(".dll")


def _joined(one: MissingBackend, other: MissingBackend) -> MissingBackend:
    """Say the same missing file once, for all that fail without it."""
    return replace(
        one,
        provides=tuple(dict.fromkeys((*one.provides, *other.provides))),
        delayed=one.delayed and other.delayed,
    )


def asked_of_hip(layer: Path) -> frozenset[str]:
    """Return the functions that a file imports from the HIP runtime; nothing where it cannot be read."""
    image = read_image(layer)
    if not isinstance(image, Image):
        return frozenset()
    asked = (needed for needed in image.needed if needed.library.lower().startswith(RUNTIME))
    return frozenset(name for needed in asked for name in needed.functions)


def offered_by(runtime: Path) -> frozenset[str]:
    """Return the functions that a HIP runtime exports; nothing where it cannot be read."""
    image = read_image(runtime, exports=True)
    return frozenset(image.exports) if isinstance(image, Image) else frozenset()


def outdated_runtime(driver: Path, places: BackendPlaces) -> str:
    """Say what the HIP runtime lacks of that which the layer's driver library asks for; empty where nothing.

    A call that is not there ends the program when it is first made, without a word about why.
    """
    runtime = _Backends(places=places).backend(RUNTIME)
    asked = asked_of_hip(driver) if runtime is not None else frozenset()
    offered = offered_by(runtime) if runtime is not None and asked else frozenset()
    lacking = sorted(asked - offered)
    if runtime is None or not offered or not lacking:
        return ""
    named = listed(lacking, NAMED)
    return f"{runtime} may be too old for this stack: {driver.name} asks it for {named}, which it lacks"


def shadowing(folder: Path) -> tuple[str, ...]:
    """Return the HIP libraries that lie in a folder that is searched before HIP's own."""
    wanted = {name.lower() for library in layer_libraries() for name in library.asked}
    try:
        return tuple(sorted(path.name for path in folder.iterdir() if path.name.lower() in wanted))
    except OSError:
        return ()


def refuse_or_note(missing: Sequence[MissingBackend]) -> tuple[str, ...]:
    """Refuse when nothing could work; otherwise return one sentence for each file that is missing.

    Raises:
        HostError: ``hip-library-missing``.
    """
    for item in missing:
        if item.fatal:
            hint = "install AMD's driver and the HIP SDK this stack needs, then `invoke scan`"
            raise HostError("hip-library-missing", item.verdict, context=(item.sentence,), hint=hint)
    return notes_of(missing)


def notes_of(missing: Sequence[MissingBackend]) -> tuple[str, ...]:
    """Return one sentence for each file that is missing, with what will fail without it."""
    return tuple(f"{item.verdict}: {item.sentence}" for item in missing)
