"""One resource of a Windows file, found without reading the others."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

MANIFEST: Final = 24
_MAX_ENTRIES: Final = 1024
_LEVELS: Final = 3
_FOLDER: Final = 0x8000_0000


def resource(read: Callable[[int, int], bytes], root: int, kind: int, limit: int) -> bytes:
    """Return the first resource of a type, cut at ``limit`` bytes; empty where there is none.

    ``read`` takes an address and a size and may return less; ``root`` is the address of the tree.
    """
    if not root:
        return b""
    place = 0
    for level in range(_LEVELS):
        leads = _entry(read, root + place, kind if level == 0 else None)
        if leads is None:
            return b""
        place = leads
        if not place & _FOLDER:
            break
        place &= ~_FOLDER
    data = read(root + place, 8)
    if len(data) < 8:  # noqa: PLR2004 - address and size
        return b""
    address, size = struct.unpack("<II", data)
    return read(address, min(size, limit))


def _entry(read: Callable[[int, int], bytes], folder: int, wanted: int | None) -> int | None:
    """Return where an entry of one folder leads: the wanted one, or the first."""
    head = read(folder, 16)
    if len(head) < 16:  # noqa: PLR2004 - the size of a folder's head
        return None
    named, numbered = struct.unpack_from("<HH", head, 12)
    table = read(folder + 16, 8 * min(named + numbered, _MAX_ENTRIES))
    for identity, place in struct.iter_unpack("<II", table[: len(table) // 8 * 8]):
        if wanted is None or identity == wanted:
            return int(place)
    return None
