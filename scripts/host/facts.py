"""One look at this machine: its GPUs, the one to use, its HIP runtimes, and what does not agree.

The only room besides ``app`` that is handed an environment. Every source is a parameter, so that a
recorded machine can be looked at on any other.
"""

from __future__ import annotations

import platform as this_platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scripts.host import compare, hip, hipinfo, linux, nvidia, windows
from scripts.host.gpu import AMD, NVIDIA, chosen
from scripts.host.winregistry import WinRegistry
from scripts.model import Gpu, HipRoot, Host


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where to look instead of at this machine; ``None`` means here."""

    tree: linux.Reader | None = None
    registry: windows.Registry | None = None
    system32: Path | None = None
    places: hip.Places | None = None
    runner: nvidia.Run = nvidia.run


def scan_host(
    environ: Mapping[str, str],
    *,
    platform: str,
    hip_root: str = "",
    gpu: str = "",
    sources: Sources | None = None,
) -> Host:
    """Look at this machine. Starts a process only where a vendor's own tool is installed.

    Args:
        environ: the environment of the person's session.
        platform: ``sys.platform``.
        hip_root: a HIP runtime's folder that goes before all others.
        gpu: the number of the GPU to use, as a scan lists it; empty for the preferred one.
        sources: recorded ones, for looking at another machine.

    Raises:
        UsageError: ``gpu`` names none, or ``hip_root`` cannot be one.
    """
    where = sources or Sources()
    env = {name.upper(): value for name, value in environ.items()} if platform == "win32" else dict(environ)
    places = where.places if where.places is not None else hip.usual_places(env, platform, sys.path)
    found = hip.find_roots(env, places, hip_root)
    answer = nvidia.ask(env, platform, where.runner)
    look = _windows if platform == "win32" else _linux
    host = look(env, found.roots, answer, where)
    gpus = tuple(replace(one, index=index) for index, one in enumerate(host.gpus))
    notes = (*host.notes, answer.note, *found.notes)
    return replace(
        host,
        gpus=gpus,
        selected=chosen(gpus, gpu),
        hip_roots=found.roots,
        notes=tuple(note for note in notes if note),
    )


def host_from_hipinfo(data: bytes, *, platform: str, gpu: str = "") -> tuple[Host, bool]:
    """Describe the machine whose ``hipInfo`` printed ``data``, and say whether that was its output.

    Nothing of the machine this runs on goes into it.

    Raises:
        UsageError: ``gpu`` names none of its devices.
    """
    info = hipinfo.parse(hipinfo.decode(data))
    gpus = hipinfo.gpus(info)
    host = Host(
        os="windows" if platform == "win32" else "linux",
        machine="",
        gpus=gpus,
        selected=chosen(gpus, gpu),
        notes=info.notes,
    )
    return host, info.recognised


def _linux(
    environ: Mapping[str, str], roots: Sequence[HipRoot], answer: nvidia.Answer, where: Sources
) -> Host:
    """Look at a Linux machine."""
    del roots  # KFD has asked the hardware already
    tree = where.tree or linux.FileReader(Path("/"))
    nvidia_gpus = linux.nvidia_gpus(tree, answer.gpus)
    notes = linux.others(tree)
    if nvidia_gpus and not linux.has_libcuda(tree, environ.get("LD_LIBRARY_PATH", "")):
        notes += ("libcuda.so.1 is in none of the usual folders: CUDA programs may not start.",)
    if override := environ.get("HSA_OVERRIDE_GFX_VERSION"):
        notes += (f"HSA_OVERRIDE_GFX_VERSION={override} makes ROCm take the GPU for another one.",)
    return Host(
        os="linux",
        machine=this_platform.machine(),
        gpus=(*linux.amd_gpus(tree), *nvidia_gpus),
        disagreements=linux.disagreements(tree),
        notes=notes,
    )


def _windows(
    environ: Mapping[str, str], roots: Sequence[HipRoot], answer: nvidia.Answer, where: Sources
) -> Host:
    """Look at a Windows machine, and ask HIP where it is installed."""
    adapters = windows.displays(where.registry or WinRegistry())
    listed = _with_answers(adapters.gpus, answer.gpus)
    info = _ask_hip(environ, roots, where.runner) if any(w.gpu.vendor == AMD for w in listed) else None
    merged = compare.merge(listed, info) if info else compare.Merged(gpus=tuple(w.gpu for w in listed))
    filters = sorted(name for name in environ if name in hipinfo.FILTERS and environ[name])
    notes = [
        f"{name}={environ[name]} hides GPUs from programs; this scan looked past it." for name in filters
    ]
    system32 = where.system32 or Path(environ.get("SYSTEMROOT", r"C:\Windows")) / "System32"
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
