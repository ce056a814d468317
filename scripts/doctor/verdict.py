"""Stage two of the doctor: which causes fit an event, by the table ``data/knowledge.toml``. Pure.

A row names what must be in the event (phrases, classes of codes, owners of what is missing, surroundings),
what the machine may add, and which rows it goes before. How sure a row is: ``data/confidence.toml``.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scripts.doctor.event import Event
from scripts.doctor.event_conditions import CONDITIONS_OF_EVENTS
from scripts.doctor.facts import Facts, holds
from scripts.doctor.knowledge import RANKS, Cause, Confidence, Knowledge

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
    """Return the rows that fit, the one that explains best first; silent ones are left out by default."""
    there = event.matches.lines
    about_amd = "amd" in there or (bool(facts.amd) and "nvidia" not in there)
    order = {cause.id: number for number, cause in enumerate(known.causes)}
    fits = [fit for cause in known.causes if (fit := _fit(cause, event, facts, about_amd=about_amd))]
    chosen = [fit for fit in fits if silent or fit.rank != "silent"]

    def place(fit: Fit) -> tuple[int, int, bool, int]:
        symptom = fit.unreliable and fit.cause.reference in _SYMPTOMS
        return RANKS.index(fit.rank), fit.unreliable + symptom, not fit.decided, order[fit.cause.id]

    return sorted(chosen, key=place)


def confidence_of(fit: Fit, known: Knowledge) -> Confidence:
    """Say how sure a row is here: as measured, and no more than its rank allows."""
    measured = known.measured.get(fit.key, Confidence.POSSIBLE)
    limit = _SUREST[fit.rank]
    return max(measured, limit, key=lambda word: word.order)


def _fit(cause: Cause, event: Event, facts: Facts, *, about_amd: bool) -> Fit | None:
    """Judge one row."""
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
    """Return the lowest of some ranks."""
    return max(ranks, key=RANKS.index)
