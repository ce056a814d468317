"""The plan for ``zluda.exe``, which starts a program and puts the stack's libraries into it.

Facts: vosen/ZLUDA@87531d3. It adds every DLL of the layer to the program's imports, as 8-bit text: one
missing file, or one letter of its folder outside ASCII, and the program dies silently with 0xC0000135.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

from msgspec import Struct

from scripts.errors import LaunchError, StagedFileError
from scripts.launch.argv import PATH_LIMIT, launcher_line, refuse_unstartable, utf16_units
from scripts.launch.request import launcher_in
from scripts.launch.tracing import FOLDER, LAUNCHER_OPTION
from scripts.model import Runtime

#: How ``binary.machine_of`` names the two kinds of programs that a launcher may serve.
BITS: Final = {"x86_64": 64, "x86": 32, "": 64}
#: How the form of a 32-bit program is called.
THIRTY_TWO: Final = "x86"
#: ZLUDA v7's half for 32-bit programs: its folder, and the 64-bit process that does its work.
HALF: Final = "32"
SERVER: Final = "zluda64_server.exe"
REDIRECT: Final = "zluda_redirect.dll"
#: Shown with every launch, because it differs from running the program directly.
CAVEATS: Final = (
    "with the launcher Ctrl-C ends the program at once, without its own clean-up",
    "with the launcher everything the program started ends with its first process",
)
#: Folders that Windows makes for Store apps; their programs are empty links.
STORE_FOLDER: Final = "windowsapps"


class LauncherPlan(Struct, frozen=True, kw_only=True):
    """What is started: the launcher, the line it gets, and the line the program will see."""

    launcher: PureWindowsPath
    line: str
    child_line: str


def plan_launcher(
    runtime: Runtime,
    *,
    folder: PureWindowsPath,
    program: PureWindowsPath,
    machine: str,
    args: Iterable[str],
    present: Callable[[str], bool],
    trace: bool = False,
) -> LauncherPlan:
    """Plan one start through the launcher. Pure but for ``present``.

    Args:
        runtime: the stack's files.
        folder: an ASCII path of the runtime's folder: see ``ascii_folder``.
        program: absolute path of the program.
        machine: what the program is made for, as ``binary.machine_of`` says it.
        args: the program's arguments.
        present: whether a file of the runtime is there now.
        trace: put the tracing libraries in, which hand on to the layer's own.

    Raises:
        LaunchError: the program cannot be started this way; the hint says what can.
        StagedFileError: a DLL that the launcher injects has vanished.
        UsageError: an argument cannot be delivered.
    """
    refuse_unstartable(program)
    bits = BITS.get(machine)
    launcher = None if bits is None else launcher_in(runtime, bits=bits)
    if launcher is None:
        raise no_launcher(runtime, program, machine)
    beside = PurePosixPath(launcher.name).parent
    _check_complete(runtime, beside, present)
    if trace:
        _check_complete(runtime, beside / FOLDER, present)
    path = folder / launcher.name
    outer, inner = launcher_line(path, program, tuple(args), options=(LAUNCHER_OPTION,) if trace else ())
    return LauncherPlan(launcher=path, line=outer, child_line=inner)


def no_launcher(runtime: Runtime, program: PureWindowsPath, machine: str) -> LaunchError:
    """Say which kind of launcher the stack lacks."""
    if machine == THIRTY_TWO:
        msg = f"{program.name} is a 32-bit program, and {runtime.stack} has no half for those"
        hint = "use the program's 64-bit version, or a stack of ZLUDA v7 (see `invoke stacks`)"
        return LaunchError("program-32-bit", msg, hint=hint)
    if machine not in BITS:
        msg = f"{program.name} is made for {machine}; CUDA programs for Windows are made for x86_64"
        return LaunchError("program-format", msg, hint="look for the program's x86_64 version")
    msg = f"{runtime.stack} has no launcher"
    return LaunchError("no-launcher", msg, hint="use --via=beside, or another stack: see `invoke stacks`")


def _check_complete(runtime: Runtime, folder: PurePosixPath, present: Callable[[str], bool]) -> None:
    """Refuse when one of the DLLs that would be injected is not there."""
    needed = [
        f.name
        for f in runtime.files
        if (PurePosixPath(f.name).parent == folder and _injected(f.name, f.provides))
        or (HALF in folder.parts and f.name.lower() == SERVER)
    ]
    missing = [name for name in needed if not present(name)]
    if missing:
        msg = f"{missing[0]} has vanished from the stack's folder; the program would die without a word"
        hint = "see whether the antivirus program reports it, then `invoke setup` puts it back"
        raise StagedFileError("staged-file-missing", msg, context=tuple(missing), hint=hint)


def _injected(name: str, provides: str | None) -> bool:
    path = PurePosixPath(name.lower())
    traces = path.parent.name == FOLDER and path.suffix == ".dll"
    half = path.parent.name == HALF and path.suffix == ".dll"
    return provides is not None or traces or half or path.name == REDIRECT


def refuse_store_app(program: PureWindowsPath, *, size: int) -> None:
    """Refuse the empty link that stands for a Store app; nothing can be put into such a program.

    Raises:
        LaunchError: ``store-app``.
    """
    if size == 0 and STORE_FOLDER in (part.lower() for part in program.parts):
        msg = f"{program.name} is the link to a Store app, not a program"
        hint = "install the program from its makers' site, and name that .exe"
        raise LaunchError("store-app", msg, context=(str(program),), hint=hint)


def ascii_folder(
    folder: Path,
    *,
    short_name: Callable[[Path], str | None],
    junction: Callable[[Path], Path],
) -> PureWindowsPath:
    """Return a path of ``folder`` that is ASCII and short enough for the launcher.

    The path itself where it serves, else its 8.3 form, else a junction to it.

    Args:
        folder: the runtime's folder.
        short_name: returns the 8.3 form, or ``None`` where the volume keeps none.
        junction: makes (or finds) a junction in a place only this user can change, or raises.

    Raises:
        LaunchError: from ``junction``: no such place could be made.
    """
    for candidate in (str(folder), short_name(folder)):
        if candidate is not None and _serves(candidate):
            return PureWindowsPath(candidate)
    linked = str(junction(folder))
    if not _serves(linked):
        msg = "the launcher cannot read the name of the folder that the stack lies in"
        hint = (
            "move the store to a folder with plain letters: set CUDA_AMD_CACHE, for example to C:\\cuda-amd"
        )
        raise LaunchError("layer-folder-not-ascii", msg, context=(str(folder), linked), hint=hint)
    return PureWindowsPath(linked)


def _serves(path: str) -> bool:
    """Whether Detours can store it, with room for the longest file name of a layer."""
    return path.isascii() and utf16_units(path) + len(r"\32\zluda_redirect.dll") <= PATH_LIMIT
