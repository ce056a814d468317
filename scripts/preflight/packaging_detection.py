"""Kinds of programs that hide what they use, recognised by signs that are data (``data/kinds.toml``)."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from scripts.guards import REFERENCE, WHY, GuardSign
from scripts.preflight.libraries import DATA
from scripts.serialize import JsonRecord

if TYPE_CHECKING:
    from scripts.binary.source import FileBytes

#: A packed program's mark lies at its end, before a signature at most this long.
TAIL: Final = 1 << 17


class Kind(Struct, frozen=True, kw_only=True):
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
    excluded: tuple[str, ...] = ()
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
    import tomllib  # noqa: PLC0415 - only here, once

    rows = tomllib.loads((DATA / "kinds.toml").read_text(encoding="utf-8"))["kind"]
    return tuple(_kind(row) for row in rows)


def _kind(row: dict[str, Any]) -> Kind:
    """Take one row; ``except`` is no name in Python."""
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
    excluded = values.pop("except", ())
    return Kind(**values, excluded=excluded)


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


def _matching(names: Sequence[str], pattern: str) -> list[str]:
    """Return the names that a pattern means; how it begins rules out nearly all of them at once."""
    head = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return fnmatch.filter([name for name in names if name.startswith(head)], pattern)


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
    names = [name.lower() for name in listing]
    found = []
    for kind in kinds():
        beside = next((n for p in kind.files for n in _matching(names, p.lower())), "")
        excluded = any(_matching(names, p.lower()) for p in kind.excluded)
        inside = kind.id in signs
        section = next((s for s in kind.sections if s in sections), "")
        called = any(fnmatch.fnmatch(program.lower(), p) for p in kind.names)
        if excluded or (kind.needs_both and not (beside and inside)):
            continue
        sign = (
            (f"the file {beside} beside it" if not beside.endswith("/") else f"the folder {beside} beside it")
            if beside
            else f"its section {section}"
            if section
            else "a mark in its bytes"
            if inside
            else "its name"
            if called
            else ""
        )
        if sign:
            found.append(Recognised(kind=kind, sign=sign))
    return tuple(found)
