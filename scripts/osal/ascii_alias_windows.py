"""Other names for a folder on Windows: its 8.3 form, and a junction in a place only this user can change."""

from __future__ import annotations

import _winapi
import ctypes
import hashlib
import os
import sys
from collections.abc import Sequence
from ctypes import wintypes
from pathlib import Path
from typing import Any, ClassVar, Final

from scripts.errors import LaunchError
from scripts.osal import winapi
from scripts.osal.fs import extended_path
from scripts.osal.paths import plain_spelling

assert sys.platform == "win32"  # noqa: S101 - tells mypy which half this is

#: Full control for the owner, the system and administrators; nothing is inherited from above.
PRIVATE: Final = "D:P(A;OICI;FA;;;OW)(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
OWNER_AND_DACL: Final = 0x1 | 0x4
FILE_OBJECT: Final = 1
TOKEN_QUERY: Final = 0x8
TOKEN_USER: Final = 1
ALREADY_EXISTS: Final = 183
SDDL_VERSION: Final = 1
NAME_LIMIT: Final = 32_768

_advapi32: Final = ctypes.WinDLL("advapi32", use_last_error=True)
_local_free: Final = winapi.kernel32.LocalFree
_local_free.argtypes = (ctypes.c_void_p,)
winapi.kernel32.GetCurrentProcess.restype = wintypes.HANDLE
_advapi32.OpenProcessToken.argtypes = (wintypes.HANDLE, wintypes.DWORD, ctypes.c_void_p)


class _SecurityAttributes(ctypes.Structure):
    """SECURITY_ATTRIBUTES."""

    _fields_: ClassVar[Sequence[Any]] = (
        ("length", wintypes.DWORD),
        ("descriptor", ctypes.c_void_p),
        ("inherit", wintypes.BOOL),
    )


def short_name(path: Path) -> str | None:
    """Return the 8.3 form of a path, or ``None`` where the volume keeps none."""
    buffer = ctypes.create_unicode_buffer(NAME_LIMIT)
    length = winapi.kernel32.GetShortPathNameW(extended_path(path), buffer, NAME_LIMIT)
    return plain_spelling(buffer.value) if 0 < length < NAME_LIMIT else None


def private_junction(target: Path, shared: Path) -> Path:
    """Return a junction to ``target`` below ``shared``, in a folder that only this user can change.

    Folder and junction are looked at again on every call: another user's folder, a looser access
    list or a junction that leads elsewhere is refused, never repaired.

    Raises:
        LaunchError: ``junction-unsafe``.
    """
    owner = _own_sid()
    folder = private_folder(shared)
    link = folder / hashlib.sha256(str(target).encode("utf-16-le", "surrogatepass")).hexdigest()[:12]
    try:
        _make_private(folder)
        if not is_private(*_access(folder), owner) or os.path.realpath(folder) != str(folder):
            raise _unsafe(folder, "it is not this user's own folder, or others may change it")
        if not os.path.lexists(link):
            _winapi.CreateJunction(str(target), str(link))
        if not link.samefile(target):
            raise _unsafe(link, f"it does not lead to {target}")
    except OSError as error:
        raise _unsafe(folder, str(error)) from error
    return link


def private_folder(shared: Path) -> Path:
    """Return where this user's junctions lie; it need not exist."""
    return shared / f"cuda-on-amd-{hashlib.sha256(_own_sid().encode()).hexdigest()[:8]}"


def is_private(owner: str, access: str, wanted: str) -> bool:
    """Say whether an access list (SDDL) is closed to inheritance and grants what ``PRIVATE`` grants."""
    flags, *entries = access.split("(")
    return (
        owner == wanted
        and "P" in flags.removeprefix("D:")
        and sorted(entries) == sorted(PRIVATE.split("(")[1:])
    )


def _unsafe(path: Path, why: str) -> LaunchError:
    msg = f"no safe second name could be made for the stack's folder: {path}"
    hint = "move the store to a folder with plain letters: set CUDA_AMD_CACHE, for example to C:\\cuda-amd"
    return LaunchError("junction-unsafe", msg, context=(why,), hint=hint)


def _make_private(folder: Path) -> None:
    """Create a folder with its access list in one step; one that exists is judged afterwards."""
    descriptor = ctypes.c_void_p()
    winapi.check(
        _advapi32.ConvertStringSecurityDescriptorToSecurityDescriptorW(
            PRIVATE, SDDL_VERSION, ctypes.byref(descriptor), None
        )
    )
    try:
        attributes = _SecurityAttributes(
            length=ctypes.sizeof(_SecurityAttributes), descriptor=descriptor.value, inherit=False
        )
        made = winapi.kernel32.CreateDirectoryW(str(folder), ctypes.byref(attributes))
        if not made and ctypes.get_last_error() != ALREADY_EXISTS:
            raise ctypes.WinError(ctypes.get_last_error())
    finally:
        _local_free(descriptor)


def _access(folder: Path) -> tuple[str, str]:
    """Return a folder's owner and access list, both as text."""
    descriptor = ctypes.c_void_p()
    failed = _advapi32.GetNamedSecurityInfoW(
        str(folder), FILE_OBJECT, OWNER_AND_DACL, None, None, None, None, ctypes.byref(descriptor)
    )
    if failed:
        raise ctypes.WinError(failed)
    try:
        owner = _descriptor_text(descriptor, 0x1).removeprefix("O:")
        return owner, _descriptor_text(descriptor, 0x4)
    finally:
        _local_free(descriptor)


def _descriptor_text(descriptor: ctypes.c_void_p, part: int) -> str:
    text = ctypes.c_wchar_p()
    winapi.check(
        _advapi32.ConvertSecurityDescriptorToStringSecurityDescriptorW(
            descriptor, SDDL_VERSION, part, ctypes.byref(text), None
        )
    )
    try:
        return text.value or ""
    finally:
        _local_free(text)


def _own_sid() -> str:
    token = wintypes.HANDLE()
    winapi.check(
        _advapi32.OpenProcessToken(winapi.kernel32.GetCurrentProcess(), TOKEN_QUERY, ctypes.byref(token))
    )
    try:
        buffer = ctypes.create_string_buffer(256)
        size = wintypes.DWORD()
        winapi.check(
            _advapi32.GetTokenInformation(token, TOKEN_USER, buffer, len(buffer), ctypes.byref(size))
        )
        sid = ctypes.c_void_p.from_buffer(buffer)
        text = ctypes.c_wchar_p()
        winapi.check(_advapi32.ConvertSidToStringSidW(sid, ctypes.byref(text)))
        try:
            return text.value or ""
        finally:
            _local_free(text)
    finally:
        winapi.kernel32.CloseHandle(token)
