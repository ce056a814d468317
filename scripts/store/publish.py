"""How a folder of the store comes to be: filled beside its place, renamed, complete with its manifest.

A folder without a manifest does not exist for us, so a run that is killed at any point leaves nothing that is
taken for whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from scripts.osal import fs
from scripts.store.cache import in_use, manifest_path

T = TypeVar("T")

#: Larger manifests are not ours: 100,000 files with long names need less.
_MOST_MANIFEST: Final = 32 * 1024 * 1024


def publish(final: Path, fill: Callable[[Path], T]) -> T:
    """Make the folder ``final`` of what ``fill`` writes into an empty one beside it, and verifies there.

    The caller holds the entry's lock, and writes the manifest when this has returned. The rename is durable
    then; the files' bytes need not be, because their hashes are in the manifest.

    Raises:
        ConflictError: ``store-in-use``: a program holds what a killed or damaged run left there.
    """
    clear_away(final)
    work = fs.temporary_beside(final)
    work.mkdir(parents=True)
    try:
        made = fill(work)
        fs.replace(work, final)
    except BaseException:
        fs.remove_tree(work)
        raise
    fs.sync_folder(final.parent)
    return made


def write_manifest(folder: Path, body: object) -> None:
    """Declare a folder complete."""
    data = json.dumps(body, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    fs.write_atomic(manifest_path(folder), data + b"\n")


def read_manifest(folder: Path) -> Any:  # noqa: ANN401 - parsed JSON, checked by the caller
    """Return what a manifest holds.

    Raises:
        ValueError, OSError: there is none, it is too large, or it is not JSON.
    """
    try:
        return json.loads(fs.read_bounded(manifest_path(folder), _MOST_MANIFEST))
    except RecursionError as error:
        raise ValueError(str(error)) from error


def clear_away(final: Path) -> None:
    """Remove a folder and what killed runs left of it; its manifest first.

    Raises:
        ConflictError: ``store-in-use``: a program holds one of its files.
    """
    try:
        fs.remove(manifest_path(final))
        for path in (final, *final.parent.glob(f".{final.name}.*.tmp"), final.with_name(f"{final.name}.new")):
            fs.remove_tree(path)
    except PermissionError as error:
        raise in_use(final, error) from error
