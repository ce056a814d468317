"""Writes docs/diagnoses.md from the rules and the reports: kinds, causes, fixes, and cases × findings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scripts.doctor.knowledge import REFERENCES, Cause, Confidence, knowledge
from tests.doctor_cases import NONE, Case, cases, first_finding, reports, score
from tools import keep_page
from tools.doctor_confidence import at_first_sight, judged, measured_words, wilson

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
    return keep_page(PAGE, _page(), check=check)


def _page() -> Iterator[str]:
    found = cases()
    sure = [case for case in found if case.sure]
    first, two, count = score(sure, facts=True)
    plain, _, _ = score(sure, facts=False)
    yield "# Diagnoses"
    yield ""
    yield "Made by `python -m tools.generated_docs` from the table (`scripts/data/knowledge.toml`), its"
    yield "measured confidence (`scripts/data/confidence.toml`) and the reports (`tests/data/cases.jsonl`,"
    yield "`reports.jsonl`)."
    yield ""
    yield "`invoke doctor --log=FILE` first reads what happened (codes, names of what is missing, phrases,"
    yield "surroundings; `--json` shows this event), then names a kind of failure and what to do. Where no"
    yield "cause is known it says what the codes and names mean, and that it is no diagnosis."
    yield "`invoke doctor --code=700` (or `0xC0000139`, `CUBLAS_STATUS_NOT_SUPPORTED`, `-1073741515`)"
    yield "explains one status code."
    yield ""
    yield from _confidence()
    yield f"Of {count} short reports whose cause is known well, the right kind is named first for {first},"
    yield f"and among the first two for {two}; from the text alone, without the machine's facts, first"
    yield f"for {plain}. The table has seen these reports. What was said of reports that it had not"
    yield "seen was measured whenever some were gathered, labelled from their threads before the doctor read"
    yield "them:"
    yield ""
    yield "| reports | right first at once | in the first two | after the table was mended |"
    yield "|---|---|---|---|"
    yield from BLIND
    yield from _rounds()
    yield ""
    yield "From round 2 on a defensible answer is right too, and silence where the thread does not tell the"
    yield "cause. Row (7) is the figure to expect of a new report: its reports were read once, before"
    yield "anything was mended with them. Texts, labels and rows are by one hand, and the texts are short."
    yield ""
    for reference in REFERENCES:
        yield from _kind(reference)
    yield "## Cases"
    yield ""
    yield "| report | kind | what the doctor says | confidence | text |"
    yield "|---|---|---|---|---|"
    order = (*REFERENCES, NONE)
    for case in sorted((*found, *reports()), key=lambda case: (order.index(case.kind), case.source, case.id)):
        yield _row(case)


def _rounds() -> Iterator[str]:
    titles = {
        "2": "as they were pasted (2)",
        "3": "as they were pasted (3)",
        "4": "of kinds that were new then (4)",
        "5": "as they were pasted (5)",
        "6": "of ROCm, JAX, Julia, CuPy, ONNX Runtime and others (6)",
        "7": "the other half of these, read after the table was mended with (6)",
    }
    for name, title in titles.items():
        some = [case for case in reports() if case.round == name]
        right = sum(case.first_right for case in some)
        now = sum(
            case.accepts(finding.reference if (finding := first_finding(case)) else "") for case in some
        )
        low, high = wilson(right, len(some))
        share = f"{right} of {len(some)} ({low:.0%} to {high:.0%})"
        yield f"| {len(some)} {title} | {share} | | {now} |"


def _confidence() -> Iterator[str]:
    """Say how often each word was right."""
    known = [*judged(), *at_first_sight()]
    yield "How sure an answer is stands there as a word. How often each word was right, every report judged"
    yield "by a fit without its thread, with 95 % intervals (*at first sight*: before the table was mended):"
    yield ""
    yield "| word | at first sight | today |"
    yield "|---|---|---|"
    today = {line.word: line for line in measured_words(judged(), known)}
    for line in measured_words(at_first_sight(), known):
        cells = []
        for one in (line, today[line.word]):
            low, high = one.interval
            cells.append(f"{one.right} of {one.count} ({low:.0%} to {high:.0%})" if one.count else "none")
        yield f"| {line.word.value} | {cells[0]} | {cells[1]} |"
    yield f"| {Confidence.UNKNOWN.value} | no cause is named | |"
    yield ""
    yield "The left column is the one to expect. A row that one report speaks for is `possible` at most."
    yield ""


def _kind(reference: str) -> Iterator[str]:
    yield f"## {reference}"
    yield ""
    causes = [cause for cause in knowledge().causes if cause.reference == reference]
    for cause in causes:
        if not cause.id.startswith("told-"):
            yield from _cause(cause)


def _cause(cause: Cause) -> Iterator[str]:
    word = knowledge().measured.get(cause.id, Confidence.POSSIBLE)
    yield f"**{cause.id}** ({cause.rank}, measured: {word.value}): {_plain(cause.cause)}"
    yield ""
    yield from (f"{number}. {_plain(step)}" for number, step in enumerate(cause.fix, start=1))
    yield ""
    if cause.cause_rocm or cause.fix_rocm:
        yield f"With AMD's own software in place of a layer: {_plain(cause.cause_rocm)}".rstrip()
        yield ""
        yield from (f"{number}. {_plain(step)}" for number, step in enumerate(cause.fix_rocm, start=1))
        yield ""
    if cause.tell:
        yield f"What would tell: {'; '.join(cause.tell)}."
        yield ""
    yield f"Seen in: {', '.join(cause.source)}."
    yield ""


def _plain(text: str) -> str:
    """Put words where a report's names will stand."""
    for hole, word in (
        ("{object}", "OBJECT"),
        ("{owner}", "OWNER"),
        ("{status}", "CODE"),
        ("{library}", "library"),
    ):
        text = text.replace(hole, word)
    return text


def _row(case: Case) -> str:
    finding = first_finding(case)
    said = f"{finding.reference} ({finding.rule})" if finding else "nothing"
    mark = "" if case.accepts(finding.reference if finding else "") else " ✗"
    confidence = finding.confidence.value if finding else ""
    return f"| {case.source} | {case.kind} | {said}{mark} | {confidence} | {_cell(case.text)} |"


def _cell(text: str) -> str:
    flat = " / ".join(text.split("\n")).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    return flat if len(flat) <= _LONGEST else f"{flat[:_LONGEST].rstrip(chr(92))}…"
