"""What ``hipInfo`` printed, read from any shape it reaches us in. Pure.

People send it quoted, wrapped, on one line, cut off, in UTF-16, with log lines in between. So fields
are found by their labels, wherever those stand, and a value reaches to the next label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from msgspec import Struct

from scripts.host.gpu import AMD, is_known_gfx
from scripts.model import Gpu
from scripts.osal.text import without_ansi

#: Labels that no other word ends with, so that a log line glued to one does no harm …
_DISTINCT: Final = (
    r"pci(?:Bus|Device|Domain)ID|multiProcessorCount|maxThreadsPer(?:MultiProcessor|Block)|isMultiGpuBoard"
    r"|clockRate|memoryClockRate|memoryBusWidth|total(?:GlobalMem|ConstMem)|sharedMemPerBlock|canMapHostMemory"
    r"|regsPerBlock|warpSize|l2CacheSize|computeMode|max(?:ThreadsDim|GridSize)\.[xyz]|concurrentKernels"
    r"|cooperative(?:MultiDevice)?Launch|isIntegrated|maxTexture(?:1D|2D|3D)(?:\.\w+)?"
    r"|hostNativeAtomicSupported|isLargeBar|asicRevision|maxSharedMemoryPerMultiProcessor"
    r"|clockInstructionRate|arch\.\w+|gcnArch(?:Name)?|maxAvailableVgprsPerThread|memInfo\.\w+"
)
#: … and words that must stand alone. Other tools have a "Marketing Name:" and the like.
_PLAIN: Final = (
    r"(?<![A-Za-z_])(?:major|minor|(?:non-)?peers"
    r"|(?<!Marketing )(?<!Vendor )(?<!Platform )(?<!Board )(?<!Device )Name)"
)
_LABEL = re.compile(
    # "device#0" without a blank is a peer, unless a name follows.
    r"device#(?:\s+(?P<device>\d+)\b|(?P<tight>\d+)(?=\s+Name:))"
    rf"|(?P<name>{_DISTINCT}|{_PLAIN}):"
)
_ERROR = re.compile(r'HIP API error = (\d{4})(?:\s+"([^"\n]*)")?')
_QUOTE = re.compile(r"^(?:[^\S\n]*[>|\u2502])+", re.MULTILINE)
_RULE = re.compile(r"-{8,}")
_GFX = re.compile(r"\bgfx[0-9a-f]{3,5}\b((?::[a-z]+[+-])*)", re.IGNORECASE)
_NUMBER = re.compile(r"\s*(\d+)(?![\w.,:-])")
_LONE = re.compile(r"^\s*(\d+)\s*$", re.MULTILINE)
_SIZE = re.compile(r"\s*(\d+(?:[.,]\d+)?)\s*([KMGT])i?B\b")
_PEER = re.compile(r"device#(\d+)")
FILTERS: Final = frozenset(
    {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}
)
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Device(Struct, frozen=True, kw_only=True):
    """One block. ``number`` is HIP's own count after its filters; every ``None`` was not printed.

    ``features`` are suffixes such as ``:xnack-``. ``memory_bytes`` is as exact as the two decimals printed.
    """

    number: int | None = None
    name: str | None = None
    bus: int | None = None
    slot: int | None = None
    gfx: str | None = None
    features: str = ""
    integrated: bool | None = None
    memory_bytes: int | None = None
    peers: frozenset[int] = frozenset()


class HipInfo(Struct, frozen=True, kw_only=True):
    """Everything read. ``error`` is HIP's own, which ends the list early; ``notes`` are sentences."""

    devices: tuple[Device, ...] = ()
    error: str = ""
    notes: tuple[str, ...] = ()
    recognised: bool = True


def parse(text: str) -> HipInfo:
    """Read every device of an output; what is not hipInfo's is passed over."""
    text = _clean(text)
    fields = list(_fields(text))
    devices = tuple(_devices(fields))
    failure = _ERROR.search(text)
    error = ""
    if failure:
        error = f"HIP error {int(failure[1])}" + (f", {failure[2]}" if failure[2] else "")
    recognised = bool(devices or failure or not text.strip())
    return HipInfo(
        devices=devices, error=error, notes=tuple(_notes(devices, error, text)), recognised=recognised
    )


def gpus(info: HipInfo, source: str = "hipInfo") -> tuple[Gpu, ...]:
    """Describe the devices as GPUs, numbered as printed where the numbers are all there and differ."""
    numbers = [device.number for device in info.devices]
    printed = None not in numbers and len(set(numbers)) == len(numbers)
    return tuple(
        _gpu(device, device.number if printed and device.number is not None else position, source)
        for position, device in enumerate(info.devices)
    )


def _clean(text: str) -> str:
    """Take away what terminals, mail and forms put around the lines."""
    text = without_ansi(text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", ""))
    text = text.replace("\ufeff", "").replace("\u00a0", " ")
    return _RULE.sub("\n", _QUOTE.sub("", text).replace("|", " "))


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield labels with their values, in order; a value reaches to the next label."""
    found = list(_LABEL.finditer(text))
    flowing = any("\n" not in text[one.end() : two.start()] for one, two in pairwise(found))
    for here, following in zip(found, [*found[1:], None], strict=False):
        number = here["device"] or here["tight"]
        value = text[here.end() : following.start() if following else len(text)]
        yield here["name"] or "device#", number or (" ".join(value.split()) if flowing else value)


def _devices(fields: Iterable[tuple[str, str]]) -> Iterator[Device]:
    """Group fields into devices; a new one starts at its number, or where a name or gfx comes again."""
    blocks: list[dict[str, str]] = []
    for label, value in fields:
        again = label in {"Name", "gcnArchName"} and bool(blocks) and label in blocks[-1]
        if label == "device#" or again or not blocks:
            blocks.append({})
        blocks[-1].setdefault(label, value)
    seen: set[Device] = set()
    for block in blocks:
        device = _device(block)
        # The same output pasted twice shows the same place on the bus twice.
        if (device.name or device.gfx) and (device.bus is None or device not in seen):
            seen.add(device)
            yield device


def _device(block: dict[str, str]) -> Device:
    arch = _GFX.search(block.get("gcnArchName", ""))
    gfx = arch[0].partition(":")[0].lower() if arch else _old_gfx(block.get("gcnArch", ""))
    flag = _number(block.get("isIntegrated", ""))
    # What follows the first line belongs to something else.
    name = block.get("Name", "").strip().partition("\n")[0].strip()
    return Device(
        number=_number(block.get("device#", "")),
        name=name or None,
        bus=_number(block.get("pciBusID", "")),
        slot=_number(block.get("pciDeviceID", "")),
        gfx=gfx,
        features=arch[1].lower() if arch else "",
        integrated={0: False, 1: True}.get(-1 if flag is None else flag),
        memory_bytes=_size(block.get("totalGlobalMem", "")) or _size(block.get("memInfo.total", "")),
        peers=frozenset(
            int(number) for label in ("peers", "non-peers") for number in _PEER.findall(block.get(label, ""))
        ),
    )


def _gpu(device: Device, index: int, source: str) -> Gpu:
    """Describe one device; what was not printed is unknown for that reason."""
    why = {
        key: f"the output has no {label}"
        for key, label, value in (
            ("gfx", "gcnArchName", device.gfx),
            ("integrated", "isIntegrated", device.integrated),
            ("memory_bytes", "totalGlobalMem", device.memory_bytes),
            ("hip_index", "device#", device.number),
        )
        if value is None
    }
    return Gpu(
        index=index,
        name=device.name or f"AMD {device.gfx}",
        vendor=AMD,
        gfx=device.gfx,
        integrated=device.integrated,
        memory_bytes=device.memory_bytes,
        hip_index=device.number,
        source=source,
        why_unknown=why | {"driver": "hipInfo does not print it"},
    )


def _notes(devices: tuple[Device, ...], error: str, text: str) -> Iterator[str]:
    """Say what makes the list incomplete."""
    if not text.strip():
        yield "hipInfo printed nothing: HIP did not start, or sees no device."
    elif error and not devices:
        yield f"hipInfo listed no device: {error}."
    elif error:
        yield f"hipInfo stopped after {len(devices)} device(s): {error}. Others may exist."
    named = frozenset[int]().union(*(device.peers for device in devices))
    missing = sorted(named - {device.number for device in devices})
    if missing and any(device.number is not None for device in devices):
        numbers = ", ".join(str(number) for number in missing)
        yield f"hipInfo names device {numbers} as a neighbour but does not describe it."


def _number(value: str) -> int | None:
    """Read a whole number at the start of a value, or alone on a line of it."""
    match = _NUMBER.match(value) or _LONE.search(value)
    return int(match[1]) if match else None


def _size(value: str) -> int | None:
    """Read ``23.98 GB`` (binary units, as hipInfo prints them) in bytes; zero is no size."""
    match = _SIZE.match(value)
    return round(float(match[1].replace(",", ".")) * _UNITS[match[2]]) or None if match else None


def _old_gfx(value: str) -> str | None:
    """Read the number that releases before ``gcnArchName`` printed, where it names a known gfx."""
    number = _number(value)
    return f"gfx{number}" if number is not None and is_known_gfx(f"gfx{number}") else None
