"""One look at a Windows machine: the registry's list, HIP's own list, and both compared."""

from __future__ import annotations

import platform as this_platform
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from scripts.host import gpu as nvidia
from scripts.host import hipinfo
from scripts.host import windows_registry as registry
from scripts.host.facts import Sources
from scripts.host.gpu import AMD, NVIDIA
from scripts.host.hipinfo import HipInfo
from scripts.host.windows_registry import Located, WinRegistry
from scripts.model import Gpu, HipRoot, Host


class Merged(Struct, frozen=True, kw_only=True):
    """One list out of two, HIP's order first, and a sentence for each point they differ in."""

    gpus: tuple[Gpu, ...]
    disagreements: tuple[str, ...] = ()


def merge(windows: Sequence[Located], info: HipInfo) -> Merged:
    """Join both lists by the place on the bus, then by architecture where only one is left of it.

    HIP asked the hardware: where both speak of gfx or kind, HIP's value is taken and the difference noted.
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


def look(
    environ: Mapping[str, str], roots: Sequence[HipRoot], answer: nvidia.SmiAnswer, where: Sources
) -> Host:
    """Look at a Windows machine, and ask HIP where it is installed."""
    adapters = registry.displays(where.registry or WinRegistry())
    listed = _with_answers(adapters.gpus, answer.gpus)
    info = _ask_hip(environ, roots, where.runner) if any(w.gpu.vendor == AMD for w in listed) else None
    merged = merge(listed, info) if info else Merged(gpus=tuple(w.gpu for w in listed))
    filters = sorted(name for name in environ if name in hipinfo.FILTERS and environ[name])
    notes = [
        f"{name}={environ[name]} hides GPUs from programs; this scan looked past it." for name in filters
    ]
    system32 = where.system32 or registry.system32(environ)
    return Host(
        os="windows",
        machine=this_platform.machine(),
        gpus=merged.gpus,
        disagreements=merged.disagreements,
        notes=(*adapters.notes, *notes, *(info.notes if info else ())),
        driver_files=registry.driver_files(system32),
    )


def _with_answers(listed: Sequence[Located], answers: Mapping[str, Gpu]) -> tuple[Located, ...]:
    """Replace the registry's NVIDIA GPUs by what ``nvidia-smi`` says of the same slot."""
    left = dict(answers)
    joined = []
    for one in listed:
        slot = f"0000:{one.bus or 0:02x}:{one.device or 0:02x}.{one.function or 0}"
        answered = left.pop(slot, None) if one.gpu.vendor == NVIDIA else None
        gpu = replace(answered, pci_id=one.gpu.pci_id) if answered else one.gpu
        joined.append(replace(one, gpu=gpu))
    return (*joined, *(Located(gpu=gpu) for gpu in left.values()))


def _ask_hip(
    environ: Mapping[str, str], roots: Sequence[HipRoot], runner: nvidia.Run
) -> hipinfo.HipInfo | None:
    """Run the first runtime's ``hipInfo``, with no device filtered away; ``None`` without one."""
    for root in roots:
        tool = root.path / "bin" / "hipInfo.exe"
        if tool.is_file():
            # Without filters HIP lists every device under its own number.
            unfiltered = {k: value for k, value in environ.items() if k.upper() not in hipinfo.FILTERS}
            code, output = runner([str(tool)], unfiltered)
            info = hipinfo.parse(output)
            if code == 0 or info.error:
                return info
            ended = "did not end in time" if code is None else f"ended with code {code}"
            return replace(info, notes=(f"{tool} {ended}: its list may be incomplete.", *info.notes))
    return None
