"""The files a program ships, as far as they can be listed within limits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from scripts.osal.user_path import home_folder

MAX_FILES: Final = 20_000
MAX_DEPTH: Final = 6
#: Folders that many programs share: what lies beside a program there is not the program's.
SHARED: Final = frozenset(
    {
        *(
            "bin",
            "sbin",
            "lib",
            "lib64",
            "usr",
            "local",
            "opt",
            "tmp",
            "temp",
            "home",
            "users",
            "desktop",
            "downloads",
        ),
        *("documents", "windows", "system32", "syswow64", "program files", "program files (x86)", "scripts"),
        *("site-packages", "dist-packages"),
    }
)
_NATIVE: Final = (".dll", ".pyd", ".exe", ".node", ".ofx", ".xll", ".plugin", ".ptx", ".cubin", ".fatbin")


class Listing(Struct, frozen=True, kw_only=True):
    """Libraries by lower-case name, and what lies beside the program (folders end with ``/``).

    ``complete`` is false where a limit ended the listing.
    """

    by_name: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    complete: bool = True

    @property
    def files(self) -> tuple[Path, ...]:
        """Every library, in a fixed order."""
        return tuple(sorted({path for paths in self.by_name.values() for path in paths}))


def list_folder(folder: Path, *, deep: bool) -> Listing:
    """List a folder; ``deep`` also lists folders below, never through links.

    What cannot be listed is left out and makes the listing incomplete.
    """
    found: dict[str, list[Path]] = {}
    beside: list[str] = []
    left, complete = MAX_FILES, True
    pending = [(folder, 0)]
    while pending:
        here, depth = pending.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda e: e.name)
        except OSError:
            complete = False
            continue
        for entry in entries:
            left -= 1
            if left < 0:
                return Listing(by_name=_frozen(found), beside=tuple(beside), complete=False)
            is_folder = _is_folder(entry)
            if depth <= 1:
                name = f"{here.name}/{entry.name}" if depth else entry.name
                beside.append(f"{name}/" if is_folder else name)
            if is_folder and deep and depth < MAX_DEPTH:
                pending.append((Path(entry.path), depth + 1))
            elif not is_folder and is_native(entry.name):
                found.setdefault(entry.name.lower(), []).append(Path(entry.path))
    return Listing(by_name=_frozen(found), beside=tuple(beside), complete=complete)


def is_shared(folder: Path) -> bool:
    """Whether many programs live in a folder, so that its content says nothing about one of them."""
    return folder.name.lower() in SHARED or folder == folder.parent or folder == home_folder()


def is_native(name: str) -> bool:
    """Whether a file of this name may be a library or device code; its bytes decide later."""
    lower = name.lower()
    return lower.endswith(_NATIVE) or ".so" in lower


def merged(*listings: Listing) -> Listing:
    """Put listings together."""
    found: dict[str, list[Path]] = {}
    for listing in listings:
        for name, paths in listing.by_name.items():
            found.setdefault(name, []).extend(paths)
    beside = tuple(name for listing in listings for name in listing.beside)
    return Listing(by_name=_frozen(found), beside=beside, complete=all(x.complete for x in listings))


def _frozen(found: dict[str, list[Path]]) -> dict[str, tuple[Path, ...]]:
    """Make it unchangeable."""
    return {name: tuple(dict.fromkeys(paths)) for name, paths in found.items()}


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a real folder; links are not followed."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
