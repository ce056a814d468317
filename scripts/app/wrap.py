"""``wrap``: run a program with a stack's CUDA libraries, and leave everything else as it was."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from scripts.app.context import Workspace, staged_runtime
from scripts.app.stack_process import noted_run
from scripts.app.wrap_observations import (
    gpu_use,
    is_cuda,
    loaded_libraries,
    make_held_folder,
    read_held,
    wanted_in,
)
from scripts.app.wrap_plan import WrapPlan, WrapRequest, named_program, plan_run
from scripts.app.wrap_result import (
    ExplainPlacement,
    Inspect,
    Placer,
    StagedRuntime,
    WrapPlacement,
    WrapResult,
    not_started_code,
    write_report,
)
from scripts.errors import LaunchError, UsageError, WorkspaceError
from scripts.launch.injection import PREFIX, Via
from scripts.launch.profiles import TORCH_POLICY
from scripts.launch.program import refuse_foreign
from scripts.model import StackKind
from scripts.osal.fs import long_path
from scripts.osal.paths import user_path
from scripts.osal.process import is_loaders, run_inherited
from scripts.osal.processes import MappedFiles, ProcessResult
from scripts.osal.signals import ForwardedSignals, obey

if TYPE_CHECKING:
    from scripts.evidence.tracelog import TraceSummary
    from scripts.preflight.loading import MissingCudaLibrary

__all__ = ["WrapResult", "leave", "not_started_code", "wrap"]

#: How a launcher's own failure looks: this code, from a job in which it stayed alone.
LAUNCHER_FAILED: Final = 1


def wrap(
    ws: Workspace,
    *,
    exe: str = "",
    stack: str = "",
    via: str = "auto",
    keep: bool = False,
    timeout: str = "",
    set_: Sequence[str] | None = None,
    cwd: str = "",
    log: str = "",
    report: str = "",
    explain: bool = False,
    strict: bool = False,
    no_profile: bool = False,
    without: str = "",
    policy: str = "",
    expect_gpu: bool = False,
    args_file: str = "",
    trace: bool = False,
    program_args: Sequence[str] = (),
    staged: StagedRuntime = staged_runtime,
    placer: Placer | None = None,
    explain_placement: ExplainPlacement | None = None,
    inspect: Inspect | None = None,
    redact: Callable[[object], object] | None = None,
) -> WrapResult:
    """Run ``exe`` under a stack and wait for its whole process tree.

    ``program_args`` are the program's own, untouched. ``placer``, ``inspect`` and ``redact`` are what
    other rooms offer; without a placer ``--via=beside`` is refused, without ``inspect`` so is ``--strict``.

    Raises:
        WorkspaceError: nothing was started; ``not_started_code`` gives the exit code, and ``--report``
            has been written unless the error is that it cannot be.
    """
    target = _with_folders(output_paths(ws, exe, program_args, report=report)).get("report")
    if target is not None:
        _begin_report(target)
    request = WrapRequest(
        exe=exe,
        stack=stack,
        via=via,
        keep=keep,
        timeout=timeout,
        settings=tuple(set_ or ()),
        cwd=cwd,
        log=log,
        strict=strict,
        no_profile=no_profile,
        without=tuple(name.strip() for name in without.split(",") if name.strip()),
        policy=policy,
        expect_gpu=expect_gpu,
        args_file=args_file,
        trace=trace,
        program_args=tuple(program_args),
    )
    body: dict[str, object] = {}
    try:
        _with_folders(output_paths(ws, exe, program_args, report=report, log=log))
        plan = plan_run(ws, request, staged=staged, placer=placer, inspect=inspect)
        result = _explained(plan, explain_placement) if explain else _run(ws, plan, hashes=target is not None)
        body = result.to_json()
    except WorkspaceError as error:
        body = {**error.to_json(not_started_code(error)), "exit_code": not_started_code(error)}
        raise
    finally:
        if target is not None and body:
            _report(ws, target, body if redact is None else redact(body))
    return result


def _begin_report(target: Path) -> None:
    """Write an unfinished report now, because afterwards the program's own end comes first."""
    from scripts.osal.named_output import is_plain  # noqa: PLC0415 - most runs write no report

    if is_plain(target):
        write_report(target, {"outcome": "unfinished"})


def output_paths(ws: Workspace, exe: str, args: Sequence[str], **outputs: str) -> dict[str, Path]:
    """Return the path of each named output, by the option's name.

    Raises:
        UsageError: ``bad-output`` or ``bad-path``: it is the program, a file of ours, or cannot be written.
    """
    found = {name: user_path(text, f"--{name}") for name, text in outputs.items() if text}
    if not found:
        return {}
    from scripts.osal.named_output import check_output  # noqa: PLC0415 - most runs write no such file

    taken = dict(_taken(ws, exe, args))
    trees = {"the store": ws.cache_root, "the state folder": ws.state_root}
    for name, path in found.items():
        check_output(path, f"--{name}", taken=taken, trees=trees)
    for (one, path), (other, second) in itertools.combinations(found.items(), 2):
        if long_path(path).is_file() and long_path(second).is_file() and path.samefile(second):
            msg = f"--{one} and --{other} name the same file"
            raise UsageError("bad-output", msg, context=(str(path),), hint="name two files")
    return found


def _with_folders(outputs: dict[str, Path]) -> dict[str, Path]:
    """Return the outputs, unless the folder of one does not exist; a device or pipe needs none."""
    if not outputs:
        return outputs
    from scripts.osal.named_output import is_plain  # noqa: PLC0415 - as above

    for name, path in outputs.items():
        if is_plain(path) and not long_path(Path(os.path.realpath(path)).parent).is_dir():
            msg = f"--{name} lies in a folder that does not exist"
            raise UsageError("bad-output", msg, context=(str(path),), hint="make the folder, or name another")
    return outputs


def _taken(ws: Workspace, exe: str, args: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield what a run reads or starts, and must not become its output."""
    with suppress(WorkspaceError):  # a program that is not there is reported in its own place
        yield "the program itself", named_program(ws, exe)
    yield "the lock", ws.lock_path
    yield "this workspace's history", ws.stage / "generations.json"
    for word in args:
        with suppress(OSError, ValueError):
            if word and long_path(Path(word)).is_file():
                yield f"the program's own argument {word}", Path(word).absolute()


def _report(ws: Workspace, path: Path, body: object) -> None:
    """Write the report; that it became impossible meanwhile changes nothing about how the program ended."""
    try:
        write_report(path, body)
    except LaunchError as error:
        ws.progress.note(f"{error.message} ({'; '.join(error.context)})")


def _explained(plan: WrapPlan, look: ExplainPlacement | None) -> WrapResult:
    """Say what would be done; for a placement file by file. Nothing is changed."""
    if look is None or plan.shown.via is not Via.BESIDE:
        return plan.shown
    return replace(plan.shown, notes=(*plan.shown.notes, *look(plan.ready, plan.shown.program, plan.places)))


def _run(ws: Workspace, plan: WrapPlan, *, hashes: bool) -> WrapResult:
    """Say what will happen, place if needed, run, undo; no signal cuts the undo short."""
    if not os.access(plan.command.program, os.X_OK):  # one that may be executed, Wine may start
        refuse_foreign(plan.command.program, platform=ws.platform)
    ws.progress.note(f"{plan.shown.stack} via {plan.shown.via}: {plan.shown.reason}")
    for note in plan.shown.notes:
        ws.progress.note(note)
    if plan.trace is not None:
        from scripts.app.wrap_tracing import make_folder  # noqa: PLC0415 - most runs are not traced

        make_folder(plan.trace.folder)
    if plan.held is not None and not make_held_folder(plan.held):
        ws.progress.note(f"what is in force at the end cannot be reported: {plan.held} cannot be made")
    if plan.copied and plan.log is not None:
        with suppress(OSError):
            plan.log.path.parent.mkdir(parents=True, exist_ok=True)
    around = nullcontext(WrapPlacement()) if plan.placement is None else plan.placement()
    with ForwardedSignals() as interruptions:
        with around as placement:
            if interruptions.received:
                obey(interruptions.received[0])  # before anything ran
            mapped = MappedFiles(is_cuda)
            with _watch(ws, plan), noted_run(ws, plan.ready, plan.shown.program):
                ended = run_inherited(
                    plan.command,
                    interruptions=interruptions,
                    timeout=plan.timeout,
                    log=plan.log,
                    unattended=ws.ask is None,
                    drop=PREFIX if plan.trace else b"",
                    mapped=mapped,
                )
            loaded = loaded_libraries(mapped, plan.ready, placement, hashes=hashes)
        _refuse_failed_launcher(plan, ended)
        return _told(
            replace(plan.shown, exit=ended, placement=placement, trace=_trace(plan), loaded=loaded), plan
        )


def _told(result: WrapResult, plan: WrapPlan) -> WrapResult:
    """Add what the program's own processes report, and whether they asked for a device."""
    held = None
    if plan.held is not None:
        held = read_held(plan.held, wanted_in(plan.command.env, TORCH_POLICY))
    use = None
    if plan.ready.stack.kind is not StackKind.CONTROL:
        output = plan.log.path if plan.log is not None else None
        use = gpu_use(loaded=result.loaded, held=held, trace=result.trace, output=output)
    if plan.copied and plan.log is not None:
        with suppress(OSError):
            plan.log.path.unlink(missing_ok=True)
            plan.log.path.parent.rmdir()  # only when no other run uses it
    return replace(result, held=held, gpu=use, lacking=_lacking(result, plan))


def _lacking(result: WrapResult, plan: WrapPlan) -> tuple[MissingCudaLibrary, ...]:
    """Name the libraries of NVIDIA's without which the loader did not start the program."""
    ended = result.exit
    if ended is None or ended.timed_out or not is_loaders(ended.code, result.platform):
        return ()
    from scripts.app.loader_look import lacking_cuda  # noqa: PLC0415 - most programs start

    return lacking_cuda(plan.shown.program, plan.command.env, result.platform, plan.ready.runtime)


def _trace(plan: WrapPlan) -> TraceSummary | None:
    """Sum up what the layer has written, where it was asked to."""
    if plan.trace is None:
        return None
    from scripts.app.wrap_tracing import read_trace  # noqa: PLC0415 - as above

    return read_trace(plan.trace.folder, plan.shown.program, table=plan.ready.stack.ptx or "")


def _watch(ws: Workspace, plan: WrapPlan) -> AbstractContextManager[None]:
    """Tell a person at a terminal that a program compiles; elsewhere stderr is the program's alone."""
    if plan.ready.stack.kind is not StackKind.TRANSLATION:
        return nullcontext()
    from scripts.app.compile_cache import cache_size, say_when_compiling  # noqa: PLC0415 - only here

    return say_when_compiling(ws.progress.aside, partial(cache_size, ws))


def _refuse_failed_launcher(plan: WrapPlan, ended: ProcessResult) -> None:
    """Tell a launcher that could not start the program from a program that ended with 1."""
    if plan.shown.via is Via.LAUNCHER and ended.code == LAUNCHER_FAILED and ended.processes == 1:
        msg = f"the launcher could not start {plan.shown.program.name}; its own words are above"
        raise LaunchError(
            "launcher-failed", msg, context=(plan.shown.line,), hint="check that the program starts by itself"
        )


def leave(result: WrapResult) -> int:
    """Return the exit code, or end this process by the signal that ended the program (POSIX).

    Call it last, after everything has been shown: after a signal it does not come back, so that a shell
    sees the same end as without us. No second core file is written.
    """
    ended = result.exit
    if sys.platform == "win32" or ended is None or ended.timed_out or ended.signal is None:
        return result.exit_code
    import resource  # noqa: PLC0415 - POSIX only

    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        signal.signal(ended.signal, signal.SIG_DFL)
    os.kill(os.getpid(), ended.signal)
    return result.exit_code
