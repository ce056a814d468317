"""What AMD says a HIP SDK release supports on an architecture. Pure but for reading one table."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

TABLE: Final = Path(__file__).resolve().parents[1] / "data" / "hip.toml"


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
    row = document()["support"].get(gfx)
    if release is None or row is None or release not in row:
        what = f"HIP {hip_version or 'of an unknown version'}" if release not in (row or {}) else gfx
        return Support(
            verdict=SupportLevel.UNKNOWN, sentence=f"Nothing is known here about {gfx} and {what}."
        )
    source = document()["sources"][release]
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
    return tuple(Sdk(**entry) for entry in document()["sdk"])


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
        f"from {document()['page']}"
    )


def driver_notes(gfx: str) -> tuple[str, ...]:
    """Return what users reported about drivers on this architecture, with the report."""
    return tuple(
        f"{note['text']} ({note['source']})" for note in document()["driver_note"] if gfx in note["gfx"]
    )


def driver_too_old(driver: str, hip_version: str) -> str:
    """Say that a Windows display driver is older than a HIP release was said to need; empty where it is not.

    Only the first three parts of a driver's number decide.
    """
    there = _driver_number(driver)
    for row in document()["driver_minimum"]:
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
        for note in document()["sdk_note"]
        if gfx in note["gfx"] and note["sdk"] == release
    )


@cache
def document() -> dict[str, Any]:
    """Read the table once."""
    import tomllib  # noqa: PLC0415 - many runs never read the table

    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def _release(hip_version: str) -> str | None:
    """Return the SDK release with the same major and minor number."""
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 - as above

    try:
        wanted = Version(hip_version).release[:2]
    except InvalidVersion:
        return None
    return next((sdk.version for sdk in releases() if Version(sdk.version).release[:2] == wanted), None)
