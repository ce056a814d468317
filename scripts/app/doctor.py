"""``doctor``: is anything wrong here, why does a program fail, and what does a status code mean?"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer
from typing import BinaryIO, Final

from msgspec.structs import replace

from scripts.app.context import Workspace, host_of
from scripts.app.doctor_look import (
    facts_of,
    is_lacking,
    kernel_lines,
    libraries_of,
    library_lines,
    look_around,
    missing_imports,
    pinned_hashes,
    placed_files,
    with_machine,
)
from scripts.app.wrap_plan import named_program
from scripts.doctor.diagnose import Finding, diagnose, examine_log
from scripts.doctor.event import Event
from scripts.doctor.examine import examine
from scripts.doctor.knowledge import CodeMeaning, meanings_of
from scripts.doctor.machine import Line, Status
from scripts.doctor.object_reader import ObjectSighting
from scripts.doctor.program_libraries import Beside, judge_folder, missing_lines
from scripts.errors import ExitCode, UsageError, WorkspaceError
from scripts.host.gpu import AMD
from scripts.model import Host
from scripts.osal.fs import long_path, read_end
from scripts.osal.paths import user_path
from scripts.serialize import JsonRecord
from scripts.statuses import explain

#: The tasks that run something under a stack or fetch it: what they print is worth explaining.
EXPLAINED: Final = frozenset({"setup", "fetch", "stage", "check", "run", "validate", "wrap", "precompile"})
#: Of a program's log so much of its end is read.
LOG_END: Final = 16 * 1024 * 1024


def best_finding(ws: Workspace, text: str | bytes) -> Finding | None:
    """Explain what a program printed, or say nothing: only what is likely is worth it.

    Raises nothing of ours: advice must not hide what it is about.
    """
    if not text:
        return None
    try:
        host = host_of(ws)
    except WorkspaceError:
        return None
    gpu = host.selected_gpu
    # Whatever ran here ran on AMD's software where the GPU in use is AMD's.
    facts = facts_of(ws, host, amd=gpu is not None and gpu.vendor == AMD)
    found = next(iter(diagnose(text, facts)), None)
    return found if found is not None and found.confidence.sure else None


def output_of(failed: object, *, log: str = "") -> bytes:
    """Return what the program of a failed task printed, and how it ended; nothing of our own words.

    An error of ours carries its reference and says itself what to do; only a program's output that came with
    it (``output``) is worth explaining. ``log`` is the file that ``wrap`` wrote a program's output to.
    """
    parts: list[bytes] = []
    output = getattr(failed, "output", b"")
    if isinstance(output, bytes):
        parts.append(output)
    if isinstance(failed, WorkspaceError):
        return b"\n".join(parts)
    evidence = getattr(failed, "evidence", "")
    beside = sorted(Path(evidence).parent.glob("*.log")) if evidence else []
    parts += [_end_of(path) for path in (*beside, *([user_path(log, "--log")] if log else []))]
    parts += [line.encode("utf-8", "replace") for line in _ending(failed)]
    return b"\n".join(part for part in parts if part)


def _ending(failed: object) -> Iterator[str]:
    """Yield how a program ended, as programs put it, and the texts of its message boxes."""
    ended = getattr(failed, "exit", None)
    for dialog in getattr(ended, "dialogs", ()):
        yield f"{dialog.title}: {dialog.text}"
    code = getattr(ended if ended is not None else failed, "code", None)
    if isinstance(code, int) and code and not getattr(ended, "timed_out", False):
        yield f"exit code {code}"


def _end_of(path: Path) -> bytes:
    """Return the end of a log; nothing where it cannot be read."""
    try:
        return read_end(path, LOG_END)
    except OSError:
        return b""


#: Seconds without data after which a pipe is named.
SLOW: Final = 1.0
#: Of a longer log, so much of its start and of its end is read.
HALF: Final = 32 * 1024 * 1024

#: Ids of our stacks: a text with one of them shows what ran the program. No lock has to be there for it.
_OUR_STACK: Final = re.compile(r"\b(?:cpu-reference|overlay-hip\d+|zluda-v\d\w*-\w+)")


class DoctorResult(JsonRecord, frozen=True, kw_only=True):
    """What the doctor found.

    Attributes:
        lines: how everything that was looked at stands; where only a text was read, which stack brings the
            libraries of NVIDIA's that it says are missing.
        findings: explanations of the text, best first; empty where no cause is known.
        event: what the text tells, whether or not a cause is known; ``None`` where no text was given.
        codes: what the status code that was asked about means; several where a number means several things.
        is_empty: whether the log held nothing but blanks.
    """

    lines: tuple[Line, ...] = ()
    findings: tuple[Finding, ...] = ()
    event: Event | None = None
    codes: tuple[CodeMeaning, ...] = ()
    program: Path | None = None
    is_empty: bool = False

    JSON = "program lines findings event codes"

    @property
    def exit_code(self) -> int:
        """3 where a line is ``fail`` or a finding is likely, else 0: unknown is no failure."""
        bad = any(line.status is Status.FAIL for line in self.lines)
        explained = any(finding.confidence.sure for finding in self.findings)
        return int(ExitCode.NEGATIVE if bad or explained else ExitCode.OK)


def doctor(ws: Workspace, *, log: str = "", exe: str = "", code: str = "") -> DoctorResult:
    """Examine this machine; explain a program's output or a status code; look into a program's folder.

    With ``log`` alone only the text is explained, with the machine's facts in mind; with ``exe`` the machine
    and the program's folder are examined as well. With ``code`` only the code is explained.

    ``log`` may be ``-`` for standard input. A status code is a name, a number in any spelling, or its text.

    Raises:
        UsageError: the log cannot be read, no such code is known, or more than a code is asked about.
        LaunchError: the program is not there.
    """
    if code:
        return DoctorResult(codes=_codes(code, beside=log or exe))
    program = named_program(ws, exe) if exe else None
    text = _read(log, ws.progress.note) if log else b""
    host = host_of(ws)
    facts = facts_of(ws, host)
    lines: tuple[Line, ...] = ()
    if not log or program is not None:
        machine = look_around(ws, host)
        lines = examine(machine)
        facts = with_machine(facts, machine)
    if program is not None:
        beside = _beside(ws, program, host)
        lines = (*lines, *beside.lines)
        lines = (*lines, *kernel_lines(ws, program, text))
        facts = replace(facts, overwritten=beside.overwritten)
    if not log:
        return DoctorResult(lines=lines, program=program)
    found = examine_log(text, facts)
    absent = [thing.name for thing in _not_found(found.event)]
    lines = (*lines, *library_lines(ws, absent, host))
    in_vain = bool(_OUR_STACK.search(found.event.sample.text)) or is_lacking(ws, absent, host)
    findings = tuple(map(_without_wrap, found.findings)) if in_vain else found.findings
    return DoctorResult(
        lines=lines, findings=findings, event=found.event, program=program, is_empty=not text.strip()
    )


def _without_wrap(finding: Finding) -> Finding:
    """Leave out the advice to use a stack where one was in use and a library is missing all the same."""
    if not finding.rule.startswith("absent-nvidia"):
        return finding
    return replace(finding, fix=tuple(step for step in finding.fix if "invoke wrap" not in step))


def _codes(word: str, *, beside: str) -> tuple[CodeMeaning, ...]:
    if beside:
        msg = "--code cannot be combined with --log or --exe"
        raise UsageError("code-and-log", msg, hint="ask about the code by itself: invoke doctor --code=700")
    found = explain(word)
    if not found:
        msg = f"unknown status code {word!r}"
        hint = (
            "give its name (CUBLAS_STATUS_NOT_SUPPORTED), its number (700, 0xC0000139, -1073741515),"
            " or both (hip 98, winerror 126)"
        )
        raise UsageError("code-unknown", msg, hint=hint)
    return tuple(meanings_of(status) for status in found)


def _beside(ws: Workspace, program: Path, host: Host) -> Beside:
    """Judge the CUDA libraries in the program's folder, and name what is missing behind them."""
    libraries = libraries_of(program)
    judged = judge_folder(libraries, pinned_hashes(ws), placed_files(program.parent))
    missing = missing_imports(ws, program, libraries, host)
    served = library_lines(ws, [item.name for item in missing], host)
    return replace(judged, lines=(*judged.lines, *missing_lines(missing), *served))


def _not_found(event: Event) -> list[ObjectSighting]:
    """Return the libraries that a text says were not found."""
    return [thing for thing in event.objects if thing.kind == "library" and thing.state == "missing"]


def _read(name: str, note: Callable[[str], None] = lambda _: None) -> bytes:
    """Read a log, of an enormous file its start and end; what cannot be read twice must not be longer."""
    try:
        if name == "-":
            return _all_of(sys.stdin.buffer) if sys.stdin else b""
        path = long_path(user_path(name, "--log"))
        if not path.is_file() and path.exists():
            return _all_of_pipe(path, name, note)
        with path.open("rb") as stream:
            start = stream.read(HALF)
            left = path.stat().st_size - HALF
        return start + read_end(path, min(left, HALF)) if left > 0 else start  # characters may be wide
    except OSError as error:
        msg = f"{name} cannot be read"
        hint = "name the file that holds the program's output, or - for standard input"
        raise UsageError("log-unreadable", msg, context=(str(error),), hint=hint) from error


def _all_of_pipe(path: Path, name: str, note: Callable[[str], None]) -> bytes:
    """Read a pipe or device to its end; one that gives nothing for a while is named to the person."""
    timer = Timer(SLOW, note, (f"waiting for {name}",))
    timer.start()
    try:
        with path.open("rb") as stream:
            stream.peek(1)
            timer.cancel()
            return _all_of(stream)
    finally:
        timer.cancel()


def _all_of(stream: BinaryIO) -> bytes:
    """Read a stream to its end, which must not be further than a file's two halves."""
    data = stream.read(2 * HALF + 1)
    if len(data) > 2 * HALF:
        raise OSError(errno.EFBIG, f"larger than {2 * HALF:,} bytes: write it to a file first, of any size")
    return data
