"""Trials from a CSV file: the columns ``runtime,trial,iteration``, and one column a metric."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from scripts.errors import UsageError
from scripts.reporting.trials import HIGHER, LOWER, UNKNOWN, Metric, Runs, Trial, read_text

KEYS: Final = ("runtime", "trial", "iteration")
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
        _refuse(path, reader.line_num, str(error))
    names = [name for name in columns if name not in KEYS]
    if not set(KEYS) <= set(columns) or not names or len(set(columns)) < len(columns):
        _refuse(path, 1, f"the columns must be {', '.join(KEYS)} and one for each metric, each once")
    found: dict[tuple[str, int], dict[int, dict[str, float]]] = {}
    for line, row in enumerate(rows, start=2):
        runtime, trial, iteration, values = _row(path, line, row, names)
        iterations = found.setdefault((runtime, trial), {})
        if iteration in iterations:
            _refuse(path, line, f"iteration {iteration} of trial {trial} of {runtime} stands in it twice")
        iterations[iteration] = values
    if not found:
        _refuse(path, 1, "it holds no rows")
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
    """Read one line."""
    if None in row or None in row.values():
        _refuse(path, line, "it has another number of columns than the first line")
    numbers = [row["trial"].strip(), row["iteration"].strip()]
    if not row["runtime"].strip() or not all(text.isdecimal() and int(text) > 0 for text in numbers):
        _refuse(path, line, "runtime must be a name, trial and iteration whole numbers from 1")
    values = {}
    for name in names:
        try:
            values[name] = float(row[name])
        except ValueError:
            values[name] = math.nan
        if not math.isfinite(values[name]):
            _refuse(path, line, f"{name} is {row[name]!r}, which is no number")
    return row["runtime"].strip(), int(numbers[0]), int(numbers[1]), values


def _refuse(path: Path, line: int, reason: str) -> NoReturn:
    """Say which line is wrong, and why."""
    raise UsageError("table-invalid", f"{path.name}, line {line}: {reason}", context=(str(path),))
