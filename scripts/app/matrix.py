"""``matrix``: what all documents show, as a static site in a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.app.advice import FILLER, advise
from scripts.app.context import Workspace, lock_of, within
from scripts.errors import ExitCode, UsageError
from scripts.evidence.matrix import matrix as matrix_of
from scripts.evidence.matrix import without_retired
from scripts.evidence.store import IngestFault, open_store
from scripts.host.gpu import TABLE
from scripts.osal.fs import long_path, read_bounded, write_atomic
from scripts.osal.paths import user_path
from scripts.probing.catalogue import probes
from scripts.serialize import JsonRecord, data_table
from scripts.site.changes import MatrixChange, SiteBuild, build_of, changes_between, count_kinds, read_build
from scripts.site.data import GpuModel, SiteContent
from scripts.site.files import FIRST_VIEW, PREVIOUS_BUILD, THIS_BUILD, is_build, site_files, stale_files
from scripts.staging.select import NAME_OF_OS

SITE: Final = ("docs", "site")
#: Bytes of what a build keeps of itself.
MOST_KEPT: Final = 64 * 1024 * 1024


class MatrixResult(JsonRecord, frozen=True, kw_only=True):
    """A site that was written.

    Attributes:
        documents: how many there are, ``cells`` how many results they make, on ``gpus`` GPUs.
        changes: what is different from the build before; ``None`` for the first one in this folder.
        faults: files that are no documents.
        files: how many files the site has, and ``size`` their bytes.
        first_view: bytes that a browser reads before it shows the first page.
    """

    folder: Path
    documents: int
    cells: int
    gpus: int
    changes: tuple[MatrixChange, ...] | None
    faults: tuple[IngestFault, ...]
    files: int
    size: int
    first_view: int
    exit_code: int = ExitCode.OK

    @property
    def kinds(self) -> dict[str, int]:
        """How many changes there are of each kind."""
        return count_kinds(self.changes or ())


class BuiltSite(Struct, frozen=True, kw_only=True):
    """A site before it is written: its files by their paths in the folder, and what they are made from."""

    files: Mapping[str, bytes]
    content: SiteContent
    changes: tuple[MatrixChange, ...] | None


def matrix(ws: Workspace, *, output: str = "") -> MatrixResult:
    """Write the site of all documents in ``evidence/`` into a folder, and remove data files it no longer has.

    Raises:
        UsageError: the folder has files and is no site of this tool, or cannot be made.
    """
    folder = user_path(output, "--output") if output else ws.root.joinpath(*SITE)
    site = build_site(ws, folder)
    try:
        (folder / "data").mkdir(parents=True, exist_ok=True)
    except (FileNotFoundError, NotADirectoryError, FileExistsError) as error:
        msg = f"{within(ws, folder)} cannot be made: {error.strerror}"
        raise UsageError("output-not-made", msg, hint="choose another folder") from error
    write_site(folder, site.files)
    content, sizes = site.content, {name: len(data) for name, data in site.files.items()}
    return MatrixResult(
        folder=folder,
        documents=len(content.matrix.documents),
        cells=len(content.cells),
        gpus=len({cell.gpu for cell in content.cells}),
        changes=site.changes,
        faults=content.matrix.faults,
        files=len(sizes),
        size=sum(sizes.values()),
        first_view=sum(sizes[name] for name in FIRST_VIEW),
    )


def build_site(ws: Workspace, folder: Path) -> BuiltSite:
    """Build the site that belongs into a folder, with what an earlier build left there; nothing is written.

    Raises:
        UsageError: the folder has files and is no site of this tool.
    """
    before = _folder_of_ours(folder, given=within(ws, folder))
    content = _content(ws)
    now = build_of(content.cells, documents=len(content.matrix.documents))
    previous = _previous(before, now)
    changes = None if previous is None else changes_between(previous, now)
    return BuiltSite(files=site_files(content, now, previous, changes), content=content, changes=changes)


def _content(ws: Workspace) -> SiteContent:
    # Documents speak about the checkout's own stacks, whichever lock is in use.
    lock = lock_of(ws, own=True)
    rows = data_table(TABLE)["model"]
    models = tuple(GpuModel(name=row["name"], gfx=row["gfx"], family=row["generation"]) for row in rows)
    with open_store() as store:
        store.ingest(ws.evidence)
        advice = {
            gfx: {name: advise(store, lock, gfx=gfx, os=os).verdict for os, name in NAME_OF_OS.items()}
            for gfx in sorted({model.gfx for model in models})
        }
        shown = without_retired(matrix_of(store), probes())
    return SiteContent(
        matrix=shown, models=models, stacks=tuple(lock.stacks.values()), advice=advice, filler=FILLER
    )


def _folder_of_ours(folder: Path, *, given: str) -> Mapping[str, bytes]:
    """Return what an earlier build kept in the folder; refuse a folder with other files in it."""
    data, kept = folder / "data", dict[str, bytes | None]()
    try:
        kept = {name: _kept(folder / name) for name in (THIS_BUILD, PREVIOUS_BUILD)}
        strange = os.path.lexists(long_path(folder)) and not long_path(folder).is_dir()
        strange |= os.path.lexists(data) and (data.is_symlink() or not data.is_dir())
        if not strange and long_path(folder).is_dir() and any(long_path(folder).iterdir()):
            strange = not is_build(kept[THIS_BUILD]) or (folder / "index.html").is_dir()
    except OSError:
        strange = True
    if strange:
        msg = f"{given} is no empty folder and no site of this tool"
        raise UsageError("not-a-site", msg, hint="choose an empty folder: invoke matrix --output=FOLDER")
    return {name: raw for name, raw in kept.items() if raw is not None}


def _kept(path: Path) -> bytes | None:
    """Read what a build kept of itself."""
    try:
        return read_bounded(path, MOST_KEPT)
    except FileNotFoundError:
        return None


def _previous(before: Mapping[str, bytes], now: SiteBuild) -> SiteBuild | None:
    """Return the last build that differs from this one; ``None`` for the first in its folder."""
    last = read_build(before.get(THIS_BUILD))
    return read_build(before.get(PREVIOUS_BUILD)) if last == now else last


def write_site(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write what differs, then remove data files that are no longer part of the site."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            write_atomic(path, content, durable=False)
    for path in stale_files(folder, files):
        path.unlink(missing_ok=True)
