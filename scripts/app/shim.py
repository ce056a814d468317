"""``shim``: write a double-clickable script that starts a program with a stack, or take it away."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from scripts.app.context import Staged, Workspace, staged_runtime
from scripts.app.preflight import warn_about
from scripts.app.shims import ShimStatus, digest_of, shims_here
from scripts.app.stack_process import gpu_choice, hip_root_of
from scripts.app.wrap.placing import registry_of
from scripts.app.wrap.plan import WrapPlan, WrapRequest, plan_run
from scripts.app.wrap.profile import profile_of
from scripts.errors import ExitCode, UsageError
from scripts.launch.environ import CHECK_ONLY, MISLEADING, plan_environment
from scripts.launch.injection import Via
from scripts.launch.shim import Shim, cmd_text, file_name, misleading, sh_text
from scripts.model import StackKind
from scripts.osal.fs import write_atomic
from scripts.placement.registry import SHIMS
from scripts.serialize import JsonRecord

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
