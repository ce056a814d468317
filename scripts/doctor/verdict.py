"""Stage two of the doctor: which causes fit an event, by the table ``data/knowledge.toml``. Pure.

A row names what must be in the event (phrases, classes of codes, owners of what is missing, surroundings), what
the machine may add, and which rows it goes before. How sure a row is was measured: ``data/confidence.toml``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from scripts.doctor.event import ENDINGS, Event
from scripts.doctor.facts import CONDITIONS, Facts, holds
from scripts.doctor.phrases import PhraseBook, phrase_book

KNOWLEDGE: Final = Path(__file__).resolve().parents[1] / "data" / "knowledge.toml"
CONFIDENCE: Final = KNOWLEDGE.with_name("confidence.toml")
#: The kinds of failure; a finding's ``reference`` is one of them.
REFERENCES: Final = (
    *("missing-dll", "hip-root", "driver-version", "arch-libraries", "hipblaslt-missing", "cudnn-miopen"),
    *("antivirus", "blocked-by-policy", "wrong-device", "device-permission", "out-of-memory", "gpu-fault"),
    *("download-failed", "runtime-or-bitness", "host-compiler", "cpu-instruction", "unsupported-call"),
    *("first-run-compile", "overwritten-library", "cpu-fallback", "path-encoding", "argument-quoting"),
    *("wrong-results", "unresolved-library", "device-query-quirk"),
)
#: Which explanation goes before which, and what stays silent; within one rank the earlier row of the table wins.
RANKS: Final = ("decisive", "specific", "general", "hint", "topic", "silent")
#: Kinds that say how it looks, not why: between a person's guesses they go last.
_SYMPTOMS: Final = frozenset({"first-run-compile", "wrong-results", "cpu-fallback"})
#: What a person writes between a program's lines is no more than this.
_UNRELIABLE: Final = "hint"
_KEYS: Final = frozenset(
    {"id", "reference", "on", "with", "without", "event", "rank", "alone", "facts", "cause", "fix", "fix_rocm"}
    | {"tell", "source"}
)


class Confidence(StrEnum):
    """How sure a finding is, as measured on reports."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"
    WEAK = "weak"
    UNKNOWN = "unknown"

    @property
    def order(self) -> int:
        """0 for the surest."""
        return list(Confidence).index(self)

    @property
    def sure(self) -> bool:
        """Whether it is more likely right than not."""
        return self in {Confidence.CERTAIN, Confidence.LIKELY}


#: The surest word that an explanation of a rank may get.
_SUREST: Final = {
    "decisive": Confidence.CERTAIN,
    "specific": Confidence.CERTAIN,
    "general": Confidence.POSSIBLE,
    "hint": Confidence.POSSIBLE,
    "topic": Confidence.WEAK,
    "silent": Confidence.UNKNOWN,
}


class IfFact(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine tells about a cause: its rank where ``when`` holds, and where it does not."""

    when: Mapping[str, object]
    then: str
    otherwise: str = ""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table.

    Attributes:
        id: the row's name.
        reference: the kind of failure, one of ``REFERENCES``.
        on: phrases of which one must be there, unless ``event`` names codes or objects.
        needs: groups of phrases, of each group one must be there.
        without: phrases that must not be there.
        event: conditions on the event's other fields, see ``CONDITIONS_OF_EVENTS``.
        rank: which rows it goes before; ``alone``: where nothing speaks of AMD's software.
        facts: what the machine may tell.
        cause: what happened; ``{object}``, ``{status}`` and ``{library}`` are filled in.
        fix: what to do; ``fix_rocm``: for those who run AMD's own software without a translation layer.
        tell: what would tell this cause from others of the same message.
        source: public reports or references it was learned from.
    """

    id: str
    reference: str
    on: tuple[str, ...]
    needs: tuple[tuple[str, ...], ...]
    without: tuple[str, ...]
    event: Mapping[str, object]
    rank: str
    alone: str
    facts: tuple[IfFact, ...]
    cause: str
    fix: tuple[str, ...]
    fix_rocm: tuple[str, ...]
    tell: tuple[str, ...]
    source: tuple[str, ...]

    @property
    def docs(self) -> str:
        """Where the kind of failure is described."""
        return f"docs/diagnoses.md#{self.reference}"


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


class Knowledge(msgspec.Struct, frozen=True, kw_only=True):
    """The table, its phrases, and the measured confidence of its rows."""

    causes: tuple[Cause, ...]
    book: PhraseBook
    measured: Mapping[str, Confidence]


@cache
def knowledge() -> Knowledge:
    """Read the table once."""
    document = tomllib.loads(KNOWLEDGE.read_text(encoding="utf-8"))
    measured = tomllib.loads(CONFIDENCE.read_text(encoding="utf-8"))["rows"]
    return read_knowledge(document, phrase_book(), measured)


def read_knowledge(
    document: Mapping[str, Any], book: PhraseBook, measured: Mapping[str, str] | None = None
) -> Knowledge:
    """Make the table of a document.

    Raises:
        ValueError: a row names an unknown phrase, kind, rank or condition, or holds an unknown key.
    """
    causes = tuple(_cause(body) for body in document["cause"])
    for cause in causes:
        named = {*cause.on, *cause.without, *(name for group in cause.needs for name in group)}
        wrong = sorted(named - set(book.phrases))
        wrong += [cause.reference] if cause.reference not in REFERENCES else []
        wrong += sorted({name for fact in cause.facts for name in fact.when} - CONDITIONS)
        wrong += sorted(set(cause.event) - set(CONDITIONS_OF_EVENTS))
        ranks = {cause.rank, cause.alone, *(fact.then for fact in cause.facts)}
        ranks |= {fact.otherwise for fact in cause.facts if fact.otherwise}
        wrong += sorted(ranks - set(RANKS))
        if wrong:
            msg = f"{cause.id} names what is not there: {', '.join(wrong)}"
            raise ValueError(msg)
    words = {name: Confidence(word) for name, word in (measured or {}).items()}
    return Knowledge(causes=causes, book=book, measured=words)


def fitting_causes(event: Event, facts: Facts, known: Knowledge, *, silent: bool = False) -> list[Fit]:
    """Return the rows that fit, the one that explains best first; silent ones are left out by default."""
    there = event.matches.lines
    about_amd = "amd" in there or (bool(facts.amd) and "nvidia" not in there)
    order = {cause.id: number for number, cause in enumerate(known.causes)}
    fits = [fit for cause in known.causes if (fit := _fit(cause, event, facts, about_amd=about_amd))]
    chosen = [fit for fit in fits if silent or fit.rank != "silent"]

    def place(fit: Fit) -> tuple[int, int, int]:
        symptom = fit.unreliable and fit.cause.reference in _SYMPTOMS
        return RANKS.index(fit.rank), fit.unreliable + symptom, order[fit.cause.id]

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


def _ranked(
    cause: Cause, event: Event, facts: Facts, positions: tuple[int, ...], *, about_amd: bool
) -> Fit:
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


# --- conditions on events: the lines that show one (perhaps none), or None where it does not hold


def _listed(wanted: object) -> Sequence[str]:
    return [str(item) for item in wanted] if isinstance(wanted, list) else [str(wanted)]


def _status(wanted: object, event: Event) -> tuple[int, ...] | None:
    """A code of one of these classes; ``enumeration:class`` for one of one enumeration only."""
    forms = set(_listed(wanted))
    lines = [
        seen.line
        for seen in event.statuses
        if forms & {seen.code.kind, seen.code.name, f"{seen.code.enumeration}:{seen.code.kind}"}
        or f"{seen.code.enumeration}:*" in forms
    ]
    return tuple(lines) or None


def _call(wanted: object, event: Event) -> tuple[int, ...] | None:
    lines = [seen.line for seen in event.statuses if re.match(str(wanted), seen.call)]
    return tuple(lines) or None


def _object(wanted: object, event: Event, state: str) -> tuple[int, ...] | None:
    groups = set(_listed(wanted))
    lines = [seen.line for seen in event.objects if seen.state == state and seen.owner.group in groups]
    return tuple(lines) or None


def _kind(wanted: object, event: Event) -> tuple[int, ...] | None:
    lines = [seen.line for seen in event.objects if seen.kind in _listed(wanted)]
    return tuple(lines) or None


def _flag(wanted: object, *, known: bool) -> tuple[int, ...] | None:
    return () if known is wanted else None


def _system(wanted: object, event: Event) -> tuple[int, ...] | None:
    context = event.context
    there = {context.system} | ({"wsl"} if context.wsl else set())
    there |= {"container"} if context.container else set()
    return () if there & set(_listed(wanted)) else None


def _torch(wanted: object, event: Event) -> tuple[int, ...] | None:
    flavours = set(event.context.torch) or {"unknown"}
    return () if flavours & set(_listed(wanted)) else None


def _only_ending(wanted: object, event: Event) -> tuple[int, ...] | None:
    """Whether nothing is known but how a process ended."""
    endings = [seen.line for seen in event.statuses if seen.code.enumeration in ENDINGS]
    only = bool(endings) and len(endings) == len(event.statuses) and not event.objects
    return tuple(endings) if only is wanted else None


CONDITIONS_OF_EVENTS: Final[Mapping[str, Callable[[object, Event], tuple[int, ...] | None]]] = {
    "status": _status,
    "call": _call,
    "missing": lambda wanted, event: _object(wanted, event, "missing"),
    "refused": lambda wanted, event: _object(wanted, event, "refused"),
    "kind": _kind,
    "layer": lambda wanted, event: _flag(wanted, known=event.context.layer),
    "amd": lambda wanted, event: _flag(wanted, known=event.context.amd),
    "nvidia": lambda wanted, event: _flag(wanted, known=event.context.nvidia),
    "versions_differ": lambda wanted, event: _flag(wanted, known=event.context.versions_differ),
    "system": _system,
    "torch": _torch,
    "only_ending": _only_ending,
}
#: Conditions that show lines; a row without phrases needs one of them.
_SHOWING: Final = frozenset({"status", "call", "missing", "refused", "kind", "only_ending"})


def _cause(body: Mapping[str, Any]) -> Cause:
    """Read one row."""
    name = str(body["id"])
    if unknown := sorted(set(body) - _KEYS):
        msg = f"{name} holds unknown keys: {', '.join(unknown)}"
        raise ValueError(msg)
    event = dict(body.get("event", {}))
    if "on" not in body and not set(event) & _SHOWING:
        msg = f"{name} names nothing that a log would have to show"
        raise ValueError(msg)
    return Cause(
        id=name,
        reference=body["reference"],
        on=tuple(body.get("on", ())),
        needs=tuple(tuple(group.split("|")) for group in body.get("with", ())),
        without=tuple(body.get("without", ())),
        event=event,
        rank=body["rank"],
        alone=body.get("alone", "hint"),
        facts=tuple(_facts(name, body.get("facts", ()))),
        cause=body["cause"],
        fix=tuple(body["fix"]),
        fix_rocm=tuple(body.get("fix_rocm", ())),
        tell=tuple(body.get("tell", ())),
        source=tuple(body["source"]),
    )


def _facts(name: str, entries: Sequence[Mapping[str, Any]]) -> Iterator[IfFact]:
    """Read what the machine may tell."""
    for entry in entries:
        if unknown := sorted(set(entry) - {"when", "then", "else"}):
            msg = f"{name} holds unknown keys: {', '.join(unknown)}"
            raise ValueError(msg)
        yield IfFact(when=entry["when"], then=entry["then"], otherwise=entry.get("else", ""))
