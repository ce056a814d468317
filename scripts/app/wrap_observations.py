"""What was seen of a program while it ran: its PyTorch, its CUDA libraries, whether it asked for a device."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field

from scripts.app.context import Staged, Workspace
from scripts.app.wrap_result import WrapPlacement
from scripts.launch.profiles import cpu_words
from scripts.model import StackKind
from scripts.osal.fs import hash_file, open_regular, read_bounded
from scripts.osal.processes import MappedFiles
from scripts.preflight.libraries import DRIVER, Part, named

if TYPE_CHECKING:
    from scripts.evidence.tracelog import TraceSummary


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
                found.append(msgspec.json.decode(read_bounded(path, LARGEST), type=HeldProcess))
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()  # only when no other run uses it
    return HeldSettings(wanted=wanted, processes=found)


def wanted_in(environ: Mapping[str, str], variable: str) -> tuple[str, ...]:
    """Read which policies an environment names; a person may have set others than the profile."""
    return tuple(name for name in environ.get(variable, "").split(",") if name)


#: How ``provides`` names the driver library.
DRIVERS = frozenset({DRIVER, "cuda"})
#: Looks after which it is worth saying that nothing was seen: about a third of a second.
ENOUGH = 5
NOT_LOADED: Final = "the program did not load the CUDA driver library while it was watched"


class LoadedLibrary(Struct, frozen=True, kw_only=True):
    """One library: NVIDIA's name for it, where it lay, and its hash (empty where it could not be read)."""

    library: str
    path: str
    sha256: str = ""


class LoadedLibraries(Struct, frozen=True, kw_only=True):
    """What was seen, in so many looks.

    Attributes:
        looks: how often the processes were looked at; a library that came and went between two is missed.
        from_elsewhere: libraries of the same names that are not the stack's.
        driver_expected: whether the stack has a driver library, without which its other libraries do nothing.
    """

    looks: int = 0
    from_stack: list[LoadedLibrary] = field(default_factory=list)
    from_elsewhere: list[LoadedLibrary] = field(default_factory=list)
    driver_expected: bool = False

    @property
    def driver_missed(self) -> bool:
        """Whether the stack's driver library would have been seen, and was not."""
        driver = any(one.library in DRIVERS for one in self.from_stack)
        return self.driver_expected and not driver and self.looks >= ENOUGH

    def sentences(self, *, stopped: bool = False) -> tuple[str, ...]:
        """Say what was seen, and of a program that was not ``stopped`` what was not."""
        said = []
        if self.from_stack or self.from_elsewhere:
            ours = ", ".join(Path(one.path).name for one in self.from_stack) or "none"
            others = ", ".join(one.path for one in self.from_elsewhere) or "none"
            said.append(
                f"CUDA libraries that were seen loaded: from the stack {ours}; from elsewhere {others}"
            )
        if self.driver_missed and not stopped:
            said.append(NOT_LOADED)
        return tuple(said)


def is_cuda(name: str) -> bool:
    """Whether a file name is one of NVIDIA's libraries that a stack may replace."""
    found = named(name)
    return found is not None and found.library.part is not Part.RUNTIME


def loaded_libraries(
    mapped: MappedFiles, staged: Staged, placement: WrapPlacement, *, hashes: bool
) -> LoadedLibraries:
    """Tell the stack's libraries from others.

    With ``hashes`` files from elsewhere are read for their hashes, which takes time.
    """
    runtime = staged.runtime
    known = {}
    if runtime.path is not None:
        known = {_real(runtime.path / file.name): file.sha256 for file in runtime.files}
    if placement.target is not None:
        known |= {_real(placement.target / path): digest for path, digest in placement.hashes.items()}
    ours, others = [], []
    for path in sorted(mapped.paths):
        found = named(os.path.basename(path))  # noqa: PTH119 - a path of another process, as text
        library = found.key if found is not None else ""
        real = _real(path)
        if real in known:
            ours.append(LoadedLibrary(library=library, path=path, sha256=known[real]))
        else:
            digest = _hash(path) if hashes else ""
            others.append(LoadedLibrary(library=library, path=path, sha256=digest))
    driver = any(file.provides in DRIVERS for file in runtime.files)
    return LoadedLibraries(
        looks=mapped.looks,
        from_stack=ours,
        from_elsewhere=others,
        driver_expected=driver and staged.stack.kind is not StackKind.CONTROL,
    )


def _real(path: Path | str) -> str:
    """Return the form in which two names of one file are equal."""
    return os.path.normcase(os.path.realpath(path))


def _hash(path: str) -> str:
    """Hash a file that may be gone by now."""
    with suppress(OSError):
        return hash_file(Path(path))
    return ""


#: So much of a program's output is read, and of a line.
MOST_BYTES: Final = 64 << 20
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
    if loaded.driver_missed:
        return GpuUse(asked=False, why=NOT_LOADED, by_loading=True)
    return GpuUse(asked=None, why="the program ended before its libraries could be looked at")


def _words(output: Path | None) -> GpuUse | None:
    """Look for a program's own sentence that it found no device."""
    if output is None:
        return None
    patterns = [(re.compile(row["pattern"], re.IGNORECASE), row["what"]) for row in cpu_words()]
    with suppress(OSError), open_regular(output) as lines:
        read = 0
        while read < MOST_BYTES and (line := lines.readline(LINE)):
            read += len(line)
            text = line.decode("utf-8", "replace").strip()
            what = next((name for pattern, name in patterns if pattern.search(text)), None)
            if what is not None:
                return GpuUse(asked=False, why=f"{what} printed: {text}")
    return None


def _torch(held: HeldSettings | None) -> GpuUse | None:
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
    if not trace.logs or not any(count > 0 for count in trace.calls.values()):
        return GpuUse(asked=False, why="no CUDA call is in the trace")
    return GpuUse(asked=True, why="CUDA calls are in the trace")
