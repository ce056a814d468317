"""NVIDIA GPUs: what ``nvidia-smi`` answers. Inside containers nothing else may be visible."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import PureWindowsPath
from typing import Final

from msgspec import Struct

from scripts.errors import LaunchError
from scripts.host.gpu import NO_DRIVER, NVIDIA
from scripts.model import Gpu
from scripts.osal.process import run_captured

#: Runs a program and returns its exit code and output; ``None`` as code means it did not end in time.
Run = Callable[[Sequence[str], Mapping[str, str]], tuple[int | None, str]]

FIELDS: Final = "index,name,memory.total,driver_version,pci.bus_id"
SECONDS: Final = 20
NO_GFX: Final = "an NVIDIA GPU has no gfx name"
_MEBIBYTES = re.compile(r"(\d+) MiB")
_BUS = re.compile(r"([0-9a-f]+):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)


class SmiAnswer(Struct, frozen=True, kw_only=True):
    """What ``nvidia-smi`` reported: GPUs by PCI slot, or why there are none."""

    gpus: Mapping[str, Gpu]
    note: str = ""


def run(command: Sequence[str], environ: Mapping[str, str]) -> tuple[int | None, str]:
    """Run a small query to its end, without a console; output is decoded as UTF-8 with replacement."""
    try:
        done = run_captured(command, env=environ, timeout=SECONDS)
    except LaunchError as error:
        return -1, str(error)
    if done.timed_out:
        return None, f"no answer within {SECONDS} seconds"
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")


def find_tool(environ: Mapping[str, str], platform: str) -> str | None:
    """Find ``nvidia-smi`` on the PATH, on Windows also in System32. Starts nothing."""
    path = environ.get("PATH", "")
    if platform == "win32" and (root := environ.get("SYSTEMROOT")):
        path = f"{path};{PureWindowsPath(root) / 'System32'}"
    return shutil.which("nvidia-smi", path=path) if path else None


def ask(environ: Mapping[str, str], platform: str, runner: Run = run) -> SmiAnswer:
    """Ask ``nvidia-smi`` for its GPUs; without that program no process is started."""
    tool = find_tool(environ, platform)
    if tool is None:
        return SmiAnswer(gpus={})
    code, output = runner([tool, f"--query-gpu={FIELDS}", "--format=csv,noheader"], environ)
    if code != 0:
        first = next((line.strip() for line in output.splitlines() if line.strip()), "no output")
        return SmiAnswer(gpus={}, note=f"nvidia-smi lists no GPU: {first}")
    gpus = parse(output)
    return SmiAnswer(gpus=gpus, note="" if gpus else "nvidia-smi ran but lists no GPU.")


def parse(output: str) -> dict[str, Gpu]:
    """Read the lines of ``--format=csv,noheader``; lines of another shape are not GPUs."""
    import csv  # noqa: PLC0415 - most machines have no such output

    gpus: dict[str, Gpu] = {}
    for row in csv.reader(output.splitlines(), skipinitialspace=True):
        if len(row) != len(FIELDS.split(",")) or not row[0].strip().isdigit():
            continue
        index, name, memory, driver, bus = (cell.strip() for cell in row)
        size = _MEBIBYTES.fullmatch(memory)
        why = {"gfx": NO_GFX}
        if size is None:
            why["memory_bytes"] = f"nvidia-smi says {memory!r}"
            why["integrated"] = "nvidia-smi shows no memory of its own"
        gpus[slot(bus)] = Gpu(
            index=int(index),
            name=name,
            vendor=NVIDIA,
            # A GPU that shares the system's memory reports none; every other NVIDIA GPU is a card.
            integrated=False if size else None,
            memory_bytes=int(size[1]) * 1024 * 1024 if size else None,
            driver=driver or NO_DRIVER,
            source="nvidia-smi",
            why_unknown=why,
        )
    return gpus


def slot(bus: str) -> str:
    """Return a PCI address the way Linux writes it: ``0000:65:00.0``."""
    match = _BUS.fullmatch(bus)
    if match is None:
        return bus.lower()
    domain, number, device, function = match.groups()
    return f"{int(domain, 16):04x}:{number}:{device}.{function}".lower()
