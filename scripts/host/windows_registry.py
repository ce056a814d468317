"""A Windows machine's GPUs and drivers, as the registry lists them, and which Windows it is.

No administrator rights and no process are needed. Names come from the driver's INF and decide nothing.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from scripts.binary.properties import file_version
from scripts.host import gpu as nvidia
from scripts.host.gpu import AMD, NO_DRIVER, NO_GFX, NVIDIA, VENDORS, adapter_name, identify
from scripts.model import Gpu

if sys.platform == "win32":
    import winreg

ENUM: Final = r"SYSTEM\CurrentControlSet\Enum\PCI"
CLASSES: Final = r"SYSTEM\CurrentControlSet\Control\Class"
SERVICES: Final = r"SYSTEM\CurrentControlSet\Services"
DISPLAY: Final = "{4d36e968-e325-11ce-bfc1-08002be10318}"
#: Services of Microsoft's own display drivers, which draw but cannot compute.
_DRAWS_ONLY: Final = {"basicdisplay", "vga", "vgasave"}
_DEVICE = re.compile(r"VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4})(?:.*?&REV_([0-9A-F]{2}))?", re.IGNORECASE)
_PLACE = re.compile(r"\((\d+),(\d+),(\d+)\)\s*$")
_NUMBER = re.compile(r"\d+")
#: The 32-bit size stops counting here; the driver then writes a 64-bit one beside it.
_CAPPED: Final = 0xFFF00000


class Registry(Protocol):
    """A hive to read from. Names are compared without regard to case, as Windows does."""

    def keys(self, path: str) -> tuple[str, ...]:
        """Return the names of a key's sub-keys; empty where it cannot be read."""

    def values(self, path: str) -> dict[str, object] | None:
        """Return a key's values, or ``None`` where it cannot be read."""


class WinRegistry:
    r"""Reads ``HKEY_LOCAL_MACHINE``, or the keys below another place that look like it.

    Args:
        below: empty, or a key of ``HKEY_CURRENT_USER`` that holds a recorded ``SYSTEM\…``.
    """

    def __init__(self, below: str = "") -> None:
        """Open nothing yet."""
        self._below = below

    def keys(self, path: str) -> tuple[str, ...]:
        """Return the names of a key's sub-keys; empty where it cannot be read."""
        if sys.platform == "win32":
            with suppress(OSError), self._open(path) as key:
                return tuple(winreg.EnumKey(key, index) for index in range(winreg.QueryInfoKey(key)[0]))
        return ()

    def values(self, path: str) -> dict[str, object] | None:
        """Return a key's values, or ``None`` where it cannot be read."""
        if sys.platform == "win32":
            with suppress(OSError), self._open(path) as key:
                count = winreg.QueryInfoKey(key)[1]
                return {name: data for name, data, _ in (winreg.EnumValue(key, i) for i in range(count))}
        return None

    if sys.platform == "win32":

        def _open(self, path: str) -> winreg.HKEYType:
            """Open a key for reading, in the 64-bit view whatever Python this is."""
            root = winreg.HKEY_CURRENT_USER if self._below else winreg.HKEY_LOCAL_MACHINE
            full = rf"{self._below}\{path}" if self._below else path
            return winreg.OpenKey(root, full, 0, winreg.KEY_READ | winreg.KEY_WOW64_64KEY)


class Located(Struct, frozen=True, kw_only=True):
    """A GPU and its place on the PCI bus, ``None`` where the system does not say."""

    gpu: Gpu
    bus: int | None = None
    device: int | None = None
    function: int | None = None


class Adapters(Struct, frozen=True, kw_only=True):
    """The GPUs a stack could use, and a sentence for each adapter that is none."""

    gpus: tuple[Located, ...] = ()
    notes: tuple[str, ...] = ()


class _Entry(Struct, frozen=True, kw_only=True):
    """One display device of the PCI bus with its driver's key."""

    instance: str
    vendor: str
    device: str
    revision: str
    values: Mapping[str, object]
    driver: Mapping[str, object]

    @property
    def name(self) -> str:
        """The driver's name for it; INF references (``@oem5.inf,%x%;Name``) keep their text."""
        for value in (self.driver.get("DriverDesc"), self.values.get("DeviceDesc")):
            if isinstance(value, str) and value:
                return value.rpartition(";")[2]
        return ""


def displays(registry: Registry) -> Adapters:
    """List the display devices that are plugged in."""
    gpus, notes = [], []
    for entry in _entries(registry):
        if entry.vendor not in VENDORS:
            known = adapter_name(entry.vendor, entry.device) or entry.name
            notes.append(f"Passed over display adapter {entry.vendor}:{entry.device}, {known}.")
        elif _is_gone(registry, entry):
            notes.append(f"Passed over {entry.name}: Windows remembers it, but it is not plugged in.")
        else:
            gpus.append(_located(entry))
    notes += [f"Passed over display adapter {name}: it is no PCI device." for name in _virtual(registry)]
    gpus.sort(key=lambda g: (g.bus is None, g.bus, g.device, g.function))
    return Adapters(gpus=tuple(gpus), notes=tuple(notes))


def system32(environ: Mapping[str, str]) -> Path:
    """Return the folder of Windows' own libraries, where display drivers install theirs."""
    root = next((value for name, value in environ.items() if name.upper() == "SYSTEMROOT" and value), "")
    return Path(root or r"C:\Windows") / "System32"


def driver_files(folder: Path) -> dict[str, str | None]:
    """Return the HIP runtimes a display driver put into System32, with their file versions.

    These are build numbers of the driver (``10.0.3679.0``), not HIP versions.
    """
    try:
        found = sorted(p for p in folder.iterdir() if p.match("amdhip64*.dll"))
    except OSError:
        return {}
    return {path.name: file_version(path) for path in found}


def _entries(registry: Registry) -> Iterator[_Entry]:
    """Yield the display functions of the PCI bus; audio and other functions have another class."""
    for key in registry.keys(ENUM):
        match = _DEVICE.match(key)
        if match is None:
            continue
        for instance in registry.keys(rf"{ENUM}\{key}"):
            values = registry.values(rf"{ENUM}\{key}\{instance}") or {}
            if not _is_display(values):
                continue
            driver = values.get("Driver")
            own = registry.values(rf"{CLASSES}\{driver}") if isinstance(driver, str) else None
            yield _Entry(
                instance=rf"PCI\{key}\{instance}",
                vendor=match[1].lower(),
                device=match[2].lower(),
                revision=(match[3] or "").lower(),
                values=values,
                driver=own or {},
            )


def _is_display(values: Mapping[str, object]) -> bool:
    """Whether a device is a display or 3D controller; without any driver only its class code says so."""
    if guid := values.get("ClassGUID"):
        return str(guid).lower() == DISPLAY
    codes = values.get("CompatibleIDs")
    return isinstance(codes, list) and any(str(code).upper().startswith("PCI\\CC_03") for code in codes)


def _is_gone(registry: Registry, entry: _Entry) -> bool:
    """Whether its driver's list of present devices leaves it out. No list says nothing."""
    service = entry.values.get("Service")
    present = registry.values(rf"{SERVICES}\{service}\Enum") if service else None
    if not present:
        return False
    names = {value.upper() for value in present.values() if isinstance(value, str)}
    return entry.instance.upper() not in names


def _virtual(registry: Registry) -> Iterator[str]:
    """Name display drivers that belong to no PCI device: remote desktops, indirect displays."""
    for number in registry.keys(rf"{CLASSES}\{DISPLAY}"):
        values = registry.values(rf"{CLASSES}\{DISPLAY}\{number}") or {}
        matching, name = values.get("MatchingDeviceId"), values.get("DriverDesc")
        if isinstance(matching, str) and isinstance(name, str) and not matching.lower().startswith("pci\\"):
            yield name


def _located(entry: _Entry) -> Located:
    vendor = VENDORS[entry.vendor]
    why: dict[str, str] = {}
    service = str(entry.values.get("Service") or "")
    version = entry.driver.get("DriverVersion")
    driver = version if isinstance(version, str) and version else None
    if not service or service.lower() in _DRAWS_ONLY:
        driver = NO_DRIVER
        why["driver"] = f"{entry.name or 'no driver'} runs it" if service else "no driver is installed for it"
    elif driver is None:
        why["driver"] = "its driver's key names no version"
    known = identify(entry.device, entry.revision) if vendor == AMD else None
    if known is None:
        why["gfx"] = NO_GFX
    elif known.gfx is None:
        why["gfx"] = why["integrated"] = known.why_unknown
    memory = _memory(entry.driver)
    if memory is None:
        why["memory_bytes"] = "its driver's key names no size"
    name = known.name if known and driver == NO_DRIVER and known.name else entry.name
    bus, device, function = _place(entry.values.get("LocationInformation"))
    gpu = Gpu(
        index=0,
        name=name or f"{vendor.upper()} {entry.device}",
        vendor=vendor,
        gfx=known.gfx if known else None,
        integrated=known.integrated if known else None if vendor != NVIDIA else False,
        memory_bytes=memory,
        driver=driver,
        pci_id=":".join(part for part in (entry.vendor, entry.device, entry.revision) if part),
        source="Windows registry",
        why_unknown=why,
    )
    return Located(gpu=gpu, bus=bus, device=device, function=function)


def _memory(driver: Mapping[str, object]) -> int | None:
    """Read the adapter's memory: 64 bits where the driver writes them, else 32 that did not overflow."""
    large = _integer(driver.get("HardwareInformation.qwMemorySize"))
    small = _integer(driver.get("HardwareInformation.MemorySize"))
    return large or (small if small and small < _CAPPED else None)


def _integer(value: object) -> int | None:
    """Read a number stored as a number or as little-endian bytes."""
    if isinstance(value, bytes):
        return int.from_bytes(value, "little")
    return value if isinstance(value, int) else None


def _place(location: object) -> tuple[int | None, int | None, int | None]:
    """Read bus, device and function: ``(3,0,0)`` at the end, or three numbers in any language."""
    if not isinstance(location, str):
        return None, None, None
    if match := _PLACE.search(location):
        return int(match[1]), int(match[2]), int(match[3])
    numbers = [int(number) for number in _NUMBER.findall(location)]
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else (None, None, None)  # noqa: PLR2004 - bus, device, function


LOG: Final = "Microsoft-Windows-Windows Defender/Operational"
#: 1116: found; 1117: acted upon.
QUERY: Final = "*[System[(EventID=1116 or EventID=1117)]]"
NEWEST: Final = 50
_EVENT: Final = re.compile(r"<Event .*?</Event>", re.DOTALL)
_TIME: Final = re.compile(r"SystemTime=['\"]([\d-]+T[\d:]+)")
_FIELD: Final = r"<Data Name=['\"]{}['\"]>(.*?)</Data>"
#: Paths of ours and of those who share the trouble.
_OURS: Final = re.compile(r"zluda|nccl\.dll|nvcuda|cublas|cusparse|cuda-on-amd", re.IGNORECASE)


def threat_events(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return one sentence for each event about a file of ours or ZLUDA; ``None`` if they cannot be read."""
    command = ["wevtutil", "qe", LOG, f"/q:{QUERY}", f"/c:{NEWEST}", "/rd:true", "/f:xml"]
    code, output = nvidia.run(command, environ)
    return parse_events(output) if code == 0 else None


def parse_events(text: str) -> tuple[str, ...]:
    """Read the events that ``wevtutil`` prints as XML; names of fields are the same in every language."""
    found: dict[str, None] = {}
    for event in _EVENT.findall(text):
        name, path, at = _field(event, "Threat Name"), _field(event, "Path"), _TIME.search(event)
        if _OURS.search(path):
            found[
                f"{at[1] if at else 'at an unknown time'}: Defender took {path} for {name or 'malware'}"
            ] = None
    return tuple(found)


def _field(event: str, name: str) -> str:
    match = re.search(_FIELD.format(name), event, re.DOTALL)
    return html.unescape(match[1]).strip() if match else ""


VERSION_KEY: Final = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion"
SOFTWARE_KEY: Final = r"SOFTWARE\AMD\CN"
GRAPHICS_KEY: Final = r"SYSTEM\CurrentControlSet\Control\GraphicsDrivers"
_LONGEST: Final = 100
#: HwSchMode of hardware-accelerated GPU scheduling that is on.
_ON: Final = 2
#: Builds after whose update a hang was reported: build, first revision, update, what, source.
_HANG: Final = "the first CUDA call was reported to hang without using the processor (compiling uses a core)"
REPORTED: Final = ((26200, 9445, "KB5124008", _HANG, "lshqqytiger/ZLUDA#141, patientx/ComfyUI-Zluda#476"),)
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
