"""What a GPU is: by its PCI id, by what ``nvidia-smi`` answers, and which of several is meant."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import PureWindowsPath
from typing import Final

from msgspec import Struct

from scripts.errors import LaunchError, UsageError
from scripts.model import Gpu
from scripts.osal.process import run_captured
from scripts.serialize import data_table

TABLE: Final = "gpus.toml"
AMD: Final = "amd"
NVIDIA: Final = "nvidia"
VENDORS: Final = {"1002": AMD, "10de": NVIDIA}

#: ``Gpu.driver`` of a device that the system lists but no usable driver runs: known, unlike ``None``.
NO_DRIVER: Final = "none"


def without_gpu(os: str) -> str:
    """Say what a person does who has a Radeon that was not found; ``os`` is ``windows`` or ``linux``."""
    passed = "in WSL, a VM or a container the GPU must be passed through"
    if os == "windows":
        look = "see the display adapters in the Device Manager, install AMD's driver from amd.com/support"
    else:
        look = "see `lspci -nn | grep -i vga`, install AMD's driver"
    return f"if this machine has a Radeon, {look}, restart, then `invoke scan`; {passed}"


class Identity(Struct, frozen=True, kw_only=True):
    """What the table says about one AMD PCI id.

    ``gfx`` and ``integrated`` are ``None`` where the id is not listed; ``why_unknown`` then says so.
    """

    name: str = ""
    gfx: str | None = None
    integrated: bool | None = None
    why_unknown: str = ""


def identify(device: str, revision: str) -> Identity:
    """Look an AMD device up by its hexadecimal PCI device and revision.

    A listed revision decides. A device whose every revision is the same chip decides alone. A
    revision that is not listed says nothing: the same device number has been given to two chips.
    """
    device, revision = device.upper(), revision.upper().zfill(2)
    chips = _chips()
    chip = chips.get(f"{device}:{revision}") or chips.get(f"{device}:*")
    if chip is not None:
        return chip
    relatives = sorted({str(c.gfx) for key, c in chips.items() if key.startswith(f"{device}:")})
    if relatives:
        others = ", ".join(relatives)
        why = f"revision {revision} of AMD device {device} is not in our table (others are {others})"
    else:
        why = f"AMD device {device} is not in our table"
    return Identity(why_unknown=why)


def is_known_gfx(gfx: str) -> bool:
    """Whether any model in our table has this architecture."""
    return any(chip.gfx == gfx for chip in _chips().values())


def named_models() -> frozenset[tuple[str, str]]:
    """Return every product in our table with its architecture; a name may have several."""
    return frozenset((model["name"], model["gfx"]) for model in data_table(TABLE)["model"])


def adapter_name(vendor: str, device: str) -> str:
    """Name a display adapter that no stack can use, or return an empty string."""
    name: str = data_table(TABLE)["adapters"].get(f"{vendor}:{device}".upper(), "")
    return name


def preferred(gpus: Sequence[Gpu]) -> int | None:
    """Return the index of the GPU to use when none is named, or ``None`` without any.

    Discrete before integrated, an NVIDIA GPU that answers before AMD, one whose driver does not
    answer last; the first of equals. Memory never decides: an integrated GPU may show more of it.
    """
    if not gpus:
        return None
    return min(gpus, key=lambda gpu: (*_rank(gpu), gpu.index)).index


def chosen(gpus: Sequence[Gpu], wanted: str) -> int | None:
    """Return the index ``wanted`` names, or the preferred one if it is empty.

    Raises:
        UsageError: it is not the number of a GPU that exists; the context lists those that do.
    """
    if not wanted:
        return preferred(gpus)
    if wanted.isascii() and wanted.isdigit() and int(wanted) in {gpu.index for gpu in gpus}:
        return int(wanted)
    msg = f"there is no GPU {wanted!r} here"
    listed = tuple(f"{gpu.index}: {gpu.name} ({gpu.gfx or gpu.vendor})" for gpu in gpus)
    none = "leave --gpu out; `invoke doctor` shows where it was looked for"
    hint = "give --gpu one of the numbers listed" if listed else none
    raise UsageError("gpu-unknown", msg, context=listed or ("no GPU was found",), hint=hint)


def _rank(gpu: Gpu) -> tuple[int, int]:
    """Order GPUs by usefulness: lower is better."""
    if gpu.vendor == NVIDIA and gpu.driver == NO_DRIVER:
        return (3, 0)
    vendor = 0 if gpu.vendor == NVIDIA else 1
    return ({False: 0, None: 1, True: 2}[gpu.integrated], vendor)


@cache
def _chips() -> dict[str, Identity]:
    """Index the models by ``DEVICE:REVISION``; several products may share one."""
    chips: dict[str, Identity] = {}
    for model in data_table(TABLE)["model"]:
        for key in model["pci"]:
            name = f"{chips[key].name} / {model['name']}" if key in chips else model["name"]
            chips[key] = Identity(name=name, gfx=model["gfx"], integrated=model["integrated"])
    return chips


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
