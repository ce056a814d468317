"""One look at a Windows machine: the registry's list, HIP's own list, and both compared."""

from __future__ import annotations

import platform as this_platform
import sys
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from scripts.host import compare, hipinfo, nvidia, windows
from scripts.host.gpu import AMD, NVIDIA
from scripts.host.sources import Sources
from scripts.model import Gpu, HipRoot, Host


def look(
    environ: Mapping[str, str], roots: Sequence[HipRoot], answer: nvidia.SmiAnswer, where: Sources
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


if sys.platform == "win32":
    import winreg


class WinRegistry:
    r"""Reads ``HKEY_LOCAL_MACHINE``, or the keys below another place that look like it.

    Args:
        below: empty, or a key of ``HKEY_CURRENT_USER`` that holds a recorded ``SYSTEM\…``.
    """

    def __init__(self, below: str = "") -> None:
        """Open nothing yet."""
        self._below = below

    if sys.platform == "win32":

        def keys(self, path: str) -> tuple[str, ...]:
            """Return the names of a key's sub-keys; empty where it cannot be read."""
            try:
                with self._open(path) as key:
                    return tuple(winreg.EnumKey(key, index) for index in range(winreg.QueryInfoKey(key)[0]))
            except OSError:
                return ()

        def values(self, path: str) -> dict[str, object] | None:
            """Return a key's values, or ``None`` where it cannot be read."""
            try:
                with self._open(path) as key:
                    count = winreg.QueryInfoKey(key)[1]
                    return {name: data for name, data, _ in (winreg.EnumValue(key, i) for i in range(count))}
            except OSError:
                return None

        def _open(self, path: str) -> winreg.HKEYType:
            """Open a key for reading, in the 64-bit view whatever Python this is."""
            root = winreg.HKEY_CURRENT_USER if self._below else winreg.HKEY_LOCAL_MACHINE
            full = rf"{self._below}\{path}" if self._below else path
            return winreg.OpenKey(root, full, 0, winreg.KEY_READ | winreg.KEY_WOW64_64KEY)

    else:

        def keys(self, path: str) -> tuple[str, ...]:
            """Return nothing: this system has no registry."""
            del path
            return ()

        def values(self, path: str) -> dict[str, object] | None:
            """Return nothing: this system has no registry."""
            del path
            return None
