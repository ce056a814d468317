"""A program or library of either format, recognised by its first bytes and never by its name."""

from __future__ import annotations

from pathlib import Path

from scripts.binary.image import Image, Unreadable
from scripts.binary.sniff import HEAD, sniff


def read_image(path: Path, *, exports: bool = False) -> Image | Unreadable:
    """Read a PE or ELF file, or say why it is neither. Never raises.

    ``exports`` also lists what a PE file exports (an ELF file's are always there).
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
        if head[:2] == b"MZ":
            from scripts.binary.pe import read_pe  # noqa: PLC0415 - most runs read nothing: the cache answers

            return read_pe(path, exports=exports)
        if head[:4] == b"\x7fELF":
            from scripts.binary.elf import read_elf  # noqa: PLC0415 - as above

            return read_elf(path)
    except OSError as error:
        return Unreadable(reason=f"it cannot be read: {error.strerror or error}")
    kind = sniff(head, path.suffix)
    return Unreadable(reason=f"it is {kind.what}", then=kind.then)
