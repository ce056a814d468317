"""Real reports from public trackers: what was printed, and which kind of failure it turned out to be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.doctor.diagnose import diagnose
from scripts.doctor.facts import Facts

DATA = Path(__file__).parent / "data"
#: Architectures of integrated GPUs.
INTEGRATED = frozenset({"gfx1035", "gfx1036", "gfx1103", "gfx1150", "gfx1151", "gfx90c", "gfx902"})


@dataclass(frozen=True, kw_only=True)
class Case:
    """One report.

    ``sure``: whoever read the thread is confident of the kind, at least fairly. ``round``: which later
    gathering it is from; the rules had not seen it when it was labelled.
    """

    id: str
    source: str
    kind: str
    sure: bool
    text: str
    facts: Facts
    round: str = ""


def cases() -> list[Case]:
    """Read all reports."""
    lines = (DATA / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [_case(json.loads(line)) for line in lines]


def ordinary() -> list[Path]:
    """Return logs of programs in which nothing failed that concerns us."""
    return sorted((DATA / "ordinary_logs").glob("*.txt"))


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


def score(found: Iterable[Case], *, facts: bool) -> tuple[int, int, int]:
    """Return how many are right first, right in the first two, and how many there are."""
    references = [(case, _named(case, facts=facts)) for case in found]
    first = sum(1 for case, names in references if names[:1] == [case.kind])
    two = sum(1 for case, names in references if case.kind in names[:2])
    return first, two, len(references)


def _named(case: Case, *, facts: bool) -> Sequence[str]:
    return [finding.reference for finding in diagnose(case.text, case.facts if facts else None)]
