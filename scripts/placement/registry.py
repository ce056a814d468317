"""An index of what this user has placed and which shims were made: one small file each, only an index.

Everything needed to undo lies in the target itself. Losing this folder loses the list, nothing else.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
from pathlib import Path
from typing import Final

from msgspec import Struct, field

PLACEMENTS: Final = "placements"
SHIMS: Final = "shims"
_VERSION: Final = "registry-v1"


class RegistryEntry(Struct, frozen=True, kw_only=True):
    """One listed path, and what was said about it."""

    path: Path
    added: str = ""
    facts: dict[str, str] = field(default_factory=dict)


class PlacementRegistry(Struct, frozen=True):
    """The index below a user's state folder."""

    root: Path

    def add(self, kind: str, path: Path, **facts: str) -> None:
        """List a path; again is an update. The file appears whole or not at all."""
        entry = self._file(kind, path)
        entry.parent.mkdir(parents=True, exist_ok=True)
        added = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        body = {"path": os.fspath(path), "added": added, "facts": facts}
        scratch = entry.with_name(f"{entry.name}.{os.getpid()}.tmp")
        scratch.write_text(json.dumps(body, indent=1), encoding="ascii")
        scratch.replace(entry)

    def remove(self, kind: str, path: Path) -> None:
        """Take a path off the list; absent is fine."""
        self._file(kind, path).unlink(missing_ok=True)

    def entries(self, kind: str) -> tuple[RegistryEntry, ...]:
        """Return what is listed, by path; a damaged entry is skipped, the target knows better."""
        found: list[RegistryEntry] = []
        for file in sorted((self.root / _VERSION / kind).glob("*.json")):
            with contextlib.suppress(
                OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError
            ):
                body = json.loads(file.read_text(encoding="ascii"))
                facts = {str(key): str(value) for key, value in body["facts"].items()}
                found.append(RegistryEntry(path=Path(body["path"]), added=str(body["added"]), facts=facts))
        return tuple(sorted(found, key=lambda entry: entry.path))

    def _file(self, kind: str, path: Path) -> Path:
        """Name an entry's file after its path."""
        key = hashlib.sha256(os.fsencode(os.path.normcase(path))).hexdigest()[:32]
        return self.root / _VERSION / kind / f"{key}.json"
