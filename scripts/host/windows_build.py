"""Which Windows this is, to the update, and what of it bears on GPUs. Pure but for the registry."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from scripts.host.windows import Registry

VERSION_KEY: Final = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion"
SOFTWARE_KEY: Final = r"SOFTWARE\AMD\CN"
GRAPHICS_KEY: Final = r"SYSTEM\CurrentControlSet\Control\GraphicsDrivers"
_LONGEST: Final = 100
#: HwSchMode of hardware-accelerated GPU scheduling that is on.
_ON: Final = 2
#: Builds after whose update a hang was reported: build, first revision, update, what, source.
REPORTED: Final = (
    (
        26200,
        9445,
        "KB5124008",
        "the first CUDA call was reported to hang without using the processor (compiling uses a core)",
        "lshqqytiger/ZLUDA#141, patientx/ComfyUI-Zluda#476",
    ),
)


#: The first build of Windows 11.
WINDOWS_11: Final = 22000


class WindowsBuild(Struct, frozen=True, kw_only=True):
    """Windows' build and revision (the part an update changes), and what else bears on GPUs.

    Attributes:
        build: ``None``: it could not be read, as below.
        revision: the part that an update changes.
        gpu_scheduling: whether hardware-accelerated GPU scheduling is on.
        amd_edition: the edition of AMD's driver package; empty where none is written down.
        amd_release: its version, as AMD's release notes call it (26.8.1, or 26.Q1 for the PRO edition).
    """

    build: int | None = None
    revision: int | None = None
    gpu_scheduling: bool | None = None
    amd_edition: str = ""
    amd_release: str = ""

    @property
    def is_pro(self) -> bool:
        """Whether AMD's driver package is the PRO edition, whose versions are quarters."""
        return "pro" in self.amd_edition.lower().split() or "Q" in self.amd_release

    @property
    def name(self) -> str:
        """As ``winver`` shows it; empty where it is not known."""
        return "" if self.build is None else f"{self.build}.{'?' if self.revision is None else self.revision}"


def windows_build(registry: Registry) -> WindowsBuild:
    """Read what Windows says of itself."""
    version = registry.values(VERSION_KEY) or {}
    build, revision = version.get("CurrentBuild"), version.get("UBR")
    software = registry.values(SOFTWARE_KEY) or {}
    mode = (registry.values(GRAPHICS_KEY) or {}).get("HwSchMode")
    return WindowsBuild(
        build=int(build) if isinstance(build, str) and build.isdecimal() else None,
        revision=revision if isinstance(revision, int) else None,
        gpu_scheduling=mode == _ON if isinstance(mode, int) else None,
        amd_edition=_text(software.get("RadeonSoftwareEdition")),
        amd_release=_text(software.get("RadeonSoftwareVersion")),
    )


def _text(value: object) -> str:
    """Return a short text of the registry; anything else is none."""
    return value if isinstance(value, str) and len(value) <= _LONGEST and value.isprintable() else ""


def build_reports(found: WindowsBuild) -> tuple[str, ...]:
    """Return what was reported about a build, with the report; later revisions may have it too."""
    return tuple(
        f"since {update} ({build}.{first}) {what} ({source})"
        for build, first, update, what, source in REPORTED
        if found.build == build and found.revision is not None and found.revision >= first
    )
