r"""HIP libraries that must exist before a program starts: a missing one opens a message box, perhaps unseen.

The search is the layer's own (vosen/ZLUDA@87531d3, ``zluda_windows``): a back-end is looked for in the
layer's folder, then in ``HIP_PATH\bin``; what a back-end imports in turn, in its own folder, the program's
and the system's. PATH counts for the HIP runtime alone, which is asked for by its bare name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from scripts.binary.image import Image, Unreadable, read_image
from scripts.binary.imports import is_api_set
from scripts.errors import HostError
from scripts.host.hip_libraries import RUNTIME, asked_names, layer_libraries
from scripts.model import Runtime

MAX_DEPTH: Final = 8
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


class _Lack(Struct, frozen=True, kw_only=True):
    """A file that something needs and that is nowhere: the chain below, and what each place says."""

    chain: tuple[str, ...]
    searched: tuple[str, ...]
    delayed: bool


class _BackendWalk(Struct):
    """One look through the folders; each folder is listed and each file read once."""

    places: BackendPlaces
    read: Callable[[Path], Image | Unreadable]
    listings: dict[Path, dict[str, Path]] = field(default_factory=dict)
    walked: dict[tuple[Path, bool], tuple[_Lack, ...]] = field(default_factory=dict)

    def find(self, name: str, folders: Sequence[Path | None]) -> Path | None:
        """Return the first file of that name; names are compared as Windows does."""
        for folder in folders:
            if folder is not None and (found := self._listing(folder).get(name.lower())):
                return found
        return None

    def _listing(self, folder: Path) -> dict[str, Path]:
        if folder not in self.listings:
            try:
                self.listings[folder] = {path.name.lower(): path for path in folder.iterdir()}
            except OSError:
                self.listings[folder] = {}
        return self.listings[folder]

    def backend(self, library: str) -> Path | None:
        """Return the file that answers for a HIP library."""
        at = self.places
        own: list[Path | None] = [at.layer, at.hip]
        bare = [at.program, at.system, *at.path] if library == RUNTIME else []
        return next(
            (found for name in asked_names(library) if (found := self.find(name, [*own, *bare]))), None
        )

    def lacking(self, file: Path, *, bare: bool, depth: int = 0) -> tuple[_Lack, ...]:
        """Return what one of HIP's libraries lacks, itself or further down.

        ``bare``: it may have been loaded by its bare name, and then PATH counts for what it imports.
        """
        if (file, bare) in self.walked or depth > MAX_DEPTH:
            return self.walked.get((file, bare), ())
        self.walked[file, bare] = ()  # libraries may import each other
        self.walked[file, bare] = tuple(self._lacking(file, bare=bare, depth=depth))
        return self.walked[file, bare]

    def _lacking(self, file: Path, *, bare: bool, depth: int) -> Iterator[_Lack]:
        image, at = self.read(file), self.places
        folders = [file.parent, at.program, at.system, *(at.path if bare else ())]
        for needed in image.needed if isinstance(image, Image) else ():
            name = needed.library
            if is_api_set(name):
                continue
            found = self.find(name, folders)
            if found is None:
                yield _Lack(chain=(name,), searched=self.clauses(name, folders), delayed=needed.delayed)
            elif found.parent in {at.layer, at.hip}:
                for lack in self.lacking(found, bare=bare, depth=depth + 1):
                    yield replace(
                        lack, chain=(found.name, *lack.chain), delayed=lack.delayed or needed.delayed
                    )

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
            listed = self._listing(folder).items()
            others = sorted(path.name for key, path in listed if _other_generation(key, name.lower()))
            has = f"{words[folder]} has only {' and '.join(others)}"
            said.append(has if others else f"not in {words[folder]}")
        return tuple(said)


def missing_backends(
    runtime: Runtime, places: BackendPlaces, *, read: Callable[[Path], Image | Unreadable] = read_image
) -> tuple[MissingBackend, ...]:
    """Walk imports and delayed imports behind every CUDA library of a stack down to what is not there.

    Libraries for 32-bit programs and for tracing are not walked. Nothing is loaded.
    """
    walk = _BackendWalk(places=places, read=read)
    found: dict[tuple[str, ...], MissingBackend] = {}
    for file in runtime.files:
        if not file.provides or PurePosixPath(file.name).parent != PurePosixPath():
            continue
        for missing in (m for need in file.needs for m in _of_need(walk, file.name, file.provides, need)):
            key = (missing.library, *missing.chain[1:])
            known = found.get(key)
            found[key] = missing if known is None else _joined(known, missing)
    return tuple(found[key] for key in sorted(found))


def _of_need(walk: _BackendWalk, name: str, provides: str, need: str) -> Iterator[MissingBackend]:
    """Follow one CUDA library to one HIP library and on."""
    backend = walk.backend(need)
    at = walk.places
    if backend is None:
        wanted = asked_names(need)
        folders = [at.layer, at.hip, *([at.program, at.system] if need == RUNTIME else [])]
        clauses = walk.clauses(wanted[0], folders)
        yield MissingBackend(
            library=need, chain=(name, " or ".join(wanted)), searched=clauses, provides=(provides,)
        )
        return
    inside = backend.parent in {at.layer, at.hip}
    for lack in walk.lacking(backend, bare=need == RUNTIME) if inside else ():
        chain = (name, backend.name, *lack.chain)
        yield MissingBackend(
            library=need, chain=chain, searched=lack.searched, provides=(provides,), delayed=lack.delayed
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
    runtime = _BackendWalk(places=places, read=read_image).backend(RUNTIME)
    asked = asked_of_hip(driver) if runtime is not None else frozenset()
    offered = offered_by(runtime) if runtime is not None and asked else frozenset()
    lacking = sorted(asked - offered)
    if runtime is None or not offered or not lacking:
        return ""
    more = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
    named = f"{', '.join(lacking[:NAMED])}{more}"
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
