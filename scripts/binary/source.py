"""Random access to a file of any size in a bounded amount of memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Self

BLOCK: Final = 4096
#: Small reads that march on by no more than this are cheaper read through than skipped.
STRIDE: Final = 1 << 15
AHEAD: Final = 1 << 18


class FileBytes:
    """A file read piece by piece; what lies beyond its end reads as nothing.

    Small reads near each other cost one system call. Nothing stays mapped, so memory does not grow
    with the file.

    Raises:
        OSError: the file cannot be opened or read.
    """

    def __init__(self, path: Path) -> None:
        """Open the file."""
        self._file = path.open("rb", buffering=0)
        self.size = os.fstat(self._file.fileno()).st_size
        self._start = 0
        self._block = b""
        self._ahead = BLOCK

    def __enter__(self) -> Self:
        """Return the open file."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close it."""
        self._file.close()

    def read(self, offset: int, size: int) -> bytes:
        """Return up to ``size`` bytes at ``offset``; fewer, or none, where the file ends."""
        start = offset - self._start
        if size > 0 and start >= 0 and start + size <= len(self._block):
            return self._block[start : start + size]
        if offset < 0 or size <= 0 or offset >= self.size:
            return b""
        if size > BLOCK:
            return self._load(offset, min(size, self.size - offset))
        marching = 0 <= start - len(self._block) <= STRIDE or 0 <= start < len(self._block)
        self._ahead = min(self._ahead * 2, AHEAD) if marching and self._block else BLOCK
        self._start = offset
        self._block = self._load(offset, min(self._ahead, self.size - offset))
        return self._block[:size]

    def _load(self, offset: int, size: int) -> bytes:
        """Read from the file; a system may give less than asked for."""
        self._file.seek(offset)
        data = self._file.read(size) or b""
        while len(data) < size and (more := self._file.read(size - len(data))):
            data += more
        return data

    def text(self, offset: int, limit: int = 512) -> str:
        """Return the NUL-terminated text at ``offset``, cut at ``limit`` bytes; odd bytes are escaped."""
        return self.read(offset, limit).split(b"\0", 1)[0].decode("utf-8", "backslashreplace")
