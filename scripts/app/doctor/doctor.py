"""``doctor``: is anything wrong here, why does a program fail, and what does a status code mean?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from scripts.app.context import Workspace, host_of
from scripts.app.doctor.beside_look import libraries_of, missing_imports, pinned_hashes, placed_files
from scripts.app.doctor.kernel_look import kernel_lines, library_lines
from scripts.app.doctor.machine_look import facts_of, look_around, with_machine
from scripts.app.wrap.plan import named_program
from scripts.doctor.beside import Beside, judge_folder
from scripts.doctor.diagnose import Finding, examine_log
from scripts.doctor.event import Event
from scripts.doctor.examine import examine
from scripts.doctor.knowledge import CodeMeaning, meanings_of
from scripts.doctor.machine import Line, Status
from scripts.doctor.missing_dlls import missing_lines
from scripts.doctor.object_reader import ObjectSighting
from scripts.errors import ExitCode, UsageError
from scripts.model import Host
from scripts.serialize import JsonRecord
from scripts.statuses import explain

#: Of a longer log, so much of its start and of its end is read.
HALF: Final = 32 * 1024 * 1024


class DoctorResult(JsonRecord, frozen=True, kw_only=True):
    """What the doctor found.

    Attributes:
        lines: how everything that was looked at stands; where only a text was read, which stack brings the
            libraries of NVIDIA's that it says are missing.
        findings: explanations of the text, best first; empty where no cause is known.
        event: what the text tells, whether or not a cause is known; ``None`` where no text was given.
        codes: what the status code that was asked about means; several where a number means several things.
        program: the program that was asked about.
    """

    lines: tuple[Line, ...] = ()
    findings: tuple[Finding, ...] = ()
    event: Event | None = None
    codes: tuple[CodeMeaning, ...] = ()
    program: Path | None = None

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

    Args:
        ws: where we are.
        log: a file with a program's output, ``-`` for standard input.
        exe: the program that fails.
        code: a status code: a name, a number in any spelling, or the text that goes with it.

    Raises:
        UsageError: the log cannot be read, no such code is known, or more than a code is asked about.
        LaunchError: the program is not there.
    """
    if code:
        return DoctorResult(codes=_codes(code, beside=log or exe))
    program = named_program(ws, exe) if exe else None
    text = _read(log) if log else b""
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
    lines = (*lines, *library_lines(ws, [thing.name for thing in _not_found(found.event)], host))
    return DoctorResult(lines=lines, findings=found.findings, event=found.event, program=program)


def _codes(word: str, *, beside: str) -> tuple[CodeMeaning, ...]:
    """Explain a status code."""
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


def _read(name: str) -> bytes:
    """Read a log, of an enormous one its start and end."""
    try:
        if name == "-":
            return sys.stdin.buffer.read() if sys.stdin else b""
        with Path(name).open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(0)
            if size <= 2 * HALF:
                return stream.read()
            start = stream.read(HALF)
            stream.seek(-HALF, 2)
            return start + stream.read()  # no line feed between: characters may be wide
    except OSError as error:
        msg = f"{name} cannot be read"
        hint = "name the file that holds the program's output, or - for standard input"
        raise UsageError("log-unreadable", msg, context=(str(error),), hint=hint) from error
