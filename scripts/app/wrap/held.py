"""What processes of a program report about the settings that were held in their PyTorch."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from scripts.app.context import Workspace

#: Below ``stage``; each run's folder is gone when it has been read.
FOLDER: Final = "held"
#: No report is larger, and no more are read.
LARGEST: Final = 1 << 16
MOST: Final = 1000


class TorchDevices(Struct, frozen=True, kw_only=True):
    """What PyTorch heard of devices: for which CUDA it was built, how many it found, whether it used one."""

    build: str | None = None
    asked: int = 0
    count: int | None = None
    used: bool = False


class HeldProcess(Struct, frozen=True, kw_only=True):
    """One process: which policies were in force when it last reported.

    Attributes:
        pid: its number.
        program: what Python ran.
        torch: PyTorch's version, empty where only ONNX Runtime was imported.
        policies: whether each was in force; those whose module was not imported are absent.
        asked: how often the program asked for something else.
        devices: what PyTorch heard of devices.
        ended: it reported at its end; else only at the import, and then it was ended from outside.
    """

    pid: int
    program: str = ""
    torch: str = ""
    policies: dict[str, bool] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    devices: TorchDevices = field(default_factory=TorchDevices)
    ended: bool = False


class HeldSettings(Struct, frozen=True, kw_only=True):
    """What was wanted, and what the processes report."""

    wanted: tuple[str, ...]
    processes: list[HeldProcess] = field(default_factory=list)

    @property
    def lost(self) -> tuple[str, ...]:
        """Name the policies that some process reported not to be in force."""
        missing = {name for one in self.processes for name, good in one.policies.items() if not good}
        return tuple(name for name in self.wanted if name in missing)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Say what was really in force, in a line for each kind of answer."""
        if not self.processes:
            names = ", ".join(self.wanted)
            return (f"no process reported {names}: PyTorch was not imported, or they did not reach it",)
        lines = Counter(line for one in self.processes for line in _lines(one))
        return tuple(
            f"{line}{f' ({number} processes)' if number > 1 else ''}" for line, number in lines.items()
        )


def _lines(one: HeldProcess) -> Iterator[str]:
    """Yield what one process reports."""
    who = f"PyTorch {one.torch}" if one.torch else "ONNX Runtime"
    held = [name for name, good in one.policies.items() if good]
    lost = [name for name, good in one.policies.items() if not good]
    when = "at the end" if one.ended else "after the import; the end was not reported"
    if held:
        yield f"{who}: {', '.join(held)} in force {when}"
    if lost:
        yield f"{who}: {', '.join(lost)} NOT in force {when}"
    if changed := ", ".join(one.asked):
        yield f"{who}: the program asked for other settings ({changed}) and did not get them"


def held_folder(ws: Workspace) -> Path:
    """Name a folder for the reports of one run of this process; nothing is made."""
    number = 1
    while (folder := ws.stage / FOLDER / f"{os.getpid()}-{number}").exists():
        number += 1
    return folder


def make_held_folder(folder: Path) -> bool:
    """Make it for its owner only; ``False`` where that is not possible, which is no reason not to run."""
    with suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        return True
    return False


def read_held(folder: Path, wanted: tuple[str, ...]) -> HeldSettings:
    """Read the reports, and take the folder away. A program wrote them: what is odd is left out."""
    found = []
    with suppress(OSError):
        for path in sorted(folder.glob("torch-*.json"))[:MOST]:
            with suppress(OSError, msgspec.MsgspecError):
                if path.stat().st_size <= LARGEST:
                    found.append(msgspec.json.decode(path.read_bytes(), type=HeldProcess))
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()  # only when no other run uses it
    return HeldSettings(wanted=wanted, processes=found)


def wanted_in(environ: Mapping[str, str], variable: str) -> tuple[str, ...]:
    """Read which policies an environment names; a person may have set others than the profile."""
    return tuple(name for name in environ.get(variable, "").split(",") if name)
