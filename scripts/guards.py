"""Anti-cheat systems: whether one guards a program. The one place for their signs and where they lie.

Foreign libraries in a guarded game get its players banned, so every way in asks here first. The names
are data (``data/guards.toml``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path, PurePath
from typing import Final, NamedTuple, TypeVar

from scripts.errors import TargetError
from scripts.osal.fs import extended_path, long_path
from scripts.serialize import data_table

REFERENCE: Final = "anti-cheat"
WHY: Final = "foreign libraries inside a guarded game get players banned"
HINT: Final = "run it without this workspace"
#: So many folders beside a program are tried for an Unreal project below them.
PROJECTS: Final = 64
#: So many arguments of a program are looked at as names of programs.
WORDS: Final = 32
#: Where an Unreal program's own files lie below its project's folder.
BELOW: Final = (("Binaries", "Win64"), ("Binaries", "WinGDK"), ("Binaries", "Linux"))

Folder = TypeVar("Folder", bound=PurePath)


class Guard(NamedTuple):
    """One anti-cheat system, and the parts of names that only it has (lower case)."""

    name: str
    begins: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether a name (lower case) is one of its signs."""
        return name.startswith(self.begins) or name.endswith(self.ends)


class GuardSign(NamedTuple):
    """A name that shows which system guards a program, and the folder it lies in."""

    guard: str
    name: str
    folder: PurePath

    @property
    def text(self) -> str:
        """The sentence for a person."""
        return f"{self.name} near the program is a sign of {self.guard}; {WHY}"


class _Table(NamedTuple):
    guards: tuple[Guard, ...]
    any: Guard
    inner: frozenset[str]
    shared: frozenset[str]
    homes: frozenset[str]
    system: frozenset[str]


@cache
def _table() -> _Table:
    data = data_table("guards.toml")
    found = tuple(
        Guard(row["name"], *(tuple(row.get(key, ())) for key in ("begins", "ends"))) for row in data["guard"]
    )
    union = Guard(
        "any",
        begins=tuple(part for guard in found for part in guard.begins),
        ends=tuple(part for guard in found for part in guard.ends),
    )
    sets = {key: frozenset(data[key]) for key in ("inner", "shared", "homes", "system")}
    return _Table(guards=found, any=union, **sets)


def guards() -> tuple[Guard, ...]:
    """Return every known system."""
    return _table().guards


def guard_of(program: Path) -> GuardSign | None:
    """Say what guards a program: by the path it was named by, and by the one behind links."""
    folders = [Path(os.path.normpath(program.parent.absolute()))]
    with suppress(OSError, RuntimeError, ValueError):  # a circle of links, which the start will report
        folders.append(program.resolve().parent)
    return guard_near(folders, _names)


def guard_near(folders: Iterable[Folder], names: Callable[[Folder], Iterable[str]]) -> GuardSign | None:
    """Look for a sign in folders that hold a program's files, above them and below.

    Folders are absolute paths; ``names`` lists one, and what cannot be listed has no names.
    """
    known, seen, starts = _table().any, set[str](), set[str]()
    for start in dict.fromkeys(folders):
        # A start that was looked at above or below another one has not been looked at below itself.
        below = () if _real(start) in starts else _below(start, names)
        starts.add(_real(start))
        for folder in chain((start,), _above(start), below):
            real = _real(folder)
            if real in seen or folder.name.lower() in _table().system:
                continue
            seen.add(real)
            name = next((name for name in names(folder) if known.has(name.casefold())), None)
            if name is not None:
                guard = next(guard for guard in guards() if guard.has(name.casefold()))
                return GuardSign(guard=guard.name, name=name, folder=folder)
    return None


def refuse_guarded(program: Path, words: Sequence[str] = (), *, cwd: Path | None = None) -> None:
    """Refuse a program that an anti-cheat system guards, also where another one is to start it.

    The first of ``words``, its arguments, may name a program (``wine game.exe``), relative to ``cwd``.

    Raises:
        TargetError: ``anti-cheat``.
    """
    named = [path for word in words[:WORDS] if _is_program(path := (cwd or Path()) / word)]
    for path in (program, *named):
        sign = guard_of(path)
        if sign is not None:
            raise guarded(sign)


def guarded(sign: GuardSign) -> TargetError:
    """Return the refusal for a sign."""
    return TargetError(REFERENCE, sign.text, context=(f"folder: {sign.folder}",), hint=HINT)


def _real(folder: PurePath) -> str:
    """Return the form in which two names of one folder are equal: `/bin` often is `/usr/bin`."""
    try:
        return os.path.realpath(folder)
    except (OSError, ValueError):  # a name that no folder can have
        return str(folder)


def _above(start: Folder) -> Iterator[Folder]:
    """Yield the folder above one, and above each inner folder one more."""
    here = start
    while not _is_shared(here.parent):
        yield here.parent
        if here.name.lower() not in _table().inner:
            return
        here = here.parent


def _below(start: Folder, names: Callable[[Folder], Iterable[str]]) -> Iterator[Folder]:
    """Yield Unreal's folders below one."""
    for project in _inner(start, names):
        for parts in BELOW:
            yield start.joinpath(project, *parts)


def _inner(folder: Folder, names: Callable[[Folder], Iterable[str]]) -> list[str]:
    """List what may be a folder in a folder; a thousand files would be listed in vain."""
    try:
        with os.scandir(extended_path(Path(folder))) as entries:
            found = sorted(entry.name for entry in entries if "." not in entry.name and not entry.is_file())
    except (OSError, ValueError):  # a folder that only ``names`` knows
        found = [name for name in names(folder) if "." not in name]
    return found[:PROJECTS]


def _is_shared(folder: PurePath) -> bool:
    """Whether many programs live in a folder: a top folder, a person's home, a folder of that name."""
    table = _table()
    name, above = folder.name.lower(), folder.parent.name.lower()
    return folder == folder.parent or name in table.shared or above in table.homes


def _is_program(path: Path) -> bool:
    """Whether an argument names a program."""
    try:
        runs = path.suffix.lower() == ".exe" or (os.name == "posix" and os.access(path, os.X_OK))
        return runs and long_path(path).is_file()
    except (OSError, ValueError):
        return False


def _names(folder: Path) -> list[str]:
    """List a folder; what is not there or not ours to read has no names."""
    try:
        return sorted(os.listdir(extended_path(folder)))  # noqa: PTH208 - a thousand paths cost more
    except (OSError, ValueError):
        return []
