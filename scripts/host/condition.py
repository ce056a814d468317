"""What changes from minute to minute on a machine and moves its figures: clocks and power.

Everything is read the way an ordinary user may; what cannot be read is ``unknown``.
"""

from __future__ import annotations

import csv
import ctypes
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from scripts.host.gpu import AMD, NVIDIA
from scripts.host.nvidia import Run, find_tool
from scripts.host.nvidia import run as run_tool
from scripts.model import Gpu

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
    governor = _text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    frequency = _text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
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
        pair = (_text(card / "vendor").removeprefix("0x"), _text(card / "device").removeprefix("0x"))
        if ":".join(pair).lower() != gpu.pci_id.lower():
            continue
        for name, label in (("pp_dpm_sclk", "core"), ("pp_dpm_mclk", "memory")):
            chosen = _CHOSEN.search(_text(card / name))
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
    online = [_text(folder / "online") for folder in supplies if _text(folder / "type") == "Mains"]
    if online:
        return "mains" if "1" in online else "battery"
    states = {_text(folder / "status") for folder in supplies if _text(folder / "type") == "Battery"}
    return "battery" if "Discharging" in states else "mains"


def _windows_supply() -> str:
    """Ask Windows for the power status."""
    if sys.platform != "win32":
        return UNKNOWN
    # SYSTEM_POWER_STATUS: ACLineStatus first (0 battery, 1 mains, 255 unknown), eleven bytes follow.
    status = (ctypes.c_ubyte * 12)()
    if not ctypes.windll.kernel32.GetSystemPowerStatus(ctypes.byref(status)):
        return UNKNOWN
    return {0: "battery", _ON_MAINS: "mains"}.get(status[0], UNKNOWN)


def _text(path: Path) -> str:
    """Read one small file; nothing there is an empty text."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
