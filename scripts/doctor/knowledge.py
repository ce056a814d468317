"""The table ``data/knowledge.toml`` by which the doctor decides, and how sure its rows are as measured."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from scripts.doctor.event import CONDITIONS_OF_EVENTS, SHOWING, listed
from scripts.doctor.machine import CONDITIONS
from scripts.doctor.phrases import PhraseBook, phrase_book
from scripts.statuses import StatusCode

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
#: Which explanation goes before which, and what stays silent; within one rank the earlier row wins.
RANKS: Final = ("decisive", "specific", "general", "hint", "topic", "silent")
_KEYS: Final = frozenset(
    {
        "id",
        "reference",
        "on",
        "with",
        "without",
        "event",
        "rank",
        "alone",
        "facts",
        "cause",
        "cause_rocm",
        "fix",
        "fix_rocm",
    }
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
        fix: what to do.
        cause_rocm: what happened where AMD's own software runs the program, without a layer, if that differs.
        fix_rocm: what to do there.
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
    cause_rocm: str
    fix_rocm: tuple[str, ...]
    tell: tuple[str, ...]
    source: tuple[str, ...]

    @property
    def docs(self) -> str:
        """Where the kind of failure is described."""
        return f"docs/diagnoses.md#{self.reference}"


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


def _cause(body: Mapping[str, Any]) -> Cause:
    """Read one row."""
    name = str(body["id"])
    if unknown := sorted(set(body) - _KEYS):
        msg = f"{name} holds unknown keys: {', '.join(unknown)}"
        raise ValueError(msg)
    event = dict(body.get("event", {}))
    if "on" not in body and not set(event) & SHOWING:
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
        cause_rocm=body.get("cause_rocm", ""),
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


class CodeMeaning(msgspec.Struct, frozen=True, kw_only=True):
    """What a status code says, and what mostly causes it where AMD's software or a translation layer runs."""

    code: StatusCode
    causes: tuple[Cause, ...]

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        code = self.code
        return {
            "name": code.name,
            "number": code.number,
            "enumeration": code.enumeration,
            "title": code.title,
            "class": code.kind,
            "meaning": code.meaning,
            "causes": [
                {
                    "reference": cause.reference,
                    "rule": cause.id,
                    "cause": _about(cause, code),
                    "fix": list(cause.fix),
                }
                for cause in self.causes
            ],
        }

    def sentences(self) -> Iterator[tuple[str, str]]:
        """Yield for each cause the kind of failure and what happened."""
        for cause in self.causes:
            yield cause.reference, _about(cause, self.code)


def meanings_of(code: StatusCode, known: Knowledge | None = None) -> CodeMeaning:
    """Look up what a status code mostly means: the rows of the table that ask for it and for no object."""
    rows = (known or knowledge()).causes
    forms = {code.kind, code.name, f"{code.enumeration}:{code.kind}", f"{code.enumeration}:*"}
    fitting = [
        cause
        for cause in rows
        if forms & set(listed(cause.event.get("status", [])))
        and not set(cause.event) - {"status", "layer", "amd", "nvidia"}
        and not cause.needs
        and cause.rank != "silent"
    ]
    ranked = sorted(fitting, key=lambda cause: RANKS.index(cause.rank))
    return CodeMeaning(code=code, causes=() if code.harmless else tuple(ranked[:2]))


def _about(cause: Cause, code: StatusCode) -> str:
    """Fill a code's name into what a row says."""
    return cause.cause.replace("{status}", code.name).replace("{library}", "library")
