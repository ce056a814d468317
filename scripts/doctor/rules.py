"""The rules of ``data/knowledge.toml``: what can stand in a log, and what it means."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from scripts.doctor.facts import CONDITIONS

KNOWLEDGE: Final = Path(__file__).resolve().parents[1] / "data" / "knowledge.toml"

#: How sure a rule is at most, unless it says otherwise, where nothing speaks of AMD's software.
ALONE: Final = 0.45
#: The kinds of failure; a finding's ``reference`` is one of them.
REFERENCES: Final = (
    "missing-dll",
    "hip-root",
    "driver-version",
    "arch-libraries",
    "hipblaslt-missing",
    "cudnn-miopen",
    "antivirus",
    "wrong-device",
    "download-failed",
    "runtime-or-bitness",
    "unsupported-call",
    "first-run-compile",
    "overwritten-library",
    "path-encoding",
    "argument-quoting",
    "wrong-results",
    "unresolved-library",
    "device-query-quirk",
)


class Message(Struct, frozen=True, kw_only=True):
    """Something that can stand in a log: plain words that choose lines, and what must be found in one.

    Of every text that ``lines`` match a word is a part; without words every line is looked at.
    Lines in which one of ``but`` is found do not count. ``told`` ones are how people put it: they are
    looked for in sentences, never in a program's own lines; a ``topic`` only where there is nothing else.
    """

    name: str
    words: tuple[str, ...]
    lines: tuple[re.Pattern[str], ...]
    but: tuple[re.Pattern[str], ...] = ()
    told: bool = False
    topic: bool = False

    def in_line(self, line: str) -> bool:
        """Whether a line (lower case, ``/`` for slashes) shows it."""
        return any(p.search(line) for p in self.lines) and not any(p.search(line) for p in self.but)


class IfFact(Struct, frozen=True, kw_only=True):
    """What the machine tells about a cause: ``then`` where ``when`` holds, ``otherwise`` where not."""

    when: Mapping[str, object]
    then: float
    otherwise: float | None = None


class Cause(Struct, frozen=True, kw_only=True):
    """What messages mean, how sure that is, and what to do.

    Attributes:
        id: the rule's name.
        reference: the kind of failure, one of ``REFERENCES``.
        on: messages of which one must be there.
        needs: groups of messages, of each group one must be there.
        without: messages that must not be there.
        confidence: how sure it is where nothing of the machine is known; ``alone``: where nothing speaks of
            AMD's software, neither in the text nor on the machine.
        facts: what the machine may tell.
        tell: what would tell this cause from others of the same message.
        source: public reports it was learned from.
    """

    id: str
    reference: str
    on: tuple[str, ...]
    needs: tuple[tuple[str, ...], ...]
    without: tuple[str, ...]
    confidence: float
    alone: float
    facts: tuple[IfFact, ...]
    cause: str
    fix: tuple[str, ...]
    tell: tuple[str, ...]
    source: tuple[str, ...]

    @property
    def docs(self) -> str:
        """Where the kind of failure is described."""
        return f"docs/diagnoses.md#{self.reference}"


class Knowledge(Struct, frozen=True, kw_only=True):
    """All messages and causes, and the words that are looked for even in the middle of an enormous log."""

    messages: Mapping[str, Message]
    causes: tuple[Cause, ...]
    strong: tuple[str, ...]


@cache
def knowledge() -> Knowledge:
    """Read the rules once."""
    return read_knowledge(tomllib.loads(KNOWLEDGE.read_text(encoding="utf-8")))


def read_knowledge(document: Mapping[str, Any]) -> Knowledge:
    """Make rules of a document.

    Raises:
        ValueError: a rule names an unknown message, kind of failure or condition, or holds an unknown key.
    """
    messages = {name: _message(name, body) for name, body in document["message"].items()}
    causes = tuple(_cause(body) for body in document["cause"])
    for cause in causes:
        named = {*cause.on, *cause.without, *(name for group in cause.needs for name in group)}
        wrong = sorted(named - set(messages))
        wrong += [cause.reference] if cause.reference not in REFERENCES else []
        wrong += sorted({name for fact in cause.facts for name in fact.when} - CONDITIONS)
        if wrong:
            msg = f"{cause.id} names what is not there: {', '.join(wrong)}"
            raise ValueError(msg)
    return Knowledge(messages=messages, causes=causes, strong=tuple(document["strong"]))


def _pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern whose words end: one that looks for two in an endless word takes its length cubed."""
    return re.compile(text.replace(r"\w*", r"\w{0,24}").replace(r"\w+", r"\w{1,24}"))


def _message(name: str, body: Mapping[str, Any]) -> Message:
    """Read one message."""
    _only(name, body, {"words", "lines", "but", "told", "topic"})
    return Message(
        name=name,
        words=tuple(body.get("words", ())),
        lines=tuple(map(_pattern, body["lines"])),
        but=tuple(map(_pattern, body.get("but", ()))),
        told=body.get("told", False) or body.get("topic", False),
        topic=body.get("topic", False),
    )


def _cause(body: Mapping[str, Any]) -> Cause:
    """Read one cause."""
    name = str(body["id"])
    _only(
        name,
        body,
        {"id", "reference", "on", "with", "without", "confidence", "alone", "facts", "cause", "fix", "tell"}
        | {"source"},
    )
    confidence = float(body["confidence"])
    return Cause(
        id=name,
        reference=body["reference"],
        on=tuple(body["on"]),
        needs=tuple(tuple(group.split("|")) for group in body.get("with", ())),
        without=tuple(body.get("without", ())),
        confidence=confidence,
        alone=float(body.get("alone", min(confidence, ALONE))),
        facts=_facts(body.get("facts", ())),
        cause=body["cause"],
        fix=tuple(body["fix"]),
        tell=tuple(body.get("tell", ())),
        source=tuple(body["source"]),
    )


def _facts(entries: Sequence[Mapping[str, Any]]) -> tuple[IfFact, ...]:
    """Read what the machine may tell."""
    for entry in entries:
        _only("facts", entry, {"when", "then", "else"})
    return tuple(IfFact(when=e["when"], then=e["then"], otherwise=e.get("else")) for e in entries)


def _only(name: str, body: Mapping[str, Any], known: set[str]) -> None:
    """Refuse keys that nothing reads."""
    if unknown := sorted(set(body) - known):
        msg = f"{name} holds unknown keys: {', '.join(unknown)}"
        raise ValueError(msg)
