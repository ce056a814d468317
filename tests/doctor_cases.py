"""Real reports from public trackers: what was printed, and which kind of failure it turned out to be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from scripts.doctor.diagnose import Finding, diagnose
from scripts.doctor.machine import Facts

DATA = Path(__file__).parent / "data"
#: Architectures of integrated GPUs.
INTEGRATED = frozenset({"gfx1035", "gfx1036", "gfx1103", "gfx1150", "gfx1151", "gfx90c", "gfx902"})
#: Where the thread does not tell the cause, silence is right.
NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One report.

    ``also``: what is defensible too. ``sure``: whoever read the thread is confident of the kind, at least
    fairly. ``round``: which later gathering it is from; the rules had not seen it when it was labelled.
    ``first_row``: what answered it at first sight, before any row was mended, ``first_right``: rightly.
    """

    id: str
    source: str
    kind: str
    text: str
    sure: bool = True
    also: tuple[str, ...] = ()
    facts: Facts = field(default_factory=Facts)
    round: str = ""
    first_row: str = ""
    first_right: bool = False

    @property
    def thread(self) -> str:
        """The thread it is from; several reports of one thread are no independent evidence."""
        return self.source.partition(" ")[0]

    def accepts(self, reference: str) -> bool:
        """Whether an answer is right, strictly or defensibly; an empty one is silence."""
        return (reference or NONE) in {self.kind, *self.also}


@cache
def cases() -> tuple[Case, ...]:
    """Read the short reports with what is known of their machines."""
    return tuple(_case(row) for row in _rows("cases.jsonl"))


@cache
def reports() -> tuple[Case, ...]:
    """Read the reports as somebody would paste them, of whose machines nothing else is known."""
    return tuple(
        Case(
            id=row["id"],
            source=row["source"],
            kind=row["kind"],
            also=tuple(row["also"]),
            text=row["text"],
            round=row["round"],
            first_row=row["first_sight"]["row"],
            first_right=row["first_sight"]["right"],
        )
        for row in _rows("reports.jsonl")
    )


def ordinary() -> list[Path]:
    """Return logs of programs in which nothing failed that concerns us."""
    return sorted((DATA / "ordinary_logs").glob("*.txt"))


def _rows(name: str) -> Iterable[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def _case(row: dict[str, Any]) -> Case:
    gfx = tuple(re.findall(r"gfx\w+", row["gfx"]))
    both = len(gfx) > 1 and len({name in INTEGRATED for name in gfx}) > 1
    named = bool(re.search(r"igpu.*\+|\+.*igpu", row["gpu"].lower()))
    return Case(
        id=row["id"],
        source=row["source"],
        kind=row["kind"],
        sure=row["confidence"] in {"high", "med"},
        text=row["text"],
        round=row.get("round", ""),
        facts=Facts(
            os="windows" if row["os"].startswith("Windows") else "linux" if "inux" in row["os"] else "",
            amd=True,
            gfx=gfx,
            hip=tuple(re.findall(r"\d+\.\d+(?:\.\d+)?", row["hip"])),
            mixed=both or named if gfx or named else None,
        ),
    )


@cache
def first_finding(case: Case) -> Finding | None:
    """Return what the doctor says first of a report, with its machine's facts in mind."""
    return next(iter(diagnose(case.text, case.facts)), None)


def score(found: Iterable[Case], *, facts: bool) -> tuple[int, int, int]:
    """Return how many are right first, right in the first two, and how many there are."""
    references = [(case, _named(case, facts=facts)) for case in found]
    first = sum(1 for case, names in references if names[:1] == [case.kind])
    two = sum(1 for case, names in references if case.kind in names[:2])
    return first, two, len(references)


def _named(case: Case, *, facts: bool) -> Sequence[str]:
    return [finding.reference for finding in diagnose(case.text, case.facts if facts else None)]
