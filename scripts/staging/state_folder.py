"""The lists in this user's state folder: placements, shims, and programs that run.

Everything needed to undo a placement lies in its target. Losing this folder loses the list, nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from scripts.osal.fs import extended_path, read_bounded, remove, write_atomic
from scripts.osal.text import utc_now

PLACEMENTS: Final = "placements"
SHIMS: Final = "shims"
#: A fact about a placement: the target's own record had vanished, and not everything could be put back.
LOST: Final = "lost"
_VERSION: Final = "registry-v1"

#: Bytes of an entry, and of a memory, beyond which it is not ours.
LONGEST: Final = 256 * 1024
LONGEST_MEMORY: Final = 64 * 1024 * 1024
#: The ending of a file that remembers.
MEMORY: Final = ".memory"


class RegistryEntry(Struct, frozen=True, kw_only=True):
    """One listed path, and what was noted about it."""

    path: Path
    added: str = ""
    facts: dict[str, str] = field(default_factory=dict)


def usable(path: Path) -> bool:
    """Whether the system can be asked about a path at all: absolute, and neither too long nor misspelled."""
    if not path.is_absolute():
        return False
    try:
        os.lstat(extended_path(path))
    except FileNotFoundError:
        return True
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    except ValueError:  # NUL, or characters that no file system has
        return False
    return True


class PlacementRegistry(Struct, frozen=True):
    """The index below a user's state folder."""

    root: Path

    def add(self, kind: str, path: Path, **facts: str) -> None:
        """List a path; again is an update. The file appears whole or not at all."""
        entry = self._file(kind, path)
        entry.parent.mkdir(parents=True, exist_ok=True)
        added = utc_now().isoformat()
        body = {"path": os.fspath(path), "added": added, "facts": facts}
        write_atomic(entry, json.dumps(body, indent=1).encode("ascii"), durable=False)

    def remove(self, kind: str, path: Path) -> None:
        """Take a path off the list, with what is remembered of it; absent is fine."""
        entry = self._file(kind, path)
        remove(entry)
        remove(entry.with_suffix(MEMORY))

    def remember(self, kind: str, path: Path, memory: bytes) -> None:
        """Keep what must be known of a path even if everything there vanishes."""
        file = self._file(kind, path).with_suffix(MEMORY)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, memory)

    def memory(self, kind: str, path: Path) -> bytes | None:
        """Return what is remembered of a path, ``None`` if nothing is or it cannot be read."""
        try:
            return read_bounded(self._file(kind, path).with_suffix(MEMORY), LONGEST_MEMORY)
        except (OSError, ValueError):
            return None

    def entry(self, kind: str, path: Path) -> RegistryEntry | None:
        """Return what is listed about one path."""
        return next((entry for entry in self.entries(kind) if entry.path == path), None)

    def entries(self, kind: str) -> tuple[RegistryEntry, ...]:
        """Return what is listed, by path; a damaged entry is skipped, the target knows better."""
        found: list[RegistryEntry] = []
        for file in sorted((self.root / _VERSION / kind).glob("*.json")):
            with contextlib.suppress(
                OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError
            ):
                body = json.loads(read_bounded(file, LONGEST).decode("ascii"))
                facts = {str(key): str(value) for key, value in body["facts"].items()}
                path = Path(body["path"])
                if usable(path):
                    found.append(RegistryEntry(path=path, added=str(body["added"]), facts=facts))
        return tuple(sorted(found, key=lambda entry: entry.path))

    def _file(self, kind: str, path: Path) -> Path:
        """Name an entry's file after its path."""
        key = hashlib.sha256(os.fsencode(os.path.normcase(path))).hexdigest()[:32]
        return self.root / _VERSION / kind / f"{key}.json"
