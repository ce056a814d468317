"""Writes docs/diagnoses.md from the rules and the reports: kinds, causes, fixes, and cases × findings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scripts.doctor.diagnose import diagnose
from scripts.doctor.rules import REFERENCES, Cause, knowledge
from tests.doctor_cases import Case, cases, score

#: Figures of the day on which reports were gathered; the rules know them since.
BLIND = (
    "| half of 148 | 27 of 61 | | |",
    "| a quarter of 148 | 14 of 34 | | |",
    "| 30 others | 25 of 30 | | |",
    "| 63 others (A) | 47 of 63 | 49 of 63 | 63 |",
    "| 57 others (B), after A was mended | 53 of 57 (before: 39) | 55 of 57 | 56 |",
    "| 70 others, in eight rounds (D to K) | 43 of 70 | 49 of 70 | 67 |",
)
PAGE = Path(__file__).resolve().parents[1] / "docs" / "diagnoses.md"
_LONGEST = 110


def write(*, check: bool) -> bool:
    """Write the page, or only compare it; true when it was up to date."""
    text = "\n".join(_page()) + "\n"
    current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if not check and current != text:
        PAGE.write_text(text, encoding="utf-8", newline="\n")
    return current == text


def _page() -> Iterator[str]:
    found = cases()
    sure = [case for case in found if case.sure]
    first, two, count = score(sure, facts=True)
    plain, _, _ = score(sure, facts=False)
    yield "# Diagnoses"
    yield ""
    yield "Made by `python -m tools.generated_docs` from the rules (`scripts/data/knowledge.toml`)"
    yield "and the reports (`tests/data/cases.jsonl`)."
    yield ""
    yield "`invoke doctor --log=FILE` names a kind of failure, says how sure it is (0 to 1), and what to do."
    yield 'Up to 0.5 it is a guess, shown with "perhaps". A text that is not known gives no finding.'
    yield ""
    yield f"Of {count} real reports whose cause is known well, the right kind is named first for {first},"
    yield f"and among the first two for {two}; from the text alone, without the machine's facts, first"
    yield f"for {plain}. The rules have seen these reports. What they do with reports that they have not"
    yield "seen was measured whenever some were gathered, labelled from their threads before the doctor read"
    yield "them:"
    yield ""
    yield "| reports | right first at once | in the first two | after the rules were mended |"
    yield "|---|---|---|---|"
    yield from BLIND
    yield ""
    yield "Every report words its failure differently; expect of a new one what the second and third"
    yield "columns say."
    yield ""
    for reference in REFERENCES:
        yield from _kind(reference)
    yield "## Cases"
    yield ""
    yield "| report | kind | what the doctor says | confidence | text |"
    yield "|---|---|---|---|---|"
    for case in sorted(found, key=lambda case: (REFERENCES.index(case.kind), case.source, case.id)):
        yield _row(case)


def _kind(reference: str) -> Iterator[str]:
    yield f"## {reference}"
    yield ""
    causes = [cause for cause in knowledge().causes if cause.reference == reference]
    for cause in sorted(causes, key=lambda cause: -cause.confidence):
        if not cause.id.startswith("told-"):
            yield from _cause(cause)


def _cause(cause: Cause) -> Iterator[str]:
    yield f"**{cause.id}** ({cause.confidence:g}): {cause.cause}"
    yield ""
    yield from (f"{number}. {step}" for number, step in enumerate(cause.fix, start=1))
    yield ""
    if cause.tell:
        yield f"What would tell: {'; '.join(cause.tell)}."
        yield ""
    yield f"Seen in: {', '.join(cause.source)}."
    yield ""


def _row(case: Case) -> str:
    finding = next(iter(diagnose(case.text, case.facts)), None)
    said = f"{finding.reference} ({finding.rule})" if finding else "nothing"
    mark = "" if finding is None or finding.reference == case.kind else " ✗"
    confidence = f"{finding.confidence:.2f}" if finding else ""
    return f"| {case.source} | {case.kind} | {said}{mark} | {confidence} | {_cell(case.text)} |"


def _cell(text: str) -> str:
    flat = " / ".join(text.split("\n")).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    return flat if len(flat) <= _LONGEST else f"{flat[:_LONGEST].rstrip(chr(92))}…"
