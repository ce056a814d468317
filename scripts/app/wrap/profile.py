"""Recognise a program before it starts, and say what is set for it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from scripts.app.context import Staged, Workspace
from scripts.errors import LaunchError
from scripts.launch.argv import PythonLine, keeps_out, read_python_line, through
from scripts.launch.environ import EnvChange
from scripts.model import StackKind
from scripts.osal.fs import read_bounded
from scripts.preflight.packaging import environments, installed, is_python

if TYPE_CHECKING:
    from scripts.launch.profiles import AppFacts

#: Holds the files by which PyTorch gets its settings.
TORCH_FOLDER: Final = ("scripts", "inside", "torch_safe")
START: Final = "cuda_amd_start.py"
MAX_NAMES: Final = 5000
#: Bytes of a script that is looked through for its imports.
MAX_SCRIPT: Final = 1 << 20
CONTROL_NOTE: Final = "--policy=auto sets nothing with the control, which translates nothing"


class Profiled(Struct, frozen=True, kw_only=True):
    """What known programs get.

    Attributes:
        changes: changes of the environment.
        notes: the sentences that announce everything.
        args: the arguments to start with; ``None``: as they are.
        policies: what is held in PyTorch.
    """

    changes: tuple[EnvChange, ...] = ()
    notes: tuple[str, ...] = ()
    args: tuple[str, ...] | None = None
    policies: tuple[str, ...] = ()


def profile_of(
    ws: Workspace,
    staged: Staged,
    program: Path,
    args: Sequence[str],
    *,
    kinds: Sequence[str] = (),
    without: Collection[str] = (),
    cwd: Path | None = None,
    own: bool = True,
    measured: bool = False,
) -> Profiled:
    """Return what is known to be safe for a program under a translation layer.

    The reference stack gets only what names it, the control nothing. ``own`` are the settings of the table
    of programs, ``measured`` those that documents of failed probes ask for.

    Raises:
        UsageError: ``unknown-setting``: ``without`` names one that no profile has.
        LaunchError: ``static-runtime``: its script imports what cannot run on this stack.
    """
    if not own and not measured:
        return Profiled()
    if staged.stack.kind is StackKind.CONTROL:
        return Profiled(notes=(CONTROL_NOTE,) if measured else ())
    from scripts.app.stack_facts import stack_facts  # noqa: PLC0415 - the control has no profiles
    from scripts.launch.profiles import (  # noqa: PLC0415 - as above
        changes,
        matching,
        policies_of,
        refused_imports,
    )

    gpu = staged.host.selected_gpu
    line = read_python_line(args) if is_python(program) else None
    facts = replace(
        program_facts(program, args, cwd=cwd),
        kinds=tuple(kinds),
        gfx=(gpu.gfx or "") if gpu is not None else "",
        stack=staged.stack.id,
        named_only=staged.stack.kind is StackKind.REFERENCE,
        backends=stack_facts(staged.lock, staged.stack, staged.host, staged.runtime).backends,
    )
    if own and line is not None:
        _refuse_imports(line, refused_imports(facts), cwd or Path.cwd())
    applied = matching(facts, without=without) if own else ()
    if measured:
        from scripts.app.probe_findings import measured_profile  # noqa: PLC0415 - only where it was asked for

        taken = {*policies_of(applied), *without}
        asked = measured_profile(ws, staged, taken=taken, torch="torch" in facts.packages)
        applied = (*applied, asked)
    policies = policies_of(applied)
    folder = ws.root.joinpath(*TORCH_FOLDER)
    begun, how = _begun(program, line, folder) if policies and line is not None else (None, ())
    return Profiled(
        changes=changes(applied, folder),
        notes=(*(text for profile in applied for text in profile.sentences), *how),
        args=begun,
        policies=policies,
    )


def _refuse_imports(line: PythonLine, refused: dict[str, str], cwd: Path) -> None:
    """Refuse a script, or the code of ``-c``, that imports what cannot run on the stack."""
    if not refused:
        return
    text = line.target[1] if line.target[:1] == ("-c",) else ""
    if line.script:
        with suppress(OSError):
            text = read_bounded(cwd / line.script, MAX_SCRIPT).decode(errors="replace")
    names = "|".join(map(re.escape, refused))
    found = re.search(rf"(?:^|;)[ \t]*(?:import|from)[ \t]+({names})\b", text, re.MULTILINE)
    if found:
        msg = f"{line.script or 'the code of -c'} imports {found[1]}: {refused[found[1]]}"
        hint = "use a translation stack, or --no-profile for a build with the shared runtime"
        raise LaunchError("static-runtime", msg, hint=hint)


def program_facts(program: Path, args: Sequence[str] = (), *, cwd: Path | None = None) -> AppFacts:
    """Return what is known of a program by itself, without a stack or a GPU."""
    from scripts.launch.profiles import AppFacts  # noqa: PLC0415 - as above

    line = read_python_line(args) if is_python(program) else None
    packages = installed(environments(program)) if line is not None else ()
    return AppFacts(
        name=program.name,
        files=tuple(_beside(program, line, cwd=cwd)),
        packages={package.name: package.version for package in packages},
        args=tuple(args),
    )


def _begun(program: Path, line: PythonLine, folder: Path) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the arguments by which our settings get in where PYTHONPATH does not, and say so."""
    why = keeps_out(line, _names(program.resolve().parent))
    if not why:
        return None, ()
    if not line.target:
        return None, (f"{why} keeps the settings for PyTorch out of what Python reads from its input",)
    note = f"{why} keeps PYTHONPATH out: the program begins in {START}, which runs it with the settings"
    reach = "Pythons that it starts itself without multiprocessing are not reached"
    return through(line, str(folder / START)), (note, reach)


def _beside(program: Path, line: PythonLine | None, *, cwd: Path | None) -> Iterator[str]:
    """Yield names beside the program, or beside what an interpreter runs."""
    if line is None:
        yield from _names(program.parent)
    elif line.script:
        script = (cwd or Path.cwd()) / line.script
        yield from _names(script if _is_folder(script) else script.parent)
        yield from _own_names(script)
    elif line.module and re.fullmatch(r"[\w.]+", line.module):
        yield line.module.partition(".")[0]
        yield from _names(cwd or Path.cwd())


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that no file can have
        return False


def _own_names(script: Path) -> Iterator[str]:
    """Yield the script's name, and what a profile may ask for one folder below it."""
    yield script.name
    yield from (f"modules/{inner}" for inner in _names(script.parent / "modules"))


def _names(folder: Path) -> Iterator[str]:
    """Yield the names in a folder; none where it cannot be listed."""
    with suppress(OSError):
        for number, path in enumerate(folder.iterdir()):
            if number >= MAX_NAMES:
                return
            yield path.name
