"""One look at a Windows machine: the registry's list, HIP's own list, and both compared."""

from __future__ import annotations

import platform as this_platform
from collections.abc import Mapping, Sequence
from dataclasses import replace

from scripts.host import compare, hipinfo, nvidia, windows
from scripts.host.gpu import AMD, NVIDIA
from scripts.host.sources import Sources
from scripts.host.winregistry import WinRegistry
from scripts.model import Gpu, HipRoot, Host


def look(environ: Mapping[str, str], roots: Sequence[HipRoot], answer: nvidia.Answer, where: Sources) -> Host:
    """Look at a Windows machine, and ask HIP where it is installed."""
    adapters = windows.displays(where.registry or WinRegistry())
    listed = _with_answers(adapters.gpus, answer.gpus)
    info = _ask_hip(environ, roots, where.runner) if any(w.gpu.vendor == AMD for w in listed) else None
    merged = compare.merge(listed, info) if info else compare.Merged(gpus=tuple(w.gpu for w in listed))
    filters = sorted(name for name in environ if name in hipinfo.FILTERS and environ[name])
    notes = [
        f"{name}={environ[name]} hides GPUs from programs; this scan looked past it." for name in filters
    ]
    system32 = where.system32 or windows.system32(environ)
    return Host(
        os="windows",
        machine=this_platform.machine(),
        gpus=merged.gpus,
        disagreements=merged.disagreements,
        notes=(*adapters.notes, *notes, *(info.notes if info else ())),
        driver_files=windows.driver_files(system32),
    )


def _with_answers(
    listed: Sequence[windows.Located], answers: Mapping[str, Gpu]
) -> tuple[windows.Located, ...]:
    """Replace the registry's NVIDIA GPUs by what ``nvidia-smi`` says of the same slot."""
    left = dict(answers)
    joined = []
    for one in listed:
        slot = f"0000:{one.bus or 0:02x}:{one.device or 0:02x}.{one.function or 0}"
        answered = left.pop(slot, None) if one.gpu.vendor == NVIDIA else None
        gpu = replace(answered, pci_id=one.gpu.pci_id) if answered else one.gpu
        joined.append(replace(one, gpu=gpu))
    return (*joined, *(windows.Located(gpu=gpu) for gpu in left.values()))


def _ask_hip(
    environ: Mapping[str, str], roots: Sequence[HipRoot], runner: nvidia.Run
) -> hipinfo.HipInfo | None:
    """Run the first runtime's ``hipInfo``, with no device filtered away; ``None`` without one."""
    for root in roots:
        tool = root.path / "bin" / "hipInfo.exe"
        if tool.is_file():
            code, output = runner([str(tool)], hipinfo.without_filters(environ.items()))
            info = hipinfo.parse(output)
            if code == 0 or info.error:
                return info
            ended = "did not end in time" if code is None else f"ended with code {code}"
            return replace(info, notes=(f"{tool} {ended}: its list may be incomplete.", *info.notes))
    return None
