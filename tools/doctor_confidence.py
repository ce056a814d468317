"""Fits how sure each row of the doctor's table is, from reports, and writes ``scripts/data/confidence.toml``.

A row's share of right first answers is estimated over threads (several reports of one thread count as one),
with a prior of 0.6 that weighs as much as three threads: with one thread a row is ``possible`` at most. What
a row answered at first sight counts in full; a report that it was written or mended with counts a quarter.
How true the words are is measured with whole threads left out: each report is judged by a fit without its
thread.

Usage: ``python -m tools.doctor_confidence [--check]`` prints that measurement.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scripts.doctor.knowledge import Confidence, knowledge
from scripts.serialize import DATA
from tests.doctor_cases import Case, cases, first_finding, reports

CONFIDENCE = DATA / "confidence.toml"
PRIOR, WEIGHT = 0.6, 3.0
#: What an answer counts that the row was written or mended with.
KNOWN = 0.25
#: The estimated share of right answers from which a word is used.
STEPS = (
    (0.9, Confidence.CERTAIN),
    (0.75, Confidence.LIKELY),
    (0.4, Confidence.POSSIBLE),
    (0.0, Confidence.WEAK),
)
_HEAD = """\
# How sure each row of knowledge.toml is, as measured on reports.
# Made by `python -m tools.generated_docs`.
# certain: an estimated share of right answers of 0.9 and more, likely: 0.75, possible: 0.4, weak: below.
# `ROW+facts`: where the machine's facts decided. A row without a report is `possible`.

version = 1

[rows]
"""


@dataclass(frozen=True)
class Judged:
    """One answer: the report, the row that gave it, whether it was right, and what it counts."""

    case: Case
    key: str
    right: bool
    counts: float


@dataclass(frozen=True)
class Word:
    """How often answers with a word were right."""

    word: Confidence
    right: int
    count: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share (Wilson)."""
        return wilson(self.right, self.count)


def wilson(right: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share."""
    if not count:
        return 0.0, 1.0
    z, share = 1.96, right / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def judged() -> list[Judged]:
    """Return every answer of today; silence is no answer to be sure of."""
    found = []
    for case in (*(case for case in cases() if case.sure), *reports()):
        finding = first_finding(case)
        if finding is not None:
            found.append(Judged(case, finding.key, case.accepts(finding.reference), KNOWN))
    return found


def at_first_sight() -> list[Judged]:
    """Return every answer of the day on which a report was first read."""
    return [Judged(case, case.first_row, case.first_right, 1.0) for case in reports() if case.first_row]


def fit(found: Iterable[Judged]) -> dict[str, Confidence]:
    """Return a word for every row that answered something first."""
    threads: dict[str, dict[tuple[str, float], list[bool]]] = defaultdict(lambda: defaultdict(list))
    for item in found:
        threads[item.key][item.case.thread, item.counts].append(item.right)
    words = {}
    for key, by_thread in threads.items():
        right = sum(counts * sum(answers) / len(answers) for (_, counts), answers in by_thread.items())
        total = sum(counts for _, counts in by_thread)
        words[key] = word_for((PRIOR * WEIGHT + right) / (WEIGHT + total))
    return words


def word_for(share: float) -> Confidence:
    """Return the word for an estimated share of right answers."""
    return next(word for least, word in STEPS if share >= least - 1e-9)


def measured_words(answers: Iterable[Judged], known: Sequence[Judged]) -> list[Word]:
    """Return how true each word is, every answer judged by a fit without its thread."""
    counts: dict[Confidence, list[bool]] = defaultdict(list)
    for item in answers:
        others = [other for other in known if other.key == item.key and other.case.thread != item.case.thread]
        counts[fit(others).get(item.key, Confidence.POSSIBLE)].append(item.right)
    return [Word(word, sum(counts[word]), len(counts[word])) for _, word in STEPS]


def text_of(words: Mapping[str, Confidence]) -> str:
    """Write the table."""
    return _HEAD + "".join(f'"{key}" = "{word.value}"\n' for key, word in sorted(words.items()))


def write(*, check: bool) -> bool:
    """Write the words, or only compare them; true when they were up to date."""
    text = text_of(fit([*judged(), *at_first_sight()]))
    current = CONFIDENCE.read_text(encoding="utf-8") if CONFIDENCE.exists() else ""
    if not check and current != text:
        CONFIDENCE.write_text(text, encoding="utf-8", newline="\n")
        knowledge.cache_clear()
        first_finding.cache_clear()
    return current == text


def main() -> int:
    """Print how true the words are, today and at first sight."""
    up_to_date = write(check="--check" in sys.argv)
    known = [*judged(), *at_first_sight()]
    for name, answers in (("today", judged()), ("first sight", at_first_sight())):
        for line in measured_words(answers, known):
            low, high = line.interval
            print(f"{name:12} {line.word.value:9} {line.right:4} of {line.count:4}   {low:.2f} to {high:.2f}")
    return int("--check" in sys.argv and not up_to_date)


if __name__ == "__main__":
    sys.exit(main())
