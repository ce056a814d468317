"""Two lists of the same machine: Windows' display devices and HIP's devices. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from scripts.host import hipinfo
from scripts.host.gpu import AMD
from scripts.host.hipinfo import HipInfo
from scripts.host.windows import Located
from scripts.model import Gpu


class Merged(Struct, frozen=True, kw_only=True):
    """One list out of two, HIP's order first, and a sentence for each point they differ in."""

    gpus: tuple[Gpu, ...]
    disagreements: tuple[str, ...] = ()


def merge(windows: Sequence[Located], info: HipInfo) -> Merged:
    """Join both lists by the place on the bus, then by architecture where only one is left of it.

    HIP asked the hardware: where both speak of gfx or kind, HIP's word is taken and the difference said.
    """
    hip = hipinfo.gpus(info)
    pairs, left_windows, left_hip = _pair(windows, info, hip)
    sentences: list[str] = []
    gpus: list[Gpu] = []
    for ours, theirs in pairs:
        sentences += _differences(ours, theirs)
        gpus.append(_joined(ours, theirs))
    gpus += left_hip
    sentences += [f"HIP lists {gpu.name} ({gpu.gfx or 'gfx unknown'}), Windows does not." for gpu in left_hip]
    for gpu in left_windows:
        gpus.append(gpu)
        if gpu.vendor == AMD:
            sentences.append(f"Windows lists {gpu.name} ({gpu.gfx or 'gfx unknown'}), HIP does not.")
    gpus.sort(key=lambda gpu: (gpu.hip_index is None, gpu.hip_index or 0))
    return Merged(gpus=tuple(gpus), disagreements=tuple(sentences))


def _pair(
    windows: Sequence[Located], info: HipInfo, hip: Sequence[Gpu]
) -> tuple[list[tuple[Gpu, Gpu]], list[Gpu], list[Gpu]]:
    """Match by bus and slot, then what is left by an architecture that is left once on each side."""
    left = [located for located in windows if located.gpu.vendor == AMD]
    others = [located.gpu for located in windows if located.gpu.vendor != AMD]
    pairs: list[tuple[Gpu, Gpu]] = []
    rest: list[Gpu] = []
    for device, gpu in zip(info.devices, hip, strict=True):
        match = next(
            (w for w in left if w.bus is not None and (w.bus, w.device) == (device.bus, device.slot or 0)),
            None,
        )
        if match is None:
            rest.append(gpu)
        else:
            left.remove(match)
            pairs.append((match.gpu, gpu))
    for gpu in list(rest):
        same = [w for w in left if w.gpu.gfx is not None and w.gpu.gfx == gpu.gfx]
        if len(same) == 1 and sum(g.gfx == gpu.gfx for g in rest) == 1:
            left.remove(same[0])
            rest.remove(gpu)
            pairs.append((same[0].gpu, gpu))
    return pairs, [w.gpu for w in left] + others, rest


def _differences(ours: Gpu, theirs: Gpu) -> Iterator[str]:
    """Say what the two lists say differently about one GPU."""
    if ours.gfx and theirs.gfx and ours.gfx != theirs.gfx:
        yield (
            f"The PCI id {ours.pci_id} of {theirs.name} says {ours.gfx}, HIP says {theirs.gfx}: "
            "HIP asked the hardware and is believed."
        )
    if None not in {ours.integrated, theirs.integrated} and ours.integrated != theirs.integrated:
        kinds = {True: "integrated", False: "discrete"}
        yield (
            f"The PCI id {ours.pci_id} of {theirs.name} is of {kinds[bool(ours.integrated)]} kind, "
            f"HIP says {kinds[bool(theirs.integrated)]}: HIP asked the hardware and is believed."
        )


def _joined(ours: Gpu, theirs: Gpu) -> Gpu:
    """Take HIP's word where it spoke, Windows' where it did not."""
    gfx = theirs.gfx or ours.gfx
    integrated = theirs.integrated if theirs.integrated is not None else ours.integrated
    memory = theirs.memory_bytes or ours.memory_bytes
    known = {"gfx": gfx, "integrated": integrated, "memory_bytes": memory, "hip_index": theirs.hip_index}
    why = {
        **{name: reason for name, reason in ours.why_unknown.items() if name == "driver"},
        **{name: theirs.why_unknown[name] for name, value in known.items() if value is None},
    }
    return replace(
        ours,
        name=theirs.name if not theirs.name.startswith("AMD gfx") else ours.name,
        gfx=gfx,
        integrated=integrated,
        memory_bytes=memory,
        hip_index=theirs.hip_index,
        source=f"{theirs.source}, {ours.source}",
        why_unknown=why,
    )
