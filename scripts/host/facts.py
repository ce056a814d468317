"""One look at this machine: GPUs, HIP runtimes, what does not agree; and its clocks and power right now.

The only room besides ``app`` that is handed an environment. Every source is a parameter, so that a
recorded machine can be looked at on any other.

Everything is read the way an ordinary user may; what cannot be read is ``unknown``.
"""

from __future__ import annotations

import csv
import ctypes
import platform as this_platform
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from scripts.host import gpu as nvidia
from scripts.host import hip, linux
from scripts.host.gpu import AMD, NVIDIA, Run, chosen, find_tool
from scripts.host.gpu import run as run_tool
from scripts.model import Gpu, HipRoot, Host
from scripts.osal.text import decoded

if TYPE_CHECKING:
    from scripts.host.windows_registry import Registry


class Sources(Struct, frozen=True, kw_only=True):
    """Where to look instead of at this machine; ``None`` means here."""

    tree: linux.FileReader | None = None
    registry: Registry | None = None
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

    info = hipinfo.parse(decoded(data))
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


UNKNOWN: Final = "unknown"
NVIDIA_FIELDS: Final = "clocks.sm,clocks.mem,pstate,power.limit"
#: The clock in use, in the lists that the amdgpu driver offers.
_CHOSEN = re.compile(r"^\d+:\s*(\d+)\s*Mhz\s*\*", re.MULTILINE | re.IGNORECASE)
_ON_MAINS = 1


def read_condition(
    gpu: Gpu | None,
    environ: Mapping[str, str],
    platform: str,
    *,
    root: Path = Path("/"),
    runner: Run = run_tool,
) -> dict[str, str]:
    """Return ``clocks`` and ``power`` as words; with no GPU, the processor's.

    Args:
        gpu: the device in use, or ``None`` for the CPU.
        environ: where to look for ``nvidia-smi``.
        platform: ``sys.platform``.
        root: the file system to read ``sys`` in.
        runner: runs ``nvidia-smi``.
    """
    supply = power_supply(platform, root)
    if gpu is not None and gpu.vendor == NVIDIA:
        clocks, state = nvidia_clocks(gpu, environ, platform, runner)
        return {"clocks": clocks, "power": f"{supply}, {state}"}
    if platform == "win32":
        return {"clocks": UNKNOWN, "power": supply}
    if gpu is not None and gpu.vendor == AMD:
        return {"clocks": amd_clocks(gpu, root), "power": supply}
    governor = hip.text_of(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    frequency = hip.text_of(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
    clocks = f"{int(frequency) // 1000} MHz CPU" if frequency.isdecimal() else UNKNOWN
    return {"clocks": clocks, "power": f"{supply}, governor {governor}" if governor else supply}


def nvidia_clocks(gpu: Gpu, environ: Mapping[str, str], platform: str, runner: Run) -> tuple[str, str]:
    """Ask ``nvidia-smi`` for clocks, performance state and power limit."""
    tool = find_tool(environ, platform)
    if tool is None:
        return UNKNOWN, UNKNOWN
    command = [tool, f"--id={gpu.index}", f"--query-gpu={NVIDIA_FIELDS}", "--format=csv,noheader"]
    code, output = runner(command, environ)
    row = next(csv.reader(output.splitlines(), skipinitialspace=True), [])
    if code != 0 or len(row) != len(NVIDIA_FIELDS.split(",")) or any("N/A" in cell for cell in row[:2]):
        return UNKNOWN, UNKNOWN
    core, memory, state, limit = (cell.strip() for cell in row)
    return f"{core} core, {memory} memory", f"{state}, limit {limit}"


def amd_clocks(gpu: Gpu, root: Path) -> str:
    """Read the clocks the amdgpu driver has chosen just now (Linux)."""
    if gpu.pci_id is None:
        return UNKNOWN
    found = []
    for card in sorted(root.glob("sys/class/drm/card*/device")):
        pair = (
            hip.text_of(card / "vendor").removeprefix("0x"),
            hip.text_of(card / "device").removeprefix("0x"),
        )
        if ":".join(pair).lower() != gpu.pci_id.lower():
            continue
        for name, label in (("pp_dpm_sclk", "core"), ("pp_dpm_mclk", "memory")):
            chosen = _CHOSEN.search(hip.text_of(card / name))
            if chosen:
                found.append(f"{chosen[1]} MHz {label}")
        break
    return ", ".join(found) or UNKNOWN


def power_supply(platform: str, root: Path) -> str:
    """Say ``mains`` or ``battery``; a machine without a battery is on the mains."""
    if platform == "win32":
        return _windows_supply()
    supplies = sorted(root.glob("sys/class/power_supply/*"))
    if not supplies:
        return "mains" if (root / "sys/class/power_supply").is_dir() else UNKNOWN
    online = [
        hip.text_of(folder / "online") for folder in supplies if hip.text_of(folder / "type") == "Mains"
    ]
    if online:
        return "mains" if "1" in online else "battery"
    states = {
        hip.text_of(folder / "status") for folder in supplies if hip.text_of(folder / "type") == "Battery"
    }
    return "battery" if "Discharging" in states else "mains"


def _windows_supply() -> str:
    if sys.platform != "win32":
        return UNKNOWN
    # SYSTEM_POWER_STATUS: ACLineStatus first (0 battery, 1 mains, 255 unknown), eleven bytes follow.
    status = (ctypes.c_ubyte * 12)()
    if not ctypes.windll.kernel32.GetSystemPowerStatus(ctypes.byref(status)):
        return UNKNOWN
    return {0: "battery", _ON_MAINS: "mains"}.get(status[0], UNKNOWN)
