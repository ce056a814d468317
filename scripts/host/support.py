"""What runs on a GPU: what AMD says a HIP SDK release supports, and the ways without translation. Pure."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from scripts.host.hip_libraries import TABLE
from scripts.serialize import data_table

#: Parts of a Windows driver's number.
FOUR: Final = 4


class SupportLevel(StrEnum):
    """How much of a HIP SDK release is meant for an architecture."""

    RUNTIME_AND_LIBRARIES = "R L"
    RUNTIME = "R"
    NONE = "none"
    UNKNOWN = "unknown"


class Support(Struct, frozen=True, kw_only=True):
    """A verdict, the sentence that says it, and the public page it was read from."""

    verdict: SupportLevel
    sentence: str
    source: str = ""


class Sdk(Struct, frozen=True, kw_only=True):
    """One release of the HIP SDK for Windows."""

    version: str
    release: str
    windows: str
    runtime: str
    root: str


def support(gfx: str, hip_version: str) -> Support:
    """Say what the HIP SDK of this version (compared by major.minor) offers for ``gfx``."""
    release = _release(hip_version)
    row = data_table(TABLE)["support"].get(gfx)
    if release is None or row is None or release not in row:
        what = f"HIP {hip_version or 'of an unknown version'}" if release not in (row or {}) else gfx
        return Support(
            verdict=SupportLevel.UNKNOWN, sentence=f"Nothing is known here about {gfx} and {what}."
        )
    source = data_table(TABLE)["sources"][release]
    verdict, sentence = {
        "RL": (
            SupportLevel.RUNTIME_AND_LIBRARIES,
            f"HIP SDK {release} supports {gfx}: runtime and libraries.",
        ),
        "R": (
            SupportLevel.RUNTIME,
            f"HIP SDK {release} supports only the runtime on {gfx}: its rocBLAS has no kernels for it.",
        ),
        "none": (SupportLevel.NONE, f"HIP SDK {release} does not support {gfx}."),
        "unlisted": (SupportLevel.NONE, f"HIP SDK {release} does not list {gfx}."),
    }[row[release]]
    return Support(verdict=verdict, sentence=sentence, source=source)


def releases() -> tuple[Sdk, ...]:
    """Return every release of the HIP SDK for Windows, oldest first."""
    return msgspec.convert(data_table(TABLE)["sdk"], tuple[Sdk, ...])


def release_for(version_range: str) -> Sdk | None:
    """Return the newest release inside a version specifier set, or ``None``."""
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - slow to import, seldom asked

    wanted = SpecifierSet(version_range)
    fitting = [sdk for sdk in releases() if wanted.contains(sdk.version)]
    return fitting[-1] if fitting else None


def where_to_get(version_range: str) -> str:
    """Return a sentence naming the release to install, and the page it is on."""
    sdk = release_for(version_range)
    if sdk is None:
        return f"Install a HIP runtime of version {version_range or 'any'}."
    return (
        f"Install AMD HIP SDK {sdk.version} (release {sdk.release}, for Windows {sdk.windows}) "
        f"from {data_table(TABLE)['page']}"
    )


def driver_notes(gfx: str) -> tuple[str, ...]:
    """Return what users reported about drivers on this architecture, with the report."""
    return tuple(
        f"{note['text']} ({note['source']})"
        for note in data_table(TABLE)["driver_note"]
        if gfx in note["gfx"]
    )


def driver_too_old(driver: str, hip_version: str) -> str:
    """Say that a Windows display driver is older than a HIP release is reported to need, or nothing.

    Only the first three parts of a driver's number decide.
    """
    there = _driver_number(driver)
    for row in data_table(TABLE)["driver_minimum"]:
        wanted = _driver_number(row["driver"])
        if there and there < wanted and _at_least(hip_version, row["hip"]):
            return (
                f"driver {driver} is older than {row['package']} ({row['driver']}), "
                f"which was reported to be needed for HIP {row['hip']} and later"
            )
    return ""


def needs_windows_11(hip_version: str) -> bool:
    """Whether AMD gives a HIP SDK release for Windows 11 alone."""
    release = _release(hip_version)
    return any(sdk.version == release and sdk.windows == "11" for sdk in releases())


def _driver_number(text: str) -> tuple[int, ...]:
    """Read the first three parts of a driver's number; empty where it has another shape."""
    parts = text.split(".")
    return tuple(map(int, parts[:3])) if len(parts) == FOUR and all(map(str.isdecimal, parts)) else ()


def _at_least(version: str, floor: str) -> bool:
    """Compare two HIP versions; what is no version is not at least anything."""
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 - slow to import, seldom asked

    try:
        return Version(version) >= Version(floor)
    except InvalidVersion:
        return False


def sdk_notes(gfx: str, hip_version: str) -> tuple[str, ...]:
    """Return what users reported about a release of the HIP SDK on this architecture, with the report."""
    release = _release(hip_version)
    return tuple(
        f"{note['text']} ({note['source']})"
        for note in data_table(TABLE)["sdk_note"]
        if gfx in note["gfx"] and note["sdk"] == release
    )


def _release(hip_version: str) -> str | None:
    """Return the SDK release with the same major and minor number."""
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 - as above

    try:
        wanted = Version(hip_version).release[:2]
    except InvalidVersion:
        return None
    return next((sdk.version for sdk in releases() if Version(sdk.version).release[:2] == wanted), None)


NATIVE: Final = "native.toml"
#: Stands in the table for every architecture that AMD's packages cover.
AMD_LIST: Final = "amd"
#: What is asked about where no program is named; ids of ``apps.toml``.
USUAL: Final = ("pytorch", "llama-cpp", "blender")


class NativeWay(Struct, frozen=True, kw_only=True):
    """One way: what it is, what is typed, who says so and when.

    ``better`` says why translation is the better way; ``own`` whether the way is the program's own; ``gfx``
    are the architectures it is for, empty for any.
    """

    id: str
    what: str
    commands: tuple[str, ...]
    source: str
    date: str
    better: str = ""
    own: bool = False
    gfx: tuple[str, ...] = ()


def coverage() -> tuple[str, ...]:
    """Return every architecture that AMD's Python packages cover."""
    return tuple(data_table(NATIVE)[AMD_LIST])


def never_served() -> tuple[str, ...]:
    """Return every architecture that no stack here serves or will."""
    return tuple(data_table(NATIVE)["never"])


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
            gfx=tuple(
                one for name in row.get("gfx", ()) for one in ((name,) if name != AMD_LIST else coverage())
            ),
        )
        for row in data_table(NATIVE)["way"]
        if _fits(row, gfx=gfx, os=os, programs=programs)
    ]
    return tuple(sorted(found, key=lambda way: not way.own))


def no_stack_possible(gfx: str) -> str:
    """Say why nothing here serves an architecture; empty where that is not known."""
    if gfx not in never_served():
        return ""
    return (
        f"AMD's packages that stacks here are made of do not list {gfx}, and none works without them: "
        "programs for Vulkan run on it, programs for CUDA alone do not"
    )


def _fits(row: dict[str, Any], *, gfx: str, os: str, programs: Collection[str]) -> bool:
    """Whether a way is meant for a GPU, a system, and one of the programs."""
    wanted = row.get("gfx", ())
    return (
        row.get("os", os) == os
        and (not wanted or gfx in wanted or (AMD_LIST in wanted and gfx in coverage()))
        and ("programs" not in row or bool(set(row["programs"]) & set(programs)))
    )
