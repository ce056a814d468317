"""Run records, and CSV of trials: each trial and iteration, under which conditions, and whether it was right.

A *trial* is one process run; its *iterations* are what it measured, in order. A record is a JSON file
after ``data/schemas/record-1.json``; a CSV file with the columns ``runtime,trial,iteration`` and one
column a metric is read as well. What could not be found out is the word ``unknown``; it equals nothing.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from msgspec import Struct, convert, field
from msgspec.structs import replace

from scripts.errors import UsageError
from scripts.evidence.schema_check import first_fault, is_newer
from scripts.osal.fs import read_bounded, write_atomic
from scripts.serialize import parse_json, pick

FORMAT: Final = 1
SCHEMA: Final = Path(__file__).resolve().parents[1] / "data" / "schemas" / f"record-{FORMAT}.json"
MAX_BYTES: Final = 64 * 1024 * 1024
UNKNOWN: Final = "unknown"
#: What the CPU reference's figures are measured on, among the conditions: no GPU.
SIMULATED: Final = "none (simulated on the CPU)"
HIGHER: Final = "higher"
LOWER: Final = "lower"


class Metric(Struct, frozen=True, kw_only=True):
    """One figure that a workload measures; ``better`` is ``higher``, ``lower`` or empty where unknown."""

    name: str
    better: str
    unit: str = ""


class Trial(Struct, frozen=True, kw_only=True):
    """One process run.

    Attributes:
        runtime: the label of what it ran under.
        number: counts the trials of that runtime from 1; equal numbers make a pair.
        right: whether its answer was the known one and it ended cleanly; ``None`` where unknown.
        answer: the answer, or why there is none.
        iterations: what it measured in its steady state, in order; every value is finite.
        first: what it measured in its first update, which loads and compiles; empty where unknown.
        state: what the machine was like just then: clocks, power.
        started: when, in UTC, or ``unknown``.
        seconds: how long the whole process took; ``None`` where unknown.
    """

    runtime: str
    number: int = field(name="trial")
    right: bool | None
    iterations: tuple[Mapping[str, float], ...]
    first: Mapping[str, float] = {}
    answer: str = ""
    state: Mapping[str, str] = {}
    started: str = UNKNOWN
    seconds: float | None = None


class Runs(Struct, frozen=True, kw_only=True):
    """One record: trials of one workload, perhaps under several runtimes.

    ``conditions`` holds the fixed facts of each runtime; its order is the record's own. ``primary`` may
    be empty (a CSV file names none); ``baseline`` too.
    """

    workload: str
    size: str
    metrics: Mapping[str, Metric]
    conditions: Mapping[str, Mapping[str, str]] = field(name="runtimes")
    trials: tuple[Trial, ...]
    primary: str = ""
    baseline: str = ""
    warmup: int = 0
    created: str = UNKNOWN
    notes: tuple[str, ...] = ()

    def of(self, runtime: str) -> tuple[Trial, ...]:
        """Return the trials of one runtime, by number."""
        return tuple(sorted((t for t in self.trials if t.runtime == runtime), key=lambda t: t.number))


def to_json(runs: Runs) -> dict[str, object]:
    """Return a record as plain JSON data."""
    trial = "runtime trial=number started seconds right answer state iterations first"
    return {
        "format": FORMAT,
        **pick(runs, "created workload size primary baseline warmup runtimes=conditions notes"),
        "metrics": {metric.name: pick(metric, "better unit") for metric in runs.metrics.values()},
        "trials": [pick(each, trial) for each in runs.trials],
    }


def write_record(path: Path, runs: Runs) -> Path:
    """Write a record, atomically."""
    text = json.dumps(to_json(runs), indent=1, ensure_ascii=True, allow_nan=False)
    write_atomic(path, (text + "\n").encode("ascii"))
    return path


def read_record(path: Path) -> Runs:
    """Read a record that anyone may have made.

    Raises:
        UsageError: ``record-unreadable``, ``record-invalid`` or ``record-newer``.
    """
    text = read_text(path)
    try:
        data = parse_json(text.encode())
    except ValueError as error:
        _refuse(path, f"it is not JSON: {str(error)[:120]}")
    return from_json(data, origin=path)


def from_json(data: object, *, origin: Path) -> Runs:
    """Check the schema, then what a schema cannot say.

    Raises:
        UsageError: ``record-invalid`` or ``record-newer``.
    """
    if isinstance(data, dict) and is_newer(data, FORMAT):
        msg = f"{origin.name} has format {data['format']}; this workspace reads {FORMAT}"
        raise UsageError("record-newer", msg, hint="update the workspace, then compare again")
    fault = first_fault(data, SCHEMA)
    if fault is not None:
        _refuse(origin, f"{fault[0]}: {fault[1][:120]}")
    assert isinstance(data, dict)  # noqa: S101 - the schema has checked it
    metrics = {name: {"name": name, **metric} for name, metric in data["metrics"].items()}
    runs = convert({**data, "metrics": metrics}, Runs)
    strange = {t.runtime for t in runs.trials} - set(runs.conditions)
    if strange:
        _refuse(origin, f"trials of a runtime without conditions: {', '.join(sorted(strange))}")
    _refuse_twins(runs, origin)
    return runs


def _refuse_twins(runs: Runs, origin: Path) -> None:
    """A trial stands in a record once, and its numbers are numbers."""
    seen: set[tuple[str, int]] = set()
    for trial in runs.trials:
        key = (trial.runtime, trial.number)
        if key in seen:
            _refuse(origin, f"trial {trial.number} of {trial.runtime} is in it twice")
        seen.add(key)
        rows = (*trial.iterations, trial.first)
        if not all(math.isfinite(value) for row in rows for value in row.values()):
            _refuse(origin, f"trial {trial.number} of {trial.runtime} holds a value that is no number")


def join(first: Runs, second: Runs) -> Runs:
    """Put two records of the same workload together; trials of a runtime they share are counted on.

    Raises:
        UsageError: ``workloads-differ``: another workload or size, so that there is nothing to compare.
    """
    for what in ("workload", "size"):
        one, other = getattr(first, what), getattr(second, what)
        if one != other:
            msg = f"the records differ in {what}: {one or UNKNOWN} and {other or UNKNOWN}"
            raise UsageError("workloads-differ", msg, hint="compare runs of one workload at one size")
    renumbered = [
        replace(t, number=t.number + max((s.number for s in first.of(t.runtime)), default=0))
        for t in second.trials
    ]
    return replace(
        first,
        trials=(*first.trials, *renumbered),
        conditions={**second.conditions, **first.conditions},
        metrics={**second.metrics, **first.metrics},
        primary=first.primary or second.primary,
        warmup=max(first.warmup, second.warmup),
        notes=(*first.notes, *second.notes),
    )


def read_text(path: Path) -> str:
    """Read a file of at most 64 MiB as UTF-8, with or without a byte order mark.

    Raises:
        UsageError: ``record-unreadable``.
    """
    try:
        return read_bounded(path, MAX_BYTES, named=True).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {error.strerror if isinstance(error, OSError) else 'not UTF-8'}"
        raise UsageError("record-unreadable", msg, hint="name a run record (.json) or a CSV file") from error


def _refuse(origin: Path, reason: str) -> NoReturn:
    raise UsageError("record-invalid", f"{origin.name} is no run record: {reason}", context=(str(origin),))


KEYS: Final = ("runtime", "trial", "iteration")
COUNT: Final = re.compile(r"0*[1-9][0-9]{0,17}")
#: What names of metrics tell about the good direction; a name that fits neither tells nothing.
MORE: Final = ("sps", "fps", "ips", "gflops", "tflops", "gbps", "throughput", "per_second")
LESS: Final = ("_s", "_ms", "_us", "_ns", "seconds", "latency", "loss", "time")


def direction_of(name: str) -> str:
    """Say by a metric's name whether more is better; empty where the name does not tell."""
    lower = name.lower()
    if lower.endswith(MORE):
        return HIGHER
    return LOWER if lower.endswith(LESS) else ""


def read_table(path: Path) -> Runs:
    """Read a CSV file; what it does not say (answers, conditions) is unknown.

    Raises:
        UsageError: ``record-unreadable`` or ``table-invalid``, naming the line.
    """
    reader = csv.DictReader(read_text(path).splitlines(), strict=True)
    try:
        columns, rows = list(reader.fieldnames or ()), list(reader)
    except csv.Error as error:
        _refuse_table(path, reader.line_num, str(error))
    names = [name for name in columns if name not in KEYS]
    if not set(KEYS) <= set(columns) or not names or len(set(columns)) < len(columns):
        _refuse_table(path, 1, f"the columns must be {', '.join(KEYS)} and one for each metric, each once")
    found: dict[tuple[str, int], dict[int, dict[str, float]]] = {}
    for line, row in enumerate(rows, start=2):
        runtime, trial, iteration, values = _row(path, line, row, names)
        iterations = found.setdefault((runtime, trial), {})
        if iteration in iterations:
            _refuse_table(path, line, f"iteration {iteration} of trial {trial} of {runtime} is in it twice")
        iterations[iteration] = values
    if not found:
        _refuse_table(path, 1, "it holds no rows")
    return Runs(
        workload=path.stem,
        size=UNKNOWN,
        metrics={name: Metric(name=name, better=direction_of(name)) for name in names},
        conditions={runtime: {} for runtime, _trial in found},
        trials=tuple(
            Trial(runtime=r, number=t, right=None, iterations=tuple(rows[i] for i in sorted(rows)))
            for (r, t), rows in found.items()
        ),
    )


def _row(
    path: Path, line: int, row: Mapping[str, str], names: Sequence[str]
) -> tuple[str, int, int, dict[str, float]]:
    if None in row or None in row.values():
        _refuse_table(path, line, "it has another number of columns than the first line")
    numbers = [row["trial"].strip(), row["iteration"].strip()]
    if not row["runtime"].strip() or not all(map(COUNT.fullmatch, numbers)):
        _refuse_table(path, line, "runtime must be a name, trial and iteration whole numbers from 1")
    values = {}
    for name in names:
        try:
            values[name] = float(row[name])
        except ValueError:
            values[name] = math.nan
        if not math.isfinite(values[name]):
            _refuse_table(path, line, f"{name} is {row[name]!r}, which is no number")
    return row["runtime"].strip(), int(numbers[0]), int(numbers[1]), values


def _refuse_table(path: Path, line: int, reason: str) -> NoReturn:
    raise UsageError("table-invalid", f"{path.name}, line {line}: {reason}", context=(str(path),))
