"""From a task's name and options to what the person sees and the exit code: the only such place."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.app.context import Workspace, own_environ, workspace_from_environ
from scripts.errors import ExitCode, WorkspaceError
from scripts.model import NoProgress, Result
from scripts.ui.commandline import refuse_stray_words
from scripts.ui.console import Out
from scripts.ui.progress import TerminalProgress
from scripts.ui.refusals import refusal_of
from scripts.ui.streams import ready_streams

if TYPE_CHECKING:
    from scripts.app.context import Staged
    from scripts.app.setup.download_summary import DownloadSummary
    from scripts.app.wrap.wrap_types import WrapPlacement
    from scripts.preflight.places import Places


def perform_wrap(options: Mapping[str, object], *, argv: Sequence[str], as_json: bool) -> int:
    """Run a program: its arguments are what follows ``--``, its exit code is ours.

    With ``--json`` what the program prints goes to stderr, so that stdout holds the one object.
    """
    from scripts.app.preflight import inspect_program  # noqa: PLC0415 - `invoke --list` stays quick
    from scripts.app.wrap.wrap import leave, not_started_code, wrap  # noqa: PLC0415 - as above
    from scripts.launch.argv import split_argv  # noqa: PLC0415 - as above

    ready_streams()
    environ = own_environ()
    out = Out(environ=environ)
    ws = _workspace(environ, out, as_json=as_json)
    try:
        refuse_stray_words("wrap", options, argv)
        arguments = split_argv(argv)[1]
        with _stdout_to_stderr() if as_json else nullcontext():
            result = wrap(
                ws,
                **options,  # type: ignore[arg-type]  # as typed by Invoke
                program_args=arguments,
                placer=partial(_beside, ws),
                explain_placement=partial(_beside_explained, ws),
                inspect=partial(inspect_program, ws),
                redact=partial(_redacted, ws),
            )
    except WorkspaceError as error:
        _show_error(error, out, as_json=as_json)
        _advise(ws, "wrap", error, out)
        return not_started_code(error)
    _show("wrap", result, out, as_json=as_json)
    if result.exit_code:
        _advise(ws, "wrap", result, out, log=str(options.get("log") or ""))
    return leave(result)


def _redacted(ws: Workspace, body: object) -> object:
    """Leave out of a report what identifies this person and machine."""
    from scripts.app.stack_process import redactor_of  # noqa: PLC0415 - most runs write no report

    return redactor_of(ws).data(body)


def _beside(
    ws: Workspace, staged: Staged, program: Path, *, keep: bool, places: Places | None
) -> AbstractContextManager[WrapPlacement]:
    """Place beside a program; loaded only where something is placed, which is seldom."""
    from scripts.app.wrap.placing import BesidePlacer  # noqa: PLC0415 - see above

    return BesidePlacer(ws)(staged, program, keep=keep, places=places)


def _beside_explained(ws: Workspace, staged: Staged, program: Path, places: Places | None) -> tuple[str, ...]:
    """Say what would be placed."""
    from scripts.app.wrap.placing import BesidePlacer  # noqa: PLC0415 - as above

    return BesidePlacer(ws).sentences(staged, program, places)


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Let everything that is started meanwhile write to stderr."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def perform(task: str, options: Mapping[str, object], *, argv: Sequence[str], as_json: bool) -> int:
    """Run the use case ``scripts.app.<task>`` and show its result; return the exit code.

    ``task`` is written as on the command line (``pins.check``); the module is ``pins_check``.

    A ``WorkspaceError``, a full disk and a denied file become a panel (or an ``error`` object with
    ``--json``). Anything else is a bug of ours and keeps its traceback.
    """
    ready_streams()
    environ = own_environ()
    out = Out(environ=environ)
    ws = _workspace(environ, out, as_json=as_json)
    module = task.replace(".", "_").replace("-", "_")
    try:
        refuse_stray_words(task, options, argv)
        result: Result = getattr(import_module(f"scripts.app.{module}"), module)(ws, **options)
    except WorkspaceError as error:
        _show_error(error, out, as_json=as_json)
        _advise(ws, task, error, out)
        return int(error.code)
    except OSError as error:
        refused = refusal_of(error)
        if refused is None:
            raise
        _show_error(refused, out, as_json=as_json)
        return int(refused.code)
    except KeyboardInterrupt:
        out.note(
            "Interrupted; what was finished is kept, what was half done is taken up or cleaned next time."
        )
        return int(ExitCode.INTERRUPTED)
    told = _show(module, result, out, as_json=as_json)
    if result.exit_code:
        _advise(ws, task, result, out)
    return int(result.exit_code) or int(ExitCode.OK if told else ExitCode.HOST)


def _workspace(environ: Mapping[str, str], out: Out, *, as_json: bool) -> Workspace:
    """Make the workspace, and say it first when another lock is in use."""
    progress = NoProgress() if as_json else TerminalProgress(out)
    interactive = not as_json and _is_tty(sys.stdin) and _is_tty(sys.stderr)
    ws = workspace_from_environ(environ, progress=progress, ask=partial(_ask, out) if interactive else None)
    if ws.custom_lock:
        out.note(f"Lock: {ws.lock_path} (custom, from CUDA_AMD_LOCK; its evidence proves nothing for ours)")
    return ws


def _ask(out: Out, bill: DownloadSummary) -> bool:
    """Put the question about a download; loaded only where there is one."""
    from scripts.ui.bill import ask_about  # noqa: PLC0415 - see above

    return ask_about(bill, out)


def _is_tty(stream: object) -> bool:
    """Whether a person sits at the stream; a closed one is nobody."""
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]  # None or closed are caught
    except (AttributeError, ValueError):
        return False


def _show(module: str, result: Result, out: Out, *, as_json: bool) -> bool:
    """Render; false where the result could not be written, which is said."""
    try:
        with _patient():
            if as_json:
                sys.stdout.write(json.dumps(result.to_json(), indent=2, ensure_ascii=True) + "\n")
            else:
                import_module(f"scripts.ui.{module}").show(result, out)
            sys.stdout.flush()
    except OSError as error:  # `> file` on a full disk
        _discard_stdout()
        out.note(f"The task ran, but its result could not be written: {error.strerror}.")
        return False
    return True


@contextmanager
def _patient() -> Iterator[None]:
    """Write to a reader that may have gone away (``| head``), which is no error of ours."""
    try:
        yield
    except BrokenPipeError:
        _discard_stdout()


def _discard_stdout() -> None:
    """Let the rest go nowhere: Python would complain again while closing stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _advise(ws: Workspace, task: str, failed: object, out: Out, *, log: str = "") -> None:
    """Let the doctor explain what a program that a task ran has printed, if it knows."""
    from scripts.app.doctor.advice import EXPLAINED, best_finding, output_of  # noqa: PLC0415 - only after a failure
    from scripts.ui.doctor import note_finding  # noqa: PLC0415 - as above

    found = best_finding(ws, output_of(failed, log=log)) if task in EXPLAINED else None
    if found is not None:
        note_finding(found, out)


def _show_error(error: WorkspaceError, out: Out, *, as_json: bool) -> None:
    """Show a failure in the form that was asked for."""
    if as_json:
        with _patient():
            sys.stdout.write(json.dumps(error.to_json(), indent=2, ensure_ascii=True) + "\n")
            sys.stdout.flush()
    out.error(error.reference, error.message, error.context, error.hint)
