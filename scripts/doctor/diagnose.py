"""From a program's words to an event and findings, best first. Pure; a text that is not known gives none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from scripts.doctor.context import naming_lines
from scripts.doctor.event import Event, read_event
from scripts.doctor.facts import Facts, with_text
from scripts.doctor.knowledge import Confidence, Knowledge, knowledge
from scripts.doctor.verdict import Fit, confidence_of, fitting_causes
from scripts.serialize import plain

#: Findings that are shown, and lines of evidence for each.
MOST: Final = 5
EVIDENCE: Final = 3


class Finding(msgspec.Struct, frozen=True, kw_only=True):
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

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        data: dict[str, object] = plain(self)
        return {name: value for name, value in data.items() if name != "key"}


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What happened, and what may explain it, best first."""

    event: Event
    findings: tuple[Finding, ...]


def diagnose(
    data: bytes | str, facts: Facts | None = None, *, rules: Knowledge | None = None
) -> tuple[Finding, ...]:
    """Explain a program's output; nothing where nothing is known. See ``examine_log``."""
    return examine_log(data, facts, rules=rules).findings


def examine_log(
    data: bytes | str, facts: Facts | None = None, *, rules: Knowledge | None = None
) -> Diagnosis:
    """Read a program's output and explain it.

    Args:
        data: the text, in whatever encoding.
        facts: what is known of the machine it comes from; what the text itself tells goes before.
        rules: another table than ours.
    """
    known = rules or knowledge()
    event = read_event(data, known.book)
    if event.empty and not event.matches.lines:
        return Diagnosis(event=event, findings=())
    told = with_text(facts or Facts(), naming_lines(event.sample))
    fits = fitting_causes(event, told, known)
    findings = [_finding(fit, event, told, known) for fit in fits]
    return Diagnosis(event=event, findings=_one_of_each(findings)[:MOST])


def fitting(data: bytes | str, *, rules: Knowledge | None = None) -> tuple[str, ...]:
    """Return the rows that fit a text where nothing is known of the machine, whatever they are worth."""
    known = rules or knowledge()
    fits = fitting_causes(read_event(data, known.book), Facts(amd=True), known, silent=True)
    return tuple(fit.cause.id for fit in fits)


def _finding(fit: Fit, event: Event, facts: Facts, known: Knowledge) -> Finding:
    """Put one explanation into words."""
    cause = fit.cause
    rocm = event.native
    said = (rocm and cause.cause_rocm) or cause.cause
    steps = (rocm and cause.fix_rocm) or cause.fix
    return Finding(
        reference=cause.reference,
        rule=cause.id,
        confidence=confidence_of(fit, known),
        evidence=event.quote(_first_and_last(fit.positions)),
        cause=_filled(said, fit, event, facts),
        fix=tuple(_filled(step, fit, event, facts) for step in steps),
        tell=() if fit.decided else cause.tell,
        docs=cause.docs,
        key=fit.key,
    )


def _first_and_last(positions: Sequence[int]) -> tuple[int, ...]:
    """Choose lines to quote: the first ones, and the last."""
    if len(positions) > EVIDENCE:
        return (*positions[: EVIDENCE - 1], positions[-1])
    return tuple(positions)


def _filled(text: str, fit: Fit, event: Event, facts: Facts) -> str:
    """Fill in the names that a sentence has room for."""
    if "{" not in text:
        return text
    linux = (event.context.system or facts.os) == "linux"
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
