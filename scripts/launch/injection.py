"""Which way CUDA's libraries get into a program, and the plans for the launcher and for tracing.

Facts: vosen/ZLUDA@87531d3. A tracing library writes to a new folder below ``ZLUDA_LOG_DIR``, named after the
program, and hands every call on to the library that a variable names.

Facts: vosen/ZLUDA@87531d3. It adds every DLL of the layer to the program's imports, as 8-bit text: one
missing file, or one letter of its folder outside ASCII, and the program dies silently with 0xC0000135.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Final

from msgspec import Struct

from scripts.errors import LaunchError, StagedFileError
from scripts.launch.argv import PATH_LIMIT, launcher_line, refuse_unstartable, utf16_units
from scripts.launch.environ import EnvChange
from scripts.model import Runtime, RuntimeFile, StackKind

LAUNCHER: Final = "zluda.exe"


class Via(StrEnum):
    """How a program comes to load our libraries, gentlest first."""

    ENV = "env"
    LAUNCHER = "launcher"
    BESIDE = "beside"


class ViaFacts(Struct, frozen=True, kw_only=True):
    """What decides; ``None`` is unknown (no preflight).

    Attributes:
        platform: ``sys.platform`` of the machine.
        kind: what the stack is for.
        launcher: whether the runtime holds a launcher that fits the program (64- or 32-bit).
        at_start: the start-up import closure names the driver library.
        bare_load: the driver library is loaded later by its bare name, with the default search.
        system_only: modules that ask the system folder alone (the CUDA runtime does), so that no
            copy of ours can answer them.
        nvrtc: the program compiles at run time through NVRTC, which only a launcher redirects.
        own_copies: CUDA libraries of the program's own that would be found before ours, because of
            its folder or an RPATH.
    """

    platform: str
    kind: StackKind
    launcher: bool = False
    at_start: bool | None = None
    bare_load: bool | None = None
    system_only: tuple[str, ...] = ()
    nvrtc: bool | None = None
    own_copies: tuple[str, ...] = ()


class ViaChoice(Struct, frozen=True, kw_only=True):
    """The chosen way and the sentence that says why."""

    via: Via
    reason: str


def choose_via(facts: ViaFacts) -> ViaChoice:
    """Choose the gentlest way that serves.

    Raises:
        LaunchError: ``no-way-in``, naming the module that none of the ways reaches.
    """
    if facts.kind is StackKind.CONTROL:
        return ViaChoice(
            via=Via.ENV, reason="this stack adds no files: the program finds the system's own CUDA"
        )
    if facts.platform != "win32":
        if facts.own_copies:
            first = facts.own_copies[0]
            return ViaChoice(via=Via.BESIDE, reason=f"the program would load its own {first} before ours")
        return ViaChoice(
            via=Via.ENV,
            reason="the stack's folders come first in its search path; nothing is written",
        )
    if facts.launcher:
        reason = "the CUDA runtime asks Windows' system folder only, which injection alone redirects"
        return ViaChoice(via=Via.LAUNCHER, reason=reason)
    unseen = facts.at_start is None and not facts.system_only and not facts.own_copies
    if facts.kind is StackKind.REFERENCE and unseen:
        return ViaChoice(
            via=Via.ENV, reason="this stack has no launcher; its folders come first in the search path"
        )
    return _beside_or_refuse(facts)


def _beside_or_refuse(facts: ViaFacts) -> ViaChoice:
    """Copies beside the program are right only where the program's own loading finds them.

    Copies of its own in the same places do not change that: the driver is what must be found.
    """
    reason = _not_beside(facts)
    if reason:
        known = facts.system_only or facts.nvrtc
        or_beside = "" if known else ", or add --via=beside if you know that it serves"
        hint = f"choose a stack with a launcher: see `invoke stacks`{or_beside}"
        raise LaunchError("no-way-in", f"{reason}, and this stack has no launcher", hint=hint)
    how = (
        "imports the driver library when it starts" if facts.at_start else "loads the driver library by name"
    )
    return ViaChoice(via=Via.BESIDE, reason=f"the program {how}, so copies in its folder are found")


def not_applicable_reason(via: Via, facts: ViaFacts) -> str:
    """Say why a way in does not apply to this program and stack; empty where it does."""
    windows = facts.platform == "win32"
    if via is Via.ENV:
        injected = windows and facts.kind is StackKind.TRANSLATION
        folder = "the CUDA runtime asks Windows' system folder, which a search path does not change"
        return folder if injected else ""
    if facts.kind is StackKind.CONTROL:
        return "this stack adds no files"
    if via is Via.LAUNCHER:
        absent = "this stack has no launcher" if windows else "the launcher is Windows' own"
        return "" if facts.launcher else absent
    return _not_beside(facts) if windows and facts.kind is StackKind.TRANSLATION else ""


def _not_beside(facts: ViaFacts) -> str:
    """Say why a Windows program would not find copies beside it."""
    if facts.system_only:
        return f"{facts.system_only[0]} loads CUDA from the system folder only"
    if facts.nvrtc:
        return "the program uses NVRTC, which only a launcher redirects"
    found = facts.at_start or facts.bare_load
    return "" if found else "nothing shows that this program would find copies beside it"


FOLDER: Final = "trace"
LOG_DIR: Final = "ZLUDA_LOG_DIR"
LOG_NAME: Final = "log.txt"
#: How every line begins that a tracing library also writes to the program's standard error.
PREFIX: Final = b"[ZLUDA_TRACE] "
#: The launcher's option that puts the tracing libraries in instead of the layer's own.
LAUNCHER_OPTION: Final = "--zluda-trace"
#: The launcher adds a ``ZLUDA_LOG_DIR`` of its own unless a variable has that *value*: it compares values
#: where it means names. So a variable with that value keeps ours, also where the last of two counts.
KEEPS_OURS: Final = ("CUDA_AMD_TRACE", LOG_DIR)
#: What each tracing library asks for the real one, and the names of the file on Linux. On Windows the
#: launcher sets the same, but for NVML, where it sets a name that is not read.
HANDS_ON: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("ZLUDA_CUDA_LIB", ("libcuda.so", "libcuda.so.1")),
    ("ZLUDA_BLAS_LIB", ("libcublas.so", "libcublas.so.13", "libcublas.so.12")),
    ("ZLUDA_BLASLT_LIB", ("libcublasLt.so", "libcublasLt.so.13", "libcublasLt.so.12")),
    ("ZLUDA_DNN8_LIB", ("libcudnn64_8.so", "libcudnn.so.8")),
    ("ZLUDA_DNN9_LIB", ("libcudnn64_9.so", "libcudnn.so.9")),
    ("ZLUDA_FFT_LIB", ("libcufft.so", "libcufft.so.12", "libcufft.so.11")),
    ("ZLUDA_NVML_LIB", ("libnvml.so", "libnvidia-ml.so", "libnvidia-ml.so.1")),
    ("ZLUDA_SPARSE_LIB", ("libcusparse.so", "libcusparse.so.12", "libcusparse.so.11")),
)
NVML: Final = ("ZLUDA_NVML_LIB", "nvml.dll")
DRIVERS: Final = ("nvcuda.dll", "libcuda.so", "libcuda.so.1")


def plan_trace(runtime: Runtime, logs: PurePath, *, platform: str, bits: int = 64) -> tuple[EnvChange, ...]:
    """Return what a program's environment needs so that its CUDA calls are written below ``logs``.

    Raises:
        LaunchError: ``no-trace``: the stack has no tracing libraries for this kind of program.
    """
    home = PurePosixPath("32") if bits == 32 else PurePosixPath()  # noqa: PLR2004 - the word size itself
    names = {file.name.lower(): file.name for file in runtime.files}
    if runtime.path is None or not any(str(home / FOLDER / name) in names for name in DRIVERS):
        msg = f"{runtime.stack} has no libraries that trace CUDA calls"
        hint = "use one of ZLUDA's releases for Windows: see `invoke stacks`"
        raise LaunchError("no-trace", msg, hint=hint)
    return tuple(_changes(runtime.path, logs, home, names, windows=platform == "win32"))


def _changes(
    path: PurePath, logs: PurePath, home: PurePosixPath, names: dict[str, str], *, windows: bool
) -> Iterator[EnvChange]:
    why = "the tracing libraries write below it"
    yield EnvChange(name=LOG_DIR, action="set", value=str(logs), why=why)
    on = "the tracing library hands the calls on to it"
    if windows:
        name, value = KEEPS_OURS
        yield EnvChange(
            name=name, action="set", value=value, why="the launcher then keeps our folder for logs"
        )
        variable, file = NVML
        if (there := names.get(str(home / file))) is not None:
            yield EnvChange(name=variable, action="set", value=str(path / there), why=on)
        return
    for variable, files in HANDS_ON:
        found = next((names[name.lower()] for name in files if name.lower() in names), None)
        if found is not None:
            yield EnvChange(name=variable, action="set", value=str(path / found), why=on)
    why = "the libraries that trace CUDA calls"
    yield EnvChange(name="LD_LIBRARY_PATH", action="prepend", value=str(path / FOLDER), why=why)


#: How ``properties.machine_of`` names the two kinds of programs that a launcher may serve.
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
        machine: what the program is made for, as ``properties.machine_of`` says it.
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
        from scripts.preflight.verdict import no_half  # noqa: PLC0415 - only a refusal needs it

        msg, hint = no_half(program.name, runtime.stack)
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


def launcher_in(runtime: Runtime, *, bits: int = 64) -> RuntimeFile | None:
    """Return the launcher for programs of ``bits``, or ``None`` where the stack has none."""
    wanted = f"32/{LAUNCHER}" if bits == 32 else LAUNCHER  # noqa: PLR2004 - the word size itself
    return next((f for f in runtime.files if f.name.lower() == wanted), None)
