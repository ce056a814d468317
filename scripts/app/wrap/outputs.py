"""The files that a person names for what ``wrap`` writes, checked before anything is written or started."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from scripts.app.context import Workspace
from scripts.app.wrap.plan import named_program
from scripts.errors import UsageError, WorkspaceError
from scripts.osal.output_file import check_output
from scripts.osal.user_path import user_path


def output_paths(ws: Workspace, exe: str, args: Sequence[str], **outputs: str) -> dict[str, Path]:
    """Return the path of each named output, by the option's name.

    Raises:
        UsageError: ``bad-output`` or ``bad-path``: it is the program, a file of ours, or cannot be written.
    """
    found = {name: user_path(text, f"--{name}") for name, text in outputs.items() if text}
    taken = dict(_taken(ws, exe, args)) if found else {}
    trees = {"the store": ws.cache_root, "the state folder": ws.state_root}
    for name, path in found.items():
        check_output(path, f"--{name}", taken=taken, trees=trees)
    for (one, path), (other, second) in itertools.combinations(found.items(), 2):
        if path.resolve() == second.resolve() and path.is_file():
            msg = f"--{one} and --{other} name the same file"
            raise UsageError("bad-output", msg, context=(str(path),), hint="name two files")
    return found


def _taken(ws: Workspace, exe: str, args: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield what a run reads or starts, and must not become its output."""
    with suppress(WorkspaceError):  # a program that is not there is reported in its own place
        yield "the program itself", named_program(ws, exe)
    yield "the lock", ws.lock_path
    yield "this workspace's history", ws.stage / "generations.json"
    for word in args:
        with suppress(OSError, ValueError):
            if word and Path(word).is_file():
                yield f"the program's own argument {word}", Path(word).absolute()
