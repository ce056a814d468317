"""GPUs of a Linux machine: PCI ids and the KFD topology from ``/sys``, the NVIDIA driver from ``/proc``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from scripts.host import gpu
from scripts.host.gpu import AMD, NO_DRIVER, NVIDIA, VENDORS, adapter_name, identify
from scripts.model import Gpu

PCI: Final = "sys/bus/pci/devices"
KFD: Final = "sys/class/kfd/kfd/topology/nodes"
DRIVERS: Final = {AMD: "amdgpu", NVIDIA: "nvidia"}
#: Where a driver or a container runtime puts the CUDA driver library.
LIBRARY_FOLDERS: Final = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/lib/wsl/lib",
    "usr/local/nvidia/lib64",
    "run/opengl-driver/lib",
)
_DISPLAY: Final = 0x03
_ACCELERATOR: Final = 0x12
_FRAME_BUFFER_HEAPS: Final = (1, 2)
_VERSION = re.compile(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b")


class FileReader(Struct, frozen=True):
    """A tree of small text files below ``root``, ``/`` on a real machine; paths are relative and POSIX."""

    root: Path

    def text(self, path: str) -> str | None:
        """Return a file's text, or ``None`` where it cannot be read."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder; empty where there is none."""
        try:
            return tuple(sorted(entry.name for entry in (self.root / path).iterdir()))
        except OSError:
            return ()


class PciFunction(Struct, frozen=True, kw_only=True):
    """One display or accelerator function of the PCI bus; ids are lower-case hex without ``0x``."""

    slot: str
    vendor: str
    device: str
    revision: str
    driver: str | None

    @property
    def pci_id(self) -> str:
        """``vendor:device:revision``, the key of our tables."""
        return f"{self.vendor}:{self.device}:{self.revision}"


class KfdNode(Struct, frozen=True, kw_only=True):
    """One GPU of the kernel's compute topology. ``gfx`` is what the driver itself reports."""

    slot: str
    device: str
    gfx: str
    memory_bytes: int | None


def displays(reader: FileReader) -> tuple[PciFunction, ...]:
    """List display controllers and accelerators; a GPU's audio and USB functions are not among them."""
    found = []
    for slot in reader.names(PCI):
        kind = _hex(reader.text(f"{PCI}/{slot}/class"))
        if kind is None or kind >> 16 not in {_DISPLAY, _ACCELERATOR}:
            continue
        vendor, device, revision = (
            (reader.text(f"{PCI}/{slot}/{name}") or "").strip().lower().removeprefix("0x")
            for name in ("vendor", "device", "revision")
        )
        uevent = _properties(reader.text(f"{PCI}/{slot}/uevent"), "=")
        driver = uevent.get("DRIVER", NO_DRIVER) if uevent else None
        found.append(PciFunction(slot=slot, vendor=vendor, device=device, revision=revision, driver=driver))
    return tuple(found)


def topology(reader: FileReader) -> dict[str, KfdNode]:
    """Read the GPUs of the KFD topology by PCI slot; CPUs are nodes without an architecture."""
    nodes = {}
    for number in reader.names(KFD):
        facts = _properties(reader.text(f"{KFD}/{number}/properties"), " ")
        version = int(facts.get("gfx_target_version", "0"))
        if not version:
            continue
        location = int(facts.get("location_id", "0"))
        slot = (
            f"{int(facts.get('domain', '0')):04x}:{location >> 8 & 0xFF:02x}"
            f":{location >> 3 & 0x1F:02x}.{location & 7}"
        )
        banks = f"{KFD}/{number}/mem_banks"
        sizes = [_properties(reader.text(f"{banks}/{bank}/properties"), " ") for bank in reader.names(banks)]
        memory = sum(
            int(bank.get("size_in_bytes", "0"))
            for bank in sizes
            if int(bank.get("heap_type", "0")) in _FRAME_BUFFER_HEAPS
        )
        nodes[slot] = KfdNode(
            slot=slot,
            device=f"{int(facts.get('device_id', '0')):04x}",
            gfx=gfx_name(version),
            memory_bytes=memory or None,
        )
    return nodes


def gfx_name(version: int) -> str:
    """Spell a ``gfx_target_version``: 110000 is gfx1100, 90010 is gfx90a."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def amd_gpus(reader: FileReader) -> list[Gpu]:
    """List AMD GPUs of the PCI bus and of the topology; the driver's own word on gfx comes first."""
    nodes = topology(reader)
    functions = {f.slot: f for f in displays(reader) if VENDORS.get(f.vendor) == AMD}
    version = (reader.text("sys/module/amdgpu/version") or "").strip()
    return [
        _amd(functions.get(slot), nodes.get(slot), version, reader) for slot in sorted({*functions, *nodes})
    ]


def disagreements(reader: FileReader) -> tuple[str, ...]:
    """Say where the table and the driver name different architectures for one device."""
    nodes = topology(reader)
    sentences = []
    for function in displays(reader):
        node = nodes.get(function.slot)
        known = identify(function.device, function.revision) if node else None
        if node and known and known.gfx and known.gfx != node.gfx:
            sentences.append(
                f"The PCI id {function.pci_id} says {known.gfx}, the driver says {node.gfx} and is believed."
            )
    return tuple(sentences)


def nvidia_gpus(reader: FileReader, answered: Mapping[str, Gpu]) -> list[Gpu]:
    """List NVIDIA GPUs: those that answered, then those only the driver or the bus knows."""
    gpus = dict(answered)
    version = _VERSION.search(reader.text("proc/driver/nvidia/version") or "")
    for slot in reader.names("proc/driver/nvidia/gpus"):
        facts = _properties(reader.text(f"proc/driver/nvidia/gpus/{slot}/information"), ":")
        gpus.setdefault(
            slot.lower(),
            _silent(facts.get("Model", "NVIDIA GPU"), version[1] if version else None, "/proc/driver/nvidia"),
        )
    for function in displays(reader):
        if VENDORS.get(function.vendor) != NVIDIA:
            continue
        usable = function.driver in {DRIVERS[NVIDIA], None}
        why = "" if usable else _not_usable(function.driver, NVIDIA)
        unnamed = _silent(f"NVIDIA {function.device}", None if usable else NO_DRIVER, "PCI id", why)
        gpus[function.slot] = replace(gpus.get(function.slot, unnamed), pci_id=function.pci_id)
    return [gpus[slot] for slot in sorted(gpus)]


def has_libcuda(reader: FileReader, search_path: str) -> bool:
    """Whether ``libcuda.so.1`` lies in a usual folder or on the loader's search path."""
    extra = (folder.strip("/") for folder in search_path.split(":") if folder.startswith("/"))
    return any("libcuda.so.1" in reader.names(folder) for folder in (*extra, *LIBRARY_FOLDERS))


def others(reader: FileReader) -> tuple[str, ...]:
    """Name the display adapters that were passed over."""
    return tuple(
        f"Passed over display adapter {f.vendor}:{f.device}"
        + (f", {name}." if (name := adapter_name(f.vendor, f.device)) else ".")
        for f in displays(reader)
        if f.vendor not in VENDORS
    )


def _amd(function: PciFunction | None, node: KfdNode | None, version: str, reader: FileReader) -> Gpu:
    """Merge what the bus and the topology say about one device."""
    device = function.device if function else node.device if node else ""
    known = identify(device, function.revision if function else "")
    why = {"memory_bytes": "the driver publishes no size"}
    if node is None and known.gfx is None:
        why["gfx"] = f"{known.why_unknown}, and the kernel's compute topology does not list it"
    if known.integrated is None:
        why["integrated"] = known.why_unknown
    slot = function.slot if function else node.slot if node else ""
    vram = (reader.text(f"{PCI}/{slot}/mem_info_vram_total") or "").strip()
    memory = int(vram) if vram.isdigit() else node.memory_bytes if node else None
    if memory is not None:
        del why["memory_bytes"]
    driver = f"{DRIVERS[AMD]} {version}".strip()
    if node is None and function is not None and function.driver != DRIVERS[AMD]:
        driver = NO_DRIVER
        why["driver"] = _not_usable(function.driver, AMD)
    return Gpu(
        index=0,
        name=known.name or f"AMD {device}",
        vendor=AMD,
        gfx=node.gfx if node else known.gfx,
        integrated=known.integrated,
        memory_bytes=memory,
        driver=driver,
        pci_id=function.pci_id if function else f"1002:{device}",
        source="KFD topology" if node else "PCI id",
        why_unknown=why,
    )


def _silent(name: str, driver: str | None, source: str, why: str = "") -> Gpu:
    """Describe an NVIDIA GPU that ``nvidia-smi`` did not name."""
    reasons = {
        "gfx": gpu.NO_GFX,
        "memory_bytes": "nvidia-smi did not answer",
        "integrated": "nvidia-smi did not answer",
    }
    if why or driver is None:
        reasons["driver"] = why or "nvidia-smi did not answer"
    return Gpu(index=0, name=name, vendor=NVIDIA, driver=driver, source=source, why_unknown=reasons)


def _not_usable(driver: str | None, vendor: str) -> str:
    """Say which driver runs the device instead of the one we need."""
    bound = "no driver" if driver in {None, NO_DRIVER} else f"the driver {driver!r}"
    return f"{bound} is bound to it, not {DRIVERS[vendor]!r}"


def _hex(text: str | None) -> int | None:
    """Read ``0x030000``; ``None`` for anything else."""
    try:
        return int(text or "", 16)
    except ValueError:
        return None


def _properties(text: str | None, separator: str) -> dict[str, str]:
    pairs = (line.partition(separator) for line in (text or "").splitlines())
    return {name.strip(): value.strip() for name, found, value in pairs if found}
