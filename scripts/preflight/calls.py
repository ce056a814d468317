"""The call tables: what a translation layer does with each function of a library."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from scripts.preflight.libraries import DATA


class Call(StrEnum):
    """What happens when a program asks for a function."""

    IMPLEMENTED = "implemented"
    NOT_SUPPORTED = "not-supported"
    ABORTS = "aborts"
    NOT_EXPORTED = "not-exported"
    UNKNOWN = "unknown"


class ApiTable:
    """One release's tables; read when the first call is looked up, for most programs ask for none."""

    def __init__(self, path: Path) -> None:
        """Name a table after its file."""
        self.name = path.stem
        self._path = path

    @cached_property
    def _body(self) -> dict[str, Any]:
        """Everything in the file."""
        import json  # noqa: PLC0415 - see above

        return dict(json.loads(self._path.read_text(encoding="utf-8")))

    @cached_property
    def calls(self) -> Mapping[str, Mapping[str, Call]]:
        """Library to function to what happens."""
        kinds = (
            ("unimplemented", Call.NOT_SUPPORTED),
            ("implemented", Call.IMPLEMENTED),
            ("aborts", Call.ABORTS),
        )
        return {
            library: {function: call for key, call in kinds for function in body[key]}
            for library, body in self._body.items()
            if library != "_meta"
        }

    @property
    def source(self) -> str:
        """Where the table was read from, public."""
        meta = self._body["_meta"]
        return f"vosen/ZLUDA@{meta['commit'][:7]} ({meta['tag']})"

    @property
    def assumed(self) -> frozenset[str]:
        """Libraries whose table is taken from a neighbouring release."""
        confidence = self._body["_meta"].get("confidence", {})
        return frozenset(library for library, word in confidence.items() if word == "assumed")

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
    return ApiTable(path) if path.is_file() else None
