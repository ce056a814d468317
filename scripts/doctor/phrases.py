"""Phrases of ``data/phrases.toml``: how programs and people put failures, and where a log has them.

They are the part of stage one that knows wordings; codes and names are read by ``status_reader`` and
``object_reader``. What a person writes between a program's lines is kept apart as unreliable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from scripts.doctor.log_sampling import LogSample
from scripts.serialize import data_table

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


class Phrase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that can stand in a log: plain words that choose lines, and what must be found in one.

    Of every text that ``lines`` match a word is a part; without words every line is looked at.
    Lines in which one of ``unless`` is found do not count. ``user`` ones are how people put it: they are
    looked for in sentences, never in a program's own lines; a ``topic`` only where there is nothing else.
    """

    lines: tuple[re.Pattern[str], ...]
    words: tuple[str, ...] = ()
    unless: tuple[re.Pattern[str], ...] = ()
    put_so: bool = msgspec.field(default=False, name="user")
    topic: bool = False

    @property
    def user(self) -> bool:
        """Whether it is how people put it."""
        return self.put_so or self.topic

    def in_line(self, line: str) -> bool:
        """Whether a line (lower case, ``/`` for slashes) shows it."""
        return any(p.search(line) for p in self.lines) and not any(p.search(line) for p in self.unless)


class PhraseBook(msgspec.Struct, frozen=True, kw_only=True):
    """All phrases, the words to find even in the middle of an enormous log, and what is no evidence."""

    phrases: dict[str, Phrase] = msgspec.field(name="phrase")
    strong: tuple[str, ...]
    harmless: tuple[re.Pattern[str], ...]
    harmless_next: tuple[re.Pattern[str], ...]
    removed: tuple[re.Pattern[str], ...]


class Matches(msgspec.Struct, frozen=True, kw_only=True):
    """Which phrases a log holds: by name, the positions of lines that show it.

    ``unreliable`` names those that are only a person's words between a program's.
    """

    lines: Mapping[str, tuple[int, ...]]
    unreliable: frozenset[str] = frozenset()


@cache
def phrase_book() -> PhraseBook:
    """Read the phrases once."""
    return read_phrases(data_table("phrases.toml"))


def read_phrases(document: Mapping[str, Any]) -> PhraseBook:
    """Make phrases of a document.

    Raises:
        ValueError: one holds an unknown key.
    """
    return msgspec.convert(document, PhraseBook, dec_hook=lambda _, text: _pattern(text))


def without_harmless(sample: LogSample, book: PhraseBook) -> LogSample:
    """Blank what is no evidence: lines that call themselves harmless, boxes of forms, addresses of pages."""
    text = sample.text
    for pattern in book.removed:
        text = pattern.sub(" ", text)
    lines = text.split("\n")
    dropped = {i for i, line in enumerate(lines) if any(p.search(line) for p in book.harmless)}
    dropped |= {
        i - 1
        for i, line in enumerate(lines)
        if i and any(p.search(line) for p in book.harmless_next) and _same_subject(lines[i - 1], line)
    }
    kept = ["" if i in dropped else line for i, line in enumerate(lines)]
    return LogSample(numbers=sample.numbers, lines=sample.lines, text="\n".join(kept))


def _same_subject(line: str, note: str) -> bool:
    """Whether a note below a line speaks of the same thing as the line."""
    names = set(re.findall(r"[a-z][\w-]{4,}", note[:120]))
    return any(word in names for word in re.findall(r"[a-z][\w-]{4,}", line[:120])[:3])


def match_phrases(sample: LogSample, book: PhraseBook) -> Matches:
    """Find which phrases a log holds."""
    found: dict[str, tuple[int, ...]] = {}
    lines: dict[str, tuple[int, ...]] = {}
    spoken = _is_spoken(sample.text)
    mixed = not spoken and len(sample.text) <= _MIXED
    for name, phrase in book.phrases.items():
        if phrase.user and not spoken and (phrase.topic or not mixed):
            continue
        for word in phrase.words:
            if word not in lines:
                lines[word] = tuple(sample.holding(word))
        candidates = sorted({line for word in phrase.words for line in lines[word]})
        if not phrase.words:
            candidates = list(range(len(sample.plain)))
        if phrase.user and mixed:
            candidates = [i for i in candidates if is_sentence(sample.plain[i])]
        hits = [i for i in candidates if phrase.in_line(sample.plain[i])]
        if hits:
            found[name] = tuple(hits)
    told = {name for name in found if book.phrases[name].user}
    return Matches(lines=found, unreliable=frozenset(told if mixed else ()))


def _is_spoken(text: str) -> bool:
    """Whether a text is how a person puts it: some sentences, no log."""
    if len(text) > _MIXED or _PROGRAM.search(text):
        return False
    lines = [line for line in text.split("\n") if line.strip() and not _FORM.match(line)]
    size = sum(map(len, lines))
    if len(lines) <= _FEW:
        return size <= _SENTENCE
    return len(lines) <= _LINES and size <= 2 * _SENTENCE and all(is_sentence(line) for line in lines)


def is_sentence(line: str) -> bool:
    """Whether a line is a person's sentence: some words in a row, and few signs of a program."""
    return bool(_WORDS.match(line)) and len(_SIGNS.findall(line)) <= 1 and not _PROGRAM.search(line)


def _pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern whose words end: one that looks for two in an endless word takes its length cubed."""
    return re.compile(text.replace(r"\w*", r"\w{0,24}").replace(r"\w+", r"\w{1,24}"))
