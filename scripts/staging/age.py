"""Which of two stacks is newer, read out of the versions in their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from scripts.model import Lock, Stack

_LAYER_VERSION = re.compile(r"(?:^|-)v(\d+)(?:(?:-preview\.|p)(\d+))?(?=-|$)")
_NUMBERS = re.compile(r"\d+")
_NO_PREVIEW: Final = 10**9


def newest_first(stacks: Iterable[Stack], lock: Lock) -> list[Stack]:
    """Order stacks by their translation layer's version, then by the HIP version they start at."""
    return sorted(stacks, key=lambda stack: _age(stack, lock), reverse=True)


def _age(stack: Stack, lock: Lock) -> tuple[tuple[int, int], tuple[int, ...], tuple[int, ...], str]:
    """Return a key that grows with the layer's version; a release is newer than its previews."""
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - slow to import, seldom asked

    names = [part for part in stack.parts if part in lock.artifacts] or [stack.id]
    versions = [_layer_version(name) for name in (*names, stack.id)]
    floor = [s.version for s in SpecifierSet(stack.hip.range) if s.operator in {">=", "==", "~="}]
    hip = tuple(int(n) for n in _NUMBERS.findall(floor[0])) if floor else ()
    natural = tuple(int(n) for n in _NUMBERS.findall(stack.id))
    return (next((v for v in versions if v != (0, 0)), (0, 0)), hip, natural, stack.id)


def _layer_version(name: str) -> tuple[int, int]:
    """Read ``v7-preview.10``, ``v7p10`` or ``v6`` out of an id; (0, 0) without one."""
    match = _LAYER_VERSION.search(name)
    return (int(match[1]), int(match[2]) if match[2] else _NO_PREVIEW) if match else (0, 0)
