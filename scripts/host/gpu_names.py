"""What a person calls a GPU: a product's name, an architecture, or what ``hipInfo`` printed. Pure."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from scripts.host.gpu import named_models
from scripts.host.hipinfo import parse

ARCHITECTURE: Final = re.compile(r"gfx[0-9a-f]{3,4}")
#: Words of a product's name that people leave out.
FILLER: Final = frozenset(
    {"amd", "ati", "radeon", "graphics", "gpu", "card", "tm", "r", "series", "ryzen", "igpu"}
)
_WORD: Final = re.compile(r"[a-z]+|\d+")


class GpuMatch(Struct, frozen=True, kw_only=True):
    """What a text names.

    Attributes:
        gfx: the architectures that it may be, most likely first; more than one where the name alone does not
            decide.
        names: the products it was taken for; empty where an architecture was given.
        how: ``architecture``, ``hipinfo``, ``name``, or ``unknown``.
    """

    gfx: tuple[str, ...]
    names: tuple[str, ...] = ()
    how: str = "unknown"


def gpu_names() -> tuple[tuple[str, str], ...]:
    """Return every product of our table with its architecture, sorted."""
    return tuple(sorted(named_models()))


def find_gpu(text: str) -> GpuMatch:
    """Say which architecture a text names."""
    wanted = " ".join(text.split()).lower()
    if ARCHITECTURE.fullmatch(wanted):
        return GpuMatch(gfx=(wanted,), how="architecture")
    devices = parse(text).devices
    found = tuple(dict.fromkeys(device.gfx for device in devices if device.gfx))
    if found:
        names = tuple(device.name for device in devices if device.name)
        return GpuMatch(gfx=found, names=names, how="hipinfo")
    return _by_name(wanted)


def _by_name(text: str) -> GpuMatch:
    """Compare words: the whole name first, then names that have all of the words."""
    asked = _words(text)
    if not asked:
        return GpuMatch(gfx=())
    known = [(name, gfx, _words(name)) for name, gfx in gpu_names()]
    same = [(name, gfx) for name, gfx, words in known if words == asked]
    some = same or [(name, gfx) for name, gfx, words in known if set(asked) <= set(words)]
    return GpuMatch(
        gfx=tuple(dict.fromkeys(gfx for _, gfx in some)),
        names=tuple(name for name, _ in some),
        how="name" if some else "unknown",
    )


def _words(name: str) -> tuple[str, ...]:
    """Split a name into words and numbers, without what people leave out: ``RX7900XTX`` is ``7900 xtx``."""
    return tuple(word for word in _WORD.findall(name.lower()) if word not in FILLER)
