"""The record a workload leaves: one line on stderr, ``@@cuda-amd-result {json}``.

The line's object names the ``workload`` and whether its ``answer`` was right; everything else it says
(shape, tolerance, error, GFLOP/s) is kept as it is. What a run is worth:

* numbers compared with a reference and right: ``functional`` for the call family it used
  (a GEMM is a call family, however fast it ran);
* ``integrated`` only for a workload that is a program of its own (``kind: application``), whose known
  answer came out *and* whose process exited cleanly;
* a right answer followed by a hang or a crash stays ``functional`` and says so;
* a wrong answer is ``incorrect``, at ``loadable``; so is one with a NaN in it, whatever it says of itself;
* no answer shows nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scripts.model import CapabilityResult, Level, Outcome
from scripts.reporting.checklines import decode
from scripts.reporting.cudacheck import describe_exit

MARK: Final = "@@cuda-amd-result"
MAX_LINE: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Record:
    """What one run of a workload said; with a ``fault`` there is no usable record and ``data`` is empty."""

    data: Mapping[str, object]
    fault: str = ""


def parse_record(stderr: bytes | str) -> Record:
    """Find the one record in a workload's stderr, whatever else stands there; never raises.

    No line, more than one, or a line that is not one JSON object: a fault.
    """
    text = decode(stderr)
    found = [line[line.index(MARK) + len(MARK) :].strip() for line in text.splitlines() if MARK in line]
    if len(found) != 1:
        return Record(
            data={}, fault="it printed no result" if not found else f"it printed {len(found)} results"
        )
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
    record: Record, *, capability: str, exit_code: int | None, timed_out: bool, application: bool = False
) -> CapabilityResult:
    """Judge one run of a workload by the rules above.

    Args:
        record: what it said. ``ok`` must be ``true`` for a right answer, ``false`` for a wrong one;
            ``error`` (a text) says that it gave up before an answer.
        capability: the call family or application the run stands for.
        exit_code: the process's exit code, ``None`` if we ended it.
        timed_out: whether we ended it.
        application: whether it is a real program, so that it can show ``integrated``.
    """
    outcome, level, detail = _answer(record)
    if outcome is not None and outcome is not Outcome.PASS:
        return CapabilityResult(capability=capability, level=level, outcome=outcome, detail=detail)
    right = outcome is Outcome.PASS
    if timed_out:
        outcome = Outcome.HANG_AFTER_RESULT if right else Outcome.TIMEOUT
        detail = f"{detail}; then it did not end" if right else "time ran out before a result"
    elif exit_code != 0:
        outcome = Outcome.CRASH_AFTER_RESULT if right else Outcome.ERROR
        detail = f"{detail}; then it ended with {describe_exit(exit_code)}" if right else (
            f"it ended with {describe_exit(exit_code)} and {record.fault}"
        )  # fmt: skip
    elif not right:
        outcome, detail = Outcome.ERROR, record.fault
    elif application:
        level = Level.INTEGRATED
    return CapabilityResult(
        capability=capability, level=level if right else None, outcome=outcome or Outcome.ERROR, detail=detail
    )


def _answer(record: Record) -> tuple[Outcome | None, Level | None, str]:
    """Read the answer itself: ``None`` where there is none."""
    if record.fault:
        return None, None, record.fault
    data = record.data
    gave_up = data.get("error")
    if isinstance(gave_up, str) and gave_up:
        refused = data.get("refused") is True
        return (Outcome.REFUSED if refused else Outcome.ERROR), None, gave_up
    if data.get("ok") is True and not _finite(data):
        return Outcome.INCORRECT, Level.LOADABLE, f"not a number: {_numbers(data)}"
    if data.get("ok") is True:
        return Outcome.PASS, Level.FUNCTIONAL, _numbers(data)
    if data.get("ok") is False:
        return Outcome.INCORRECT, Level.LOADABLE, _numbers(data) or "the answer is wrong"
    return Outcome.ERROR, None, "its result does not say whether the answer was right"


def _finite(value: object) -> bool:
    """Whether no NaN and no infinity stands anywhere in a record: they never pass."""
    if isinstance(value, Mapping):
        return all(_finite(v) for v in value.values())
    if isinstance(value, list):
        return all(_finite(v) for v in value)
    return not isinstance(value, float) or math.isfinite(value)


def _numbers(data: Mapping[str, object]) -> str:
    """Write the plain values of a record on one line, in its own order."""
    return ", ".join(f"{key} {_value(value)}" for key, value in data.items() if _plain(key, value))


def _plain(key: str, value: object) -> bool:
    """Whether a value is worth a place in the line."""
    return key != "ok" and isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _value(value: object) -> str:
    """Write one value; six digits are enough to read."""
    return f"{value:.6g}" if isinstance(value, float) and math.isfinite(value) else str(value)
