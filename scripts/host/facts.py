"""One look at this machine: its GPUs, the one to use, its HIP runtimes, and what does not agree.

The only room besides ``app`` that is handed an environment. Every source is a parameter, so that a
recorded machine can be looked at on any other.
"""

from __future__ import annotations

import platform as this_platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from scripts.host import hip, linux, nvidia
from scripts.host.gpu import chosen
from scripts.model import HipRoot, Host

if TYPE_CHECKING:
    from scripts.host import windows


class Sources(Struct, frozen=True, kw_only=True):
    """Where to look instead of at this machine; ``None`` means here."""

    tree: linux.SysReader | None = None
    registry: windows.Registry | None = None
    system32: Path | None = None
    places: hip.HipPlaces | None = None
    runner: nvidia.Run = nvidia.run


Look = Callable[[Mapping[str, str], Sequence[HipRoot], nvidia.SmiAnswer, Sources], Host]


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
    host = _look(platform)(env, found.roots, answer, where)
    gpus = tuple(replace(one, index=index) for index, one in enumerate(host.gpus))
    notes = (*host.notes, answer.note, *found.notes)
    return replace(
        host,
        gpus=gpus,
        selected=chosen(gpus, gpu),
        hip_roots=found.roots,
        notes=tuple(note for note in notes if note),
    )


def _look(platform: str) -> Look:
    """Return the look at this system; the other one's sources are not even loaded."""
    if platform != "win32":
        return _linux
    from scripts.host.windows_scan import look  # noqa: PLC0415 - see above

    return look


def host_from_hipinfo(data: bytes, *, platform: str, gpu: str = "") -> tuple[Host, bool]:
    """Describe the machine whose ``hipInfo`` printed ``data``, and say whether that was its output.

    Nothing of the machine this runs on goes into it.

    Raises:
        UsageError: ``gpu`` names none of its devices.
    """
    from scripts.host import hipinfo  # noqa: PLC0415 - a paste is rare

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
    environ: Mapping[str, str], roots: Sequence[HipRoot], answer: nvidia.SmiAnswer, where: Sources
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
