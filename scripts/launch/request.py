"""The words of a ``wrap`` command line, read into values; pure but for one look for the program."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Final, Literal

from msgspec import Struct

from scripts.errors import LaunchError, UsageError
from scripts.host.hip_libraries import RUNTIME
from scripts.launch.argv import PATH_LIMIT, utf16_units
from scripts.model import Runtime, RuntimeFile
from scripts.osal.fs import long_path
from scripts.osal.paths import device_of, plain_spelling, unquoted, user_path

UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)")


def parse_timeout(text: str) -> float | None:
    """Read ``90``, ``90s``, ``5m`` or ``1h`` as seconds; empty is no limit.

    Raises:
        UsageError: ``bad-timeout``; zero is none either.
    """
    if not text:
        return None
    match = _DURATION.fullmatch(text.strip().lower())
    seconds = float(match[1]) * UNITS[match[2]] if match else 0.0
    if seconds <= 0:
        msg = f"--timeout={text} is not a duration"
        raise UsageError("bad-timeout", msg, hint="write seconds, or 90s, 5m, 1h")
    return seconds


def parse_settings(items: Sequence[str]) -> dict[str, str]:
    """Read ``NAME=VALUE`` words; the value may be empty and may hold ``=``.

    Raises:
        UsageError: ``bad-setting``.
    """
    settings = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name or "\0" in item:
            msg = f"--set={item!r} is not of the form NAME=VALUE"
            raise UsageError("bad-setting", msg, hint="write for example --set=ZLUDA_CC=8.6")
        settings[name] = value
    return settings


def find_program(
    text: str,
    *,
    cwd: Path,
    search: Callable[[str], str | None],
    platform: str,
    short_name: Callable[[Path], str | None] = lambda _path: None,
) -> Path:
    """Return the program's absolute path, links left as they are (a virtual environment depends on them).

    Args:
        text: what the user named: a path, or a bare name.
        cwd: the folder that relative paths start from.
        search: looks a bare name up in PATH, as the shell would.
        platform: on ``win32`` a name without extension means the ``.exe``.
        short_name: returns the 8.3 form of a path, by which a program in a very deep folder can be started.

    Raises:
        UsageError: ``no-program``: nothing was named.
        LaunchError: ``program-not-found``, ``not-a-file``, ``path-too-long``.
    """
    if not text:
        raise UsageError("no-program", "no program was named", hint="name it: wrap --exe=PATH -- ARGUMENTS")
    text = unquoted(text)
    if platform == "win32":
        _refuse_no_file(text)
    path = user_path(text, "--exe", cwd=cwd)
    candidates = [path]
    if platform == "win32" and not path.suffix:
        candidates.insert(0, path.with_name(path.name + ".exe"))
    for candidate in candidates:
        if long_path(candidate).is_file():
            path = candidate.absolute()
            return _startable(path, short_name) if platform == "win32" else path
    if long_path(path).is_dir():
        msg = f"{path} is a folder"
        raise LaunchError("not-a-file", msg, hint="name the program in it")
    found = search(text) if path.name == text else None
    if found is None:
        where = "" if path.name != text else ", nor is a program of that name in PATH"
        msg = f"{path} does not exist{where}"
        raise LaunchError("program-not-found", msg, hint="check --exe")
    return (cwd / found).absolute()


def _startable(path: Path, short_name: Callable[[Path], str | None]) -> Path:
    """Return a path that fits a command line: itself, its folder's 8.3 form, or its own."""
    if utf16_units(str(path)) <= PATH_LIMIT:
        return path
    folder = short_name(path.parent)
    for shorter in (folder and f"{folder}\\{path.name}", short_name(path)):
        if shorter and utf16_units(shorter) <= PATH_LIMIT:
            return Path(shorter)
    units = utf16_units(str(path))
    msg = f"the program's path has {units} characters, more than {PATH_LIMIT}, and no short (8.3) form"
    raise LaunchError("path-too-long", msg, context=(str(path),), hint="move it to a shorter folder")


def _refuse_no_file(text: str) -> None:
    """Refuse a drive, a share or a device as a program, before the system is asked about it."""
    path = PureWindowsPath(plain_spelling(text))
    device = device_of(path.name)
    if device or not path.name or str(path).startswith(("\\\\.\\", "\\\\?\\")):
        what = f"the device {device}" if device else "a drive, a share or a device"
        raise LaunchError("not-a-file", f"{text} names {what}", hint="name the program in a folder")


Kind = Literal["layer", "hip", "libtorch"]

#: How the file names (lower case) begin that mark a folder, in search order.
MARKS: Final[dict[Kind, tuple[str, ...]]] = {
    "hip": (RUNTIME, f"lib{RUNTIME}.so"),
    "libtorch": ("torch_cpu.dll", "torch.dll", "libtorch.so", "libtorch_cpu.so"),
}
#: What AMD's packages for Linux bring beside HIP's own libraries, each in a folder of its own: libraries of
#: the system they were built with, and the compiler's (ROCm/TheRock).
BESIDE_HIP: Final = ("rocm_sysdeps/lib", "llvm/lib")
LAUNCHER: Final = "zluda.exe"
#: Parts of the layer that must never be on a search path: they write traces, or serve 32-bit programs.
ASIDE: Final = frozenset({"trace", "trace_nvidia", "32"})
WHY: Final[dict[Kind, str]] = {
    "layer": "the stack's CUDA libraries",
    "hip": "the HIP runtime that came with the stack",
    "libtorch": "LibTorch, an optional part of the stack",
}


class Folder(Struct, frozen=True, kw_only=True):
    """One folder to search, and why."""

    kind: Kind
    path: PurePath
    why: str


def search_folders(runtime: Runtime) -> tuple[Folder, ...]:
    """Return the runtime's folders in search order: the layer, HIP, LibTorch; empty without files."""
    if runtime.path is None:
        return ()
    layer = PurePosixPath()
    found: list[tuple[Kind, PurePosixPath]] = [("layer", layer)]
    for kind, marks in MARKS.items():
        for file in runtime.files:
            path = PurePosixPath(file.name)
            folder = path.parent
            if path.name.lower().startswith(marks) and not ASIDE & set(folder.parts) and folder != layer:
                found.append((kind, folder))
                if kind == "hip" and folder.name == "lib":
                    found += ((kind, folder / name) for name in BESIDE_HIP if _holds(runtime, folder / name))
                break
    return tuple(Folder(kind=kind, path=runtime.path / folder, why=WHY[kind]) for kind, folder in found)


def _holds(runtime: Runtime, folder: PurePosixPath) -> bool:
    """Whether a runtime has a file right in a folder."""
    return any(PurePosixPath(file.name).parent == folder for file in runtime.files)


def launcher_in(runtime: Runtime, *, bits: int = 64) -> RuntimeFile | None:
    """Return the launcher for programs of ``bits``, or ``None`` where the stack has none."""
    wanted = f"32/{LAUNCHER}" if bits == 32 else LAUNCHER  # noqa: PLR2004 - the word size itself
    return next((f for f in runtime.files if f.name.lower() == wanted), None)
