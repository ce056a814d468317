"""From a program's words to findings, best first. Pure; a text that is not known gives none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from scripts.doctor.facts import Facts, holds, with_text
from scripts.doctor.reading import Reading, read
from scripts.doctor.rules import Cause, Knowledge, knowledge

#: Below this a guess is not worth a person's time.
LEAST: Final = 0.15
#: Above this a finding is more likely than not.
SURE: Final = 0.5
#: Findings that are shown, and lines of evidence for each.
MOST: Final = 5
EVIDENCE: Final = 3
#: The messages that say whose hardware and software this is about.
CONTEXT: Final = "amd"
OTHER: Final = "nvidia"
#: Words of lines that may name a GPU or a HIP version.
NAMING: Final = ("gfx", "radeon", "rx ", "rocm", "hip")
_WIDTH: Final = 300
#: What is longer, or names an error as programs do, is no person's sentence.
_SENTENCE: Final = 400
_PROGRAM: Final = re.compile(
    r"(?:error|exception|warning)\b[:(]|^\s*traceback|\blevel=|\bmsg=|^\[?\d{4}-\d\d-\d\d", re.MULTILINE
)
#: Up to this length a person's sentences are looked for among a program's lines; they are guesses then.
_MIXED: Final = 6000
_WORDS: Final = re.compile(r"^\W{0,3}[^\W\d_][\w'.]*(?:[ ,;:'()-]+\w[\w'.%]*){4,}")
#: What a forum's form puts around a person's words: fences, headings, boxes to tick.
_FORM: Final = re.compile(
    r"^\s*(?:```.*|~~~.*|#{1,6} .*|[-*] \[[ x]\].*|</?(?:details|summary)>.*)$", re.IGNORECASE
)
#: Sentences a person writes: a few of any shape, some more where each is one.
_FEW: Final = 2
_LINES: Final = 8
_SIGNS: Final = re.compile(r"[=/{}\[\]|<>]")
_HEARSAY: Final = 0.45


class Finding(Struct, frozen=True, kw_only=True):
    """One explanation.

    Attributes:
        reference: the kind of failure.
        rule: the rule that says so.
        confidence: 0 to 1.
        evidence: lines of the text, with their numbers.
        cause: what happened, in one or two sentences.
        fix: what to do, the first things first.
        tell: what would tell this cause from the others of the same message.
        docs: where the kind is described.
    """

    reference: str
    rule: str
    confidence: float
    evidence: tuple[str, ...]
    cause: str
    fix: tuple[str, ...]
    tell: tuple[str, ...] = ()
    docs: str = ""

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {
            "reference": self.reference,
            "rule": self.rule,
            "confidence": round(self.confidence, 2),
            "evidence": list(self.evidence),
            "cause": self.cause,
            "fix": list(self.fix),
            "tell": list(self.tell),
            "docs": self.docs,
        }


class Heard(Struct, frozen=True, kw_only=True):
    """Which messages a text holds: by name, the positions of lines that show it.

    ``hearsay`` names those that are only a person's words between a program's.
    """

    reading: Reading
    messages: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    hearsay: frozenset[str] = frozenset()


def diagnose(
    data: bytes | str, facts: Facts | None = None, *, rules: Knowledge | None = None
) -> tuple[Finding, ...]:
    """Explain a program's output; nothing where nothing is known.

    Args:
        data: the text, in whatever encoding.
        facts: what is known of the machine it comes from; what the text itself tells goes before.
        rules: other rules than ours.
    """
    known = rules or knowledge()
    raw = data.encode("utf-8", errors="replace") if isinstance(data, str) else data
    heard = listen(read(raw, known.strong), known)
    if not heard.messages:
        return ()
    told = with_text(facts or Facts(), _about_machine(heard.reading))
    context = CONTEXT in heard.messages or (bool(told.amd) and OTHER not in heard.messages)
    fitting_ones = [cause for cause in known.causes if _fits(cause, heard)]
    found = [(_weigh(cause, heard, told, context=context), cause.confidence) for cause in fitting_ones]
    ranked = sorted(found, key=lambda pair: (-pair[0].confidence, -pair[1]))
    return _one_of_each([finding for finding, _ in ranked if finding.confidence >= LEAST])[:MOST]


def fitting(data: bytes | str, *, rules: Knowledge | None = None) -> tuple[str, ...]:
    """Return the rules whose messages a text holds, whatever they are worth."""
    known = rules or knowledge()
    raw = data.encode("utf-8", errors="replace") if isinstance(data, str) else data
    heard = listen(read(raw, known.strong), known)
    return tuple(cause.id for cause in known.causes if _fits(cause, heard))


def listen(reading: Reading, rules: Knowledge) -> Heard:
    """Find which messages a text holds."""
    found: dict[str, tuple[int, ...]] = {}
    lines: dict[str, tuple[int, ...]] = {}
    spoken = _is_spoken(reading.text)
    mixed = not spoken and len(reading.text) <= _MIXED
    for message in rules.messages.values():
        if message.told and not spoken and (message.topic or not mixed):
            continue
        for word in message.words:
            if word not in lines:
                lines[word] = tuple(reading.holding(word))
        candidates = sorted({line for word in message.words for line in lines[word]})
        if not message.words:
            candidates = list(range(len(reading.plain)))
        if message.told and mixed:
            candidates = [i for i in candidates if _is_sentence(reading.plain[i])]
        hits = [i for i in candidates if message.in_line(reading.plain[i])]
        if hits:
            found[message.name] = tuple(hits)
    told = {name for name in found if rules.messages[name].told}
    return Heard(reading=reading, messages=found, hearsay=frozenset(told if mixed else ()))


def _about_machine(reading: Reading) -> list[str]:
    """Return the lines that may name a GPU or a HIP version."""
    return [reading.plain[i] for i in sorted({i for word in NAMING for i in reading.holding(word)})]


def _is_spoken(text: str) -> bool:
    """Whether a text is how a person puts it: some sentences, no log."""
    if len(text) > _MIXED or _PROGRAM.search(text):
        return False
    lines = [line for line in text.split("\n") if line.strip() and not _FORM.match(line)]
    size = sum(map(len, lines))
    if len(lines) <= _FEW:
        return size <= _SENTENCE
    return len(lines) <= _LINES and size <= 2 * _SENTENCE and all(_is_sentence(line) for line in lines)


def _is_sentence(line: str) -> bool:
    """Whether a line is a person's sentence: some words in a row, and few signs of a program."""
    return bool(_WORDS.match(line)) and len(_SIGNS.findall(line)) <= 1 and not _PROGRAM.search(line)


def _fits(cause: Cause, heard: Heard) -> bool:
    """Whether a cause's messages are there."""
    there = heard.messages
    return (
        any(name in there for name in cause.on)
        and all(any(name in there for name in group) for group in cause.needs)
        and not any(name in there for name in cause.without)
    )


def _weigh(cause: Cause, heard: Heard, facts: Facts, *, context: bool) -> Finding:
    """Say how sure a cause is on this machine."""
    value = cause.confidence if context else min(cause.confidence, cause.alone)
    if heard.hearsay.issuperset(name for name in cause.on if name in heard.messages):
        value = min(value, _HEARSAY)
    answers = [holds(fact.when, facts) for fact in cause.facts]
    for fact, answer in zip(cause.facts, answers, strict=True):
        if answer is True:
            value = max(value, fact.then)
        elif answer is False and fact.otherwise is not None:
            value = min(value, fact.otherwise)
    decided = True in answers
    return Finding(
        reference=cause.reference,
        rule=cause.id,
        confidence=value,
        evidence=_evidence(cause, heard),
        cause=cause.cause,
        fix=cause.fix,
        tell=() if decided else cause.tell,
        docs=cause.docs,
    )


def _evidence(cause: Cause, heard: Heard) -> tuple[str, ...]:
    """Quote the lines that show a cause: the first ones, and the last."""
    positions = sorted({i for name in cause.on for i in heard.messages.get(name, ())})
    if len(positions) > EVIDENCE:
        positions = [*positions[: EVIDENCE - 1], positions[-1]]
    reading = heard.reading
    return tuple(f"line {reading.numbers[i]}: {reading.lines[i].strip()[:_WIDTH]}" for i in positions)


def _one_of_each(ranked: Sequence[Finding]) -> tuple[Finding, ...]:
    """Keep the surest finding of each kind; what else spoke for it becomes evidence."""
    best: dict[str, Finding] = {}
    for finding in ranked:
        first = best.get(finding.reference)
        if first is None:
            best[finding.reference] = finding
        else:
            lines = tuple(dict.fromkeys((*first.evidence, *finding.evidence)))[:EVIDENCE]
            best[finding.reference] = replace(first, evidence=lines)
    return tuple(best.values())
