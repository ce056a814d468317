"""A lock with one small downloadable stack, and a mirror folder that serves it: no network needed."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

LOCK = """version = 1

[[artifact]]
id = "layer"
urls = ["https://github.com/example/layer/releases/download/v1/layer.zip"]
sha256 = "{sha256}"
size = {size}
format = "zip"
root = "layer"
license = "MIT"
source = "example/layer@0000000"
trust = "single-report"
members = [
  {{ path = "cuda_check", provides = "nvcuda" }},
]

[[stack]]
id = "small"
kind = "reference"
parts = ["layer"]
hip = {{ from = "none" }}

[[stack]]
id = "cpu-reference"
kind = "reference"
hip = {{ from = "none" }}
"""


@dataclass
class SmallStack:
    """The lock and the mirror; change ``archive`` and call ``pin`` to pin other bytes."""

    folder: Path
    archive: bytes = b""

    @property
    def lock(self) -> Path:
        return self.folder / "small.lock"

    @property
    def mirror(self) -> Path:
        return self.folder / "mirror"

    @property
    def env(self) -> dict[str, str]:
        return {"CUDA_AMD_LOCK": str(self.lock), "CUDA_AMD_CACHE": str(self.folder / "own store")}

    def pin(self) -> SmallStack:
        """Write the lock for the archive's bytes."""
        self.mirror.mkdir(parents=True, exist_ok=True)
        sha256 = hashlib.sha256(self.archive).hexdigest()
        self.lock.write_text(
            LOCK.format(sha256=sha256, size=len(self.archive)), encoding="utf-8", newline="\n"
        )
        return self

    def serve(self, data: bytes | None = None) -> SmallStack:
        """Put bytes where the mirror is asked for the archive by its file name."""
        (self.mirror / "layer.zip").write_bytes(self.archive if data is None else data)
        return self


def make_zip(files: dict[str, bytes]) -> bytes:
    """Pack files; names are written as they are."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def small_stack(folder: Path, files: dict[str, bytes] | None = None) -> SmallStack:
    """Make the lock and the mirror of a stack with these files."""
    archive = make_zip(files or {"layer/cuda_check": b"#!/bin/sh\necho 'nvcuda    : OK'\n"})
    return SmallStack(folder=folder, archive=archive).pin().serve()
