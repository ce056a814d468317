"""From a task's name and options to what the person sees and the exit code: the only such place."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scripts.app.context import Workspace, own_environ, workspace_from_environ
from scripts.cli.console import Out, TerminalProgress, discard_stdout, patient, ready_streams, show_error
from scripts.cli.options import Verb
from scripts.cli.parse import Call, typed
from scripts.cli.verbs import WRAP
from scripts.errors import ExitCode, HostError, WorkspaceError
from scripts.model import NoProgress, Result
from scripts.osal.signals import DeferredSignals, EndedBySignal

if TYPE_CHECKING:
    from scripts.app.context import Staged
    from scripts.app.download_summary import DownloadSummary
    from scripts.app.wrap_result import WrapPlacement
    from scripts.preflight.loading import Places


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
#: Windows says these in numbers of its own: disk full, and two ways to say denied.
_WINDOWS: Final = {112: errno.ENOSPC, 5: errno.EACCES, 19: errno.EROFS}

#: What a signal leaves behind that comes during a task, or after it.
_KEPT: Final = "what was finished is kept, what was half done is resumed or cleaned up"
_DONE: Final = "the task itself was done, its result may not have been shown whole"


def perform(call: Call) -> int:
    """Perform a line: run its use case, show the result, return the exit code.

    A ``WorkspaceError``, a full disk and a denied file become a panel (or an ``error`` object with
    ``--json``). Anything else is a bug of ours and keeps its traceback.
    """
    ready_streams()
    environ = own_environ()
    out = Out(environ=environ)
    try:
        ws = _workspace(environ, out, as_json=call.as_json)
    except WorkspaceError as error:  # a variable names a place that cannot be
        return _refused_place(call, error, out)
    return _perform_wrap(call, ws, out) if call.verb.name == WRAP else _perform(call, ws, out)


def _refused_place(call: Call, error: WorkspaceError, out: Out) -> int:
    """Show why there is no workspace, and return the exit code of the task."""
    code = int(error.code)
    if call.verb.name == WRAP:
        from scripts.app.wrap import not_started_code  # noqa: PLC0415 - `invoke --list` stays quick

        code = not_started_code(error)
    show_error(error, out, as_json=call.as_json, code=code)
    return code


def _perform_wrap(call: Call, ws: Workspace, out: Out) -> int:
    """Run a program: its exit code is ours.

    With ``--json`` what the program prints goes to stderr, so that stdout holds the one object.
    """
    from scripts.app.preflight import inspect_program  # noqa: PLC0415 - `invoke --list` stays quick
    from scripts.app.wrap import leave, not_started_code, wrap  # noqa: PLC0415 - as above

    try:
        with _stdout_to_stderr() if call.as_json else nullcontext():
            result = wrap(
                ws,
                **call.options,  # type: ignore[arg-type]  # the registry's test compares both
                program_args=call.arguments,
                placer=partial(_beside, ws),
                explain_placement=partial(_beside_explained, ws),
                inspect=partial(inspect_program, ws),
                redact=partial(_redacted, ws),
            )
    except WorkspaceError as error:
        show_error(error, out, as_json=call.as_json, code=not_started_code(error))
        _advise(ws, WRAP, error, out)
        return not_started_code(error)
    except (KeyboardInterrupt, EndedBySignal) as stopped:
        return _stopped(stopped, out, "the program was not started, and nothing is left beside it")
    try:
        with DeferredSignals() as shield:
            shield.lower()
            _show(call.verb, result, out, as_json=call.as_json)
            if result.exit_code:
                _advise(ws, WRAP, result, out, log=str(call.options.get("log") or ""))
    except (KeyboardInterrupt, EndedBySignal) as stopped:
        return _stopped(stopped, out, _DONE)
    return leave(result)


def _redacted(ws: Workspace, body: object) -> object:
    """Leave out of a report what identifies this person and machine."""
    from scripts.app.stack_process import redactor_of  # noqa: PLC0415 - most runs write no report

    return redactor_of(ws).data(body)


def _beside(
    ws: Workspace, staged: Staged, program: Path, *, keep: bool, places: Places | None
) -> AbstractContextManager[WrapPlacement]:
    """Place beside a program; loaded only where something is placed, which is seldom."""
    from scripts.app.wrap_placing import BesidePlacer  # noqa: PLC0415 - see above

    return BesidePlacer(ws)(staged, program, keep=keep, places=places)


def _beside_explained(ws: Workspace, staged: Staged, program: Path, places: Places | None) -> tuple[str, ...]:
    """Say what would be placed."""
    from scripts.app.wrap_placing import BesidePlacer  # noqa: PLC0415 - as above

    return BesidePlacer(ws).sentences(staged, program, places)


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Let everything that is started meanwhile write to stderr; a closed stdout is closed again."""
    sys.stdout.flush()
    try:
        saved = os.dup(1)
    except OSError:
        saved = -1
    os.dup2(2, 1)
    try:
        yield
    finally:
        if saved < 0:
            os.close(1)
        else:
            os.dup2(saved, 1)
            os.close(saved)


def _perform(call: Call, ws: Workspace, out: Out) -> int:
    """Run a use case and show its result."""
    what, then = _KEPT, _going_on(call)
    try:
        with DeferredSignals() as shield:
            shield.lower()  # from here on a signal stops the work; what tidies up is not interrupted
            result = _result(call, ws, out)
            if isinstance(result, int):
                return result
            what, then = _DONE, ""
            written = _show(call.verb, result, out, as_json=call.as_json)
            if result.exit_code:
                _advise(ws, call.verb.name, result, out)
    except (KeyboardInterrupt, EndedBySignal) as stopped:
        return _stopped(stopped, out, what, then)
    return int(result.exit_code) or int(ExitCode.OK if written else ExitCode.HOST)


def _going_on(call: Call) -> str:
    """Name the line that goes on with interrupted probes or a setup; empty for what keeps nothing."""
    options = {
        name.rstrip("_").replace("_", "-"): value for name, value in call.options.items() if name != "fresh"
    }
    if call.verb.name not in {"probe", "setup"} or "compare" in options or options.get("device") == "cpu":
        return ""
    words = (
        f"--{name}" if value is True else f"--{name}={value}" for name, value in options.items() if value
    )
    return f"to go on: {typed(call.verb.name, *words)}"


def _result(call: Call, ws: Workspace, out: Out) -> Result | int:
    """Run a use case; where it fails, show why and return the exit code."""
    function = use_case(call.verb)
    try:
        result: Result = function(ws, **call.options)
    except WorkspaceError as error:
        show_error(error, out, as_json=call.as_json)
        _advise(ws, call.verb.name, error, out)
        return int(error.code)
    except OSError as error:
        refused = refusal_of(error)
        if refused is None:
            raise
        show_error(refused, out, as_json=call.as_json)
        return int(refused.code)
    return result


def _stopped(signal: KeyboardInterrupt | EndedBySignal, out: Out, what: str, then: str = "") -> int:
    """Say that a signal has stopped the work; return the exit code that a shell gives for it."""
    discard_stdout()  # nothing more waits for its reader, who may be the reason
    said = (what, *getattr(signal, "__notes__", ()), then)  # the notes are what the step adds
    what = "; ".join(filter(None, said))
    if isinstance(signal, EndedBySignal):
        out.note(f"Ended by {signal.name}; {what}.")
        return 128 + signal.number
    out.note(f"Interrupted; {what}.")
    return int(ExitCode.INTERRUPTED)


def use_case(verb: Verb) -> Callable[..., Any]:
    """Return the function of a verb."""
    function: Callable[..., Any] = getattr(
        import_module(f"scripts.app.{verb.home or verb.module}"), verb.module
    )
    return function


def refusal_of(error: OSError) -> HostError | None:
    """Return the error to show, or ``None`` where the cause may be ours and its traceback is needed."""
    cause = _WINDOWS.get(getattr(error, "winerror", None) or 0, error.errno)
    context = tuple(str(name) for name in (error.filename, error.filename2) if name is not None)
    if cause in _FULL:
        msg = "the disk is full, so the task was given up; what was finished is kept"
        return HostError("no-space", msg, context=context, hint="free some space, then run it again")
    if cause in _DENIED and context:
        msg = f"the system refuses: {error.strerror}"
        hint = (
            "make that place writable for you: CUDA_AMD_CACHE and CUDA_AMD_STATE move the store and the list"
            " of placements, and a checkout of another user is replaced by one of your own: git clone"
        )
        return HostError("not-allowed", msg, context=context, hint=hint)
    return None


def _workspace(environ: Mapping[str, str], out: Out, *, as_json: bool) -> Workspace:
    """Make the workspace, and say it first when another lock is in use."""
    progress = NoProgress() if as_json else TerminalProgress(out)
    interactive = not as_json and _is_tty(sys.stdin) and _is_tty(sys.stderr)
    ws = workspace_from_environ(environ, progress=progress, ask=partial(_ask, out) if interactive else None)
    if ws.custom_lock:
        out.note(f"Lock: {ws.lock_path} (custom, from CUDA_AMD_LOCK; its evidence proves nothing for ours)")
    return ws


def _ask(out: Out, summary: DownloadSummary) -> bool:
    """Put the question about a download; loaded only where there is one."""
    from scripts.cli.views.setup import ask_about_download  # noqa: PLC0415 - see above

    return ask_about_download(summary, out)


def _is_tty(stream: object) -> bool:
    """Whether a person sits at the stream; a closed one counts as none."""
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]  # None or closed are caught
    except (AttributeError, ValueError):
        return False


def _show(verb: Verb, result: Result, out: Out, *, as_json: bool) -> bool:
    """Render; false where the result could not be written, which is reported."""
    try:
        with patient():
            if as_json:
                sys.stdout.write(json.dumps(result.to_json(), indent=2, ensure_ascii=True) + "\n")
            else:
                view = import_module(f"scripts.cli.views.{verb.view}")
                getattr(view, f"show_{verb.module}")(result, out)
            sys.stdout.flush()
    except OSError as error:  # `> file` on a full disk
        discard_stdout()
        out.note(f"The task ran, but its result could not be written: {error.strerror}.")
        return False
    return True


def _advise(ws: Workspace, task: str, failed: object, out: Out, *, log: str = "") -> None:
    """Let the doctor explain what a program that a task ran has printed, if it knows."""
    from scripts.app.doctor import EXPLAINED, best_finding, output_of  # noqa: PLC0415 - only after a failure
    from scripts.cli.views.doctor import note_finding  # noqa: PLC0415 - as above

    found = best_finding(ws, output_of(failed, log=log)) if task in EXPLAINED else None
    if found is not None:
        note_finding(found, out)
