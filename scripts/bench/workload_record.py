"""The record a workload leaves: one line on stderr, ``@@cuda-amd-result {json}``.

The object's ``outcome`` is ``pass``, ``incorrect``, ``refused``, ``error`` or ``unavailable``; ``detail``
says why; ``results`` may hold one object a case with an ``outcome`` of its own; ``libraries`` names the
files it really used. Everything else it says is kept as it is. What a run is worth:

* numbers compared with a reference and right: ``functional`` for the call family it used
  (a GEMM is a call family, however fast it ran);
* ``integrated`` only for a workload that is a program of its own (``application``), whose known answer
  came out *and* whose process exited cleanly;
* a right answer followed by a hang or a crash stays ``functional`` and says so;
* a wrong answer is ``incorrect``, at ``loadable``; so is a ``pass`` with a NaN or a failed case in it;
* a refusal or an error shows that the libraries load, if it names them, and no more;
* libraries from elsewhere than the stack show nothing about the stack, whatever the numbers;
* no answer shows nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.model import CapabilityResult, Level, Outcome
from scripts.osal.text import decoded
from scripts.statuses import describe_exit

MARK: Final = "@@cuda-amd-result"
MAX_LINE: Final = 1024 * 1024
#: What a record may say besides ``pass``.
FAILURES: Final = frozenset({"incorrect", "refused", "error", "unavailable"})


class Record(Struct, frozen=True, kw_only=True):
    """What one run of a workload reported; with a ``fault`` there is no record, and ``data`` is empty."""

    data: Mapping[str, object]
    fault: str = ""


def parse_record(stderr: bytes | str) -> Record:
    """Find the one record in a workload's stderr, whatever else stands there; never raises.

    No line, more than one, or a line that is not one JSON object: a fault.
    """
    text = stderr if isinstance(stderr, str) else decoded(stderr)
    found = [line[line.index(MARK) + len(MARK) :].strip() for line in text.splitlines() if MARK in line]
    if len(found) != 1:
        return Record(data={}, fault=f"it printed {len(found) or 'no'} result{'s' * (len(found) > 1)}")
    if len(found[0]) > MAX_LINE:
        return Record(data={}, fault="its result is too large")
    try:
        data = json.loads(found[0])
    except (ValueError, RecursionError):
        return Record(data={}, fault="its result is not JSON")
    if not isinstance(data, dict):
        return Record(data={}, fault="its result is not a JSON object")
    return Record(data=data)


def judge_run(
    record: Record,
    *,
    capability: str,
    exit_code: int | None,
    timed_out: bool,
    application: bool = False,
    folders: Iterable[Path] = (),
) -> CapabilityResult:
    """Judge one run of a workload by the rules above.

    ``exit_code`` is ``None`` if we ended it. An ``application``, a real program, can show ``integrated``. Its
    libraries must come from ``folders``, as the system resolves them; empty: from anywhere.
    """
    outcome, level, detail = _answer(record, tuple(folders))
    if outcome is Outcome.PASS:
        outcome, level, detail = _ending(
            level, detail, exit_code, timed_out=timed_out, application=application
        )
    elif outcome is None:
        end = f"it ended with {describe_exit(exit_code)}; " if exit_code != 0 else ""
        outcome, detail = Outcome.ERROR, f"{end}{record.fault}"
        if timed_out:
            outcome, detail = Outcome.TIMEOUT, "time ran out before a result"
    return CapabilityResult(capability=capability, level=level, outcome=outcome, detail=detail)


def _answer(record: Record, folders: tuple[Path, ...]) -> tuple[Outcome | None, Level | None, str]:
    """Read the answer itself: ``None`` where there is none."""
    if record.fault:
        return None, None, record.fault
    data = record.data
    strange = _strangers(data, folders)
    if strange:
        return Outcome.ERROR, None, f"it used libraries of another place: {', '.join(strange)}"
    if data.get("outcome") == "pass":
        return _passed(data)
    return _failed(data)


def _passed(data: Mapping[str, object]) -> tuple[Outcome, Level, str]:
    """Believe a ``pass`` only if nothing in the record speaks against it."""
    doubt = _doubt(data)
    if doubt:
        return Outcome.INCORRECT, Level.LOADABLE, doubt
    return Outcome.PASS, Level.FUNCTIONAL, _numbers(data) or "the answer is right"


def _failed(data: Mapping[str, object]) -> tuple[Outcome, Level | None, str]:
    """Read a failure: a wrong answer shows that everything loads, the others only with names of libraries."""
    named = str(data.get("outcome"))
    if named not in FAILURES:
        return Outcome.ERROR, None, "its result does not say whether the answer was right"
    outcome = Outcome(named)
    loaded = outcome is Outcome.INCORRECT or (outcome is not Outcome.UNAVAILABLE and data.get("libraries"))
    cases = "; ".join(str(case["detail"]) for case in _cases(data) if case.get("detail"))
    detail = str(data.get("detail") or "") or cases or f"it reported {named}"
    return outcome, Level.LOADABLE if loaded else None, detail


def _ending(
    level: Level | None, detail: str, exit_code: int | None, *, timed_out: bool, application: bool
) -> tuple[Outcome, Level | None, str]:
    """Judge how a run with a right answer ended."""
    if timed_out:
        return Outcome.HANG_AFTER_RESULT, level, f"{detail}; then it did not end"
    if exit_code != 0:
        return Outcome.CRASH_AFTER_RESULT, level, f"{detail}; then it ended with {describe_exit(exit_code)}"
    return Outcome.PASS, Level.INTEGRATED if application else level, detail


def _strangers(data: Mapping[str, object], folders: tuple[Path, ...]) -> list[str]:
    """Return the libraries it used that lie in none of the folders."""
    libraries = data.get("libraries")
    if not folders or not isinstance(libraries, Mapping):
        return []
    files = [str(file) for file in libraries.values()]
    return [file for file in files if not any(Path(file).is_relative_to(folder) for folder in folders)]


def _doubt(data: Mapping[str, object]) -> str:
    """Return why a ``pass`` is none: a number that is no number, or a case that did not pass."""
    if not _finite(data):
        return f"not a number: {_numbers(data)}"
    cases = data.get("results", [{"outcome": "pass"}])
    listed = cases if isinstance(cases, list) else []
    passed = [isinstance(c, Mapping) and c.get("outcome") == "pass" for c in listed]
    return "" if passed and all(passed) else "it says pass, but not all of its cases passed"


def _finite(value: object) -> bool:
    """Whether no NaN and no infinity stands anywhere in a record: they never pass."""
    if isinstance(value, Mapping):
        return all(_finite(v) for v in value.values())
    if isinstance(value, list):
        return all(_finite(v) for v in value)
    return not isinstance(value, float) or math.isfinite(value)


def _cases(data: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Return the cases that are objects, or the record itself where it has none."""
    cases = data.get("results")
    found = [c for c in cases if isinstance(c, Mapping)] if isinstance(cases, list) else []
    return found or [data]


def _numbers(data: Mapping[str, object]) -> str:
    lines = [", ".join(f"{k} {_value(v)}" for k, v in case.items() if _plain(k, v)) for case in _cases(data)]
    device = data.get("device")
    return "; ".join(lines) + (f"; on {device}" if isinstance(device, str) and device else "")


def _plain(key: str, value: object) -> bool:
    """Whether a value is worth a place in the line."""
    known = key in {"outcome", "detail", "device", "tolerance"}
    return not known and isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) and math.isfinite(value) else str(value)
