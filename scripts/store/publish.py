"""How a folder of the store comes to be: filled beside its place, renamed, complete with its manifest.

A folder without a manifest does not exist for us, so a run that is killed at any point leaves nothing that is
taken for whole.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from scripts.osal import fs
from scripts.store.cache import in_use, manifest_path

T = TypeVar("T")


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
