"""Decide one run of ``wrap``: program, arguments, way in, environment, command line. Starts nothing."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from scripts.app.context import Staged, Workspace
from scripts.app.known_facts import profile_of
from scripts.app.stack_process import backend_notes, gpu_choice, hip_root_of, refuse_foreign_driver
from scripts.app.wrap_observations import held_folder
from scripts.app.wrap_result import (
    Inspect,
    Inspected,
    Placer,
    StagedRuntime,
    WrapPlacement,
    WrapResult,
)
from scripts.binary.properties import HEAD, machine_of
from scripts.errors import LaunchError, UsageError
from scripts.guards import refuse_guarded
from scripts.launch.argv import direct_line, parse_args_file, refuse_nul, refuse_unstartable
from scripts.launch.environ import EnvChange, EnvPlan, plan_environment
from scripts.launch.injection import (
    BITS,
    CAVEATS,
    THIRTY_TWO,
    Via,
    ViaChoice,
    ViaFacts,
    ascii_folder,
    choose_via,
    launcher_in,
    no_launcher,
    plan_launcher,
    refuse_store_app,
)
from scripts.launch.profiles import TORCH_REPORT
from scripts.launch.program import (
    find_program,
    interpreter_line,
    parse_settings,
    parse_timeout,
    refuse_script,
    unstartable_script,
)
from scripts.model import StackKind
from scripts.osal.fs import long_path, read_bounded
from scripts.osal.paths import current_folder, user_path
from scripts.osal.processes import Command

if TYPE_CHECKING:
    from scripts.app.wrap_tracing import Tracing
    from scripts.osal.output_log import LogTo
    from scripts.preflight.loading import Places

AUTO: Final = "auto"


class WrapRequest(Struct, frozen=True, kw_only=True):
    """What was asked for, still as words."""

    exe: str
    stack: str = ""
    via: str = AUTO
    keep: bool = False
    timeout: str = ""
    settings: tuple[str, ...] = ()
    cwd: str = ""
    log: str = ""
    strict: bool = False
    no_profile: bool = False
    without: tuple[str, ...] = ()
    policy: str = ""
    expect_gpu: bool = False
    args_file: str = ""
    trace: bool = False
    program_args: tuple[str, ...] = ()


class WrapPlan(Struct, frozen=True, kw_only=True):
    """One run, decided: what is shown, what is started, and how it is watched."""

    shown: WrapResult
    ready: Staged
    command: Command
    timeout: float | None = None
    log: LogTo | None = None
    placement: Callable[[], AbstractContextManager[WrapPlacement]] | None = None
    places: Places | None = None
    trace: Tracing | None = None
    held: Path | None = None
    copied: bool = False


class _Read(Struct, frozen=True, kw_only=True):
    """The words, read."""

    program: Path
    args: tuple[str, ...]
    timeout: float | None
    settings: dict[str, str]
    way: Via | None
    cwd: Path
    log: LogTo | None


def plan_run(
    ws: Workspace,
    request: WrapRequest,
    *,
    staged: StagedRuntime,
    placer: Placer | None,
    inspect: Inspect | None,
) -> WrapPlan:
    """Decide everything; what is quickly found wrong is refused before the stack is verified.

    Raises:
        WorkspaceError: it cannot be run as asked; nothing was changed.
    """
    read = _read(ws, request)
    if request.policy not in {"", AUTO}:
        msg = f"unknown --policy value {request.policy!r}"
        raise UsageError("bad-policy", msg, hint=f"use --policy={AUTO}, or leave it out")
    ready = staged(ws, request.stack)
    if not is_control(ready):
        refuse_guarded(read.program, read.args, cwd=read.cwd)
    seen = _seen(ws, read, ready, inspect, strict=request.strict)
    trace = _tracing(ws, ready, read) if request.trace else None
    choice = choose_via(seen.facts) if read.way is None else ViaChoice(via=read.way, reason="you chose it")
    choice = trace.choice if trace else choice
    refuse_foreign_driver(ws, ready, choice.via)
    known = profile_of(
        ws,
        ready,
        read.program,
        read.args,
        kinds=seen.kinds,
        without=request.without,
        cwd=read.cwd,
        own=not request.no_profile,
        measured=bool(request.policy),
    )
    held = held_folder(ws) if known.policies else None
    environ = plan_environment(
        ws.environ,
        platform=ws.platform,
        stack=ready.stack,
        runtime=ready.runtime,
        hip_root=hip_root_of(ready),
        gpu=gpu_choice(ready.host),
        profile=(*known.changes, *_reporting(held), *(trace.changes if trace else ())),
        user_set=read.settings,
    )
    begun = read if known.args is None else replace(read, args=known.args)
    command, line = _command(ws, ready, choice.via, begun, environ, trace=trace is not None)
    copy = ws.stage / "held" / f"output-{os.getpid()}.log"  # of the program's output
    log = read.log or (_log_to(copy) if request.expect_gpu else None)
    shown = WrapResult(
        platform=ws.platform,
        program=read.program,
        args=read.args,
        line=line,
        stack=ready.stack.id,
        runtime=ready.runtime.digest,
        via=choice.via,
        reason=choice.reason,
        environ=environ,
        cwd=read.cwd,
        notes=(
            *seen.notes,
            *((seen.refusal,) if seen.refusal else ()),
            *known.notes,
            *backend_notes(ws, ready, read.program, environ.environ, beside=_beside(choice, read, seen)),
            *(CAVEATS if choice.via is Via.LAUNCHER else ()),
            *((trace.note,) if trace else ()),
        ),
        expect_gpu=request.expect_gpu,
    )
    return WrapPlan(
        shown=shown,
        ready=ready,
        command=command,
        timeout=read.timeout,
        log=log,
        copied=log is not None and read.log is None,
        held=held,
        placement=_placement(choice, placer, ready, read.program, keep=request.keep, places=seen.places),
        places=seen.places,
        trace=trace,
    )


def _reporting(folder: Path | None) -> tuple[EnvChange, ...]:
    """Tell processes where to report what was in force."""
    if folder is None:
        return ()
    why = "each process reports there which of PyTorch's settings were in force; wrap reads it"
    return (EnvChange(name=TORCH_REPORT, action="set", value=str(folder), why=why),)


def _log_to(path: Path) -> LogTo:
    """Say where a copy of the program's output goes."""
    from scripts.osal.output_log import LogTo  # noqa: PLC0415 - most runs write none

    return LogTo(path=path)


def _tracing(ws: Workspace, ready: Staged, read: _Read) -> Tracing:
    """Plan a trace for the kind of program it is."""
    from scripts.app.wrap_tracing import plan_tracing  # noqa: PLC0415 - most runs are not traced

    bits = BITS.get(_machine(read.program), 64)
    return plan_tracing(ws, ready, read.program, way=read.way, settings=read.settings, bits=bits)


def _beside(choice: ViaChoice, read: _Read, seen: Inspected) -> tuple[Path, ...]:
    """Name the folders that files of the stack will lie in."""
    if choice.via is not Via.BESIDE:
        return ()
    found = seen.places.found if seen.places is not None else ()
    return tuple(dict.fromkeys((read.program.parent, *(place.folder for place in found))))


def _read(ws: Workspace, request: WrapRequest) -> _Read:
    """Read the words and look for the program."""
    here = current_folder()
    program = named_program(ws, request.exe)
    if unstartable_script(program, platform=ws.platform):
        args, options = _arguments(here, request), _options_again(request)
        line = interpreter_line(program, args, options, platform=ws.platform)
        refuse_script(program, line, platform=ws.platform)
    if ws.platform == "win32":
        refuse_unstartable(program)
        refuse_store_app(PureWindowsPath(program), size=program.stat().st_size)
    return _Read(
        program=program,
        args=_arguments(here, request),
        timeout=parse_timeout(request.timeout),
        settings=parse_settings(request.settings),
        way=_wanted_way(request),
        cwd=_folder(request.cwd) if request.cwd else here,
        log=_log_to(user_path(request.log, "--log")) if request.log else None,
    )


def _folder(text: str) -> Path:
    folder = user_path(text, "--cwd")
    if not long_path(folder).is_dir():
        msg = f"the folder to start in does not exist: {folder}"
        raise UsageError("folder-not-found", msg, hint="check --cwd")
    return folder


def _options_again(request: WrapRequest) -> tuple[str, ...]:
    """Return the options that a line proposed instead has to keep."""
    named = {"stack": request.stack, "via": "" if request.via == AUTO else request.via, "cwd": request.cwd}
    given = tuple(f"--{name}={value}" for name, value in named.items() if value)
    return (*given, *(f"--set={setting}" for setting in request.settings))


#: Bytes of a file with arguments: more than any system hands to a program.
MOST_ARGS: Final = 16 * 1024 * 1024


def _arguments(here: Path, request: WrapRequest) -> tuple[str, ...]:
    """Take the program's arguments from behind the dashes, or from a file."""
    args = request.program_args
    if request.args_file:
        if args:
            msg = "arguments were given both after -- and by --args-file"
            raise UsageError("arguments-twice", msg, hint="use one of the two")
        try:
            path = user_path(request.args_file, "--args-file", cwd=here)
            text = read_bounded(path, MOST_ARGS, named=True).decode()
        except (OSError, UnicodeDecodeError) as error:
            msg = f"the arguments file cannot be read: {request.args_file}"
            hint = "write a JSON list of strings in UTF-8"
            raise UsageError("args-file-unreadable", msg, context=(str(error),), hint=hint) from error
        args = parse_args_file(text, name=request.args_file)
    refuse_nul(args)
    return args


def _wanted_way(request: WrapRequest) -> Via | None:
    """Read --via; --keep means beside, since nothing else leaves anything to keep."""
    if request.via not in {AUTO, *Via}:
        msg = f"unknown --via value {request.via!r}"
        raise UsageError("bad-via", msg, hint=f"use one of: {', '.join((AUTO, *Via))}")
    if request.keep and request.via not in {AUTO, Via.BESIDE}:
        msg = f"--keep has nothing to keep with --via={request.via}"
        raise UsageError("keep-without-beside", msg, hint="leave one of the two out")
    if request.keep:
        return Via.BESIDE
    return None if request.via == AUTO else Via(request.via)


def _seen(ws: Workspace, read: _Read, ready: Staged, inspect: Inspect | None, *, strict: bool) -> Inspected:
    """Gather what decides how the libraries get in: by a look into the program, where one is offered."""
    machine = _machine(read.program)
    bits = BITS.get(machine)
    launcher = (
        ws.platform == "win32" and bits is not None and launcher_in(ready.runtime, bits=bits) is not None
    )
    if (machine, ws.platform, launcher) == (THIRTY_TWO, "win32", False) and not is_control(ready):
        raise no_launcher(ready.runtime, PureWindowsPath(read.program), machine)
    facts = ViaFacts(platform=ws.platform, kind=ready.stack.kind, launcher=launcher)
    if inspect is None:
        if strict:
            msg = "--strict needs a look into the program's files, which is not offered here"
            raise UsageError("strict-unavailable", msg, hint="leave --strict out")
        return Inspected(facts=facts)
    seen = inspect(ready, read.program, facts)
    if seen.refusal and strict:
        raise LaunchError("preflight-refused", seen.refusal, hint="see `invoke preflight` for the reasons")
    return seen


def is_control(ready: Staged) -> bool:
    """Whether the stack puts no libraries into programs."""
    return ready.stack.kind is StackKind.CONTROL


def _command(
    ws: Workspace, ready: Staged, via: Via, read: _Read, environ: EnvPlan, *, trace: bool
) -> tuple[Command, str]:
    """Return what is started, and the command line as a person is shown it."""
    env = environ.environ
    if ws.platform != "win32":
        if via is Via.LAUNCHER:
            msg = "the launcher exists on Windows only"
            raise UsageError("via-unavailable", msg, hint="use --via=env or --via=auto")
        command = Command(program=read.program, args=read.args, env=env, cwd=read.cwd)
        return command, shlex.join([str(read.program), *read.args])
    program = PureWindowsPath(read.program)
    if via is not Via.LAUNCHER:
        line = direct_line(program, read.args)
        return Command(program=read.program, args=read.args, env=env, cwd=read.cwd, line=line), line
    home = ready.runtime.path
    if home is None:
        msg = f"{ready.stack.id} has no files, and so no launcher"
        raise LaunchError("no-launcher", msg, hint="use --via=auto")
    plan = plan_launcher(
        ready.runtime,
        folder=layer_folder(ws, home),
        program=program,
        machine=_machine(read.program),
        args=read.args,
        present=lambda name: (home / name).is_file(),
        trace=trace,
    )
    command = Command(program=Path(plan.launcher), args=read.args, env=env, cwd=read.cwd, line=plan.line)
    return command, plan.line


def _machine(program: Path) -> str:
    """Say what a program is made for; what cannot be read will say so when it is started."""
    try:
        with program.open("rb") as file:
            return machine_of(file.read(HEAD))
    except OSError:
        return ""


def _placement(
    choice: ViaChoice,
    placer: Placer | None,
    ready: Staged,
    program: Path,
    *,
    keep: bool,
    places: Places | None,
) -> Callable[[], AbstractContextManager[WrapPlacement]] | None:
    """Return what places the files and takes them away, where that is the chosen way."""
    if choice.via is not Via.BESIDE:
        return None
    if placer is None:
        msg = "placing libraries beside the program is not offered here"
        raise UsageError(
            "via-beside-unavailable", msg, context=(choice.reason,), hint="use --via=auto or --via=env"
        )
    return lambda: placer(ready, program, keep=keep, places=places)


if sys.platform == "win32":
    from scripts.osal.ascii_alias_windows import private_junction, short_name

    def layer_folder(ws: Workspace, folder: Path) -> PureWindowsPath:
        """Return an ASCII path of ``folder``: itself, its 8.3 name, or a junction only this user can change.

        Raises:
            LaunchError: ``layer-folder-not-ascii``, ``junction-unsafe``.
        """
        shared = Path(ws.environ.get("PROGRAMDATA") or r"C:\ProgramData")
        return ascii_folder(
            folder, short_name=short_name, junction=lambda target: private_junction(target, shared)
        )

else:

    def short_name(path: Path) -> str | None:
        """Say that there are no 8.3 names here."""
        del path
        return None

    def layer_folder(ws: Workspace, folder: Path) -> PureWindowsPath:
        """Return the folder unchanged: there is no launcher here."""
        del ws
        return PureWindowsPath(folder)


def named_program(ws: Workspace, exe: str) -> Path:
    """Find a program as a shell in the current folder would; its path is absolute.

    Raises:
        UsageError: nothing was named.
        LaunchError: no such program is there.
    """
    search = partial(shutil.which, path=ws.environ.get("PATH", ""))
    return find_program(exe, cwd=current_folder(), search=search, platform=ws.platform, short_name=short_name)
