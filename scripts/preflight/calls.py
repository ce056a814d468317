"""The call tables: what a translation layer does with each function of a library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from scripts.preflight.libraries import DATA


class Call(StrEnum):
    """What happens when a program asks for a function."""

    IMPLEMENTED = "implemented"
    NOT_SUPPORTED = "not-supported"
    ABORTS = "aborts"
    NOT_EXPORTED = "not-exported"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class ApiTable:
    """One release's tables.

    Attributes:
        source: where the table was read from, public.
        calls: library to function to what happens.
        assumed: libraries whose table is taken from a neighbouring release.
    """

    name: str
    source: str
    calls: Mapping[str, Mapping[str, Call]]
    assumed: frozenset[str] = frozenset()

    def lookup(self, library: str, function: str) -> Call:
        """Say what happens; a library without a table, and an import by number, are unknown."""
        known = self.calls.get(library)
        if known is None or function.startswith("#"):
            return Call.UNKNOWN
        return known.get(function, Call.NOT_EXPORTED)

    def counts(self, library: str) -> tuple[int, int]:
        """Return how many functions work, and how many there are."""
        known = self.calls.get(library, {})
        return sum(1 for call in known.values() if call is Call.IMPLEMENTED), len(known)


@cache
def api_table(name: str) -> ApiTable | None:
    """Return a table by the name a stack gives it, ``None`` where there is none: never another one's."""
    path = DATA / "api" / f"{name}.json"
    if not path.is_file():
        return None
    data = json.loads(path.read_text(encoding="utf-8"))
    meta = data.pop("_meta")
    kinds = (
        ("unimplemented", Call.NOT_SUPPORTED),
        ("implemented", Call.IMPLEMENTED),
        ("aborts", Call.ABORTS),
    )
    calls = {
        library: {function: call for key, call in kinds for function in body[key]}
        for library, body in data.items()
    }
    assumed = frozenset(k for k, word in meta.get("confidence", {}).items() if word == "assumed")
    source = f"vosen/ZLUDA@{meta['commit'][:7]} ({meta['tag']})"
    return ApiTable(name=name, source=source, calls=calls, assumed=assumed)
