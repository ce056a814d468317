"""How programs run on a Radeon without translation. Pure but for reading one table."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

TABLE: Final = Path(__file__).resolve().parents[1] / "data" / "native.toml"
#: Stands in the table for every architecture that AMD's packages cover.
AMD_LIST: Final = "amd"
#: What is asked about where no program is named; ids of ``apps.toml``.
USUAL: Final = ("pytorch", "llama-cpp", "blender")


class NativeWay(Struct, frozen=True, kw_only=True):
    """One way: what it is, what is typed, who says so and when.

    ``better`` says why translation is the better way; ``own`` whether the way is the program's own.
    """

    id: str
    what: str
    commands: tuple[str, ...]
    source: str
    date: str
    better: str = ""
    own: bool = False


def covered_by_amd(gfx: str) -> bool:
    """Whether AMD's Python packages have a device part for an architecture."""
    return gfx in _document()[AMD_LIST]


def coverage() -> tuple[str, ...]:
    """Return every architecture that AMD's Python packages cover."""
    return tuple(_document()[AMD_LIST])


def native_ways(*, gfx: str, os: str, programs: Collection[str]) -> tuple[NativeWay, ...]:
    """Return the ways for a GPU, a system and programs (ids of ``apps.toml``), the programs' own first.

    ``gfx`` is empty where the GPU is not known: then only ways for every GPU are meant.
    """
    found = [
        NativeWay(
            id=row["id"],
            what=row["what"],
            commands=tuple(command.replace("{gfx}", gfx) for command in row["commands"]),
            source=row["source"],
            date=row["date"],
            better=row.get("better", ""),
            own="programs" in row,
        )
        for row in _document()["way"]
        if _fits(row, gfx=gfx, os=os, programs=programs)
    ]
    return tuple(sorted(found, key=lambda way: not way.own))


def no_stack_possible(gfx: str) -> str:
    """Say why nothing here serves an architecture; empty where that is not known."""
    if gfx not in _document()["never"]:
        return ""
    return (
        f"AMD's packages that stacks here are made of do not list {gfx}, and none works without them: "
        "programs for Vulkan or DirectML run on it, programs for CUDA alone do not"
    )


def _fits(row: dict[str, Any], *, gfx: str, os: str, programs: Collection[str]) -> bool:
    """Whether a way is meant for a GPU, a system, and one of the programs."""
    wanted = row.get("gfx", ())
    return (
        row.get("os", os) == os
        and (not wanted or gfx in wanted or (AMD_LIST in wanted and covered_by_amd(gfx)))
        and ("programs" not in row or bool(set(row["programs"]) & set(programs)))
    )


@cache
def _document() -> dict[str, Any]:
    """Read the table once."""
    import tomllib  # noqa: PLC0415 - many runs never read the table

    return tomllib.loads(TABLE.read_text(encoding="utf-8"))
