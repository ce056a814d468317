"""``wrap --trace``: where the layer writes what a program asked of CUDA, and what that comes to.

A trace has every PTX text that the program handed over, and a log of errors for each that the layer did not
take as a whole. Preflight predicts the same from its table; where the two differ, the table is wrong.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, TextIO

from msgspec import Struct
from msgspec.structs import replace

from scripts.app.context import Staged, Workspace
from scripts.errors import LaunchError, UsageError
from scripts.evidence.tracelog import Load, TableCheck, TableFault, TraceReader, TraceSummary
from scripts.launch.environ import EnvChange
from scripts.launch.injection import LOG_DIR, LOG_NAME, Via, ViaChoice, plan_trace
from scripts.osal.fs import read_bounded, write_atomic
from scripts.osal.text import count_of, file_stamp
from scripts.preflight.kernels import ptx_source
from scripts.preflight.ptx_check import PtxChecker, TextVerdict
from scripts.preflight.ptx_scan import scan_ptx
from scripts.preflight.ptx_table import PtxTable, ptx_tables

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


def read_trace(folder: Path, program: Path, *, table: str = "") -> TraceSummary:
    """Read what the layer has written below ``folder``: one log for each process, the program's own first.

    ``table`` names the PTX table of the stack's release; what the trace shows of modules is held against it.
    """
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
    summary = reader.summary(folder=str(folder), logs=read, errors=errors)
    if not table or not reader.loads:
        return summary
    return replace(summary, table=check_table(folder, reader.loads, errors, table=table))


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


DOCUMENT: Final = "table-differs.json"
#: Texts that are compared, and the size of the largest one.
MAX_TEXTS: Final = 2_000
MAX_BYTES: Final = 1 << 26
#: Errors that are kept of one text.
MAX_ERRORS: Final = 20
_UNKNOWN: Final = "CUDA_ERROR_UNKNOWN"
_TAKEN: Final = "takes all of it"


def check_table(
    folder: Path, loads: Sequence[Load], errors: Mapping[str, Sequence[str]], *, table: str
) -> TableCheck | None:
    """Compare what the layer did with each text with what the table says, and keep a document of differences.

    ``errors`` holds, by log, the sentences of the layer's parser; ``table`` names the table of the stack's
    release. ``None`` where the release has no table, or no text was saved.
    """
    release = next((one for one in ptx_tables() if one.name == table), None)
    if release is None:
        return None
    compared, faults = 0, []
    for load, name, text in _texts(folder, loads):
        verdict = PtxChecker(scan_ptx(text)).verdict(release)
        if verdict.linking:
            continue  # what is made for linking is judged apart
        compared += 1
        fault = _fault(load, name, text, verdict, errors)
        faults += [fault] if fault is not None else []
    if not compared:
        return None
    document = _keep(folder, release, compared, faults) if faults else ""
    return TableCheck(table=table, modules=compared, faults=tuple(faults), document=document)


def _texts(folder: Path, loads: Sequence[Load]) -> Iterator[tuple[Load, str, bytes]]:
    """Yield the PTX texts of a trace, each content once for each outcome."""
    seen: set[tuple[bytes, bool, str]] = set()
    for load in loads:
        for name in load.files:
            if not name.lower().endswith(".ptx") or len(seen) >= MAX_TEXTS:
                continue
            path = folder / load.log / Path(name).name
            with suppress(OSError):
                text = read_bounded(path, MAX_BYTES)
                key = (hashlib.sha256(text).digest(), _unparsed(load, name), load.status)
                if key not in seen:
                    seen.add(key)
                    yield load, Path(name).name, text


def _unparsed(load: Load, name: str) -> bool:
    """Whether the layer wrote a log of errors for a text."""
    return Path(name).with_suffix(".log").name in {Path(log).name for log in load.unparsed}


def _fault(
    load: Load, name: str, text: bytes, verdict: TextVerdict, errors: Mapping[str, Sequence[str]]
) -> TableFault | None:
    """Say what the table has wrong about one text; ``None`` where it agrees."""
    predicted = _predicted(verdict)
    shown = _shown(load, name, verdict, predicted=bool(predicted))
    if not shown:
        return None
    sentences = errors.get(f"{load.log}/{Path(name).with_suffix('.log').name}", ())
    return TableFault(
        log=load.log,
        file=name,
        sha256=hashlib.sha256(text).hexdigest(),
        predicted=predicted or _module(verdict) or _TAKEN,
        shown=shown,
        errors=tuple(sentences[:MAX_ERRORS]),
    )


def _predicted(verdict: TextVerdict) -> str:
    """Say what the parser does not take of a text, by the table; empty where it takes all."""
    if verdict.unusable:
        return f"cannot read it: {verdict.unusable}"
    if verdict.dropped:
        name, refusal = next(iter(verdict.dropped.items()))
        return f"drops {count_of(len(verdict.dropped), 'function')}: {name}: {refusal.text}"
    return "drops a directive" if verdict.directives else ""


def _module(verdict: TextVerdict) -> str:
    """Say why a module fails as a whole, by the table."""
    why = verdict.ends or next(iter(verdict.fails), "")
    return f"fails as a whole: {why}" if why else ""


def _shown(load: Load, name: str, verdict: TextVerdict, *, predicted: bool) -> str:
    """Say what the trace shows that the table does not; empty where both agree."""
    unparsed = _unparsed(load, name)
    if unparsed != predicted:
        return "the layer's parser reports errors" if unparsed else "the layer's parser reports no error"
    alone = sum(file.lower().endswith(".ptx") for file in load.files) == 1 and len(load.files) == 1
    if predicted or not alone or not load.call.startswith("cuModuleLoad"):
        return ""  # which of several texts was compiled is not in the log
    fails = bool(_module(verdict))
    if fails and load.status.endswith("_SUCCESS"):
        return "the module was loaded"
    return f"loading it gave {_UNKNOWN}" if load.status == _UNKNOWN and not fails else ""


def _keep(folder: Path, table: PtxTable, compared: int, faults: Sequence[TableFault]) -> str:
    """Write what differs beside the texts; return where, empty where that failed."""
    body = {
        "table": table.name,
        "source": ptx_source(table.name),
        "modules_compared": compared,
        "modules": [fault.to_json() for fault in faults],
    }
    path = folder / DOCUMENT
    with suppress(OSError):
        write_atomic(path, (json.dumps(body, indent=1, ensure_ascii=False) + "\n").encode())
        return str(path)
    return ""
