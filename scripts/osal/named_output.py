"""Files that a person names for output: what may not be one, and how each kind is written.

A link is followed, a device or pipe is written to, an existing file keeps its mode and owner; none of them is
ever replaced by a file of another kind.
"""

from __future__ import annotations

import errno
import io
import os
import re
import select
import stat
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PureWindowsPath
from typing import Final

from scripts.errors import UsageError
from scripts.osal.fs import (
    extended_path,
    long_path,
    open_patiently,
    put_in_place,
    sync_folder,
    write_all,
)
from scripts.osal.paths import device_of, plain_spelling

#: Seconds to wait for a reader of a named pipe, and for one that has stopped reading.
PIPE_WAIT: Final = 5.0
_PAUSE: Final = 0.05
#: Folders of ours inside other people's folders.
_OURS: Final = ".cuda-amd"
#: Endings of programs and libraries; ``.so`` also with a version behind it.
_CODE: Final = re.compile(r".*\.(?:dll|exe|sys|pyd|ocx|com|dylib|node|so(?:\.[0-9.]+)?)", re.IGNORECASE)
#: How programs and libraries begin.
_MAGIC: Final = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_DESCRIPTOR: Final = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,4})")
_STREAMS: Final = {"/dev/stdout": 1, "/dev/stderr": 2}
#: Adding to a file; opening a pipe does not wait for its reader.
_ADD: Final = (
    os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
)


def check_output(
    path: Path,
    option: str,
    *,
    taken: Mapping[str, Path] | None = None,
    trees: Mapping[str, Path] | None = None,
) -> None:
    """Refuse a path that must not be written to. Opens nothing for writing.

    Args:
        path: absolute.
        option: as it is typed, for the message.
        taken: files that are something else, by what they are ("the program itself").
        trees: folders that nothing is written into from here, by what they are ("the store").

    Raises:
        UsageError: ``bad-output``.
    """
    why = _shape(path)
    if not why and not _device(path):  # a device of Windows has no place that could be asked for
        why = _role(path, taken or {}, trees or {}) or _content(path)
    if why:
        hint = "choose another file for it"
        raise UsageError("bad-output", f"{option} {why}", context=(str(path),), hint=hint)


def is_plain(path: Path) -> bool:
    """Whether a path is no device and no pipe, so that it can be written twice."""
    if _descriptor(path) is not None or _device(path):
        return False
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def write_output(path: Path, data: bytes) -> None:
    """Write a whole document.

    An ordinary file changes in one step where that loses nothing (one name, and ours), else in place.

    Raises:
        OSError: it cannot be written.
    """
    if is_plain(path):
        real = Path(os.path.realpath(path))
        found = long_path(real).stat() if long_path(real).exists() else None
        if found is None or (found.st_nlink == 1 and _may_replace(real, found)):
            put_in_place(real, data, keep_mode=found is not None and sys.platform != "win32")
            with suppress(OSError):
                sync_folder(real.parent)
            return
    descriptor = open_output(path)
    try:
        write_patiently(descriptor, data)
    finally:
        os.close(descriptor)


def open_output(path: Path, *, mode: int = 0o666) -> int:
    """Open for writing from the start; ``mode`` is for a file that is new.

    Raises:
        OSError: it cannot be opened; of a pipe also that nothing reads from it.
    """
    descriptor = _descriptor(path)
    if descriptor is not None:
        return os.dup(descriptor)
    flags = os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    if device := _device(path):
        return os.open("CONOUT$" if device == "CON" else device, flags)
    if is_plain(path):
        return os.open(extended_path(path), flags | os.O_CREAT | os.O_TRUNC, mode)
    if stat.S_ISFIFO(path.stat().st_mode):
        return _open_pipe(path, flags)
    return os.open(path, flags | getattr(os, "O_NOCTTY", 0))


def append_regular(path: Path, data: bytes) -> None:
    """Add bytes to a regular file, or make it; opening a pipe or device may wait for ever, so neither is.

    Raises:
        OSError: it is a folder, device or pipe (``EINVAL``), or cannot be written.
    """
    with suppress(FileNotFoundError):
        _refuse_special(long_path(path).stat(), path)
    with io.FileIO(open_patiently(path, _ADD, 0o666), "a") as file:
        _refuse_special(os.fstat(file.fileno()), path)
        write_all(file.fileno(), data)


def _refuse_special(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def write_patiently(descriptor: int, data: bytes) -> None:
    """Write every byte; a pipe whose reader has stopped reading is given up after ``PIPE_WAIT``.

    Raises:
        OSError: it cannot be written.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            if not select.select([], [descriptor], [], PIPE_WAIT)[1]:
                raise TimeoutError(errno.ETIMEDOUT, "the reader of the pipe has stopped reading") from None


def _open_pipe(path: Path, flags: int) -> int:
    """Open a named pipe as soon as something reads from it, and never wait for ever."""
    deadline = time.monotonic() + PIPE_WAIT
    while True:
        try:
            return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > deadline:
                raise OSError(errno.ENXIO, "nothing reads from the pipe", str(path)) from error
        time.sleep(_PAUSE)


def _may_replace(real: Path, found: os.stat_result) -> bool:
    """Whether a new file would have the same owner, and could be made there."""
    if sys.platform == "win32":
        return True
    same = (found.st_uid, found.st_gid) == (os.geteuid(), os.getegid())
    return same and os.access(real.parent, os.W_OK | os.X_OK) and os.access(real, os.W_OK)


def _shape(path: Path) -> str:
    """Say that a path names something that is never opened; what cannot be opened says so by itself."""
    if sys.platform == "win32" and (why := _windows_shape(path)):
        return why
    descriptor = _descriptor(path)
    if descriptor is not None:
        return "" if _is_open(descriptor) else "names a descriptor that is not open"
    try:
        block = stat.S_ISBLK(path.stat().st_mode)
    except (OSError, ValueError):
        return ""
    return "names a disk or another block device" if block else ""


def _windows_shape(path: Path) -> str:
    """Say that a path names a drive, a share or a device that is never opened."""
    device = device_of(path.name)
    if device and device not in {"NUL", "CON"}:
        return f"names the device {device}"
    if plain_spelling(str(path)).startswith(("\\\\.\\", "\\\\?\\")):
        return "names a device"
    return "" if PureWindowsPath(path).name else "names a drive or a share"


def _role(path: Path, taken: Mapping[str, Path], trees: Mapping[str, Path]) -> str:
    """Say what a file is already."""
    real = Path(os.path.realpath(path))
    for what, other in taken.items():
        if real == Path(os.path.realpath(other)) or _same_file(path, other):
            return f"is {what}"
    for what, tree in trees.items():
        if real.is_relative_to(os.path.realpath(tree)):
            return f"lies in {what}"
    inside = any(part.lower().rstrip(". ") == _OURS for part in real.parts)
    return "lies in a folder that remembers a placement" if inside else ""


def _content(path: Path) -> str:
    """Say that an ordinary file is a program or library, by its name or its first bytes."""
    if not is_plain(path):
        return ""
    real = Path(os.path.realpath(path))
    if _CODE.fullmatch(real.name) or _CODE.fullmatch(path.name):
        return "has the name of a program or library"
    try:
        with real.open("rb") as file:
            return "is a program or library" if file.read(4).startswith(_MAGIC) else ""
    except OSError:
        return ""


def _same_file(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):
        return False


def _descriptor(path: Path) -> int | None:
    """Return the descriptor of ours that a path stands for; opening it again would start at its begin."""
    if sys.platform == "win32":
        return None
    text = os.path.normpath(path)
    match = _DESCRIPTOR.fullmatch(text)
    return int(match[1]) if match else _STREAMS.get(text)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _device(path: Path) -> str:
    return device_of(path.name) if sys.platform == "win32" else ""
