"""The page in ``.cuda-amd`` for a person who has only a file manager."""

from __future__ import annotations

from scripts.placement.journal import Journal
from scripts.placement.plan import Deed

_HEAD = """\
WHAT THIS FOLDER IS

A tool called "CUDA on AMD" has put libraries beside this program so that it can run on an
AMD GPU. This folder remembers what was here before. Do not delete it while the libraries are in use:
it holds your original files.

The easy way back, from a checkout of the tool:

    python -m scripts unwrap --target="{target}"

THE WAY BACK BY HAND

Close the program first. All paths start at the folder that holds ".cuda-amd".

"""

_TAIL = """\
Look before you delete or move: if a file is not what this page says (compare the SHA-256, for example
with "certutil -hashfile FILE SHA256" or "sha256sum FILE"), it was changed later and may be yours.
When everything is back and the folder "originals" is empty, delete the folder ".cuda-amd".

Placed: {created} (UTC)   Stack: {stack}
"""


def readme(journal: Journal, target: str) -> bytes:
    """Return README.txt for a plan."""
    created = [action for action in journal.actions if action.deed is Deed.CREATE]
    replaced = [action for action in journal.actions if action.deed is Deed.REPLACE]
    parts = [_HEAD.format(target=target)]
    if replaced:
        parts.append("These files of yours were moved away. For each pair: delete the first, then move the\n")
        parts.append("second to the place and name of the first.\n\n")
        for action in replaced:
            parts.append(f"    {action.path}\n    .cuda-amd/originals/{action.number:04d}\n")
            parts.append(f"        first, the tool's: SHA-256 {action.sha256}\n")
            if action.before:
                parts.append(
                    f"        second, yours: {action.before.size} bytes, SHA-256 {action.before.sha256}\n"
                )
        parts.append("\n")
    if created:
        parts.append("These files were not there before. Delete each one:\n\n")
        parts += [f"    {action.path}\n        SHA-256 {action.sha256}\n" for action in created]
        parts.append("\n")
    parts.append(_TAIL.format(created=journal.created, stack=journal.stack))
    return "".join(parts).encode("utf-8", errors="backslashreplace")
