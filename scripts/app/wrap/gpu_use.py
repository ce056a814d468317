"""Whether a program asked the layer for a device, as far as that shows without a trace."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from scripts.app.wrap.loaded import DRIVERS, ENOUGH, LoadedLibraries
from scripts.launch.profiles import cpu_words

if TYPE_CHECKING:
    from scripts.app.wrap.held import HeldSettings
    from scripts.evidence.tracelog import TraceSummary

#: So much of a program's output is read, and of a line.
MOST: Final = 64 << 20
LINE: Final = 4096


class GpuUse(Struct, frozen=True, kw_only=True):
    """``asked``: whether a device was asked for and one was there; ``None`` where that is not known.

    ``why`` says by what; ``by_loading``: by the libraries alone, which are reported in their own place too.
    """

    asked: bool | None
    why: str
    by_loading: bool = False

    @property
    def sentence(self) -> str:
        """Put it into a line."""
        words: dict[bool | None, str] = {True: "the GPU was asked for", False: "the GPU was not used"}
        return f"{words.get(self.asked, 'whether the GPU was used is not known')}: {self.why}"


def gpu_use(
    *,
    loaded: LoadedLibraries | None,
    held: HeldSettings | None,
    trace: TraceSummary | None,
    output: Path | None,
) -> GpuUse:
    """Judge by the program's own words, PyTorch's report, the trace, and what was loaded, in this order."""
    found = _words(output) or _torch(held) or _trace(trace)
    if found is not None:
        return found
    if loaded is None or not loaded.driver_expected:
        return GpuUse(asked=None, why="nothing that was looked at tells")
    if any(one.library in DRIVERS for one in loaded.from_stack):
        why = "the stack's driver library was loaded; --trace shows whether a device was asked for"
        return GpuUse(asked=None, why=why)
    if loaded.looks >= ENOUGH:
        why = f"the stack's driver library was not seen loaded in {loaded.looks} looks"
        return GpuUse(asked=False, why=why, by_loading=True)
    return GpuUse(asked=None, why="the program ended before its libraries could be looked at")


def _words(output: Path | None) -> GpuUse | None:
    """Look for a program's own sentence that it found no device."""
    if output is None:
        return None
    patterns = [(re.compile(row["pattern"], re.IGNORECASE), row["what"]) for row in cpu_words()]
    with suppress(OSError), output.open("rb") as lines:
        read = 0
        while read < MOST and (line := lines.readline(LINE)):
            read += len(line)
            text = line.decode("utf-8", "replace").strip()
            what = next((name for pattern, name in patterns if pattern.search(text)), None)
            if what is not None:
                return GpuUse(asked=False, why=f"{what} printed: {text}")
    return None


def _torch(held: HeldSettings | None) -> GpuUse | None:
    """Ask what PyTorch heard."""
    seen = [one for one in held.processes if one.torch] if held is not None else []
    if any(one.devices.used for one in seen):
        return GpuUse(asked=True, why="PyTorch began to use a device")
    if seen and all(one.devices.build is None for one in seen):
        why = f"PyTorch {seen[0].torch} is a build without CUDA"
        return GpuUse(asked=False, why=why)
    if seen and any(one.devices.asked and not one.devices.count for one in seen):
        return GpuUse(asked=False, why="PyTorch found no device")
    if seen and all(one.ended for one in seen):
        return GpuUse(asked=False, why="PyTorch did not begin to use a device")
    return None


def _trace(trace: TraceSummary | None) -> GpuUse | None:
    """Ask the trace for calls that open a device."""
    if trace is None:
        return None
    if not trace.logs or not _any_calls(trace.calls.values()):
        return GpuUse(asked=False, why="no CUDA call is in the trace")
    return GpuUse(asked=True, why="CUDA calls are in the trace")


def _any_calls(counts: Iterable[int]) -> bool:
    return any(count > 0 for count in counts)
