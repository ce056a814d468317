"""Files that another process holds for a moment: on Windows each operation waits for it."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.osal import durable, fs
from scripts.osal.file_operations import Fs

REAL = Fs()
NOW = 1_700_000_000_000_000_000
Act = Callable[[Path], object]


def lock_and_release(path: Path) -> bool:
    lock = fs.LockFile(path)
    taken = lock.try_acquire()
    lock.release()
    return taken


def size_of(path: Path) -> int:
    seen = REAL.look(path)
    return seen.size if seen else -1


def bytes_after(name: str, act: Callable[[Path, Path], object]) -> Act:
    """Act on the file and a new name, and return what then lies at one of them."""

    def both(at: Path) -> bytes:
        act(at / "file", at / "new")
        with (at / name).open("rb") as file:
            return file.read()

    return both


def left_after(act: Act, name: str) -> Act:
    """Act on the folder, and return what is left there, or the rights to write of what is left."""

    def both(at: Path) -> int | None:
        act(at)
        try:
            return (at / name).stat().st_mode & 0o222
        except FileNotFoundError:
            return None

    return both


def set_time(at: Path) -> int:
    REAL.set_mtime(at, NOW)
    return at.stat().st_mtime_ns


#: What is done in a folder with the file ``file`` ("bytes") and the empty folder ``empty``, and its result.
ACTS: dict[str, tuple[Act, object]] = {
    "look": (lambda at: size_of(at / "file"), 5),
    "names": (REAL.names, ("empty", "file")),
    "read": (lambda at: REAL.read(at / "file"), b"bytes"),
    "sha256": (lambda at: REAL.sha256(at / "file"), hashlib.sha256(b"bytes").hexdigest()),
    "mkdir": (lambda at: REAL.mkdir(at / "new"), True),
    "write_new": (bytes_after("new", lambda _file, new: REAL.write_new(new, b"1")), b"1"),
    "append": (bytes_after("file", lambda file, _new: REAL.append(file, 2, b"!")), b"by!"),
    "copy_new": (bytes_after("new", REAL.copy_new), b"bytes"),
    "link": (lambda at: REAL.link(at / "file", at / "new"), True),
    "rename_new": (bytes_after("new", REAL.rename_new), b"bytes"),
    "replace": (bytes_after("new", REAL.replace), b"bytes"),
    "unlink": (left_after(lambda at: REAL.unlink(at / "file"), "file"), None),
    "rmdir": (lambda at: REAL.rmdir(at / "empty"), True),
    "set_mtime": (set_time, NOW),
    "sync_files": (lambda at: REAL.sync_files([at / "file"]), None),
    "hash_file": (lambda at: fs.hash_file(at / "file"), hashlib.sha256(b"bytes").hexdigest()),
    "read_bounded": (lambda at: fs.read_bounded(at / "file", 9), b"bytes"),
    "read_end": (lambda at: fs.read_end(at / "file", 2), b"es"),
    "fs.replace": (bytes_after("new", fs.replace), b"bytes"),
    "fs.remove": (left_after(lambda at: fs.remove(at / "file"), "file"), None),
    "remove_tree": (left_after(fs.remove_tree, ""), None),
    "set_read_only": (left_after(lambda at: fs.set_read_only(at / "file"), "file"), 0),
    "make_read_only": (left_after(fs.make_read_only, "file"), 0),
    "paths_below": (lambda at: list(fs.paths_below(at)), ["file"]),
}
#: The calls by which they reach the system.
CALLS = (
    "open",
    "lstat",
    "listdir",
    "scandir",
    "mkdir",
    "link",
    "replace",
    "unlink",
    "rmdir",
    "utime",
    "chmod",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    (made / "empty").mkdir(parents=True)
    (made / "file").write_bytes(b"bytes")
    return made


class SharingError(PermissionError):
    """Windows' own error where another process holds a file."""

    def __init__(self, path: object) -> None:
        super().__init__(errno.EACCES, "held", path)
        self.winerror = 32


class Holder:
    """Another process: each kind of call meets it once, below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = os.fspath(folder)
        self.met: list[str] = []

    def refusing(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(path: object, *rest: object, **more: object) -> object:
            ours = isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(self.folder)
            if ours and name not in self.met:
                self.met.append(name)
                # The C library keeps Windows' own number to itself.
                raise PermissionError(errno.EACCES, "held", path) if name == "open" else SharingError(path)
            return real(path, *rest, **more)

        return call


@pytest.fixture
def holder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Holder:
    """Let the operations believe that they run on Windows, where every call is refused once."""
    holder = Holder(folder)
    monkeypatch.setattr(fs, "sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr(fs, "time", SimpleNamespace(sleep=lambda _seconds: None))
    monkeypatch.setattr(fs, "retrying", partial(fs.retrying, sleep=lambda _seconds: None))
    monkeypatch.setattr(durable, "rename_new", holder.refusing("rename_new", durable.rename_new))
    for name in CALLS:
        monkeypatch.setattr(os, name, holder.refusing(name, getattr(os, name)))
    return holder


@pytest.mark.posix_only
@pytest.mark.parametrize("name", ACTS)
def test_each_operation_waits_where_another_process_holds_the_file(
    folder: Path, holder: Holder, name: str
) -> None:
    act, expected = ACTS[name]
    assert act(folder) == expected
    assert holder.met, "no call was refused, so nothing was shown"


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.CreateFileW.argtypes = (
        *(wintypes.LPCWSTR, wintypes.DWORD, wintypes.DWORD, wintypes.LPVOID),
        *(wintypes.DWORD, wintypes.DWORD, wintypes.HANDLE),
    )
    kernel.CreateFileW.restype = wintypes.HANDLE
    kernel.CloseHandle.argtypes = (wintypes.HANDLE,)

    #: What Windows lets another process do with a file or folder that is held for being removed.
    ALLOWED = {"mkdir", "write_new", "link", "set_mtime", "set_read_only", "look"}

    class Held:
        """A folder, its file and an inner one, held without sharing until they are waited for."""

        def __init__(self, folder: Path) -> None:
            delete, open_existing, backup = 0x1_0000, 3, 0x0200_0000
            self.folder = folder
            self.handles = [
                kernel.CreateFileW(str(path), delete, 0, None, open_existing, backup, None)
                for path in (folder / "file", folder / "empty", folder)
            ]
            assert wintypes.HANDLE(-1).value not in self.handles

        def let_go(self, _seconds: float = 0) -> None:
            while self.handles:
                kernel.CloseHandle(self.handles.pop())

    @pytest.fixture
    def held(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
        held = Held(folder)
        monkeypatch.setattr(fs, "time", SimpleNamespace(sleep=held.let_go))
        for module in (fs, durable):
            monkeypatch.setattr(module, "retrying", partial(fs.retrying, sleep=held.let_go))
        yield held
        held.let_go()

    @pytest.mark.parametrize("name", ACTS)
    def test_what_is_held_without_sharing_is_waited_for(held: Held, name: str) -> None:
        act, expected = ACTS[name]
        assert act(held.folder) == expected
        assert not held.handles or name in ALLOWED, "nothing was waited for"

    def test_a_lock_file_that_is_held_is_waited_for(held: Held) -> None:
        assert lock_and_release(held.folder / "file")

    def test_a_folder_that_is_held_can_still_be_filled(held: Held) -> None:
        assert REAL.writable(held.folder)
