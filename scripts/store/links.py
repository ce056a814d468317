"""Links inside an archive: judged when they are read, made when everything else is there."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.records import dataclass
from scripts.store import entries
from scripts.store.entries import Limits, Unpacked
from scripts.store.names import refusal, refused
from scripts.system import files


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link to a file of the same archive; ``target`` is that file's path from the archive's root."""

    name: str
    target: str
    hard: bool

    @classmethod
    def inside(cls, name: str, raw_target: str, *, hard: bool) -> Link:
        """Resolve the target of the link ``name``.

        A symbolic link's target is relative to its folder, a hard link's to the archive's root.

        Raises:
            ArchiveError: the target is absolute, leaves the root, or has a name we would refuse.
        """
        parts = [] if hard else name.split("/")[:-1]
        outside = raw_target.startswith("/")
        for part in raw_target.split("/"):
            if part == "..":
                outside = outside or not parts
                parts = parts[:-1]
            elif part not in {"", "."}:
                parts = [*parts, part]
        target = "/".join(parts)
        if outside or refusal(target) is not None:
            raise refused(name, "link-outside", f"is a link that leaves the archive ({raw_target!r})")
        return cls(name=name, target=target, hard=hard)


def make_links(links: list[Link], folder: Path, written: list[Unpacked], limits: Limits) -> list[Unpacked]:
    """Make the links below ``folder`` and return ``written`` with them at its end.

    Hard links become copies. Symbolic links do too on Windows, which reserves them to administrators.

    Raises:
        ArchiveError: a link leads to something that is not a file of the archive, or in a circle.
    """
    made = {file.path: file for file in written}
    leads = {link.name: link.target for link in links}
    total = sum(file.size for file in written)
    for link in links:
        source = made.get(_follow(link, leads))
        if source is None or source.link:
            raise refused(
                link.name, "link-dangling", f"is a link to {link.target!r}, which is no file in here"
            )
        files.long_path(folder / link.name).parent.mkdir(parents=True, exist_ok=True)
        if link.hard or sys.platform == "win32":
            total += source.size
            limits.check_total(total)
            original = folder / source.path
            runs = entries.is_executable(files.long_path(original).stat().st_mode)
            made[link.name] = copy_in(original, link.name, folder, size=source.size, executable=runs)
        else:
            text = posixpath.relpath(link.target, posixpath.dirname(link.name) or ".")
            (folder / link.name).symlink_to(text)
            made[link.name] = Unpacked(path=link.name, sha256=source.sha256, size=source.size, link=text)
    return list(made.values())


def _follow(link: Link, leads: dict[str, str]) -> str:
    """Return the end of a chain of links; a circle ends at one of its links."""
    target = link.target
    for _ in leads:
        if target not in leads:
            break
        target = leads[target]
    return target


def copy_in(source: Path, name: str, folder: Path, *, size: int, executable: bool = False) -> Unpacked:
    """Copy a file to the path ``name`` below ``folder``, hashing it on the way."""
    files.long_path(folder / name).parent.mkdir(parents=True, exist_ok=True)
    return entries.write_member(name, folder / name, _blocks(source), size=size, executable=executable)


def _blocks(path: Path) -> Iterator[bytes]:
    """Hand out a file in blocks."""
    with files.long_path(path).open("rb", buffering=0) as file:
        while block := file.read(files.CHUNK):
            yield block
