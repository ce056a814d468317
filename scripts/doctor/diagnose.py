"""From a program's words to an event, its causes and findings, best first. Pure.

A row names what must be in the event (phrases, classes of codes, owners of what is missing, surroundings),
what the machine may add, and which rows it goes before. How sure a row is: ``data/confidence.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from scripts.doctor.context import naming_lines
from scripts.doctor.event import CONDITIONS_OF_EVENTS, Event, read_event
from scripts.doctor.knowledge import RANKS, Cause, Confidence, Knowledge, knowledge
from scripts.doctor.machine import Facts, holds, with_text
from scripts.serialize import JsonRecord

#: Kinds that say how it looks, not why: between a person's guesses they go last.
_SYMPTOMS: Final = frozenset({"first-run-compile", "wrong-results", "cpu-fallback"})
#: What a person writes between a program's lines is no more than this.
_UNRELIABLE: Final = "hint"
#: The surest word that an explanation of a rank may get.
_SUREST: Final = {
    "decisive": Confidence.CERTAIN,
    "specific": Confidence.CERTAIN,
    "general": Confidence.POSSIBLE,
    "hint": Confidence.POSSIBLE,
    "topic": Confidence.WEAK,
    "silent": Confidence.UNKNOWN,
}


#: How programs mark a line after which they went on.
_WARNING: Final = re.compile(r"\b\w{0,24}warning\b|\bwarn\b|\bwrn\b|^\W{0,2}w\d{4} |: w [a-z]+/")
#: How a person introduces lines that a program printed before those above.
_BEFORE: Final = re.compile(r"^\W{0,4}(?:further up|higher up|earlier|before that)\b.{0,40}:\s*$")
_BEFORE_WORDS: Final = ("further up", "higher up", "earlier", "before that")
#: Stands behind every line of a log.
_NEVER: Final = 1 << 30


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """A row that fits an event: its rank here, the lines that show it, whether the machine decided."""

    cause: Cause
    rank: str
    positions: tuple[int, ...]
    decided: bool = False
    unreliable: bool = False

    @property
    def key(self) -> str:
        """Under which its confidence is measured."""
        return f"{self.cause.id}+facts" if self.decided else self.cause.id


def fitting_causes(event: Event, facts: Facts, known: Knowledge, *, silent: bool = False) -> list[Fit]:
    """Return the rows that fit, the one that explains best first; silent ones are left out by default.

    A program's last words go before its earlier warnings, the first failure before what followed from it.
    """
    there = event.matches.lines
    about_amd = "amd" in there or (bool(facts.amd) and "nvidia" not in there)
    order = {cause.id: number for number, cause in enumerate(known.causes)}
    fits = [fit for cause in known.causes if (fit := _fit(cause, event, facts, about_amd=about_amd))]
    chosen = [fit for fit in fits if silent or fit.rank != "silent"]

    turn = _turn(event)

    def place(fit: Fit) -> tuple[int, int, bool, int, int]:
        symptom = fit.unreliable and fit.cause.reference in _SYMPTOMS
        # After a warning a program went on.
        said = [i for i in fit.positions if not _WARNING.search(event.sample.plain[i])]
        rank = RANKS.index(fit.rank) + (not said and bool(fit.positions))
        first = min((i - (_NEVER if i > turn else 0) for i in said or fit.positions), default=_NEVER)
        return rank, fit.unreliable + symptom, not fit.decided, first, order[fit.cause.id]

    return sorted(chosen, key=place)


def _turn(event: Event) -> int:
    """Return the line after which earlier lines of the log are quoted."""
    sample = event.sample
    lines = sorted({i for word in _BEFORE_WORDS for i in sample.holding(word)})
    return next((i for i in lines if _BEFORE.search(sample.plain[i])), _NEVER)


def confidence_of(fit: Fit, known: Knowledge) -> Confidence:
    """Say how sure a row is here: as measured, and no more than its rank allows."""
    measured = known.measured.get(fit.key, Confidence.POSSIBLE)
    limit = _SUREST[fit.rank]
    return max(measured, limit, key=lambda word: word.order)


def _fit(cause: Cause, event: Event, facts: Facts, *, about_amd: bool) -> Fit | None:
    there = event.matches.lines
    if any(name in there for name in cause.without):
        return None
    if not all(any(name in there for name in group) for group in cause.needs):
        return None
    positions = {i for name in cause.on for i in there.get(name, ())}
    said = bool(positions)
    for name, wanted in cause.event.items():
        shown = CONDITIONS_OF_EVENTS[name](wanted, event)
        if shown is None:
            return None
        positions |= {*shown}
    if cause.on and not said:
        return None
    return _ranked(cause, event, facts, tuple(sorted(positions)), about_amd=about_amd)


def _ranked(cause: Cause, event: Event, facts: Facts, positions: tuple[int, ...], *, about_amd: bool) -> Fit:
    """Rank one row by what the machine tells, and by whether the text is about AMD's software at all."""
    rank = cause.rank if about_amd else _lower(cause.rank, cause.alone)
    named = [name for name in cause.on if name in event.matches.lines]
    unreliable = bool(named) and event.matches.unreliable.issuperset(named)
    if unreliable:
        rank = _lower(rank, _UNRELIABLE)
    answers = [holds(fact.when, facts) for fact in cause.facts]
    for fact, answer in zip(cause.facts, answers, strict=True):
        if answer is True:
            rank = min(rank, fact.then, key=RANKS.index)
        elif answer is False and fact.otherwise:
            rank = _lower(rank, fact.otherwise)
    decided = True in answers
    return Fit(cause=cause, rank=rank, positions=positions, decided=decided, unreliable=unreliable)


def _lower(*ranks: str) -> str:
    return max(ranks, key=RANKS.index)


#: Findings that are shown, and lines of evidence for each.
MOST: Final = 5
EVIDENCE: Final = 3


class Finding(JsonRecord, frozen=True, kw_only=True):
    """One explanation.

    Attributes:
        reference: the kind of failure.
        rule: the row of the table that says so.
        confidence: how sure it is, as measured on reports.
        evidence: lines of the text, with their numbers.
        cause: what happened, in one or two sentences.
        fix: what to do, the first things first.
        tell: what would tell this cause from the others of the same message.
        docs: where the kind is described.
        key: under which its confidence is measured.
    """

    reference: str
    rule: str
    confidence: Confidence
    evidence: tuple[str, ...]
    cause: str
    fix: tuple[str, ...]
    tell: tuple[str, ...] = ()
    docs: str = ""
    key: str = ""

    JSON = "reference rule confidence evidence cause fix tell docs"


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What happened, and what may explain it, best first."""

    event: Event
    findings: tuple[Finding, ...]


def diagnose(data: bytes | str, facts: Facts | None = None) -> tuple[Finding, ...]:
    """Explain a program's output; nothing where nothing is known. See ``examine_log``."""
    return examine_log(data, facts).findings


def examine_log(data: bytes | str, facts: Facts | None = None) -> Diagnosis:
    """Read a program's output and explain it.

    Args:
        data: the text, in whatever encoding.
        facts: what is known of the machine it comes from; what the text itself tells goes before.
    """
    known = knowledge()
    event = read_event(data, known.book)
    if event.empty and not event.matches.lines:
        return Diagnosis(event=event, findings=())
    told = with_text(facts or Facts(), naming_lines(event.sample))
    fits = fitting_causes(event, told, known)
    findings = [_finding(fit, event, told, known) for fit in fits]
    return Diagnosis(event=event, findings=_one_of_each(findings)[:MOST])


def fitting(data: bytes | str) -> tuple[str, ...]:
    """Return the rows that fit a text where nothing is known of the machine, whatever they are worth."""
    known = knowledge()
    fits = fitting_causes(read_event(data, known.book), Facts(amd=True), known, silent=True)
    return tuple(fit.cause.id for fit in fits)


def _finding(fit: Fit, event: Event, facts: Facts, known: Knowledge) -> Finding:
    cause = fit.cause
    rocm = event.native
    said = (rocm and cause.cause_rocm) or cause.cause
    steps = (rocm and cause.fix_rocm) or cause.fix
    shown = fit.positions  # of many lines the first ones, and the last
    if len(shown) > EVIDENCE:
        shown = (*shown[: EVIDENCE - 1], shown[-1])
    if rocm:  # nothing has to be wrapped there
        steps = tuple(sorted(steps, key=lambda step: "invoke wrap" in step))
    return Finding(
        reference=cause.reference,
        rule=cause.id,
        confidence=confidence_of(fit, known),
        evidence=event.quote(shown),
        cause=_with_names(_filled(said, fit, event, facts), fit, event),
        fix=tuple(_filled(step, fit, event, facts) for step in steps),
        tell=() if fit.decided else tuple(_filled(one, fit, event, facts) for one in cause.tell),
        docs=cause.docs,
        key=fit.key,
    )


def _filled(text: str, fit: Fit, event: Event, facts: Facts) -> str:
    """Fill in the names that a sentence has room for."""
    linux = (event.context.system or facts.os) == "linux"
    if linux:
        text = text.replace("DLLs", "libraries").replace("DLL", "library")
    if "{" not in text:
        return text
    things = [seen for seen in event.objects if seen.line in fit.positions] or list(event.objects)
    codes = [seen.code for seen in event.statuses if seen.line in fit.positions]
    kind = "library" if linux else "DLL"
    names = {
        "{object}": things[0].name if things else f"a {kind}",
        "{owner}": things[0].owner.owner if things else "",
        "{status}": f"{codes[0].name} ({codes[0].meaning})" if codes else "the error",
        "{library}": kind,
    }
    for hole, name in names.items():
        text = text.replace(hole, name)
    return text if text.startswith(names["{object}"]) else text[:1].upper() + text[1:]


def _with_names(text: str, fit: Fit, event: Event) -> str:
    """Add the library that a row rests on where its sentence does not name it."""
    named = (seen.name for seen in event.objects if seen.kind == "library" and seen.line in fit.positions)
    name = next(named, "")
    return f"{text} Named in the log: {name}." if name and name not in text else text


def _one_of_each(ranked: Sequence[Finding]) -> tuple[Finding, ...]:
    """Keep the best finding of each kind; what else spoke for it becomes evidence.

    Only the first was measured: what comes behind it is possible at most, and no surer than the first.
    """
    best: dict[str, Finding] = {}
    for finding in ranked:
        first = best.get(finding.reference)
        if first is None and not best:
            best[finding.reference] = finding
        elif first is None:
            words = (finding.confidence, Confidence.POSSIBLE, ranked[0].confidence)
            word = max(words, key=lambda word: word.order)
            best[finding.reference] = msgspec.structs.replace(finding, confidence=word)
        else:
            lines = tuple(dict.fromkeys((*first.evidence, *finding.evidence)))[:EVIDENCE]
            best[finding.reference] = msgspec.structs.replace(first, evidence=lines)
    return tuple(best.values())
