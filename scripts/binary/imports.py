"""How Windows and Linux search for libraries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

#: Names that Windows answers for by itself, whatever files there are.
_API_SETS: Final = ("api-ms-", "ext-ms-")


def is_api_set(name: str) -> bool:
    """Whether a name is one that Windows answers for without a file."""
    return name.lower().startswith(_API_SETS)


def search_path(asker: Path, entries: Sequence[str]) -> Iterator[Path]:
    """Expand ``$ORIGIN`` in RPATH or RUNPATH; what depends on the current folder is left out."""
    for entry in entries:
        text = entry.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(asker.parent))
        if "$" not in text and Path(text).is_absolute():
            yield Path(text)
