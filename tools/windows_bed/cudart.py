"""NVIDIA's own CUDA runtimes, fetched by their hashes for the tests that need the real ones."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from filelock import FileLock

from tools.windows_bed.bed import HERE, Bed
from tools.windows_bed.tools import say
from tools.windows_bed.wheels import Pip

CUDART_LOCK = HERE / "requirements-cudart.lock"


def fetch_cudart(bed: Bed) -> Path:
    """Return the folder of ``cudart64_*.dll``, fetched once for each state of their lock.

    Raises:
        BedError: a download failed, or a file is not the one that the lock names.
    """
    folder = bed.folder / "cudart" / hashlib.sha256(CUDART_LOCK.read_bytes()).hexdigest()[:16]
    folder.parent.mkdir(exist_ok=True)
    with FileLock(bed.folder / "cudart.lock"):
        if not folder.exists():
            say("fetching the CUDA runtimes (once, 7 MB)")
            with tempfile.TemporaryDirectory(dir=folder.parent) as making:
                work = Path(making)
                Pip(work / "tools").download_wheels(CUDART_LOCK, work / "wheels")
                _take_libraries(work / "wheels", work / "libraries")
                (work / "libraries").rename(folder)
    return folder


def _take_libraries(wheels: Path, folder: Path) -> None:
    folder.mkdir()
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for member in map(PurePosixPath, archive.namelist()):
                if member.match("cudart64_*.dll"):
                    (folder / member.name).write_bytes(archive.read(str(member)))
