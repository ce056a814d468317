r"""The workloads: ours (``data/workloads.toml``), and a person's own program, described by a small TOML file.

.. code-block:: toml

    name    = "train"
    command = ["{python}", "train.py", "--steps=5"]   # relative names count from this file's folder
    timeout = 300                                     # seconds a run
    warmup  = 1                                       # first iterations of a run that do not count
    primary = "steps_per_second"

    [metrics.steps_per_second]
    better = "higher"
    regex  = "step \\d+: ([0-9.]+) it/s"              # every match on a line is one iteration

    [metrics.learn_s]
    better = "lower"
    json   = "learn_s"                                # or: a key of lines that are JSON objects

    [answer]
    regex     = "final loss ([0-9.]+)"                # the last match counts
    value     = 0.25                                  # or: equals = "some text"
    tolerance = 0.01

Reading its output: a workload without a known answer is none, so ``[answer]`` is required.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

from msgspec import Struct, convert, field

from scripts.bench.trials import HIGHER, LOWER, Metric
from scripts.errors import UsageError
from scripts.osal.fs import read_bounded
from scripts.osal.output_log import CAPTURE_CAP
from scripts.osal.process import run_captured
from scripts.osal.text import size_text
from scripts.serialize import MAX_NUMBER, MOST_DEPTH, data_table, deep_line

DEFAULT: Final = "gemm"


class Workload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program in ``scripts/inside`` that prints one marked result line with its iterations.

    Attributes:
        name: what ``--workload`` calls it.
        shows: the capability a right answer stands for.
        size: the default of ``--size``, counted in ``unit``; ``largest`` is the most it may be.
        metrics: what each iteration holds; the first one decides.
        application: whether it is a program of its own, so that a right answer and a clean end are
            ``integrated``.
        native: the program and arguments that do the same without CUDA: ``hip`` and ``cpu``.
    """

    name: str
    script: str
    shows: str
    size: int
    largest: int
    unit: str
    metrics: tuple[Metric, ...]
    arguments: tuple[str, ...] = ()
    application: bool = False
    native: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@cache
def workloads() -> Mapping[str, Workload]:
    """Return ours by name, in the file's order."""
    measured: dict[str, object] = {}
    found = {}
    for table in data_table("workloads.toml")["workload"]:
        row = {key: value for key, value in table.items() if key != "like"}
        row["metrics"] = measured[table["name"]] = table.get("metrics") or measured[table["like"]]
        found[table["name"]] = convert(row, Workload)
    return found


def find_workload(name: str) -> Workload:
    """Return a workload of ours.

    Raises:
        UsageError: there is none of that name.
    """
    known = workloads().get(name or DEFAULT)
    if known is None:
        msg = f"there is no workload {name!r}"
        hint = f"use one of: {', '.join(workloads())}; or a file of your own, ending in .toml"
        raise UsageError("no-such-workload", msg, hint=hint)
    return known


KEYS: Final = {"name", "command", "timeout", "warmup", "primary", "metrics", "answer"}
NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,60}", re.IGNORECASE)
SECONDS: Final = 300.0
#: Bytes of a description.
MOST_BYTES: Final = 1024 * 1024
#: Seconds that one pattern has for one output; some patterns take years for a line of forty characters.
SEARCH_SECONDS: Final = 20.0
#: Python cannot stop a search of its own, so another process searches.
_SEARCH: Final = (
    "import json, re, sys\n"
    "pattern, output = json.loads(sys.stdin.buffer.read())\n"
    "found = [m[1] for line in output.splitlines() for m in re.finditer(pattern, line) if m[1] is not None]\n"
    "print(json.dumps(found))\n"
)


class Finder(Struct, frozen=True, kw_only=True):
    """Where a figure is in the output: the first group of a pattern, or a key of JSON lines."""

    regex: re.Pattern[str] | None = None
    key: str = ""

    def find(self, output: str, environ: Mapping[str, str]) -> list[str]:
        """Return what is found, in order; a process that searches gets ``environ``.

        Raises:
            ValueError: the pattern takes too long or finds too much.
        """
        if self.regex is not None:
            return _search(self.regex.pattern, output, environ)
        lines = (line for line in output.splitlines() if line.lstrip().startswith("{"))
        values = [_object(line).get(self.key) for line in lines]
        return [str(v) for v in values if isinstance(v, (int, float, str)) and not isinstance(v, bool)]


class WorkloadAnswer(Struct, frozen=True, kw_only=True):
    """What must come out: a text, or a number within a tolerance."""

    finder: Finder
    equals: str | None = None
    value: float = math.nan
    tolerance: float = 0.0

    def judge(self, output: str, environ: Mapping[str, str]) -> tuple[bool, str | None]:
        """Say whether the answer is right, and what it was; ``None`` where there is none.

        Raises:
            ValueError: its pattern takes too long.
        """
        found = self.finder.find(output, environ)
        if not found:
            return False, None
        if self.equals is not None:
            return found[-1] == self.equals, found[-1]
        number = number_of(found[-1])
        return abs(number - self.value) <= self.tolerance, found[-1]  # NaN is within no tolerance


class OwnWorkload(Struct, frozen=True, kw_only=True):
    """A program of the user's, how it is started and read."""

    name: str
    command: tuple[str, ...]
    folder: Path
    timeout: float
    warmup: int
    primary: str
    metrics: Mapping[str, Metric]
    finders: Mapping[str, Finder]
    answer: WorkloadAnswer

    def iterations(self, output: str, environ: Mapping[str, str]) -> tuple[dict[str, float], ...]:
        """Read every metric; the n-th finding of each is its n-th iteration.

        Raises:
            ValueError: none is found, one more often than another, one is no number, or a pattern takes
                too long.
        """
        texts = {name: finder.find(output, environ) for name, finder in self.finders.items()}
        found = {name: list(map(number_of, words)) for name, words in texts.items()}
        counts = {name: len(values) for name, values in found.items()}
        if len(set(counts.values())) != 1:
            msg = f"its metrics are not found equally often: {counts}"
            raise ValueError(msg)
        if not any(counts.values()):
            msg = "no metric found in the program's output"
            raise ValueError(msg)
        rows = tuple(dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True))
        if not all(math.isfinite(value) for row in rows for value in row.values()):
            msg = "one of its figures is no number"
            raise ValueError(msg)
        return rows


def read_own_workload(path: Path) -> OwnWorkload:
    """Read a description.

    Raises:
        UsageError: ``workload-unreadable`` or ``workload-invalid``, naming the key.
    """
    try:
        text = read_bounded(path, MOST_BYTES, named=True).decode()
        data = {} if (number := deep_line(text)) else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:  # a TOML or Unicode error is a ValueError
        hint = "see docs/comparing.md for how such a file is written"
        raise UsageError("workload-unreadable", f"{path} cannot be read: {error}", hint=hint) from error
    if number:
        _refuse(path, f"line {number}", f"keys of at most {MOST_DEPTH} levels")
    _only(path, "", data, KEYS)
    name, command = data.get("name"), data.get("command")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        _refuse(path, "name", "letters, digits, dots, dashes")
    if not isinstance(command, list) or not command or not all(map(_is_word, command)):
        _refuse(path, "command", "a list of texts, the program first")
    metrics, finders = _metrics(path, data.get("metrics"))
    if not isinstance(data.get("primary"), str) or data["primary"] not in metrics:
        _refuse(path, "primary", f"one of {', '.join(metrics)}")
    warmup = data.get("warmup", 0)
    if not isinstance(warmup, int) or isinstance(warmup, bool) or warmup < 0:
        _refuse(path, "warmup", "a whole number from 0")
    return OwnWorkload(
        name=name,
        command=tuple(command),
        folder=path.absolute().parent,
        timeout=_number(path, "timeout", data.get("timeout", SECONDS), above=0),
        warmup=warmup,
        primary=data["primary"],
        metrics=metrics,
        finders=finders,
        answer=_answer(path, data.get("answer")),
    )


def _metrics(path: Path, data: object) -> tuple[dict[str, Metric], dict[str, Finder]]:
    if not isinstance(data, dict) or not data:
        _refuse(path, "metrics", "at least one table [metrics.NAME]")
    metrics, finders = {}, {}
    for name, table in data.items():
        where = f"metrics.{name}"
        _only(path, where, table, {"better", "unit", "regex", "json"})
        if table.get("better") not in (HIGHER, LOWER) or not isinstance(table.get("unit", ""), str):
            _refuse(path, f"{where}.better", f'"{HIGHER}" or "{LOWER}"')
        metrics[name] = Metric(name=name, better=table["better"], unit=table.get("unit", ""))
        finders[name] = _finder(path, where, table)
    return metrics, finders


def _answer(path: Path, table: object) -> WorkloadAnswer:
    if not isinstance(table, dict):
        _refuse(path, "answer", "a table: how the known answer is found, and what it is")
    _only(path, "answer", table, {"regex", "json", "equals", "value", "tolerance"})
    finder = _finder(path, "answer", table)
    if ("equals" in table) == ("value" in table):
        _refuse(path, "answer", "either equals (a text) or value (a number)")
    if "equals" in table:
        if not isinstance(table["equals"], str) or "tolerance" in table:
            _refuse(path, "answer.equals", "a text, without a tolerance")
        return WorkloadAnswer(finder=finder, equals=table["equals"])
    value = _number(path, "answer.value", table["value"])
    tolerance = _number(path, "answer.tolerance", table.get("tolerance", 0), above=-1e-300)
    return WorkloadAnswer(finder=finder, value=value, tolerance=tolerance)


def _finder(path: Path, where: str, table: Mapping[str, object]) -> Finder:
    """Read how one figure is found."""
    regex, key = table.get("regex"), table.get("json")
    if (regex is None) == (key is None):
        _refuse(path, where, "either regex or json")
    if isinstance(key, str):
        return Finder(key=key)
    try:
        pattern = re.compile(regex if isinstance(regex, str) else "")
    except (re.error, OverflowError, RecursionError) as error:
        _refuse(path, f"{where}.regex", f"a regular expression ({error})")
    if pattern.groups != 1:
        _refuse(path, f"{where}.regex", "a regular expression with one group around the figure")
    return Finder(regex=pattern)


def _only(path: Path, where: str, table: object, known: set[str]) -> None:
    """Refuse keys that mean nothing here: a misspelt one would be ignored silently."""
    if not isinstance(table, dict):
        _refuse(path, where, "a table")
    for key in table:
        if key not in known:
            _refuse(path, f"{where}.{key}".lstrip("."), f"no such key; known: {', '.join(sorted(known))}")


def _number(path: Path, where: str, value: Any, *, above: float = -math.inf) -> float:  # noqa: ANN401 - TOML
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _refuse(path, where, "a number")
    if not above < value <= MAX_NUMBER:
        _refuse(path, where, "a number in its range")
    return float(value)


def _is_word(word: object) -> bool:
    return isinstance(word, str) and "\0" not in word


def _search(pattern: str, output: str, environ: Mapping[str, str]) -> list[str]:
    """Return the first group of every match in every line."""
    line = [sys.executable, "-I", "-S", "-c", _SEARCH]
    request = json.dumps([pattern, output]).encode()
    done = run_captured(line, env=environ, timeout=SEARCH_SECONDS, stdin=request)
    if done.timed_out:
        msg = f"the pattern {pattern!r} takes more than {SEARCH_SECONDS:g} s for the program's output"
        raise ValueError(msg)
    if done.returncode:
        msg = f"the search with the pattern {pattern!r} ended with {done.returncode}"
        raise ValueError(msg)
    if len(done.stdout) >= CAPTURE_CAP:
        msg = f"the pattern {pattern!r} finds too much: more than {size_text(CAPTURE_CAP)}"
        raise ValueError(msg)
    found: list[str] = json.loads(done.stdout)
    return found


def _object(line: str) -> dict[str, object]:
    """Read a line as a JSON object; anything else is an empty one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def number_of(text: str) -> float:
    """Read a number; what is none is ``nan``."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.nan


def _refuse(path: Path, where: str, expected: str) -> NoReturn:
    msg = f"{path.name}: {where}: {expected}"
    raise UsageError("workload-invalid", msg, hint="see docs/comparing.md for a whole description")
