"""The CUDA libraries in and below a program's folder, looked at for the doctor."""

from __future__ import annotations

import base64
import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from scripts.app.context import Workspace, cache_of, lock_of
from scripts.app.loader_look import missing_at_start
from scripts.binary.pe_version import company, file_version
from scripts.doctor.beside import NVIDIA_NAME, ZLUDA_MARK, Library
from scripts.doctor.missing_dlls import Missing
from scripts.errors import WorkspaceError
from scripts.model import Host
from scripts.osal.fs import hash_file
from scripts.placement.journal import Journal, JournalStep
from scripts.placement.layout import Layout
from scripts.placement.rollback import REAL
from scripts.placement.state import load
from scripts.preflight.listing import list_folder
from scripts.preflight.packages import environments
from scripts.staging.generations import read_history
from scripts.staging.runtimes import load_runtime

_CUDA: Final = re.compile(
    r"(?:nvcuda|cu(?:blas|blaslt|sparse|dnn|fft|dart|solver|rand)\w*|nv(?:rtc|ml|api|toolsext)\w*|caffe2_nvrtc)\.dll|"
    r"lib(?:cuda|cublas|cublaslt|cusparse|cudnn|cufft|cudart|nvrtc|nvidia-ml)\S*\.so(?:\.\d+)*",
    re.IGNORECASE,
)
#: Of a larger library only this much is searched for a name.
SEARCHED: Final = 96 * 1024 * 1024
#: Packages' lists of files; larger ones are no such lists.
MAX_RECORD: Final = 8 * 1024 * 1024


def libraries_of(program: Path) -> tuple[Library, ...]:
    """Read every CUDA library the program ships or, for an interpreter, its PyTorch brings."""
    folder = program.parent
    found = dict.fromkeys(_named(folder), folder)
    for site in environments(program):
        found |= dict.fromkeys(_named(site / "torch" / "lib"), site)
    records = _records({site for site in found.values() if site != folder})
    return tuple(_library(path, base, records) for path, base in sorted(found.items()))


def pinned_hashes(ws: Workspace) -> dict[str, str]:
    """Return the hashes of every pinned file and of every assembled one, with where they belong."""
    found: dict[str, str] = {}
    with suppress(WorkspaceError):
        for artifact in lock_of(ws).artifacts.values():
            found |= {member.sha256: artifact.id for member in artifact.members if member.sha256}
        for generation in read_history(ws.stage).generations:
            runtime = load_runtime(cache_of(ws), generation.digest, stack=generation.stack)
            found |= {file.sha256: generation.stack for file in (runtime.files if runtime else ())}
    return found


def placed_files(folder: Path) -> dict[str, str]:
    """Return what we placed beside the program, with the hash it had; empty where nothing is placed."""
    journal: Journal | None = None
    with suppress(WorkspaceError, OSError):
        journal = load(Layout(folder), REAL)
    if journal is None or journal.step is not JournalStep.COMMITTED:
        return {}
    return {action.path: action.sha256 for action in journal.actions}


def missing_imports(ws: Workspace, program: Path, libraries: Sequence[Library], host: Host) -> list[Missing]:
    """Name what the program and its CUDA libraries import and is nowhere.

    HIP's folders count as well, since `wrap` puts them on the search path.
    """
    later = [path for path in (program.parent / library.path for library in libraries) if path.is_file()]
    hip = [root.path / "bin" for root in host.hip_roots]
    return missing_at_start(program, ws.environ, ws.platform, more=hip, later=later)


def _named(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in list_folder(folder, deep=True).files if _CUDA.fullmatch(path.name))


def _library(path: Path, base: Path, records: dict[str, str]) -> Library:
    """Read one library."""
    name = path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix()
    maker = company(path)
    return Library(
        path=name,
        sha256=hash_file(path),
        company=maker,
        version=file_version(path) or "",
        mentions_zluda=NVIDIA_NAME not in maker.lower() and _mentions(path, ZLUDA_MARK),
        recorded=records.get(name.casefold(), ""),
    )


def _mentions(path: Path, mark: bytes) -> bool:
    with path.open("rb") as stream:
        return mark in stream.read(SEARCHED).lower()


def _records(sites: set[Path]) -> dict[str, str]:
    """Return the hashes that PyTorch's package was installed with, by path below the packages' folder."""
    found: dict[str, str] = {}
    for record in (path for site in sites for path in site.glob("torch-*.dist-info/RECORD")):
        with suppress(OSError, ValueError, csv.Error):
            if record.stat().st_size > MAX_RECORD:
                continue
            text = record.read_text(encoding="utf-8")
            for row in csv.reader(text.splitlines()):
                if len(row) > 1 and row[1].startswith("sha256="):
                    found[row[0].casefold()] = _hex(row[1].removeprefix("sha256="))
    return found


def _hex(digest: str) -> str:
    """Turn the digests of RECORD (base64 for URLs, unpadded) into hex."""
    return base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)).hex()
