"""A throw-away copy of a program's folder, and the comparison of folders that proves an undo."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.errors import TargetError
from scripts.osal.fs import hash_file, is_link

#: A program's folder larger than this is not copied.
MOST_BYTES: Final = 2 * 1024**3


class CopiedNode(Struct, frozen=True, kw_only=True):
    """What lies at one name. ``content`` is a file's hash or a link's destination."""

    kind: str
    size: int
    mode: int
    mtime_ns: int
    content: str = ""


def tree_of(folder: Path) -> dict[str, CopiedNode]:
    """Look at everything below a folder, by POSIX path; the folder's own time does not count."""
    return {path.relative_to(folder).as_posix(): _node(path) for path in sorted(folder.rglob("*"))}


def differences(before: Mapping[str, CopiedNode], after: Mapping[str, CopiedNode]) -> tuple[str, ...]:
    """Name what is not as it was, one line each: what, and which property."""
    lines = [f"{name}: gone" for name in sorted(before.keys() - after.keys())]
    lines += [f"{name}: new" for name in sorted(after.keys() - before.keys())]
    for name in sorted(before.keys() & after.keys()):
        old, new = before[name], after[name]
        fields = ("kind", "size", "mode", "mtime_ns", "content")
        changed = [field for field in fields if getattr(old, field) != getattr(new, field)]
        if changed:
            lines.append(f"{name}: other {', '.join(changed)}")
    return tuple(lines)


def copy_program(program: Path, folder: Path, *, alone: bool) -> Path:
    """Copy a program into an empty folder, ``alone`` or with everything in its own folder.

    Raises:
        TargetError: ``target-too-large`` or ``target-not-copied``.
    """
    try:
        return _copied(program, folder / "target", alone=alone)
    except (OSError, shutil.Error) as error:
        msg = f"{program.parent} cannot be copied"
        hint = "see that every file there can be read, and that the disk has room"
        raise TargetError("target-not-copied", msg, context=(str(error)[:500],), hint=hint) from error


def _copied(program: Path, target: Path, *, alone: bool) -> Path:
    """Copy, and return the copied program."""
    if alone:
        target.mkdir()
        return Path(shutil.copy2(program, target / program.name))
    size = _size(program.parent.rglob("*"))
    if size > MOST_BYTES:
        msg = f"{program.parent} is too large to make a throw-away copy of it"
        context = (f"{size:,} bytes, at most {MOST_BYTES:,}",)
        hint = "validate a smaller program, or run this one: invoke wrap --exe=…"
        raise TargetError("target-too-large", msg, context=context, hint=hint)
    shutil.copytree(program.parent, target, symlinks=True)
    return target / program.name


def _size(paths: Iterable[Path]) -> int:
    """Add up files; stops soon after it has become too much."""
    total = 0
    for path in paths:
        if path.is_file() and not is_link(path):
            total += path.stat().st_size
        if total > MOST_BYTES:
            break
    return total


def _node(path: Path) -> CopiedNode:
    """Look at one name."""
    seen = path.lstat()
    mode = stat.S_IMODE(seen.st_mode)
    if is_link(path):
        return CopiedNode(
            kind="link", size=0, mode=0, mtime_ns=seen.st_mtime_ns, content=str(path.readlink())
        )
    if path.is_dir():
        return CopiedNode(kind="folder", size=0, mode=mode, mtime_ns=seen.st_mtime_ns)
    return CopiedNode(
        kind="file", size=seen.st_size, mode=mode, mtime_ns=seen.st_mtime_ns, content=hash_file(path)
    )
