"""The workloads of ours: what each one runs, shows and measures (``data/workloads.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, convert, field

from scripts.bench.trials import Metric
from scripts.errors import UsageError

FILE: Final = Path(__file__).resolve().parents[1] / "data" / "workloads.toml"
DEFAULT: Final = "gemm"


class Workload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program in ``scripts/inside`` that prints one marked result line with its iterations.

    Attributes:
        name: what ``--workload`` calls it.
        script: the program.
        shows: the capability a right answer stands for.
        size: the default of ``--size``, counted in ``unit``; ``largest`` is the most it may be.
        metrics: what each iteration holds; the first one decides.
        arguments: further arguments of the program.
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
    """Return all of them by name, in the file's order."""
    tables: list[dict[str, Any]] = tomllib.loads(FILE.read_text(encoding="utf-8"))["workload"]
    measured = {table["name"]: table.get("metrics") for table in tables}
    for table in tables:
        if "like" in table:
            table["metrics"] = measured[table.pop("like")]
    return {table["name"]: convert(table, Workload) for table in tables}


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
