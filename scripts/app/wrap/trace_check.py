"""What a trace shows of a program's PTX, held against the table of the stack's release.

A trace has every PTX text that the program handed over, and a log of errors for each that the layer's parser
did not take as a whole. Preflight predicts the same from its table; where the two differ, the table is wrong,
and a document beside the trace says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from scripts.evidence.tracelog import Load, TableCheck, TableFault
from scripts.osal.fs import write_atomic
from scripts.preflight.coverage import count_of
from scripts.preflight.kernels import ptx_source
from scripts.preflight.ptx_check import PtxChecker, TextVerdict
from scripts.preflight.ptx_scan import scan_ptx
from scripts.preflight.ptx_table import PtxTable, ptx_tables

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

    Args:
        folder: the trace's.
        loads: what was handed over.
        errors: by log, the sentences of the layer's parser.
        table: the name of the table of the stack's release.

    Returns:
        ``None`` where the release has no table, or no text was saved.
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
                if path.stat().st_size <= MAX_BYTES:
                    text = path.read_bytes()
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
