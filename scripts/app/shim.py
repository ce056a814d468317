"""``shim``: write a double-clickable script that starts a program with a stack, or take it away.

It does what ``wrap`` does last: set the environment, start the program. What ``wrap`` does before and after
(verifying the stack's files, placing and undoing, waiting for the process tree) it leaves out, and says so in
its first line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from scripts.app.context import Staged, Workspace, staged_runtime
from scripts.app.known_facts import profile_of
from scripts.app.preflight import warn_about
from scripts.app.stack_process import gpu_choice, hip_root_of
from scripts.app.wrap_placing import ShimStatus, digest_of, registry_of, shims_here
from scripts.app.wrap_plan import WrapPlan, WrapRequest, plan_run
from scripts.errors import ExitCode, LaunchError, UsageError
from scripts.launch.environ import CHECK_ONLY, DEVICE_CHOICES, MISLEADING, EnvChange, plan_environment
from scripts.launch.injection import Via
from scripts.model import StackKind
from scripts.osal.fs import write_atomic
from scripts.serialize import JsonRecord
from scripts.staging.state_folder import SHIMS

SKIPS: Final = "without verifying the stack's files, without undo, and without waiting for what it starts"
#: What cmd.exe takes as its own outside quotes.
_CMD: Final = "&|<>^()"


class Shim(Struct, frozen=True, kw_only=True):
    """What a script starts.

    Attributes:
        name: the program's, for the first line.
        changes: the environment: ``set`` and ``prepend``, in order.
        yielding: names of those that are only proposed: whoever starts the script may have set them already.
        unset: variables that would mislead the stack, whoever sets them.
        line: Windows: the exact command line.
        words: elsewhere: program and arguments.
    """

    name: str
    stack: str
    changes: tuple[EnvChange, ...] = ()
    yielding: frozenset[str] = frozenset()
    unset: tuple[str, ...] = ()
    line: str = ""
    words: tuple[str, ...] = field(default=())


def cmd_text(shim: Shim) -> str:
    """Return a ``.cmd`` file, with Windows line ends.

    Raises:
        LaunchError: ``shim-not-ascii``: cmd.exe reads the file in a code page that differs between consoles,
            so that only ASCII arrives everywhere; ``shim-line-break``.
    """
    lines = [f"@rem {_plain(shim.name)} with {shim.stack}: starts it {SKIPS}.", "@echo off", "setlocal"]
    lines += [f'set "{name}="' for name in shim.unset]
    unchosen = "".join(f"if not defined {name} " for name in DEVICE_CHOICES)
    for change in _sets(shim.changes):
        yields = f"if not defined {change.name} " if change.name in shim.yielding else ""
        guard = unchosen if change.name in DEVICE_CHOICES else yields
        lines.append(f'{guard}set "{change.name}={_percent(change.value)}"')
    for name, folders in _prepends(shim.changes):
        separator = ";"
        if name != "PATH":  # which is never empty; an empty part would be the current folder
            lines.append(f'if defined {name} set "{name}=;%{name}%"')
            separator = ""
        lines.append(f'set "{name}={";".join(map(_percent, folders))}{separator}%{name}%"')
    lines += [for_cmd(shim.line), "exit /b %ERRORLEVEL%"]
    text = "".join(f"{line}\r\n" for line in lines)
    _refuse_line_breaks([*(c.value for c in shim.changes), shim.line])
    if not text.isascii():
        strange = sorted({char for char in text if not char.isascii()})
        msg = f"a .cmd file cannot carry these letters on every computer: {''.join(strange)}"
        hint = "move the program (or the store, with CUDA_AMD_CACHE) to a folder with plain letters"
        raise LaunchError("shim-not-ascii", msg, context=(shim.line,), hint=hint)
    return text


def sh_text(shim: Shim) -> str:
    """Return a script for a POSIX shell; arguments it is given follow those it was made with."""
    lines = ["#!/bin/sh", f"# {_plain(shim.name)} with {shim.stack}: starts it {SKIPS}."]
    lines += [f"unset {name}" for name in shim.unset]
    for change in _sets(shim.changes):
        line = f"export {change.name}={shlex.quote(change.value)}"
        if change.name in DEVICE_CHOICES:
            chosen = "".join(f"${{{name}-}}" for name in DEVICE_CHOICES)
            line = f'[ -n "{chosen}" ] || {line}'
        elif change.name in shim.yielding:
            line = f'[ -n "${{{change.name}+set}}" ] || {line}'
        lines.append(line)
    for name, folders in _prepends(shim.changes):
        lines.append(f'export {name}={shlex.quote(":".join(folders))}"${{{name}:+:${name}}}"')
    lines.append(f'exec {shlex.join(shim.words)} "$@"')
    return "".join(f"{line}\n" for line in lines)


def for_cmd(line: str) -> str:
    """Write a command line so that cmd.exe hands it on unchanged.

    cmd knows no escaped quote: every ``"`` opens or closes. Outside, its own characters get a caret; a
    percent sign is doubled everywhere.
    """
    written, inside = [], False
    for char in line:
        if char == '"':
            inside = not inside
        written.append(f"^{char}" if char in _CMD and not inside else "%%" if char == "%" else char)
    return "".join(written)


def misleading(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a script can remove: patterns cannot be written without a loop."""
    return tuple(dict.fromkeys(name for name in names if "*" not in name))


def _sets(changes: Sequence[EnvChange]) -> list[EnvChange]:
    return [change for change in changes if change.action == "set"]


def _prepends(changes: Sequence[EnvChange]) -> list[tuple[str, list[str]]]:
    """Gather what goes in front of each search path."""
    found: dict[str, list[str]] = {}
    for change in changes:
        if change.action == "prepend":
            found.setdefault(change.name, []).append(change.value)
    return list(found.items())


def _percent(value: str) -> str:
    return value.replace("%", "%%")


def _plain(name: str) -> str:
    """Make a file name harmless inside a comment."""
    return "".join(char if char.isascii() and (char.isalnum() or char in " ._-+") else "?" for char in name)


def _refuse_line_breaks(values: Iterable[str]) -> None:
    if any(char in value for value in values for char in "\r\n"):
        msg = "a .cmd file cannot carry an argument with a line break"
        raise LaunchError("shim-line-break", msg, hint="let the program read it from a file")


def file_name(program: Path, stack: str, *, windows: bool) -> str:
    """Name a script after its program and stack."""
    return f"{program.stem}-{stack}{'.cmd' if windows else '.sh'}"


FOLDER: Final = "shims"
#: Stands in Steam's launch options for the game's own command line.
GAME: Final = "%command%"


class ShimResult(JsonRecord, frozen=True, kw_only=True):
    """What was written or taken away.

    Attributes:
        program: what the script starts.
        stack: with which stack; empty after ``--remove``.
        via: how the libraries get in.
        written: the script; ``None`` after ``--remove``.
        removed: the scripts that went.
        kept: scripts that were changed since, and left alone.
        notes: what a person should know before the first start.
        steam: the launch option by which Steam starts a game with the layer, where a launcher does.
        steam_script: the same through the script, with the stack's variables.
    """

    program: Path
    stack: str = ""
    via: str = ""
    written: Path | None = None
    removed: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    steam: str = ""
    steam_script: str = ""

    JSON = "program stack? via? written removed kept notes steam? steam_script?"

    @property
    def exit_code(self) -> int:
        """3 where a changed script was left alone."""
        return int(ExitCode.NEGATIVE if self.kept else ExitCode.OK)


def shim(
    ws: Workspace, *, exe: str = "", stack: str = "", args_file: str = "", remove: bool = False
) -> ShimResult:
    """Write a script for ``exe`` below ``stage/shims``, or with ``remove`` take away those that exist.

    The arguments of ``args_file`` are baked in: a ``.cmd`` file cannot pass others on unharmed.

    Raises:
        UsageError: no program was named, or it has no script to remove.
        TargetError: ``anti-cheat``: the program is guarded; foreign libraries get players banned.
        LaunchError: the program cannot be started by a script, or the script cannot carry its path.
        StagedFileError: the stack's files are missing or changed; they are verified now, not at each start.
    """
    if not exe:
        msg = "which program?"
        raise UsageError("exe-needed", msg, hint="name it: invoke shim --exe=PATH")
    if remove:
        return _remove(ws, Path(exe).absolute(), stack)
    ready = staged_runtime(ws, stack)
    request = WrapRequest(exe=exe, stack=stack, args_file=args_file)
    look = partial(warn_about, ws)
    plan = plan_run(ws, request, staged=lambda _ws, _stack: ready, placer=None, inspect=look)
    text = _text(ws, ready, plan)
    program = plan.shown.program
    path = ws.stage / FOLDER / file_name(program, ready.stack.id, windows=ws.platform == "win32")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text)
    if ws.platform != "win32":
        path.chmod(0o755)
    registry_of(ws).add(
        SHIMS,
        path,
        program=str(program),
        stack=ready.stack.id,
        digest=ready.runtime.digest,
        sha256=digest_of(text),
    )
    shown = plan.shown
    return ShimResult(
        program=program,
        stack=ready.stack.id,
        via=str(shown.via),
        written=path,
        notes=shown.notes,
        steam=f'"{plan.command.program}" -- {GAME}' if shown.via is Via.LAUNCHER else "",
        # A .cmd file starts what is written in it and leaves aside what Steam appends.
        steam_script=f'"{path}" {GAME}' if ws.platform == "win32" else "",
    )


def _text(ws: Workspace, ready: Staged, plan: WrapPlan) -> bytes:
    """Write the script for what ``wrap`` would start, in an environment that is not known yet."""
    shown = plan.shown
    profile = profile_of(ws, ready, shown.program, shown.args).changes
    environ = plan_environment(
        {},
        platform=ws.platform,
        stack=ready.stack,
        runtime=ready.runtime,
        hip_root=hip_root_of(ready),
        gpu=gpu_choice(ready.host),
        profile=profile,
    )
    made = Shim(
        name=shown.program.name,
        stack=ready.stack.id,
        changes=environ.changes,
        yielding=frozenset(c.name for c in environ.changes if c in profile and c.action == "set"),
        unset=_unset(ready),
        line=shown.line if shown.via is not Via.BESIDE else "",
        words=(str(shown.program), *plan.command.args),  # which may begin in a start script
    )
    return (cmd_text(made) if ws.platform == "win32" else sh_text(made)).encode("utf-8")


def _unset(ready: Staged) -> tuple[str, ...]:
    """Name what must not reach the program, whoever sets it later."""
    if ready.stack.kind is not StackKind.TRANSLATION:
        return ()
    policy = [p.name for p in ready.stack.env if p.value is None and not p.only and p.name not in CHECK_ONLY]
    return misleading([*policy, *(name for name, _ in MISLEADING)])


def _remove(ws: Workspace, program: Path, stack: str) -> ShimResult:
    """Take away a program's scripts as long as they are still ours."""
    found = [s for s in shims_here(ws) if s.program == program and (not stack or s.stack == stack)]
    if not found:
        known = tuple(f"{s.program}: {s.path}" for s in shims_here(ws))
        msg = f"there is no shim for {program}"
        raise UsageError("no-shim", msg, context=known, hint="see `invoke status` for the list")
    kept = tuple(status.path for status in found if not _take(ws, status))
    removed = tuple(status.path for status in found if status.path not in kept)
    return ShimResult(program=program, removed=removed, kept=kept)


def _take(ws: Workspace, status: ShimStatus) -> bool:
    """Remove one script and its entry; a changed one stays."""
    if status.standing == "changed":
        return False
    status.path.unlink(missing_ok=True)
    registry_of(ws).remove(SHIMS, status.path)
    return True
