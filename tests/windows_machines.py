"""Recorded Windows registries: the keys a scan reads, as plain data."""

from __future__ import annotations

from collections.abc import Mapping

from scripts.host.windows_registry import CLASSES, DISPLAY, ENUM, SERVICES

Keys = dict[str, dict[str, object]]


class Recorded:
    """A registry made of plain data; names are compared without regard to case, as Windows does."""

    def __init__(self, *parts: Mapping[str, Mapping[str, object]]) -> None:
        self.data = {path: dict(values) for part in parts for path, values in part.items()}

    def keys(self, path: str) -> tuple[str, ...]:
        start = f"{path}\\".lower()
        below = [name[len(start) :] for name in self.data if name.lower().startswith(start)]
        return tuple(sorted({name.partition("\\")[0] for name in below}))

    def values(self, path: str) -> dict[str, object] | None:
        return next((values for name, values in self.data.items() if name.lower() == path.lower()), None)


def place(bus: int, device: int = 0, function: int = 0) -> str:
    return (
        f"@System32\\drivers\\pci.sys,#65536;PCI bus %1, device %2, function %3;({bus},{device},{function})"
    )


def adapter(
    ids: str,
    name: str,
    number: int = 0,
    *,
    location: str = "",
    service: str = "amdkmdag",
    version: str = "32.0.31021.5001",
    guid: str = DISPLAY,
    present: bool | None = True,
    memory: Mapping[str, object] | None = None,
    compatible: list[str] | None = None,
) -> Keys:
    """One PCI device with its driver's key and its place in the driver's list of present devices."""
    vendor, device, revision = ids.upper().split(":")
    key = f"VEN_{vendor}&DEV_{device}&SUBSYS_0E3B1002&REV_{revision}"
    instance = f"6&{number:08x}&0&00000019"
    values: dict[str, object] = {
        "DeviceDesc": f"@oem{number}.inf,%x%;{name}",
        "HardwareID": [f"PCI\\{key}", f"PCI\\VEN_{vendor}&DEV_{device}"],
        "CompatibleIDs": compatible or ["PCI\\VEN_1002&CC_030000", "PCI\\CC_0300"],
        "LocationInformation": location or place(3 + number),
    }
    keys: Keys = {f"{ENUM}\\{key}\\{instance}": values}
    if guid:
        values |= {"ClassGUID": guid, "Driver": f"{guid}\\{number:04d}"}
        keys[f"{CLASSES}\\{guid}\\{number:04d}"] = {
            "DriverDesc": name,
            "ProviderName": "Advanced Micro Devices, Inc.",
            "MatchingDeviceId": f"PCI\\VEN_{vendor}&DEV_{device}&REV_{revision}",
            **({"DriverVersion": version} if version else {}),
            **(memory or {}),
        }
    if service:
        values["Service"] = service
        if present is not None:
            listed: dict[str, object] = {
                "Count": 1,
                "0": f"PCI\\{key}\\{instance}" if present else "PCI\\OTHER\\1",
            }
            keys[f"{SERVICES}\\{service}\\Enum"] = listed
    return keys


def virtual(number: int, name: str, matching: str) -> Keys:
    """A display driver without a PCI device."""
    return {f"{CLASSES}\\{DISPLAY}\\{number:04d}": {"DriverDesc": name, "MatchingDeviceId": matching}}


XTX = adapter(
    "1002:744c:c8",
    "AMD Radeon RX 7900 XTX",
    0,
    location=place(3),
    memory={"HardwareInformation.qwMemorySize": 25753026560, "HardwareInformation.MemorySize": 0xFFFFFFFF},
)
RAPHAEL = adapter(
    "1002:164e:d8",
    "AMD Radeon(TM) Graphics",
    1,
    location="PCI-Bus 18, Gerät 0, Funktion 0",
    service="amdkmdag-igpu",
    memory={"HardwareInformation.MemorySize": (536870912).to_bytes(4, "little")},
)
AUDIO = adapter(
    "1002:ab30:00",
    "AMD High Definition Audio Device",
    2,
    guid="{4d36e96c-e325-11ce-bfc1-08002be10318}",
    service="AtiHDAudioService",
    compatible=["PCI\\CC_0403"],
)
