"""What a program ships: its files, its Python packages, and signs that it hides what it uses."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field

from scripts.guards import REFERENCE, WHY, GuardSign
from scripts.osal.fs import CACHEDIR_TAG, has_own_cachedir_tag, read_bounded
from scripts.osal.paths import home_folder
from scripts.osal.text import names_like
from scripts.serialize import JsonRecord, data_table

if TYPE_CHECKING:
    from scripts.binary.image import FileBytes


MAX_FILES: Final = 20_000
MAX_DEPTH: Final = 6
_NATIVE: Final = (".dll", ".pyd", ".exe", ".node", ".ofx", ".xll", ".plugin", ".ptx", ".cubin", ".fatbin")


class Listing(Struct, frozen=True, kw_only=True):
    """Libraries by lower-case name, and what lies beside the program (folders end with ``/``)."""

    by_name: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    beside: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """Every library, in a fixed order."""
        return tuple(sorted({path for paths in self.by_name.values() for path in paths}))


def list_folder(folder: Path, *, deep: bool) -> Listing:
    """List a folder; ``deep`` also lists folders below: within limits, not through links, not our store."""
    found: dict[str, list[Path]] = {}
    beside: list[str] = []
    left = MAX_FILES
    pending = [(folder, 0)]
    while pending:
        here, depth = pending.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda e: e.name)
        except OSError:
            continue
        if depth and any(e.name == CACHEDIR_TAG for e in entries) and has_own_cachedir_tag(here):
            continue
        for entry in entries:
            left -= 1
            if left < 0:
                return Listing(by_name=_frozen(found), beside=tuple(beside))
            is_folder = _is_folder(entry)
            if depth <= 1:
                name = f"{here.name}/{entry.name}" if depth else entry.name
                beside.append(f"{name}/" if is_folder else name)
            if is_folder and deep and depth < MAX_DEPTH:
                pending.append((Path(entry.path), depth + 1))
            elif not is_folder and is_native(entry.name):
                found.setdefault(entry.name.lower(), []).append(Path(entry.path))
    return Listing(by_name=_frozen(found), beside=tuple(beside))


def is_shared(folder: Path) -> bool:
    """Whether many programs live in a folder, so that its content says nothing about one of them."""
    shared = data_table("kinds.toml")["shared"]
    return folder.name.lower() in shared or folder == folder.parent or folder == home_folder()


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
    return Listing(by_name=_frozen(found), beside=tuple(n for listing in listings for n in listing.beside))


def _frozen(found: dict[str, list[Path]]) -> dict[str, tuple[Path, ...]]:
    return {name: tuple(dict.fromkeys(paths)) for name, paths in found.items()}


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a real folder; links are not followed."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


_PYTHON: Final = re.compile(r"python(w)?(\d(\.\d+)?t?)?(_d)?(\.exe)?", re.IGNORECASE)
MAX_RECORD: Final = 1 << 23
#: Bytes of a `pyvenv.cfg`, and many times what one has.
MAX_SETTINGS: Final = 1 << 16


class Package(Struct, frozen=True, kw_only=True):
    """One installed distribution and its native files."""

    name: str
    version: str
    files: tuple[Path, ...]


def is_python(program: Path) -> bool:
    """Whether a program is a Python interpreter, by its name or by lying in an environment."""
    return bool(_PYTHON.fullmatch(program.name))


def environments(program: Path) -> tuple[Path, ...]:
    """Return the package folders of the interpreter's environment, its own first."""
    found: list[Path] = []
    homes = dict.fromkeys(
        home for path in (program, program.resolve()) for home in (path.parent, path.parent.parent)
    )
    for home in homes:
        found += [home / "Lib" / "site-packages", *sorted(home.glob("lib/python3*/*-packages"))]
        settings = _settings(home / "pyvenv.cfg")
        base = settings.get("home", "")
        if base and settings.get("include-system-site-packages", "").lower() == "true":
            found += [Path(base) / "Lib" / "site-packages"]
            found += sorted(Path(base).parent.glob("lib/python3*/site-packages"))
    return tuple(dict.fromkeys(path for path in found if path.is_dir()))


def roots_of(program: Path) -> tuple[Path, ...]:
    """Return the folders that hold a program: its own and, in a virtual or conda environment, that one."""
    own = program.resolve().parent
    above = (folder.parent for folder in (program.parent.resolve(), own))
    around = [root for root in above if (root / "pyvenv.cfg").is_file() or (root / "conda-meta").is_dir()]
    return tuple(dict.fromkeys((own, *around)))


def installed(folders: Sequence[Path]) -> tuple[Package, ...]:
    """Return the distributions that are known to use CUDA, by what their RECORD lists."""
    found: dict[str, Package] = {}
    known = "|".join(data_table("kinds.toml")["packages"])
    for folder in folders:
        for info in sorted(folder.glob("*.dist-info")):
            name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
            normal = re.sub(r"[-_.]+", "-", name).lower()
            if normal not in found and re.fullmatch(known, normal):
                files = tuple(_native(folder, info))
                found[normal] = Package(name=normal, version=version, files=files)
    return tuple(found.values())


def _native(folder: Path, info: Path) -> Iterator[Path]:
    """Yield the native files of one distribution; entries that leave the folder are ignored."""
    try:
        with (info / "RECORD").open(encoding="utf-8", errors="replace") as record:
            text = record.read(MAX_RECORD)
    except OSError:
        return
    for line in text.splitlines():
        entry = line.rsplit(",", 2)[0].strip('"')
        if not is_native(entry.rpartition("/")[2]) or ".." in entry.split("/") or entry.startswith("/"):
            continue
        path = folder / entry
        if path.is_file():
            yield path


def _settings(path: Path) -> dict[str, str]:
    """Read ``pyvenv.cfg``; empty where there is none."""
    try:
        lines = read_bounded(path, MAX_SETTINGS).decode(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


#: A packed program's mark lies at its end, before a signature at most this long.
TAIL: Final = 1 << 17


class Kind(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind; ``effect`` is ``unknown``, ``refuses`` or ``note``."""

    id: str
    what: str
    effect: str
    why: str
    files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    excluded: tuple[str, ...] = field(default=(), name="except")
    needs_both: bool = False


class Recognised(JsonRecord, frozen=True, kw_only=True):
    """A kind, and the sign by which it was recognised."""

    kind: Kind
    sign: str

    JSON = "kind=kind.id what=kind.what sign why=kind.why"

    @property
    def sentence(self) -> str:
        """Say both."""
        return f"{self.kind.what} (by {self.sign}): {self.kind.why}"


@cache
def kinds() -> tuple[Kind, ...]:
    """Read the table."""
    return msgspec.convert(data_table("kinds.toml")["kind"], tuple[Kind, ...])


def guarded_kind(sign: GuardSign) -> Recognised:
    """Return the kind of a program that an anti-cheat system guards: it is never run."""
    kind = Kind(id=REFERENCE, what=f"a game guarded by {sign.guard}", effect="refuses", why=WHY)
    return Recognised(kind=kind, sign=f"{sign.name} in {sign.folder}")


@cache
def byte_signs() -> dict[str, bytes]:
    """Return what is looked for anywhere in a program's data, by the kind it shows."""
    return {
        kind.id: bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()
        for kind in kinds()
        for text in kind.strings
    }


def tail_signs(source: FileBytes) -> tuple[str, ...]:
    """Return the kinds whose mark lies at a file's end."""
    start = max(0, source.size - TAIL)
    end = source.read(start, TAIL)
    return tuple(kind.id for kind in kinds() if any(bytes.fromhex(mark) in end for mark in kind.tail))


def recognise(
    program: str, listing: Collection[str], sections: Collection[str], signs: Collection[str]
) -> tuple[Recognised, ...]:
    """Say which kinds a program is.

    Args:
        program: its file name.
        listing: what lies beside it, relative, folders with ``/`` at the end; one level of folders is enough.
        sections: names of its sections.
        signs: kinds whose bytes were found in it.
    """
    names = dict.fromkeys(name.lower() for name in listing)  # in this order
    found = []
    for kind in kinds():
        beside = next((n for p in kind.files for n in names_like(names, p.lower())), "")
        excluded = any(names_like(names, p.lower()) for p in kind.excluded)
        inside = kind.id in signs
        section = next((s for s in kind.sections if s in sections), "")
        called = any(names_like((program.lower(),), p) for p in kind.names)
        if excluded or (kind.needs_both and not (beside and inside)):
            continue
        signs_of_it = (
            (beside, f"the {'folder' if beside.endswith('/') else 'file'} {beside} beside it"),
            (section, f"its section {section}"),
            (inside, "a mark in its bytes"),
            (called, "its name"),
        )
        sign = next((text for there, text in signs_of_it if there), "")
        if sign:
            found.append(Recognised(kind=kind, sign=sign))
    return tuple(found)
