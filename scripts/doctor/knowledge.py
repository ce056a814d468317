"""The table ``data/knowledge.toml`` by which the doctor decides, and how sure its rows are as measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, Final

import msgspec

from scripts.doctor.event import CONDITIONS_OF_EVENTS, OF_CODE, SHOWING, listed
from scripts.doctor.machine import CONDITIONS
from scripts.doctor.phrases import PhraseBook, phrase_book
from scripts.serialize import data_table, pick
from scripts.statuses import StatusCode

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


class IfFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the machine tells about a cause: its rank where ``when`` holds, and where it does not."""

    when: dict[str, Any]
    then: str
    otherwise: str = msgspec.field(default="", name="else")


class Cause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table.

    Attributes:
        id: the row's name.
        reference: the kind of failure, one of ``REFERENCES``.
        on: phrases of which one must be there, unless ``event`` names codes or objects.
        groups: phrases joined by ``|``, of each group one must be there.
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
    on: tuple[str, ...] = ()
    groups: tuple[str, ...] = msgspec.field(default=(), name="with")
    without: tuple[str, ...] = ()
    event: dict[str, Any] = {}
    rank: str
    alone: str = "hint"
    facts: tuple[IfFact, ...] = ()
    cause: str
    fix: tuple[str, ...]
    cause_rocm: str = ""
    fix_rocm: tuple[str, ...] = ()
    tell: tuple[str, ...] = ()
    source: tuple[str, ...]

    @property
    def needs(self) -> tuple[list[str], ...]:
        """The groups, taken apart."""
        return tuple(group.split("|") for group in self.groups)

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
    return read_knowledge(data_table("knowledge.toml"), phrase_book(), data_table("confidence.toml")["rows"])


def read_knowledge(
    document: Mapping[str, Any], book: PhraseBook, measured: Mapping[str, str] | None = None
) -> Knowledge:
    """Make the table of a document.

    Raises:
        ValueError: a row names an unknown phrase, kind, rank or condition, or holds an unknown key.
    """
    causes = msgspec.convert(document["cause"], tuple[Cause, ...])
    for cause in causes:
        if not cause.on and not set(cause.event) & SHOWING:
            msg = f"{cause.id} names nothing that a log would have to show"
            raise ValueError(msg)
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


class CodeMeaning(msgspec.Struct, frozen=True, kw_only=True):
    """What a status code says, and what mostly causes it where AMD's software or a translation layer runs."""

    code: StatusCode
    causes: tuple[Cause, ...]

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        causes = [
            {**pick(cause, "reference rule=id"), "cause": _about(cause, self.code), "fix": list(cause.fix)}
            for cause in self.causes
        ]
        return {**pick(self.code, OF_CODE), "causes": causes}

    def sentences(self) -> Iterator[tuple[str, str]]:
        """Yield for each cause the kind of failure and what happened."""
        for cause in self.causes:
            yield cause.reference, _about(cause, self.code)


def meanings_of(code: StatusCode) -> CodeMeaning:
    """Look up what a status code mostly means: the rows of the table that ask for it and for no object."""
    forms = {code.kind, code.name, f"{code.enumeration}:{code.kind}", f"{code.enumeration}:*"}
    fitting = [
        cause
        for cause in knowledge().causes
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
