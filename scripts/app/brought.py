"""Files that a person brings for a part that nobody publishes: verified, and asked for only once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from scripts.app.staged import cache_of
from scripts.app.workspace import Workspace
from scripts.errors import IntegrityError, UsageError
from scripts.model import Artifact, Stack
from scripts.staging.assemble import load_runtime
from scripts.staging.generations import read_history
from scripts.store.archive import Tree, supplied_files


def brought_files(ws: Workspace, artifact: Artifact, stack: Stack, supplied: str) -> Tree:
    """Return the files of a supplied part: from the folder that was named, else from an earlier set-up.

    Raises:
        IntegrityError: files in the folder are missing or differ; each is named, and each surplus one.
        UsageError: no folder was named, and no earlier set-up has the files.
    """
    if supplied:
        tree = supplied_files(artifact, Path(supplied), progress=ws.progress)
        for name in tree.surplus:
            ws.progress.note(f"{name} is not part of {artifact.id} and was left out")
        return tree
    for folder in _earlier(ws, artifact, stack):
        with suppress(IntegrityError):  # damaged since; `verify` says how
            return supplied_files(artifact, folder, progress=ws.progress)
    msg = f"{artifact.id} is not published anywhere: its files have to be supplied"
    names = tuple(member.name for member in artifact.members)
    raise UsageError("supply-files", msg, context=names, hint="name their folder: --supplied=FOLDER")


def _earlier(ws: Workspace, artifact: Artifact, stack: Stack) -> list[Path]:
    """Return folders of earlier set-ups that hold a part's files under their own names, newest first."""
    if artifact.root or any(member.name != member.path for member in artifact.members):
        return []
    digests = [g.digest for g in reversed(read_history(ws.stage).generations) if g.stack == stack.id]
    runtimes = [load_runtime(cache_of(ws), digest, stack=stack.id) for digest in dict.fromkeys(digests)]
    return [runtime.path for runtime in runtimes if runtime is not None and runtime.path is not None]
