"""Find in a text the names of a person and a machine, and people's folders, however they are escaped."""

from __future__ import annotations

import html.entities
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from unicodedata import normalize
from urllib.parse import quote

from scripts.osal.redaction_nets import Span, View
from scripts.osal.redaction_rules import ORDINARY, SHARED_FOLDERS

_SEP: Final = r"(?:[\\/]|%5[cC]|%2[fF]){1,4}"
#: Where a word begins: also behind an escape, whose last character looks like a letter.
_START: Final = r"(?:(?<![^\W_])|(?<=%[0-9a-f]{2})|(?<=\\[nrtbf])|(?<=[0-9;\[]m))"
_END: Final = r"(?![^\W_])"
_PARENTS: Final = r"(?:export|var|data|net|nfs|mnt|srv|lustre|gpfs|scratch|usr|volumes?)\d{0,2}"
_FOLDER: Final = re.compile(
    rf"((?:\b[a-z](?::|%3a)|/mnt/[a-z]|(?<!\w)/[a-z](?=/)|(?<![\w/.:])/{_PARENTS}|\x1b\[[0-9;]*m|(?<!\w)){_SEP}"
    rf"(?:users|homes?|documents and settings){_SEP})"
    r"(?P<name>[^\\/\r\n\"'<>|:*?%]+(?=[\\/]|%5c|%2f)|<user>|[^\\/\s\"'<>|:*?,;)\]]+)",
    re.IGNORECASE,
)
_SHARE: Final = re.compile(
    r"(?<![\w\\/:.%])\\{2,4}(?![?.<])(?P<host>[\w.-]{1,255})\\{1,2}(?P<share>[^\\/\s\"'<>|]{1,80})"
)
_ACCOUNT: Final = re.compile(
    r"(?<![\w\\/:.%-])(?P<domain>[A-Z][A-Z0-9-]{2,14})\\{1,2}(?P<user>[a-z][\w.$-]{1,30})(?![\w\\/])"
)
#: Domains of accounts that every Windows has.
_BUILT_IN: Final = frozenset({"nt authority", "builtin", "nt service", "font driver host", "window manager"})
#: A window around a literal that surely holds the path it is part of.
_BACK, _AHEAD = 40, 400
_ASCII: Final = 128


class Known(NamedTuple):
    """One expression for something known, the literals that must stand in it, and what takes its place."""

    pattern: re.Pattern[str]
    literals: tuple[str, ...]
    put: str
    back: int = 0


def home_patterns(home: str) -> tuple[Known, ...]:
    """Return how a home folder is found; a root is none."""
    parts = [p for p in re.split(r"[\\/]+", home) if p]
    drive = bool(parts) and re.fullmatch(r"[A-Za-z]:", parts[0]) is not None
    if len(parts) <= int(drive):
        return ()
    # A home of one component (/root) is a word of other paths too: /srv/root stays.
    lead = "" if drive else rf"(?<!\w){_SEP}" if len(parts) == 1 else _SEP
    body = _SEP.join(f"(?:{'|'.join(map(re.escape, _spellings(part)))})" for part in parts)
    pattern = re.compile(lead + body + r"(?![\w-])", re.IGNORECASE)
    longest = sum(max(map(len, _spellings(part))) + 12 for part in parts)
    return (Known(pattern, _literals(_spellings(parts[-1])), "<home>", longest),)


def word_patterns(names: Iterable[tuple[str, str]], user: str) -> tuple[Known, ...]:
    """Return how distinctive names are found, longest first; Windows shortens long ones to MAXMUS~1."""
    found = []
    for name, put in sorted(names, key=lambda item: -len(item[0])):
        for form in _spellings(name):
            pattern = re.compile(f"{_START}{re.escape(form)}{_END}", re.IGNORECASE)
            found.append(Known(pattern, _literals((form,)), put, len(form)))
        if name == user:
            short = re.sub(r"[ .]", "", name)[:6]
            pattern = re.compile(rf"{_START}{re.escape(short)}~\d+{_END}", re.IGNORECASE)
            found.append(Known(pattern, ("~",), put, len(short)))
    return tuple(found)


def words_in(view: View, known: Iterable[Known]) -> Iterator[Span]:
    """Find what is known; where it has no literal to look for, the whole text is searched."""
    for item in known:
        if not item.literals:
            yield from ((*match.span(), item.put) for match in item.pattern.finditer(view.text))
            continue
        for literal in item.literals:
            done = -1
            for at in view.places(literal):
                match = _around(item.pattern, view.text, at, item.back) if at >= done else None
                if match is not None:
                    done = match.end()
                    yield *match.span(), item.put


def _around(pattern: re.Pattern[str], text: str, at: int, back: int) -> re.Match[str] | None:
    """Return the match that holds the character at a position."""
    found = pattern.finditer(text, max(0, at - back), at + back + _AHEAD)
    return next((m for m in found if m.end() > at), None)


def folders_in(view: View) -> Iterator[Span]:
    """Find any person's home folder, shares and Windows accounts."""
    for literal in ("users", "home", "documents and settings"):
        for at in view.places(literal):
            match = _around(_FOLDER, view.text, at, _BACK)
            if match is not None and match.start() <= at and match["name"].casefold() not in SHARED_FOLDERS:
                yield *match.span("name"), "<user>"
    if "\\" not in view.text:
        return
    for at in view.places("\\\\"):
        match = _SHARE.match(view.text, at)
        if match is not None and not match["host"].isdigit():
            yield *match.span("host"), "<host>"
            yield *match.span("share"), "<share>"
    for match in _ACCOUNT.finditer(view.text):
        words = {match["domain"].casefold(), match["user"].casefold()}
        if not words & (ORDINARY | _BUILT_IN) and "." not in match["user"][-5:]:
            yield *match.span("domain"), "<domain>"
            yield *match.span("user"), "<user>"


def _spellings(name: str) -> tuple[str, ...]:
    """Return a name plain and in the escapes that programs write: URL, JSON, C, HTML, mail, misread UTF-8."""
    plain = {name, name.upper(), normalize("NFC", name), normalize("NFD", name)}
    found = set(plain)
    for form in plain:
        found |= {
            quote(form),
            quote(form, safe="").replace("%20", "+"),
            json.dumps(form)[1:-1],
            html.escape(form),
        }
        if not form.isascii():
            found |= set(_escapes(form))
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def _escapes(name: str) -> Iterator[str]:
    """Write a name that is not ASCII as programs do that do not trust their output's encoding."""
    raw = name.encode("utf-8", "surrogatepass")
    yield repr(raw)[2:-1]
    yield name.encode("unicode_escape").decode()
    yield name.encode("ascii", "xmlcharrefreplace").decode()
    yield "".join(chr(byte) if byte < _ASCII else f"\\{byte:03o}" for byte in raw)
    yield "".join(chr(byte) if byte < _ASCII else f"={byte:02X}" for byte in raw)
    yield "".join(c if c.isascii() else f"&#x{ord(c):x};" for c in name)
    named = html.entities.codepoint2name
    yield "".join(c if c.isascii() else f"&{named.get(ord(c), c)};" for c in name)
    yield raw.decode("latin-1")
    yield raw.decode("cp1252", "replace")


def _literals(forms: Iterable[str]) -> tuple[str, ...]:
    """Return for each form its longest run of ASCII; nothing where one has none worth looking for."""
    runs = {max(re.findall(r"[\x20-\x7e]+", form), key=len, default="").lower() for form in forms}
    return () if any(len(run) < 2 for run in runs) else tuple(sorted(runs))  # noqa: PLR2004 - one is everywhere
