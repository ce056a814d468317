"""``wrap``: run a program with a stack's CUDA libraries, and leave everything else as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from scripts.app.workspace import Workspace
from scripts.errors import WorkspaceError
from scripts.model import Host, Lock, Runtime, Stack


class Staged(Protocol):
    """A stack whose runtime lies ready and verified, and the machine it was chosen for."""

    @property
    def lock(self) -> Lock:
        """The lock the stack comes from."""

    @property
    def stack(self) -> Stack:
        """The stack."""

    @property
    def runtime(self) -> Runtime:
        """Its files."""

    @property
    def host(self) -> Host:
        """This machine."""


#: ``scripts.app.staged.staged_runtime``: stack id (empty: the active one) to its verified runtime.
StagedRuntime = Callable[[Workspace, str], Staged]


@dataclass
class Placement:
    """What a placement leaves to report; ``left`` is filled when the undo could not finish."""

    files: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class Placer(Protocol):
    """Places a runtime beside a program on entering and takes it away again on leaving."""

    def __call__(self, staged: Staged, program: Path, *, keep: bool) -> AbstractContextManager[Placement]:
        """Plan first: raises before anything is changed."""


@dataclass(frozen=True, kw_only=True)
class WrapResult:
    """How a wrapped program ended, or with ``explain`` what would be run."""

    program: str
    via: str = ""
    reason: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """The program's own code; 124 after a timeout; 41 instead of 0 when an undo is incomplete."""
        return 0

    def to_json(self) -> dict[str, object]:
        """Return plain data, already redacted."""
        return {}


def wrap(  # the options of one task
    ws: Workspace,
    *,
    exe: str,
    stack: str = "",
    via: str = "auto",
    keep: bool = False,
    timeout: str = "",
    set_: Sequence[str] = (),
    cwd: str = "",
    log: str = "",
    report: str = "",
    explain: bool = False,
    strict: bool = False,
    args_file: str = "",
    program_args: Sequence[str] = (),
    staged: StagedRuntime | None = None,
    placer: Placer | None = None,
    redact: Callable[[str], str] = str,
) -> WrapResult:
    """Run ``exe`` under a stack and wait for its whole process tree.

    Raises:
        WorkspaceError: nothing was started; ``not_started_code`` names the exit code.
    """
    raise NotImplementedError


def not_started_code(error: WorkspaceError) -> int:
    """Return the code of 120 to 126 that ``wrap`` ends with for a failure before the program started."""
    del error
    return 120


def leave(result: WrapResult) -> int:
    """Return the exit code, or end this process by the signal that ended the program (POSIX).

    Call it last: after a signal it does not come back.
    """
    return result.exit_code
