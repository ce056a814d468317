"""The CUDA libraries in a program's folder: whose they are, and which is really missing. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.binary.imports import AskedName, ImportWalk, ReachedFile, is_api_set
from scripts.doctor.machine import Line, Status

#: Names that translation layers answer for; a mixture of makers among them is a damaged set.
TRANSLATED: Final = ("nvcuda", "cublas", "cusparse", "cudnn", "cufft", "nvml")
NVIDIA_NAME: Final = "nvidia"
ZLUDA_MARK: Final = b"zluda"
#: What installers call the copy of NVIDIA's compiler that they keep beside ZLUDA's.
BACKUPS: Final = {"nvrtc_cuda.dll": "nvrtc64_"}


class Maker(StrEnum):
    """Who made a library."""

    OURS = "pinned"
    ZLUDA = "ZLUDA"
    NVIDIA = "NVIDIA"
    UNKNOWN = "unknown"


class FoundLibrary(Struct, frozen=True, kw_only=True):
    """One CUDA library in or below a program's folder.

    Attributes:
        path: below the folder, with ``/``.
        sha256: of its bytes.
        company: in its version resource; empty without one.
        version: in its version resource.
        mentions_zluda: its bytes hold that name.
        recorded: the hash that the package it belongs to was installed with; empty where none claims it.
    """

    path: str
    sha256: str
    company: str = ""
    version: str = ""
    mentions_zluda: bool = False
    recorded: str = ""

    @property
    def name(self) -> str:
        """Its file name in lower case."""
        return self.path.rpartition("/")[2].lower()

    @property
    def folder(self) -> str:
        """Its folder."""
        return self.path.rpartition("/")[0]


class Beside(Struct, frozen=True, kw_only=True):
    """What was found: lines, and whether something was overwritten (``None``: no telling)."""

    lines: tuple[Line, ...]
    overwritten: bool | None


def judge_folder(
    libraries: Sequence[FoundLibrary], pinned: Mapping[str, str], placed: Mapping[str, str]
) -> Beside:
    """Say whose each library is, and what does not belong together.

    Args:
        libraries: what lies there.
        pinned: hashes of pinned files, and the stacks or artifacts they belong to.
        placed: files that we placed (path below the folder), with the hash they had then.
    """
    makers = {lib.path: maker_of(lib, pinned) for lib in libraries}
    lines = [_whose(lib, makers[lib.path], pinned) for lib in libraries]
    wrong = [
        *_changed(libraries, placed),
        *_mixtures(libraries, makers),
        *_backups(libraries),
        *_replaced(libraries, makers),
    ]
    if not libraries:
        lines.append(_line(Status.OK, "no CUDA library lies in the program's folder"))
    damaged = any(line.status is Status.FAIL for line in wrong)
    return Beside(lines=(*lines, *wrong), overwritten=damaged if libraries else None)


def maker_of(library: FoundLibrary, pinned: Mapping[str, str]) -> Maker:
    """Say who made a library: by hash, then by what it says of itself."""
    if library.sha256 in pinned:
        return Maker.OURS
    if NVIDIA_NAME in library.company.lower():
        return Maker.NVIDIA
    return Maker.ZLUDA if library.mentions_zluda else Maker.UNKNOWN


def _whose(library: FoundLibrary, maker: Maker, pinned: Mapping[str, str]) -> Line:
    version = f" {library.version}" if library.version else ""
    if maker is Maker.OURS:
        return _line(Status.OK, f"{library.path}: pinned, from {pinned[library.sha256]}")
    if maker is Maker.NVIDIA:
        return _line(Status.OK, f"{library.path}: NVIDIA's{version}")
    if maker is Maker.ZLUDA:
        return _line(Status.WARN, f"{library.path}: ZLUDA's, of a release that is not pinned here")
    return _line(Status.UNKNOWN, f"{library.path}: unknown origin{version}")


def _changed(libraries: Iterable[FoundLibrary], placed: Mapping[str, str]) -> Iterator[Line]:
    """Name files of ours that are others now, or gone."""
    there = {library.path.lower(): library for library in libraries}
    for path, sha256 in placed.items():
        found = there.get(path.lower())
        if found is None:
            yield _line(Status.FAIL, f"{path} was placed by us and is gone: look at the protection history")
        elif found.sha256 != sha256:
            yield _line(Status.FAIL, f"{path} was placed by us and has been overwritten since")


def _mixtures(libraries: Iterable[FoundLibrary], makers: Mapping[str, Maker]) -> Iterator[Line]:
    """Name folders where a translation layer's libraries stand beside NVIDIA's of the same kind."""
    folders: dict[str, dict[Maker, list[str]]] = defaultdict(lambda: defaultdict(list))
    for library in libraries:
        if library.name.startswith(TRANSLATED) and not library.name.startswith("cudnn_"):
            folders[library.folder][makers[library.path]].append(library.name)
    for folder, by_maker in folders.items():
        layer = [*by_maker.get(Maker.OURS, ()), *by_maker.get(Maker.ZLUDA, ())]
        theirs = [name for name in by_maker.get(Maker.NVIDIA, ()) if name.startswith(("cublas", "cusparse"))]
        if layer and theirs:
            ours, others = (", ".join(sorted(names)[:3]) for names in (layer, theirs))
            text = (
                f"{folder or 'the folder'} is a mixture, overwritten by a later installation: "
                f"{ours} of a translation layer, {others} of NVIDIA"
            )
            yield _line(Status.FAIL, text)


def _backups(libraries: Sequence[FoundLibrary]) -> Iterator[Line]:
    """Name kept originals that are no originals any more."""
    for library in libraries:
        start = BACKUPS.get(library.name)
        twins = [
            other
            for other in libraries
            if start and other.name.startswith(start) and other.folder == library.folder
        ]
        if any(other.sha256 == library.sha256 for other in twins):
            yield _line(
                Status.FAIL, f"{library.path} should be NVIDIA's original and is the same as its twin"
            )


def _replaced(libraries: Iterable[FoundLibrary], makers: Mapping[str, Maker]) -> Iterator[Line]:
    """Name files that are others than their package installed."""
    for library in libraries:
        if library.recorded and library.recorded != library.sha256:
            text = f"{library.path} is not what its package installed, but {makers[library.path].value}'s"
            yield _line(Status.WARN, f"{text}; installing the package again would overwrite it")


def _line(status: Status, text: str) -> Line:
    return Line(status=status, topic="program", text=text, looked_at="names, hashes, version resources")


#: Files that are read at most; no program's start-up needs more.
MOST: Final = 600


class Missing(Struct, frozen=True, kw_only=True):
    """A library that is nowhere: its name, and the chain of files that leads to it."""

    name: str
    chain: tuple[str, ...]


def missing_libraries(
    start: Sequence[Path],
    needs: Callable[[Path], Iterable[str]],
    find: Callable[[Path, str], Path | None],
) -> Iterator[Missing]:
    """Follow imports from some files and name each library that is not found, once.

    Args:
        start: the program, and libraries that it loads later.
        needs: the names that a file imports at its start.
        find: where the loader would find a name that a file asks for.
    """

    def read(file: ReachedFile) -> Iterator[AskedName]:
        for name in needs(file.path):
            if not is_api_set(name):
                yield AskedName(name=name, found=find(file.path, name))

    walk, named = ImportWalk(read, limit=MOST), set[str]()
    for path in start:
        walk.add(path)
    for lost in walk:
        if lost.name.lower() not in named:
            named.add(lost.name.lower())
            yield Missing(name=lost.name, chain=lost.asker.chain)


def missing_lines(missing: Iterable[Missing]) -> Iterator[Line]:
    """Say which libraries are missing, and who asks for them."""
    for item in missing:
        text = f"{item.name} is nowhere on the search path; it is needed by {' > '.join(item.chain)}"
        yield Line(status=Status.FAIL, topic="program", text=text, looked_at="the chain of imports")
