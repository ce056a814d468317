"""``wrap --trace``: where the layer writes what a program asked of CUDA, and what that comes to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, TextIO

from msgspec import Struct

from scripts.app.context import Staged, Workspace
from scripts.errors import LaunchError, UsageError
from scripts.evidence.tracelog import TraceReader, TraceSummary
from scripts.launch.environ import EnvChange
from scripts.launch.injection import LOG_DIR, LOG_NAME, Via, ViaChoice, plan_trace
from scripts.osal.text import file_stamp

#: Below ``stage``; ``remove`` takes it away with the rest.
FOLDER: Final = "traces"
#: Of one compiler log so many sentences are kept.
SENTENCES: Final = 50
#: So many characters of a line's start and of its end are read.
LONGEST: Final = 8192


class Tracing(Struct, frozen=True, kw_only=True):
    """How one run is traced: the way in, the environment, and the folder for the logs."""

    choice: ViaChoice
    changes: tuple[EnvChange, ...]
    folder: Path

    @property
    def note(self) -> str:
        """The line shown before the program starts."""
        return f"its CUDA calls are written to {self.folder}, which makes it slower"


def plan_tracing(
    ws: Workspace, staged: Staged, program: Path, *, way: Via | None, settings: Mapping[str, str], bits: int
) -> Tracing:
    """Decide how ``program`` is traced. Nothing is made.

    Raises:
        UsageError: ``trace-way``: no tracing libraries are on the way that was asked for; ``trace-folder``:
            the person sets the variable that says where to write.
        LaunchError: ``no-trace``: the stack has none.
    """
    served = Via.LAUNCHER if ws.platform == "win32" else Via.ENV
    if way not in {None, served}:
        msg = f"--trace works with --via={served} only: the tracing libraries stand before the layer's own"
        raise UsageError("trace-way", msg, hint="leave --via (and --keep) out")
    if any(name.upper() == LOG_DIR for name in settings):
        msg = f"--trace sets {LOG_DIR} itself, so that it finds what was written"
        raise UsageError("trace-folder", msg, hint=f"leave --set={LOG_DIR}=… out; the folder is shown")
    folder = trace_folder(ws, program)
    changes = plan_trace(staged.runtime, folder, platform=ws.platform, bits=bits)
    reason = "its libraries that trace CUDA calls get into the program that way"
    return Tracing(choice=ViaChoice(via=served, reason=reason), changes=changes, folder=folder)


def trace_folder(ws: Workspace, program: Path) -> Path:
    """Name a folder that does not exist yet for one run's trace; nothing is made."""
    start = f"{file_stamp()}-{program.stem}-{os.getpid()}"
    folder = ws.stage / FOLDER / start
    number = 2
    while folder.exists():
        folder = ws.stage / FOLDER / f"{start}-{number}"
        number += 1
    return folder


def make_folder(folder: Path) -> None:
    """Make the folder for one run's logs, for its owner only.

    Raises:
        LaunchError: ``trace-not-writable``.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    except OSError as error:
        msg = f"the trace cannot be written: {folder}"
        hint = "make the checkout's folder stage writable, or leave --trace out"
        raise LaunchError("trace-not-writable", msg, context=(str(error),), hint=hint) from error


def read_trace(folder: Path, program: Path) -> TraceSummary:
    """Read what the layer has written below ``folder``: one log for each process, the program's own first."""
    reader = TraceReader()
    found = sorted(
        folder.glob(f"*/{LOG_NAME}"),
        key=lambda path: (
            not path.parent.name.startswith(program.name),
            len(path.parent.name),
            path.parent.name,
        ),
    )
    read = []
    for path in found:
        with suppress(OSError), path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            reader.read(path.parent.name, _lines(lines))
            read.append(str(path))
    errors = dict(_errors(folder, reader))
    return reader.summary(folder=str(folder), logs=read, errors=errors)


def _lines(log: TextIO) -> Iterator[str]:
    """Yield lines; of an endless one its start and its end, where the status stands."""
    while line := log.readline(LONGEST):
        end = ""
        while not (end or line).endswith("\n") and (piece := log.readline(LONGEST)):
            end = (end + piece)[-LONGEST:]
        yield line + end


def _errors(folder: Path, reader: TraceReader) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Read the compiler's sentences about each module that it did not understand."""
    for load in reader.loads:
        for name in load.unparsed:
            path = folder / load.log / Path(name).name
            with suppress(OSError), path.open(encoding="utf-8", errors="replace") as lines:
                kept = [line.strip() for line in islice(_lines(lines), SENTENCES)]
                yield f"{load.log}/{path.name}", tuple(sentence for sentence in kept if sentence)
