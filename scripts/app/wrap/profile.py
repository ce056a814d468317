"""Recognise a program before it starts, and say what is set for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.app.context import Staged, Workspace
from scripts.launch.environ import EnvChange
from scripts.model import StackKind
from scripts.preflight.packages import environments, installed, is_python

#: Holds the file by which PyTorch gets its settings.
TORCH_FOLDER: Final = ("scripts", "inside", "torch_safe")
MAX_NAMES: Final = 5000


class Profiled(Struct, frozen=True, kw_only=True):
    """What known programs get: changes of the environment, and the sentences that announce them."""

    changes: tuple[EnvChange, ...] = ()
    notes: tuple[str, ...] = ()


def profile_of(
    ws: Workspace, staged: Staged, program: Path, args: Sequence[str], *, kinds: Sequence[str] = ()
) -> Profiled:
    """Return what is known to be safe for a program under a translation layer.

    The reference stack gets only what names it, the control nothing.
    """
    if staged.stack.kind is StackKind.CONTROL:
        return Profiled()
    from scripts.launch.profiles import (  # noqa: PLC0415 - the control has no profiles
        AppFacts,
        changes,
        kept_out,
        matching,
    )

    gpu = staged.host.selected_gpu
    python = is_python(program)
    packages = installed(environments(program)) if python else ()
    facts = AppFacts(
        name=program.name,
        files=tuple(_beside(program, args, python=python)),
        packages={package.name: package.version for package in packages},
        kinds=tuple(kinds),
        gfx=(gpu.gfx or "") if gpu is not None else "",
        stack=staged.stack.id,
        named_only=staged.stack.kind is StackKind.REFERENCE,
        args=tuple(args),
    )
    applied = matching(facts)
    return Profiled(
        changes=changes(applied, ws.root.joinpath(*TORCH_FOLDER)),
        notes=(*(text for profile in applied for text in profile.sentences), *kept_out(applied, args)),
    )


def _beside(program: Path, args: Sequence[str], *, python: bool) -> Iterator[str]:
    """Yield names beside the program, or beside the script that an interpreter is given."""
    folders = [] if python else [program.parent]
    folders += [Path(arg).parent for arg in args[:1] if python and arg.endswith(".py")]
    for folder in folders:
        try:
            for number, path in enumerate(folder.iterdir()):
                if number >= MAX_NAMES:
                    break
                yield path.name
        except OSError:
            continue
