"""What ``wrap`` is made of: what others plug into it, and the result it gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Struct, field

from scripts.app.context import Staged, Workspace
from scripts.errors import (
    ArchiveError,
    ConflictError,
    ExitCode,
    FetchError,
    HistoryError,
    HostError,
    IntegrityError,
    JournalError,
    LaunchError,
    LockError,
    StagedFileError,
    TargetError,
    UndoIncompleteError,
    UsageError,
    WorkspaceError,
)
from scripts.osal.text import option
from scripts.serialize import pick

if TYPE_CHECKING:  # `status` needs what a placement reports, and none of these
    from scripts.app.wrap_observations import GpuUse, HeldSettings, LoadedLibraries
    from scripts.evidence.tracelog import TraceSummary
    from scripts.launch.environ import EnvPlan
    from scripts.launch.injection import Via, ViaFacts
    from scripts.osal.processes import ProcessResult
    from scripts.preflight.loading import MissingCudaLibrary, Places

#: Stack id (empty: the active one) to its verified runtime.
StagedRuntime = Callable[[Workspace, str], Staged]

#: Exit codes of ``wrap`` for failures before the program started. 124 is the timeout's and not here.
NOT_STARTED: Final[tuple[tuple[int, tuple[type[WorkspaceError], ...]], ...]] = (
    (121, (UsageError,)),
    (122, (LockError, FetchError, IntegrityError, ArchiveError, StagedFileError, HistoryError)),
    (123, (HostError,)),
    (125, (TargetError, ConflictError, JournalError, UndoIncompleteError)),
    (126, (LaunchError,)),
)

#: What a kept placement is worth on Linux, where the loader does not look into a program's own folder.
ONLY_IF_NAMED: Final = (
    "where a direct start finds it only if the program itself looks there (by its RPATH) or LD_LIBRARY_PATH"
    " names the folder (`invoke wrap` needs neither)"
)

#: STATUS_CONTROL_C_EXIT of Windows' ntstatus.h, and SIGPIPE of signal(7).
CONTROL_C: Final = -1073741510
BROKEN_PIPE: Final = 13


def not_started_code(error: WorkspaceError) -> int:
    """Return the code that ``wrap`` ends with when it fails before the program started.

    121 the command line · 122 the stack's files · 123 this machine · 125 the program's folder ·
    126 the program itself · 120 anything else.
    """
    for code, kinds in NOT_STARTED:
        if isinstance(error, kinds):
            return code
    return int(ExitCode.WRAP_NOT_STARTED)


class WrapPlacement(Struct):
    """What a placement has to report.

    An undo that cannot finish fills ``left`` and does not raise: the program's own end comes first.
    ``kept`` says that the files stay beside the program on purpose; they lie in and below ``target``.
    ``pending`` are old files of ours, out of the way already, that a running program still holds.
    ``lost`` says that the record beside the program had vanished; ``left`` says what became of the files.
    """

    files: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    kept: bool = False
    lost: bool = False
    target: Path | None = None
    hashes: dict[str, str] = field(default_factory=dict)


class Placer(Protocol):
    """Places a runtime beside a program on entering and takes it away again on leaving."""

    def __call__(
        self, staged: Staged, program: Path, *, keep: bool, places: Places | None
    ) -> AbstractContextManager[WrapPlacement]:
        """Plan; entering acts, and raises before anything is changed where it must not.

        ``places`` is where the program looks for what; ``None`` where unknown.
        """


#: Says in sentences what a placement would do to a program's folder, without doing it.
ExplainPlacement: TypeAlias = "Callable[[Staged, Path, Places | None], tuple[str, ...]]"


class Inspected(Struct, frozen=True, kw_only=True):
    """What a look into the program's files showed.

    ``refusal`` says why it will be refused, if so; ``kinds`` are the ids of what the program was taken for;
    ``places`` is where it looks for its libraries, ``None`` where its files do not tell.
    """

    facts: ViaFacts
    notes: tuple[str, ...] = ()
    refusal: str = ""
    kinds: tuple[str, ...] = ()
    places: Places | None = None


#: Reads the program's files without running it, and completes the facts that decide the way in.
Inspect: TypeAlias = "Callable[[Staged, Path, ViaFacts], Inspected]"


class WrapResult(Struct, frozen=True, kw_only=True):
    """How a wrapped program ended, or with ``explain`` what would be run.

    Attributes:
        platform: ``sys.platform`` of the run.
        line: the exact command line (Windows), or the arguments quoted for a shell.
        via: how the libraries got in, and ``reason`` why that way.
        exit: how the program ended; ``None`` when it was only explained.
        placement: files that were beside the program meanwhile.
        notes: sentences that a person should read before the program starts.
        trace: what its CUDA calls came to, where they were traced.
        loaded: which CUDA libraries were seen in its processes.
        held: which of PyTorch's settings its processes reported to be in force.
        gpu: whether it asked for a device, as far as that shows.
        expect_gpu: that it did not is a failure.
        lacking: libraries of NVIDIA's without which the program did not start.
    """

    platform: str
    program: Path
    args: tuple[str, ...]
    line: str
    stack: str
    runtime: str
    via: Via
    reason: str
    environ: EnvPlan
    cwd: Path
    exit: ProcessResult | None = None
    placement: WrapPlacement = field(default_factory=WrapPlacement)
    notes: tuple[str, ...] = ()
    trace: TraceSummary | None = None
    loaded: LoadedLibraries | None = None
    held: HeldSettings | None = None
    gpu: GpuUse | None = None
    expect_gpu: bool = False
    lacking: tuple[MissingCudaLibrary, ...] = ()

    @property
    def exit_code(self) -> int:
        """The program's own code (128 + n after signal n); 124 after a timeout.

        For 0: 41 with files left, 42 with ``expect_gpu`` when no device was used.
        """
        if self.exit is None:
            return int(ExitCode.OK)
        if self.exit.timed_out:
            return int(ExitCode.TIMEOUT)
        if self.exit.code == 0 and self.placement.left:
            return int(ExitCode.UNDO_INCOMPLETE)
        if self.exit.code == 0 and self._gpu_missed:
            return int(ExitCode.GPU_NOT_USED)
        if self.platform != "win32" and self.exit.signal is not None:
            return 128 + self.exit.signal
        return self.exit.code

    @property
    def _gpu_missed(self) -> bool:
        return self.expect_gpu and self.gpu is not None and self.gpu.asked is False

    def _tells_gpu(self, use: GpuUse) -> bool:
        """Whether a person wants to know of it; of a stopped one's libraries only where the code tells."""
        if use.by_loading:
            return self.expect_gpu and (not self.stopped or self.exit_code == ExitCode.GPU_NOT_USED)
        return self.expect_gpu or use.asked is False

    @property
    def stopped(self) -> bool:
        """Whether a person, a supervisor or --timeout ended the program, or the reader of its output."""
        ended = self.exit
        if ended is None:
            return False
        from scripts.osal.signals import usual  # noqa: PLC0415 - as below

        if self.platform == "win32":
            signalled = ended.code == CONTROL_C
        else:
            signalled = ended.signal is not None and ended.signal in {*usual(), BROKEN_PIPE}
        return ended.timed_out or bool(ended.received) or signalled

    @property
    def failed(self) -> bool:
        """Whether the program itself failed: neither ended with 0 nor was it stopped."""
        return self.exit is not None and self.exit.code != 0 and not self.stopped

    @property
    def outcome(self) -> str:
        """``explained``, ``timeout``, ``dialog``, ``signal`` or ``exit``."""
        if self.exit is None:
            return "explained"
        if self.exit.timed_out:
            return "timeout"
        if self.exit.dialogs:
            return "dialog"
        return "signal" if self.platform != "win32" and self.exit.signal is not None else "exit"

    def to_json(self) -> dict[str, object]:
        """Return plain data, not redacted."""
        return {
            **pick(self, "program args command_line=line cwd stack runtime via reason"),
            **pick(self, "environment=environ.changes outcome exit_code"),
            "exit": None if self.exit is None else self._exit_json(self.exit),
            **pick(self, "placed=placement.files placed_in=placement.target left=placement.left"),
            **pick(self, "lost=placement.lost pending=placement.pending"),
            "notes": [*self.notes, *self.ending],
            **pick(self, "loaded trace held gpu expected_gpu=expect_gpu lacking"),
        }

    def _name_of(self, ended: ProcessResult) -> str:
        from scripts.osal.process import name_exit  # noqa: PLC0415 - only what ran has an end

        return name_exit(ended.code, platform=self.platform)

    def _exit_json(self, ended: ProcessResult) -> dict[str, object]:
        return {
            **pick(ended, "code received_signals=received processes dialogs log=log_note"),
            "name": self._name_of(ended),
            "seconds": round(ended.seconds, 3),
        }

    @property
    def ending(self) -> tuple[str, ...]:
        """What is notable about the end; files that were left have their own place."""
        ended = self.exit
        if ended is None:
            return ()
        words = self._name_of(ended)
        how = f"with {ended.code} ({words})" if self.platform == "win32" else f"by {words}"
        ending = [f"{self.program.name} ended {how}"] if words and not ended.timed_out else []
        if ended.timed_out:
            ending.append(f"{self.program.name} was killed after {ended.seconds:.0f} s (--timeout)")
        ending += [f"{self.program.name} did not start: {library.inside}" for library in self.lacking]
        ending += [f"closed a message box: {d.title}: {d.text}" for d in ended.dialogs]
        if self.placement.kept:
            folder = self.placement.target or self.program.parent
            found = "" if self.platform == "win32" else f", {ONLY_IF_NAMED}"
            ending.append(f"kept beside it{found}; to take it back: invoke unwrap {option('target', folder)}")
        if self.loaded is not None:
            ending += self.loaded.sentences(stopped=self.stopped)
        if self.held is not None:
            ending += self.held.sentences
        if self.gpu is not None and self._tells_gpu(self.gpu):
            ending.append(self.gpu.sentence)
        if self.placement.pending:
            folder = self.placement.target or self.program.parent
            held = "everything is back, and a running program still holds old files in .cuda-amd"
            ending.append(f"clean-up pending: {held}; later: invoke unwrap {option('target', folder)}")
        return (*ending, ended.log_note) if ended.log_note else tuple(ending)


def write_report(path: Path, body: object) -> None:
    """Write one JSON document.

    Raises:
        LaunchError: ``report-not-writable``.
    """
    from scripts.osal.named_output import write_output  # noqa: PLC0415 - most runs write no report

    text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
    try:
        write_output(path, text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        msg = f"the report cannot be written: {path}"
        context = (error.strerror or str(error),)
        hint = "choose another --report"
        raise LaunchError("report-not-writable", msg, context=context, hint=hint) from error
